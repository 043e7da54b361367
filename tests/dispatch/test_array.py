"""Protocols and attributes by which an array shows its values or its address."""

from __future__ import annotations

import copy
import ctypes
import pickle
import sys
from collections.abc import Hashable
from typing import Any

import numpy as np
import pytest

import npaccel

from .differential import DTYPES, FOREIGN, check, edge_values, shapes


def test_text_is_the_exact_arrays() -> None:
    for dtype in (*DTYPES, *FOREIGN):
        check(lambda x: (repr(x), str(x), f"{x}"), lambda d=dtype: (edge_values(d),))
    for array in shapes("d"):
        check(lambda x: (repr(x), str(x), f"{x}"), lambda a=array: (a,))
    check(lambda x: f"{x:.3f}", lambda: (np.array(2.5),))
    check(lambda x: f"{x:.3f}", lambda: (np.array([2.5]),))


def _with(x: Any) -> bool:
    with x:
        return True


def _await(x: Any) -> Any:
    async def wait() -> None:
        await x

    wait().send(None)


ERRORS = {
    "no attribute": lambda x: x.nothing,
    "attribute set": lambda x: setattr(x, "nothing", 1),
    "attribute deleted": lambda x: delattr(x, "nothing"),
    "call": lambda x: x(),
    "hash": hash,
    "context": lambda x: x.__enter__(),
    "with": _with,
    "order": lambda x: x < object(),
    "order reflected": lambda x: object() >= x,
    "operator": lambda x: x @ object(),
    "text plus": lambda x: "a" + x,
    "range": range,
    "await": _await,
    "unpacked": lambda x: dict(**x),
    "star": lambda x: print(**x),
    "joined": "".join,
    "isinstance": lambda x: isinstance(1, x),
    "keyword": lambda x: x.sum(nothing=1),
    "too many": lambda x: x.sum(1, 2, 3, 4, 5, 6, 7, 8),
    "descriptor": int.real.__get__,  # type: ignore[attr-defined]
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_name_numpys_class(name: str) -> None:
    if name == "with" and sys.version_info >= (3, 14):
        pytest.skip("Python 3.14 names a class as it calls itself")
    check(ERRORS[name], lambda: (np.arange(3.0),))


def test_code_that_makes_a_class_of_an_arrays_finds_ndarray() -> None:
    class Mixed:
        """As astropy's Masked, which has a class for each that it is given."""

        def __array_finalize__(self, of: Any) -> None:
            assert of is None or of.__class__ in (np.ndarray, self.__class__)

    x = npaccel.asarray(np.arange(3.0) + 1)
    made = x.view(type("Made", (Mixed, x.__class__), {}))
    assert made.sum() == 6 and isinstance(x, npaccel.Array)
    assert copy.copy(x).tolist() == copy.deepcopy(x).tolist() == x.tolist()
    assert type(pickle.loads(pickle.dumps(x))) is npaccel.Array

    class Own(npaccel.Array):
        pass

    assert x.view(Own).__class__ is Own


def test_tables_of_types_take_an_array_for_an_ndarray() -> None:
    kind, numpys = type(npaccel.asarray(np.arange(3.0))), np.ndarray
    known: dict[type, str] = {np.ndarray: "array", float: "number"}  # as autograd's
    assert known[kind] == "array" and {kind: 1}[numpys] == 1
    assert kind == numpys and numpys == kind and len({kind, numpys}) == 1
    assert kind not in (np.generic, "ndarray", float)

    class Own(npaccel.Array):
        pass

    assert Own not in (kind, numpys) and Own not in known and {Own: 1}[Own] == 1


def test_in_a_block_an_arrays_type_has_ndarrays_name() -> None:
    def texts(of: type) -> tuple[str, ...]:
        return of.__module__, of.__name__, of.__qualname__, repr(of), str(of)

    class Own(npaccel.Array):
        pass

    kind, own = type(npaccel.asarray(np.arange(3.0))), texts(Own)
    with npaccel.accelerate():
        assert texts(kind) == texts(np.ndarray) and texts(Own) == own
        assert pickle.loads(pickle.dumps(kind)) is np.ndarray
        assert isinstance(np.arange(3.0), np.ndarray) and kind.__mro__[0] is npaccel.Array
    assert kind.__name__ == "Array" and repr(kind) == "<class 'npaccel.dispatch.array.Array'>"
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(kind, protocol)) is npaccel.Array


CONVERSIONS = {
    "bool": bool,
    "float": float,
    "int": int,
    "complex": complex,
    "index": lambda x: [10, 20, 30][x],
    "len": len,
    "list": list,
    "iter": lambda x: [type(v).__name__ for v in x] if x.ndim < 2 else [v.sum() for v in x],
    "in": lambda x: (2 in x, 77 in x),
    "unpack": lambda x: [*x],
    "sum": sum,
    "max": max,
    "not": lambda x: not x,
    "memoryview": lambda x: memoryview(x).tobytes(),
    "bytes": lambda x: bytes(x.ravel()),
    "data": lambda x: (x.data.shape, x.data.tobytes(), x.data.readonly),
    "sorted": lambda x: sorted(x.ravel()),
    "interface": lambda x: sorted(x.__array_interface__),
    "ctypes": lambda x: (tuple(x.ctypes.shape), tuple(x.ctypes.strides)),
    "struct": lambda x: type(x.__array_struct__).__name__,
    "__array__": lambda x: (x.__array__(), x.__array__("f")),
    "asarray": lambda x: (type(np.asarray(x)) is np.ndarray, np.asarray(x)),
    "dlpack": np.from_dlpack,
    "dlpack device": lambda x: x.__dlpack_device__(),
    "base": lambda x: x.nbytes + x.itemsize + x.size + x.ndim,
    "mT": lambda x: x.mT,
    "real": lambda x: (x.real, x.imag),
}


@pytest.mark.parametrize("name", CONVERSIONS)
def test_conversion(name: str) -> None:
    for array in (np.array(2), np.array([1.5]), np.array([3, 4]), np.arange(6.0).reshape(2, 3)):
        check(CONVERSIONS[name], lambda a=array: (a.copy(),), strides=False)
    check(CONVERSIONS[name], lambda: (np.array([1 + 2j, 3]),), strides=False)


def test_pending_values_are_read_by_everything() -> None:
    values = np.arange(6.0).reshape(2, 3)
    readers: list[Any] = [repr, list, memoryview, np.asarray, np.array, np.ascontiguousarray]
    readers += [lambda x: x.__array_interface__, lambda x: x.view(np.ndarray), lambda x: x.tolist()]
    for reader in readers:
        x = npaccel.asarray(values) + 1
        seen = reader(x)
        assert np.array_equal(np.asarray(x), values + 1)
        if isinstance(seen, np.ndarray):
            assert np.array_equal(seen, values + 1)


def test_wrapping_shares_memory() -> None:
    values = np.arange(6.0)
    x = npaccel.asarray(values)
    x += 1
    assert values.tolist() == [1, 2, 3, 4, 5, 6]
    values[0] = 9
    assert x[0] == 9


def setters(x: Any) -> Any:
    y = x * 2
    y.shape = (3, 2)
    y.real = 5
    z = y + 1j
    z.imag = y
    z.real[0] = 7
    return y, z


def set_dtype(x: Any) -> Any:
    y = x * 2
    y.dtype = np.dtype("l")
    return y


def set_flat(x: Any) -> Any:
    y = x * 2
    before = y + 0
    y.flat = [1, 2, 3]
    return y, before


def set_imag(x: Any) -> Any:
    x.imag = 1


def set_flags(x: Any) -> Any:
    y = x + 1
    y.flags.writeable = False
    y += 1


@pytest.mark.parametrize("function", [setters, set_dtype, set_flat, set_imag, set_flags])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_setters(function: Any) -> None:
    check(function, lambda: (np.arange(6.0).reshape(2, 3),))


def set_all_flat(x: Any, y: Any) -> None:
    x.flat = y


def set_part_flat(x: Any, y: Any) -> None:
    x.flat[[0, 1]] = y


def set_real(x: Any, y: Any) -> None:
    x.real = y


def set_complex_imag(x: Any, y: Any) -> None:
    x.imag = y


@pytest.mark.parametrize("function", [set_all_flat, set_part_flat, set_real, set_complex_imag])
def test_warnings_of_setters_name_the_line(function: Any) -> None:
    x = np.ones(4, "F" if function is set_complex_imag else "f")
    for y in (np.full(4, 1e200), np.full(4, 1e200 + 1j), 1j, [2j] * 4, "7", "x", None):
        check(function, lambda y=y: (x.copy(), y))


def advance(x: Any) -> Any:
    flat = x.flat
    return next(flat), next(flat), flat.index, flat.coords


FLAT = {
    "item": lambda x: (x.flat[3], type(x.flat[3])),
    "negative": lambda x: x.flat[-1],
    "slice": lambda x: (x.flat[1:5:2], x.flat[::-1]),
    "slice is a copy": lambda x: np.shares_memory(x.flat[1:3], x),
    "list": lambda x: x.flat[[0, 2]],
    "mask": lambda x: x.flat[x.ravel() > 2],
    "iterate": lambda x: list(x.flat),
    "next": advance,
    "len": lambda x: len(x.flat),
    "copy": lambda x: x.flat.copy(),
    "array": lambda x: np.asarray(x.flat),
    "base": lambda x: x.flat.base is x,
    "compare": lambda x: x.flat == 2,
    "out of range": lambda x: x.flat[99],
    "set item": lambda x: x.flat.__setitem__(3, 9),
    "set slice": lambda x: x.flat.__setitem__(slice(1, 5, 2), 9),
    "set slice from array": lambda x: x.flat.__setitem__(slice(0, 3), x.ravel()[3:]),
    "set slice from what overlaps": lambda x: x.flat.__setitem__(slice(1, 4), x.reshape(-1)[:3]),
    "set slice, repeating": lambda x: x.flat.__setitem__(slice(0, 5), [7, 8]),
    "set out of range": lambda x: x.flat.__setitem__(99, 1),
    "set wrong": lambda x: x.flat.__setitem__(0, "no"),
}


@pytest.mark.parametrize("name", FLAT)
def test_flat(name: str) -> None:
    check(FLAT[name], lambda: (np.arange(6.0).reshape(2, 3),))
    check(FLAT[name], lambda: (np.arange(6.0).reshape(2, 3).T,))
    check(FLAT[name], lambda: (np.arange(12).reshape(2, 6)[:, ::2],))


@pytest.mark.parametrize("key", [0, slice(1, 3), slice(0), [0, 1], ...])
def test_flat_of_what_is_read_only(key: Any) -> None:
    def write(x: Any) -> None:
        y = x * 2
        y.flags.writeable = False
        y.flat[key] = 1

    check(write, lambda: (np.arange(6.0).reshape(2, 3),))


def test_flat_writes_after_pending_reads() -> None:
    def read_then_write(x: Any) -> Any:
        y = x + 1
        z = y * 10
        y.flat[0] = 99
        y.flat[2:4] = 77
        return y, z

    check(read_then_write, lambda: (np.arange(6.0),))


def test_subclass_checks() -> None:
    x = npaccel.asarray(np.arange(3))
    assert not isinstance(x, Hashable)
    assert isinstance(x, np.ndarray)
    assert not hasattr(x, "__dict__")
    with pytest.raises(AttributeError):
        x.note = 1


def delete_from_flat(x: Any) -> None:
    del x.flat[1]


@pytest.mark.parametrize("function", [delete_from_flat, lambda x: x.flat[0]])
@pytest.mark.parametrize("shape", [(3,), (1,) * 32, (1,) * 64])
def test_flat_rejects_what_numpy_rejects(function: Any, shape: tuple[int, ...]) -> None:
    check(function, lambda: (np.ones(shape),))


@pytest.mark.parametrize("index", [0, 2, -1, -3, 3, -4])
def test_items_by_the_sequence_protocol(index: int) -> None:
    item = ctypes.pythonapi.PySequence_GetItem
    item.argtypes, item.restype = [ctypes.py_object, ctypes.c_ssize_t], ctypes.py_object
    store = ctypes.pythonapi.PySequence_SetItem
    store.argtypes = [ctypes.py_object, ctypes.c_ssize_t, ctypes.py_object]

    def both(x: Any) -> Any:
        store(x, index, 7)
        return item(x, index), x

    check(both, lambda: (np.arange(3.0),))
    check(both, lambda: (np.arange(6.0).reshape(3, 2),))
    check(both, lambda: (np.array(1.0),))


@pytest.mark.parametrize("value", [np.finfo(np.longdouble).max, np.longdouble(3)])
def test_numbers_too_large_for_a_double_warn(value: Any) -> None:
    check(lambda x: x.fill(value), lambda: (np.zeros(3),))
    check(lambda x: np.copyto(x, value), lambda: (np.zeros(3),))
