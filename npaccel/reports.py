"""What npaccel tells of a program: where its time went, a profile, why it gained little."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from npaccel import _native, dispatch
from npaccel.backends.registry import HOST
from npaccel.errors import ProfileError
from npaccel.later import Once, later
from npaccel.own import os, time
from npaccel.this_process import at_end, config, engine, make_engine

if TYPE_CHECKING:
    from npaccel.observe import hindrances, profiling, usage
    from npaccel.observe import profile_file as profile_files
else:
    hindrances = later("npaccel.observe.hindrances")
    profile_files = later("npaccel.observe.profile_file")
    profiling = later("npaccel.observe.profiling")
    usage = later("npaccel.observe.usage")

__all__ = [
    "found_hindrances",
    "made_hindrances",
    "profile",
    "watch_gain",
    "watch_profile",
    "watch_usage",
]

LEAST_TOLD_S: Final = 0.5  # programs that end sooner are told nothing
made_hindrances: Final = Once(lambda: hindrances.Hindrances())  # noqa: PLW0108 (it comes later)


def watch_usage(tell: Callable[[usage.Usage], None]) -> None:
    """Count time from now on; at exit, when all is computed, tell where it went."""
    start = time.perf_counter()
    _native.times(True)

    def report() -> None:
        wall_s, times = time.perf_counter() - start, _native.times(False)
        longest = found_hindrances(many=False)[:1]
        words = f"{longest[0]} ({longest[0].seconds:.2g} s)" if longest else ""
        counts, seconds = dispatch.FALLBACKS.counts(), dispatch.FALLBACKS.seconds()
        tell(usage.Usage(wall_s, times, counts, seconds, words))

    at_end(report)


def _counted() -> profile_files.Counted:
    found = dispatch.FALLBACKS
    stats = (
        engine.counters.read(reset=False) if make_engine.made is not None else _native.stats(False)
    )
    return profile_files.Counted(
        found.counts(), found.seconds(), made_hindrances().amounts(), stats
    )


def profile(path: str | os.PathLike[str] = "npaccel.profile") -> profiling.Profiling:
    """Take a profile of a ``with`` block, and write it to a file when the block ends.

    What is pending before the block is computed before, and what is left of it at its end. It
    counts whether or not arrays are accelerated there; of several threads, all that npaccel
    does; Python's own time of the main thread. One at a time is taken.

    Parameters
    ----------
    path : of the file; one that is there is replaced. ``npaccel profile show`` reads it.

    Returns
    -------
    Profiling
        Once the block is over, ``print()`` shows it; its attribute `profile` has the figures.

    Raises
    ------
    ProfileError : one is being taken already, or the file can't be written.
    """
    return profiling.Profiling(path, _about, _counted, _native.evaluate)


def watch_profile(taken: profiling.Profiling, tell: Callable[[str], None]) -> None:
    """Take that profile from now on; at exit, when all is computed, write it, and tell so."""
    taken.__enter__()
    process = os.getpid()

    def end() -> None:
        if os.getpid() != process:  # a child that was forked has what is registered, too
            return
        try:
            taken.__exit__(getattr(sys, "last_type", None), None, None)
        except ProfileError as error:
            tell(f"npaccel: {error}")
        else:
            tell(f"npaccel: the profile is in {taken.path}; npaccel profile show {taken.path}")

    at_end(end)


def _about() -> dict[str, Any]:
    """What a profile says of the process."""
    speeds = engine.machines.speeds(HOST) if make_engine.made is not None else None
    return {
        "npaccel": sys.modules["npaccel"].__version__,
        "threshold": int(config.threshold),
        "cache": str(config.cache),
        "threads": _native.threads(),
        "copy_bytes_s": speeds.copy_bytes_s if speeds is not None else 0.0,
        "sums_f8_s": speeds.sums_f8_s if speeds is not None else 0.0,
    }


def watch_gain(tell: Callable[[str], None]) -> Callable[[], None]:
    """At exit, when all is computed, tell in one line why the program gained little, if it did.

    Returns what takes that back.
    """
    start = time.perf_counter()

    def judge() -> None:
        wall_s = time.perf_counter() - start
        if wall_s < LEAST_TOLD_S:
            return
        found = found_hindrances(many=True)
        runs_s = made_hindrances().runs_s()
        words = hindrances.verdict(
            wall_s, found, lambda enough: hindrances.gained_s(enough, runs_s, wall_s)
        )
        if words:
            tell(words)

    at_end(judge)
    return lambda: atexit.unregister(judge)


def found_hindrances(*, many: bool) -> list[hindrances.Hindrance]:
    """What kept lines from gaining. many : of the longest, or of all."""
    calls, seconds = dispatch.FALLBACKS.counts(), dispatch.FALLBACKS.seconds()
    return made_hindrances().found(calls, seconds, many=many)
