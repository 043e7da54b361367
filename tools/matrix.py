"""Run chosen tests of the wheels in dist/ on each Python and NumPy, and write a table.

python tools/matrix.py [--numpy 2.0 2.2 newest] [--page docs/matrix.md] PYTHON ...
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

from wheel_check import NEEDED, ROOT, WORK

NEWEST = "newest"
# What NumPy's and Python's versions change: dispatch, small calls, loops, frames, memory, children.
TESTS = (
    "dispatch/small/test_allocators.py",
    "dispatch/small/test_calls.py",
    "dispatch/small/test_errors.py",
    "dispatch/small/test_memory.py",
    "dispatch/small/test_operators.py",
    "dispatch/small/test_products.py",
    "dispatch/small/test_programs.py",
    "dispatch/small/test_reversed.py",
    "dispatch/small/test_threads.py",
    "dispatch/small/test_ufuncs.py",
    "dispatch/test_array.py",
    "dispatch/test_at_once.py",
    "dispatch/test_conversions.py",
    "dispatch/test_creation.py",
    "dispatch/test_indexing.py",
    "dispatch/test_redirect.py",
    "dispatch/test_rows.py",
    "observe/test_watch.py",
    "runtime/engine/test_block_tier.py",
    "runtime/process/test_warnings.py",
    "safety/test_life_cycle.py",
    "test_array_programs.py",
    "test_children.py",
    "test_interfaces.py",
    "test_tracebacks.py",
)
PAGE = """\
# Versions

Written by `make matrix` on {date}: the wheel for each CPython with each NumPy, on {machine}.
In each cell, chosen tests ({tests}).

| | {heads} |
|---|{rules}|
{rows}
{notes}"""


class Cell(NamedTuple):
    """What one combination gave; `note` says more where not all is well."""

    words: str
    note: str = ""


def environment() -> dict[str, str]:
    """Of the tests: none of the user's settings."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("NPACCEL_")}
    return kept | {"PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def wheel(version: str) -> Path:
    """The one for this version of Python."""
    found = sorted((ROOT / "dist").glob(f"npaccel-*-cp{version.replace('.', '')}-*.whl"))
    own = [path for path in found if platform.machine() in path.name]
    if not own:
        raise SystemExit(f"dist/ has no wheel for Python {version}: make wheel")
    return own[-1]


def tried(python: str, version: str, numpy: str) -> Cell:
    """Install both in an environment of their own, and run the tests."""
    folder = WORK / "matrix" / f"{version}-{numpy}"
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([python, "-m", "venv", folder], check=True)
    made = str(folder / "bin" / "python")
    wanted = "numpy" if numpy == NEWEST else f"numpy=={numpy}.*"
    words = [made, "-m", "pip", "install", "--quiet", "--only-binary", ":all:"]
    done = subprocess.run(
        [*words, wanted, str(wheel(version)), *NEEDED],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        return Cell("not installed", f"Python {version}, NumPy {numpy}: {lines[-1][7:]}")
    shutil.copytree(ROOT / "tests", folder / "source" / "tests")
    shutil.copytree(ROOT / "bench", folder / "source" / "bench")
    shutil.copy(ROOT / "pyproject.toml", folder / "source")
    asked = "import numpy; print(numpy.__version__)"
    exact = subprocess.check_output([made, "-c", asked], text=True).strip()
    start = time.perf_counter()
    chosen = [f"tests/{name}" for name in TESTS]
    done = subprocess.run(
        [made, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen],
        cwd=folder / "source",
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stdout[-3000:], flush=True)
    last = (done.stdout.strip().splitlines() or ["nothing"])[-1]
    said = re.sub(r" in [\d.]+s.*", "", last).replace("warnings", "warned").strip("= ")
    print(f"{version} {exact}: {said}, {time.perf_counter() - start:.0f} s", flush=True)
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    note = f"Python {version}, NumPy {exact}: {', '.join(failed)}" if failed else ""
    if done.returncode and not failed:
        note = f"Python {version}, NumPy {exact}: pytest ended with {done.returncode}"
    return Cell(f"{exact}: {said}", note)


def page(found: dict[str, list[Cell]], numpy: list[str]) -> str:
    """A row for each Python, a column for each NumPy; what is not well below."""
    rows = [
        f"| Python {version} | {' | '.join(cell.words for cell in cells)} |"
        for version, cells in found.items()
    ]
    notes = [f"- {cell.note}" for cells in found.values() for cell in cells if cell.note]
    return PAGE.format(
        date=datetime.datetime.now(datetime.UTC).date(),
        machine=f"{platform.system()} {platform.machine()}",
        tests=", ".join(f"`{name}`" for name in TESTS),
        heads=" | ".join(f"NumPy {version}" for version in numpy),
        rules="---|" * (len(numpy) - 1) + "---",
        rows="\n".join(rows),
        notes="\n" + "\n".join(notes) + "\n" if notes else "",
    )


def main() -> None:
    """What `make matrix` calls."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--numpy", nargs="*", default=["2.0", "2.2", NEWEST])
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "matrix.md")
    parser.add_argument("python", nargs="+")
    given = parser.parse_args()
    kept = WORK / "matrix" / "found.json"
    kept.parent.mkdir(parents=True, exist_ok=True)
    found = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    versions = [subprocess.check_output([p, "-c", code], text=True).strip() for p in given.python]
    rows = {version: [Cell("not run")] * len(given.numpy) for version in versions}
    for python, version in zip(given.python, versions, strict=True):
        image = hashlib.sha256(wheel(version).read_bytes()).hexdigest()[:16]
        for column, numpy in enumerate(given.numpy):
            name = f"{version} {numpy} {image}"
            if name not in found:
                found[name] = tried(python, version, numpy)
                kept.write_text(json.dumps(found), encoding="utf-8")
            rows[version][column] = Cell(*found[name])
            given.page.write_text(page(rows, given.numpy), encoding="utf-8")
    print(page(rows, given.numpy))


if __name__ == "__main__":
    main()
