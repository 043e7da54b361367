"""Each ufunc on small plain arrays in a block, and the arguments of its calls."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import npaccel

from .comparison import Case, all_same
from .operands import LAYOUTS, NUMBERS, laid_out

Array = np.ndarray[Any, Any]


def every_ufunc() -> dict[str, np.ufunc]:
    found = {}
    for module in (np, np._core.umath):  # type: ignore[attr-defined]
        for value in vars(module).values():
            if isinstance(value, np.ufunc) and value.nout == 1 and not value.signature:
                found[value.__name__] = value
    return found


UFUNCS = every_ufunc()
FEW = ("line", "block", "every second", "table", "transposed", "second without axes", "columns")


def arguments(u: np.ufunc, x: Array, y: Array) -> tuple[Array, ...]:
    third = y[tuple(slice(None, None, -1) for _ in y.shape)]
    return (x, y, third)[: u.nin]


@pytest.mark.parametrize("name", sorted(UFUNCS))
def test_ufunc(name: str) -> None:
    u = UFUNCS[name]

    def cases() -> Iterator[Case]:
        for dtype in (*NUMBERS, "M8[s]", "O", "S3"):
            for layout in FEW if dtype in "?blfdFD" else FEW[:3]:
                make = laid_out(LAYOUTS[layout], dtype)
                yield f"{dtype} {layout}", u, lambda m=make: arguments(u, *m())

    all_same(cases())


# Rows so short that loops go along another axis, with results that do not lie one behind the other.
SHORT_ROWS: dict[str, Callable[[Array, Array], tuple[Array, Array]]] = {
    "few columns": lambda v, w: (
        np.resize(v, (40, 5))[:, :3],
        np.resize(w, (40, 4))[:, 1:],
    ),
    "spread columns": lambda v, w: (
        np.broadcast_to(np.resize(v, (40, 1)), (40, 3)),
        np.resize(w, (40, 3)),
    ),
    "few columns of planes": lambda v, w: (
        np.resize(v, (2, 40, 5))[..., 1:3],
        np.resize(w, (2, 40, 2)),
    ),
}


@pytest.mark.parametrize("name", sorted(UFUNCS))
def test_ufunc_on_short_rows(name: str) -> None:
    u = UFUNCS[name]

    def cases() -> Iterator[Case]:
        for dtype in NUMBERS:
            for layout, lay_out in SHORT_ROWS.items():
                make = laid_out(lay_out, dtype)
                yield f"{dtype} {layout}", u, lambda m=make: arguments(u, *m())

    all_same(cases())


@pytest.mark.one_in(2)
@pytest.mark.parametrize("points", [17, 500, 501, 1000, 8191, 8193, 16_000])
def test_bits_of_ufuncs_that_approximate(points: int) -> None:
    """Among others `exp` and `power`, whose loops take several elements at a time."""

    def cases() -> Iterator[Case]:
        for name, u in UFUNCS.items():
            for dtype in "fdFD":

                def make(u: np.ufunc = u, dtype: str = dtype) -> tuple[Any, ...]:
                    rng = np.random.default_rng(points)
                    parts = [rng.normal(0, 5, points) for _ in range(2 * u.nin)]
                    values = [
                        x + (1j * y if dtype in "FD" else 0)
                        for x, y in zip(parts[::2], parts[1::2], strict=True)
                    ]
                    return tuple(x.astype(dtype) for x in values)

                yield f"{name} {dtype}", u, make
                if u.nin == 2:
                    yield f"{name} {dtype} 1.5", u, lambda m=make: (m()[0], 1.5)
                    yield f"2 {name} {dtype}", u, lambda m=make: (2, m()[0])
                if points == 1000:
                    yield f"{name} {dtype} cut", u, lambda m=make: tuple(x[:999:3] for x in m())
                    halves = functools.partial(
                        lambda m: tuple(x.reshape(20, 50)[:, :25] for x in m()), make
                    )
                    yield f"{name} {dtype} halves", u, halves

    with np.errstate(all="ignore"):
        all_same(cases(), times=1)


class Words(np.ndarray[Any, Any]):
    """Tells by which words a ufunc was called."""

    def __new__(cls, x: Array) -> Any:
        return np.asarray(x).view(cls)

    def __array_ufunc__(self, u: np.ufunc, method: str, *args: Any, **words: Any) -> Any:
        return sorted(words.items())


UFUNC_CALLS: dict[str, Callable[[Array, Array], Any]] = {
    "onto the first": lambda x, y: np.add(x, y, x),
    "onto the second": lambda x, y: np.subtract(x, y, y),
    "onto a new one": lambda x, y: np.add(x, y, np.empty_like(x)),
    "onto None": lambda x, y: np.add(x, y, None),
    "onto itself": lambda x, y: np.negative(x, x),
    "onto another dtype": lambda x, y: np.add(x, y, np.empty(x.shape, "D")),
    "onto a wider one": lambda x, y: np.add(x[:1], y, x[:1]),
    "onto its view": lambda x, y: np.add(x, y, x[:]),
    "a comparison onto the first": lambda x, y: np.less(x, y, x),
    "maximum onto the first": lambda x, y: np.maximum(x, y, x),
    "minimum onto the first": lambda x, y: np.minimum(x, y, x),
    "clip": lambda x, y: np._core.umath.clip(x, 1, 3),  # type: ignore[attr-defined]
    "clip onto the first": lambda x, y: np._core.umath.clip(x, 1, 3, x),  # type: ignore[attr-defined]
    "clip between": lambda x, y: np._core.umath.clip(x, y, x[:1]),  # type: ignore[attr-defined]
    "np.clip": lambda x, y: np.clip(x, 1, 3),
    "x.clip": lambda x, y: x.clip(y),
    "out": lambda x, y: np.add(x, y, out=x),
    "where": lambda x, y: np.add(x, y, out=np.zeros_like(x), where=x == y),
    "dtype": lambda x, y: np.add(x, y, dtype="g"),
    "subok": lambda x, y: np.add(x, y, subok=True),
    "subok of a number": lambda x, y: np.multiply(x, 2.0, subok=False),
    "subok of masked arrays": lambda x, y: np.add(np.ma.masked_equal(x, 3), y, subok=False),
    "subok onto the first": lambda x, y: np.add(x, y, x, subok=True),
    "subok and order": lambda x, y: np.add(x, y, subok=True, order="F"),
    "subok, no truth": lambda x, y: np.add(x, y, subok=1),
    "subok, as its words": lambda x, y: np.add(Words(x), y, subok=True),
    "kron": lambda x, y: np.kron(x, y[:9]),
    "few arguments": lambda x, y: np.add(x),
    "many arguments": lambda x, y: np.add(x, y, x, y),
    "no array": lambda x, y: np.add(1.0, 2.0),
    "numbers around": lambda x, y: np.subtract(1, x),
    "a list": lambda x, y: np.add(x, y.tolist()),
    "sin of none": lambda x, y: np.sin(x[:0]),
    "one element": lambda x, y: np.sin(x[:1]),
    "reduce": lambda x, y: np.add.reduce(x, dtype="g"),
    "outer": lambda x, y: np.multiply.outer(x, y[:3]),
    "at": lambda x, y: np.add.at(x, [0, 0, 1], y[:3]),
    "dunder": np.ndarray.__add__,
    "reflected dunder": lambda x, y: np.ndarray.__rsub__(x, 1),
    "dunder with str": lambda x, y: np.ndarray.__add__(x, "a"),
    "method": lambda x, y: x.__mul__(y),
    "sum of list": lambda x, y: sum([x, y, x]),
    "chain": lambda x, y: (x + y) * x - y * 2 + (x - x) ** 2,
    "temporaries": lambda x, y: -(abs(x + y)) + (y * 1) * (x + 1),
}


@pytest.mark.parametrize("name", UFUNC_CALLS)
def test_call(name: str) -> None:
    all_same(
        (f"{dtype} {layout}", UFUNC_CALLS[name], laid_out(LAYOUTS[layout], dtype))
        for dtype in "?lBfdD"
        for layout in ("line", "every second", "itself", "read-only", "one", "backwards")
    )


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "f4", "f8", "c8"])
def test_columns_of_a_table(dtype: str) -> None:
    """Loops go along the long axis, along which NumPy's own iterator does not let elements lie
    apart: NumPy's `negative` then reads others."""
    calls = (np.negative, np.absolute, np.square, np.isfinite, np.logical_not, np.sign)
    for width, columns in itertools.product(range(2, 18), (2, 3)):
        table = np.arange(60 * width).reshape(60, width).astype(dtype)[:, :columns]
        for call in calls:
            expected = call(table)
            with npaccel.accelerate():
                found = call(table)
            assert found.tobytes() == expected.tobytes(), (call.__name__, width, columns)
