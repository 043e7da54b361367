"""Memory of dead arrays in a block, where NumPy has other allocators or arrays are large."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import npaccel

from .dead_arrays import check_next, handler_name

# Of NumPy 2.5, where a shape is set.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class Handler(ctypes.Structure):
    """PyDataMem_Handler, with its PyDataMemAllocator."""

    _fields_ = [
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("context", ctypes.c_void_p),
        *((name, ctypes.c_void_p) for name in ("malloc", "calloc", "realloc", "free")),
    ]


SIZE = ctypes.c_size_t
PLACE = ctypes.c_void_p


@pytest.fixture
def counting() -> Iterator[tuple[Callable[[bool], None], dict[str, int]]]:
    """Switches a handler of NumPy on and off that counts what it gives and takes."""
    libc, python = ctypes.CDLL(None), ctypes.pythonapi
    for name in ("malloc", "calloc", "realloc"):
        getattr(libc, name).restype = PLACE
    counts = {"given": 0, "taken": 0}

    def give(function: Callable[..., Any], *arguments: Any) -> Any:
        counts["given"] += 1
        return function(*arguments)

    def take(context: Any, place: Any, size: int) -> None:
        counts["taken"] += 1
        libc.free(PLACE(place))

    functions = [
        ctypes.CFUNCTYPE(PLACE, PLACE, SIZE)(lambda _, n: give(libc.malloc, SIZE(n))),
        ctypes.CFUNCTYPE(PLACE, PLACE, SIZE, SIZE)(
            lambda _, n, s: give(libc.calloc, SIZE(n), SIZE(s))
        ),
        ctypes.CFUNCTYPE(PLACE, PLACE, PLACE, SIZE)(
            lambda _, p, n: libc.realloc(PLACE(p), SIZE(n))
        ),
        ctypes.CFUNCTYPE(None, PLACE, PLACE, SIZE)(take),
    ]
    handler = Handler(b"counting", 1, None, *(ctypes.cast(f, PLACE).value for f in functions))
    new = python.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [PLACE, ctypes.c_char_p, PLACE]
    capsule = new(ctypes.addressof(handler), b"mem_handler", None)
    pointer = python.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = PLACE, [ctypes.py_object, ctypes.c_char_p]
    table = pointer(np._core._multiarray_umath._ARRAY_API, None)  # type: ignore[attr-defined]
    address = ctypes.cast(table, ctypes.POINTER(PLACE))[304]
    install = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(address)
    default = install(capsule)
    install(default)
    yield lambda on: install(capsule if on else default) and None, counts
    install(default)


def test_arrays_of_other_allocators(
    counting: tuple[Callable[[bool], None], dict[str, int]],
) -> None:
    switch, counts = counting
    with npaccel.accelerate():
        ones = np.ones(6)
        for _ in range(5):
            plain = [ones + k for k in range(10)]
            del plain
            switch(True)
            own = [ones + k for k in range(10)]
            names = {handler_name(x) for x in own}
            given = counts["given"]
            own[3] += 1
            del own
            switch(False)
            assert names == {"counting"}
            assert given >= 10
            assert counts["given"] == counts["taken"]
            check_next()
            assert handler_name(ones + 1) == "default_allocator"
        switch(True)
        late = ones + 1
        switch(False)
    assert handler_name(late) == "counting"
    del late
    assert counts["given"] == counts["taken"]


@pytest.mark.pending
def test_parts_and_rests_of_large_arrays() -> None:
    with npaccel.accelerate():
        for k in range(10):
            large = np.ones(100_000) * k
            part = large[:6] + 1
            rest = np.array(large)
            rest.resize(6, refcheck=False)
            del large
            assert part.tolist() == [k + 1.0] * 6
            assert rest.tolist() == [float(k)] * 6
            del part, rest
            check_next()
