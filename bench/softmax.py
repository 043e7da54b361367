"""Softmax over the rows of 40000 x 1000 floats: one read and one write, or five?"""

import sys

import numpy as np
from contenders import with_jax, with_npaccel, with_numba, with_numpy
from harness import Bench

ROWS, COLUMNS = 40_000, 1000
numba_range = range  # numba.prange takes its place


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def for_numba(x):
    result = np.empty_like(x)
    for i in numba_range(x.shape[0]):
        row = np.exp(x[i] - x[i].max())
        result[i] = row / row.sum()
    return result


def with_numba_loop(arrays):
    def make():
        import numba

        function = type(for_numba)(
            for_numba.__code__, {"np": np, "numba_range": numba.prange}, "softmax"
        )
        return with_numba(function, arrays)()

    return make


def for_jax(jax):
    def function(x):
        e = jax.numpy.exp(x - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    return function


def main():
    rng = np.random.default_rng(4)
    arrays = {"x": rng.normal(0.0, 3.0, (ROWS, COLUMNS)).astype(np.float32)}
    bench = Bench("softmax", __doc__, 2 * arrays["x"].nbytes, rounds=7)
    bench.reference = lambda: softmax(**arrays)
    bench.add("numpy", with_numpy(softmax, arrays), tolerance=0.0)
    bench.add("npaccel", with_npaccel(softmax, arrays), tolerance=1e-6)
    bench.add("numba (loops)", with_numba_loop(arrays), tolerance=1e-5)
    bench.add("jax", with_jax(for_jax, arrays), tolerance=1e-5)
    bench.skipped["numexpr"] = "reduces whole expressions only"
    return bench.main()


if __name__ == "__main__":
    sys.exit(main())
