"""The scripts of `bench/scripts` print under npaccel what they print under NumPy.

Each runs a small part of its work here, in one process; two of them as whole processes.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import npaccel
from npaccel.demo import load

BENCH = Path(__file__).parent.parent / "bench"
SCRIPTS = sorted((BENCH / "scripts").glob("*.py"))
digests = load(BENCH / "digests.py")
# As small as the arrays are, they are recorded.
MIN_SIZE = 2048
PART = "0.01"


def printed(script: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "argv", [str(script), PART])
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        runpy.run_path(str(script), run_name="__main__")
    return output.getvalue()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_the_output_is_that_of_numpy(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "import pandas" in script.read_text():
        pytest.importorskip("pandas")
    # What is compiled is tested elsewhere; it would take minutes here.
    monkeypatch.setattr(npaccel.config, "tiering", "off")
    wanted = printed(script, monkeypatch)
    with npaccel.accelerate(min_size=MIN_SIZE):
        got = printed(script, monkeypatch)
    agreement = digests.compare(script.stem, wanted, got)
    assert agreement.ok, f"{agreement}\n{wanted}\n{got}"


@pytest.mark.parametrize("name", ["heat_rod", "kmeans"])
def test_whole_processes_agree(name: str) -> None:
    def output(*command: str) -> str:
        script = str(BENCH / "scripts" / f"{name}.py")
        return subprocess.run(
            [sys.executable, *command, script, PART],
            env=os.environ | {"NPACCEL_TIERING": "adaptive"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    got = output("-m", "npaccel", "run", "--min-size", str(MIN_SIZE))
    agreement = digests.compare(name, output(), got)
    assert agreement.ok, agreement


def test_they_are_plain_numpy() -> None:
    assert len(SCRIPTS) >= 20
    for script in SCRIPTS:
        text = script.read_text()
        assert "import numpy as np\n" in text
        assert "npaccel" not in text


def test_each_tolerance_is_of_a_script() -> None:
    assert set(digests.TOLERANCES) <= {script.stem for script in SCRIPTS}


def test_what_differs_is_told() -> None:
    text = "step 3 energy 1.5 [4 5]"
    assert str(digests.compare("life", text, text)) == "same"
    assert digests.compare("life", text, text.replace("1.5", "1.5000000001")).ok
    for other in (
        text.replace("1.5", "1.50001"),
        text.replace("energy", "power"),
        text + " 6",
        text.replace("1.5", "nan"),
        re.sub("step.*", "", text),
    ):
        assert not digests.compare("life", text, other).ok
