"""The first call of every example, in a fresh process: cold caches, then a warm disk.

Medians of ROUNDS fresh processes each, NumPy and npaccel in turn. cold: an empty cache folder;
warm: one that the two processes before filled, the second of which took kernels from it and noted
what it used; steady: later calls of that process; warm_speed: the first
call's speed as a part of theirs. floor: later calls too, with no memory kept from the one before:
all is known, but results have new pages, as NumPy's have at each call; floor_speed: the first
call's speed as a part of those. Memory that is free has been touched just before. The delay is the
longest processor time that a flush was in Python: looking for a program in memory and on disk,
choosing, asking the helper, taking in what it answers. Without what the interpreter's collector
took meanwhile: it comes when the process has made so many objects, wherever that is.
"""

import gc
import os
import statistics
import sys
import tempfile
import time

import numpy as np
from fresh import each, own_peak_bytes, report, say
from harness import parse

ROUNDS = 3
CALLS = 12
EXAMPLES = (
    "black_scholes",
    "density",
    "gray_scott",
    "heat",
    "kmeans",
    "mandelbrot",
    "nbody",
    "photograph",
    "returns",
    "shallow_water",
    "softmax",
)


def timed(call):
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e3


def child(name):
    engine, example = name.split("/")
    from npaccel import demo

    (program,) = demo.find_programs([example])
    inputs = program.inputs()
    if engine == "numpy":
        say(first_ms=timed(lambda: program.main(**inputs)), peak_mib=own_peak_bytes() / 2**20)
        return 0
    import npaccel
    from npaccel import this_process

    delays = []
    collected = 0.0

    def collecting(phase, _):
        nonlocal collected
        collected += time.thread_time() * (-1 if phase == "start" else 1)

    gc.callbacks.append(collecting)
    engine_type = type(this_process.make_engine())

    def measured(method):
        def call(*args):
            start = time.thread_time() - collected
            try:
                return method(*args)
            finally:
                delays.append((time.thread_time() - collected - start) * 1e3)

        return call

    # All that the C core calls when it does not know what is pending, or was touched.
    engine_type.__call__ = measured(engine_type.__call__)
    engine_type.touched = measured(engine_type.touched)
    wrapped = {k: npaccel.asarray(v) if isinstance(v, np.ndarray) else v for k, v in inputs.items()}

    def call():
        return npaccel.evaluate(program.main(**wrapped))

    def forget_pages():
        # What died before is found dead by the next evaluation.
        kept, npaccel.config.nursery = npaccel.config.nursery, 0
        npaccel.evaluate(npaccel.asarray(np.ones(1 << 15)) + 1)
        npaccel.config.nursery = kept

    first = timed(call)
    peak = own_peak_bytes() / 2**20
    # Until nothing is being compiled any more, and then a few.
    end = time.monotonic() + 20
    calm = 0
    while calm < CALLS and time.monotonic() < end:
        before = npaccel.stats()["tier0_runs"]
        call()
        calm = calm + 1 if npaccel.stats()["tier0_runs"] == before else 0
    steady, floor = [], []
    for _ in range(CALLS):  # in turn: both meet the same machine
        forget_pages()
        floor.append(timed(call))
        call()
        steady.append(timed(call))
    say(
        first_ms=first,
        steady_ms=statistics.median(steady),
        floor_ms=statistics.median(floor),
        delay_ms=max(delays, default=0.0),
        peak_mib=peak,
        tier0_runs=npaccel.stats()["tier0_runs"],
        llvm=float("llvmlite" in sys.modules),
    )
    return 0


def main():
    if sys.argv[1:2] == ["--child"]:
        return child(sys.argv[2])
    only = parse(None, 1).only
    results, skipped = {}, {}
    for example in EXAMPLES:
        if only and example not in only:
            continue
        sys.argv[1:] = []
        rows = {"numpy": [], "cold": [], "second": [], "warm": []}
        for _ in range(ROUNDS):
            with tempfile.TemporaryDirectory(prefix="npaccel-bench-") as folder:
                setting = {
                    "NPACCEL_CACHE_DIR": os.path.join(folder, "cache"),
                    "NPACCEL_TIERING": "adaptive",
                }
                for kind, contender in (
                    ("numpy", "numpy"),
                    ("cold", "npaccel"),
                    ("second", "npaccel"),
                    ("warm", "npaccel"),
                ):
                    found, lost = each(__file__, [f"{contender}/{example}"], setting)
                    skipped |= lost
                    rows[kind] += found.values()
        if not all(rows.values()):
            continue

        def median(kind, what, rows=rows):
            return statistics.median(row[what] for row in rows[kind])

        numpy_ms = median("numpy", "first_ms")
        results[example] = {
            "numpy_ms": numpy_ms,
            "cold_ms": median("cold", "first_ms"),
            "cold_ratio": median("cold", "first_ms") / numpy_ms,
            "second_ms": median("second", "first_ms"),
            "warm_ms": median("warm", "first_ms"),
            "steady_ms": median("warm", "steady_ms"),
            "floor_ms": median("warm", "floor_ms"),
            "warm_speed": median("warm", "steady_ms") / median("warm", "first_ms"),
            "floor_speed": median("warm", "floor_ms") / median("warm", "first_ms"),
            "delay_ms": max(row["delay_ms"] for row in rows["cold"]),
            "peak_ratio": median("cold", "peak_mib") / median("numpy", "peak_mib"),
            "tier0_runs": median("cold", "tier0_runs"),
        }
        print(example, {k: round(v, 2) for k, v in results[example].items()}, flush=True)
    report("first_calls", __doc__, results, skipped)
    return 0


if __name__ == "__main__":
    sys.exit(main())
