"""How fast the host runs kernels."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from npaccel.backends.base import Grid
from npaccel.backends.llvm.launch import run_step
from npaccel.backends.samples import SAMPLE_ELEMENTS, best_time, measure_rates
from npaccel.backends.speeds import Speeds
from npaccel.ir.nodes import Kernel

__all__ = ["measure"]

# From a flush to a thread of the pool and back; Python would take longer to measure it.
LAUNCH_S = 5e-6
GRAIN = 1 << 15  # elements


def measure(backend: Any, threads: int) -> Speeds:
    """Of kernels on so many threads."""
    arrays = {d: [np.zeros(SAMPLE_ELEMENTS, d) for _ in range(2)] for d in ("f4", "f8")}
    with ThreadPoolExecutor(threads) as pool:

        def seconds_of(kernel: Kernel, dtype: str, n: int) -> float:
            if n == 1:
                return LAUNCH_S
            compiled = backend.compile(kernel)
            grid = Grid(1, 1, n, -(-n // threads // GRAIN) * GRAIN)
            return best_time(lambda: run_step(compiled, (n,), arrays[dtype], grid=grid, pool=pool))

        copy_bytes_s, *rates = measure_rates(seconds_of)
    return Speeds(copy_bytes_s, copy_bytes_s, *rates)
