"""Every exact row on edge values, against NumPy: bits and warnings."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from against_numpy import CODES, cases, check, ufunc
from straight import Module, expressions

import npaccel
from npaccel.dispatch.rules import DIVIDING, FOLDING, QUIET
from npaccel.ir.exact import EXACT
from npaccel.ir.mathematics import MATHEMATICS
from npaccel.ir.names import SAME_BITS, SAME_BITS_IF_REAL, VALUED
from npaccel.ir.ops import OPS, find
from npaccel.ir.passes.rewrite import REQUEST_RULES
from npaccel.ir.pieces import PIECES
from npaccel.ir.remainders import REMAINDERS

EXACT_CASES = cases(exact=True)


@pytest.fixture(scope="module")
def compiled():
    functions = {}
    for index, case in enumerate(EXACT_CASES):
        loads, roots, _, _ = expressions(case)
        functions[f"k{index}"] = (loads, roots)
    return Module(functions)


@pytest.mark.filterwarnings("ignore")
def test_values_and_flags(compiled):
    wrong = []
    for index, case in enumerate(EXACT_CASES):
        wrong += check(case, compiled, f"k{index}")
    assert not wrong, "\n".join(wrong)


def test_one_row_per_name_and_kind():
    seen = set()
    for op in OPS:
        for kind in op.kinds if op.name != "copy" else ():
            assert (op.name, kind) not in seen
            seen.add((op.name, kind))


def test_names_are_those_of_the_tables():
    """`ir.names` says without the tables what follows from them."""
    exact = {op.name for op in (*EXACT, *PIECES, *REMAINDERS)}
    assert exact - {op.name for op in MATHEMATICS} == SAME_BITS
    of_complex = {op.name for op in MATHEMATICS if op.kinds == "c"}
    of_complex -= {op.name for op in MATHEMATICS if op.kinds != "c"}
    assert {op.name for op in EXACT if op.kinds == "f"} & of_complex == SAME_BITS_IF_REAL
    assert {rule.op for rule in REQUEST_RULES} == VALUED


def test_lists_of_dispatch_are_in_the_tables():
    """It answers before the tables are loaded. `QUIET` may lack some, which is a kernel less."""
    rows = [op for op in OPS if op.name != "copy"]
    assert {op.name for op in rows if op.name in FOLDING and op.fold is not None} == FOLDING
    warning = {op.name for op in rows if op.flags is not None and "f" in op.kinds}
    assert QUIET & warning == set() and {op.name for op in rows} >= QUIET
    of_integers = {op.name for op in rows if op.flags is not None and "i" in op.kinds}
    assert of_integers | {"reciprocal"} == DIVIDING  # which has no body


def test_every_ufunc_of_numbers_has_a_row():
    generalised = {"matmul", "matvec", "vecdot", "vecmat"}
    missing = set()
    for module in (np, np._core.umath):
        for function in vars(module).values():
            if not isinstance(function, np.ufunc) or function.__name__ in generalised:
                continue
            for text in function.types:
                codes = text.replace("->", "")
                if set(codes) <= set(CODES):
                    loop = tuple(CODES[c] for c in codes)
                    if find(function.__name__, loop) is None:
                        missing.add((function.__name__, loop[0]))
    assert missing == {("nextafter", "f2")}


def test_propagates():
    """A claim that an infinity or a NaN always shows in the result."""
    odd = {"f": [np.inf, -np.inf, np.nan], "c": [complex(np.inf, 1), complex(0, np.nan)]}
    for op, kind in itertools.product(OPS, "fc"):
        if kind not in op.kinds or not any(op.propagates) or op.name == "copy":
            continue
        dtype = {"f": "f8", "c": "c16"}[kind]
        for position, claimed in enumerate(op.propagates):
            for value in odd[kind] if claimed else ():
                arrays = [np.array([0.0, 1, -2, np.inf, -np.inf], dtype) for _ in range(op.nin)]
                arrays[position] = np.full(5, value, dtype)
                with np.errstate(all="ignore"):
                    assert not np.isfinite(ufunc(op.name)(*arrays)).any(), op.name


def test_rows_without_a_dtype():
    assert find("nextafter", ("f2",) * 3) is None
    assert find("nextafter", ("f4",) * 3).body is not None
    zeros = npaccel.asarray(np.tile(np.array([0.0, -0.0], "f2"), 200_000))
    following = np.nextafter(zeros, -zeros)
    expected = np.nextafter(zeros.view(np.ndarray), -zeros.view(np.ndarray))
    np.testing.assert_array_equal(following, expected)
    np.testing.assert_array_equal(np.signbit(following), np.signbit(expected))
