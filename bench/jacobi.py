"""Twenty Jacobi steps on 1500 x 1500 floats: shifted slices written in place."""

import sys

from contenders import example, with_jax, with_npaccel, with_numba, with_numpy
from harness import Bench

program = example("heat")
STEPS = 20


def for_numba(plate):
    plate = plate.copy()
    for _ in range(STEPS):
        around = plate[:-2, 1:-1] + plate[2:, 1:-1] + plate[1:-1, :-2] + plate[1:-1, 2:]
        plate[1:-1, 1:-1] = around * plate.dtype.type(0.25)
    return plate


def for_jax(jax):
    def step(_, plate):
        around = plate[:-2, 1:-1] + plate[2:, 1:-1] + plate[1:-1, :-2] + plate[1:-1, 2:]
        return plate.at[1:-1, 1:-1].set(0.25 * around)

    return lambda plate: jax.lax.fori_loop(0, STEPS, step, plate)


def main():
    arrays = program.inputs()
    bench = Bench("jacobi", __doc__, 2 * STEPS * arrays["plate"].nbytes, rounds=9)
    bench.reference = lambda: program.main(**arrays)
    bench.add("numpy", with_numpy(program.main, arrays), tolerance=0.0)
    bench.add("npaccel", with_npaccel(program.main, arrays), tolerance=0.0)
    bench.add("numba", with_numba(for_numba, arrays), tolerance=1e-6)
    bench.add("jax", with_jax(for_jax, arrays), tolerance=1e-6)
    bench.skipped["numexpr"] = "has no slices to write to in an expression"
    return bench.main()


if __name__ == "__main__":
    sys.exit(main())
