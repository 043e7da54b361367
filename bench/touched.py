"""How fast is a loop whose every evaluation is begun by code that never heard of npaccel?

A chain of nine operations on two million numbers, and a BLAS function that reads the result through
its pointer. *called* evaluates before it hands the result over, *loops* is a touch without kernels.
"""

import sys

import numpy as np
from harness import Bench, Skip
from scipy.linalg.blas import ddot

N = 2_000_000
A, B, W = np.random.default_rng(1).uniform(0.5, 2.0, (3, N))


def chain(a, b):
    return np.exp(-a * a) * np.sin(b) + np.sqrt(a + b) / 3.0


def make_numpy():
    return lambda: ddot(chain(A, B), W)


def wrapped():
    try:
        import npaccel as na
    except ImportError as reason:
        raise Skip(str(reason)) from None
    return na, na.asarray(A), na.asarray(B)


def make_touched():
    _, a, b = wrapped()
    return lambda: ddot(np.asarray(chain(a, b)), W)


def make_called():
    na, a, b = wrapped()
    return lambda: ddot(np.asarray(na.evaluate(chain(a, b))), W)


def make_loops():
    na, a, b = wrapped()

    def call():
        with na.accelerate(backend="numpy"):
            pending = chain(a, b)
        return ddot(np.asarray(pending), W)

    return call


def main():
    bench = Bench("touched", __doc__, moved_bytes=4 * 8 * N, reference=make_numpy())
    bench.add("numpy", make_numpy)
    bench.add("npaccel, touched", make_touched)
    bench.add("npaccel, called", make_called)
    bench.add("npaccel, loops", make_loops)
    return bench.main()


if __name__ == "__main__":
    sys.exit(main())
