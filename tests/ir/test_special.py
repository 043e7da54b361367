"""Functions of scipy.special: distance from the exact result, special values."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special as scipy_special
from straight import Case, Module, expressions
from test_mathematics import distance

from npaccel.ir.fast import FAST
from npaccel.ir.special import SPECIAL

EXACT = np.longdouble
ROWS = [*SPECIAL, *(op for op in FAST if op.name == "erf")]
CASES = [Case(op, (d,) * (op.nin + 1)) for op in ROWS for d in ("f4", "f8")]
N = 10_000
TWO_OVER_ROOT_PI = EXACT(2) / np.sqrt(np.arccos(EXACT(-1)))


def name(case):
    return "_".join([case.op.name, *["fast"] * (case.op in FAST), *case.loop])


@pytest.fixture(scope="module")
def compiled():
    return Module({name(c): expressions(c)[:2] for c in CASES})


# What is exact enough to judge f8: positive series, and a continued fraction where those are long.


def square_and_rest(x):
    """x**2 as a sum, for exp(-x**2) of large x."""
    high = x.astype("f4").astype(EXACT)  # whose square is exact
    return high * high, (x - high) * (x + high)


def exp_minus_square(x, scale=1):
    high, low = square_and_rest(x)
    return np.exp(-high * scale) * np.exp(-low * scale)


def exact_erf(x):
    """2 / sqrt(pi) exp(-x**2) sum(2**n x**(2 n + 1) / (2 n + 1)!!)."""
    term = total = x
    for n in range(1, 250):
        term = term * (2 * x * x / (2 * n + 1))
        total = total + term
    return TWO_OVER_ROOT_PI * exp_minus_square(x) * total


def upper_tail(x, exponent=None):
    """erfc(x), x >= 2: exp(-x**2) / sqrt(pi) / (x + (1/2) / (x + 1 / (x + (3/2) / (x + ...)))."""
    fraction = x
    for n in range(300, 0, -1):
        fraction = x + EXACT(n) / 2 / fraction
    factor = exp_minus_square(x) if exponent is None else exponent
    return factor * TWO_OVER_ROOT_PI / 2 / fraction


def exact_erfc(x):
    size = np.abs(x)
    small = np.minimum(size, 2)
    tail = np.where(size < 2, 1 - exact_erf(small), upper_tail(np.maximum(size, 2)))
    return np.where(x < 0, 2 - tail, np.where(size < 1, 1 - exact_erf(np.clip(x, -1, 1)), tail))


def exact_ndtr(x):
    y = np.abs(x) / np.sqrt(EXACT(2))
    large = np.maximum(y, 2)
    exponent = exp_minus_square(np.maximum(np.abs(x), np.sqrt(EXACT(8))), 0.5)
    near = 0.5 + 0.5 * np.sign(x) * exact_erf(np.minimum(y, 2))
    tail = 0.5 * upper_tail(large, exponent=exponent)
    return np.where(y < 2, near, np.where(x < 0, tail, 1 - tail))


REFERENCES = {
    "erf": lambda x: np.where(np.abs(x) < 7, exact_erf(np.clip(x, -7, 7)), np.sign(x)),
    "erfc": exact_erfc,
    "ndtr": exact_ndtr,
    "expit": lambda x: np.exp(np.minimum(x, 0)) / (1 + np.exp(-np.abs(x))),
    "logit": lambda x: np.where(
        np.abs(x - 0.5) < 0.25, 2 * np.arctanh(2 * x - 1), np.log(x) - np.log1p(-x)
    ),
    "xlogy": lambda x, y: x * np.log(y),
    "xlog1py": lambda x, y: x * np.log1p(y),
}


def arguments(case):
    rng = np.random.default_rng(3)
    u = rng.uniform(-1, 1, N)
    small, wide = u**9, np.sign(u) * np.exp(rng.uniform(-700, 0, N))
    near = [u, small, wide, 1 + u * 0.01, u * 5]
    x = {
        "erf": [*near, u * 10],
        "erfc": [*near, u * 26, 26.5 + u * 0.7],
        "ndtr": [*near, u * 38, -38 + u * 0.4],
        "expit": [*near, u * 40, u * 745],
        "logit": [(u + 1) / 2, 0.5 + u / 4, 0.5 + small / 2, np.abs(wide), 1 - np.abs(u**7)],
    }.get(case.op.name, [*near, u * 1e5])
    with np.errstate(all="ignore"):
        arrays = [np.concatenate(x).astype(case.ins[0])]
    if case.op.nin == 2:
        other = np.concatenate([1 + u * 0.4, 1 + small * 0.99, np.exp(u * 80)] * 2)
        arrays.append((other - (case.op.name == "xlog1py")).astype(case.ins[0]))
        inside = arrays[1] > (-1 if case.op.name == "xlog1py" else 0)
        arrays = [x[inside] for x in arrays]
    if case.op.name == "logit":
        arrays = [x[(x > 0) & (x < 1)] for x in arrays]
    return arrays


@pytest.mark.parametrize("case", CASES, ids=str)
def test_accuracy(case, compiled):
    arrays = arguments(case)
    got = compiled.run(name(case), arrays)[0]
    with np.errstate(all="ignore"):
        want = REFERENCES[case.op.name](*(x.astype(EXACT) for x in arrays))
    apart = distance(got, want, ())
    worst = int(np.argmax(apart))
    where = [x[worst] for x in arrays]
    limit = case.op.ulp if case.ins[0] == "f8" or case.op in FAST else 1
    assert apart[worst] <= limit, f"{apart[worst]} at {where}: {got[worst]}, not {want[worst]}"


@pytest.mark.parametrize("function", ["erf", "erfc", "ndtr"])
def test_references(function):
    """They agree with SciPy's as far as these go."""
    x = np.linspace(-5, 5, 1001)
    want = getattr(scipy_special, function)(x)
    np.testing.assert_allclose(REFERENCES[function](x.astype(EXACT)).astype("f8"), want, 1e-14)


ODD = np.array([
    0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 2.0, 1.5, 1e300, -1e300, 5e-324, -5e-324,
    2.0**-1022, 1 - 2.0**-53, 1 + 2.0**-52, 39.0, -39.0, 26.6, 750.0, -750.0, 1e-200, 0.25, 0.75,
])  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_special_values_are_scipys(case, compiled):
    with np.errstate(all="ignore"):
        odd = ODD.astype(case.ins[0])
    arrays = [odd] if case.op.nin == 1 else [a.ravel() for a in np.meshgrid(odd, odd)]
    got = compiled.run(name(case), arrays)[0]
    want = getattr(scipy_special, case.op.name)(*arrays)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    settled = ~np.isfinite(want) | (want == 0)
    tiny = np.abs(got) < np.finfo(got.dtype).tiny  # where SciPy's is 0 before it must be
    np.testing.assert_array_equal(np.where(tiny, 0, got)[settled], want[settled])
    signed = settled & ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[signed]), np.signbit(want[signed]))
    np.testing.assert_allclose(got[~settled], want[~settled], 1e-6 if got.itemsize == 4 else 1e-12)
