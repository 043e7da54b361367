"""Functions of NumPy's namespaces: recorded, composite, and fallen back."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npaccel
from npaccel import _native
from npaccel.dispatch import COMPOSITES, IMPLEMENTED, METADATA
from npaccel.dispatch.function import VIEWS

from .differential import check, edge_values, one_compiled, shapes


def block(dtype: str = "d") -> np.ndarray[Any, Any]:
    return (np.arange(30) * 7 % 11 - 3).astype(dtype).reshape(5, 6)


# x, y: two blocks; c: a condition; w: positive weights.
CALLS = {
    "repeat too often": lambda x, y, c: np.repeat(x, 1 << 70, axis=0),
    "dot by names": lambda x, y, c: np.dot(b=x, a=y.T),
    "dot by one name": lambda x, y, c: np.dot(x, b=y.T),
    "where": lambda x, y, c: np.where(c, x, y),
    "where scalar": lambda x, y, c: np.where(c, x, 0),
    "where scalars": lambda x, y, c: np.where(c, 1.5, 0),
    "where types": lambda x, y, c: np.where(c, x, y.astype("f")),
    "where broadcast": lambda x, y, c: np.where(c[0], x[:, :1], y),
    "where transposed": lambda x, y, c: np.where(c.T, x.T, y.T),
    "where condition of numbers": lambda x, y, c: np.where(x, x, y),
    "where one": lambda x, y, c: np.where(c),
    "where wrong": lambda x, y, c: np.where(c, x),
    "where does not broadcast": lambda x, y, c: np.where(c, x, y[:2]),
    "where does not fit": lambda x, y, c: np.where(c, x.astype("b"), 300),
    "where too large": lambda x, y, c: np.where(c, x.astype("f"), 1e300),
    "where infinite": lambda x, y, c: np.where(c, -np.inf, x.astype("f")),
    "where not exact": lambda x, y, c: np.where(c, 2**53 + 1, x),
    "where NumPy's number": lambda x, y, c: np.where(c, x.astype("f"), np.float64(0.1)),
    "where truth": lambda x, y, c: np.where(c, True, x),
    "where half": lambda x, y, c: np.where(c, x.astype("e"), 0.1),
    "where swapped": lambda x, y, c: np.where(c, x.astype(">f8"), y.astype(">f8")),
    "where complex": lambda x, y, c: np.where(c, 1j, x.astype("F")),
    "where dates": lambda x, y, c: np.where(c, x.astype("m8[s]"), y.astype("m8[D]")),
    "copyto": lambda x, y, c: np.copyto(x, y),
    "copyto where": lambda x, y, c: np.copyto(x, y, where=c),
    "copyto scalar": lambda x, y, c: np.copyto(x, 3, where=c[0]),
    "copyto row": lambda x, y, c: np.copyto(x, y[0]),
    "copyto casting": lambda x, y, c: np.copyto(x.astype("h"), y),
    "copyto unsafe": lambda x, y, c: np.copyto(x, y * 1j, casting="unsafe"),
    "copyto read only": lambda x, y, c: np.copyto(np.broadcast_to(x, (2, 5, 6)), y),
    "copyto shape": lambda x, y, c: np.copyto(x, y[:2]),
    "clip": lambda x, y, c: np.clip(x, -1, y),
    "clip none": lambda x, y, c: np.clip(x, None, None),
    "copy": lambda x, y, c: np.copy(x.T),
    "broadcast_to": lambda x, y, c: np.broadcast_to(x, (3, 5, 6)),
    "broadcast_to wrong": lambda x, y, c: np.broadcast_to(x, (3, 5)),
    "broadcast_arrays": lambda x, y, c: np.broadcast_arrays(x, y[0])[1] + 1,
    "empty_like": lambda x, y, c: np.empty_like(x.T, dtype="f").strides,
    "empty_like strided": lambda x, y, c: np.empty_like(x[::2, ::-1]).strides,
    "zeros_like": lambda x, y, c: np.zeros_like(x),
    "zeros_like part": lambda x, y, c: np.zeros_like(x[1:-1, 1:]),
    "zeros_like part of a transpose": lambda x, y, c: np.zeros_like(x.T[::2, 1:]),
    "roll part": lambda x, y, c: np.roll(x[:, 1:-1], 1, axis=0),
    "zeros_like dtype": lambda x, y, c: np.zeros_like(x, dtype="f", order="F"),
    "zeros_like shape": lambda x, y, c: np.zeros_like(x, shape=(2, 3)),
    "ones_like": lambda x, y, c: np.ones_like(x.T),
    "ones_like strided": lambda x, y, c: np.ones_like(x[::2, ::2]),
    "full_like": lambda x, y, c: np.full_like(x, 7),
    "full_like array": lambda x, y, c: np.full_like(x, y[0]),
    "full_like wrong": lambda x, y, c: np.full_like(x, "no"),
    "concatenate": lambda x, y, c: np.concatenate([x, y]),
    "concatenate number": lambda x, y, c: np.concatenate([[0.0], x.ravel(), (1, 2j)]),
    "concatenate no number": lambda x, y, c: np.concatenate([[], x.ravel(), [2**70]]),
    "concatenate one of it": lambda x, y, c: np.concatenate([[x[0, 0]], x.ravel(), [x[0, 1]] * 99]),
    "concatenate axis": lambda x, y, c: np.concatenate((x, y, x), axis=-1),
    "concatenate types": lambda x, y, c: np.concatenate([x, y.astype("f"), c]),
    "concatenate flat": lambda x, y, c: np.concatenate([x, y], axis=None),
    "concatenate transposed": lambda x, y, c: np.concatenate([x.T, y.T]),
    "concatenate wrong": lambda x, y, c: np.concatenate([x, y[:, :2]]),
    "concatenate axis wrong": lambda x, y, c: np.concatenate([x, y], axis=2),
    "concatenate none": lambda x, y, c: np.concatenate([]),
    "concatenate out": lambda x, y, c: np.concatenate([x[:2], y[:3]], out=x),
    "concatenate list": lambda x, y, c: np.concatenate([x[0], [1, 2]]),
    "stack": lambda x, y, c: np.stack([x, y], axis=1),
    "vstack": lambda x, y, c: np.vstack([x, y]),
    "hstack": lambda x, y, c: np.hstack([x, y]),
    "dstack": lambda x, y, c: np.dstack([x, y]),
    "column_stack": lambda x, y, c: np.column_stack([x[0], y[0]]),
    "block": lambda x, y, c: np.block([[x, y], [y, x]]),
    "append": lambda x, y, c: np.append(x, y, axis=0),
    "split": lambda x, y, c: np.split(x, 2, axis=1),
    "array_split": lambda x, y, c: np.array_split(x, 3),
    "moveaxis": lambda x, y, c: np.moveaxis(x, 0, 1),
    "rollaxis": lambda x, y, c: np.rollaxis(x, 1),
    "swapaxes": lambda x, y, c: np.swapaxes(x, 0, 1),
    "transpose": lambda x, y, c: np.transpose(x),
    "flip": lambda x, y, c: np.flip(x),
    "fliplr": lambda x, y, c: np.fliplr(x),
    "rot90": lambda x, y, c: np.rot90(x),
    "roll": lambda x, y, c: np.roll(x, 2),
    "roll axis": lambda x, y, c: np.roll(x, -1, axis=1),
    "squeeze": lambda x, y, c: np.squeeze(x[:1]),
    "expand_dims": lambda x, y, c: np.expand_dims(x, 1),
    "atleast_3d": lambda x, y, c: np.atleast_3d(x),
    "ravel": lambda x, y, c: np.ravel(x.T),
    "reshape": lambda x, y, c: np.reshape(x, (3, 10)),
    "reshape wrong": lambda x, y, c: np.reshape(x, (4, 10)),
    "diagonal": lambda x, y, c: np.diagonal(x),
    "diag": lambda x, y, c: np.diag(x[0]),
    "trace": lambda x, y, c: np.trace(x),
    "tril": lambda x, y, c: np.tril(x),
    "triu": lambda x, y, c: np.triu(x, 1),
    "diff": lambda x, y, c: np.diff(x, axis=0),
    "diff twice": lambda x, y, c: np.diff(x, n=2, prepend=0),
    "gradient": lambda x, y, c: np.gradient(x),
    "gradient spaced": lambda x, y, c: np.gradient(x, 0.5, axis=1, edge_order=2),
    "trapezoid": lambda x, y, c: np.trapezoid(x, dx=0.5),
    "meshgrid": lambda x, y, c: np.meshgrid(x[0], y[:, 0]),
    "outer": lambda x, y, c: np.outer(x[0], y[0]),
    "average": lambda x, y, c: np.average(x, axis=1),
    "average weighted": lambda x, y, c: np.average(x, axis=1, weights=y[0] + 20),
    "isclose": lambda x, y, c: np.isclose(x, y, equal_nan=True),
    "allclose": lambda x, y, c: np.allclose(x, x + 1e-12),
    "array_equal": lambda x, y, c: np.array_equal(x, x),
    "angle": lambda x, y, c: np.angle(x + 1j * y),
    "sinc": lambda x, y, c: np.sinc(x),
    "fix": lambda x, y, c: np.fix(x / 3),
    "real": lambda x, y, c: np.real(x + 1j * y),
    "isreal": lambda x, y, c: np.isreal(x),
    "nan_to_num": lambda x, y, c: np.nan_to_num(x / np.where(c, 1, np.nan)),
    "nan_to_num in place": lambda x, y, c: np.nan_to_num(x, copy=False) is x,
    "nansum": lambda x, y, c: np.nansum(x, axis=0),
    "nanmax": lambda x, y, c: np.nanmax(x, axis=1),
    "nanmean": lambda x, y, c: np.nanmean(x),
    "sum": lambda x, y, c: np.sum(x),
    "sum axis": lambda x, y, c: np.sum(x, axis=0, keepdims=True),
    "sum where": lambda x, y, c: np.sum(x, where=c, initial=2),
    "prod": lambda x, y, c: np.prod(x, axis=1),
    "mean": lambda x, y, c: np.mean(x, axis=0),
    "mean all": lambda x, y, c: np.mean(x),
    "mean where": lambda x, y, c: np.mean(x, where=c),
    "std": lambda x, y, c: np.std(x, axis=1, ddof=1),
    "var": lambda x, y, c: np.var(x),
    "max": lambda x, y, c: np.max(x, axis=1),
    "min": lambda x, y, c: np.amin(x),
    "ptp": lambda x, y, c: np.ptp(x, axis=0),
    "any": lambda x, y, c: np.any(x > 3, axis=1),
    "all": lambda x, y, c: np.all(c),
    "argmax": lambda x, y, c: np.argmax(x, axis=1),
    "argmin": lambda x, y, c: np.argmin(x),
    "cumsum": lambda x, y, c: np.cumsum(x),
    "cumprod": lambda x, y, c: np.cumprod(x, axis=1),
    "round": lambda x, y, c: np.round(x / 7, 2),
    "around": lambda x, y, c: np.around(x / 2),
    "median": lambda x, y, c: np.median(x, axis=0),
    "percentile": lambda x, y, c: np.percentile(x, [10, 50]),
    "sort": lambda x, y, c: np.sort(x, axis=0),
    "argsort": lambda x, y, c: np.argsort(x[0], kind="stable"),
    "unique": lambda x, y, c: np.unique(x, return_counts=True),
    "searchsorted": lambda x, y, c: np.searchsorted(np.sort(x[0]), y),
    "take": lambda x, y, c: np.take(x, [0, 2], axis=1),
    "compress": lambda x, y, c: np.compress([True, False, True], x, axis=0),
    "extract": lambda x, y, c: np.extract(c, x),
    "nonzero": lambda x, y, c: np.nonzero(x),
    "put": lambda x, y, c: np.put(x, [1, 2], [5, 6]),
    "putmask": lambda x, y, c: np.putmask(x, c, y),
    "place": lambda x, y, c: np.place(x, c, [1, 2, 3]),
    "fill_diagonal": lambda x, y, c: np.fill_diagonal(x, 9),
    "choose": lambda x, y, c: np.choose(c.astype(int), [x, y]),
    "select": lambda x, y, c: np.select([c, x > 3], [x, y], -1),
    "piecewise": lambda x, y, c: np.piecewise(x, [c], [lambda v: v * 2, 0]),
    "dot": lambda x, y, c: np.dot(x, y.T),
    "dot out": lambda x, y, c: np.dot(x[:, :5], y[:5], y.copy()),
    "vdot": lambda x, y, c: np.vdot(x, y),
    "inner": lambda x, y, c: np.inner(x, y),
    "tensordot": lambda x, y, c: np.tensordot(x, y, ([0, 1], [0, 1])),
    "einsum": lambda x, y, c: np.einsum("ij,ij->i", x, y),
    "kron": lambda x, y, c: np.kron(x[:2, :2], y[:2, :2]),
    "cross": lambda x, y, c: np.cross(x[:, :3], y[:, :3]),
    "convolve": lambda x, y, c: np.convolve(x[0], y[0]),
    "cov": lambda x, y, c: np.cov(x).shape,
    "histogram": lambda x, y, c: np.histogram(x, bins=4),
    "bincount": lambda x, y, c: np.bincount(abs(x).astype(int).ravel()),
    "interp": lambda x, y, c: np.interp(x, np.arange(6.0), y[0]),
    "pad": lambda x, y, c: np.pad(x, 1, mode="reflect"),
    "tile": lambda x, y, c: np.tile(x, (2, 1)),
    "repeat": lambda x, y, c: np.repeat(x, 2, axis=0),
    "linalg.norm": lambda x, y, c: np.linalg.norm(x),
    "linalg.solve": lambda x, y, c: np.linalg.solve(x[:, :5] + 20 * np.eye(5), y[:, :5]).shape,
    "fft": lambda x, y, c: np.fft.fft(x),
    "shape": lambda x, y, c: (np.shape(x), np.ndim(x), np.size(x)),
    "result_type": lambda x, y, c: (np.result_type(x, y, 1.0), np.can_cast(x.dtype, "f")),
    "shares_memory": lambda x, y, c: (np.shares_memory(x, x[1:]), np.may_share_memory(x, y)),
    "iscomplexobj": lambda x, y, c: (np.iscomplexobj(x), np.isrealobj(x), np.common_type(x)),
    "array2string": lambda x, y, c: (np.array2string(x), np.array_repr(x), np.array_str(x)),
    "count_nonzero": lambda x, y, c: np.count_nonzero(c),
    "count_nonzero of numbers": lambda x, y, c: np.count_nonzero(x),
    "count_nonzero axis": lambda x, y, c: np.count_nonzero(x, axis=0),
    "count_nonzero keepdims": lambda x, y, c: np.count_nonzero(c, keepdims=True),
    "count_nonzero wrong axis": lambda x, y, c: np.count_nonzero(x, axis=7),
    "apply_along_axis": lambda x, y, c: np.apply_along_axis(sorted, 1, x),
    "vectorize": lambda x, y, c: np.vectorize(lambda v: v + 1)(x),
    "asarray": lambda x, y, c: np.asarray(x + y),
    "array": lambda x, y, c: np.array(x + y),
    "ascontiguousarray": lambda x, y, c: np.ascontiguousarray((x + y).T),
    "unknown keyword": lambda x, y, c: np.sum(x, axes=0),
    "no argument": lambda x, y, c: np.where(),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", CALLS)
def test_function(name: str) -> None:
    for dtype in one_compiled(("d", "f", "l")):
        check(
            CALLS[name],
            lambda d=dtype: (block(d), block(d)[::-1].copy(), block() % 2 == 0),
            ulp=64,
            strides=name not in ("array", "apply_along_axis"),
        )


@pytest.mark.parametrize("name", ["roll", "diff", "mean axis", "where", "flip", "concatenate"])
def test_every_shape(name: str) -> None:
    call: Any = {
        "roll": lambda x: np.roll(x, 1),
        "diff": np.diff,
        "mean axis": lambda x: np.mean(x, axis=-1),
        "where": lambda x: np.where(x > 1, x, -x),
        "flip": np.flip,
        "concatenate": lambda x: np.concatenate([x, x], axis=-1),
    }[name]
    for array in shapes("f"):
        finite = np.where(abs(array) < 1e9, array, np.float32(1.0))
        check(call, lambda a=finite: (a,), ulp=64, strides=name != "concatenate")


def test_foreign_dtypes() -> None:
    for dtype in ("O", "S3", "M8[s]", "g", ">f8"):
        for call in (np.sort, np.unique, lambda x: np.where(x == x[0], x, x[1]), np.flip, np.copy):
            check(call, lambda d=dtype: (edge_values(d)[:4],))


def test_masked_arrays_and_matrices_win() -> None:
    x = npaccel.asarray(block())
    masked = np.ma.array(block(), mask=block() > 2)
    assert type(np.ma.concatenate([x, masked])) is np.ma.MaskedArray
    assert type(np.concatenate([x, masked])) is type(np.concatenate([block(), masked]))


class Duck:
    """A class with a say of its own."""

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return "duck", sorted(t.__name__ for t in types)


@pytest.mark.pending
def test_ducks_win() -> None:
    x = npaccel.asarray(block())
    assert np.concatenate([x, Duck()]) == np.concatenate([block(), Duck()])
    assert np.where(x > 0, x, Duck()) == ("duck", ["Duck", "ndarray"])
    asked = x.__array_function__(np.concatenate, (np.ndarray, Duck), ([x, Duck()],), {})
    assert asked is NotImplemented


class Wrapper:
    """What a function does it asks its array's class."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return np.asarray(self.array, *args, **kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        arrays = [x.array if isinstance(x, Wrapper) else x for x in args]
        rest = [t for t in types if not issubclass(t, Wrapper)]
        return self.array.__array_function__(function, tuple(rest), tuple(arrays), kwargs)


@pytest.mark.parametrize("function", [np.concatenate, np.vstack, np.dstack, np.stack, np.block])
@pytest.mark.parametrize("size", [3, 200])
def test_a_function_that_is_asked_of_the_class_asks_no_other(function: Any, size: int) -> None:
    x = np.arange(float(size * size)).reshape(size, size)
    expected = function([x, x])
    for min_size in (0, None):
        with npaccel.accelerate(min_size=min_size):
            made = Wrapper(npaccel.asarray(x) + 0)
            np.testing.assert_array_equal(function([made, made]), expected, strict=True)


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.2.0", reason="NumPy 2.0 crashes there")
@pytest.mark.parametrize("asked", [(np.zeros(2), {}), ((np.zeros(2), 2), (1, 2))])
def test_arguments_that_are_no_tuple_and_no_dict(asked: tuple[Any, Any]) -> None:
    for array in (np.zeros(2), npaccel.asarray(np.zeros(2))):
        with pytest.raises(TypeError, match=r"must be a (tuple|dict)"):
            array.__array_function__(np.reshape, (np.ndarray,), *asked)


@pytest.mark.pending
def test_composites_stay_recorded() -> None:
    x = npaccel.asarray(block()) * 2
    for call in (np.diff, lambda a: np.roll(a, 1), np.zeros_like, lambda a: a.mean(axis=0)):
        assert type(call(x)) is npaccel.Array


@pytest.mark.pending
def test_functions_that_make_views_leave_what_waits() -> None:
    x, like = npaccel.asarray(block()) * 2, block() * 2
    flushes = npaccel.stats()["flushes"]
    for call in (
        np.transpose,
        np.squeeze,
        lambda a: np.swapaxes(a, 0, 1),
        lambda a: np.moveaxis(a, 0, -1),
        lambda a: np.expand_dims(a, 1),
        lambda a: np.rollaxis(a, 1),
        lambda a: np.reshape(a, (6, 5)),
    ):
        view, want = call(x), call(like)
        assert type(view) is npaccel.Array
        assert view.strides == want.strides
        assert npaccel.stats()["flushes"] == flushes
        view += 1
        want += 1
    assert np.array_equal(x, like)
    with pytest.raises(ValueError, match="cannot reshape"):
        np.reshape(x, (7, 5))


def test_registries_do_not_overlap() -> None:
    assert not COMPOSITES & METADATA
    assert VIEWS <= COMPOSITES
    assert not COMPOSITES & set(IMPLEMENTED)
    assert len(COMPOSITES) > 60


def test_arguments_by_name() -> None:
    """What NumPy takes by name, our functions do."""
    for function, ours in IMPLEMENTED.items():
        taken = inspect.signature(ours).parameters.values()
        places = {p.name for p in taken if p.kind is p.POSITIONAL_ONLY}
        names = {p.name for p in taken if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
        try:
            asked = inspect.signature(function).parameters.values()
        except ValueError:  # older NumPys tell nothing of some
            continue
        theirs = {p.name for p in asked if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
        assert not theirs & places, function
        if not any(p.kind is p.VAR_KEYWORD for p in taken):
            assert theirs <= names, function


@st.composite
def views(draw: st.DrawFn) -> np.ndarray[Any, Any]:
    """A view in any memory order, with gaps, falling strides, axes of one element, repeats."""
    ndim = draw(st.integers(1, 4))
    extents = draw(st.lists(st.integers(1, 4), min_size=ndim, max_size=ndim))
    steps = draw(st.lists(st.sampled_from([1, 2, -1, -2]), min_size=ndim, max_size=ndim))
    order = draw(st.permutations(range(ndim)))
    base = np.zeros([extent * abs(step) for extent, step in zip(extents, steps, strict=True)])
    view = base[tuple(slice(None, None, step) for step in steps)].transpose(order)
    if draw(st.booleans()):
        view = np.broadcast_to(view, (draw(st.integers(1, 3)), *view.shape))
    return view


@settings(max_examples=300, deadline=None)
@given(views(), st.sampled_from("KACF"), st.sampled_from(["d", "f", "D", "?"]))
def test_new_arrays_lie_as_numpys_do(view: np.ndarray[Any, Any], order: Any, dtype: str) -> None:
    x = npaccel.asarray(view)
    for make in (np.empty_like, np.zeros_like):
        want, have = make(view, dtype=dtype, order=order), make(x, dtype=dtype, order=order)
        assert have.strides == want.strides and have.dtype == want.dtype
        assert have.flags.owndata and have.base is None
    if order == "K":
        want, have = view.astype(dtype, order="K"), x.astype(dtype, order="K")
        assert have.strides == want.strides


@pytest.mark.parametrize(
    "shape",
    [
        (2**70,),
        (2**62, 8),
        (2**40, 2**40),
        (np.timedelta64(600, "s"),),
        (np.int8(-1), 700),
        (True, 600),
    ],
)
def test_shapes_that_no_array_has_are_numpys_to_refuse(shape: tuple[int, ...]) -> None:
    check(lambda x: np.empty_like(x, shape=shape), lambda: (np.ones(600),))


@pytest.mark.parametrize("name", ["shape", "size", "ndim"])
def test_what_is_asked_by_name(name: str) -> None:
    """Of what is pending, too."""
    assert getattr(np, name)(a=npaccel.asarray(np.ones(600)) * 2) == getattr(np.ones(600), name)
    for asked in (np.iscomplexobj, np.isrealobj):
        pending = npaccel.asarray(np.ones(600)) * 2
        assert asked(x=pending) is asked(np.ones(600))


@pytest.mark.parametrize("subok", ["yes", np.True_, None, 2.0])
def test_subok_is_numpys_to_judge(subok: Any) -> None:
    check(lambda x: np.zeros_like(x, subok=subok), lambda: (np.ones(600),))


@pytest.mark.pending
def test_a_prototype_in_another_memory_order_is_recorded() -> None:
    """As in np.roll, of a view in C order that is not contiguous."""
    x = npaccel.asarray(np.arange(600.0).reshape(3, 20, 10)) * 1.0
    npaccel.stats(reset=True)
    for view in (x[1:, ::2], x.transpose(1, 2, 0)[1:], x[..., 1]):
        rolled = np.roll(view, 1, axis=0)
        assert type(rolled) is type(np.zeros_like(view)) is npaccel.Array
        assert np.asarray(rolled).tolist() == np.roll(np.asarray(view), 1, axis=0).tolist()
    assert npaccel.stats()["fallbacks"] == 0, npaccel.stats()["reasons"]


@pytest.mark.parametrize("order", ["K", "A", "C", "F"])
def test_empty_arrays_of_a_given_shape(order: Any) -> None:
    plain = np.zeros((30, 20, 10))
    for view in (plain, plain.T, plain[:, ::2], plain[0, 0], plain.transpose(1, 0, 2)):
        x = npaccel.asarray(view)
        shapes: list[Any] = [(40, 30, 20), (5, 70), 600, [30, 9, 8], (), (0, 3)]
        for shape in (*shapes, (np.int64(9), 80)):
            want = np.empty_like(view, shape=shape, order=order)
            have = np.empty_like(x, shape=shape, order=order)
            assert have.shape == want.shape and have.strides == want.strides
            assert have.dtype == want.dtype and have.flags.owndata
    with pytest.raises(ValueError, match="negative dimensions"):
        np.empty_like(npaccel.asarray(plain), shape=(-1, 5))
    if _native.guarded():
        assert type(np.empty_like(npaccel.asarray(plain), shape=(9, 90))) is npaccel.Array
