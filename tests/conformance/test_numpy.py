"""NumPy's own tests pass with every array deferred, but for those that are known, with reasons."""

from __future__ import annotations

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


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    monkeypatch.syspath_prepend(str(FOLDER))
    import judge
    import report

    return judge, report


@pytest.mark.pending
@pytest.mark.parametrize("name", FILES)
def test_no_test_fails_that_numpy_passes(name: str, tools: tuple[Any, Any], tmp_path: Path) -> None:
    judge, report = tools
    plain, ours = (
        judge.outcomes(judge.run(name, mode, tmp_path / mode, 120, []))
        for mode in ("plain", "npaccel")
    )
    assert len(plain) > 0 and ours.keys() == plain.keys()
    known = report.load_known()
    new = report.newly_failing(plain, ours)
    assert {
        test: outcome for test, outcome in new.items() if not report.reason_for(test, known)
    } == {}


def test_reasons_are_of_failures_only(tools: tuple[Any, Any]) -> None:
    _, report = tools
    assert report.newly_failing({"a": "passed", "b": "failed"}, {"a": "failed", "b": "failed"}) == {
        "a": "failed"
    }
    known = [{"reason": "so", "tests": ["x.py::test_*"]}]
    assert report.reason_for("numpy/x.py::test_one[1]", known) == "so"
    assert report.reason_for("numpy/y.py::test_one", known) == ""
