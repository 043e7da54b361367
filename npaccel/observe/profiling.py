"""A profile while it is taken: from where, for how long, into which file."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from npaccel import _native
from npaccel.errors import ProfileError
from npaccel.later import later
from npaccel.observe import usage
from npaccel.observe.profile_file import Counted, Recorded, recorded
from npaccel.own import os
from npaccel.system import scheduled

if TYPE_CHECKING:
    from npaccel.observe import hindrances, html, profile_data, profile_page, profile_text
    from npaccel.observe import profile as profiles
else:
    hindrances = later("npaccel.observe.hindrances")
    html = later("npaccel.observe.html")
    profiles = later("npaccel.observe.profile")
    profile_page = later("npaccel.observe.profile_page")
    profile_text = later("npaccel.observe.profile_text")

__all__ = ["Profiling"]


def _libraries() -> tuple[str, ...]:
    """Where Python's own modules lie and those that were installed, as NumPy was."""
    installed = os.path.dirname(os.path.dirname(np.__file__))
    return os.path.dirname(os.__file__) + os.sep, installed + os.sep, "<frozen ", "<string>"


class Profiling:
    """What `npaccel.profile` returns: a context manager, and afterwards what was found.

    Parameters
    ----------
    about : what is to be said of the process. count : what others have counted. evaluate : runs
        what is pending.

    Attributes
    ----------
    path : of the file.
    profile : the figures, read out when they are first asked for; None until the block is over.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        about: Callable[[], dict[str, Any]],
        count: Callable[[], Counted],
        evaluate: Callable[[], None],
    ) -> None:
        self.path = os.path.abspath(path)
        self._found: Recorded | None = None
        self._profile: profile_data.Profile | None = None
        self._about, self._count, self._evaluate = about, count, evaluate
        self._program, self._arguments = sys.argv[0], list(sys.argv[1:])
        self._process = os.getpid()
        self._before: tuple[Counted, dict[str, float]] | None = None
        self._scheduled = 0.0, 0.0

    def of(self, program: str, arguments: Sequence[str]) -> None:
        """What is profiled, as the file is to say it.

        Raises
        ------
        ProfileError : there is no folder for the file.
        """
        self._check()
        self._program, self._arguments = program, list(arguments)

    def _check(self) -> None:
        folder = os.path.dirname(self.path)
        if not os.path.isdir(folder):
            raise ProfileError(f"{self.path}: there is no folder {folder} to write a profile to")

    def __enter__(self) -> Self:
        self._check()
        self._evaluate()
        before = self._count(), _native.times(None)
        try:
            _native.profile_begin(_libraries())
        except RuntimeError as error:
            raise ProfileError(f"{error}; end that one first") from None
        self._process = os.getpid()
        self._before, self._scheduled = before, scheduled()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._before is None or self._process != os.getpid():
            return  # nothing was begun, or in the process that this one was forked from
        try:
            if kind is not KeyboardInterrupt:
                self._evaluate()
        finally:
            self._end()

    def _end(self) -> None:
        assert self._before is not None
        counted, times = self._before
        self._before = None
        found, ran = _native.profile_end(), scheduled()
        spent = _native.times(None)
        seconds = {name: value - times.get(name, 0.0) for name, value in spent.items()}
        made = recorded(found, counted, self._count())
        share = usage.kernel_share(seconds)
        sizes = [request[2] for run in made.runs for request in run[3]]
        made.head |= hindrances.limits(max(sizes)) if sizes else {}
        pairs = zip(ran, self._scheduled, strict=True)
        made.head["scheduled_s"] = [max(now - then, 0.0) for now, then in pairs]
        made.head["about"] = self._told()
        made.head["usage"] = {"activities_s": seconds, "kernel_share": share}
        self._found, self._profile = made, None
        made.write(self.path)

    @property
    def profile(self) -> profile_data.Profile | None:
        if self._profile is None and self._found is not None:
            self._profile = profiles.made(self._found)
        return self._profile

    def _told(self) -> dict[str, Any]:
        return {
            "program": self._program,
            "arguments": self._arguments,
            "numpy": np.__version__,
            "python": platform.python_version(),
            "machine": f"{platform.system()} {platform.release()} {platform.machine()}",
        } | self._about()

    def __str__(self) -> str:
        found = self.profile
        if found is None:
            return f"a profile that is not over yet; it will be in {self.path}"
        return profile_text.show(found)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """For notebooks: the page that ``npaccel profile show --html`` writes, in a frame."""
        found = self.profile
        return html.pre(str(self)) if found is None else html.frame(profile_page.page(found))
