"""From the C core's words to the IR's Trace: bytes become elements, type numbers codes."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from npaccel.ir.kinds import Kind
from npaccel.ir.scalar import Value
from npaccel.later import later

if TYPE_CHECKING:
    from npaccel.ir import nodes
else:
    nodes = later("npaccel.ir.nodes")

__all__ = [
    "DEAD",
    "END_WORDS",
    "FRESH",
    "OWNED",
    "SCALAR_BYTES",
    "STATE_BITS",
    "Requests",
    "RuleText",
    "Words",
    "decode",
    "portable",
    "rule_text",
    "scalar_value",
    "type_code",
]

# NumPy's type numbers to the IR's codes, where a long has 8 bytes; to what struct calls them.
_INTEGERS = ("b1", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")
_CODES = dict(enumerate(_INTEGERS)) | {9: "i8", 10: "u8", 11: "f4", 12: "f8", 14: "c8", 15: "c16"}
_CODES[23] = "f2"
_SIZES = {number: int(code[1:]) for number, code in _CODES.items()}
_FORMATS = dict(zip((*_INTEGERS, "f2", "f4", "f8"), "?bBhHiIqQefd", strict=True))
_KINDS = tuple(Kind)
_DOUBLE = struct.Struct("=d")
# As in native/trace/trace.h.
NUMPYS, FAST = 1 << 8, 1 << 9
OWNED, FRESH, DEAD, STATE_BITS = 1, 2, 4, 4
END_WORDS, SCALAR_BYTES = 3, 16
HALF = (1 << 32) - 1


class RuleText(NamedTuple):
    """What `decode` asks of a rule, as plain data."""

    id: int
    name: str
    kind: int
    loop: tuple[str, ...]


def rule_text(rule: Any) -> RuleText:
    """What a rule is, without the rule."""
    return RuleText(rule.id, rule.name, rule.kind, rule.loop)


class Words(Protocol):
    """Requests as the C core writes them (native/trace/key.c): a `Pending`, or `Requests`.

    key : words of eight bytes; scalars : sixteen bytes for each; rules : by id.
    """

    @property
    def key(self) -> bytes: ...
    @property
    def scalars(self) -> bytes: ...
    @property
    def rules(self) -> Mapping[int, Any]: ...


class Requests(NamedTuple):
    """The same, without lines."""

    key: bytes
    scalars: bytes
    rules: Mapping[int, Any]


def portable(words: Words) -> Requests:
    """Requests without objects of this process."""
    texts = {number: rule_text(rule) for number, rule in words.rules.items()}
    return Requests(words.key, words.scalars, texts)


# Of an operand: buffer, or -1 for a scalar; type number, offset, strides.
_Operand = tuple[int, int, int, list[int]]
# Of a request: its first two words, shape, operands.
_Request = tuple[int, int, tuple[int, ...], list[_Operand]]
Operand: TypeAlias = "nodes.View | nodes.ScalarOperand"


def _split(key: bytes) -> Iterator[_Request]:
    numbers = memoryview(key).cast("q").tolist()
    place = 0
    for _ in range(numbers[-END_WORDS] & HALF):
        head, counts = numbers[place : place + 2]
        ndim = counts & 0xFF
        place += 2 + ndim
        shape = tuple(numbers[place - ndim : place])
        operands: list[_Operand] = []
        for _ in range((counts >> 8 & 0xFF) + (counts >> 16 & 0xFF) + (counts >> 24 & 0xFF)):
            first, offset = numbers[place : place + 2]
            place += 2
            if first & HALF == HALF:
                operands.append((-1, first >> 32, offset, []))
                place += offset  # its value, as far as it is part of the key
            else:
                strides = numbers[place : place + ndim]
                operands.append((first & HALF, first >> 32, offset, strides))
                place += ndim
        yield head, counts, shape, operands


def _buffers(key: bytes) -> Iterator[nodes.BufferInfo]:
    numbers = memoryview(key).cast("Q")
    count = numbers[-END_WORDS] >> 32
    states = numbers[len(numbers) - END_WORDS - count : len(numbers) - END_WORDS].tolist()
    for index, state in enumerate(states):
        flags = bool(state & FRESH), bool(state & DEAD), bool(state & OWNED)
        yield nodes.BufferInfo(index, state >> STATE_BITS, *flags)


def _view(operand: _Operand) -> nodes.View:
    buffer, number, offset, strides = operand
    size = _SIZES[number]
    steps = (strides[0] // size,) if len(strides) == 1 else tuple([s // size for s in strides])
    return nodes.View(buffer, _CODES[number], offset // size, steps)


def scalar_value(raw: bytes, code: str) -> Value:
    """A scalar of that type."""
    if code == "f8":  # most of them are
        return float(_DOUBLE.unpack_from(raw)[0])
    if code in ("c8", "c16"):
        return complex(*struct.unpack_from("=2f" if code == "c8" else "=2d", raw))
    value: Value = struct.unpack_from("=" + _FORMATS[code], raw)[0]
    return value


def _inputs(operands: list[_Operand], scalars: Iterator[bytes]) -> tuple[Operand, ...]:
    found: list[Operand] = []
    for position, operand in enumerate(operands):
        if operand[0] >= 0:
            found.append(_view(operand))
        else:
            code = _CODES[operand[1]]
            found.append(nodes.ScalarOperand(code, position, scalar_value(next(scalars), code)))
    return tuple(found)


def _request(
    index: int, raw: _Request, rules: Mapping[int, Any], scalars: Iterator[bytes]
) -> nodes.Request:
    head, counts, shape, operands = raw
    rule, axes, errstate = rules[head & HALF], head >> 32, counts >> 32 & 0xFFFF
    nin, nout = counts >> 8 & 0xFF, counts >> 16 & 0xFF
    inputs = _inputs(operands[:nin], scalars)
    loop = rule.loop
    if rule.name == "copy" and isinstance(inputs[0], nodes.ScalarOperand):
        loop = (inputs[0].dtype, loop[1])  # a scalar was cast when it was recorded
    return nodes.Request(
        index,
        _KINDS[rule.kind],
        rule.name,
        shape,
        tuple([axis for axis in range(len(shape)) if axes >> axis & 1]) if axes else (),
        inputs,
        tuple(map(_view, operands[nin : nin + nout])),
        loop,
        _view(operands[-1]) if len(operands) > nin + nout else None,
        errstate & 0xFF,
        bool(errstate & NUMPYS),
        bool(errstate & FAST),
    )


def type_code(number: int) -> str:
    """The IR's code of a NumPy type number."""
    return _CODES[number]


def decode(words: Words) -> nodes.Trace:
    """Return the Trace that these words describe."""
    rules, values = words.rules, words.scalars
    scalars = iter([values[at : at + SCALAR_BYTES] for at in range(0, len(values), SCALAR_BYTES)])
    requests = [_request(i, raw, rules, scalars) for i, raw in enumerate(_split(words.key))]
    apart = memoryview(words.key).cast("Q")[1 - END_WORDS]
    return nodes.Trace(tuple(_buffers(words.key)), tuple(requests), apart)
