"""Kernels whose times say how fast a machine is."""

from __future__ import annotations

from collections.abc import Callable

from npaccel.backends.speeds import Work, work_of
from npaccel.ir.exponentials import exp
from npaccel.ir.nodes import ArrayParam, Kernel, Leaf, Store, Stride
from npaccel.ir.scalar import Core, Expr, Pool
from npaccel.ir.text import body_text, kernel_name
from npaccel.own import time

__all__ = ["SAMPLE_ELEMENTS", "best_time", "measure_rates"]

SAMPLE_ELEMENTS = 1 << 21
STEPS = 64  # multiplications and as many additions
# What is not a launch takes at least this part of a measured time.
LEAST_PART = 0.1


def best_time(call: Callable[[], object], repeats: int = 4) -> float:
    """The shortest of some calls, after one that is not counted."""
    call()
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times)


def _sample(dtype: str, body: Callable[[Expr], Expr]) -> Kernel:
    value = body(Pool().make(Core.LOAD, dtype, (), 0))
    arrays = (
        ArrayParam(dtype, Stride.UNIT, read=True, written=False),
        ArrayParam(dtype, Stride.UNIT, read=False, written=True),
    )
    leaf = Leaf(row=False, effects=(Store(1, value),))
    made = Kernel("", 0, 1, arrays, (), (), (), (leaf,), split=True)
    return Kernel(kernel_name(body_text(made)), 0, 1, arrays, (), (), (), (leaf,), split=True)


def _sums(x: Expr) -> Expr:
    for step in range(STEPS):
        x = x * (0.5 + step / 256) + 0.25
    return x


def measure_rates(
    seconds_of: Callable[[Kernel, str, int], float],
) -> tuple[float, float, float, float, float]:
    """The fields of Speeds but for the second.

    seconds_of : the best time of a kernel that reads an array of this dtype and so many elements,
        zeros, and writes another one.
    """
    copied, summed_f8, summed_f4, other = (
        _sample("f8", lambda x: x),
        _sample("f8", _sums),
        _sample("f4", _sums),
        _sample("f8", lambda x: exp(x, fine=True)),
    )
    launch_s = seconds_of(copied, "f8", 1)

    def running(kernel: Kernel, dtype: str) -> float:
        seconds = seconds_of(kernel, dtype, SAMPLE_ELEMENTS)
        return max(seconds - launch_s, LEAST_PART * seconds)

    def work(kernel: Kernel) -> Work:
        return work_of(kernel.leaves[0].roots, SAMPLE_ELEMENTS)

    copy_bytes_s = 2 * 8 * SAMPLE_ELEMENTS / running(copied, "f8")
    sums_f8_s = work(summed_f8).sums_wide / running(summed_f8, "f8")
    sums_f4_s = work(summed_f4).sums_narrow / running(summed_f4, "f4")
    seconds, mixed = running(other, "f8"), work(other)
    left = max(seconds - mixed.sums_wide / sums_f8_s, LEAST_PART * seconds)
    return copy_bytes_s, launch_s, sums_f8_s, sums_f4_s, mixed.others_wide / left
