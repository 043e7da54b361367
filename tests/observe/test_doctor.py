"""A program per cause of slowness: the first three lines of its profile name it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from npaccel.observe import profile_text
from npaccel.observe.profile import read

pytestmark = pytest.mark.pending

CAUSES = {
    "works on arrays of 2.0 KiB; from 256.0 KiB on they are accelerated: do the same": """
        u = np.ones(256)
        for i in range(400_000):
            u = u * 0.5  # here
        """,
    "takes elements one by one, at Python's own pace: write the loop as operations": """
        x = np.ones(100_000)
        for i in range(300_000):
            x[i % 1000] = x[(i + 1) % 1000]  # here
        """,
    "reads a result after every 2 operations: collect such values in an array": """
        a = np.ones(1_000_000)
        for i in range(100):
            a = np.sqrt(a + 1)
            if a[3] < 0:  # here
                break
        """,
    "they are drawn on all threads already": """
        rng = np.random.default_rng(1)
        for i in range(20):
            z = rng.standard_normal(1_000_000)  # here
        """,
    "draw many numbers by one call": """
        total = 0.0
        for i in range(100_000):
            total += np.random.normal()  # here
        """,
    "BLAS does it on all processors": """
        a = np.ones((600, 600))
        for i in range(10):
            b = a @ a  # here
        """,
    "Python itself or another library takes": """
        total = 0
        while total < 4_000_000:
            total = abs(total) + 1  # here
        """,
    "waits for the compiler": """
        a = np.linspace(0, 1, 1_000_000)
        for i in range(60):
            b = np.sin(a) * np.cos(a * i) + np.exp(-a) + np.hypot(a, i) + np.arctan(a)  # here
        """,
    "runs 1 operation at a time, since warnings are errors": """
        import warnings
        warnings.simplefilter("error")
        a = np.ones(1_000_000)
        for i in range(100):
            a = np.sqrt(a)  # here
        """,
    "writes in place into memory that is not npaccel's, 1 operation at a time: work on npaccel": """
        import ctypes
        memory = (ctypes.c_double * 1_000_000)()  # of a C library
        a = np.frombuffer(memory)
        for i in range(200):
            a += 0.5  # here
        """,
    "works on a subclass of ndarray (memmap ...), of 7.6 MiB, which stays NumPy's: work": """
        import tempfile
        file = tempfile.TemporaryFile()
        a = np.memmap(file, "f8", "w+", shape=(1_000_000,))
        a[:] = 1.0
        for i in range(300):
            a += 0.5  # here
        """,
    "arrays of Python objects stay NumPy's": """
        a = np.array([1, 2, 3] * 100_000, dtype=object)
        for i in range(20):
            b = a + a  # here
        """,
    "lets it be recorded": """
        np.seterr(all="warn")
        a = np.ones(1_000_000)
        for i in range(100):
            a = np.sqrt(a)  # here
        """,
    "has npaccel.evaluate() run every operation: call it after the loop": """
        import npaccel
        a = np.ones(1_000_000)
        for i in range(100):
            a = np.sqrt(a)
            npaccel.evaluate(a)  # here
        """,
    "`lut[idx]` leaves npaccel": """
        import npaccel
        img = npaccel.asarray(np.arange(2_000_000) % 251)
        lut = np.arange(256.0)
        with npaccel.profile("lut.profile"):
            for i in range(10):
                idx = (img * 3 + i) % 256
                y = lut[idx]  # here
                total = y[5]
        """,
}


@pytest.mark.parametrize("cause", CAUSES)
def test_the_first_lines_name_it(cause: str, tmp_path: Path) -> None:
    rows = ["import numpy as np"] + [row[8:] for row in CAUSES[cause].strip("\n").splitlines()]
    (tmp_path / "program.py").write_text("\n".join(rows) + "\n")
    words = ["-m", "npaccel", "profile", "--out", "lut.profile", "program.py"]
    if "lut" in cause:
        words = ["program.py"]
    usual = {key: text for key, text in os.environ.items() if not key.startswith("NPACCEL_")}
    done = subprocess.run(
        [sys.executable, *words],
        cwd=tmp_path,
        env=usual | {"NPACCEL_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = profile_text.show(read(tmp_path / "lut.profile")).splitlines()
    first = " ".join(map(str.strip, told[1:3]))
    assert cause in first
    (number,) = [k for k, row in enumerate(rows, 1) if row.endswith("# here")]
    assert f"program.py:{number} " in first
