"""The OpenCL backend against LLVM on the same machine: kernels alone, interleaved, best times.

Run as ``python bench/opencl.py``; it prints a table, and nothing is asserted.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from harness import ROOT, machine, parse, write

import npaccel

ELEMENTS = 1 << 22
PROGRAMS: Mapping[str, Callable[[Any, Any], Any]] = {
    "x + y": lambda x, y: x + y,
    "x * 2 + y * y - 1": lambda x, y: x * 2.0 + y * y - 1.0,
    "sum of products": lambda x, y: (x * y).sum(),
    "means of columns": lambda x, y: x.reshape(2048, -1).mean(axis=0),
    "rows less their maxima": lambda x, y: (
        x.reshape(2048, -1) - x.reshape(2048, -1).max(axis=1, keepdims=True)
    ),
    "exp": lambda x, y: np.exp(x),
    "sin * log1p": lambda x, y: np.sin(x) * np.log1p(y),
}


def main() -> int:
    options = parse(None, 15)
    rows = {}
    npaccel.config.tiering = "eager"
    rng = np.random.default_rng(0)
    x, y = (npaccel.asarray(rng.random(ELEMENTS)) for _ in range(2))
    print(f"{'program':24} {'llvm ms':>9} {'opencl ms':>9} {'llvm / opencl':>14}")
    for name, program in PROGRAMS.items():
        best = {"llvm": float("inf"), "opencl": float("inf")}
        for backend in ("llvm", "opencl"):
            with npaccel.backend(backend):
                npaccel.evaluate(program(x, y))
        for _ in range(options.rounds):
            for backend in ("llvm", "opencl"):
                with npaccel.backend(backend):
                    begin = time.perf_counter()
                    npaccel.evaluate(program(x, y))
                    best[backend] = min(best[backend], time.perf_counter() - begin)
        llvm, opencl = (1e3 * best[backend] for backend in ("llvm", "opencl"))
        print(f"{name:24} {llvm:9.2f} {opencl:9.2f} {llvm / opencl:14.2f}")
        rows[name] = {"llvm_ms": llvm, "opencl_ms": opencl}
    report = {"question": "opencl", "machine": machine(), "rows": rows}
    write(report, options.json or ROOT / ".bench" / "opencl.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
