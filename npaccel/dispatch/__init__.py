"""Knows NumPy: the class Array, typing of calls, what is recorded and what falls back.

Must not know how anything is computed: it hands requests to the C core. `HOOKS` are the C core's
callbacks that live here; `install` gives them to it together with those of the runtime.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from npaccel import _native, system
from npaccel.dispatch import composed  # noqa: F401  registers its functions
from npaccel.dispatch.array import Array
from npaccel.dispatch.fallback import FALLBACKS, HOMES, Fallbacks, at_user_line
from npaccel.dispatch.function import COMPOSITES, IMPLEMENTED, METADATA
from npaccel.dispatch.indexing import getitem, setitem
from npaccel.dispatch.method import EVALUATED, RECORDED
from npaccel.dispatch.rules import reduce_rule, rule
from npaccel.dispatch.ufunc import ufunc_hook
from npaccel.later import later, when_imported

if TYPE_CHECKING:
    from npaccel.dispatch import exact_classes
else:
    exact_classes = later("npaccel.dispatch.exact_classes")

__all__ = [
    "COMPOSITES",
    "EVALUATED",
    "FALLBACKS",
    "HOMES",
    "HOOKS",
    "IMPLEMENTED",
    "METADATA",
    "RECORDED",
    "Array",
    "Fallbacks",
    "at_user_line",
    "install",
]

HOOKS: dict[str, Callable[..., Any]] = {
    "rule": rule,
    "fold": reduce_rule,
    "ufunc": ufunc_hook,
    "getitem": getitem,
    "setitem": setitem,
}
# Modules that look at arrays' exact classes.
EXACT: Final = (
    *("joblib.hashing", "joblib.numpy_pickle", "joblib.executor", "joblib.pool"),
    *("orjson", "ormsgpack", "matplotlib.axes._axes"),
)


def install(inside: tuple[str, ...], **runtime: Callable[..., Any]) -> None:
    """Install `Array` and all callbacks in the C core; `runtime`: plan, warn, filters and shown.

    inside: path prefixes of NumPy's code and ours, whose lines are not the user's.
    """
    _native.install(Array, HOOKS | runtime, inside)
    system.at_fork(before=_native.evaluate)
    for name in EXACT:
        when_imported(name, lambda module: exact_classes.see(module))  # noqa: PLW0108 (it comes later)
