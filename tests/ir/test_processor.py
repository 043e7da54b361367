"""What code for aarch64 gives, asked of it on any processor: zeros' and NaNs' signs are NumPy's
there, whose `maximum` is the instruction's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import npaccel
from npaccel.ir import processor
from npaccel.ir.ops import find
from npaccel.ir.reference.expressions import evaluate
from npaccel.ir.scalar import Pool

ZEROS = np.array([0.0, -0.0, 0.0, -0.0, 1.0, -0.0]), np.array([-0.0, 0.0, 0.0, -0.0, -0.0, -1.0])
LOWEST = ("minimum", "fmin")


@pytest.fixture(autouse=True)
def _aarch64(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "_MADE_FOR", ["aarch64"])


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", ["maximum", "minimum", "fmax", "fmin"])
def test_of_two_zeros_the_higher_or_the_lower_one(name: str, dtype: str) -> None:
    op, pool = find(name, (dtype,) * 3), Pool()
    assert op is not None and op.body is not None
    made = op.body(pool.load(dtype, 0), pool.load(dtype, 1))
    found = evaluate([made], lambda leaf: ZEROS[leaf.attr].astype(dtype))[made]
    want = [1, 1, 0, 1, 1, 1] if name in LOWEST else [0, 0, 0, 1, 0, 1]
    assert np.signbit(found).tolist() == list(map(bool, want))
    picks = np.minimum if name in LOWEST else np.maximum
    np.testing.assert_array_equal(found, picks(*ZEROS))


CODE = """
import math, sys, types
package = types.ModuleType("npaccel")
package.__path__ = [sys.argv[1]]
sys.modules["npaccel"] = package
from npaccel.ir.processor import make_for
make_for(sys.argv[2])
from npaccel.ir.nans import INVALID
print(math.copysign(1.0, INVALID))
"""


@pytest.mark.parametrize(("machine", "sign"), [("x86_64", "-1.0"), ("aarch64", "1.0")])
def test_the_nan_of_an_invalid_operation_is_the_one_of_its_processor(
    machine: str, sign: str
) -> None:
    words = [sys.executable, "-c", CODE, str(Path(npaccel.__file__).parent), machine]
    assert subprocess.check_output(words, text=True).strip() == sign
