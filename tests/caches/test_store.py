"""The cache folder: whole entries or none, bounded, safe to share, and never trusted blindly."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from npaccel import own
from npaccel.caches.store import HEAD, Store, digest

KEY, OTHER = digest("one"), digest("other")


def store_of(folder: Path, limit: int = 1 << 20) -> tuple[Store, list[str]]:
    said: list[str] = []
    return Store(str(folder), limit, said.append), said


def test_what_is_put_is_got_by_another(tmp_path: Path) -> None:
    store, said = store_of(tmp_path / "a" / "cache")
    assert store.get(KEY) is None
    for content in (b"first", b"", bytes(range(256)) * 999):
        store.put(KEY, content)
        another = store_of(tmp_path / "a" / "cache")[0]
        assert another.get(KEY) == content
        another.note_hits()
    assert store.get(OTHER) is None
    assert (store.hits(), said) == (3, [])
    assert oct((tmp_path / "a" / "cache").stat().st_mode)[-3:] == "700"


def test_a_folder_is_made_by_who_has_something_to_keep(tmp_path: Path) -> None:
    store, warned = store_of(tmp_path / "cache")
    assert store.missing and store.get(digest("a")) is None
    assert not (tmp_path / "cache").exists()
    assert store.put(digest("a"), b"content")
    assert not store.missing and store.get(digest("a")) == b"content" and not warned


def test_names_depend_on_where_parts_end() -> None:
    assert digest("ab", "c") != digest("a", "bc") != digest("abc")


@pytest.mark.parametrize("place", [0, 9, 45, HEAD - 1, HEAD, HEAD + 4])
def test_a_changed_byte_makes_an_entry_go(tmp_path: Path, place: int) -> None:
    store, said = store_of(tmp_path / "cache")
    store.put(KEY, b"content")
    (path,) = (tmp_path / "cache").glob("*.entry")
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)
    assert store.get(KEY) is None and not path.exists() and said == []
    store.put(KEY, b"again")
    assert store.get(KEY) == b"again"


@pytest.mark.parametrize("length", [0, 3, HEAD - 1, HEAD, HEAD + 3])
def test_a_cut_entry_goes(tmp_path: Path, length: int) -> None:
    store, _ = store_of(tmp_path / "cache")
    store.put(KEY, b"content")
    (path,) = (tmp_path / "cache").glob("*.entry")
    os.truncate(path, length)
    assert store.get(KEY) is None and not path.exists()


def test_an_entry_under_a_name_that_is_not_its_own_goes(tmp_path: Path) -> None:
    store, _ = store_of(tmp_path / "cache")
    store.put(KEY, b"content")
    (path,) = (tmp_path / "cache").glob("*.entry")
    path.rename(path.with_name(f"{OTHER}.entry"))
    assert store.get(OTHER) is None and store.entries() == []


def test_a_link_and_a_file_that_others_may_write_are_not_read(tmp_path: Path) -> None:
    store, _ = store_of(tmp_path / "cache")
    store.put(KEY, b"content")
    (path,) = (tmp_path / "cache").glob("*.entry")
    path.chmod(0o666)
    assert store.get(KEY) is None
    path.chmod(0o600)
    assert store.get(KEY) == b"content"
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert store.get(KEY) is None


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    store, _ = store_of(tmp_path / "cache", limit=50_000)
    keys = [digest(str(i)) for i in range(40)]
    for age, key in enumerate(reversed(keys)):
        store.put(key, bytes(1000))
        then = time.time() - 10_000 + age
        os.utime(tmp_path / "cache" / f"{key}.entry", (then, then))
    assert store.get(keys[-1]) == bytes(1000)  # now the last one used
    store.limit = 20_000
    assert store.prune() > 0
    left = [key for key in keys if store.get(key) is not None]
    assert sum(entry.size for entry in store.entries()) <= 20_000
    assert left == [*keys[: len(left) - 1], keys[-1]]


def test_many_short_processes_keep_within_the_limit(tmp_path: Path) -> None:
    """None of them writes as much as makes it look at the folder; each looks at its end."""
    for i in range(120):
        store, _ = store_of(tmp_path / "cache", limit=100_000)
        for part in "ab":
            store.put(digest(str(i), part), bytes(random.Random(i).randbytes(700)))
        before = len(store.entries())
        store.put(digest(str(i), "startup profile"), b"", tidy=False)
        assert len(store.entries()) == before + 1  # nothing goes while a computation waits
        store.tidy()
        assert sum(entry.size for entry in store.entries()) <= 100_000
    store, _ = store_of(tmp_path / "cache", limit=1000)
    store.put(digest("startup profile"), b"", tidy=False)
    store.tidy()
    assert len(store.entries()) > 2  # who adds nothing does not look


def test_writing_alone_keeps_within_the_limit(tmp_path: Path) -> None:
    store, _ = store_of(tmp_path / "cache", limit=100_000)
    for i in range(400):
        store.put(digest(str(i)), bytes(1000))
        assert sum(entry.size for entry in store.entries()) <= 100_000 * 65 / 64 + 1000 + HEAD
    assert store.get(digest("399")) is not None


def test_the_folder_is_seldom_looked_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, _ = store_of(tmp_path / "cache", limit=1_000_000)
    looks = []
    prune = store.prune
    monkeypatch.setattr(store, "prune", lambda: looks.append(i) or prune())
    for i in range(900):
        store.put(digest(str(i)), bytes(1000))
    assert 3 <= len(looks) <= 20
    assert 0 < looks[0] < 200 < looks[1]


@pytest.mark.parametrize(
    ("mode", "words"), [(0o777, "written by other users"), (0o770, "written by other users")]
)
def test_a_folder_that_others_may_write_is_refused(tmp_path: Path, mode: int, words: str) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(mode)
    store, said = store_of(folder)
    for _ in range(3):
        store.put(KEY, b"content")
        assert store.get(KEY) is None
    (sentence,) = said
    assert words in sentence and str(folder) in sentence and "machine code" in sentence
    assert list(folder.iterdir()) == []


def test_a_folder_in_one_that_everybody_may_write_is_refused(tmp_path: Path) -> None:
    above = tmp_path / "above"
    above.mkdir()
    above.chmod(0o777)
    store, said = store_of(above / "cache")
    store.put(KEY, b"content")
    assert store.get(KEY) is None and "everybody" in said[0]
    above.chmod(0o1777)  # as /tmp is: nobody can replace what is ours
    store, said = store_of(above / "cache")
    store.put(KEY, b"content")
    assert store.get(KEY) == b"content" and said == []


def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch) -> None:
    store, said = store_of(tmp_path / "cache")
    store.put(KEY, b"content")
    owner = os.geteuid()
    monkeypatch.setattr(own.os, "geteuid", lambda: owner + 1)
    store, said = store_of(tmp_path / "cache")
    assert store.get(KEY) is None and "another user" in said[0]


def test_a_file_in_the_folder_s_place(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("in the way")
    store, said = store_of(tmp_path / "cache")
    store.put(KEY, b"content")
    assert store.get(KEY) is None and len(said) == 1 and "is not a folder" in said[0]


def test_a_full_disk_is_told_once_and_reading_goes_on(tmp_path: Path, monkeypatch) -> None:
    store, said = store_of(tmp_path / "cache")
    store.put(KEY, b"content")

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(own.os, "write", full)
    for name in "abc":
        store.put(digest(name), b"more")
    (sentence,) = said
    assert "No space left" in sentence
    assert store.get(KEY) == b"content"
    assert list((tmp_path / "cache").glob("*.tmp")) == [] and len(store.entries()) == 1


def test_a_folder_that_vanishes_is_made_again(tmp_path: Path) -> None:
    store, said = store_of(tmp_path / "cache")
    store.put(KEY, b"content")
    store.clear()
    (tmp_path / "cache").rmdir()
    for _ in range(2):
        store.put(KEY, b"content")
    assert store.get(KEY) == b"content" and said == []


def test_clear_and_verify(tmp_path: Path) -> None:
    store, _ = store_of(tmp_path / "cache")
    for name in "abc":
        store.put(digest(name), b"content")
    (tmp_path / "cache" / f"{digest('a')}.entry").write_bytes(b"nonsense")
    (tmp_path / "cache" / "stray.entry").write_bytes(b"nonsense")
    (tmp_path / "cache" / "x.1.2.tmp").write_bytes(b"left by a process that was killed")
    assert store.verify() == (2, 2)
    assert store.clear() == 2
    assert list((tmp_path / "cache").iterdir()) == []


WRITER = """
import sys
from npaccel.caches.store import Store, digest
store = Store(sys.argv[1], 40_000, print)
print("ready", flush=True)
for n in range(10**9):
    key = digest(str(n % 50))
    found = store.get(key)
    if found is not None and found != key.encode() * (20 + n % 50):
        sys.exit("wrong content")
    store.put(key, key.encode() * (20 + n % 50))
"""


def test_writers_that_are_killed_leave_nothing_that_is_used(tmp_path: Path) -> None:
    chance = random.Random(4)
    for _ in range(3):
        command = [sys.executable, "-c", WRITER, str(tmp_path / "cache")]
        writers = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(3)]
        for writer in writers:
            assert writer.stdout is not None and writer.stdout.readline() == b"ready\n"
        time.sleep(chance.uniform(0.01, 0.1))
        for writer in writers:
            writer.kill()
        for writer in writers:
            assert writer.wait() == -signal.SIGKILL
            assert writer.stdout is not None and writer.stdout.read() == b""
            writer.stdout.close()
    store, said = store_of(tmp_path / "cache")
    for n in range(50):
        key = digest(str(n))
        assert store.get(key) in (None, key.encode() * (20 + n))
    assert said == [] and store.verify()[1] == 0
