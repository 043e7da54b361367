"""Mathematical functions: distance from the exact result, special values, warnings."""

from __future__ import annotations

import numpy as np
import pytest
from against_numpy import (
    cases,
    check_flags,
    edges,
    numpy_flags,
    operands,
    reference,
    same_bits,
    ufunc,
    wide_edges,
)
from straight import Case, Module, expressions

from npaccel.ir.complex_powers import COMPLEX_POWER
from npaccel.ir.fast import FAST
from npaccel.ir.ops import OPS
from npaccel.ir.reference.expressions import evaluate
from npaccel.ir.scalar import Pool, rare_parts

MATHEMATICS = cases(exact=False)
REAL = [c for c in MATHEMATICS if c.op.kinds == "f"]
EXACT = np.longdouble
N = 8_000


def name(case):
    return "_".join([case.op.name, *["fast"] * (case.op in FAST), *case.loop])


@pytest.fixture(scope="module")
def compiled():
    return Module({name(c): expressions(c)[:2] for c in MATHEMATICS})


def test_longdouble_is_wide_enough_to_judge_f8():
    assert np.finfo(EXACT).nmant >= 63


def samples(dtype):
    """Numbers of every size, and many where the function is interesting."""
    rng = np.random.default_rng(5)
    u = rng.uniform(-1, 1, N)
    raw = rng.integers(0, 256, (N, int(dtype[1:])), np.uint8).view(dtype).ravel()
    wide = np.exp(rng.uniform(-40, 40, N)) * np.sign(u)
    near_one = [1 + u * 0.4, 1 + u**9, np.abs(u), u**9, 1 - np.abs(u) ** 7, 1e5 * np.abs(u)]
    growing = [u * 745, u * 1074, u * 88, u * 20, u * 3]
    turning = [u * 1e6, u * 1e9, u * 1e22]
    with np.errstate(all="ignore"):
        parts = [raw, wide, *near_one, *growing, *turning]
        x = np.concatenate([p.astype(dtype) for p in parts])
    return x[np.isfinite(x)]


def arguments(case):
    dtype = case.ins[0]
    x = samples(dtype)
    if case.op.nin == 1:
        return [x]
    y = np.random.default_rng(7).permutation(x)
    if case.op.name in ("power", "float_power"):
        # Exponents that use the whole range of results.
        most = {"f2": 10.0, "f4": 87.0, "f8": 700.0}[dtype]
        half = len(x) // 2
        with np.errstate(all="ignore"):
            fitting = np.linspace(-most, most, half) / np.log(np.abs(x[:half]).astype("f8"))
            y[:half] = fitting.astype(dtype)
        x[:half] = np.abs(x[:half])
    return [x, y]


def distance(got, want, operands_):
    """Difference from `want` (longdouble) in units of the result's last place."""
    with np.errstate(all="ignore"):
        rounded = want.astype(got.dtype)
        unit = np.spacing(np.abs(rounded)).astype(EXACT)
        for x in operands_:
            unit = np.maximum(unit, np.spacing(np.abs(x)).astype(EXACT))
        apart = np.abs(got.astype(EXACT) - want) / unit
    settled = (got == rounded) & ~np.isfinite(rounded) | np.isnan(got) & np.isnan(want)
    # The last finite number and infinity are neighbours.
    last = np.finfo(got.dtype).max
    edge = (np.isinf(got) & (np.abs(rounded) == last)) | (np.isinf(rounded) & (np.abs(got) == last))
    apart = np.where(settled, 0, np.where(edge & (np.sign(got) == np.sign(rounded)), 1, apart))
    return np.where(np.isnan(apart), np.inf, apart)


@pytest.mark.parametrize("case", REAL, ids=str)
def test_accuracy(case, compiled):
    arrays = arguments(case)
    got = compiled.run(name(case), arrays)[0]
    with np.errstate(all="ignore"):
        want = ufunc(case.op.name)(*(x.astype(EXACT) for x in arrays))
    # log(exp(x) + exp(y)) loses what NumPy's formula loses, relative to the operands.
    apart = distance(got, want, arrays if case.op.name.startswith("logaddexp") else ())
    worst = int(np.argmax(apart))
    limit = case.op.ulp
    where = [x[worst] for x in arrays]
    assert apart[worst] <= limit, f"{apart[worst]} at {where}: {got[worst]}, not {want[worst]}"


def test_powers_by_large_exponents(compiled):
    """Where each part of the result loses as much to rounding as it may."""
    x = np.array([1.4259024005674397, 0.7127572745109209, 0.9567748476340456])
    y = np.array([-1628.2779111077718, -1966.2495187640868, -2831.533131947682])
    (case,) = (c for c in REAL if c.op.name == "power" and c.ins[0] == "f8")
    got = compiled.run(name(case), [x, y])[0]
    assert distance(got, np.power(x.astype(EXACT), y.astype(EXACT)), ()).max() <= case.op.ulp


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("function", ["sin", "cos", "tan"])
def test_near_multiples_of_half_pi(function, dtype, compiled):
    """Where the reduced argument is far smaller than the argument."""
    rng = np.random.default_rng(11)
    q = np.concatenate([np.arange(1, 50_000), rng.integers(1, 2**29, N), rng.integers(1, 2**50, N)])
    nearest = (q * (EXACT(np.pi) / 2 + EXACT(6.123233995736766e-17))).astype(dtype)
    x = np.concatenate([nearest, np.nextafter(nearest, np.zeros((), dtype))])
    for case in (c for c in REAL if c.op.name == function and c.ins[0] == dtype):
        got = compiled.run(name(case), [x])[0]
        assert distance(got, ufunc(function)(x.astype(EXACT)), ()).max() <= case.op.ulp


def test_special_values(compiled):
    """NaN, infinities, both zeros (with sign) and exact small results are NumPy's."""
    wrong = []
    for case in REAL:
        arrays = operands(case)
        got = compiled.run(name(case), arrays)[0]
        with np.errstate(all="ignore"):
            want = reference(case, arrays)[0]
            close = np.isclose(got, want, rtol=4 * np.finfo(got.dtype).eps, atol=0)
            tiny = np.abs(got - want) <= 4 * np.finfo(got.dtype).smallest_subnormal
            if case.op.name.startswith("logaddexp"):
                close |= np.abs(got - want) <= 4 * np.max(
                    [np.spacing(np.abs(a)) for a in arrays], 0
                )
        same = np.isnan(got) & np.isnan(want)
        same |= (close | tiny) & (np.isfinite(got) == np.isfinite(want))
        same &= (np.signbit(got) == np.signbit(want)) | np.isnan(got) | (want != 0) | (got != 0)
        for i in np.flatnonzero(~same)[:3]:
            wrong.append(f"{case}: {[a[i] for a in arrays]} gives {got[i]}, not {want[i]}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.filterwarnings("ignore")
def test_flags(compiled):
    wrong = []
    for case in REAL:
        arrays = [wide_edges(case.ins[0])] if case.op.nin == 1 else operands(case)
        if case.op.name in ("power", "float_power"):  # NumPy's depend on the machine there
            arrays = [a[~np.isinf(arrays[1])] for a in arrays]
        results = compiled.run(name(case), arrays)
        kinds = expressions(case)[2]
        masks = list(zip(kinds, results[1:-1], strict=True))
        wrong += check_flags(case, arrays, masks, results[-1])
    assert not wrong, "\n".join(wrong)


COMPLEX = [c for c in MATHEMATICS if c.op.kinds == "c" and c.op is not COMPLEX_POWER]


@pytest.mark.parametrize("case", COMPLEX, ids=str)
def test_complex(case, compiled):
    rng = np.random.default_rng(3)
    dtype = case.ins[0]
    scale = np.exp(rng.uniform(-20, 20, (2, N)))
    z = (rng.normal(size=(2, N)) * scale + 1j * rng.normal(size=(2, N)) * scale[::-1]).astype(dtype)
    arrays = list(z[: case.op.nin])
    got = compiled.run(name(case), arrays)[0]
    with np.errstate(all="ignore"):
        want = ufunc(case.op.name)(*(x.astype(np.clongdouble) for x in arrays))
        size = np.abs(want).astype(got.real.dtype)
        apart = np.abs(got.astype(np.clongdouble) - want) / np.spacing(size)
    there = np.isfinite(size)
    assert there.mean() > 0.4 and apart[there].max() <= case.op.ulp
    for array in [edges(dtype), z[0][~there]] if case.op.nin == 1 else ():
        with np.errstate(all="ignore"):
            want = ufunc(case.op.name)(array)
        got = compiled.run(name(case), [array])[0]
        for x, y in ((got.real, want.real), (got.imag, want.imag)):
            special = ~np.isfinite(y) | (y == 0.0)
            same = same_bits(np.ascontiguousarray(x), np.ascontiguousarray(y))
            assert same[special].all(), array[special & ~same]
            np.testing.assert_allclose(x[~special], y[~special], rtol=1e-6)


def test_rare_parts_keep_the_far_path_out_of_the_common_one():
    sin = next(op for op in OPS if op.name == "sin" and op.kinds == "f")
    result = sin.body(Pool().load("f8", 0))
    order, parts = rare_parts([result])
    (part,) = parts.values()
    assert len(order) < len(part)
    done = set()
    for node in order:
        needed = [*part, node] if node in parts else [node]
        inside = set(part) if node in parts else set()
        assert all(a in done or a in inside for n in needed for a in n.args)
        done.add(node)


def test_numpy_reports_an_element_alone():
    """The judge of the flags tests itself."""
    log = Case(next(op for op in OPS if op.name == "log" and op.kinds == "f"), ("f8", "f8"))
    assert numpy_flags(log, [np.array([0.0])]) == {"divide by zero"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", [c for c in REAL if c.ins == ("f4",)], ids=str)
def test_singles_densely(case, compiled):
    """Every 71st number of twelve binades, of both signs."""
    digits = np.arange(0, 2**23, 71, dtype="u4")
    binades = (95, *range(121, 131), 140)
    positive = np.concatenate([digits | np.uint32(e << 23) for e in binades]).view("f4")
    x = np.concatenate([positive, -positive])
    want = ufunc(case.op.name)(x.astype("f8"))
    x, want = x[np.isfinite(want.astype("f4"))], want[np.isfinite(want.astype("f4"))]
    got = compiled.run(name(case), [x])[0]
    apart = np.abs(got - want) / np.spacing(np.abs(want.astype("f4")))
    worst = int(np.argmax(apart))
    assert apart[worst] <= case.op.ulp, f"{apart[worst]} at {x[worst]}"


@pytest.mark.parametrize("case", [c for c in REAL if c.ins[0] != "f2"], ids=str)
def test_every_backend_gives_the_same_bits(case, compiled):
    """A body fixes its result; the interpreter of expressions is the judge."""
    arrays = [x[::997] for x in arguments(case)]
    operands_, roots, _, _ = expressions(case)
    expected = evaluate(roots[:1], lambda leaf: arrays[leaf.attr])[roots[0]]
    got = compiled.run(name(case), arrays)[0]
    assert same_bits(got, expected).all(), operands_


@pytest.mark.skipif(
    not np._core._multiarray_umath.__cpu_features__["FMA3"], reason="NumPy has no FMA here"
)
@pytest.mark.parametrize("function", ["multiply", "square"])
@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_complex_products_are_contracted_as_in_numpy(function, dtype, compiled):
    (case,) = (c for c in MATHEMATICS if c.op.name == function and c.ins[0] == dtype)
    rng = np.random.default_rng(4)
    x, y = (rng.normal(size=(2, N)) + 1j * rng.normal(size=(2, N))).astype(dtype)
    for arrays in ([x, y], [x[:3], y[:3]], [x[::2], y[::2]]):
        chosen = arrays[: case.op.nin]
        got = compiled.run(name(case), chosen)[0]
        assert same_bits(got, ufunc(function)(*chosen)).all()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", COMPLEX, ids=str)
def test_complex_flags(case, compiled):
    arrays = operands(case)
    results = compiled.run(name(case), arrays)
    masks = list(zip(expressions(case)[2], results[1:-1], strict=True))
    wrong = check_flags(case, arrays, masks, results[-1])
    assert not wrong, "\n".join(wrong)
