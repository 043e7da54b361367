"""Keyword arguments of ufuncs, their methods, and other classes' operands."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import npaccel

from .differential import (
    DTYPES,
    FOREIGN,
    PENDING,
    WRAPPED,
    check,
    edge_values,
    is_compiled,
    one_compiled,
    shapes,
    tiering,
)


def numbers(shape: tuple[int, ...] = (4, 5), dtype: str = "d") -> np.ndarray[Any, Any]:
    size = int(np.prod(shape))
    return (np.arange(size) * 7 % 11 + 1).astype(dtype).reshape(shape)


CALLS = {
    "out": lambda x, y, o: np.add(x, y, out=o),
    "out positional": np.add,
    "out tuple": lambda x, y, o: np.add(x, y, out=(o,)),
    "out is returned": lambda x, y, o: np.add(x, y, out=o) is o,
    "out aliases": lambda x, y, o: np.add(x, y, out=x),
    "out of nothing": lambda x, y, o: np.add(x, y, out=()),
    "out of None": lambda x, y, o: np.add(x, y, out=(None,)),
    "out of too many": lambda x, y, o: np.add(x, y, out=(None, None)),
    "out of too few": lambda x, y, o: np.modf(x, out=(None,)),
    "out of nothing, outer": lambda x, y, o: np.add.outer(x[0], y[0], out=()),
    "out strided": lambda x, y, o: np.add(x, y, out=o.T.reshape(5, 4).T),
    "out broadcasts": lambda x, y, o: np.add(x[0], 1, out=o),
    "out too small": lambda x, y, o: np.add(x, y, out=o[:2]),
    "out of another dtype": lambda x, y, o: np.add(x, y, out=o.astype("f")),
    "out that cannot hold it": lambda x, y, o: np.add(x, y, out=o.astype("l")),
    "out is not an array": lambda x, y, o: np.add(x, y, out=[1]),
    "out read only": lambda x, y, o: np.add(x, y, out=np.broadcast_to(o[0], (4, 5))),
    "casting": lambda x, y, o: np.add(x, y, out=o.astype("l"), casting="unsafe"),
    "casting no": lambda x, y, o: np.add(x, 1, dtype="f", casting="no"),
    "casting equiv, a number": lambda x, y, o: np.add(x, 2.5, casting="equiv"),
    "casting equiv, a number first": lambda x, y, o: np.power(2, x, out=o, casting="equiv"),
    "dtype": lambda x, y, o: np.add(x, y, dtype="f"),
    "dtype wrong": lambda x, y, o: np.add(x, y, dtype="no such"),
    "dtype complex": lambda x, y, o: np.multiply(x, y, dtype=complex),
    "signature": lambda x, y, o: np.add(x, y, signature="ff->f", casting="same_kind"),
    "signature tuple": lambda x, y, o: np.add(x, y, sig=("D", "D", "D")),
    "order": lambda x, y, o: np.add(x, y, order="F"),
    "order C": lambda x, y, o: np.add(x.T, y.T, order="C"),
    "order K": lambda x, y, o: np.add(x.T, y.T),
    "subok": lambda x, y, o: np.add(x, y, subok=False),
    "where": lambda x, y, o: np.add(x, y, out=o, where=x > y),
    "where broadcast": lambda x, y, o: np.add(x, y, out=o, where=x[0] > 3),
    "where scalar": lambda x, y, o: np.add(x, y, out=o, where=False),
    "where no value": lambda x, y, o: np.add(x, y, out=o, where=np._NoValue),
    "where not bool": lambda x, y, o: np.add(x, y, out=o, where=x),
    "unknown keyword": lambda x, y, o: np.add(x, y, outt=o),
    "too few": lambda x, y, o: np.add(x),
    "too many": lambda x, y, o: np.add(x, y, o, o),
    "two outputs": lambda x, y, o: np.modf(x / 3),
    "two outputs, one given": lambda x, y, o: np.modf(x / 3, None, o),
    "two outputs given": lambda x, y, o: np.divmod(x, 3, out=(o, y)),
    "frexp": lambda x, y, o: np.frexp(x),
    "clip": lambda x, y, o: np.clip(x, 3, 7),
    "clip out": lambda x, y, o: np.clip(x, None, y - 2, out=o),
    "matmul": lambda x, y, o: x @ y.T,
    "vecdot": lambda x, y, o: np.vecdot(x, y),
    "python object": lambda x, y, o: np.add(x, object()),
}


@pytest.mark.parametrize("name", CALLS)
def test_call(name: str) -> None:
    for dtype in ("d", "l", "f"):
        check(
            CALLS[name],
            lambda d=dtype: (numbers(dtype=d), numbers(dtype=d)[::-1].copy(), np.zeros((4, 5), d)),
            ulp=4 if name in ("matmul", "vecdot") else 0,
            modes=(WRAPPED, PENDING) if dtype == "d" else (PENDING,),
        )


FOLDS = """add multiply minimum maximum fmin fmax logical_and logical_or bitwise_and bitwise_or
    bitwise_xor subtract power hypot logical_xor true_divide"""


@pytest.mark.parametrize("name", FOLDS.split())
def test_reduce_of_every_dtype(name: str) -> None:
    ufunc = getattr(np, name)
    foreign = FOREIGN if name != "power" else ()  # towers of Python integers
    for dtype in (*DTYPES, *foreign):
        arrays = (numbers((5, 7), "b").astype(dtype), edge_values(dtype))
        # Where infinities meet a NaN too, it depends on the order whether they meet each other.
        quirks = "invalid value" if dtype in tuple("efd") else None
        modes = (WRAPPED, PENDING) if dtype in tuple("?ldF") else (PENDING,)
        fold = partial(check, ulp=64, modes=modes, quirks=quirks)
        with npaccel.config(tiering=tiering(is_compiled(name, dtype))):
            for array in arrays:
                fold(ufunc.reduce, lambda a=array: (a,))
        with npaccel.config(tiering=tiering(dtype in tuple("?ldF"))):
            fold(lambda x: ufunc.reduce(x, axis=None), lambda a=arrays[1]: (a,))
            fold(lambda x: ufunc.reduce(x, axis=1), lambda a=arrays[0]: (a,), quirks=None)
            check(ufunc.accumulate, lambda a=arrays[1]: (a,), modes=modes)


@pytest.mark.parametrize("dtype", ["e", "f", "d"])
@pytest.mark.parametrize("values", [[np.inf, 1.0, -np.inf], [np.inf, 0.0, 1.0], [np.inf, 2.0]])
@pytest.mark.parametrize("name", ["add", "multiply"])
def test_warnings_of_reductions(name: str, values: list[float], dtype: str) -> None:
    array = np.array(values * 3, dtype)
    largest = np.full(40, np.finfo(dtype).max, dtype)
    for operand in (array, largest):
        check(getattr(np, name).reduce, lambda a=operand: (a,))


REDUCTIONS = {
    "axis": lambda x, o: np.add.reduce(x, axis=1),
    "negative axis": lambda x, o: np.add.reduce(x, axis=-1),
    "all axes": lambda x, o: np.add.reduce(x, axis=None),
    "two axes": lambda x, o: np.add.reduce(x, axis=(0, 2)),
    "no axis": lambda x, o: np.add.reduce(x, axis=()),
    "axis twice": lambda x, o: np.add.reduce(x, axis=(0, 0)),
    "axis out of range": lambda x, o: np.add.reduce(x, axis=5),
    "axis of another kind": lambda x, o: np.add.reduce(x, axis=1.0),
    "dtype": lambda x, o: np.add.reduce(x, dtype="f"),
    "dtype integer": lambda x, o: np.add.reduce(x, dtype="h"),
    "dtype complex": lambda x, o: np.multiply.reduce(x, axis=2, dtype=complex),
    "keepdims": lambda x, o: np.maximum.reduce(x, axis=(0, 2), keepdims=True),
    "keepdims all": lambda x, o: np.maximum.reduce(x, axis=None, keepdims=True),
    "initial": lambda x, o: np.maximum.reduce(x, axis=1, initial=6),
    "initial sum": lambda x, o: np.add.reduce(x, axis=None, initial=100),
    "initial None": lambda x, o: np.add.reduce(x, axis=1, initial=None),
    "initial wrong": lambda x, o: np.add.reduce(x, axis=1, initial="no"),
    "where": lambda x, o: np.add.reduce(x, axis=1, where=x > 3),
    "where broadcast": lambda x, o: np.add.reduce(x, axis=1, where=x[0] > 3),
    "where without identity": lambda x, o: np.minimum.reduce(x, axis=1, where=x > 3),
    "where with initial": lambda x, o: np.minimum.reduce(x, axis=1, where=x > 3, initial=9),
    "out": lambda x, o: np.add.reduce(x, axis=0, out=o),
    "out is returned": lambda x, o: np.add.reduce(x, axis=0, out=o) is o,
    "out of another shape": lambda x, o: np.add.reduce(x, axis=1, out=o),
    "out of another dtype": lambda x, o: np.add.reduce(x, axis=0, out=o.astype("f")),
    "transposed": lambda x, o: np.add.reduce(x.T, axis=0),
    "negative strides": lambda x, o: np.add.reduce(x[::-1, ::-2], axis=0),
    "empty, identity": lambda x, o: np.add.reduce(x[:0]),
    "empty, none": lambda x, o: np.minimum.reduce(x[:0]),
    "several axes, order matters": lambda x, o: np.subtract.reduce(x, axis=(0, 1)),
    "accumulate": lambda x, o: np.add.accumulate(x, axis=1),
    "accumulate out": lambda x, o: np.add.accumulate(x, axis=0, out=np.zeros_like(x)),
    "accumulate in place": lambda x, o: np.add.accumulate(x, axis=2, out=x),
    "accumulate dtype": lambda x, o: np.multiply.accumulate(x, dtype=complex),
    "accumulate axis None": lambda x, o: np.add.accumulate(x, axis=None),
    "accumulate reversed": lambda x, o: np.maximum.accumulate(x[:, ::-1], axis=1),
    "reduceat": lambda x, o: np.add.reduceat(x, [0, 2, 1], axis=1),
    "reduce by its name": lambda x, o: np.add.reduce(array=x),
    "reduce by its name, axis": lambda x, o: np.maximum.reduce(axis=(0, 2), array=x),
    "reduce by place and name": lambda x, o: np.add.reduce(x, array=x),
    "accumulate by its name": lambda x, o: np.add.accumulate(array=x, axis=1),
    "reduceat by names": lambda x, o: np.add.reduceat(array=x, indices=[0, 2, 1], axis=1),
    "reduceat, indices by name": lambda x, o: np.add.reduceat(x, indices=[0, 2, 1], axis=1),
    "outer": lambda x, o: np.multiply.outer(x[0], o),
    "outer scalar": lambda x, o: np.add.outer(x[0], 2),
    "outer out": lambda x, o: np.add.outer(x[0, 0], x[0, 1], out=np.zeros((4, 4))),
    "at": lambda x, o: np.add.at(x, (0, [1, 1, 2]), 5),
    "at alone": lambda x, o: np.negative.at(o, [0, 1]),
    "reduce of a unary": lambda x, o: np.sin.reduce(x),
    "reduce of a scalar": lambda x, o: np.add.reduce(x[0, 0, 0]),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_method(name: str) -> None:
    for dtype in one_compiled(("d", "l", "h")):
        check(
            REDUCTIONS[name],
            lambda d=dtype: (numbers((3, 5, 4), d), np.zeros((5, 4), np.result_type(d, "l"))),
            ulp=64,
        )


def test_reduce_of_every_shape() -> None:
    for array in shapes("d"):
        finite = np.where(np.isfinite(array) & (abs(array) < 1e9), array, 1.0)
        check(lambda x: np.add.reduce(x, axis=None), lambda a=finite: (a,), ulp=256)
        check(lambda x: np.maximum.reduce(x, axis=-1), lambda a=array: (a,))


class Owner:
    """Has a say of its own in every ufunc."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return ufunc.__name__, method, [type(x).__name__ for x in inputs]


class Deaf:
    __array_ufunc__ = None

    def __radd__(self, other: Any) -> str:
        return "added"


class Sub(np.ndarray[Any, Any]):
    """An ordinary subclass."""


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_other_classes_win() -> None:
    x = npaccel.asarray(numbers())
    assert np.add(x, Owner()) == ("add", "__call__", ["ndarray", "Owner"])
    assert x + Owner() == ("add", "__call__", ["ndarray", "Owner"])
    assert x + Deaf() == "added"
    with pytest.raises(TypeError, match="does not support ufuncs"):
        np.add(x, Deaf())
    for other in (np.matrix(numbers()), np.ma.array(numbers()), numbers().view(Sub)):
        for sum_ in (x + other, other + x, np.add(x, other), np.add(other, x)):
            assert type(sum_) is type(other)
            assert np.array_equal(np.asarray(sum_), 2 * numbers())


def test_a_raising_errstate_raises_at_the_call() -> None:
    def divide(x: Any) -> Any:
        with np.errstate(divide="raise"):
            return np.divide(1.0, x)

    def divide_loudly(x: Any) -> Any:
        kinds: list[Any] = []
        with np.errstate(divide="call", call=lambda *args: kinds.append(args)):
            result = 1.0 / x
        return result, kinds

    check(divide, lambda: (np.array([1.0, 0.0]),))
    check(divide_loudly, lambda: (np.array([1.0, 0.0]),))


def test_warnings_name_the_users_line() -> None:
    check(lambda x: 1 / x, lambda: (np.array([1.0, 0.0, np.inf]),))
    check(np.log, lambda: (np.array([1.0, 0.0, -1.0]),))
    check(lambda x: np.sqrt(x, out=x, where=x < 0), lambda: (np.array([1.0, 0.0, -1.0]),))
    check(np.add.reduce, lambda: (np.array([1e308, 1e308]),))
    check(lambda x: x.astype("i"), lambda: (np.array([1.0, np.nan]),))
    check(lambda x: x.astype("f"), lambda: (np.array([1.0, 1e300]),))
    check(lambda x: x.astype("d"), lambda: (np.array([1.0, 2j]),))
    check(lambda x: np.add(x, x, where=x > 0), lambda: (np.array([-1.0, 2.0])[:0],))
    check(float, lambda: (np.array([1.0]),))
    check(lambda x: np.mean(x[:0]), lambda: (np.array([1.0]),))
    check(lambda x: x[:0].mean(), lambda: (np.array([1.0]),))
    check(lambda x: x.var(ddof=3), lambda: (np.array([1.0, 2.0]),))
    check(lambda x: np.gradient(x / x), lambda: (np.array([0.0, 1.0, 2.0]),))


@pytest.mark.parametrize("dtype", ["e", "d", "D"])
@pytest.mark.parametrize("shape", [(1,), (40,), (3, 1), (2, 600)])
def test_signs_of_zero_in_sums_and_products(
    shape: tuple[int, ...], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(npaccel.config, "tiering", "eager")
    for value, ufunc in ((-0.0, np.add), (1.5, np.multiply)):
        plain = np.full(shape, complex(value, value) if dtype == "D" else value, dtype)
        for options in ({}, {"initial": -0.0}, {"initial": 0.0}, {"axis": 0}):
            with np.errstate(all="ignore"):
                expected = ufunc.reduce(plain, **options)  # type: ignore[call-overload]
                result = npaccel.evaluate(ufunc.reduce(npaccel.asarray(plain), **options))
            np.testing.assert_array_equal(result, expected)
            for part in (np.real, np.imag):
                np.testing.assert_array_equal(np.signbit(part(result)), np.signbit(part(expected)))


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("shape", [(40,), (3, 50), (3, 1)])
@pytest.mark.parametrize("exponent", [(), (1,), (1, 1), "pending", "pending (1,)", "broadcast"])
def test_a_single_exponent_of_a_half(
    exponent: Any, shape: tuple[int, ...], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(npaccel.config, "tiering", "eager")
    plain = np.resize(np.array([-0.0, -np.inf, 0.0, 2.0, np.inf, -1.0, np.nan], dtype), shape)
    x = npaccel.asarray(plain)
    if isinstance(exponent, tuple):
        half = lent = np.full(exponent, 0.5, dtype)
    elif exponent == "broadcast":
        half = lent = np.broadcast_to(np.array([0.5], dtype), shape)
    else:
        half = np.full(() if exponent == "pending" else 1, 0.5, dtype)
        ones = npaccel.asarray(np.full(4, 0.125, dtype))
        lent = ones.sum() if exponent == "pending" else ones.sum(keepdims=True)
    # Before NumPy 2.3 it is a power like others there, whose last place is not ours.
    rtol = 0 if np.signbit(np.power(np.float64(-0.0), 0.5)) else 2 * float(np.finfo(dtype).eps)
    with np.errstate(all="ignore"):
        for found, expected in (
            (npaccel.evaluate(np.power(x, lent)), np.power(plain, half)),
            (npaccel.evaluate(np.power(x * 1, lent) * 1), np.power(plain * 1, half) * 1),
        ):
            known = ~np.isnan(expected)
            np.testing.assert_allclose(np.asarray(found), expected, rtol=rtol)
            np.testing.assert_array_equal(np.signbit(found)[known], np.signbit(expected)[known])


@pytest.mark.parametrize("value", [np.nan, 1e300, np.float32(np.inf), 1 + 2j, -7])
def test_a_mask_warns_of_what_is_in_the_output(value: Any) -> None:
    """NumPy casts what is there to the loop's dtype and back, even where nothing is written."""

    def masked(x: Any, out: Any) -> Any:
        return np.add(x, x, out=out, where=x > 20)

    check(masked, lambda: (np.arange(40, dtype="i4"), np.full(40, value)))
    check(
        masked, lambda: (np.arange(40, dtype="f4"), np.full(40, value, np.result_type(value, "f8")))
    )


@pytest.mark.parametrize("n", [40, 9000])
@pytest.mark.parametrize(
    "call",
    [
        lambda x: np.add(x, x, dtype="f"),
        lambda x: np.negative(x, dtype="f"),
        lambda x: np.maximum.reduce(x.reshape(4, -1), axis=0, dtype="f"),
        lambda x: np.add.reduce(x, dtype="f"),
    ],
)
def test_what_operands_lose_is_warned_of_as_numpy_does(call: Any, n: int) -> None:
    """Of up to 8192 elements as of a cast, of more as of the operation, if that may warn."""
    check(call, lambda: (np.arange(n) * 1e300,))
    with npaccel.accelerate():
        check(lambda: call(np.full(n, 1e300)), tuple)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("ufunc", [np.power, np.float_power, np.fmod, np.remainder, np.arctan2])
def test_warnings_of_pairs_of_special_values(
    ufunc: np.ufunc, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but infinite exponents, of which NumPy's warnings depend on the machine."""
    monkeypatch.setattr(npaccel.config, "tiering", "eager")
    values = [np.nan, 0.0, -0.0, 1.0, -1.0, 2.5, -2.5, -3.0, 1e30]
    values += [] if "power" in ufunc.__name__ else [np.inf, -np.inf]
    for x in values:
        for y in values:
            check(ufunc, lambda x=x, y=y: (np.full(16, x, dtype), np.full(16, y, dtype)), ulp=4)


def scale_window(v: Any) -> None:
    v *= 3


WINDOWED = {
    "in place": scale_window,
    "from itself": lambda v: v.__isub__(v[::-1] * 2),
    "out": lambda v: np.negative(v, out=v),
    "where": lambda v: np.multiply(v, 2, out=v, where=v > 3),
    "reversed": lambda v: scale_window(v[::-1]),
    "reduction": lambda v: np.sum(np.arange(30.0).reshape(3, 5, 2), axis=0, out=v),
    "assignment": lambda v: v.__setitem__(..., np.arange(10).reshape(5, 2)),
    "scan": lambda v: np.cumsum(v, axis=0, out=v),
    "gather": lambda v: np.take(np.arange(20.0), np.arange(10).reshape(5, 2), out=v),
}


@pytest.mark.parametrize("name", WINDOWED)
def test_outputs_that_show_an_element_twice(name: str) -> None:
    def windowed(x: Any) -> None:
        WINDOWED[name](as_strided(x, (5, 2), (8, 8), subok=True))

    check(windowed, lambda: (np.arange(1.0, 7.0),))


@pytest.mark.parametrize("name", ["argmax", "argmin", "max", "sum"])
@pytest.mark.parametrize("axes", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (1, 0, 2)])
def test_memory_order_of_reductions(name: str, axes: tuple[int, ...]) -> None:
    for axis in range(3):
        for keepdims in (False, True):
            check(
                lambda x, a=axis, k=keepdims: getattr(np, name)(x, axis=a, keepdims=k),
                lambda: (numbers((2, 7, 3)).transpose(axes),),
            )


@pytest.mark.parametrize("dtypes", ["de", "df", "fe", "dd"])
def test_a_half_of_another_dtype(dtypes: str) -> None:
    """A loop sees that its exponent is one number also where that is cast first."""
    x = np.array([-0.0, -np.inf, 4.0, np.inf], dtypes[0])
    half = np.full(1, 0.5, dtypes[1])
    check(np.power, lambda: (x, half), ulp=1)


@pytest.mark.parametrize("dtype", ["F", "D"])
def test_an_overflowing_absolute_value(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether NumPy warns depends on the processor."""
    monkeypatch.setattr(npaccel.config, "tiering", "eager")
    largest = np.finfo(dtype).max
    check(np.absolute, lambda: (np.full(64, complex(largest, largest), dtype),))


@pytest.mark.parametrize(
    "named",
    [
        {"order": None},
        {"order": "X"},
        {"order": "f"},
        {"order": 3},
        {"order": b"C"},
        {"casting": []},
        {"signature": ([], None, None)},
        {"subok": 0},
        {"subok": None},
        {"signature": None},
        {"sig": None},
        {"sig": "dd->d", "dtype": float},
        {"sig": "dd->d", "signature": "dd->d"},
    ],
    ids=repr,
)
def test_words_that_are_numpys_to_judge(named: dict[str, Any]) -> None:
    check(lambda x: np.add(x, x, **named), lambda: (numbers((600,)),))


def test_what_numpys_loops_are_asked_is_not_recorded() -> None:
    """Of complex powers it is asked while they are planned: for ever, if that was recorded."""
    script = """if True:
        import warnings
        import numpy as np, npaccel
        npaccel.config.tiering, npaccel.config.cache = "eager", "off"
        with npaccel.accelerate(min_size=0), warnings.catch_warnings():
            warnings.simplefilter("error")
            for dtype in (np.complex64, np.complex128):
                z = np.array([1, 2, 3j], dtype)
                with np.errstate(divide="ignore", invalid="ignore"):
                    assert np.allclose(np.power(z, dtype(2)), [1, 4, -9])
    """
    subprocess.run([sys.executable, "-c", script], check=True)
