"""The demo tells the truth about results, times and counts, and reads well when piped."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from npaccel import cli, commands, demo
from npaccel.errors import ConfigError


class Substitute:
    """An engine that changes every array by `change`, and counts as if it had compiled."""

    def __init__(self, change: Callable[[Any], Any] = lambda x: x) -> None:
        self.config = SimpleNamespace(tiering="adaptive")
        self.change = change
        self.evaluated = 0
        self.blocks = 0

    def asarray(self, x: Any, /) -> Any:
        return self.change(x)

    def accelerate(self) -> AbstractContextManager[Any]:
        self.blocks += 1
        return nullcontext()

    def evaluate(self, *values: Any) -> None:
        self.evaluated += len(values)

    def stats(self, reset: bool = False) -> Mapping[str, Any]:
        return {"kernels": 6, "fallbacks": 2} if reset else {}


def doubled(x: Any) -> tuple[Any, Any]:
    return x * 2.0, x > 0.5


PROGRAM = demo.Program("doubled", lambda: {"x": np.linspace(0.0, 1.0, 50)}, doubled)


def shown(*outcomes: demo.Outcome) -> str:
    text = io.StringIO()
    demo.show(outcomes, ["photo: needs pillow"], Console(file=text, width=100))
    return text.getvalue()


def test_same_results_are_called_identical() -> None:
    engine = Substitute()
    outcome = demo.run(PROGRAM, engine, PROGRAM.inputs(), repeats=2)
    assert outcome.comparison == demo.Comparison(True, "identical")
    assert engine.evaluated == 2 * (1 + 2 + 2)  # every call's two results
    assert (outcome.kernels, outcome.fallbacks) == (3, 1)
    assert min(outcome.numpy_s, outcome.first_s, outcome.steady_s) > 0


def test_unchanged_programs_get_plain_arrays_in_a_block() -> None:
    engine = Substitute(lambda x: x + 0.01)
    outcome = demo.run(PROGRAM, engine, PROGRAM.inputs(), repeats=2, unchanged=True)
    assert outcome.comparison.words == "identical"
    assert engine.blocks == 5  # one to compare, two to warm up, two timed


def test_wrong_results_are_called_different() -> None:
    outcome = demo.run(PROGRAM, Substitute(lambda x: x + 0.01), PROGRAM.inputs(), repeats=1)
    assert not outcome.comparison.ok
    assert outcome.comparison.words.startswith("DIFFERS")


@pytest.mark.parametrize(
    ("want", "have", "ok", "words"),
    [
        ([1.0, 2.0], [1.0, 2.0], True, "identical"),
        ([1.0, np.nan], [1.0, np.nan], True, "identical"),
        ([0.0], [-0.0], True, "0 ULP"),
        ([1.0], [np.nextafter(1.0, 2.0)], True, "1 ULP"),
        ([5e-324, 1.0], [-5e-324, 1.0], True, "2 ULP"),
        ([1.0, 1e-20], [1.0, 2e-20], True, "rel 1e-20"),
        ([1.0], [1.0001], False, "rel 1e-04"),
        ([1.0], [np.nan], False, "inf or nan"),
        ([1.0], [1], False, "int64, not float64"),
        ([1.0], [[1.0]], False, "shape (1, 1)"),
        ([1, 2, 3, 4], [1, 2, 3, 5], False, "1 of 4"),
        ([1.0 + 1.0j], [1.0 + np.nextafter(1.0, 2.0) * 1.0j], True, "1 ULP"),
    ],
)
def test_compare(want: Any, have: Any, ok: bool, words: str) -> None:
    comparison = demo.compare([np.array(want)], [np.array(have)])
    assert comparison.ok is ok
    assert comparison.words.removeprefix("DIFFERS: ") == words


def test_compare_reports_the_worst_result() -> None:
    one = np.ones(3)
    assert demo.compare([one, one], [one, one + 1]).ok is False
    assert demo.compare([one], [one, one]).words.startswith("DIFFERS: 2 results")


def test_table_fits_and_has_no_control_characters() -> None:
    comparison = demo.Comparison(False, "DIFFERS: 123456 of 1234567")
    outcome = demo.Outcome("shallow_water", comparison, 12.3456, 1.23456, 0.0123456, 12345, 12345)
    text = shown(outcome, demo.Outcome("b", demo.Comparison(True, "identical"), 0.5, 2.0, 0.125))
    assert all(len(line) <= 100 for line in text.splitlines())
    assert all(character.isprintable() or character == "\n" for character in text)
    assert "1000.0x" in text and "4.0x" in text
    assert "left out photo: needs pillow" in text
    assert f"{math.sqrt(4000):.1f} times as fast" in text
    assert "1 identical" in text


def test_missing_package_leaves_an_example_out() -> None:
    def inputs() -> demo.Arrays:
        raise ModuleNotFoundError("No module named 'pictures'", name="pictures")

    programs = [demo.Program("photo", inputs, doubled), PROGRAM]
    console = Console(file=io.StringIO())
    outcomes, left_out = demo.run_all(programs, Substitute(), console, {}, repeats=1)
    assert [outcome.name for outcome in outcomes] == ["doubled"]
    assert left_out == ["photo: needs pictures (pip install npaccel[demo])"]


def test_unknown_example_is_one_clear_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError, match="heat"):
        demo.find_programs(["heath"])
    assert cli.main(["demo", "heath"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("npaccel: no example heath; there are: black_scholes")
    assert error.count("\n") == 1


def test_demo_reads_the_users_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(commands, "npaccel", Substitute())
    good, bad = tmp_path / "good.csv", tmp_path / "bad.csv"
    good.write_text("a,b\n" + "\n".join(f"{i},{i * i}" for i in range(20)))
    bad.write_text("1,2\n3,four\n")
    assert cli.main(["demo", "table", "--repeats", "1", "--file", str(good)]) == 0
    assert "identical" in capsys.readouterr().out
    assert cli.main(["demo", "table", "--file", str(bad)]) == 2
    assert "four" in capsys.readouterr().err
    assert cli.main(["demo", "table", "--file", str(tmp_path / "none.csv")]) == 2
    assert "none.csv" in capsys.readouterr().err


def test_demo_without_a_file_gets_a_sample_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also when the demo stops half-way."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    read: list[int] = []

    def inputs(path: Path | int = 0) -> demo.Arrays:
        if isinstance(path, Path):
            assert path.is_relative_to(tmp_path)
            read.append(len(path.read_text().splitlines()))
        return {"table": np.ones((commands.SAMPLE_ROWS, 2))}

    for change, status in ((lambda x: x, 0), (lambda x: x + 1, 1), (None, None)):
        monkeypatch.setattr(commands, "npaccel", Substitute(change))  # type: ignore[arg-type]
        table = demo.Program("table", inputs, lambda table: table * 2.0)
        monkeypatch.setattr(demo, "find_programs", lambda names, table=table: [table])
        if change is None:
            with pytest.raises(TypeError):
                cli.main(["demo", "table", "--repeats", "1"])
        else:
            assert cli.main(["demo", "table", "--repeats", "1"]) == status
            assert f"a sample of {commands.SAMPLE_ROWS} rows" in capsys.readouterr().out
        assert list(tmp_path.iterdir()) == []
    assert read == [commands.SAMPLE_ROWS + 1] * 3


def test_difference_is_a_failing_exit_status(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "find_programs", lambda names: [PROGRAM])
    monkeypatch.setattr(commands, "npaccel", Substitute())
    assert cli.main(["demo", "--repeats", "1"]) == 0
    monkeypatch.setattr(commands, "npaccel", Substitute(lambda x: x + 1))
    assert cli.main(["demo", "--repeats", "1"]) == 1


def test_devices_shows_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["devices"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0][0] == "npaccel"
    assert ["queue_limit", "4096"] in lines
    assert {"llvm", "numpy", "guard"} <= {line[0] for line in lines if line}


def test_version_is_the_installed_one(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        cli.main(["--version"])
    assert exit_.value.code == 0
    assert capsys.readouterr().out.startswith("npaccel ")
