"""Transforms of few numbers: NumPy's to the bit, without the Python code around them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import npaccel

from ..differential import DTYPES, FOREIGN, edge_values
from .comparison import Case, all_same
from .test_makers import arrays

ONE_AXIS = (np.fft.fft, np.fft.ifft, np.fft.rfft, np.fft.irfft)
SEVERAL = (np.fft.fft2, np.fft.ifft2, np.fft.rfft2, np.fft.irfft2, np.fft.hfft, np.fft.ihfft)
GIVEN: tuple[dict[str, Any], ...] = (
    {},
    *({"n": n} for n in (0, 1, 5, 8, -1, 2.5, None, True, np.int64(4), np.int32(4), 10**20)),
    *({"axis": axis} for axis in (0, 1, -2, 5, None, "x")),
    *({"norm": norm} for norm in (None, "ortho", "forward", "x")),
    {"n": 12, "axis": 0},
    {"out": None},
    {"out": np.empty(3, complex)},
    {"where": True},
)


def _calls(a: np.ndarray[Any, Any]) -> Iterator[Case]:
    name = f"{a.dtype}{a.shape}/{a.strides}"
    for function in ONE_AXIS:
        for given in GIVEN:
            label = f"{function.__name__} of {name}, {given}"
            yield label, lambda x, f=function, g=given: f(x, **g), lambda: (a,)
        yield f"{function.__name__} of {name}, 6, 0", function, lambda: (a, 6, 0)
    for function in SEVERAL:
        yield f"{function.__name__} of {name}", function, lambda: (a,)


@pytest.mark.parametrize("dtype", [*DTYPES, *FOREIGN])
def test_of_an_array(dtype: str) -> None:
    for array in arrays(dtype):
        if array.size > 0:  # of nothing NumPy's results have what was in their memory
            all_same(_calls(array))


@pytest.mark.parametrize("dtype", ["f8", "c16"])
@pytest.mark.parametrize("shape", [(2,), (255,), (4096,), (17, 60), (1, 5), (5, 1), (64, 64)])
def test_of_some_more(dtype: str, shape: tuple[int, ...]) -> None:
    a = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    for array in (a, a.T, a[..., ::2], a[::-1]):
        all_same(_calls(array + 0.5j * array if dtype == "c16" else array))


@pytest.mark.parametrize("errors", ["ignore", "warn", "raise"])
@pytest.mark.parametrize("function", ONE_AXIS)
def test_what_it_warns_of(function: Callable[..., Any], errors: Any) -> None:
    with np.errstate(all=errors):
        edges = [edge_values(dtype) for dtype in ("f8", "c16")]
        for array in (*edges, np.full(8, 1e308), np.full(9, 1e-320), np.array([np.inf, 1.0])):
            all_same([(f"{array}", function, lambda array=array: (array,))])


def _python_of(call: Callable[[], Any]) -> set[str]:
    """The functions written in Python that a call runs."""
    seen = set()

    def look(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            seen.add(frame.f_code.co_name)

    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
    return seen


@pytest.mark.pending
@pytest.mark.parametrize("function", ONE_AXIS)
def test_no_python_code_runs(function: Callable[..., Any]) -> None:
    x = np.arange(20.0)
    with npaccel.accelerate():
        for call in (lambda: function(x), lambda: function(x, 8), lambda: function(x, axis=0)):
            assert "_raw_fft" not in _python_of(call)
        assert "_raw_fft" in _python_of(lambda: function(x, norm="ortho"))


@pytest.mark.pending
def test_of_a_module_that_is_imported_within_a_block() -> None:
    program = """
import sys
import numpy as np
import npaccel
with npaccel.accelerate():
    sys.modules.pop("numpy.fft", None)
    found = np.fft.fft(np.arange(4.0))
    seen = []
    sys.setprofile(lambda frame, event, _: seen.append(frame.f_code.co_name))
    np.fft.fft(np.arange(4.0))
    sys.setprofile(None)
assert "_raw_fft" not in seen, seen
print(found)
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{np.fft.fft(np.arange(4.0))}\n"
