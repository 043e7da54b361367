"""One Jacobi sweep over 1500 x 1500 floats into a new array: five shifted slices, one kernel."""

import sys

import numpy as np
from contenders import with_jax, with_npaccel, with_numba, with_numpy
from harness import Bench

N = 1500


def sweep(plate):
    around = plate[:-2, 1:-1] + plate[2:, 1:-1] + plate[1:-1, :-2] + plate[1:-1, 2:]
    return (around + plate[1:-1, 1:-1]) * plate.dtype.type(0.2)


def main():
    arrays = {"plate": np.random.default_rng(1).random((N, N), dtype=np.float32)}
    bench = Bench("jacobi_sweep", __doc__, 2 * arrays["plate"].nbytes, rounds=31)
    bench.reference = lambda: sweep(**arrays)
    bench.add("numpy", with_numpy(sweep, arrays), tolerance=0.0)
    bench.add("npaccel", with_npaccel(sweep, arrays), tolerance=0.0)
    bench.add("numba", with_numba(sweep, arrays), tolerance=1e-6)
    bench.add("jax", with_jax(lambda jax: sweep, arrays), tolerance=1e-6)
    bench.skipped["numexpr"] = "has no slices to write to in an expression"
    return bench.main()


if __name__ == "__main__":
    sys.exit(main())
