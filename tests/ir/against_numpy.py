"""Rows and NumPy side by side: loops, edge values, results, warnings."""

from __future__ import annotations

import zlib

import numpy as np
from straight import FLAG_NAMES, Case, expressions

from npaccel import _native
from npaccel.ir.fast import FAST
from npaccel.ir.ops import OPS, find
from npaccel.ir.scalar import DTYPES, Pool
from npaccel.ir.special import SPECIAL

SPECIAL_NAMES = {op.name for op in SPECIAL}
CODES = {np.dtype(d).char: d for d in DTYPES} | {"q": "i8", "Q": "u8", "l": "i8", "L": "u8"}


def ufunc(name):
    found = getattr(np._core.umath, name, None) or getattr(np, name, None)
    return found or getattr(_native, name)


def loops(op):
    """Loops of NumPy for which the row holds."""
    if op.name == "where":
        return [("b1", d, d, d) for d in DTYPES]
    if op.name == "copy":
        target = op.body(Pool().load("b1", 0)).dtype
        return [(d, target) for d in DTYPES if d != target]
    found = []
    for text in ufunc(op.name).types:
        codes = text.replace("->", "")
        if set(codes) <= set(CODES):
            loop = tuple(CODES[c] for c in codes)
            if loop not in found and find(op.name, loop, fast=op in FAST) is op:
                found.append(loop)
    return found


def cases(exact):
    return [
        Case(op, loop)
        for op in (*OPS, *FAST)
        if op.body is not None
        and (op.ulp == 0) == exact
        and op.name not in ("argmin", "argmax")
        and op.name not in SPECIAL_NAMES
        for loop in loops(op)
    ]


def edges(dtype):
    """Values at which something happens."""
    kind = dtype[0]
    if kind == "b":
        return np.array([False, True])
    if kind in "iu":
        info = np.iinfo(dtype)
        near = np.array([0, 1, 2, 3, 5, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 100, 127], dtype)
        ends = np.array([info.max, info.max - 1, info.min, info.min + 1, info.max // 3], dtype)
        return np.unique(np.concatenate([near, ends, -near if kind == "i" else near]))
    if kind == "f":
        info = np.finfo(dtype)
        some = [0.0, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3, 3.5, 7, 10, 100.7, 1000, 65504, np.inf]
        some += [info.tiny, info.smallest_subnormal, info.tiny / 3, info.max, info.max / 2]
        some += [info.eps, 1 + info.eps, 1 - info.epsneg, 1 / 3]
        with np.errstate(all="ignore"):
            positive = np.array(some).astype(dtype)
        return np.concatenate([positive, -positive, np.array([np.nan], dtype)])
    parts = np.array([0.0, 1, 2.5, -3, 1e-30, 1e30, np.inf, -np.inf, np.nan, -0.0])
    part = "f4" if dtype == "c8" else "f8"
    values = np.empty(len(parts) ** 2, dtype)
    values.real, values.imag = (a.ravel() for a in np.meshgrid(parts, parts).__iter__())
    assert values.real.dtype == part
    return values


def wide_edges(dtype, *, casts=False):
    """`edges` and more, for operations with one operand."""
    base = edges(dtype)
    if dtype[0] == "f" and casts:
        powers = 2.0 ** np.array([7, 8, 15, 16, 31, 32, 52, 53, 63, 64])
        near = np.concatenate([powers, powers - 0.5, powers + 0.5, powers - 1, powers + 1])
        near = np.concatenate([near, np.nextafter(powers, 0), np.nextafter(powers, np.inf)])
        with np.errstate(all="ignore"):
            base = np.concatenate([base, np.concatenate([near, -near]).astype(dtype)])
        if dtype == "f8":  # halfway cases of the narrower floats
            half = np.array([1 + 2**-11, 1 + 2**-11 + 2**-40, 1 + 3 * 2**-11, 65519.99, 65520])
            base = np.concatenate([base, half, -half, half * 2**-20, np.arange(64) * 2.0**-26])
    rng = np.random.default_rng(zlib.crc32(dtype.encode()))
    if dtype[0] in "iuf":
        raw = rng.integers(0, 256, (512, int(dtype[1:])), np.uint8).view(dtype).ravel()
        if dtype[0] == "f":
            raw = raw[~np.isnan(raw)]
            raw = np.concatenate([raw, rng.normal(size=300).astype(dtype) * 40])
        base = np.concatenate([base, raw])
    return base


def operands(case):
    """Arrays of equal length with every combination of edge values."""
    if case.op.name == "copy" and case.outs == ("u4",) and case.ins[0][0] in "fc":
        # Elsewhere NumPy's result depends on whether its vectorised loop gets the element.
        values = wide_edges(case.ins[0], casts=True)
        return [values[(values.real > -(2.0**31)) & (values.real < 2.0**32)]]
    if case.op.nin == 1:
        return [wide_edges(case.ins[0], casts=case.op.name == "copy")]
    values = [edges(d) for d in case.ins]
    if case.op.nin == 3 and case.op.name != "where":
        values = [v[:: max(1, len(v) // 16)] for v in values]
    if case.op.name == "where":
        values[2] = values[2][::7]
    if case.op.name == "power" and case.ins[1][0] == "i":
        values[1] = values[1][values[1] >= 0]
    if case.op.name == "ldexp":
        extra = np.array([-2200, -1100, -1075, -1074, -1022, -150, -24, 24, 128, 1024, 2098])
        values[1] = np.concatenate([values[1], extra]).astype(case.ins[1])
    grids = np.meshgrid(*values, indexing="ij")
    return [g.ravel().astype(d) for g, d in zip(grids, case.ins, strict=True)]


def reference(case, arrays):
    """NumPy's results."""
    if case.op.name == "where":
        return [np.where(*arrays)]
    if case.op.name == "copy":
        return [arrays[0].astype(case.outs[0])]
    signature = "".join(np.dtype(d).char for d in case.ins)
    signature += "->" + "".join(np.dtype(d).char for d in case.outs)
    if set(case.ins) == {"i8", "u8"}:  # NumPy spells these loops with q and Q
        signature = signature.replace("l", "q").replace("L", "Q")
    made = ufunc(case.op.name)(*arrays, signature=signature)
    return list(made) if isinstance(made, tuple) else [made]


def numpy_flags(case, arrays):
    """Names of the warnings NumPy gives for these arrays."""
    seen = []
    with np.errstate(all="call", under="ignore", call=lambda text, bits: seen.append(text)):
        reference(case, arrays)
    return {name.removesuffix(" encountered") for name in seen}


def same_bits(a, b):
    """Per element: equal bits, or both NaN (by parts)."""
    if a.dtype.kind == "c":
        return same_bits(a.real.copy(), b.real.copy()) & same_bits(a.imag.copy(), b.imag.copy())
    if a.dtype.kind == "f":
        raw = f"u{a.itemsize}"
        return (np.isnan(a) & np.isnan(b)) | (a.view(raw) == b.view(raw))
    return a == b


def check(case, module, name):
    arrays = operands(case)
    results = module.run(name, arrays)
    kinds = expressions(case)[2]
    outs, masks, guard = results[: case.op.nout], results[case.op.nout : -1], results[-1]
    with np.errstate(all="ignore"):
        expected = reference(case, arrays)
    wrong = []
    for got, want in zip(outs, expected, strict=True):
        assert got.dtype == want.dtype
        equal = same_bits(got, want)
        if not equal.all():
            bad = np.flatnonzero(~equal)
            shown = [(*(a[i] for a in arrays), got[i], want[i]) for i in bad[:4]]
            wrong.append(f"{case}: {len(bad)} values differ, as (operands, got, numpy) {shown}")
    return wrong + check_flags(case, arrays, list(zip(kinds, masks, strict=True)), guard)


def check_flags(case, arrays, masks, guard):
    """Every mask is what NumPy says of that element alone; the guard covers them."""
    wrong = []
    any_mask = np.zeros(len(guard), bool)
    ours = [set() for _ in guard]
    for kind, mask in masks:
        any_mask |= mask
        for i in np.flatnonzero(mask):
            ours[i].add(FLAG_NAMES[kind])
    if (any_mask & ~guard).any():
        i = np.flatnonzero(any_mask & ~guard)[0]
        wrong.append(f"{case}: guard misses {[a[i] for a in arrays]}")
    # Elements of equal flags go to NumPy together; only a difference is looked at one by one.
    groups = {}
    for i, names in enumerate(ours):
        groups.setdefault(frozenset(names), []).append(i)
    for names, members in groups.items():
        if names:
            suspects = members[:24]
        elif numpy_flags(case, [a[members] for a in arrays]):
            suspects = members
        else:
            continue
        for i in suspects:
            found = numpy_flags(case, [a[i : i + 1] for a in arrays])
            if found != names:
                wrong.append(f"{case}: {[a[i] for a in arrays]} gives {found}, not {set(names)}")
                break
    return wrong
