"""Nanoseconds to record one binary operation on large arrays, beside NumPy's cost of a tiny one.

A chain of OPERATIONS additions is recorded and dropped, so that what is timed computes nothing: it
is shorter than what is looked through for loops, and what the call before has dropped is let go
first, which is timed, too.
"""

import sys

import numpy as np
from contenders import with_npaccel
from harness import Bench

N = 1_000_000
OPERATIONS = 50


def chain(x, y):
    for _ in range(OPERATIONS):
        y = y + x
    return y


def recording(arrays):
    """A call that records the chain and lets it die unevaluated."""
    with_npaccel(chain, arrays)()  # raises Skip where there is no npaccel
    import npaccel as na

    wrapped = {name: na.asarray(value) for name, value in arrays.items()}

    def call():
        na.evaluate()
        return chain(**wrapped)

    return call


def main():
    # Integers' sums can't warn, so what nobody sees of them is not computed.
    large = {"x": np.ones(N, int), "y": np.zeros(N, int)}
    tiny = {"x": np.ones(1, int), "y": np.zeros(1, int)}
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
