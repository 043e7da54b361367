"""Black-Scholes over 2 million options: many functions, much arithmetic, two results."""

import sys

from contenders import example, with_jax, with_npaccel, with_numba, with_numexpr, with_numpy
from harness import Bench

program = example("black_scholes")

# The example's formula as NumExpr wants it: one text per result. put = call - parity.
D1 = "((log(spot / strike) + 0.065 * years) / (0.3 * sqrt(years)))"
D2 = f"({D1} - 0.3 * sqrt(years))"
POLYNOMIAL = (
    "0.319381530 + {k} * (-0.356563782 + {k} * (1.781477937 + {k} * (-1.821255978 "
    "+ {k} * 1.330274429)))"
)


def cdf_text(x):
    k = f"(1.0 / (1.0 + 0.2316419 * abs({x})))"
    tail = f"(exp(-0.5 * {x} * {x}) * {k} * ({POLYNOMIAL.format(k=k)}) / 2.5066282746310002)"
    return f"where({x} >= 0.0, 1.0 - {tail}, {tail})"


DISCOUNTED = "(strike * exp(-0.02 * years))"
CALL = f"spot * {cdf_text(D1)} - {DISCOUNTED} * {cdf_text(D2)}"
PUT = f"{DISCOUNTED} * {cdf_text(f'(-{D2})')} - spot * {cdf_text(f'(-{D1})')}"


def for_numexpr(arrays):
    def make():
        first, second = (with_numexpr(text, arrays)() for text in (CALL, PUT))
        return lambda: (first(), second())

    return make


def for_numba(arrays):
    def make():
        import numba

        cdf = numba.njit(inline="always")(program.normal_cdf)
        compiled = {"normal_cdf": cdf, "np": program.np}
        source = type(program.main)(program.main.__code__, compiled, "main")
        source.__defaults__ = program.main.__defaults__
        return with_numba(source, arrays)()

    return make


def for_jax(jax):
    substitute = example("black_scholes")
    substitute.np = jax.numpy
    return substitute.main


def main():
    arrays = program.inputs()
    bench = Bench("black_scholes", __doc__, 5 * arrays["spot"].nbytes, rounds=9)
    bench.reference = lambda: program.main(**arrays)
    bench.add("numpy", with_numpy(program.main, arrays), tolerance=0.0)
    bench.add("npaccel", with_npaccel(program.main, arrays), tolerance=1e-14)
    bench.add("numexpr", for_numexpr(arrays))
    bench.add("numba", for_numba(arrays))
    bench.add("jax", with_jax(for_jax, arrays))
    return bench.main()


if __name__ == "__main__":
    sys.exit(main())
