"""sin(a)**2 + cos(b)**2 over 2**24 doubles: how fast is the mathematics?"""

import sys

import numpy as np
from contenders import with_jax, with_npaccel, with_numba, with_numexpr, with_numpy
from harness import Bench

N = 2**24


def expression(a, b):
    return np.sin(a) ** 2 + np.cos(b) ** 2


def for_jax(jax):
    return lambda a, b: jax.numpy.sin(a) ** 2 + jax.numpy.cos(b) ** 2


def main():
    rng = np.random.default_rng(2)
    arrays = {name: rng.uniform(-10.0, 10.0, N) for name in "ab"}
    bench = Bench("sincos", __doc__, 3 * arrays["a"].nbytes, rounds=7)
    bench.reference = lambda: expression(**arrays)
    bench.add("numpy", with_numpy(expression, arrays), tolerance=0.0)
    bench.add("npaccel", with_npaccel(expression, arrays), tolerance=1e-15)
    bench.add("numexpr", with_numexpr("sin(a)**2 + cos(b)**2", arrays))
    bench.add("numba", with_numba(expression, arrays))
    bench.add("jax", with_jax(for_jax, arrays))
    return bench.main()


if __name__ == "__main__":
    sys.exit(main())
