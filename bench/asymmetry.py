"""np.abs(a - b.T).max() over 4000 x 4000 doubles: a fold over rows that b lies across."""

import sys

import numpy as np
from contenders import with_jax, with_npaccel, with_numba, with_numexpr, with_numpy
from harness import Bench

N = 4000


def expression(a, b):
    return np.abs(a - b.T).max()


def for_jax(jax):
    return lambda a, b: jax.numpy.abs(a - b.T).max()


def main():
    rng = np.random.default_rng(2)
    arrays = {name: rng.uniform(-10.0, 10.0, (N, N)) for name in "ab"}
    turned = {"a": arrays["a"], "b": arrays["b"].T}
    bench = Bench("asymmetry", __doc__, 2 * arrays["a"].nbytes, rounds=7)
    bench.reference = lambda: expression(**arrays)
    bench.add("numpy", with_numpy(expression, arrays), tolerance=0.0)
    bench.add("npaccel", with_npaccel(expression, arrays), tolerance=0.0)
    bench.add("numexpr", with_numexpr("max(abs(a - b))", turned))
    bench.add("numba", with_numba(expression, arrays))
    bench.add("jax", with_jax(for_jax, arrays))
    return bench.main()


if __name__ == "__main__":
    sys.exit(main())
