"""Stored code is for NumPy's loops as they are in this process: some of their bits differ."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from npaccel.ir.differences import loops

SIGNS = """
import numpy as np, npaccel
npaccel.config.tiering = "eager"
x = -np.arange(1.0, 1 << 17)
print(np.array_equal(np.signbit(np.log(npaccel.asarray(x)) * 1), np.signbit(np.log(x))))
"""


def _signs(cache: Path, less: str) -> str:
    env = {**os.environ, "NPACCEL_CACHE_DIR": str(cache), "PYTHONSAFEPATH": "1"}
    env["NPY_DISABLE_CPU_FEATURES"] = less
    command = [sys.executable, "-W", "ignore", "-c", SIGNS]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout


def test_code_is_of_no_use_where_numpys_loops_are_others(tmp_path: Path) -> None:
    known = np._core._multiarray_umath.__cpu_dispatch__
    less = " ".join(one for one in known if one.startswith(("AVX512", "X86_V4")))
    for features in ("", less, ""):
        assert _signs(tmp_path, features) == "True\n"


def test_loops_are_told_by_version_and_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    assert loops().split()[0] == np.__version__
    features = {"AVX2": True, "AVX512F": False}
    monkeypatch.setattr(np._core._multiarray_umath, "__cpu_features__", features)
    assert loops() == f"{np.__version__} AVX2"
