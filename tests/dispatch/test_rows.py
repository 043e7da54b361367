"""NumPy's loops over rows, on all threads: its results to the bit, warnings and errors too."""

from __future__ import annotations

import concurrent.futures
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest

import npaccel
from npaccel import _native

Array = np.ndarray[Any, Any]
ERRORS: tuple[Literal["warn", "raise", "ignore"], ...] = ("warn", "raise", "ignore")
Call = Callable[[Array], Any]
pytestmark = [
    pytest.mark.usefixtures("threads"),
    pytest.mark.parametrize("threads", [2, pytest.param(5, marks=pytest.mark.slow)], indirect=True),
]


def bits_of(x: Array) -> bytes:
    if x.dtype == "g":  # of its sixteen bytes six are anything
        return np.frombuffer(x.tobytes(), "u1").reshape(-1, 16)[:, :10].tobytes()
    return x.tobytes()


def told(call: Callable[[], Any]) -> list[Any]:
    """What a call gives or raises, and its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = call()
        except Exception as error:
            return [type(error), str(error), [str(w.message) for w in caught]]
        parts = result if isinstance(result, tuple) else (result,)
        shown = [
            (type(x).__name__.replace("Array", "ndarray"), x.dtype, x.shape, x.strides)
            for x in map(np.asanyarray, parts)
        ]
        bits = [bits_of(np.asarray(x)) for x in parts]
    return [type(result), shown, bits, [str(w.message) for w in caught]]


def same(call: Callable[[], Any], times: int = 2) -> None:
    want = told(call)
    _native.forget_rows()
    for _ in range(times):  # by one thread, then by all
        with npaccel.accelerate():
            got = told(call)
        assert got[1:] == want[1:]


def matrices(shape: tuple[int, ...], dtype: str = "f8") -> Array:
    rng = np.random.default_rng(len(shape))
    if np.dtype(dtype).kind in "iub":
        return rng.integers(0, 9, shape).astype(dtype)
    made: Array = rng.normal(size=shape)
    return made.astype(dtype) + (1j * rng.normal(size=shape) if dtype[0] == "c" else 0)


def definite(a: Array) -> Array:
    own: Array = a @ a.conj().swapaxes(-1, -2) + 2 * np.eye(a.shape[-1])
    return own.astype(a.dtype)


# ------------------------------------------------------------------- generalised ufuncs

SOLVERS: dict[str, Call] = {
    "solve": lambda a: np.linalg.solve(a, a[..., :1]),
    "solve, many": lambda a: np.linalg.solve(a, a + 1),
    "solve, one matrix": lambda a: np.linalg.solve(a[0], a),
    "solve, vectors": lambda a: np.linalg.solve(a, np.ones(a.shape[-1])),
    "inv": np.linalg.inv,
    "det": np.linalg.det,
    "slogdet": np.linalg.slogdet,
    "cholesky": lambda a: np.linalg.cholesky(definite(a)),
    "eigh": lambda a: np.linalg.eigh(definite(a)),
    "eigh, upper": lambda a: np.linalg.eigh(definite(a), "U"),
    "eigvalsh": np.linalg.eigvalsh,
    "eig": np.linalg.eig,
    "eigvals": np.linalg.eigvals,
    "svd": np.linalg.svd,
    "svd, reduced": lambda a: np.linalg.svd(a[..., :2], full_matrices=False),
    "singular values": lambda a: np.linalg.svd(a[..., :2, :], compute_uv=False),
    "qr": np.linalg.qr,
    "qr, complete": lambda a: np.linalg.qr(a[..., :2], "complete"),
    "pinv": np.linalg.pinv,
    "power": lambda a: np.linalg.matrix_power(a, 3),
    "norm": lambda a: np.linalg.norm(a, 2, axis=(-2, -1)),
    "transposed": lambda a: np.linalg.inv(a.swapaxes(-1, -2)),
    "reversed": lambda a: np.linalg.inv(a[::-1]),
    "every other": lambda a: np.linalg.inv(a[::2, ::-1]),
    "by columns": lambda a: np.linalg.inv(np.asfortranarray(a)),
    "other bytes": lambda a: np.linalg.inv(a.astype(a.dtype.newbyteorder())),
    "repeated": lambda a: np.linalg.inv(np.broadcast_to(a[:1], a.shape)),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("dtype", ["f8", "f4", "c16", "c8"])
def test_solvers(name: str, dtype: str) -> None:
    for shape in [(900, 3, 3), (7, 90, 4, 4), (40, 17, 17), (3, 41, 41), (700, 1, 1), (3, 3)]:
        a = matrices(shape, dtype)
        if min(shape[-2:]) > 1 or "svd" not in name:
            same(lambda a=a: SOLVERS[name](a))


def test_larger_matrices() -> None:
    for n in (25, 26, 40, 41, 64, 65, 97):
        a = matrices((6, n, n))
        for name in ("solve, many", "inv", "cholesky", "eigh", "svd", "eigvals"):
            same(lambda a=a, name=name: SOLVERS[name](a))
        same(lambda a=a: a @ a)


def test_least_squares() -> None:
    a, b = matrices((500, 6, 3)), matrices((500, 6, 2))
    gufunc = getattr(np.linalg, "_umath_linalg", None)
    if hasattr(gufunc, "lstsq"):
        same(lambda: gufunc.lstsq(a, b, 1e-15, signature="ddd->ddid"))
        same(lambda: gufunc.lstsq(a, b, 1, signature="ddd->ddid"))


PRODUCTS: dict[str, Call] = {
    "both": lambda a: a @ a,
    "one matrix": lambda a: a[0, 0] @ a,
    "by one matrix": lambda a: a @ a[0, 0].T,
    "transposed": lambda a: a @ a.swapaxes(-1, -2),
    "broadcast": lambda a: a[:, :1] @ a[:1],
    "vector": lambda a: a @ a[0, 0, 0],
    "by a vector": lambda a: a[0, 0, 0] @ a,
    "given": lambda a: np.matmul(a, a, out=np.zeros_like(a)),
    "given, in place": lambda a: np.matmul(a, a, np.zeros_like(a)[..., ::-1]),
    "given, too large": lambda a: np.matmul(a, a, np.zeros((2, *a.shape), a.dtype)),
    "into itself": lambda a: np.matmul(a, a, out=a.copy()),
    "Fortran's order": lambda a: np.asfortranarray(a) @ a,
    "reversed": lambda a: a[:, ::-1] @ a[::-1],
    "all reversed": lambda a: a[::-1, ::-1] @ a[::-1, ::-1],
    "every other": lambda a: a[::2] @ a[1::2],
    "inner step": lambda a: a[..., ::2] @ a[..., ::2, :],
    "axes": lambda a: np.matmul(a, a, axes=[(0, 1), (0, 1), (0, 1)]),
    "axes, last": lambda a: np.matmul(a, a, axes=[(-1, -2), (-2, -1), (-2, -1)]),
    "types": lambda a: np.matmul(a, a, dtype="c16"),
    "mixed": lambda a: a @ a.astype("f4"),
    "other bytes": lambda a: a @ a.astype(a.dtype.newbyteorder()),
    "axes moved": lambda a: a.transpose(1, 0, 2, 3) @ a.transpose(1, 0, 2, 3),
    "no match": lambda a: a @ a[..., 1:, :],
    "no match of spaces": lambda a: a[:3] @ a[:2],
    "objects": lambda a: (a.astype(object)[:5] @ a[:5]).astype(complex),
    "list": lambda a: np.matmul(a, a[0, 0].tolist()),
    "none": lambda a: a[:0] @ a[:0],
    "empty": lambda a: a[..., :0] @ a[..., :0, :],
    "ellipsis": lambda a: np.matmul(a, a, out=...),
    "vecdot": lambda a: np.vecdot(a, a),
    "vecdot, axis": lambda a: np.vecdot(a, a, axis=0),
    "vecdot, vector": lambda a: np.vecdot(a, a[0, 0, 0]),
    "matvec": lambda a: np.matvec(a, a[..., 0]) if hasattr(np, "matvec") else 0,
    "vecmat": lambda a: np.vecmat(a[..., 0, :], a) if hasattr(np, "matvec") else 0,
    "in place": lambda a: np.matmul(a, a, casting="no"),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("dtype", ["f8", "f4", "c16", "i8", "u1", "?", "f2", "g"])
def test_products(name: str, dtype: str) -> None:
    for shape in [(50, 40, 3, 3), (9, 60, 8, 8), (2, 3, 50, 50), (4, 2000, 2, 2)]:
        a = matrices(shape, dtype)
        if a.nbytes * shape[-1] < 1 << 24:
            same(lambda a=a: PRODUCTS[name](a))


EXTENTS = [(m, k, p) for m in range(1, 8) for k in range(1, 8) for p in range(1, 8)]


@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_products_of_every_small_extent(dtype: str) -> None:
    for m, k, p in EXTENTS:
        a, b = matrices((40, m, k), dtype), matrices((40, k, p), dtype)
        turned = np.ascontiguousarray(b.swapaxes(1, 2)).swapaxes(1, 2)
        for other in (b, turned, b[0], b[::-1]):
            same(lambda a=a, b=other: a @ b, 1)
        out = np.zeros((40, p, m), dtype).swapaxes(1, 2)
        same(lambda a=a, b=b, out=out: np.matmul(a, b, out=out), 1)


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("value", [np.inf, np.nan, -0.0, 1e30, 1e300, 1e-300])
def test_products_of_special_values(dtype: str, value: float) -> None:
    a, b = np.zeros((30, 3, 3), dtype), matrices((30, 3, 3), dtype)
    a[:, range(3), range(3)] = value
    for error in ERRORS:
        with np.errstate(all=error):
            same(lambda: a @ b)
            same(lambda: -b @ a)
            same(lambda: a @ a)
            same(lambda: np.linalg.solve(a + np.eye(3, dtype=dtype), b))


def by_vectors(a: Array) -> dict[str, Callable[[], Any]]:
    """Products of a stack and one vector, or as many; a: more than 40 matrices."""
    n, m, k = a.shape
    rng = np.random.default_rng(m + 10 * k)
    few = np.array([0.0, -0.0, 1.0, -1.0], a.dtype)
    v, w = rng.normal(size=k).astype(a.dtype), rng.normal(size=m).astype(a.dtype)
    columns, rows = rng.choice(few, (n, k, 1)), rng.normal(size=(n, 1, m)).astype(a.dtype)
    signs, turned = rng.choice(few, k), a.swapaxes(1, 2).copy().swapaxes(1, 2)
    apart = np.repeat(a, 2, axis=2)[..., ::2]
    out = np.zeros((n, m, 2), a.dtype)
    return {
        "one": lambda: a @ v,
        "one, of zeros and ones": lambda: a @ signs,
        "one, reversed": lambda: a @ v[::-1],
        "one, of a column": lambda: a @ np.repeat(v[:, None], 2, axis=1)[:, 0],
        "one, before": lambda: w @ a,
        "one, before what is turned": lambda: w @ turned,
        "columns": lambda: a @ columns,
        "columns, of what is turned": lambda: turned @ columns,
        "columns, of every other": lambda: a[::2] @ columns[::-2],
        "columns, of what is apart": lambda: apart @ columns,
        "columns, broadcast": lambda: a[:1] @ columns,
        "columns, into": lambda: np.matmul(a, columns, out=out[..., :1]),
        "rows": lambda: rows @ a,
        "rows, of what is turned": lambda: rows @ turned,
        "grid": lambda: a[: n // 2 * 2].reshape(2, -1, m, k) @ v,
        "grid, before": lambda: w @ a[: n // 2 * 2].reshape(-1, 2, m, k),
        "frozen": lambda: np.frombuffer(a.tobytes(), a.dtype).reshape(a.shape) @ v,
        "other type": lambda: a @ v.astype("f2"),
        "too long": lambda: a @ np.append(v, 1),
        "list": lambda: a @ v.tolist(),
    }


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("scale", [1.0, 1e-30, 1e-200, 0.0])
def test_products_by_vectors(dtype: str, scale: float) -> None:
    """In BLAS's order, which hangs on how the matrix lies; terms vanish, with both signs."""
    for m in range(1, 6):
        for k in range(1, 6):
            for n in (41, 6000) if m == k else (41,):
                a = (matrices((n, m, k)) * scale).astype(dtype)
                for call in by_vectors(a).values():
                    same(call)


def test_products_by_vectors_that_have_errors() -> None:
    for value in (np.inf, np.nan, 1e300):
        a = np.abs(matrices((60, 3, 3))) + 1
        a[7, 1, 2] = value
        for error in ERRORS:
            with np.errstate(all=error):
                same(lambda a=a: a @ (a[0, 0] * 1e10))
                same(lambda a=a: a[0, 0] @ a)
                same(lambda a=a: a @ a[..., :1])


@pytest.mark.parametrize("n", [1, 40, 3000])
@pytest.mark.parametrize("m", range(1, 6))
def test_determinants(m: int, n: int) -> None:
    """By LAPACK's steps: pivots that are as large as others, of zero, beyond all bounds."""
    rng = np.random.default_rng(m)
    a = rng.normal(size=(n, m, m))
    whole = rng.integers(-2, 3, a.shape).astype(float)
    odd = [0.0, -0.0, 1.0, np.nan, np.inf, -np.inf, 1e308, 5e-324, 1e80, -1e-80]
    rare = np.where(rng.random(a.shape) < 0.9, a, rng.choice(odd, a.shape))
    forms = (a, whole, rare, a * 1e74, a * 1e-74, a * 1e-300, np.full_like(a, -0.0), a.astype("f4"))
    for x in forms:
        same(lambda x=x: np.linalg.det(x))
        same(lambda x=x: np.linalg.det(x.swapaxes(1, 2)))
        same(lambda x=x: np.linalg.det(x[::-2, ::-1]))
        same(lambda x=x: np.linalg.det(np.broadcast_to(x[:1], (50, m, m))))
        same(lambda x=x: np.linalg.slogdet(x))
    with np.errstate(all="raise"):
        same(lambda: np.linalg.det(rare))


def test_of_ours() -> None:
    a = matrices((4000, 3, 3))
    f = matrices((3, 3))

    def steps() -> Array:
        p = a * 1.0
        for _ in range(3):
            p = f @ p @ f.T + np.eye(3)
            p = 0.5 * (p + p.transpose(0, 2, 1)) / np.abs(p).max()
        return np.linalg.solve(p + np.eye(3) * 9, p * 2)

    same(steps)


def test_what_is_raised() -> None:
    a = matrices((1000, 4, 4))
    a[7, 3] = np.inf
    singular = matrices((1000, 4, 4))
    singular[77] = 0
    for x in (a, singular, a * np.nan, np.full((1000, 4, 4), -0.0)):
        for name in ("solve", "inv", "det", "slogdet", "cholesky", "eigh", "eigvals", "svd"):
            same(lambda x=x, name=name: SOLVERS[name](x))
        same(lambda x=x: x @ x)
        same(lambda x=x: (x * 1e200) @ (x * 1e200))
        with np.errstate(all="raise"):
            same(lambda x=x: (x * 1e200) @ x)
        with np.errstate(all="ignore"):
            same(lambda x=x: (x * 1e200) @ x)
    with np.errstate(under="warn"):
        same(lambda: (singular * 1e-200) @ (singular * 1e-200))


def test_frozen_result() -> None:
    a, out = matrices((1000, 4, 4)), np.zeros((1000, 4, 4))
    out.flags.writeable = False
    same(lambda: np.matmul(a, a, out=out))


# --------------------------------------------------- methods that sort or partition rows

SORTS: dict[str, Call] = {
    "argpartition": lambda a: np.argpartition(a, 7, axis=1),
    "argpartition, first axis": lambda a: np.argpartition(a, 3, axis=0),
    "argpartition, several": lambda a: a.argpartition((3, -1, 5)),
    "argpartition, array": lambda a: a.argpartition(np.array([9, 2]), axis=-1),
    "argpartition, all": lambda a: a.argpartition(9, axis=None),
    "argpartition, true": lambda a: a.argpartition(True),
    "argpartition, out of range": lambda a: a.argpartition(a.shape[-1]),
    "argpartition, float": lambda a: a.argpartition(2.0),
    "argpartition, kind": lambda a: a.argpartition(2, kind="none"),
    "argpartition, no such axis": lambda a: a.argpartition(2, axis=7),
    "argpartition, no kth": lambda a: a.argpartition(axis=1),
    "partition": lambda a: np.partition(a, 7, axis=1),
    "partition, first axis": lambda a: np.partition(a, [2, 4], axis=0),
    "in place": lambda a: in_place(a, lambda x: x.partition(5)),
    "in place, reversed": lambda a: in_place(a, lambda x: x[::-1, ::-1].partition(5)),
    "in place, every other": lambda a: in_place(a, lambda x: x[::2].partition(5, 0)),
    "in place, error": lambda a: in_place(a, lambda x: x.partition(x.shape[-1] + 5)),
    "argsort": lambda a: np.argsort(a, axis=1),
    "argsort, stable": lambda a: a.argsort(kind="stable"),
    "argsort, heap": lambda a: np.argsort(a, 0, "heapsort"),
    "argsort, middle": lambda a: a.reshape(-1, 4, a.shape[-1]).argsort(1),
    "argsort, Fortran's order": lambda a: np.asfortranarray(a).argsort(),
    "argsort, repeated": lambda a: np.broadcast_to(a[:1], a.shape).argsort(),
    "argsort, order": lambda a: a.argsort(order="x"),
    "sort": lambda a: np.sort(a, axis=1),
    "sort, first axis": lambda a: in_place(a, lambda x: x.sort(0)),
    "sort, columns": lambda a: in_place(a, lambda x: x.T.sort(axis=1)),
    "sort, part": lambda a: in_place(a, lambda x: x[5:-5, 1:-1].sort()),
    "median": lambda a: np.median(a, axis=1),
    "median, columns": lambda a: np.median(a, axis=0),
    "percentile": lambda a: np.percentile(a, [5, 50, 99], axis=1),
    "nanmedian": lambda a: np.nanmedian(a, axis=1),
    "quantile": lambda a: np.quantile(a, 0.3, axis=0, method="median_unbiased"),
}


def in_place(a: Array, change: Call) -> Array:
    x = a.copy()
    change(x)
    return x


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", SORTS)
@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "u2", "?", "c16", ">f8", "M8[s]"])
def test_sorts(name: str, dtype: str) -> None:
    for shape in [(400, 500), (20, 9000), (15_000, 12)]:
        a = np.random.default_rng(3).integers(-1000, 1000, shape).astype("i8").astype(dtype)
        call = SORTS[name]
        if a.dtype.kind in "M?" and name in ("median", "median, columns", "percentile", "quantile"):
            continue
        same(lambda a=a, call=call: call(a), 1)


@pytest.mark.parametrize("dtype", ["f8", "f4", "c16"])
def test_special_values(dtype: str) -> None:
    rng = np.random.default_rng(5)
    a = rng.choice([0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1, 2, 3], (400, 1500)).astype(
        dtype
    )
    for name, call in SORTS.items():
        if name not in ("median", "median, columns", "percentile", "quantile", "nanmedian"):
            same(lambda call=call: call(a))


def test_sorts_of_ours() -> None:
    a = np.random.default_rng(5).normal(size=(300, 2000))

    def steps() -> Array:
        x = a * 2 + 1
        near = np.argpartition(x, 10, axis=1)[:, :10]
        d = np.take_along_axis(x, near, axis=1)
        x.sort(axis=1)
        x -= 1
        x.partition(20, axis=0)
        return np.concatenate((d, near, np.asarray(x)), axis=1)

    same(steps)


def test_sorts_are_tried_by_turns() -> None:
    """Whichever way is taken, for as long as one is kept."""
    a = np.random.default_rng(5).normal(size=(300, 400))
    same(lambda: np.argpartition(a, 5, axis=1), 80)
    same(lambda: np.sort(a, axis=1), 80)


def test_frozen_rows() -> None:
    a = np.random.default_rng(5).normal(size=(300, 2000))
    a.flags.writeable = False
    same(a.sort)
    same(lambda: a.partition(3))
    b = np.random.default_rng(5).normal(size=(1, 2000))
    same(lambda: np.lib.stride_tricks.as_strided(b.copy(), (300, 1000), (8, 8)).sort())


class Named(np.ndarray[Any, Any]):
    """A class of the user's."""


def test_other_classes() -> None:
    a = np.random.default_rng(5).normal(size=(300, 2000)).view(Named)
    same(lambda: a.argpartition(4))
    same(lambda: a.argsort(axis=0))
    same(lambda: np.ma.masked_less(np.asarray(a), 0).argsort())
    same(np.asarray(a).astype(object)[:20, :50].argsort)


def test_many_threads_at_once() -> None:
    """Of Python's, each with rows of its own, beside one that runs Python all the time."""
    a = np.random.default_rng(5).normal(size=(8, 200, 1500))
    want = [np.argsort(x) for x in a]
    stop = threading.Event()

    def busy() -> None:
        while not stop.is_set():
            sum(range(1000))

    beside = threading.Thread(target=busy)
    beside.start()
    try:
        with npaccel.accelerate(), concurrent.futures.ThreadPoolExecutor(4) as pool:
            got = list(pool.map(np.argsort, a))
            here = [np.argsort(x) for x in a[:3]]
    finally:
        stop.set()
        beside.join()
    assert all(map(np.array_equal, got, want)) and all(map(np.array_equal, here, want))


def test_processes() -> None:
    """Made by a fork after rows were sorted, and beside a thread that sorts."""
    code = """if True:
        import os, threading, warnings
        import numpy as np, npaccel
        warnings.simplefilter("ignore")
        npaccel.config.threads = 3
        a = np.random.default_rng(5).normal(size=(600, 1500))
        with npaccel.accelerate():
            want = np.argsort(a)
            def sort(times):
                for _ in range(times):
                    np.argsort(a)
            threading.Thread(target=sort, args=(20,), daemon=True).start()
            for _ in range(5):
                child = os.fork()
                if child == 0:
                    os._exit(not np.array_equal(np.argsort(a), want))
                assert os.waitpid(child, 0)[1] == 0
            assert np.array_equal(np.argsort(a), want)
            threading.Thread(target=sort, args=(99,), daemon=True).start()
    """
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
