"""Products of what waits, or of what nobody has looked at: NumPy's bits, and it stays hidden."""

from __future__ import annotations

import contextlib
import ctypes
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npaccel
from npaccel import _native
from npaccel.dispatch.fallback import FALLBACKS

from .at_once import seen
from .tried import shows

pytestmark = pytest.mark.pending

Array = np.ndarray[Any, Any]
Product = Callable[[Array, Array], Any]
N = 60_000
RNG = np.random.default_rng(3)
TYPES = ["f", "d", "F", "D"]
VECTORS: dict[str, Product] = {
    "dot": np.dot,
    "inner": np.inner,
    "vdot": np.vdot,
    "matmul": np.matmul,
    "operator": lambda a, b: a @ b,
    "method": lambda a, b: a.dot(b),
    "norm": lambda a, b: np.linalg.norm(a - b),
    "steps": lambda a, b: a[::3] @ b[1::3],
    "backwards": lambda a, b: np.dot(a[::-1], b),
    "other type": lambda a, b: a @ b.astype("f" if b.dtype.char == "d" else "d"),
    "lengths": lambda a, b: a @ b[:-1],
    "one element": lambda a, b: np.dot(a[:1], b[-1:]),
    "none": lambda a, b: np.dot(a[:0], b[:0]),
}
MATRICES: dict[str, Product] = {
    "dot": lambda a, b: np.dot(a, b.T),
    "method": lambda a, b: a.dot(b.T),
    "dot of its own transpose": lambda a, b: np.dot(a.T, a),
    "dot with a vector": lambda a, b: np.dot(a, b[0]),
    "dot with every other number": lambda a, b: np.dot(a, b.ravel()[::2][:300]),
    "dot of a vector": lambda a, b: np.dot(b[:, 0].copy(), a),
    "dot of rows apart": lambda a, b: np.dot(a[::2], b.T),
    "dot of one column": lambda a, b: np.dot(a[:, :1], b[:1]),
    "dot of many": lambda a, b: np.dot(a.reshape(4, 50, 300), b.T),
    "dot into": lambda a, b: np.dot(a, b.T, np.zeros((200, 200), a.dtype)),
    "dot of other shapes": np.dot,
    "inner": np.inner,
    "inner with a vector": lambda a, b: np.inner(a, b[3]),
    "inner of other shapes": lambda a, b: np.inner(a, b.T),
    "tensordot": lambda a, b: np.tensordot(a, b, (1, 1)),
    "matmul": lambda a, b: np.matmul(a, b.T),
    "operator": lambda a, b: a @ b.T,
    "its own transpose": lambda a, b: a @ a.T,
    "the other way": lambda a, b: a.T @ a,
    "matrix and vector": lambda a, b: a @ b[0],
    "vector and matrix": lambda a, b: b[:, 0] @ a,
    "vdot": np.vdot,
    "vdot in another order": lambda a, b: np.vdot(a, b.T),
    "rows apart": lambda a, b: a[::2] @ b[::-2].T,
    "one row": lambda a, b: a[:1] @ b[:1].T,
    "many": lambda a, b: a.reshape(4, 50, 300) @ b.reshape(4, 300, 50),
    "into": lambda a, b: np.matmul(a, b.T, out=np.zeros((200, 200), a.dtype)),
    "shapes": lambda a, b: a @ b,
    "empty": lambda a, b: a[:0] @ b.T,
}


def numbers(char: str, shape: tuple[int, ...]) -> Array:
    made = RNG.normal(size=shape) + (1j * RNG.normal(size=shape) if char in "FD" else 0)
    return made.astype(char)


def wait(a: Array, computed: bool) -> Any:
    """The same numbers, which wait, or which nobody has looked at."""
    x: Any = npaccel.asarray(a) * a.dtype.type(1)
    if computed:
        npaccel.evaluate()
    return x


def hidden(a: Array) -> tuple[Any, int]:
    """The same numbers, which nobody has looked at, and where they will be seen."""
    _native.forget_looks()
    x = npaccel.asarray(a.copy())
    address = int(x.ctypes.data)
    x *= x.dtype.type(1)
    npaccel.evaluate()
    return x, address


@pytest.mark.parametrize("char", TYPES)
@pytest.mark.parametrize("computed", [False, True], ids=["waits", "hidden"])
@pytest.mark.parametrize("block", [False, True], ids=["wrapped", "block"])
def test_bits_are_numpys(char: str, computed: bool, block: bool) -> None:
    for shape, products in (((N,), VECTORS), ((200, 300), MATRICES)):
        a, b = numbers(char, shape), numbers(char, shape)
        for name, product in products.items():
            if char == "F" and name == "other type":
                continue
            expected = seen(lambda product=product, a=a, b=b: product(a, b))
            x, y = wait(a, computed), wait(b, computed)
            if block:
                with npaccel.accelerate():
                    got = seen(lambda product=product, x=x, y=y: product(x, y))
            else:
                got = seen(lambda product=product, x=x, y=y: product(x, y))
            assert got == expected, (name, char)


HIDDEN: dict[str, tuple[tuple[int, ...], tuple[int, ...], Product]] = {
    "matrices": ((200, 300), (300, 200), np.dot),
    "the method": ((200, 300), (300, 200), lambda a, b: a.dot(b)),
    "inner": ((200, 300), (250, 300), np.inner),
    "matrix and vector": ((200, 300), (300,), np.dot),
    "vector and matrix": ((200,), (200, 300), np.dot),
    "stacks": ((30, 40, 50), (30, 50, 40), np.matmul),
    "solve": ((190, 190), (190,), np.linalg.solve),
    "solve for many": ((190, 190), (190, 3), np.linalg.solve),
}


@pytest.mark.parametrize("name", HIDDEN)
def test_matrices_that_are_hidden_stay_so(name: str) -> None:
    *shapes, product = HIDDEN[name]
    a, b = (numbers("d", shape) for shape in shapes)
    if a.shape == (190, 190):
        a = a @ a.T + 190 * np.eye(190)
    (x, first), (y, second) = hidden(a), hidden(b)
    with npaccel.accelerate():
        got = product(x, y)
    large = [address for address, z in ((first, a), (second, b)) if z.nbytes >= 1 << 18]
    assert large and not any(map(shows, large))
    assert seen(lambda: got) == seen(lambda: product(a, b))


@pytest.mark.parametrize("shape", [(190, 190), (190, 180), (3, 190, 190), (0, 0)])
@pytest.mark.parametrize(
    "call", [np.linalg.solve, np.linalg.inv, np.linalg.cholesky, np.linalg.eigh]
)
def test_what_linear_algebra_refuses(shape: tuple[int, ...], call: Callable[..., Any]) -> None:
    a = np.full(shape, -1.0)
    b = (np.ones(shape[-1]),) if call is np.linalg.solve else ()

    def told(x: Any) -> Any:
        try:
            made = call(x, *b)
            parts = made if isinstance(made, tuple) else (made,)
            return [np.asarray(part).tobytes() for part in parts]
        except np.linalg.LinAlgError as error:
            return type(error), str(error)

    expected = told(a)
    for computed in (False, True):
        with npaccel.accelerate():
            assert told(wait(a, computed)) == expected


@pytest.mark.parametrize("block", [False, True], ids=["wrapped", "block"])
@pytest.mark.parametrize("product", [np.vdot, np.dot, np.matmul, lambda a, b: a.dot(b)])
def test_what_is_hidden_stays_so(block: bool, product: Product) -> None:
    (x, first), (y, second) = hidden(numbers("d", (N,))), hidden(numbers("d", (N,)))
    if block:
        with npaccel.accelerate():
            product(x, y)
    else:
        product(x, y)
    assert not shows(first) and not shows(second)


def test_a_large_product_waits_for_nobody_to_look_at_it() -> None:
    a, b = numbers("d", (400, 100)), numbers("d", (100, 400))
    with npaccel.accelerate():
        product = wait(a, True) @ wait(b, True)
        assert isinstance(product, npaccel.Array)
        product += 1.0
        assert _native.is_pending(product)
    assert np.array_equal(np.asarray(product), a @ b + 1.0)


def test_full_folds_leave_what_is_hidden_so() -> None:
    values = numbers("d", (N,))
    x, address = hidden(values)
    with npaccel.accelerate():
        assert x.max() == values.max() and x.min() == values.min()
    assert not shows(address)


def test_they_are_counted_and_timed() -> None:
    FALLBACKS.clear()
    x = wait(numbers("d", (N,)), True)
    with npaccel.accelerate():
        np.vdot(x, x)
    ((function, reason, _), calls), *others = FALLBACKS.counts().items()
    assert (function, reason, calls, others) == ("vdot", "matrix product", 1, [])


@pytest.mark.parametrize("value", [1e200, 1e-200, np.nan, np.inf, 1e-320])
@pytest.mark.parametrize("shape", [(200, 300), (8, 8)], ids=["large", "small"])
@pytest.mark.parametrize("block", [False, True], ids=["wrapped", "block"])
def test_errors_are_numpys_to_tell(value: float, shape: tuple[int, int], block: bool) -> None:
    """Of small ones the flags are seen by the thread that asks; it may not ask without Python."""
    a = np.full(shape, value)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        expected = a @ a.T
    for computed in (False, True):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            x = wait(a, computed)
            assert _native.is_pending(x) is not computed
            with npaccel.accelerate(min_size=0) if block else contextlib.nullcontext():
                got = x @ x.T
        assert np.array_equal(np.asarray(got), expected, equal_nan=True)
        assert [str(w.message) for w in caught] == [str(w.message) for w in told]


def test_other_threads_write_what_is_read() -> None:
    """One thread multiplies what another records and looks at: nobody waits for ever."""
    a = numbers("d", (300, 200))
    expected, wrong = a @ a[0, :200], []

    def multiply() -> None:
        for _ in range(60):
            x = wait(a, True)
            if not np.array_equal(np.asarray(x @ x[0, :200]), expected):
                wrong.append(1)

    def look() -> None:
        for _ in range(60):
            y = wait(a, False)
            if ctypes.c_double.from_address(y.ctypes.data).value != a[0, 0]:
                wrong.append(2)

    threads = [threading.Thread(target=f) for f in (multiply, look, multiply, look)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads) and wrong == []
