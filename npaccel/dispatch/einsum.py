"""`np.einsum` of large real arrays: a matrix product, or an element-wise one.

NumPy's loop takes one step after the other, whatever the letters say. Here what two operands share
and the result lacks is a matrix product where one has an axis of its own besides. What has all
letters in the result is recorded as multiplications. Other sums are NumPy's, whose loop for them
takes as long as memory does. As NumPy's, no result is -0.0, and nothing is warned of.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from npaccel import _native
from npaccel.dispatch.fallback import NotRecorded
from npaccel.dispatch.function import implements
from npaccel.dispatch.operands import is_array, take_array

__all__ = ["einsum"]

Array = np.ndarray[Any, Any]
REASON = "matrix product"
MOST_OPERANDS = 3
# How long rows are, at least, that it takes no longer than NumPy's before there is a kernel.
LONG = 32


@implements(np.einsum)
def einsum(*operands: Any, **words: Any) -> Any:
    """Record ``np.einsum(subscripts, *arrays)``."""
    if words.pop("optimize", False) is not False or words or len(operands) < 2:
        raise NotRecorded(REASON)
    subscripts, *arrays = operands
    if type(subscripts) is not str or len(arrays) > MOST_OPERANDS:
        raise NotRecorded(REASON)
    terms, output = _read(subscripts)
    extents = _extents(terms, arrays)
    if not set(output) <= extents.keys() or not _in_order(terms, output):
        raise NotRecorded(REASON)
    dtype = arrays[0].dtype
    if dtype.kind not in "fiu" or dtype.char in "eg" or any(x.dtype != dtype for x in arrays):
        raise NotRecorded(REASON)
    if not _native.wants(*arrays) or not all(x.flags.c_contiguous for x in arrays):
        raise NotRecorded(REASON)
    wrapped: list[Array] = [_native.wrap(take_array(x)) for x in arrays]
    with np.errstate(all="ignore"):
        result = _product(terms, output, wrapped)
        return _spread(terms, output, wrapped, extents) if result is None else result


def _read(subscripts: str) -> tuple[list[str], str]:
    """The letters of each operand and of the result."""
    left, arrow, output = subscripts.replace(" ", "").partition("->")
    terms = left.split(",")
    letters = left.replace(",", "") + output
    if not all(map(str.isalpha, letters)) or not letters.isascii():
        raise NotRecorded(REASON)
    if not arrow:
        output = "".join(x for x in sorted(set(letters)) if letters.count(x) == 1)
    if any(len(set(term)) < len(term) for term in (*terms, output)):  # diagonals
        raise NotRecorded(REASON)
    return terms, output


def _extents(terms: list[str], arrays: list[Any]) -> dict[str, int]:
    if len(terms) != len(arrays) or not all(map(is_array, arrays)):
        raise NotRecorded(REASON)
    extents: dict[str, int] = {}
    for term, array in zip(terms, arrays, strict=True):
        if array.ndim != len(term) or array.ndim == 0 or array.size == 0:
            raise NotRecorded(REASON)
        for letter, extent in zip(term, array.shape, strict=True):
            if extents.setdefault(letter, extent) != extent:
                raise NotRecorded(REASON)
    return extents


def _in_order(terms: list[str], output: str) -> bool:
    """Whether NumPy's result lies in C order: no operand, nor several of them one after the other,
    has letters of it the other way round."""
    inside = {(x, y) for term in terms for x, y in itertools.combinations(term, 2)}
    while more := {(x, z) for x, y in inside for w, z in inside if w == y} - inside:
        inside |= more
    return not any((y, x) in inside for x, y in itertools.combinations(output, 2))


def _product(terms: list[str], output: str, arrays: list[Array]) -> Any:
    """As a product of matrices, of a matrix and a vector, or a stack of them; None: it is none."""
    if len(terms) != 2:
        return None
    one, two = terms
    shared = [x for x in one if x in two and x not in output]
    left = [x for x in one if x not in two]
    right = [x for x in two if x not in one]
    stack = [x for x in output if x in one and x in two]
    if len(shared) != 1 or not 1 <= len(left) + len(right) <= 2 or max(len(left), len(right)) > 1:
        return None
    factors = [(arrays[0], one, left), (arrays[1], two, right)]
    if list(output) == [*stack, *right, *left]:
        factors.reverse()
    elif list(output) != [*stack, *left, *right]:
        return None
    (first, one, left), (second, two, right) = factors
    rows = _turned(first, one, [*stack, *left, *shared])
    columns = _turned(second, two, [*stack, *shared, *right])
    if not stack or (left and right):
        return np.matmul(rows, columns)
    if not left:
        return np.matmul(rows[..., None, :], columns)[..., 0, :].copy()
    return np.matmul(rows, columns[..., None])[..., 0].copy()


def _turned(array: Array, term: str, letters: list[str]) -> Array:
    return array.transpose([term.index(x) for x in letters])


def _spread(terms: list[str], output: str, arrays: list[Array], extents: dict[str, int]) -> Any:
    """As multiplications over all letters, all of which the result has."""
    short = any(extents[term[-1]] < LONG for term in terms)
    if short or len(terms) == 1 or len(output) < len(extents):
        raise NotRecorded(REASON)
    spread = []
    for term, array in zip(terms, arrays, strict=True):
        turned = _turned(array, term, [x for x in output if x in term])
        spread.append(turned[tuple(slice(None) if x in term else None for x in output)])
    result, *rest = spread
    for factor in rest:
        result = np.multiply(result, factor)
    # NumPy's begins with 0.0; products of matrices do, too.
    return result if result.dtype.kind != "f" else result + result.dtype.type(0)
