"""What a call of a macro section costs on small arrays, beside NumPy, Numba and JAX.

The same functions as plain NumPy, as macro sections (functions and blocks), compiled by Numba
(array expressions, no fastmath) and by JAX (double precision, its own arrays, waiting for the
result). All take turns in every round; microseconds per call.
"""

import sys

import numpy as np
from harness import ROOT, machine, parse, write
from small_arrays import interleaved


def five(x, y, f):
    return (x * y + f) * x - y


def thirty(x, y, f):
    for _ in range(10):
        x = x * y + f - x
    return x


def forty(x, y, f):
    for _ in range(10):
        x = (x * y + f) * 0.5 - x
    return x


CASES = [(five, n) for n in (10, 100, 500, 1000, 4096)]
CASES += [(thirty, n) for n in (10, 100, 500)]
CASES += [(forty, n) for n in (1000, 4096)]


def with_macro(function, x, y):
    import npaccel as na

    section = na.macro(function)
    section(x, y, 0.1)
    return lambda: section(x, y, 0.1)


def with_block(function, x, y):
    import npaccel as na

    na.config.tiering = "eager"
    a, b = na.asarray(x), na.asarray(y)

    def call():
        with na.macro(function.__name__, a, b):
            return function(a, b, 0.1)

    call()
    return call


def with_numba(function, x, y):
    import numba

    compiled = numba.njit(function)
    compiled(x, y, 0.1)
    return lambda: compiled(x, y, 0.1)


def with_jax(function, x, y):
    import jax

    jax.config.update("jax_enable_x64", True)
    compiled, a, b = jax.jit(function), jax.numpy.asarray(x), jax.numpy.asarray(y)
    compiled(a, b, 0.1).block_until_ready()
    return lambda: compiled(a, b, 0.1).block_until_ready()


WAYS = {"macro": with_macro, "block": with_block, "numba": with_numba, "jax": with_jax}


def main():
    options = parse(None, 25)
    rows, missing = {}, {}
    print(f"{'':14}" + "".join(f"{name:>10}" for name in ("numpy", *WAYS)) + "   microseconds")
    for function, n in CASES:
        x, y = (np.random.default_rng(seed).random(n) for seed in (0, 1))
        calls = {"numpy": lambda f=function, x=x, y=y: f(x, y, 0.1)}
        for name, make in WAYS.items():
            try:
                calls[name] = make(function, x, y)
            except ImportError as reason:
                missing[name] = str(reason)
        wanted = calls["numpy"]()
        for name, call in calls.items():
            np.testing.assert_allclose(np.asarray(call()), wanted, rtol=1e-9, err_msg=name)
        row = rows[f"{function.__name__}, {n}"] = interleaved(calls, options.rounds, 400)
        cells = [
            f"{row[w]['median_s']:10.2f}" if w in row else f"{'':>10}" for w in ("numpy", *WAYS)
        ]
        print(f"{function.__name__ + ', ' + str(n):14}" + "".join(cells), flush=True)
    for name, reason in missing.items():
        print(f"left out: {name}: {reason}")
    report = {"question": "macro", "machine": machine(), "rows_us": rows}
    write(report, options.json or ROOT / ".bench" / "macro.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
