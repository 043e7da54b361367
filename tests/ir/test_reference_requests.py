"""The evaluator of single requests, on requests written out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from npaccel.ir.nodes import Kind, Request, ScalarOperand, View
from npaccel.ir.reference.requests import run_request, run_requests, show

ALL = 0x55


def request(kind: Kind, op: str, shape: tuple[int, ...], **fields: Any) -> Request:
    values: dict[str, Any] = {"axes": (), "mask": None, "errstate": ALL, "index": 0} | fields
    return Request(kind=kind, op=op, shape=shape, **values)


def memory(*arrays: np.ndarray[Any, Any]) -> dict[int, np.ndarray[Any, Any]]:
    return {i: a.copy().reshape(-1).view(np.uint8) for i, a in enumerate(arrays)}


def f8(buffer: int, *strides: int, offset: int = 0) -> View:
    return View(buffer, "f8", offset, strides)


def test_scan_runs_along_its_axis() -> None:
    x = np.arange(12.0).reshape(3, 4)
    held = memory(x, np.zeros((3, 4)))
    scan = request(
        Kind.SCAN, "add", (3, 4), axes=(0,), inputs=(f8(0, 4, 1),), outputs=(f8(1, 4, 1),),
        loop=("f8", "f8", "f8"),
    )  # fmt: skip
    assert run_request(scan, held) == 0
    assert held[1].view("f8").tolist() == np.cumsum(x, 0).ravel().tolist()


def test_reversed_and_masked_map() -> None:
    x = np.array([4.0, -1.0, 9.0])
    held = memory(x, np.full(3, 7.0), np.array([True, False, True]))
    root = request(
        Kind.MAP, "sqrt", (3,), inputs=(f8(0, -1, offset=2),), outputs=(f8(1, 1),),
        loop=("f8", "f8"), mask=View(2, "b1", 0, (1,)),
    )  # fmt: skip
    assert run_request(root, held) == 0
    assert held[1].view("f8").tolist() == [3.0, 7.0, 2.0]


def test_flags_are_those_that_are_asked_for() -> None:
    held = memory(np.array([0.0, 1.0]), np.zeros(2))
    fields = {"inputs": (ScalarOperand("f8", 0, 1.0), f8(0, 1)), "outputs": (f8(1, 1),)}
    divide = request(Kind.MAP, "divide", (2,), loop=("f8",) * 3, **fields)
    ignored = request(Kind.MAP, "divide", (2,), loop=("f8",) * 3, errstate=0x54, **fields)
    assert run_requests([divide, ignored], held) == [1, 0]
    assert run_request(divide, held, lambda request, position: 0.0) == 8


def test_reductions_with_initial_and_argument() -> None:
    x = np.array([[3.0, 1.0], [5.0, 9.0]])
    held = memory(x, np.zeros(2), np.zeros(1, "i8"))
    total = request(
        Kind.REDUCE, "add", (2, 2), axes=(1,), outputs=(f8(1, 1, 0),), loop=("f8",) * 3,
        inputs=(f8(0, 2, 1), ScalarOperand("f8", 1, 10.0)),
    )  # fmt: skip
    where = request(
        Kind.ARG, "argmax", (2, 2), axes=(0, 1), inputs=(f8(0, 2, 1),), loop=("f8", "i8"),
        outputs=(View(2, "i8", 0, (0, 0)),),
    )  # fmt: skip
    assert run_requests([total, where], held) == [0, 0]
    assert held[1].view("f8").tolist() == [14.0, 24.0]
    assert held[2].view("i8").tolist() == [3]


def test_iota_and_overlapping_copy() -> None:
    held = memory(np.zeros(5))
    ramp = request(
        Kind.IOTA, "iota", (5,), outputs=(f8(0, 1),), loop=("f8",) * 3,
        inputs=(ScalarOperand("f8", 0, 1.0), ScalarOperand("f8", 1, 0.5)),
    )  # fmt: skip
    shift = request(
        Kind.MAP, "copy", (4,), inputs=(f8(0, 1),), outputs=(f8(0, 1, offset=1),),
        loop=("f8", "f8"),
    )  # fmt: skip
    run_requests([ramp, shift], held)
    assert show(f8(0, 1), (5,), held[0]).tolist() == [1.0, 1.0, 1.5, 2.0, 2.5]
