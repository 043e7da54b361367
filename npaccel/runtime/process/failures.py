"""Errors that come to light behind their operation: what they are about, and who is told first.

An operation that waits fails when it is evaluated: for want of memory, with a device, in check
mode, or in a compiler. Handlers (`npaccel.on_error`) are told before the error is raised, or the
warning issued.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from npaccel.errors import Failure
from npaccel.ir.kinds import Kind
from npaccel.later import later
from npaccel.runtime.process.warn import line_of

if TYPE_CHECKING:
    from npaccel.ir import nodes
else:
    nodes = later("npaccel.ir.nodes")

__all__ = [
    "Handler",
    "Site",
    "Sites",
    "about",
    "dealt_with",
    "handling",
    "of_kernel",
    "place",
    "told",
]

Handler = Callable[[Failure], object]
Site = tuple[types.CodeType | None, int]
Sites = Sequence[Site]
ENDINGS = {Kind.REDUCE: ".reduce", Kind.SCAN: ".accumulate"}
FOLDS = (Kind.REDUCE, Kind.ARG)
_handlers: ContextVar[tuple[Handler, ...]] = ContextVar("npaccel handlers", default=())


@contextmanager
def handling(handler: Handler) -> Iterator[None]:
    """Have it told of failures in the block, before those that were there."""
    token = _handlers.set((*_handlers.get(), handler))
    try:
        yield
    finally:
        _handlers.reset(token)


def dealt_with(failure: Failure) -> bool:
    """Tell the handlers, the innermost first, until one returns True; whether one has.

    What a handler fails at is for those further out; what it raises is raised.
    """
    handlers = _handlers.get()
    for number in reversed(range(len(handlers))):
        token = _handlers.set(handlers[:number])
        try:
            if handlers[number](failure) is True:
                return True
        finally:
            _handlers.reset(token)
    return False


def about(request: nodes.Request, site: Site, **more: Any) -> dict[str, Any]:
    """A Failure's fields, as far as the operation has them."""
    reduced = request.axes if request.kind in FOLDS else ()
    left = tuple(n for axis, n in enumerate(request.shape) if axis not in reduced)
    inputs = len(request.loop) - len(request.outputs)
    shapes = (request.shape,) * inputs + (left,) * len(request.outputs)
    operation = request.op + ENDINGS.get(request.kind, "")
    return place(*site) | {"operation": operation, "shapes": shapes, "dtypes": request.loop} | more


def place(code: types.CodeType | None, lasti: int) -> dict[str, Any]:
    return {} if code is None else {"file": code.co_filename, "line": line_of(code, lasti)}


def of_kernel(trace: nodes.Trace, first: int, sites: Sites, name: str) -> dict[str, Any]:
    """A Failure's fields for a kernel, by its first operation.

    first : number of that; -1: unknown.
    sites : by request; empty: unknown.
    """
    if first < 0:
        return {}
    site = sites[first] if first < len(sites) else (None, 0)
    return about(trace.requests[first], site, kernel=name)


def told(
    error: Exception,
    rule: Any,
    site: Site,
    shape: tuple[int, ...],
    result: tuple[int, ...],
    backend: str,
) -> None:
    """Tell the handlers of an error that the C core is about to raise.

    Parameters
    ----------
    rule : of the operation; None: unknown
    shape, result : over which it runs; of what it makes
    """
    found: dict[str, Any] = {"backend": backend}
    if rule is not None:
        dtypes = tuple(rule.loop)
        shapes = (shape,) * (len(dtypes) - 1) + (result,)
        operation = rule.name + ENDINGS.get(Kind(rule.kind), "")
        found |= place(*site) | {"operation": operation, "shapes": shapes, "dtypes": dtypes}
    failure = Failure(error, **found)
    error.failure = failure  # type: ignore[attr-defined]
    dealt_with(failure)
