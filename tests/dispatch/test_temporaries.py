"""Temporaries that a call reads last, as `((a - b)**2).mean()`, are stored if they are held."""

from __future__ import annotations

import contextvars
import functools
import gc
import operator
import re
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import npaccel
from npaccel import _native

from .differential import tiering

Array = np.ndarray[Any, Any]
SIZE = 40_000
FOLDS = ("all", "any", "max", "mean", "min", "prod", "sum")
TYPES = ("?", "i1", "u2", "i8", "f2", "f4", "f8", "c8", "c16")


@pytest.fixture(autouse=True)
def recorded() -> Iterator[None]:
    with npaccel.config(tiering="eager", backend="llvm"), npaccel.accelerate():
        yield


def numbers(dtype: str = "f8") -> Array:
    made = (np.arange(SIZE) % 7 + 1).astype(dtype)
    npaccel.evaluate(made)
    return made


def fused_away() -> int:
    """How many arrays the last run did not store."""
    found = re.search(r"(\d+) temporary arrays? fused away", str(npaccel.explain()))
    return int(found[1]) if found else 0


def same(result: Any, expected: Any) -> None:
    assert type(result) is type(expected)
    assert repr(result) == repr(expected)


def outside(call: Callable[[], Any]) -> Any:
    with npaccel.backend("numpy"):
        return call()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", FOLDS)
def test_a_temporary_is_folded(name: str, dtype: str) -> None:
    a, b = numbers(dtype), numbers(dtype)[::-1].copy()
    function = getattr(np, name)

    def method() -> Any:
        return getattr(np.multiply(a, b), name)()

    def of_numpy() -> Any:
        return function(np.multiply(a, b))

    def with_words() -> Any:
        return function(np.multiply(a, b), axis=None, keepdims=False)

    # How each fold of each dtype is compiled is tested in other places.
    compiled = tiering(name == "sum" or dtype == "f8")
    with np.errstate(all="ignore"), npaccel.config(tiering=compiled):
        for call in (method, of_numpy, with_words):
            result, expected = call(), np.multiply(np.asarray(a), np.asarray(b))
            same(result, function(expected))


@pytest.mark.pending
@pytest.mark.parametrize("name", FOLDS)
def test_what_only_the_stack_holds_is_not_stored(name: str) -> None:
    a = numbers("i8" if name == "prod" else "f8")  # products of floats are NumPy's
    two, half = (2, 3) if name == "prod" else (2.0, 0.5)
    code = {
        "method": f"lambda: ((a - two) * half).{name}()",
        "words": f"lambda: ((a - two) * half).{name}(axis=None)",
        "function": f"lambda: np.{name}((a - two) * half)",
        "function with words": f"lambda: np.{name}((a - two) * half, axis=None)",
    }
    for way, text in code.items():
        eval(text, {"a": a, "np": np, "two": two, "half": half})()
        assert fused_away() == 2, way


@pytest.mark.pending
def test_a_ufuncs_reduce() -> None:
    a = numbers()
    same(np.maximum.reduce((a - 2.0) * 0.5), np.float64(2.5))
    assert fused_away() == 2
    reduce = np.add.reduce
    same(reduce((a - 2.0) * 0.5), outside(lambda: np.add.reduce((a - 2.0) * 0.5)))


@pytest.mark.pending
def test_wrapped_arrays_outside_a_block() -> None:
    with npaccel.backend("llvm"):
        a = npaccel.asarray(numbers())
        same(((a - 2.0) * 0.5).max(), np.float64(2.5))
    assert fused_away() == 2


def test_what_a_name_holds_stays() -> None:
    a = numbers()
    b = (a - 2.0) * 0.5
    same(b.max(), np.float64(2.5))
    assert b[5] == 2.0

    def named(c: Array) -> None:
        """It has no other reference than this name's, which is lent where it is an argument."""
        same(c.max(), np.float64(2.5))
        same(np.max(c, axis=None), np.float64(2.5))
        same(np.maximum.reduce(c), np.float64(2.5))
        assert c[5] == 2.0

    named((a - 2.0) * 0.5)
    same((c := (a - 2.0) * 0.25).max(), np.float64(1.25))
    assert c[5] == 1.0


def test_a_bound_method_holds_its_array() -> None:
    a = numbers()
    expected = float(((np.asarray(a) - 2.0) * 0.5).sum())
    method = ((a - 2.0) * 0.5).sum
    partial, words = functools.partial(method), functools.partial(method, axis=None)
    assert [method(), partial(), words(), method()] == [expected] * 4
    assert [call() for call in (method, partial, words)] == [expected] * 3
    other = functools.partial(((a - 2.0) * 0.5).sum)
    assert [other(), other()] == [expected] * 2
    assert getattr((a - 2.0) * 0.5, "sum")() == expected  # noqa: B009


def test_c_code_holds_what_it_passes_on() -> None:
    a = numbers()
    expected = float(((np.asarray(a) - 2.0) * 0.5).sum())
    assert list(map(np.ndarray.sum, [(a - 2.0) * 0.5])) == [expected]
    assert list(map(np.sum, ((a - 2.0) * 0.5 for _ in range(2)))) == [expected] * 2
    assert operator.methodcaller("sum")((a - 2.0) * 0.5) == expected
    assert functools.partial(np.sum)((a - 2.0) * 0.5) == expected
    assert contextvars.copy_context().run(np.sum, (a - 2.0) * 0.5) == expected
    assert contextvars.copy_context().run(np.ndarray.sum, (a - 2.0) * 0.5) == expected
    assert np.sum(*[(a - 2.0) * 0.5]) == expected
    assert np.ndarray.sum((a - 2.0) * 0.5) == expected
    assert functools.reduce(lambda s, x: s + x.sum(), [(a - 2.0) * 0.5], 0.0) == expected


def test_generators_and_coroutines() -> None:
    a = numbers()
    expected = float(((np.asarray(a) - 2.0) * 0.5).sum())

    def rounds() -> Iterator[float]:
        for _ in range(3):
            yield float(((a - 2.0) * 0.5).sum())

    async def one() -> float:
        return float(((a - 2.0) * 0.5).sum())

    assert list(rounds()) == [expected] * 3
    if sys.version_info >= (3, 14) and _native.guarded():  # it is known what their stack holds
        assert fused_away() == 2
    with pytest.raises(StopIteration) as stopped:
        one().send(None)
    assert stopped.value.value == expected


def test_views_and_weak_references_of_it_live_on() -> None:
    a = numbers()
    kept: list[Any] = []

    def keep(array: Array) -> Array:
        kept.append(array[3:9])
        return array

    def refer(array: Array) -> Array:
        kept.append(weakref.ref(array))
        return array

    same(keep((a - 2.0) * 0.5).max(), np.float64(2.5))
    assert kept.pop().tolist() == [1.0, 1.5, 2.0, 2.5, -0.5, 0.0]
    same(refer((a - 2.0) * 0.5).max(), np.float64(2.5))
    gc.collect()
    assert kept.pop()() is None


def test_a_view_is_folded_and_its_array_stays() -> None:
    a = numbers()
    b = (a - 2.0) * 0.5
    same(b[::2].max(), np.float64(2.5))
    same(b.reshape(200, 200).T.max(), np.float64(2.5))
    assert b[5] == 2.0


def test_results_along_an_axis() -> None:
    a = numbers().reshape(200, 200)
    expected = ((np.asarray(a) - 2.0) * 0.5).max(axis=1)
    assert ((a - 2.0) * 0.5).max(axis=1).tolist() == expected.tolist()
    assert np.max((a - 2.0) * 0.5, axis=1, keepdims=True).ravel().tolist() == expected.tolist()


def test_what_raises_leaves_no_trace() -> None:
    a = numbers()
    for bad in ("((a - 2.0) * 0.5).sum(axis=3)", "((a - 2.0) * 0.5).max(initial='a')"):
        with pytest.raises((np.exceptions.AxisError, TypeError, ValueError)) as ours:
            eval(bad)
        with pytest.raises(type(ours.value)) as numpys:
            eval(bad, {"a": np.asarray(a)})
        assert str(ours.value) == str(numpys.value)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'a'"):
        np.sum()  # type: ignore[call-overload]
    assert ((a - 2.0) * 0.5).sum() == outside(lambda: np.sum((a - 2.0) * 0.5))


def test_warnings_of_what_is_not_stored() -> None:
    a = numbers() - 1.0
    with pytest.warns(RuntimeWarning, match="divide by zero encountered in divide") as told:
        result = (1.0 / a).max()
    assert result == np.inf
    assert [w.filename for w in told] == [__file__]
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        (1.0 / a).max()


@pytest.mark.parametrize("where", ["trace", "profile"])
def test_who_watches_may_keep_it(where: str) -> None:
    a = numbers()
    seen: list[Array] = []

    def watch(frame: Any, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename != __file__:
            seen.extend(x for x in list(frame.f_locals.values()) if isinstance(x, np.ndarray))
        return watch

    start = getattr(sys, f"set{where}")
    before = getattr(sys, f"get{where}")()
    for text in (
        "np.max((a - 2.0) * 0.5, initial=-9.0)",
        "((a - 2.0) * 0.5).max(initial=-9.0)",
        "np.sum((a - 2.0) * 0.5, initial=1.0)",
    ):
        call = eval(f"lambda: {text}", {"a": a, "np": np})
        seen.clear()
        start(watch)
        try:
            result = call()
        finally:
            start(before)
        same(result, outside(call))
        assert any(x.size == SIZE and x[5] == 2.0 for x in seen)
        assert all(x.size > 0 for x in seen)  # check mode has arrays of its own


@pytest.mark.skipif(sys.version_info < (3, 12), reason="there is no sys.monitoring")
@pytest.mark.parametrize("event", ["C_RETURN", "PY_START", "LINE"])
def test_who_monitors_may_keep_it(event: str) -> None:
    a = numbers()
    seen: list[Any] = []
    monitoring = sys.monitoring  # type: ignore[attr-defined]
    events, tool = monitoring.events, monitoring.PROFILER_ID

    def see(code: Any, *of: Any) -> None:
        names = sys._getframe(1).f_locals if code.co_filename != __file__ else {}
        seen.extend(x for x in (*of, *names.values()) if isinstance(x, np.ndarray))

    for text in ("((a - 2.0) * 0.5).max()", "np.max((a - 2.0) * 0.5, axis=None)"):
        call = eval(f"lambda: {text}", {"a": a, "np": np})
        seen.clear()
        monitoring.use_tool_id(tool, "test")
        try:
            monitoring.register_callback(tool, getattr(events, event), see)
            monitoring.set_events(
                tool, events.CALL if event == "C_RETURN" else getattr(events, event)
            )
            result = call()
        finally:
            monitoring.set_events(tool, 0)
            monitoring.register_callback(tool, getattr(events, event), None)
            monitoring.free_tool_id(tool)
        same(result, outside(call))
        assert any(x.size == SIZE and x[5] == 2.0 for x in seen)
        assert all(x.size > 0 for x in seen)


# ------------------------------------------------------------------ written over by operators

UNLIKE = {
    "the first": lambda a, b: (a * 2) + b,
    "the second": lambda a, b: b * (a * 2),
    "of two the first": lambda a, b: (a + 1) & (b + 1),
    "not the second": lambda a, b: b - (a * 2),
    "not of another type": lambda a, b: (a * 2) + b.astype("f8"),
    "not of integers": lambda a, b: (a * 2) / (b + 1),
    "of floats": lambda a, b: (a * 2.0) / (b + 1),
    "of halves": lambda a, b: (np.ones((400, 400), "f2", "F") * 2) + np.ones((400, 400), "f2"),
    "not what is named": lambda a, b: [t := a * 2, t + b, t][1:],
    "not where both lie alike": lambda a, b: (b * 2) + b,
    "not of truth values": lambda a, b: ((a > 9) | (a > 8)) // ((b > 9) | (b > 8) | True),
    "not of another shape": lambda a, b: (a * 2) + b[:, :1],
    "in a comprehension": lambda a, b: [a * k + b for k in (2, 3)],
    "in a fold": lambda a, b: functools.reduce(lambda x, y: x * 2 + y, [a, b, a]),
}


def facts(value: Any) -> Any:
    if isinstance(value, list):
        return [facts(each) for each in value]
    return value.dtype, value.strides, np.array(value).tobytes()


@pytest.mark.pending
@pytest.mark.parametrize("program", UNLIKE.values(), ids=UNLIKE)
def test_a_result_lies_as_the_temporary_that_numpy_writes_over(program) -> None:
    a = np.arange(SIZE).reshape(160, 250)
    b = np.asfortranarray(a[::-1])
    assert facts(program(a, b)) == facts(contextvars.Context().run(program, a, b))


PRODUCTS: dict[str, Callable[[Array, Array], Any]] = {
    "the second is a temporary": lambda z, u: z * u.copy(),
    "a result": lambda z, u: z * (u + 1),
    "both are": lambda z, u: (z + 1) * (u + 1),
    "the first is": lambda z, u: (z + 1) * u,
    "a number": lambda z, u: (1.3 + 2.1j) * (u + 1),
    "without axes": lambda z, u: np.array(z[3]) * (u + 1),
    "real": lambda z, u: z.real * (u + 1),
    "of another shape": lambda z, u: z[:1] * (u + 1),
    "of another dtype": lambda z, u: z.astype("c16") * (u + 1),
    "has a name": lambda z, u: [t := u + 1, z * t],
    "a view": lambda z, u: z[1:] * (u + 1)[1:],
    "small": lambda z, u: z[:100] * (u[:100] + 1),
    "in a chain": lambda z, u: z * (u * (z * (u + 1))) * (z - u),
    "in place": lambda z, u: [t := z + 1, t.__imul__(u + 1)],
    "by the ufunc": lambda z, u: np.multiply(z, u + 1),
    "in C": lambda z, u: functools.reduce(operator.mul, [z, u + 1, z]),
}


@pytest.mark.parametrize("tier", ["eager", "off", "adaptive"])
@pytest.mark.parametrize("dtype", ["c8", "c16"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_complex_products_over_a_temporary_take_it_first(name: str, dtype: str, tier: Any) -> None:
    rng = np.random.default_rng(1)
    z, u = (rng.normal(size=(2, 2 * SIZE)) + 1j * rng.normal(size=(2, 2 * SIZE))).astype(dtype)
    expected = facts(contextvars.Context().run(PRODUCTS[name], z, u))
    with npaccel.config(tiering=tier):
        for _ in range(6):
            assert facts(PRODUCTS[name](z, u)) == expected


@pytest.mark.pending
def test_what_others_hold_is_not_written_over() -> None:
    """Here an array has the only reference, and the operator is one of bytecode."""
    a = np.arange(SIZE).reshape(160, 250)
    held, other = np.empty(1, object), np.empty(1, object)
    held[0], other[0] = a * 2, np.asfortranarray(a)
    added = held + other
    assert (np.array(held[0]) == np.arange(0, 2 * SIZE, 2).reshape(160, 250)).all()
    assert (np.array(added[0]) == np.arange(0, 3 * SIZE, 3).reshape(160, 250)).all()


@pytest.mark.pending
def test_what_was_on_the_stack_earlier_is_not_written_over() -> None:
    """The same, where they were arguments of a call before, whose places nothing has cleared."""
    a = np.arange(SIZE).reshape(160, 250)
    held, other = np.empty(1, object), np.empty(1, object)

    def keep(first: int, second: int, x: Array, y: Array) -> None:
        held[0], other[0] = x, y

    keep(1, 2, a * 2, np.asfortranarray(a))
    added = held + other
    assert (np.array(held[0]) == np.arange(0, 2 * SIZE, 2).reshape(160, 250)).all()
    assert (np.array(added[0]) == np.arange(0, 3 * SIZE, 3).reshape(160, 250)).all()


SWAPPED: dict[str, Callable[[Array], Array]] = {
    "astype": lambda x: x.astype(">f8") * 2,
    "twice": lambda x: x.astype(">f8") * 2 + 1,
    "negative": lambda x: -x.astype(">f8"),
    "both": lambda x: x.astype(">f8") + x.astype(">f8"),
    "of another type": lambda x: x.astype(">i4") * x.astype(">f4"),
    "integers": lambda x: x.astype(">i4") & 3,
    "copied": lambda x: x.astype(">f8").copy() - 0.5,
    "picked": lambda x: x.astype(">f8")[np.arange(SIZE)] * 2,
    "masked": lambda x: (big := x.astype(">f8"))[big > 0] / 3,
    "repeated": lambda x: x.astype(">f8").repeat(2) * 2,
    "a view": lambda x: x.astype(">f8").reshape(-1, 4) * 2,
    "held": lambda x: (big := x.astype(">f8")) * 2 + (big[0] < 0),
}


PLAIN = (np.arange(SIZE) % 7 + 1).astype("f8")
OF_NUMPY = {name: call(PLAIN) for name, call in SWAPPED.items()}  # outside the block


@pytest.mark.parametrize("name", SWAPPED)
def test_temporaries_of_foreign_byte_order(name: str) -> None:
    """NumPy's operators write over them, so their results have that order, too."""
    expected = OF_NUMPY[name]
    for result in (SWAPPED[name](numbers()), SWAPPED[name](npaccel.asarray(PLAIN))):
        assert result.dtype == expected.dtype
        np.testing.assert_array_equal(result, expected)
