"""What the C core recorded, as the IR's Trace: elements instead of bytes, codes for dtypes."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import npaccel
from npaccel import _native
from npaccel.ir.nodes import Kind, ScalarOperand, View
from npaccel.ir.verify import verify_trace
from npaccel.runtime.programs import trace as words
from npaccel.runtime.programs.trace import decode, portable, rule_text

pytestmark = pytest.mark.usefixtures("deferred")


def recorded(*results):
    """The Trace of what is pending; `results` are kept alive by the caller."""
    trace = decode(_native.pending())
    verify_trace(trace)
    return trace


def test_views_are_in_elements() -> None:
    base = np.arange(6000, dtype="f4").reshape(600, 10)  # smaller ones are copied
    a = npaccel.evaluate(npaccel.asarray(base) * 1)  # in memory of npaccel's own
    y = a[4:1:-1, 1::3] + a[:3, 2::3]
    trace = recorded(y)
    (request,) = trace.requests
    first, second = request.inputs
    assert (request.kind, request.op, request.shape) == (Kind.MAP, "add", (3, 3))
    assert request.loop == ("f4", "f4", "f4")
    assert (first.offset, first.strides) == (41, (-10, 3))
    assert (second.offset, second.strides) == (2, (10, 3))
    assert first.buffer == second.buffer  # two views of one array are one buffer
    assert trace.buffers[first.buffer].size_bytes == base.nbytes
    assert not trace.buffers[first.buffer].fresh and trace.buffers[first.buffer].owned
    out = trace.buffers[request.outputs[0].buffer]
    assert (out.fresh, out.dead, out.owned, out.size_bytes) == (True, False, True, 36)


@pytest.mark.parametrize("scalar", [2.5, 3, True, np.float32(1.5), 1 + 2j])
def test_scalars_are_in_the_loops_dtype(scalar) -> None:
    a = npaccel.asarray(np.ones(100, "f8"))
    y = a * scalar
    (request,) = recorded(y).requests
    operand = request.inputs[1]
    assert isinstance(operand, ScalarOperand)
    assert (operand.dtype, operand.position) == (request.loop[1], 1)
    assert operand.value == scalar


def test_reductions_masks_and_errstate() -> None:
    a = npaccel.asarray(np.ones((4, 5, 6)))
    mask = npaccel.asarray(np.arange(4 * 5 * 6).reshape(4, 5, 6) % 2 == 0)
    target = npaccel.evaluate(a * 1)
    with np.errstate(all="ignore"):
        y = np.add.reduce(a, axis=(0, 2))
    z = np.negative(a, where=mask, out=target)
    w = np.cumsum(a, axis=1)
    trace = recorded(y, z, w)
    fold, masked, scan = trace.requests
    assert (fold.kind, fold.axes, fold.shape, fold.errstate) == (Kind.REDUCE, (0, 2), (4, 5, 6), 0)
    assert fold.outputs[0].strides == (0, 1, 0)
    assert isinstance(masked.mask, View) and masked.mask.dtype == "b1"
    assert masked.errstate & 0b11 == 1  # a division by zero warns
    assert (scan.kind, scan.axes) == (Kind.SCAN, (1,))


def test_dead_buffers_and_order() -> None:
    a = npaccel.asarray(np.ones(100))
    y = a + 1
    z = y * 2
    del y
    trace = recorded(z)
    assert [request.op for request in trace.requests] == ["add", "multiply"]
    middle, last = (request.outputs[0].buffer for request in trace.requests)
    assert trace.buffers[middle].dead and not trace.buffers[last].dead
    assert trace.requests[1].inputs[0].buffer == middle


def of_many_kinds() -> list[np.ndarray]:
    a = npaccel.evaluate(npaccel.asarray(np.arange(60, dtype="f4").reshape(6, 10)) * 1)
    return [
        a[4:1:-1, 1::3] + a[:3, 2::3],
        np.add(a, np.float32(0.1), where=a > 3, out=a.copy()),
        a.sum(axis=0),
        np.where(a > 2, a, 1j),
        a[np.array([5, 0, 1])] ** 2.5,
        np.power(a, np.float32(2)) + np.float32(3),
        np.concatenate([a, a]),
    ]


def test_words_say_the_same_in_another_process() -> None:
    kept, pending = of_many_kinds(), _native.pending()
    sent = pickle.loads(pickle.dumps(portable(pending)))
    assert decode(sent) == decode(pending) and len(decode(sent).requests) > len(kept) - 1
    assert sent.rules == {number: rule_text(rule) for number, rule in pending.rules.items()}
    assert sent.scalars == pending.scalars


def test_values_are_words_only_where_plans_look_at_them() -> None:
    a = npaccel.evaluate(npaccel.asarray(np.arange(60.0)) * 1)

    def key(make) -> tuple[bytes, bytes]:
        kept, pending = make(), _native.pending()
        del kept
        npaccel.evaluate()
        return pending.key, pending.scalars

    plain, other = key(lambda: a + 3.0), key(lambda: a + 5.5)
    assert plain[0] == other[0] and plain[1] != other[1]
    two, three = key(lambda: np.power(a, 2.0)), key(lambda: np.power(a, 3.0))
    assert two[0] != three[0] and len(two[0]) == len(three[0]) == len(plain[0]) + 16
    odd, uneven = key(lambda: np.power(a, 2.3)), key(lambda: np.power(a, 3.7))
    assert odd[0] == uneven[0]


def test_type_numbers_are_numpys() -> None:
    codes = {np.dtype(c).num: np.dtype(c).str[1:] for c in "?bhilqBHILQefdFD"}
    assert codes == words._CODES


@pytest.mark.parametrize(
    "code", ["b1", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]
)
def test_scalars_are_numpys(code: str) -> None:
    items = np.array([0, 1, 3, 100], code).tolist()
    if code[0] in "fc":
        items += [np.nan, -0.0, np.inf, 0.1]
    for item in np.array(items, code):
        found = words.scalar_value(item.tobytes().ljust(16, b"\0"), code)
        assert (type(found), repr(found)) == (type(item.item()), repr(item.item()))
