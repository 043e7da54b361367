"""What the installed package says of itself, to pip and to people."""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

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
    assert named == {"3.11", "3.12", "3.13", "3.14"}
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


@pytest.fixture
def sbom(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "tools"))
    import sbom

    return sbom


def test_a_wheel_lists_what_is_in_it_and_what_it_needs(sbom: Any, tmp_path: Path) -> None:
    metadata = importlib.metadata.distribution("npaccel").read_text("METADATA")
    assert metadata is not None
    wheel, folder = tmp_path / "npaccel-0.1.0-cp311-cp311-linux.whl", "npaccel-0.1.0.dist-info"
    made = []
    for _ in range(2):
        with zipfile.ZipFile(wheel, "w") as archive:
            for name, text in {
                "npaccel/_native.so": b"machine code",
                f"{folder}/METADATA": metadata.encode(),
                f"{folder}/RECORD": f"{folder}/RECORD,,\n".encode(),
            }.items():
                archive.writestr(zipfile.ZipInfo(name), text)
        sbom.add(wheel, {"gcc": "12.2.0"})
        made.append(wheel.read_bytes())
    assert made[0] == made[1]
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(f"{folder}/{sbom.NAME}")
        listed = archive.read(f"{folder}/RECORD").decode().splitlines()
    digest = base64.urlsafe_b64encode(hashlib.sha256(text).digest()).decode().rstrip("=")
    assert listed[1] == f"{folder}/{sbom.NAME},sha256={digest},{len(text)}"
    bill = json.loads(text)
    parts = {part["name"]: part for part in bill["components"]}
    needed = {re.split(r"\W", r)[0] for r in ABOUT.get_all("Requires-Dist") if "extra" not in r}
    assert parts.keys() == needed | {"npaccel/_native.so"}
    (hashed,) = parts["npaccel/_native.so"]["hashes"]
    assert hashed["content"] == hashlib.sha256(b"machine code").hexdigest()
    assert bill["metadata"]["component"]["version"] == npaccel.__version__
