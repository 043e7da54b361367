"""From the C core's plain tuples to the IR's Trace: bytes become elements, type numbers codes."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np

from npaccel.ir.nodes import BufferInfo, Kind, Request, ScalarOperand, Trace, View
from npaccel.ir.scalar import Value

__all__ = ["RawTrace", "RuleText", "decode", "portable", "rule_text"]

# What `Pending.trace()` returns.
RawTrace = tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]


_DTYPES = [np.dtype(char) for char in "?bhilqBHILQefdFD"]
# NumPy's type numbers to the IR's codes ("f8").
_CODES = {dtype.num: dtype.str[1:] for dtype in _DTYPES}
_SIZES = {dtype.num: dtype.itemsize for dtype in _DTYPES}
_KINDS = tuple(Kind)
_DOUBLE = struct.Struct("=d")
NUMPYS = 1 << 8  # as in native/record.h


def _operand(raw: tuple[Any, ...], position: int) -> View | ScalarOperand:
    if isinstance(raw[0], bytes):
        code = _CODES[raw[1]]
        return ScalarOperand(code, position, _value(raw[0], code))
    return _view(raw)


def _value(raw: bytes, code: str) -> Value:
    if code == "f8":  # most of them are
        return float(_DOUBLE.unpack_from(raw)[0])
    value: Value = np.frombuffer(raw, dtype=code, count=1)[0].item()
    return value


def _view(raw: tuple[Any, ...]) -> View:
    buffer, offset, strides, number = raw
    size = _SIZES[number]
    steps = (strides[0] // size,) if len(strides) == 1 else tuple([s // size for s in strides])
    return View(buffer, _CODES[number], offset // size, steps)


def _request(index: int, raw: tuple[Any, ...]) -> Request:
    rule, shape, axes, errstate, inputs, outputs, mask, _initial = raw
    operands = tuple([_operand(item, position) for position, item in enumerate(inputs)])
    loop = rule.loop
    if rule.name == "copy" and isinstance(operands[0], ScalarOperand):
        loop = (operands[0].dtype, loop[1])  # a scalar was cast when it was recorded
    return Request(
        index,
        _KINDS[rule.kind],
        rule.name,
        shape,
        tuple(axes),
        operands,
        tuple(map(_view, outputs)),
        loop,
        None if mask is None else _view(mask),
        errstate & 0xFF,
        bool(errstate & NUMPYS),
    )


class RuleText(NamedTuple):
    """What `decode` asks of a rule, as plain data."""

    id: int
    name: str
    kind: int
    loop: tuple[str, ...]


def rule_text(rule: Any) -> RuleText:
    """What a rule is, without the rule."""
    return RuleText(rule.id, rule.name, rule.kind, rule.loop)


def portable(raw: RawTrace) -> tuple[RawTrace, dict[int, RuleText]]:
    """A raw trace without objects of this process, and its rules by id."""
    buffers, requests = raw
    rules: dict[int, RuleText] = {}
    plain = []
    for request in requests:
        rule = request[0]
        text = rules.get(rule.id)
        if text is None:
            text = rules[rule.id] = rule_text(rule)
        plain.append((text, *request[1:]))
    return (buffers, plain), rules


def decode(raw: RawTrace) -> Trace:
    """Return the Trace that `Pending.trace()` describes."""
    buffers, requests = raw
    return Trace(
        tuple(
            BufferInfo(index, size, fresh, dead, owned)
            for index, (size, fresh, dead, owned) in enumerate(buffers)
        ),
        tuple(_request(index, item) for index, item in enumerate(requests)),
    )
