"""A trace as words: what the C core writes of the pending requests without making objects."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from npaccel.runtime.trace import RawTrace, RuleText

__all__ = ["raw_trace"]

HEAD = 8
OWNED, FRESH, DEAD = 1, 2, 4  # as in native/record.h


def raw_trace(words: bytes, rules: Mapping[int, RuleText]) -> RawTrace:
    """What `Pending.trace()` would have returned, of its words and rules."""
    numbers = memoryview(words).cast("q").tolist()
    n_buffers, n_requests = numbers[:2]
    place = 2 + 2 * n_buffers
    buffers = [
        (size, bool(flags & FRESH), bool(flags & DEAD), bool(flags & OWNED))
        for size, flags in zip(numbers[2:place:2], numbers[3:place:2], strict=True)
    ]
    requests = []
    for _ in range(n_requests):
        rule, ndim, axes, errstate, nin, nout, mask, initial = numbers[place : place + HEAD]
        place += HEAD
        shape = tuple(numbers[place : place + ndim])
        place += ndim
        operands: list[tuple[Any, ...]] = []
        for _ in range(nin + nout + mask):
            buffer, number, offset = numbers[place : place + 3]
            size = 2 if buffer < 0 else ndim
            rest = numbers[place + 3 : place + 3 + size]
            place += 3 + size
            if buffer < 0:
                operands.append((struct.pack("=2q", *rest), number))
            else:
                operands.append((buffer, offset, tuple(rest), number))
        requests.append(
            (
                rules[rule],
                shape,
                [axis for axis in range(ndim) if axes >> axis & 1],
                errstate,
                tuple(operands[:nin]),
                tuple(operands[nin : nin + nout]),
                operands[-1] if mask else None,
                bool(initial),
            )
        )
    return buffers, requests
