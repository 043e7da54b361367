"""The OpenCL backend against LLVM on the same machine, and against peers on the same device.

Run as ``python bench/opencl.py``; it prints a table, and nothing is asserted. Interleaved, medians.
Processor time is what can be compared on a machine that does other work, too. Each has arrays of
its own, which lie where it runs. CuPy and JAX take part where they are installed and see a device.
"""

from __future__ import annotations

import importlib
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from harness import ROOT, machine, parse, write

import npaccel

ELEMENTS = 1 << 24
ROWS = 4096
PLACES = {"llvm": "cpu", "opencl": "opencl:0"}


def _five_points(np: Any, x: Any, y: Any) -> Any:
    x = x.reshape(ROWS, -1)
    return 4 * x[1:-1, 1:-1] - x[:-2, 1:-1] - x[2:, 1:-1] - x[1:-1, :-2] - x[1:-1, 2:]


def _softmax(np: Any, x: Any, y: Any) -> Any:
    x = x.reshape(ROWS, -1)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def _less_maxima(np: Any, x: Any, y: Any) -> Any:
    x = x.reshape(ROWS, -1)
    return x - x.max(axis=1, keepdims=True)


def _escape(np: Any, x: Any, y: Any) -> Any:
    """Ten steps of the Mandelbrot set."""
    zr, zi, n = x * 0.0, x * 0.0, x * 0.0
    for _ in range(10):
        inside = zr * zr + zi * zi < 4.0
        zr, zi = (
            np.where(inside, zr * zr - zi * zi + x, zr),
            np.where(inside, 2.0 * zr * zi + y, zi),
        )
        n = n + inside
    return n


PROGRAMS: Mapping[str, Callable[[Any, Any, Any], Any]] = {
    "x + y": lambda np, x, y: x + y,
    "x * 2 + y * y - 1": lambda np, x, y: x * 2.0 + y * y - 1.0,
    "sum of products": lambda np, x, y: (x * y).sum(),
    "means of columns": lambda np, x, y: x.reshape(ROWS, -1).mean(axis=0),
    "rows less their maxima": _less_maxima,
    "where": lambda np, x, y: np.where(x > y, x, -y),
    "exp": lambda np, x, y: np.exp(x),
    "five points of a grid": _five_points,
    "softmax of rows": _softmax,
    "running sums of rows": lambda np, x, y: np.cumsum(x.reshape(ROWS, -1), axis=1),
    "transposed + plain": lambda np, x, y: x.reshape(ROWS, -1).T + y.reshape(ROWS, -1),
    "i4 // 7": lambda np, x, y: x.view("i4") // 7,
    "sin * log1p": lambda np, x, y: np.sin(x) * np.log1p(y),
    "ten steps of Mandelbrot": _escape,
}


def _ours(backend: str, sources: list[Any]) -> Callable[[Any], Callable[[], object]]:
    x, y = (npaccel.asarray(source.copy(), device=PLACES[backend]) for source in sources)

    def make(program: Any) -> Callable[[], object]:
        def call() -> object:
            with npaccel.backend(backend):
                return npaccel.evaluate(program(np, x, y))

        return call

    return make


def _cupy(sources: list[Any]) -> Callable[[Any], Callable[[], object]]:
    cupy = importlib.import_module("cupy")
    x, y = map(cupy.asarray, sources)

    def make(program: Any) -> Callable[[], object]:
        def call() -> object:
            result = program(cupy, x, y)
            cupy.cuda.get_current_stream().synchronize()
            return result

        return call

    return make


def _jax(sources: list[Any]) -> Callable[[Any], Callable[[], object]]:
    jax = importlib.import_module("jax")
    if jax.default_backend() == "cpu":
        raise ImportError("it sees no device")
    jax.config.update("jax_enable_x64", True)
    x, y = map(jax.numpy.asarray, sources)

    def make(program: Any) -> Callable[[], object]:
        compiled = jax.jit(lambda x, y: program(jax.numpy, x, y))
        return lambda: compiled(x, y).block_until_ready()

    return make


def contenders(sources: list[Any]) -> dict[str, Callable[[Any], Callable[[], object]]]:
    """By name what makes the call to time of a program; peers that can't run are told."""
    found = {backend: _ours(backend, sources) for backend in PLACES}
    for name, peer in (("cupy", _cupy), ("jax", _jax)):
        try:
            found[name] = peer(sources)
        except Exception as error:  # whatever a peer raises that has no driver
            print(f"{name} is left out: {type(error).__name__}: {str(error)[:80]}")
    return found


def measure(calls: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Medians in ms by turns, of the wall's time and of the processor's."""
    for call in calls.values():
        call()
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            begin = time.perf_counter(), time.process_time()
            call()
            end = time.perf_counter(), time.process_time()
            times[name].append((1e3 * (end[0] - begin[0]), 1e3 * (end[1] - begin[1])))
    return {
        f"{name}_{kind}_ms": statistics.median(pair[k] for pair in times[name])
        for name in calls
        for k, kind in enumerate(("wall", "processor"))
    }


def main() -> int:
    options = parse(None, 15)
    npaccel.config.tiering = "eager"
    rng = np.random.default_rng(0)
    there = contenders([rng.random(ELEMENTS) for _ in range(2)])
    rows = {}
    print(f"{'ms; in brackets processor time':30}" + "".join(f"{name:>20}" for name in there))
    for name, program in PROGRAMS.items():
        calls = {}
        for one, make in there.items():
            try:
                calls[one] = make(program)
                calls[one]()
            except Exception as error:  # of a peer that lacks something
                if one in PLACES:
                    raise
                print(f"{one}, {name}: {type(error).__name__}: {str(error)[:80]}")
                del calls[one]
        rows[name] = row = measure(calls, options.rounds)
        cells = (
            f"{row[f'{one}_wall_ms']:10.2f} ({row[f'{one}_processor_ms']:7.2f})"
            if one in calls
            else f"{'-':>20}"
            for one in there
        )
        print(f"{name:30}" + "".join(cells), flush=True)
    report = {"question": "opencl", "machine": machine(), "rows": rows}
    write(report, options.json or ROOT / ".bench" / "opencl.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
