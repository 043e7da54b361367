"""NumPy's own tests pass with every array deferred, but for those that are known, with reasons."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FILES = (
    "_core/tests/test_errstate.py",
    "_core/tests/test_indexerrors.py",
    "_core/tests/test_indexing.py",
    "_core/tests/test_item_selection.py",
)
FOLDER = Path(__file__).parents[2] / "bench" / "conformance"
# For what hangs: beside much other work one of NumPy's tests takes more than two minutes.
SECONDS = 600


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    monkeypatch.syspath_prepend(str(FOLDER))
    import judge
    import report

    return judge, report


@pytest.mark.pending
@pytest.mark.timeout(3 * SECONDS)
def test_no_test_fails_that_numpy_passes(tools: tuple[Any, Any], tmp_path: Path) -> None:
    """In one process for all files, for each mode."""
    judge, report = tools
    first, *others = FILES
    more = [str(judge.SITE / "numpy" / name) for name in others]
    plain, ours = (
        judge.outcomes(judge.run(first, mode, tmp_path / mode, SECONDS, more))
        for mode in ("plain", "npaccel")
    )
    assert {test.partition("::")[0] for test in plain} == {f"numpy/{name}" for name in FILES}
    assert ours.keys() == plain.keys()
    known = report.load_known()
    new = report.newly_failing(plain, ours)
    assert {
        test: outcome for test, outcome in new.items() if not report.reason_for(test, known)
    } == {}


def test_a_run_that_was_interrupted_goes_on_where_it_stopped(
    tools: tuple[Any, Any], tmp_path: Path
) -> None:
    (tmp_path / "test_it.py").write_text("""
import os
def test_first(): pass
def test_second():
    if "STOP" in os.environ:
        raise KeyboardInterrupt
def test_third(): pass
""")
    notes = tmp_path / "notes"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "plugin", "-p", "no:cacheprovider"]
    environment = os.environ | {"PYTHONPATH": str(FOLDER), "JUDGE_NOTES": str(notes)}
    ran = []
    for more in ({"STOP": "1"}, {}):
        subprocess.run(
            command, cwd=tmp_path, env=environment | more, capture_output=True, check=False
        )
        tools[0]._forget_unfinished(notes)
        ran.append([json.loads(line) for line in notes.read_text().splitlines()])
    first, both = ([entry["test"] for entry in r if "outcome" in entry] for r in ran)
    assert [name.partition("::")[2] for name in first] == ["test_first"]
    assert [name.partition("::")[2] for name in both] == ["test_first", "test_second", "test_third"]
    assert ["ended" in r[-1] for r in ran] == [False, True]


def test_reasons_are_of_failures_only(tools: tuple[Any, Any]) -> None:
    _, report = tools
    assert report.newly_failing({"a": "passed", "b": "failed"}, {"a": "failed", "b": "failed"}) == {
        "a": "failed"
    }
    known = [{"reason": "so", "tests": ["x.py::test_*"]}]
    assert report.reason_for("numpy/x.py::test_one[1]", known) == "so"
    assert report.reason_for("numpy/y.py::test_one", known) == ""


END = {"test": "", "ended": {"numpy": "2"}, "settings": {}, "operations": [], "loops": []}


def note(folder: Path, mode: str, file: str, **outcome_of: str) -> Path:
    """Notes of a run of `file` that reached its end."""
    path = folder / mode / f"{file.replace('/', '.')}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    tests = [
        {"test": f"numpy/{file}::{name}", "outcome": outcome, "text": ""}
        for name, outcome in outcome_of.items()
    ]
    path.write_text("".join(json.dumps(entry) + "\n" for entry in (*tests, END)))
    return path


def test_the_page_is_of_all_folders_and_keeps_what_was_not_run(
    tools: tuple[Any, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, report = tools
    monkeypatch.setattr(report, "load_known", lambda: [{"reason": "so", "tests": ["*::test_a"]}])
    one, two = tmp_path / "one", tmp_path / "two"
    umath, einsum = "_core/tests/test_umath.py", "_core/tests/test_einsum.py"
    for name in (umath, einsum):
        note(one, "plain", name, test_a="passed", test_b="passed")
        note(one, "npaccel", name, test_a="failed", test_b="failed")
    note(one, "subclass", umath, test_a="failed", test_b="passed")
    page, unexplained = report.report([one], "npaccel")
    assert unexplained == 2 and "- `_core/tests/test_umath.py::test_b`" in page
    assert "| _core/test_umath | 0 | 1 | 2 |" in page
    # One of them again, elsewhere: its newest result counts, and the page speaks for the other.
    note(two, "plain", umath, test_a="passed", test_b="passed")
    again = note(two, "npaccel", umath, test_a="failed", test_b="passed")
    os.utime(again, (4e9, 4e9))
    (one / "npaccel" / f"{einsum.replace('/', '.')}.jsonl").unlink()
    newer, unexplained = report.report([one, two], "npaccel", page)
    assert unexplained == 1 and "- `_core/tests/test_umath.py::test_b`" not in newer
    assert "| _core/test_umath | 1 | 1 | 1 |" in newer
    assert "| _core/test_einsum | 0 | not run | 2 | earlier, " in newer
    assert "- `_core/tests/test_einsum.py::test_a`" in newer
    assert newer.count("earlier, 2") == report.report([one, two], "npaccel", newer)[0].count(
        "earlier, 2"
    )


def test_a_test_that_was_stopped_is_no_crash(tools: tuple[Any, Any], tmp_path: Path) -> None:
    judge, _ = tools
    notes = note(tmp_path, "plain", "a.py", one="passed")
    begun = [json.dumps({"test": f"numpy/a.py::{name}"}) + "\n" for name in ("two", "three")]
    notes.write_text("".join([*notes.read_text().splitlines(keepends=True)[:1], *begun]))
    outcomes = {"numpy/a.py::one": "passed", "numpy/a.py::two": "crashed"}
    assert judge.outcomes(notes) == outcomes
    # Going on, what was stopped is run again.
    judge._forget_unfinished(notes)
    assert judge.outcomes(notes) == {"numpy/a.py::one": "passed"}
    assert "three" not in notes.read_text()


def test_a_file_is_stopped_at_its_limit_of_time(
    tools: tuple[Any, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge, _ = tools
    monkeypatch.setattr(judge, "SITE", tmp_path)
    (tmp_path / "numpy").mkdir()
    (tmp_path / "numpy" / "test_it.py").write_text("""
import time
def test_it(): time.sleep(600)
def test_after_it(): pass
""")
    notes = judge.run("test_it.py", "plain", tmp_path / "plain", SECONDS, [], whole=1)
    assert judge.outcomes(notes) == {} and judge.ends(notes) == 0
