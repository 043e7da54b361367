"""Every primitive as LLVM IR against its meaning in NumPy, vectors and plain scalars."""

from __future__ import annotations

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


@pytest.fixture(scope="module", params=[1, 16])
def module(request):
    return Module(GRAPHS, width=request.param)


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


@pytest.mark.parametrize("cpu", ["x86-64-v3", "znver4"])
def test_no_library_calls_without_half_units(cpu):
    """What a machine lacks must not become a call to a routine that may be missing."""
    module = Module(GRAPHS, cpu=cpu)
    assert "call" not in module.assembly


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
