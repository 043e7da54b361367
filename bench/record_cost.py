"""Nanoseconds to record one binary operation on large arrays, beside NumPy's cost of a tiny one.

A chain of OPERATIONS additions is recorded and dropped, so that what is timed computes nothing.
"""

import sys

import numpy as np
from contenders import with_npaccel
from harness import Bench

N = 1_000_000
OPERATIONS = 100


def chain(x, y):
    for _ in range(OPERATIONS):
        y = y + x
    return y


def recording(arrays):
    """A call that records the chain and lets it die unevaluated."""
    with_npaccel(chain, arrays)()  # raises Skip where there is no npaccel
    import npaccel as na

    wrapped = {name: na.asarray(value) for name, value in arrays.items()}
    return lambda: chain(**wrapped)


def main():
    large = {"x": np.ones(N), "y": np.zeros(N)}
    tiny = {"x": np.ones(1), "y": np.zeros(1)}
    bench = Bench("record_cost", __doc__, rounds=50)
    bench.yardstick("numpy (1 element)", lambda: lambda: chain(**tiny))
    bench.yardstick("npaccel (records)", lambda: recording(large))
    bench.yardstick("python (loop)", lambda: lambda: [None for _ in range(OPERATIONS)])
    status = bench.main()
    for c in bench.contenders:
        if c.samples_s:
            each_ns = np.median(c.samples_s) / OPERATIONS * 1e9
            print(f"  {c.name:18} {each_ns:8.0f} ns per operation")
    return status


if __name__ == "__main__":
    sys.exit(main())
