"""Other subclasses of ndarray go before arrays of ours where they go before ndarrays."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npaccel

Array = np.ndarray[Any, Any]
pytestmark = pytest.mark.usefixtures("uncompiled")


class Silent(np.ndarray[Any, Any]):
    """Without operators of its own."""


class Reflected(np.ndarray[Any, Any]):
    """Tells what it was asked."""

    def _asked(self, other: Any) -> Any:
        return "asked", type(other).__name__ in ("ndarray", "Array"), np.asarray(other).tolist()

    __radd__ = __rtruediv__ = __rdivmod__ = __rmatmul__ = __rpow__ = _asked  # type: ignore[assignment]
    __gt__ = __eq__ = _asked  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]


class Refusing(np.ndarray[Any, Any]):
    """Leaves everything to the other one."""

    def _refused(self, other: Any) -> Any:
        return NotImplemented

    __radd__ = __rmul__ = __rtruediv__ = __lt__ = __eq__ = _refused  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]


def masked(a: Array) -> Any:
    return np.ma.masked_where(a == 2, a)


OTHERS: dict[str, Callable[[Array], Any]] = {
    "matrix": np.asmatrix,
    "masked": masked,
    "masked without a mask": np.ma.asarray,
    "record array": lambda a: a.view(np.recarray),
    "silent": lambda a: a.view(Silent),
    "reflected": lambda a: a.view(Reflected),
    "refusing": lambda a: a.view(Refusing),
}
NAMES = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "lshift", "and_"),
    *("lt", "le", "eq", "ne", "gt", "ge"),
    *("iadd", "imul", "itruediv"),
)
OPERATORS: dict[str, Callable[..., Any]] = {name: getattr(operator, name) for name in NAMES}
OPERATORS["divmod"] = divmod


def facts(value: Any) -> Any:
    """What can be told of a result; our class counts as ndarray."""
    if isinstance(value, tuple):
        return [facts(item) for item in value]
    if not isinstance(value, np.ndarray):
        return value
    kind = np.ndarray if type(value) is npaccel.Array else type(value)
    mask = np.ma.getmaskarray(value).tolist() if kind is np.ma.MaskedArray else None
    return kind, value.dtype, value.shape, repr(value.view(np.ndarray).tolist()), mask


def seen(operate: Callable[..., Any], *operands: Any) -> Any:
    """The result or the error, and warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = facts(operate(*operands))
        except Exception as error:
            result = type(error), str(error)
    return result, [(w.category, str(w.message)) for w in caught]


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("dtype", ["f8", "i8"])
@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name: str, other: str, dtype: str) -> None:
    operate = OPERATORS[name]

    def make() -> tuple[Array, Any]:
        a = np.arange(9).reshape(3, 3).astype(dtype)
        return a, OTHERS[other](a.T.copy())

    def ours() -> tuple[Array, Any]:
        a, b = make()
        return npaccel.asarray(a), b

    def pending() -> tuple[Array, Any]:
        a, b = ours()
        return a + a.dtype.type(0), b

    theirs, swapped = seen(operate, *make()), seen(operate, *make()[::-1])
    for operands in (ours, pending):
        assert seen(operate, *operands()) == theirs
        assert seen(operate, *operands()[::-1]) == swapped


@pytest.mark.pending
def test_large_results_of_numpys_are_ours(tmp_path: Any) -> None:
    mapped = np.memmap(tmp_path / "numbers", np.float64, "w+", shape=(1000,))
    with npaccel.accelerate():
        assert type(np.ones(1000) * 2.0 + mapped) is npaccel.Array
