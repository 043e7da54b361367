"""Powers of complex numbers: NumPy's products of whole exponents, its special values and warnings;
elsewhere the distance from the exact result."""

from __future__ import annotations

import numpy as np
import pytest
from against_numpy import numpy_flags, same_bits
from straight import FLAG_NAMES, Case, Module, expressions

from npaccel.ir.complex_powers import COMPLEX_POWER, WHOLE_COMPLEX_POWER
from npaccel.ir.scalar import Pool

TYPES = ["c8", "c16"]
CASES = {dtype: Case(COMPLEX_POWER, (dtype,) * 3) for dtype in TYPES}
WIDE = np.clongdouble
N = 20_000
PARTS = [0.0, -0.0, 1, -1, 2, -3, 2.5, 98, -99, 1e-30, 1e30, np.inf, -np.inf, np.nan]
WHOLE = [-99, -8, -3, -2, -1, 0, 1, 2, 3, 4, 7, 50, 99]


@pytest.fixture(scope="module")
def compiled():
    return Module({dtype: expressions(case)[:2] for dtype, case in CASES.items()})


@pytest.fixture(scope="module")
def by_constants():
    functions = {}
    for dtype in TYPES:
        for n in WHOLE:
            pool = Pool()
            operands = pool.load(dtype, 0), pool.const(dtype, n)
            result = WHOLE_COMPLEX_POWER.body(*operands)
            masks = WHOLE_COMPLEX_POWER.flags(operands, (result,))
            guard = WHOLE_COMPLEX_POWER.guard(operands, (result,))
            roots = [result, *(mask for _, mask in masks), guard]
            functions[f"{dtype}_{n}".replace("-", "m")] = ([operands[0]], roots, masks)
    module = Module({name: (loads, roots) for name, (loads, roots, _) in functions.items()})
    return module, {name: masks for name, (_, _, masks) in functions.items()}


def edges(dtype):
    part = np.finfo(dtype).dtype
    parts = np.array([*PARTS, np.finfo(part).max / 2, np.finfo(part).tiny / 3]).astype(part)
    made = np.empty(len(parts) ** 2, dtype)
    made.real, made.imag = (x.ravel() for x in np.meshgrid(parts, parts))
    return made


def normal(rng, scale=1.0):
    return scale * (rng.normal(size=N) + 1j * rng.normal(size=N))


def pairs(name):
    """Bases and exponents; |y log x| is a few hundred at most, but for turns."""
    rng = np.random.default_rng(3)
    circle = np.exp(1j * rng.uniform(-3.14, 3.14, N))
    tiny = 10.0 ** rng.uniform(-12, -1, N)
    return {
        "plain": lambda: (normal(rng), normal(rng, 3.0)),
        "large": lambda: (normal(rng), normal(rng, 30.0)),
        "real exponents": lambda: (normal(rng), rng.normal(size=N) * 5 + 0j),
        "near one": lambda: (1 + normal(rng) * tiny, normal(rng, 100.0)),
        "near the circle": lambda: (circle * (1 + rng.normal(size=N) * tiny), normal(rng, 30.0)),
        "turns": lambda: (circle, rng.normal(size=N) * 1e5 + 0j),
        "of any size": lambda: (normal(rng) * 10.0 ** rng.uniform(-37, 37, N), normal(rng, 0.3)),
        "real": lambda: (rng.normal(size=N) + 0j, rng.normal(size=N) * 10 + 0j),
    }[name]()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    "name",
    ["plain", "large", "real exponents", "near one", "near the circle", "turns", "of any size",
     "real"],
)  # fmt: skip
def test_accuracy(name, dtype, compiled):
    """The bound, and one unit more for each 2**10 of |y log x|."""
    x, y = (v.astype(dtype) for v in pairs(name))
    got = compiled.run(dtype, [x, y])[0]
    with np.errstate(all="ignore"):
        want = np.power(x.astype(WIDE), y.astype(WIDE))
        size = np.abs(want).astype(got.real.dtype)
        turns = np.abs(y.astype(WIDE) * np.log(x.astype(WIDE)))
        apart = np.abs(got.astype(WIDE) - want) / np.spacing(size)
    there = np.isfinite(size) & (size >= np.finfo(dtype).tiny)
    assert there.mean() > 0.8
    assert (apart - turns / 2**10)[there].max() <= COMPLEX_POWER.ulp


@pytest.mark.parametrize("dtype", TYPES)
def test_tiny_and_huge_numbers(dtype, compiled):
    most = {"c8": 37, "c16": 307}[dtype]
    rng = np.random.default_rng(4)
    x = (normal(rng) * 10.0 ** rng.uniform(-most - 7, most, N)).astype(dtype)
    y = normal(rng, 0.4).astype(dtype)
    got = compiled.run(dtype, [x, y])[0]
    with np.errstate(all="ignore"):
        want = np.power(x.astype(WIDE), y.astype(WIDE))
        apart = np.abs(got.astype(WIDE) - want) / np.spacing(np.abs(want).astype(got.real.dtype))
    there = np.abs(want) < np.finfo(dtype).max / 4
    assert there.mean() > 0.9 and apart[there].max() <= COMPLEX_POWER.ulp + 2


@pytest.mark.parametrize("dtype", TYPES)
def test_whole_exponents_have_numpys_bits(dtype, compiled, by_constants):
    rng = np.random.default_rng(5)
    x = np.concatenate([normal(rng)[:2000] * np.exp(rng.uniform(-2, 2, 2000)), edges(dtype)])
    x = x.astype(dtype)
    with np.errstate(all="ignore"):
        for n in range(-100, 101):
            y = np.full(len(x), n, dtype)
            want = np.power(x, y)
            if abs(n) < 100:
                assert same_bits(compiled.run(dtype, [x, y])[0], want).all(), n
            if n in WHOLE:
                module, _ = by_constants
                got = module.run(f"{dtype}_{n}".replace("-", "m"), [x])[0]
                assert same_bits(got, want).all(), n


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", TYPES)
def test_warnings_by_a_constant(dtype, by_constants):
    module, kinds = by_constants
    rng = np.random.default_rng(6)
    wild = normal(rng)[:300] * 10.0 ** rng.uniform(-40, 40, 300)
    x = np.concatenate([edges(dtype), wild]).astype(dtype)
    for n in WHOLE:
        name = f"{dtype}_{n}".replace("-", "m")
        _, *masks, guard = module.run(name, [x])
        ours = [set() for _ in x]
        for (kind, _), mask in zip(kinds[name], masks, strict=True):
            assert guard[mask].all()
            for i in np.flatnonzero(mask):
                ours[i].add(FLAG_NAMES[kind])
        for i, found in enumerate(ours):
            operands = [x[i : i + 1], np.full(1, n, dtype)]
            assert numpy_flags(CASES[dtype], operands) == found, (x[i], n)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", TYPES)
def test_special_values_and_warnings(dtype, compiled):
    values = edges(dtype)
    x, y = (v.ravel() for v in np.meshgrid(values, values, indexing="ij"))
    x, y = x[::11], y[::11]
    result, *masks, guard = compiled.run(dtype, [x, y])
    kinds = expressions(CASES[dtype])[2]
    with np.errstate(all="ignore"):
        want = np.power(x, y)
        # Beyond, there is no telling the angle.
        known = ~(np.abs(y * np.log(x)) > 2.0**20)
    for got, right in ((result.real, want.real), (result.imag, want.imag)):
        lost = np.isnan(right)
        assert (np.isnan(got) == lost)[known].all(), (x[known], y[known])
        # Signs of what over- or underflows are the exact angle's, which is not NumPy's.
        wild = ~np.isfinite(x) | ~np.isfinite(y) | ((want.real == 0) == (want.imag == 0))
        special = known & ~lost & (~np.isfinite(right) | (right == 0)) & ~np.isfinite(x + y)
        assert (got == right)[special & wild].all()
    ours = [set() for _ in x]
    for kind, mask in zip(kinds, masks, strict=True):
        assert guard[mask].all()
        for i in np.flatnonzero(mask):
            ours[i].add(FLAG_NAMES[kind])
    for i in np.flatnonzero(known):
        assert numpy_flags(CASES[dtype], [x[i : i + 1], y[i : i + 1]]) == ours[i], (x[i], y[i])
