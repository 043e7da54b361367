"""What the installed package says of itself, to pip and to people."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import pytest

import npaccel
from npaccel import _native

ABOUT = importlib.metadata.metadata("npaccel")
BOUNDED = ("numpy", "llvmlite")  # what a new version of may break us


def test_the_version_is_the_packages() -> None:
    assert ABOUT["Version"] == npaccel.__version__


@pytest.mark.parametrize("name", BOUNDED)
def test_what_may_break_us_has_an_upper_bound_that_admits_what_is_here(name: str) -> None:
    (wanted,) = (r for r in ABOUT.get_all("Requires-Dist") if re.match(rf"{name}\b[^;]*$", r))
    (bound,) = re.findall(r"<([\d.]+)", wanted)
    here = importlib.metadata.version(name)
    assert [int(n) for n in here.split(".")[:2]] < [int(n) for n in bound.split(".")]


def test_its_classifiers_name_the_pythons_that_it_takes() -> None:
    named = set(re.findall(r"Python :: (3\.\d+)", "\n".join(ABOUT.get_all("Classifier"))))
    assert named == {"3.11", "3.12", "3.13"}
    assert ABOUT["Requires-Python"] == ">=3.11"
    assert "Typing :: Typed" in ABOUT.get_all("Classifier")
    assert (Path(npaccel.__file__).parent / "py.typed").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="reads what the dynamic linker does")
def test_the_core_finds_all_it_needs_in_libraries_that_it_names() -> None:
    """Each symbol is bound when it is loaded without Python's or NumPy's libraries before it: what
    is missing then may be Python's only."""
    done = subprocess.run(
        ["ldd", "-r", _native.__file__], capture_output=True, text=True, check=False
    )
    missing = re.findall(r"undefined symbol:\s*(\w+)", done.stdout + done.stderr)
    assert missing
    assert [name for name in missing if not name.startswith(("Py", "_Py"))] == []
