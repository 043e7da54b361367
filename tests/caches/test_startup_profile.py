"""What a command's last process used is found by the next one, and by no other command."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from npaccel.caches.startup_profile import MOST_PROGRAMS, StartupProfile, StartupProfiles
from npaccel.caches.store import Store

USED = ((("a" * 64,), True), (("b" * 64, "c" * 64), False))


def profiles_of(folder: Path, identity: str = "this") -> StartupProfiles:
    store = Store(str(folder), 1 << 20, lambda text: None)
    return StartupProfiles(lambda: store, lambda: identity)


def test_the_next_process_finds_what_the_last_one_kept(tmp_path: Path, monkeypatch) -> None:
    rules = (("fold", 1, ("dtype", "f")), ("call", None))
    profiles_of(tmp_path).keep(USED, (1 << 20, 4096), rules)
    assert profiles_of(tmp_path).read() == StartupProfile(USED, (1 << 20, 4096), rules)
    assert profiles_of(tmp_path, "other").read() == StartupProfile()
    monkeypatch.setattr(sys, "orig_argv", [*sys.orig_argv, "--other"])
    assert profiles_of(tmp_path).read() == StartupProfile()


def test_another_folder_is_another_command(tmp_path: Path, monkeypatch) -> None:
    profiles_of(tmp_path / "cache").keep(USED, ())
    monkeypatch.chdir(tmp_path)
    assert profiles_of(tmp_path / "cache").read() == StartupProfile()
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    profiles = profiles_of(tmp_path / "cache")
    assert profiles.read() == StartupProfile()
    profiles.keep(USED, ())


def test_what_is_known_is_not_written_again(tmp_path: Path) -> None:
    profiles_of(tmp_path).keep(USED, (1, 2))
    (path,) = tmp_path.glob("*.entry")
    path.chmod(0o400)
    before = path.stat().st_mtime_ns, path.stat().st_ino
    profiles = profiles_of(tmp_path)
    profiles.read()
    os.utime(path, ns=(before[0], before[0]))
    profiles.keep(USED[::-1], (2, 1))
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == before
    profiles.keep(USED[:1], (2, 1))
    assert profiles_of(tmp_path).read() == StartupProfile(USED[:1], (2, 1))
    profiles.keep(USED, (1, 2), (("rule",),))
    assert profiles_of(tmp_path).read() == StartupProfile(USED, (1, 2), (("rule",),))


def test_who_used_nothing_leaves_nothing(tmp_path: Path) -> None:
    profiles_of(tmp_path / "cache").keep((), (1,))
    assert not (tmp_path / "cache").exists()
    assert profiles_of(tmp_path / "cache").read() == StartupProfile()
    assert not (tmp_path / "cache").exists()
    profiles_of(tmp_path / "cache").keep(USED, ())
    profiles = profiles_of(tmp_path / "cache")
    profiles.read()
    profiles.keep((), ())
    assert profiles_of(tmp_path / "cache").read() == StartupProfile()


def test_a_child_keeps_nothing_and_many_programs_are_too_many(tmp_path: Path) -> None:
    profiles = profiles_of(tmp_path)
    profiles.forget()
    profiles.keep(USED, ())
    assert profiles_of(tmp_path).read() == StartupProfile()
    many = tuple(((f"{number:064x}",), True) for number in range(2 * MOST_PROGRAMS))
    profiles_of(tmp_path).keep(many, ())
    assert profiles_of(tmp_path).read().programs == many[:MOST_PROGRAMS]


def test_a_damaged_entry_is_dropped(tmp_path: Path) -> None:
    profiles_of(tmp_path).keep(USED, ())
    (path,) = tmp_path.glob("*.entry")
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert profiles_of(tmp_path).read() == StartupProfile()
    assert not path.exists()


def test_a_folder_may_have_a_name_that_is_no_text(tmp_path: Path, monkeypatch) -> None:
    odd = os.fsencode(tmp_path) + b"/\xe9"
    os.mkdir(odd)
    monkeypatch.chdir(os.fsdecode(odd))
    profiles_of(tmp_path / "cache").keep(USED, ())
    assert profiles_of(tmp_path / "cache").read() == StartupProfile(USED, ())
