"""`np.einsum`: as products of matrices, or NumPy's."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npaccel

Array = np.ndarray[Any, Any]
EXTENTS = {"a": 2, "b": 3, "i": 40, "j": 33, "k": 36, "n": 5}
LETTERS = (
    "ij,ij->i", "ij,ij->", "ij,ij->ij", "ij,ij->j", "ij,ij", "ij,j->i", "ij,j->ij", "ij,i->ij",
    "ij,i->j", "i,j->ij", "i,ij->j", "ij->j", "ij->i", "ij->", "ij,jk->ik", "ij,kj->ik",
    "ij,kj->ki", "ji,jk->ik", "ij,jk", "nij,njk->nik", "nij,nik->njk", "nij,nj->ni",
    "ni,nij->nj", "nij,jk->nik", "nij,nij->n", "nij,ij->n", "ij,ij,ij->i", "ij,i,j->",
    "ij,ij,j->ij", "nab,nbj->naj", "nab,nb->na", " i j , j k -> i k ",
)  # fmt: skip
OTHERS = (
    "ij,jk->ki", "ji,kj->ik",
    "ij->ij", "ij->ji", "ii->i", "ii", "ij,ji->ij", "ij,ij->ji", "i...,j...->ij...", "...ij,...jk",
    "na,nb->nab", "ij,jk,kn->in", "ij,kj->ji", "ij,jk->ijk", "ia,ia->i", "ab,ab->a", "ij,jk->il",
    "ij,jk->iik", "ij,j", "ij;jk->ik", "i1,1k->ik",
)  # fmt: skip


def operands(subscripts: str, dtype: str, special: bool = False) -> list[Array]:
    rng = np.random.default_rng(4)
    made = []
    for term in subscripts.replace(" ", "").partition("->")[0].split(","):
        shape = [EXTENTS.get(letter, 6) for letter in term.replace("...", "b")]
        values = [0.0, -0.0, 1.0, -1.0, np.inf, np.nan] if special else [-3, -2, -1, 0, 1, 2, 0.5]
        made.append(rng.choice(values, shape).astype(dtype))
    return made


def told(call: Callable[[], Any]) -> tuple[Any, ...]:
    """What it is like, its values, what was said."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            x = call()
        except (ValueError, TypeError) as error:
            return type(error), str(error), ()
        own = isinstance(x, np.ndarray) and x.flags.owndata
        looks = (own, np.shape(x), np.asarray(x).strides, np.asarray(x).dtype)
        return looks, np.asarray(x), [str(w.message) for w in heard]


def same(subscripts: str, arrays: list[Array], **words: Any) -> None:
    expected = told(lambda: np.einsum(subscripts, *arrays, **words))
    with npaccel.accelerate():
        found = told(lambda: np.einsum(subscripts, *arrays, **words))
        mine = [np.add(x, x.dtype.type(0)) for x in arrays]
        again = told(lambda: np.einsum(subscripts, *mine, **words))
    alike = all(x.flags.c_contiguous and x.dtype.isnative for x in arrays)
    for one in (found, again) if alike else (found,):
        assert one[0] == expected[0]
        assert one[2] == expected[2]
        if isinstance(expected[1], str):
            assert one[1] == expected[1]
            continue
        np.testing.assert_array_equal(one[1], expected[1])
        if expected[1].dtype.kind == "f":
            zero = expected[1] == 0
            assert np.array_equal(np.signbit(one[1][zero]), np.signbit(expected[1][zero]))


# The values are such that sums are exact in any order.
@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "u8", "f2", "c16", "?"])
@pytest.mark.parametrize("subscripts", [*LETTERS, *OTHERS])
def test_values(subscripts: str, dtype: str) -> None:
    same(subscripts, [np.abs(x) if dtype[0] == "u" else x for x in operands(subscripts, dtype)])


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("subscripts", LETTERS)
def test_special_values_and_their_silence(subscripts: str) -> None:
    arrays = operands(subscripts, "f8", special=True)
    same(subscripts, arrays)
    same(subscripts, [np.full_like(x, -0.0 if k else 1.0) for k, x in enumerate(arrays)])


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("layout", ["F", "reversed", "every other", "types", "swapped"])
def test_layouts(layout: str) -> None:
    change: dict[str, Callable[[Array], Array]] = {
        "F": np.asfortranarray,
        "reversed": lambda x: x[::-1],
        "every other": lambda x: np.repeat(x, 2, axis=0)[::2],
        "types": lambda x: x.astype("f4") if x.shape[0] == 40 else x,
        "swapped": lambda x: x.astype(">f8"),
    }
    for subscripts in LETTERS:
        same(subscripts, [change[layout](x) for x in operands(subscripts, "f8")])


@pytest.mark.parametrize("words", [{"optimize": True}, {"optimize": "greedy"}, {"dtype": "f4"},
                                   {"order": "F"}, {"casting": "no"}])  # fmt: skip
def test_words(words: dict[str, Any]) -> None:
    for subscripts in ("ij,jk->ik", "ij,ij->i", "ij,ij,j->ij", "ij,ij->ij"):
        same(subscripts, operands(subscripts, "f8"), **words)


def test_out_and_lists_of_letters() -> None:
    a, b = operands("ij,jk", "f8")
    out = np.zeros((40, 36))
    with npaccel.accelerate():
        assert np.einsum("ij,jk->ik", a, b, out=out) is out
        other = np.einsum(a, [0, 1], b, [1, 2], [0, 2])
        mixed = np.einsum("ij,jk->ik", a, b.tolist())
    np.testing.assert_array_equal(out, a @ b)
    np.testing.assert_array_equal(other, a @ b)
    np.testing.assert_array_equal(mixed, a @ b)


@pytest.mark.pending
@pytest.mark.parametrize(
    ("subscripts", "product"),
    [("ij,jk->ik", True), ("nij,nj->ni", True), ("ij,ij->i", False), ("ij,ij->ij", False)],
)
def test_products_are_matmuls(subscripts: str, product: bool) -> None:
    """Seen by their bits, which are other ones where terms are added in another order."""
    rng = np.random.default_rng(1)
    terms = subscripts.partition("->")[0].split(",")
    arrays = [rng.normal(size=[20 + 30 * "nijk".index(x) for x in term]) for term in terms]
    first, second = arrays
    with npaccel.accelerate():
        found = np.einsum(subscripts, *arrays).tobytes()
    if product:
        vector = second.ndim < first.ndim
        expected = np.matmul(first, second[..., None] if vector else second)
        assert found == (expected[..., 0].copy() if vector else expected).tobytes()
    else:
        assert found == np.einsum(subscripts, *arrays).tobytes()


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("seed", range(60))
def test_random_letters(seed: int) -> None:
    rng = np.random.default_rng(seed)
    terms = ["".join(rng.permutation(list("ijkn"))[: rng.integers(1, 4)]) for _ in range(2)]
    known = sorted(set("".join(terms)))
    output = "".join(rng.permutation(known)[: rng.integers(0, len(known) + 1)])
    subscripts = f"{','.join(terms)}->{output}"
    same(subscripts, operands(subscripts, "f8"))


@pytest.mark.parametrize("one", "nijk")
@pytest.mark.parametrize("subscripts", ["ij,jk->ik", "ij,ik->jk", "nji,njk->nik", "nij,nj->ni"])
def test_axes_of_one_element(subscripts: str, one: str) -> None:
    """NumPy's iterator chooses the strides along them."""
    extents = {"n": 50, "i": 20, "j": 30, "k": 40, one: 1}
    terms = subscripts.partition("->")[0].split(",")
    same(
        subscripts,
        [
            np.arange(float(np.prod(n))).reshape(n) % 7
            for n in ([extents[x] for x in term] for term in terms)
        ],
    )
