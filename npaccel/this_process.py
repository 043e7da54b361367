"""What there is once in a process, settings and engine first; its start and its end."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np

from npaccel import _native, dispatch
from npaccel.config import process_settings
from npaccel.dispatch.rules import made_rules, prepare_rules
from npaccel.later import Once, later, stand_in
from npaccel.runtime.engine.first import FirstRuns
from npaccel.runtime.process import warn
from npaccel.runtime.process.core import Core
from npaccel.runtime.process.disk import Disk
from npaccel.runtime.process.neighbours import watch_neighbours
from npaccel.runtime.process.scopes import shown, watch_scopes
from npaccel.runtime.process.thread_limits import watch_limits

if TYPE_CHECKING:
    from npaccel.runtime.engine import engine as engine_module
    from npaccel.runtime.engine import futures as futures_module
    from npaccel.runtime.helper import helper as helper_module
else:
    engine_module = later("npaccel.runtime.engine.engine")
    futures_module = later("npaccel.runtime.engine.futures")
    helper_module = later("npaccel.runtime.helper.helper")

__all__ = [
    "at_end",
    "config",
    "core",
    "disk",
    "engine",
    "futures",
    "helper",
    "make_engine",
    "settle",
    "tell_unguarded",
]

config: Final = process_settings()
# Whatever changes the backend makes the engine first, so this is what it has to begin with.
_BACKEND: Final = str(config.backend)
core: Final = Core(config)
disk: Final = Disk(config)
helper: Final = Once(lambda: helper_module.Helper(config.helper_environment(), disk.identity()))
futures: Final = Once(lambda: futures_module.Futures())  # noqa: PLW0108 (it comes later)
make_engine: Final = Once(lambda: engine_module.Engine(config, core, disk, helper, _BACKEND))
engine: Final = stand_in(make_engine)
_first: Final = FirstRuns(make_engine, helper, config)
dispatch.install(
    (
        os.path.dirname(np.__file__) + os.sep,
        os.path.dirname(__file__) + os.sep,
        "<frozen importlib",
    ),
    plan=_first,
    warn=warn.issue,
    filters=warn.runtime_warnings,
    shown=shown,
)


def _finish() -> None:
    """At exit: what is pending may warn, and keeps the globals of the program alive, whose objects
    would not be finalised. Not after Ctrl-C, which is to stop the program, not to compile it."""
    stopped = _stopped()
    _native.flights_end(stopped)
    if not stopped:
        _native.evaluate()
        settle()
        if futures.made is not None:
            futures().tell_all()


def _stopped() -> bool:
    """Whether Ctrl-C has ended the program."""
    return getattr(sys, "last_type", None) is KeyboardInterrupt and not hasattr(sys, "ps1")


def settle() -> None:
    """Wait for what is compared beside the program."""
    if config.check == "beside" and make_engine.made is not None:
        engine.comparing.settle()


def _end() -> None:
    """The last of all: leave to the next process what this one has learned."""
    linger = config.tiering == "adaptive" and config.linger > 0 and not _stopped()
    if linger:
        _first.end()
    if make_engine.made is not None:
        engine.end(made_rules(), linger=linger)
    if helper.made is not None:
        helper().stop()


def _changed(name: str, value: str | float) -> None:
    """As long as there is no engine; one that is made here hears of this change, too."""
    if name == "backend":
        make_engine()
    elif make_engine.made is None:
        core.tell(name)


def tell_unguarded() -> None:
    """Who turns to npaccel hears once why nothing is recorded."""
    if config.guard != "off":  # who has set it so is told nothing, and needs no engine
        engine.tell_unguarded()


def _prepare() -> None:
    """Have ready what the last process with this command used."""
    profile = disk.startup_profiles.read() if config.tiering != "off" else None
    if profile is not None and (profile.programs or profile.jobs):
        engine.prepare(profile, prepare_rules)


def at_end(function: Callable[[], None]) -> None:
    """Call it when all is computed: the last that is registered runs first."""
    atexit.unregister(_finish)
    atexit.register(function)
    atexit.register(_finish)


atexit.register(_end)
atexit.register(_finish)
config.subscribe(_changed)
watch_scopes()
watch_neighbours()
watch_limits(config)
_prepare()
