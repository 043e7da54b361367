"""(a*2 + b)*c - a/3 over 8 million doubles: how near to the memory's speed?

Four streams of 64 MB must move. The yardstick moves as many bytes by copying.
"""

import sys

import numpy as np
from bandwidth import make_copy
from contenders import with_jax, with_npaccel, with_numba, with_numexpr, with_numpy
from harness import Bench

N = 8_000_000


def expression(a, b, c):
    return (a * 2 + b) * c - a / 3


def main():
    rng = np.random.default_rng(1)
    arrays = {name: rng.normal(size=N) for name in "abc"}
    moved_bytes = 4 * arrays["a"].nbytes
    bench = Bench("fused_expression", __doc__, moved_bytes)
    bench.reference = lambda: expression(**arrays)
    bench.add("numpy", with_numpy(expression, arrays), tolerance=0.0)
    bench.add("npaccel", with_npaccel(expression, arrays), tolerance=0.0)
    bench.add("numexpr", with_numexpr("(a*2 + b)*c - a/3", arrays))
    bench.add("numba", with_numba(expression, arrays))
    bench.add("jax", with_jax(lambda jax: expression, arrays))
    bench.yardstick("copy (yardstick)", lambda: make_copy(moved_bytes // 2))
    return bench.main()


if __name__ == "__main__":
    sys.exit(main())
