"""A kernel on the host's threads, on a device, and divided between both (`config.divide`).

Run as ``python bench/both_sides.py``; it prints a table, and nothing is asserted but the bits.
Interleaved, medians. For one core each: NPACCEL_NUM_THREADS=1 POCL_MAX_PTHREAD_COUNT=1. A device
that shares the host's memory is also taken as one with memory of its own; then everything moves
each time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from contenders import example
from harness import ROOT, machine, parse, write
from opencl import measure

import npaccel
from npaccel.this_process import engine

SIZES = {"black_scholes": 1 << 22, "mandelbrot": 4000, "nbody": 4000}
WAYS = {"llvm": ("llvm", "off"), "device": ("opencl", "off"), "both": ("opencl", "on")}
OWN_BYTES = 1 << 31


def _call(program: Callable[..., Any], inputs: Mapping[str, Any], way: str) -> Callable[[], object]:
    backend, divide = WAYS[way]
    arrays = {
        name: npaccel.asarray(value.copy()) if isinstance(value, np.ndarray) else value
        for name, value in inputs.items()
    }

    def call() -> object:
        with npaccel.config(divide=divide), npaccel.accelerate(backend=backend):
            found = program(**arrays)
            npaccel.evaluate(*_all(found))
        return found

    return call


def _shares(call: Callable[[], object]) -> str:
    """What of each kernel the device did."""
    call()
    told = (step.reason for step in npaccel.explain().steps)
    return " ".join(text.split()[1] for text in told if text.startswith("divided"))


def main() -> int:
    options = parse(None, 9)
    npaccel.config.tiering = "eager"
    places = ["its own"]
    if engine.machines.shares("opencl"):
        places.insert(0, "the host's")
    rows = {}
    print(f"{'ms':15}{'memory':>12}" + "".join(f"{way:>10}" for way in WAYS) + "  by the device")
    for name, size in SIZES.items():
        module = example(name)
        inputs = module.inputs(size)
        for memory in places:
            npaccel.config.device_memory = OWN_BYTES if memory == "its own" else 0
            calls = {way: _call(module.main, inputs, way) for way in WAYS}
            bits = {b"".join(np.asarray(x).tobytes() for x in _all(c())) for c in calls.values()}
            if len(bits) > 1:
                raise AssertionError(f"{name}: the bits differ")
            row = rows[f"{name}, {memory}"] = measure(calls, options.rounds)
            cells = "".join(f"{row[f'{way}_wall_ms']:10.1f}" for way in WAYS)
            print(f"{name:15}{memory:>12}{cells}  {_shares(calls['both'])}", flush=True)
    report = {"question": "both_sides", "machine": machine(), "rows": rows}
    write(report, options.json or ROOT / ".bench" / "both_sides.json")
    return 0


def _all(found: object) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


if __name__ == "__main__":
    sys.exit(main())
