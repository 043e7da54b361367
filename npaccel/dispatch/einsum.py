"""`np.einsum` of two large real arrays, where it is a product of matrices, or a stack of them.

NumPy's loop takes one step after the other, whatever the letters say. Here what the operands share
and the result lacks is one axis, and one or both have an axis of their own besides. Everything else
is NumPy's, whose loop for it takes about as long as memory does. As NumPy's, no result is -0.0, and
nothing is warned of.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any, NamedTuple

import numpy as np

from npaccel import _native
from npaccel.dispatch.fallback import NotRecorded
from npaccel.dispatch.function import implements
from npaccel.dispatch.operands import is_array, take_array

__all__ = ["einsum"]

Array = np.ndarray[Any, Any]
REASON = "matrix product"


class Product(NamedTuple):
    """What subscripts say: the letters of the operands and of the result; and the two factors as
    `np.matmul` takes them, each by its place and its axes in order."""

    terms: list[str]
    output: str
    first: tuple[int, list[int]]
    second: tuple[int, list[int]]
    stacked: bool
    left: bool
    right: bool


@implements(np.einsum)
def einsum(*operands: Any, **words: Any) -> Any:
    """``np.einsum(subscripts, a, b)`` by ``np.matmul``."""
    if words.pop("optimize", False) is not False or words or len(operands) != 3:
        raise NotRecorded(REASON)
    subscripts, *arrays = operands
    product = _read(subscripts) if type(subscripts) is str else None
    if product is None or not _fit(product.terms, product.output, arrays):
        raise NotRecorded(REASON)
    dtype = arrays[0].dtype
    if dtype.kind not in "fiu" or dtype.char in "eg" or any(x.dtype != dtype for x in arrays):
        raise NotRecorded(REASON)
    if not _native.wants(*arrays) or not all(x.flags.c_contiguous for x in arrays):
        raise NotRecorded(REASON)
    wrapped: list[Array] = [_native.wrap(take_array(x)) for x in arrays]
    with np.errstate(all="ignore"):
        return _multiply(product, wrapped)


@functools.lru_cache(256)
def _read(subscripts: str) -> Product | None:
    """The product that subscripts ask for; None where it is none that `np.matmul` makes."""
    left, arrow, output = subscripts.replace(" ", "").partition("->")
    terms = left.split(",")
    letters = left.replace(",", "") + output
    if not all(map(str.isalpha, letters)) or not letters.isascii() or len(terms) != 2:
        return None
    if not arrow:
        output = "".join(x for x in sorted(set(letters)) if letters.count(x) == 1)
    if any(len(set(term)) < len(term) for term in (*terms, output)):  # diagonals
        return None
    return _factors(terms, output) if _in_order(terms, output) else None


def _fit(terms: list[str], output: str, arrays: list[Any]) -> bool:
    """Whether each letter has one extent, and the result no other letters, nor axes of one
    element, whose strides NumPy's iterator chooses."""
    if not all(map(is_array, arrays)):
        return False
    extents: dict[str, int] = {}
    for term, array in zip(terms, arrays, strict=True):
        if array.ndim != len(term) or array.ndim == 0 or array.size == 0:
            return False
        if any(extents.setdefault(x, n) != n for x, n in zip(term, array.shape, strict=True)):
            return False
    return set(output) <= extents.keys() and all(extents[x] > 1 for x in output)


def _in_order(terms: list[str], output: str) -> bool:
    """Whether NumPy's result lies in C order: no operand, nor several of them one after the other,
    has letters of it the other way round."""
    inside = {(x, y) for term in terms for x, y in itertools.combinations(term, 2)}
    while more := {(x, z) for x, y in inside for w, z in inside if w == y} - inside:
        inside |= more
    return not any((y, x) in inside for x, y in itertools.combinations(output, 2))


def _factors(terms: list[str], output: str) -> Product | None:
    """Of matrices, of a matrix and a vector, or of a stack of them."""
    one, two = terms
    shared = [x for x in one if x in two and x not in output]
    left = [x for x in one if x not in two]
    right = [x for x in two if x not in one]
    stack = [x for x in output if x in one and x in two]
    if len(shared) != 1 or not 1 <= len(left) + len(right) <= 2 or max(len(left), len(right)) > 1:
        return None
    first, second = 0, 1
    if list(output) == [*stack, *right, *left]:
        first, second, left, right = second, first, right, left
    elif list(output) != [*stack, *left, *right]:
        return None
    rows = [terms[first].index(x) for x in (*stack, *left, *shared)]
    columns = [terms[second].index(x) for x in (*stack, *shared, *right)]
    factors = (first, rows), (second, columns)
    return Product(terms, output, *factors, bool(stack), bool(left), bool(right))


def _multiply(product: Product, arrays: list[Array]) -> Any:
    rows, columns = (arrays[k].transpose(axes) for k, axes in (product.first, product.second))
    if not product.stacked or (product.left and product.right):
        return np.matmul(rows, columns)
    if not product.left:
        return np.matmul(rows[..., None, :], columns)[..., 0, :].copy()
    return np.matmul(rows, columns[..., None])[..., 0].copy()
