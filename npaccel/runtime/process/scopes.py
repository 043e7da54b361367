"""Warnings as their scope has them, although they are found later.

NumPy warns at the operation; a deferred operation warns when it is evaluated. By then a
`catch_warnings` block may have been entered or left, or the filters changed. What is pending at
such a moment and may warn is therefore given the filters as they are (`Scope`), and waits on.
Only where warnings are caught on their way (`record=True`, another `showwarning`,
`redirect_stderr`) is it evaluated before that ends, since the program will look at what was caught.
"""

from __future__ import annotations

import contextlib
import copyreg
import functools
import importlib
import threading
import types
import warnings
from collections.abc import Callable
from typing import Any

from npaccel import _native
from npaccel.ir.names import RAISES
from npaccel.later import when_imported
from npaccel.runtime.process.warn import WORDS, line_of, text_of

__all__ = ["Scope", "shown", "watch_scopes"]

# `warnings` without types: what these functions are about is not in its stubs.
_module: Any = warnings
_state = threading.local()  # `settling`: this thread is in it already
# Python's own ways of showing, as this module found them.
_OWN: Any = _module.showwarning, _module._showwarnmsg_impl


class _Probe(Warning):
    """Asked with, never shown."""


def _version() -> object:
    """Which version of the filters is in force: what `warnings` writes into a registry."""
    registry: dict[Any, Any] = {}
    # Python keeps the list that was asked last, for the end of the process: it is to be this one.
    _module.filters.insert(0, ("ignore", None, _Probe, None, 0))
    try:
        _module.warn_explicit("", _Probe, "", 1, registry=registry)
    finally:
        _module.filters.remove(("ignore", None, _Probe, None, 0))
    return registry.get("version")


class Scope:
    """The filters and the way of showing that were in force when requests were recorded."""

    __slots__ = ("_filters", "_registries", "_shows", "_version")

    def __init__(self) -> None:
        self._filters = list(warnings.filters)
        self._shows = warnings.showwarning, _module._showwarnmsg_impl
        self._version = _version()
        # By id: what a module has shown in this scope. Its own registry knows only until the
        # filters change.
        self._registries: dict[int, tuple[object, dict[Any, Any]]] = {}

    def warn(
        self,
        text: str,
        category: type[Warning],
        filename: str,
        line: int,
        module: str,
        registry: Any,
    ) -> None:
        """`warnings.warn_explicit` as it would have acted then."""
        if id(registry) not in self._registries:
            known = registry.get("version") == self._version
            self._registries[id(registry)] = registry, dict(registry) if known else {}
        own = self._registries[id(registry)][1]
        own["version"] = _version()
        now = _module.filters, (_module.showwarning, _module._showwarnmsg_impl)
        _in_force(self._filters, self._shows)
        try:
            _module.warn_explicit(text, category, filename, line, module=module, registry=own)
        finally:
            _in_force(*now)
            _version()  # which leaves Python with these filters

    def has_shown(self, registry: Any, key: tuple[str, type[Warning], int]) -> bool:
        """Whether `warn` would find the warning of this key shown already, and do nothing."""
        if not _only_shows(self._shows):
            return False
        if id(registry) in self._registries:
            return bool(self._registries[id(registry)][1].get(key))
        return registry.get("version") == self._version and bool(registry.get(key))


def shown(
    asked: list[tuple[int, Any, types.CodeType, int, dict[str, Any], Scope | None]],
) -> list[bool]:
    """The C core's `shown` hook: whether all that each request may warn of was shown before.

    That is so as long as the module's registry says it of the filters that the request was
    recorded under; a request without a scope was recorded under those in force.
    """
    in_force = _InForce()
    return [_is_known(in_force if entry[5] is None else entry[5], *entry[:5]) for entry in asked]


def _is_known(
    scope: Scope | _InForce,
    bits: int,
    rule: Any,
    code: types.CodeType,
    lasti: int,
    variables: dict[str, Any],
) -> bool:
    kinds = "".join(dtype[0] for dtype in rule.loop) if rule.name == "copy" else rule.loop[0][0]
    possible = RAISES.get(rule.name, {}).get(kinds)
    registry = variables.get("__warningregistry__")
    if possible is None or not isinstance(registry, dict):
        return False
    line = line_of(code, lasti)
    return all(
        scope.has_shown(registry, (text_of(words, rule), RuntimeWarning, line))
        for kind, words in WORDS
        if kind & bits & possible
    )


class _InForce:
    """What is asked of a Scope, of the filters as they are."""

    def __init__(self) -> None:
        self._version = _version()

    def has_shown(self, registry: Any, key: tuple[str, type[Warning], int]) -> bool:
        if not _only_shows((_module.showwarning, _module._showwarnmsg_impl)):
            return False
        return registry.get("version") == self._version and bool(registry.get(key))


def _only_shows(shows: tuple[Any, Any]) -> bool:
    """Whether showing a warning, of an earlier request, leaves filters and registries alone: by
    Python's own functions, or by the list of `record=True`. Other functions may do anything."""
    whole, message = shows
    return whole is _OWN[0] and (message is _OWN[1] or isinstance(message, types.BuiltinMethodType))


def _in_force(filters: Any, shows: tuple[Any, Any]) -> None:
    """For one call: no registry should take them for changed, and nobody is told."""
    vars(_module).update(filters=filters, showwarning=shows[0], _showwarnmsg_impl=shows[1])


def _keep_scope() -> None:
    if _native.may_warn(True):
        _native.give_scope(Scope())


def _settle() -> None:
    """Evaluate what may warn, unless this thread is doing so: who shows a warning may warn."""
    if getattr(_state, "settling", False) or not _native.may_warn(False):
        return
    _state.settling = True
    try:
        _native.evaluate()
    finally:
        _state.settling = False


def _first(prepare: Callable[[], None], original: Callable[..., Any]) -> Callable[..., Any]:
    def changed(*args: Any, **kwargs: Any) -> Any:
        try:
            prepare()
        finally:
            result = original(*args, **kwargs)  # what is to be restored is, whatever came before
        return result

    changed.__name__, changed.__doc__ = original.__name__, original.__doc__
    changed.__wrapped__ = original  # type: ignore[attr-defined]
    return changed


class _Watched(types.ModuleType):
    """The module `warnings`, which sees what programs, and its own blocks, assign."""

    def __setattr__(self, name: str, value: Any) -> None:
        try:
            if name == "filters":
                _keep_scope()
            elif name in _SHOWING and value is not getattr(self, name, None):
                _before_showing_otherwise(name)
        finally:
            super().__setattr__(name, value)


def _by_name(module: types.ModuleType) -> Any:
    return importlib.import_module, (module.__name__,)


_Watched.__name__ = _Watched.__qualname__ = types.ModuleType.__name__
_Watched.__module__ = types.ModuleType.__module__
_SHOWING = {"showwarning", "_showwarnmsg_impl", "formatwarning", "defaultaction", "onceregistry"}


def _before_showing_otherwise(name: str) -> None:
    """What is found later is shown as it was to be; but whoever took it is told before he looks."""
    own = (_module.showwarning, _module._showwarnmsg_impl) == _OWN
    if own and name in ("showwarning", "_showwarnmsg_impl"):
        _keep_scope()
    else:
        _settle()


class _Log(list[Any]):
    """What `record=True` gives: all that was to be caught is in it when it is looked at."""


for _name in (
    *("__len__", "__iter__", "__reversed__", "__contains__", "__repr__", "__eq__", "__ne__"),
    *("__getitem__", "__setitem__", "__delitem__", "__add__", "__mul__", "__reduce_ex__"),
    *("clear", "copy", "count", "index", "pop", "remove", "reverse", "sort"),
):
    setattr(_Log, _name, _first(_settle, getattr(list, _name)))
_Log.__name__ = _Log.__qualname__ = list.__name__
_Log.__module__ = list.__module__


def _complete(enter: Callable[..., Any]) -> Callable[..., Any]:
    """`catch_warnings.__enter__`, whose list is complete also within the block."""

    def changed(block: Any) -> Any:
        log = enter(block)
        if type(log) is list and _module._showwarnmsg_impl == log.append:
            log = _Log(log)
            vars(_module)["_showwarnmsg_impl"] = log.append
        return log

    changed.__name__, changed.__doc__ = enter.__name__, enter.__doc__
    changed.__wrapped__ = enter  # type: ignore[attr-defined]
    return changed


def _complete_too(testing: Any) -> None:
    """The lists of `numpy.testing.suppress_warnings`, thus of `assert_warns`, are complete, too."""
    block = testing.suppress_warnings
    enter, record = block.__enter__, block.record

    def entered(self: Any) -> Any:
        result = enter(self)
        self.log = _Log(self.log)
        return result

    def recorded(self: Any, *args: Any, **kwargs: Any) -> Any:
        log = record(self, *args, **kwargs)
        complete = _Log(log)
        for known in (self._suppressions, getattr(self, "_tmp_suppressions", [])):
            known[:] = [(*one[:-1], complete) if one[-1] is log else one for one in known]
        return complete

    block.__enter__ = functools.update_wrapper(entered, enter)
    block.record = functools.update_wrapper(recorded, record)


def watch_scopes() -> None:
    """See to what is pending before filters, or ways of showing warnings, change."""
    _module.__class__ = _Watched
    copyreg.pickle(_Watched, _by_name)  # cloudpickle knows the class of other modules
    block: Any = warnings.catch_warnings
    block.__enter__ = _complete(block.__enter__)
    for name in ("_add_filter", "resetwarnings"):  # simplefilter and filterwarnings call the first
        original = getattr(warnings, name, None)
        if original is not None:
            setattr(warnings, name, _first(_keep_scope, original))
    redirect: Any = contextlib.redirect_stderr
    redirect.__enter__ = _first(_settle, redirect.__enter__)
    redirect.__exit__ = _first(_settle, redirect.__exit__)
    when_imported("numpy.testing._private.utils", _complete_too)
