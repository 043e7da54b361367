"""What a command's last process used is found by the next one, and by no other command."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from npaccel.caches.habits import MOST_PROGRAMS, Habit, Habits
from npaccel.caches.store import Store

USED = ((("a" * 64,), True), (("b" * 64, "c" * 64), False))


def habits_of(folder: Path, identity: str = "this") -> Habits:
    store = Store(str(folder), 1 << 20, lambda text: None)
    return Habits(lambda: store, lambda: identity)


def test_the_next_process_finds_what_the_last_one_kept(tmp_path: Path, monkeypatch) -> None:
    rules = (("fold", 1, ("dtype", "f")), ("call", None))
    habits_of(tmp_path).keep(USED, (1 << 20, 4096), rules)
    assert habits_of(tmp_path).read() == Habit(USED, (1 << 20, 4096), rules)
    assert habits_of(tmp_path, "other").read() == Habit()
    monkeypatch.setattr(sys, "orig_argv", [*sys.orig_argv, "--other"])
    assert habits_of(tmp_path).read() == Habit()


def test_another_folder_is_another_command(tmp_path: Path, monkeypatch) -> None:
    habits_of(tmp_path / "cache").keep(USED, ())
    monkeypatch.chdir(tmp_path)
    assert habits_of(tmp_path / "cache").read() == Habit()
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    habits = habits_of(tmp_path / "cache")
    assert habits.read() == Habit()
    habits.keep(USED, ())


def test_what_is_known_is_not_written_again(tmp_path: Path) -> None:
    habits_of(tmp_path).keep(USED, (1, 2))
    (path,) = tmp_path.glob("*.entry")
    path.chmod(0o400)
    before = path.stat().st_mtime_ns, path.stat().st_ino
    habits = habits_of(tmp_path)
    habits.read()
    os.utime(path, ns=(before[0], before[0]))
    habits.keep(USED[::-1], (2, 1))
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == before
    habits.keep(USED[:1], (2, 1))
    assert habits_of(tmp_path).read() == Habit(USED[:1], (2, 1))
    habits.keep(USED, (1, 2), (("rule",),))
    assert habits_of(tmp_path).read() == Habit(USED, (1, 2), (("rule",),))


def test_who_used_nothing_leaves_nothing(tmp_path: Path) -> None:
    habits_of(tmp_path / "cache").keep((), (1,))
    assert not (tmp_path / "cache").exists()
    assert habits_of(tmp_path / "cache").read() == Habit()
    assert not (tmp_path / "cache").exists()
    habits_of(tmp_path / "cache").keep(USED, ())
    habits = habits_of(tmp_path / "cache")
    habits.read()
    habits.keep((), ())
    assert habits_of(tmp_path / "cache").read() == Habit()


def test_a_child_keeps_nothing_and_many_programs_are_too_many(tmp_path: Path) -> None:
    habits = habits_of(tmp_path)
    habits.forget()
    habits.keep(USED, ())
    assert habits_of(tmp_path).read() == Habit()
    many = tuple(((f"{number:064x}",), True) for number in range(2 * MOST_PROGRAMS))
    habits_of(tmp_path).keep(many, ())
    assert habits_of(tmp_path).read().programs == many[:MOST_PROGRAMS]


def test_a_damaged_entry_is_dropped(tmp_path: Path) -> None:
    habits_of(tmp_path).keep(USED, ())
    (path,) = tmp_path.glob("*.entry")
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert habits_of(tmp_path).read() == Habit()
    assert not path.exists()
