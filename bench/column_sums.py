"""Sums of squares of the columns of a 4000 x 2000 matrix: is it read at the speed of memory?"""

import sys

import numpy as np
from contenders import with_jax, with_npaccel, with_numpy
from harness import Bench

ROWS, COLUMNS = 4000, 2000


def totals(x):
    return (x * x).sum(axis=0)


def for_jax(jax):
    def function(x):
        return (x * x).sum(axis=0)

    return function


def main():
    arrays = {"x": np.random.default_rng(5).normal(0.0, 3.0, (ROWS, COLUMNS))}
    bench = Bench("column_sums", __doc__, arrays["x"].nbytes, rounds=15)
    bench.reference = lambda: totals(**arrays)
    bench.add("numpy", with_numpy(totals, arrays), tolerance=0.0)
    bench.add("npaccel", with_npaccel(totals, arrays), tolerance=1e-12)
    bench.add("jax", with_jax(for_jax, arrays), tolerance=1e-12)
    bench.skipped["numexpr"] = "reduces whole expressions only"
    return bench.main()


if __name__ == "__main__":
    sys.exit(main())
