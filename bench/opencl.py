"""The OpenCL backend against LLVM on the same machine: kernels alone, interleaved, medians.

Run as ``python bench/opencl.py``; it prints a table, and nothing is asserted. Processor time is
what can be compared on a machine that does other work, too. Each has arrays of its own, which lie
where it runs.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from harness import ROOT, machine, parse, write

import npaccel

ELEMENTS = 1 << 22


def _five_points(x: Any) -> Any:
    return 4 * x[1:-1, 1:-1] - x[:-2, 1:-1] - x[2:, 1:-1] - x[1:-1, :-2] - x[1:-1, 2:]


def _softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


PROGRAMS: Mapping[str, Callable[[Any, Any], Any]] = {
    "x + y": lambda x, y: x + y,
    "x * 2 + y * y - 1": lambda x, y: x * 2.0 + y * y - 1.0,
    "sum of products": lambda x, y: (x * y).sum(),
    "means of columns": lambda x, y: x.reshape(2048, -1).mean(axis=0),
    "rows less their maxima": lambda x, y: (
        x.reshape(2048, -1) - x.reshape(2048, -1).max(axis=1, keepdims=True)
    ),
    "exp": lambda x, y: np.exp(x),
    "five points of a grid": lambda x, y: _five_points(x.reshape(2048, -1)),
    "softmax of rows": lambda x, y: _softmax(x.reshape(2048, -1)),
    "i4 // 7": lambda x, y: x.view("i4") // 7,
    "sin * log1p": lambda x, y: np.sin(x) * np.log1p(y),
}


def main() -> int:
    options = parse(None, 15)
    rows = {}
    npaccel.config.tiering = "eager"
    rng = np.random.default_rng(0)
    sources = [rng.random(ELEMENTS) for _ in range(2)]
    places = {"llvm": "cpu", "opencl": "opencl:0"}
    arrays = {
        backend: [npaccel.asarray(source.copy(), device=place) for source in sources]
        for backend, place in places.items()
    }
    print(f"{'program':24} {'wall ms':>19} {'ratio':>6} {'processor ms':>19} {'ratio':>6}")
    for name, program in PROGRAMS.items():
        times: dict[str, list[tuple[float, float]]] = {"llvm": [], "opencl": []}
        for backend in times:
            with npaccel.backend(backend):
                npaccel.evaluate(program(*arrays[backend]))
        for _ in range(options.rounds):
            for backend, found in times.items():
                with npaccel.backend(backend):
                    begin = time.perf_counter(), time.process_time()
                    npaccel.evaluate(program(*arrays[backend]))
                    end = time.perf_counter(), time.process_time()
                    found.append((1e3 * (end[0] - begin[0]), 1e3 * (end[1] - begin[1])))
        rows[name] = row = {}
        text = f"{name:24}"
        for k, kind in enumerate(("wall", "processor")):
            llvm, opencl = (statistics.median(pair[k] for pair in times[b]) for b in times)
            row |= {f"llvm_{kind}_ms": llvm, f"opencl_{kind}_ms": opencl}
            text += f" {llvm:9.2f} {opencl:9.2f} {llvm / opencl:6.2f}"
        print(text)
    report = {"question": "opencl", "machine": machine(), "rows": rows}
    write(report, options.json or ROOT / ".bench" / "opencl.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
