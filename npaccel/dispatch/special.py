"""Which ufuncs of scipy.special are recorded, and when.

As a rule a ufunc of another library is not: its loop may raise, warn or ask for the interpreter
lock. Those of SciPy do so when `scipy.special.errstate` asks for it, and by default never: they
report nothing, not to `numpy.errstate` either. So those that are known to compute, and no more, are
recorded where SciPy's state is the default. It belongs to the thread, hence it is asked for at each
call, and what has no kernel, for which SciPy's own loop runs, does not wait: it is computed by
blocks, on all threads, together with what it needs.

SciPy is looked at when a program imports it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

import numpy as np

from npaccel import _native
from npaccel.dispatch.fallback import NotRecorded
from npaccel.ir.kinds import OTHER_UFUNCS
from npaccel.ir.names import SCIPYS
from npaccel.later import when_imported

__all__ = ["LOOPS", "OTHER", "SPECIAL"]

# Without a row: functions of their operands alone, by loops that use no memory of their own.
LOOPS: Final = frozenset(
    ("digamma", "gammaln", "i0", "i1", "j0", "j1", "log_expit", "log_ndtr", "ndtri", "psi")
)
FLOATS: Final = "fd"


OTHER: Final = "a function of SciPy's, of other dtypes than singles and doubles"


class Special:
    """SciPy's ufuncs that are recorded, from its import on."""

    def __init__(self) -> None:
        self.ufuncs: dict[np.ufunc, bool] = {}  # and whether each has a row
        self._state: Callable[[], dict[str, str]] = dict

    def see(self, module: ModuleType) -> None:
        """Take what is there of `scipy.special`."""
        state = getattr(module, "geterr", None)
        if state is None:
            return
        self._state = state
        for name in SCIPYS | LOOPS:
            ufunc = getattr(module, name, None)
            if type(ufunc) is np.ufunc:
                self.ufuncs[ufunc] = ufunc.__name__ in SCIPYS
                OTHER_UFUNCS[ufunc.__name__] = ufunc

    def check(
        self,
        ufunc: np.ufunc,
        inputs: tuple[Any, ...],
        shape: tuple[int, ...],
        loop: tuple[str, ...],
    ) -> None:
        """Raise NotRecorded unless a call with this result may be recorded."""
        if any(np.dtype(code).char not in FLOATS for code in loop):
            raise NotRecorded(OTHER)
        # SciPy's own bits below the threshold, at once: nothing of SciPy's waits.
        if math.prod(shape) * np.dtype(loop[-1]).itemsize < _native.threshold():
            raise NotRecorded
        if not self.waits(ufunc) and any(map(_is_placeholder, inputs)):
            raise NotRecorded("a function of SciPy's without a kernel")
        state = self._state()
        if any(action != "ignore" for kind, action in state.items() if kind != "memory"):
            raise NotRecorded("scipy.special.errstate asks for errors")

    def waits(self, ufunc: np.ufunc) -> bool:
        """Whether its results may be computed later."""
        return self.ufuncs[ufunc] and _native.primitives()[0] != ""


def _is_placeholder(operand: Any) -> bool:
    return isinstance(operand, _native.ArrayBase) and _native.in_section(operand)


SPECIAL: Final = Special()
when_imported("scipy.special", SPECIAL.see)
