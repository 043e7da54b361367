"""Stands between the C core and compiled kernels: counts launches, and can falsify results."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from steps import unpack_steps

from npaccel import _native
from npaccel.runtime.programs.wire_format import Step

MAIN = ctypes.CFUNCTYPE(
    None,
    ctypes.POINTER(ctypes.c_int64),
    ctypes.POINTER(ctypes.c_int64),
    ctypes.c_void_p,
    ctypes.c_void_p,
)


@dataclass
class Launch:
    """One call of one task of a kernel: the words it got, and its range."""

    extents: int
    words: Any
    bounds: tuple[int, ...]

    def address(self, array: int) -> int:
        """Where array argument `array` begins."""
        return int(self.words[self.extents + array * (1 + self.extents)])


@dataclass
class Launches:
    """What was launched since the start of the test.

    after : called at the end of each task; may falsify what it wrote.
    """

    tasks: list[tuple[int, ...]] = field(default_factory=list)
    after: Callable[[Launch], None] | None = None
    kept: list[Any] = field(default_factory=list)

    @property
    def kernels(self) -> int:
        """Launches: each has one task that begins at the origin."""
        return sum(begin == 0 and inner == 0 for begin, _, inner, _ in self.tasks)

    @property
    def elements(self) -> int:
        return sum((b1 - b0) * (i1 - i0) for b0, b1, i0, i1 in self.tasks)

    def wrap(self, address: int, step: Step) -> int:
        """The address of a kernel's main function that also reports here."""
        real = MAIN(address)
        extents = len(step.extents)

        def main(words: Any, bounds: Any, scratch: int, flags: int) -> None:
            real(words, bounds, scratch, flags)
            span = tuple(bounds[:4])
            self.tasks.append(span)
            if self.after is not None:
                self.after(Launch(extents, words, span))

        callback = MAIN(main)
        self.kept += [real, callback]
        return ctypes.cast(callback, ctypes.c_void_p).value or 0


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> Launches:
    """Reports of all kernels launched in this test, even of programs planned before it."""
    found = Launches()
    program = _native.Program

    def wrapped(
        steps: Any, dropped: int, keep: Any, info: Any, code: bytes = b"", *rest: Any
    ) -> Any:
        found.kept.append(keep)
        addresses = array("Q", code)
        for step in unpack_steps(steps) if steps is not None else ():
            if isinstance(step, Step):
                at = 2 * step.kernel
                addresses[at] = found.wrap(addresses[at], step)
        return program(steps, dropped, keep, info, addresses.tobytes(), *rest)

    _native.evaluate()
    _native.plans().clear()
    monkeypatch.setattr(_native, "Program", wrapped)
    yield found
    _native.evaluate()
    _native.plans().clear()  # their steps point into this test's callbacks
