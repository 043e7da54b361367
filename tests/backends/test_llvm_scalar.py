"""Every primitive as LLVM IR against its meaning in NumPy, vectors and plain scalars."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest

from npaccel.backends.emit.builder import Name
from npaccel.backends.emit.scalars import write_node
from npaccel.backends.llvm.printer import Printer, machine_of
from npaccel.errors import InternalError
from npaccel.ir.reference.expressions import evaluate
from npaccel.ir.scalar import DTYPES, Core, Pool

sys.path.insert(0, str(Path(__file__).parents[1] / "ir"))

from straight import Module

INTEGERS = [d for d in DTYPES if d[0] in "iu"]
FLOATS = [d for d in DTYPES if d[0] == "f"]
PLAIN = ["b1", *INTEGERS, *FLOATS]
PER_DTYPE = {
    Core.ADD: INTEGERS + FLOATS,
    Core.SUB: INTEGERS + FLOATS,
    Core.MUL: INTEGERS + FLOATS,
    Core.DIV: INTEGERS + FLOATS,
    Core.REM: INTEGERS,
    Core.MULHI: ["u4", "u8"],
    Core.NEG: INTEGERS + FLOATS,
    **dict.fromkeys((Core.FMA, Core.ABS, Core.SQRT, Core.FLOOR, Core.CEIL, Core.TRUNC), FLOATS),
    **dict.fromkeys((Core.RINT, Core.COPYSIGN, Core.FLIP), FLOATS),
    **{c: ["b1", *INTEGERS] for c in (Core.AND, Core.OR, Core.XOR, Core.NOT)},
    **dict.fromkeys((Core.SHL, Core.LSHR, Core.ASHR, Core.POPCOUNT, Core.CLZ), INTEGERS),
}
COMPARISONS = (Core.EQ, Core.NE, Core.LT, Core.LE, Core.GT, Core.GE)
ARITY = {
    **dict.fromkeys((Core.NEG, Core.ABS, Core.SQRT, Core.FLOOR, Core.CEIL, Core.TRUNC), 1),
    **dict.fromkeys((Core.RINT, Core.NOT, Core.POPCOUNT, Core.CLZ, Core.FLIP), 1),
    Core.FMA: 3,
}


def loads(pool, *dtypes):
    return [pool.load(d, i) for i, d in enumerate(dtypes)]


def graphs():
    """Name -> (operands, roots), one primitive each."""
    made = {}
    for op, dtypes in PER_DTYPE.items():
        for dtype in dtypes:
            pool = Pool()
            args = loads(pool, *[dtype] * ARITY.get(op, 2))
            made[f"{op.value}_{dtype}"] = (args, [pool.make(op, dtype, tuple(args))])
    for dtype in PLAIN:
        pool = Pool()
        args = loads(pool, dtype, dtype)
        made[f"compare_{dtype}"] = (args, [pool.make(c, "b1", tuple(args)) for c in COMPARISONS])
    for dtype in DTYPES:
        pool = Pool()
        args = loads(pool, "b1", dtype, dtype)
        roots = [args[0].select(args[1], args[2])]
        if dtype[0] != "c":
            roots.append(args[0].rare(args[1] & args[2] if dtype == "b1" else args[1], args[2]))
        made[f"select_{dtype}"] = (args, roots)
        (x,) = args = loads(Pool(), dtype)
        made[f"convert_{dtype}"] = (args, [x.convert(d) for d in DTYPES if d != dtype])
    for dtype, others in {"f2": "iu2", "f4": "iu4", "f8": "iu8", "u4": "if4", "i8": "uf8"}.items():
        (x,) = args = loads(Pool(), dtype)
        roots = [x.bitcast(kind + others[2]) for kind in others[:2]]
        made[f"bitcast_{dtype}"] = (args, roots)
    for dtype in ("c8", "c16"):
        (x,) = args = loads(Pool(), dtype)
        made[f"parts_{dtype}"] = (args, [x.real(), x.imag(), x.pool.complex(x.imag(), x.real())])
    return made


GRAPHS = graphs()


@pytest.fixture(scope="module", params=[(1, 64), (16, 64), (16, 32)], ids=["1", "16", "avx2"])
def module(request):
    width, registers = request.param
    return Module(GRAPHS, width=width, registers=registers)


def values(dtype, n, seed):
    rng = np.random.default_rng(seed)
    if dtype == "b1":
        return rng.integers(0, 2, n).astype(bool)
    raw = rng.integers(0, 256, (n, int(dtype[1:])), np.uint8).view(dtype).ravel()
    if dtype[0] in "iu":
        small = rng.integers(0, 9, n).astype(dtype)
        return np.where(rng.integers(0, 2, n) == 0, raw, small)
    some = [0.0, -0.0, 1, -1, 0.5, 1.5, 2.5, -2.5, np.inf, -np.inf, np.nan, 2.0**31, -(2.0**31)]
    some += [2.0**63, -(2.0**63), 2.0**64, 255.5, -0.9, 65519.9, 65520, 1e-7, 3e9]
    with np.errstate(all="ignore"):
        special = rng.choice(np.array(some), n).astype(dtype)
        moderate = (rng.normal(size=n) * 100).astype(dtype)
    kind = rng.integers(0, 3, n)
    return np.where(kind == 0, raw, np.where(kind == 1, special, moderate))


def arguments(name, dtypes):
    arrays = [values(d, 400, i) for i, d in enumerate(dtypes)]
    bits = 8 * int(dtypes[0][1:])
    if name.startswith(("shl", "lshr", "ashr")):
        arrays[1] = (arrays[1].view(f"u{bits // 8}") % bits).astype(dtypes[0])
    if name.startswith(("div", "rem")) and dtypes[0][0] in "iu":
        x, y = arrays
        y[(y == 0) | ((x == np.iinfo(x.dtype).min) & (y + np.ones((), y.dtype) == 0))] = 3
    return arrays


def same(a, b):
    if a.dtype.kind == "c":
        return same(a.real.copy(), b.real.copy()) & same(a.imag.copy(), b.imag.copy())
    if a.dtype.kind == "f":
        raw = f"u{a.itemsize}"
        return (a.view(raw) == b.view(raw)) | (np.isnan(a) & np.isnan(b))
    return a == b


@pytest.mark.parametrize("name", GRAPHS)
def test_primitive(name, module):
    operands, roots = GRAPHS[name]
    arrays = arguments(name, [x.dtype for x in operands])
    results = module.run(name, arrays)
    expected = evaluate(roots, lambda leaf: arrays[leaf.attr])
    for root, got in zip(roots, results, strict=True):
        want = np.broadcast_to(expected[root], got.shape)
        assert want.dtype == got.dtype
        bad = np.flatnonzero(~same(got, np.ascontiguousarray(want)))
        shown = [([a[i] for a in arrays], got[i], want[i]) for i in bad[:3]]
        assert not len(bad), f"{root.op} to {root.dtype}: {shown}"


@pytest.mark.parametrize("dtype", ["i1", "u1"])
def test_every_small_quotient(dtype):
    """Vectors divide small integers as floats."""
    graph = {k: GRAPHS[f"{k}_{dtype}"] for k in ("div", "rem")}
    every = np.arange(256).astype("u1").view(dtype)
    x, y = (a.ravel() for a in np.meshgrid(every, every))
    allowed = (y != 0) & ~((y.astype(int) == -1) & (x.astype(int) == -128))
    x, y = x[allowed], y[allowed]
    module = Module(graph)
    wide, divisor = x.astype(int), y.astype(int)
    quotient = (np.abs(wide) // np.abs(divisor)) * np.sign(wide) * np.sign(divisor)
    np.testing.assert_array_equal(module.run("div", [x, y])[0].astype(int), quotient)
    np.testing.assert_array_equal(
        module.run("rem", [x, y])[0].astype(int), wide - quotient * divisor
    )


def close_to_powers(dtype):
    """Numbers of 8 bytes in rows of sixteen of a size."""
    info = np.iinfo(dtype)
    rows = []
    for power in (3, 31, 32, 33, 50, 51, 52, 53, 54, 62, 63, 64):
        row = [sign * 2**power + k for sign in (1, -1) for k in range(-4, 4)]
        rows += [min(max(number, info.min), info.max) for number in row]
    return np.array(rows, dtype)


@pytest.mark.parametrize("registers", [32, 64])
@pytest.mark.parametrize("dtype", ["i8", "u8"])
def test_quotients_of_8_bytes(dtype, registers):
    """Small numbers are divided as one float, large ones in steps."""
    module = Module({"div": GRAPHS[f"div_{dtype}"]}, width=16, registers=registers)
    numbers = close_to_powers(dtype)
    for turn in range(len(numbers)):
        x, y = numbers, np.roll(numbers, turn)
        least = (x == np.iinfo(dtype).min) & (y.astype("i8") == -1) & (dtype == "i8")
        y = np.where((y == 0) | least, np.array(3, dtype), y)
        size = [[abs(int(k)) for k in a] for a in (x, y)]
        signs = [
            -1 if (a < 0) != (b < 0) else 1 for a, b in zip(x.tolist(), y.tolist(), strict=True)
        ]
        wanted = [s * (a // b) for s, a, b in zip(signs, *size, strict=True)]
        assert module.run("div", [x, y])[0].tolist() == wanted


@pytest.mark.parametrize("registers", [32, 64])
def test_conversions_of_8_bytes(registers):
    """Integers around what floats are exact for, and floats around the ends of integers."""
    names = ("convert_i8", "convert_u8", "convert_f8", "convert_f4")
    module = Module({name: GRAPHS[name] for name in names}, width=16, registers=registers)
    for name in names:
        dtype = name[-2:]
        x = close_to_powers("i8" if dtype[0] == "f" else dtype).astype(dtype)
        if dtype[0] == "f":
            every = [x, x + np.array(0.5, dtype), np.nextafter(x, x * 2), np.nextafter(x, x / 2)]
            x = np.concatenate([*every, -x])
        roots = GRAPHS[name][1]
        expected = evaluate(roots, lambda _, x=x: x)
        for root, got in zip(roots, module.run(name, [x]), strict=True):
            np.testing.assert_array_equal(got, expected[root], f"{dtype} to {root.dtype}")


@pytest.mark.parametrize("cpu", ["x86-64-v3", "znver4"])
def test_no_library_calls_without_half_units(cpu):
    """What a machine lacks must not become a call to a routine that may be missing."""
    module = Module(GRAPHS, cpu=cpu)
    assert "call" not in module.assembly


def test_what_vectors_compute_is_not_taken_apart():
    """AVX2 lacks instructions for these, for which a few others stand."""
    names = ["convert_f8", "div_i8", "div_u8", *(f"{op}_f2" for op in ("floor", "ceil", "rint"))]
    x, y = loads(Pool(), "c16", "c16")
    equal = x.real().eq(y.real()) & x.imag().eq(y.imag())
    graphs = {"equal": ([x, y], [equal]), **{name: GRAPHS[name] for name in names}}
    module = Module(graphs, width=16, cpu="x86-64-v3", registers=32)
    assert not re.search(r"\bv(cvttsd2si|cvtsi2sd|roundss|pinsrb)", module.assembly)


def conditions(dtype):
    """What is chosen by masks of masks, and is true of any lane or of single ones."""
    x, y, z = args = loads(Pool(), dtype, dtype, dtype)
    inside, outside = (x < y) & (y <= z), (z < x) | x.eq(y)
    both, one = inside | outside, inside ^ ~outside
    roots = [m.select(x, z) for m in (inside, both, one, ~both, ~one & both & (x < z))]
    return args, [*roots, both, one, (~one).convert(dtype), both.convert("f8"), both.rare(x, y)]


MIXED = (("f8", "f4"), ("i4", "f8"), ("f4", "u1"))


@pytest.mark.parametrize("registers", [32, 64])
def test_masks_of_masks(registers):
    graphs = {dtype: conditions(dtype) for dtype in ("f8", "f4", "i8", "u4", "i2", "f2")}
    for dtypes in MIXED:  # of several sizes
        x, y, z = args = loads(Pool(), dtypes[0], *dtypes)
        mask = ((x < y) & (z > 3)) | ~(y.eq(x) | (z < 1))
        graphs["-".join(dtypes)] = args, [mask, mask.select(y, x), (mask & (x < y)).select(x, y)]
    module = Module(graphs, width=16, registers=registers)
    for name, (operands, roots) in graphs.items():
        arrays = [values(x.dtype, 400, k) for k, x in enumerate(operands)]
        expected = evaluate(roots, lambda leaf, arrays=arrays: arrays[leaf.attr])
        for root, got in zip(roots, module.run(name, arrays), strict=True):
            assert same(got, np.ascontiguousarray(expected[root])).all(), (name, root.op)


def test_masks_of_masks_are_not_packed():
    """What chooses among numbers of 8 bytes is never one of bytes."""
    args, roots = conditions("f8")
    module = Module({"chosen": (args, roots[:5])}, width=16, cpu="x86-64-v3", registers=32)
    assert "vpack" not in module.assembly


def test_constants_keep_their_bits():
    b = Printer(machine_of(64), set())
    assert b.constant("f8", -0.0, 1) == "0x8000000000000000"
    assert b.constant("f4", 1e300, 1) == "0x7FF0000000000000"
    assert b.constant("f2", 65504.0, 1) == "0xH7BFF"
    assert b.constant("b1", True, 4) == "splat (i1 true)"


def test_what_has_no_meaning_is_an_error():
    pool, b = Pool(), Printer(machine_of(64), set())
    (x,) = loads(pool, "f8")
    operands = [(Name("%a", "f8", 8),)] * 2
    with pytest.raises(InternalError, match="no meaning"):
        write_node(b, pool.make(Core.MULHI, "f8", (x, x)), operands, 8)
    with pytest.raises(InternalError, match="real operands"):
        write_node(b, pool.make(Core.NEG, "f8", (x,)), [operands[0] * 2], 8)


def test_llvm_is_new_enough_for_splat_constants():
    assert llvm.llvm_version_info[0] >= 20
