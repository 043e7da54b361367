"""Looking at a program while it runs: pending values, each operation at its line, errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from npaccel import _native, api
from npaccel.later import later

if TYPE_CHECKING:
    from npaccel import listing
    from npaccel.runtime.checking import peek as peeking
    from npaccel.runtime.checking import watching
    from npaccel.runtime.process import failures
else:
    listing = later("npaccel.listing")
    failures = later("npaccel.runtime.process.failures")
    watching = later("npaccel.runtime.checking.watching")
    peeking = later("npaccel.runtime.checking.peek")

__all__ = ["on_error", "parse_ir", "peek", "step", "watch"]


def peek(x: Any, at: Any = None) -> Any:
    """Look at the value of an array, pending or not, and change nothing.

    What it depends on is computed from copies, by NumPy's own functions; what is pending stays
    so, and will run as it would have. Each look computes anew, in memory for all that the value
    depends on. Where compiled kernels have other last bits than NumPy (docs/usage.md), this value
    has NumPy's.

    Parameters
    ----------
    x : an array.
    at : a subscript, to see a part: ``peek(x, at=(0, 3))``, ``peek(x, at=np.s_[:5])``.

    Returns
    -------
    A plain `numpy.ndarray`, a copy; with `at` what that picks. A macro section whose body looks at
    something is not recorded: the body runs.
    """
    if not isinstance(x, np.ndarray):
        raise TypeError(f"peek takes an array, not {type(x).__name__}")
    found: list[Any] = []
    _native.call_numpy(lambda: found.append(peeking.peek(x)))
    return found[0] if at is None else found[0][at]


@contextmanager
def step() -> Iterator[None]:
    """Run each operation at its line, in a ``with`` block, in the thread that entered it.

    So errors, warnings and the time of an operation are those of its line, and a debugger that
    stops there finds all values computed. What was pending before is computed before. A replay of
    a macro section is one operation.
    """
    _native.evaluate()
    _native.stepping(True)
    try:
        yield
    finally:
        _native.stepping(False)


def watch(x: Any, condition: Callable[[Any], Any]) -> watching.Watch:
    """Stop in the debugger at the operation that makes a condition on an array's value true.

    What writes the array's memory, by whatever name, runs at its line while it is watched; then
    the condition is asked, in the thread that has written, and where it has become true that
    thread stops, as with ``breakpoint()``, behind the operation's line. What else is pending then
    is computed before, fused as ever. Bodies of macro sections run as they are written.

    Parameters
    ----------
    x : an array. What NumPy writes on its own (functions that are not recorded, into plain arrays
        outside of blocks) is noticed at the next operation of npaccel's.
    condition : called with a plain copy of its value: ``lambda v: np.isnan(v).any()``. What it
        raises is raised at the operation.

    Returns
    -------
    Watch
        Its method `stop` ends it, as does the end of a ``with`` block; `stops` counts.
        Where the condition is true already, the program stops at once.
    """
    if not isinstance(x, np.ndarray):
        raise TypeError(f"watch takes an array, not {type(x).__name__}")
    if not callable(condition):
        raise TypeError(f"watch takes a function, not {type(condition).__name__}")
    found = watching.Watch(x, condition)
    found.start()
    return found


@contextmanager
def on_error(handler: failures.Handler) -> Iterator[None]:
    """Have a function told of errors of what is computed in a ``with`` block.

    These are errors that come to light behind their operation, when it is evaluated: a difference
    that check mode finds, memory that does not suffice, data that a device has lost; and those that
    cost time only: a kernel that a compiler rejects, a device that fails. What NumPy rejects is
    raised by NumPy, at the operation, and no handler is told. Blocks nest, and hold in the thread
    (and the asyncio task) that entered them. What was pending before is computed before, and what
    is left of the block at its end.

    Parameters
    ----------
    handler : called with a `Failure`: operation, file and line, shapes, dtypes, kernel, backend.
        If it returns True, blocks further out are not told, and where the program can continue
        (`CheckError`, and what would only be warned of) nothing is raised or warned of. What it
        raises is raised in the place of the error.
    """
    if not callable(handler):
        raise TypeError(f"on_error takes a function, not {type(handler).__name__}")
    api.evaluate()
    with failures.handling(handler):
        yield
        api.evaluate()


def parse_ir(text: str) -> listing.Listing:
    """Read back what ``npaccel.explain(x).ir`` shows: operations and kernels, in the hand.

    Parameters
    ----------
    text : of `Explanation.ir`, or changed by hand.

    Returns
    -------
    Listing
        ``.trace`` and ``.kernels`` are the nodes of `npaccel.ir`; ``.verify()`` checks them;
        ``.run(a, b, backend="llvm")`` runs the operations on other data.

    Raises
    ------
    VerifyError : a line is not understood.

    Examples
    --------
    >>> found = npaccel.parse_ir(npaccel.explain(y).ir)
    >>> found.run(other)
    """
    return listing.Listing(text)
