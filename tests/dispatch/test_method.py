"""Methods of ndarray."""

from __future__ import annotations

import copy
import io
from typing import Any

import numpy as np
import pytest

import npaccel

from .differential import (
    DTYPES,
    FOREIGN,
    check,
    edge_values,
    is_compiled,
    one_compiled,
    shapes,
    tiering,
)

CALLS = {
    "all": lambda x: (x.all(), x.all(axis=-1, keepdims=True)),
    "any": lambda x: (x.any(), x.any(0)),
    "argmax": lambda x: (x.argmax(), x.argmax(axis=0)),
    "argmax keepdims": lambda x: x.argmax(axis=-1, keepdims=True),
    "argmin": lambda x: (x.argmin(), x.argmin(-1)),
    "argmin out": lambda x: x.argmin(axis=0, out=np.zeros(x.shape[1:], int)),
    "argmax axis wrong": lambda x: x.argmax(axis=7),
    "argpartition": lambda x: x.argpartition(0).shape,
    "argsort": lambda x: x.argsort(axis=0, kind="stable"),
    "astype": lambda x: x.astype("f"),
    "astype order": lambda x: x.astype("D", order="F"),
    "astype casting": lambda x: x.astype("h", casting="safe"),
    "astype wrong": lambda x: x.astype("no such"),
    "astype same": lambda x: x.astype(x.dtype, copy=False) is x,
    "astype object": lambda x: x.astype(object),
    "astype string": lambda x: x.astype(str),
    "byteswap": lambda x: x.byteswap().byteswap(),
    "choose": lambda x: (x > 1).astype(int).choose([x, -x]),
    "clip": lambda x: x.clip(0, 2),
    "clip max": lambda x: x.clip(max=2),
    "compress": lambda x: x.compress([True], axis=0),
    "conj": lambda x: (x.conj(), x.conjugate()),
    "copy": lambda x: x.copy(),
    "copy F": lambda x: x.copy("F"),
    "copy K": lambda x: x.copy(order="K"),
    "copy A": lambda x: x.T.copy("A"),
    "copy wrong": lambda x: x.copy("Z"),
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
    "cumprod": lambda x: (x.cumprod(), x.cumprod(axis=0)),
    "cumsum": lambda x: (x.cumsum(), x.cumsum(axis=-1, dtype="d")),
    "cumsum out": lambda x: x.cumsum(axis=0, out=np.zeros(x.shape)),
    "diagonal": lambda x: x.diagonal(),
    "dot": lambda x: x.dot(x.T),
    "fill": lambda x: x.fill(3),
    "fill wrong": lambda x: x.fill("no"),
    "fill fraction": lambda x: x.fill(2.5),
    "flatten": lambda x: (x.flatten(), x.flatten("F"), x.T.flatten("A"), x.flatten("K")),
    "getfield": lambda x: x.getfield("B", 0),
    "item": lambda x: (x.item(0), x.item((0,) * x.ndim)),
    "item wrong": lambda x: x.item(),
    "max": lambda x: (x.max(), x.max(axis=0, initial=0)),
    "mean": lambda x: (x.mean(), x.mean(axis=0), x.mean(dtype="f")),
    "mean out": lambda x: x.mean(axis=0, out=np.zeros(x.shape[1:])),
    "min": lambda x: (x.min(), x.min(axis=-1)),
    "nonzero": lambda x: x.nonzero(),
    "partition": lambda x: x.partition(0),
    "prod": lambda x: (x.prod(), x.prod(axis=0, dtype="d")),
    "put": lambda x: x.put([0, 1], [8, 9]),
    "ravel": lambda x: (x.ravel(), x.ravel("F"), x.T.ravel(), x.ravel("A"), x.ravel("K")),
    "repeat": lambda x: x.repeat(2),
    "reshape": lambda x: (x.reshape(-1), x.T.reshape(-1), x.reshape((1, -1)), x.reshape(x.shape)),
    "reshape F": lambda x: x.reshape(-1, order="F"),
    "reshape no copy": lambda x: x.T.reshape(-1, copy=False),
    "reshape wrong": lambda x: x.reshape(4, 9999),
    "reshape nothing": lambda x: x.reshape(),
    "round": lambda x: (x.round(), x.round(1)),
    "searchsorted": lambda x: np.sort(x.ravel()).searchsorted(2),
    "sort": lambda x: x.sort(axis=0),
    "squeeze": lambda x: x[:1].squeeze(),
    "std": lambda x: (x.std(), x.std(axis=0, ddof=1)),
    "sum": lambda x: (x.sum(), x.sum(axis=0), x.sum(dtype="d", keepdims=True)),
    "sum wrong": lambda x: x.sum(axes=1),
    "swapaxes": lambda x: x.swapaxes(0, -1),
    "take": lambda x: (x.take(0), x.take([0, 0], axis=0)),
    "take out of range": lambda x: x.take(99),
    "tobytes": lambda x: (x.tobytes(), x.tobytes("F")),
    "tolist": lambda x: x.tolist(),
    "trace": lambda x: x.trace(),
    "transpose": lambda x: (x.transpose(), x.T, x.transpose(*range(x.ndim))),
    "var": lambda x: (x.var(), x.var(axis=-1)),
    "view": lambda x: (x.view("B"), x.view(np.ndarray), x.view()),
}


def block(dtype: str) -> np.ndarray[Any, Any]:
    return (np.arange(20) * 7 % 11).astype(dtype).reshape(4, 5)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", CALLS)
def test_method(name: str) -> None:
    for dtype in one_compiled(("d", "?", "b", "l", "f", "D")):
        for array in (block(dtype), block(dtype)[::2, ::-1].T, block(dtype)[0]):
            check(CALLS[name], lambda a=array: (a.copy("K"),), ulp=64)


@pytest.mark.parametrize("name", ["astype", "copy", "copy K", "flatten", "ravel", "reshape"])
def test_every_shape(name: str) -> None:
    for array in shapes("d"):
        with np.errstate(all="ignore"):
            check(CALLS[name], lambda a=array: (a,))


def test_astype_between_all_dtypes() -> None:
    for source in DTYPES:
        for target in (*DTYPES, *FOREIGN):
            values = edge_values(source)
            if values.dtype.kind in "fc" and np.dtype(target).kind in "iuM":
                # What is out of range is undefined: NumPy's own result depends on alignment.
                values = np.arange(15).astype(source) / 2
            with npaccel.config(tiering=tiering(is_compiled(source, target))):
                check(lambda x, t=target: x.astype(t), lambda v=values: (v,))


def test_reductions_of_all_dtypes() -> None:
    """Folds of ufuncs are compiled for each dtype in test_ufunc_arguments.py."""
    for dtype in DTYPES:
        for name in ("argmax", "argmin", "max", "min", "any", "all"):
            compiled = name.startswith("arg") and is_compiled(name, dtype)
            with npaccel.config(tiering=tiering(compiled)):
                check(lambda x, n=name: getattr(x, n)(), lambda d=dtype: (edge_values(d),))
        for name in ("sum", "mean", "std", "prod"):
            compiled = name in ("mean", "std") and is_compiled(name, dtype)
            with npaccel.config(tiering=tiering(compiled and dtype in "?lefdFD")):
                check(lambda x, n=name: getattr(x, n)(), lambda d=dtype: (block(d),), ulp=64)
                check(lambda x, n=name: getattr(x, n)(0), lambda d=dtype: (block(d),), ulp=64)


def test_full_reductions_give_scalars() -> None:
    x = npaccel.asarray(block("f"))
    assert type(x.sum()) is np.float32
    assert type(x.astype("b").sum()) is np.int64
    assert type((x > 1).any()) is np.bool_
    assert type(x.argmax()) is np.int64


def test_resize_rejects_what_numpy_rejects() -> None:
    check(lambda x: (x + 1).resize((3, 2), refcheck="hi"), lambda: (np.arange(4.0),))
    check(lambda x: (x + 1).resize((3, 2), refcheck=np.bool(True)), lambda: (np.arange(4.0),))


@pytest.mark.parametrize(
    "program",
    [
        "y = x + 1; y.resize(9)",
        "y = x + 1; y.resize((3, 3))",
        "y = x + 1; y.resize(9, refcheck=True)",
        "y = x + 1; z = y; y.resize(9)",
        "y = x + 1; z = y; y.resize(9, refcheck=False)",
        "y = x + 1; z = [y, y]; y.resize(9)",
        "y = [x + 1]; y[0].resize(9)",
        "y = x + 1; z = y; y.resize(4)",
        "y = x + 1; z = y; y.resize()",
        "y = x + 1; z = y; y.resize(None)",
        "(x + 1).resize(9)",
        "give(lambda y: y.resize(9), x + 1)",
        "y = x + 1; z = y; give(lambda y: y.resize(9), y)",
        "y = x + 1; z = y[:2]; y.resize(9)",
    ],
)
def test_resize_counts_references_as_numpy(program: str) -> None:
    code = f"def f(x):\n    {program}\n    return locals().get('y')"
    names: dict[str, Any] = {"give": lambda f, *args: f(*args)}
    exec(code, names)
    check(names["f"], lambda: (np.arange(4.0),))


def test_resize_is_in_place() -> None:
    def resize(x: Any) -> Any:
        y = x + 1
        y.resize((3, 2))
        return y

    def shared(x: Any) -> Any:
        y = x + 1
        z = y
        y.resize(100)
        return z

    check(resize, lambda: (np.arange(4.0),))
    check(shared, lambda: (np.arange(4.0),))


def test_dump_and_dumps_write_numpys_bytes() -> None:
    x = npaccel.asarray(block("d")) + 1
    stream = io.BytesIO()
    x.dump(stream)
    assert stream.getvalue() == x.dumps() == (block("d") + 1).dumps()


def test_save_and_tofile(tmp_path: Any) -> None:
    x = npaccel.asarray(block("d")) + 1
    np.save(tmp_path / "x.npy", x)
    x.tofile(tmp_path / "x.bin")
    assert np.array_equal(np.load(tmp_path / "x.npy"), block("d") + 1)
    assert (tmp_path / "x.bin").read_bytes() == (block("d") + 1).tobytes()


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
def test_bools_that_are_neither_0_nor_1_count_once(backend: str) -> None:
    with npaccel.backend(backend):
        x = npaccel.asarray(np.frombuffer(b"\xff\x00\x03" * 100, dtype=bool))
        assert (int(x.sum()), int(x[::-2].sum()), x.astype("i4").max()) == (200, 100, 1)
