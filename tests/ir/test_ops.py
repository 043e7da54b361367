"""Every exact row on edge values, against NumPy: bits and warnings."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from against_numpy import CODES, cases, check, ufunc
from straight import Module, expressions

import npaccel
from npaccel.ir.names import FOLDING, SAME_BITS, SAME_BITS_IF_REAL, SCIPYS, VALUED, WARNING
from npaccel.ir.ops import OPS, find

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
    """What the build writes into `ir.names`, by examples."""
    assert {"add", "divmod", "frexp", "remainder", "where"} <= SAME_BITS
    assert not SAME_BITS & {"sin", "power", "absolute", "sqrt", "erf", "philox"}
    assert {"absolute", "sqrt"} == SAME_BITS_IF_REAL
    assert "erf" in SCIPYS <= {op.name for op in OPS}
    assert {"divide", "power"} <= VALUED
    assert {"add", "multiply", "fmax", "logical_and"} <= FOLDING
    assert not FOLDING & {"subtract", "divide", "argmax", "logical_xor"}


def test_which_loops_may_warn():
    assert {op.name for op in OPS} - {"copy"} == set(WARNING)
    assert {name for name, kinds in WARNING.items() if set(kinds) & set("biu")} == {
        *("divmod", "floor_divide", "fmod", "reciprocal", "remainder")
    }
    quiet = {name for name, kinds in WARNING.items() if "f" not in kinds}
    assert {"equal", "negative", "maximum", "sign", "logical_not"} <= quiet
    assert not quiet & {"add", "floor", "sqrt", "modf", "exp", "arctan"}
    for name in ("equal", "maximum", "logical_and", "absolute", "add"):
        assert "c" in WARNING[name]


@pytest.mark.filterwarnings("ignore")
def test_loops_that_may_not_warn_do_not():
    """Edge values of each kind, in NumPy's own loops."""
    of_floats = [0.0, -0.0, 1.0, -1.5, 5e-324, 1e308, -1e308, np.inf, -np.inf, np.nan]
    of_integers = [0, 1, -1, 2, -(2**63), 2**63 - 1]
    loud = []
    for name, kinds in WARNING.items():
        function = getattr(np, name, None) or getattr(np._core.umath, name, None)
        if not isinstance(function, np.ufunc) or function.nin > 2:
            continue
        values = {"d": np.array(of_floats), "l": np.array(of_integers)}
        values["f"] = values["d"].astype("f4")
        for text, kind in (("l", "i"), ("f", "f"), ("d", "f")):
            inputs = text * function.nin
            if kind in kinds or not any(t.startswith(f"{inputs}->") for t in function.types):
                continue
            least = 0 if name == "power" else -np.inf  # a negative power of an integer raises
            operands = np.meshgrid(*[values[text][~(values[text] < least)]] * function.nin)
            with np.errstate(all="raise", under="ignore"):
                try:
                    function(*map(np.ravel, operands))
                except FloatingPointError as error:
                    loud.append((name, text, str(error)))
    assert loud == []


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
