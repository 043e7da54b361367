"""Which calls are recorded, in which loop dtypes."""

from __future__ import annotations

import marshal
import sys
from typing import Any

import numpy as np
import pytest

import npaccel
from npaccel import _native
from npaccel.dispatch import rules
from npaccel.dispatch.rules import (
    FOLDING,
    arg_rule,
    call_rule,
    copy_rule,
    fold_rule,
    made_rules,
    prepare_rules,
    recordable,
    rule,
    warns_on_cast,
    where_rule,
)
from npaccel.ir.nodes import Kind

from .differential import DTYPES, FOREIGN


def d(char: str) -> np.dtype[Any]:
    return np.dtype(char)


def test_the_fourteen_dtypes_are_recordable() -> None:
    assert all(recordable(d(char)) for char in DTYPES)
    assert not any(recordable(d(char)) for char in (*FOREIGN, "G", "U2", "m8[s]", "V4"))


def test_loops_are_numpys() -> None:
    for ufunc, signature, loop in (
        (np.add, (d("f"), d("f")), ("f4", "f4", "f4")),
        (np.add, (d("f"), float), ("f4", "f4", "f4")),
        (np.add, (d("b"), int), ("i1", "i1", "i1")),
        (np.add, (d("b"), d("H")), ("i4", "i4", "i4")),
        (np.true_divide, (d("l"), int), ("f8", "f8", "f8")),
        (np.less, (d("d"), d("f")), ("f8", "f8", "b1")),
        (np.multiply, (d("f"), complex), ("c8", "c8", "c8")),
        (np.frexp, (d("e"),), ("f2", "f2", "i4")),
    ):
        made = rule(ufunc, signature, None)
        assert made is not None
        assert (made.name, made.loop, made.kind) == (ufunc.__name__, loop, Kind.MAP)


@pytest.mark.parametrize(
    "call",
    [
        (np.add, (d("S3"), d("S3"))),
        (np.add, (d("O"), d("d"))),
        (np.add, (d("g"), d("d"))),
        (np.add, (d(">f8"), d("d"))),
        (np.add, (d("M8[s]"), d("m8[s]"))),
        (np.bitwise_and, (d("d"), d("d"))),
        (np.power, (d("l"), d("l"))),
        (np.matmul, (d("d"), d("d"))),
    ],
)
def test_what_is_never_recorded(call: Any) -> None:
    assert rule(*call, None) is None


def test_casts_to_outputs_follow_numpy() -> None:
    assert rule(np.add, (d("d"), d("d")), d("f")) is not None
    assert rule(np.add, (d("d"), d("d")), d("l")) is None
    assert rule(np.add, (d("D"), d("D")), d("d")) is None
    unsafe = call_rule(np.true_divide, (d("l"), d("l")), (d("l"),), None, "unsafe")
    assert unsafe is not None


def test_dtype_argument() -> None:
    made = call_rule(np.add, (d("f"), d("f")), (None,), (None, None, d("d")))
    assert made is not None
    assert made.loop == ("f8", "f8", "f8")
    assert call_rule(np.add, (d("d"), d("d")), (None,), (None, None, d("f"))) is None
    assert call_rule(np.add, (d("d"), d("d")), (None,), (None, None, d("l"))) is None


def test_folds_promote_as_numpy() -> None:
    for name in sorted(FOLDING):
        for char in DTYPES:
            made = fold_rule(Kind.REDUCE, getattr(np, name), d(char), None, None)
            try:
                result = getattr(np, name).reduce(np.ones(2, char)).dtype
            except TypeError:
                assert made is None
            else:
                if name == "multiply" and d(char).kind in "fc":
                    assert made is None  # in another order other parts overflow
                    continue
                assert made is not None
                assert d(made.loop[-1]) == result
    assert fold_rule(Kind.REDUCE, np.subtract, d("d"), None, None) is None
    assert fold_rule(Kind.REDUCE, np.add, d("D"), d("d"), None) is None


def test_copies() -> None:
    assert rule("copy", (d("d"),), d("f")) is copy_rule(d("f"), d("d"))
    assert rule("copy", (float,), d("f")) is copy_rule(d("f"))
    assert copy_rule(d("d"), d("D")) is None  # NumPy warns about the part that is lost
    assert copy_rule(d("O")) is None
    assert copy_rule(d("d"), d(">f8")) is None


def test_other_rules() -> None:
    assert where_rule(d("g")) is None
    assert arg_rule("argmax", d("D")) is None
    made = arg_rule("argmin", d("f"))
    assert made is not None
    assert made.loop == ("f4", "i8")


def test_casts_that_can_warn() -> None:
    for old in DTYPES:
        for new in DTYPES:
            values = {"?": [0, 1], "f": [1e38], "d": [1e300], "F": [1e38], "D": [1e300]}
            info = np.iinfo(old) if d(old).kind in "iu" else None
            extreme = values.get(old, [60000.0] if info is None else [info.min, info.max])
            with np.errstate(all="raise"):
                try:
                    np.array(extreme, old).real.astype(d(new).type)
                except FloatingPointError:
                    assert warns_on_cast(d(old), d(new)), (old, new)
    assert not warns_on_cast(d("l"), d("d"))
    assert not warns_on_cast(d("d"), d("?"))


def test_ufuncs_made_of_python_functions_are_not_kept() -> None:
    def double(x: int) -> int:
        return 2 * x

    before = sys.getrefcount(double)
    array = npaccel.asarray(np.arange(10))
    for _ in range(5):
        assert np.frompyfunc(double, 1, 1)(array).tolist() == list(range(0, 20, 2))
        with npaccel.accelerate(min_size=0):
            np.frompyfunc(double, 1, 1)(np.arange(10))
    assert sys.getrefcount(double) == before


@pytest.mark.pending
def test_ufuncs_of_others_never_wait() -> None:
    """Their loops may raise or want the interpreter lock, which a touch could not give them."""
    special = pytest.importorskip("scipy.special")
    x = npaccel.asarray(np.linspace(0.5, 3.0, 1000))
    y = special.gamma(x)
    assert not _native.is_pending(y)
    assert any("gamma" in f.function for f in npaccel.explain().fallbacks)
    np.testing.assert_array_equal(y, special.gamma(np.linspace(0.5, 3.0, 1000)))


@pytest.fixture
def none_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a new process."""
    forget_rules()
    monkeypatch.setattr(rules, "_made", [])
    monkeypatch.setattr(rules, "_ready", {})


def forget_rules() -> None:
    for make in (rules._call_rule, rules._copy_rule, fold_rule):
        make.cache_clear()


@pytest.mark.usefixtures("none_made")
def test_rules_of_another_process_are_ready_and_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = (
        lambda: call_rule(np.hypot, (d("e"), float), (d("f"),), None, "unsafe"),
        lambda: call_rule(np.hypot, (d("f"), d("e")), (None,), (None, None, d("d")), "unsafe"),
        lambda: call_rule(np.hypot, (d("O"), d("e")), (None,), None, "unsafe"),
        lambda: fold_rule(Kind.SCAN, np.add, d("e"), d("d"), d("d")),
        lambda: copy_rule(d("e"), d("H")),
    )
    made = [ask() for ask in asked]
    told = marshal.loads(marshal.dumps(made_rules()))
    assert len(told) == len(asked) - 1  # plain data can't tell objects
    forget_rules()
    prepare_rules(told, 60.0)
    assert len(rules._ready) == len(told)
    monkeypatch.setattr(rules, "_made", [])
    again = [ask() for ask in asked]
    assert not rules._ready  # all were taken, and are told once more
    assert made_rules() == told
    for one, other in zip(made, again, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            assert (one.name, one.kind, one.loop) == (other.name, other.kind, other.loop)


@pytest.mark.usefixtures("none_made")
def test_rules_that_are_ready_have_bounds() -> None:
    fold_rule(Kind.SCAN, np.multiply, d("e"), d("d"), d("d"))
    told = made_rules()
    assert len(told) == 1
    prepare_rules(told, 0.0)
    assert not rules._ready
    for wide in range(2 * rules.MOST_TOLD):
        call_rule(np.hypot, (d("e"),) * (3 + wide), (None,))
    assert len(made_rules()) == rules.MOST_TOLD


@pytest.mark.parametrize("chars", ["lq", "ql", "LQ", "QL"])
def test_equal_dtypes_have_rules_of_their_own(chars: str) -> None:
    """Where `long` and `long long` are of one size, results are of the one that was given."""
    for char in chars:
        x = npaccel.asarray(np.arange(600).astype(char))
        plain = np.arange(600).astype(char)
        for function in (np.cumsum, lambda a: a + a, lambda a: a.max(keepdims=True)):
            assert function(x).dtype.char == function(plain).dtype.char


@pytest.mark.usefixtures("none_made")
def test_rules_told_of_equal_dtypes_are_kept_apart() -> None:
    prepare_rules([("_copy_rule", ("dtype", char), ("dtype", "d")) for char in "lq"], 60.0)
    assert len(rules._ready) == 2
    found = [copy_rule(d(char), d("d")) for char in "lq"]
    assert not rules._ready
    assert found[0] is not found[1]
