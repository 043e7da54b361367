"""A table of a million elements looked up by four million computed indices, and used."""

import sys

import numpy as np
from contenders import with_jax, with_npaccel, with_numba, with_numpy
from harness import Bench

TABLE, INDICES = 1 << 20, 4_000_000


def look_up(table, places):
    index = (places * table.size).astype(np.int64)
    return table[index] * places + 1.0


def for_jax(jax):
    def call(table, places):
        index = (places * table.size).astype("int64")
        return table[index] * places + 1.0

    return call


def main():
    rng = np.random.default_rng(1)
    arrays = {"table": rng.random(TABLE), "places": rng.random(INDICES)}
    bench = Bench("gather", __doc__, 4 * arrays["places"].nbytes, rounds=15)
    bench.reference = lambda: look_up(**arrays)
    bench.add("numpy", with_numpy(look_up, arrays), tolerance=0.0)
    bench.add("npaccel", with_npaccel(look_up, arrays), tolerance=0.0)
    bench.add("numba", with_numba(look_up, arrays), tolerance=1e-12)
    bench.add("jax", with_jax(for_jax, arrays), tolerance=1e-12)
    bench.skipped["numexpr"] = "has no subscripts in an expression"
    return bench.main()


if __name__ == "__main__":
    sys.exit(main())
