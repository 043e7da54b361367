"""A profile while it is taken: from where, for how long, into which file."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from types import TracebackType
from typing import Any, Self

import numpy as np

from npaccel import _native
from npaccel.errors import ProfileError
from npaccel.observe import profile_text
from npaccel.observe.profile import Counted, Recorder
from npaccel.observe.profile_file import Profile
from npaccel.observe.usage import kernel_share

__all__ = ["Profiling"]


class Profiling:
    """What `npaccel.profile` returns: a context manager, and afterwards what was found.

    Parameters
    ----------
    about : what is to be said of the process. count : what others have counted. evaluate : runs
        what is pending.

    Attributes
    ----------
    path : of the file.
    profile : the figures; None until the block is over.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        about: Callable[[], dict[str, Any]],
        count: Callable[[], Counted],
        evaluate: Callable[[], None],
    ) -> None:
        self.path = os.path.abspath(path)
        self.profile: Profile | None = None
        self._about, self._count, self._evaluate = about, count, evaluate
        self._program, self._arguments = sys.argv[0], list(sys.argv[1:])
        self._recorder: Recorder | None = None
        self._times: dict[str, float] = {}

    def name(self, program: str, arguments: Sequence[str]) -> None:
        """What is profiled, as the file says it."""
        self._program, self._arguments = program, list(arguments)

    def __enter__(self) -> Self:
        folder = os.path.dirname(self.path)
        if not os.path.isdir(folder):
            raise ProfileError(f"{self.path}: there is no folder {folder} to write a profile to")
        self._evaluate()
        self._times = _native.times(None)
        try:
            self._recorder = Recorder(self._count)
        except RuntimeError as error:
            raise ProfileError(f"{error}; end that one first") from None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return
        self._evaluate()
        self.profile = recorder.end(self._told())
        spent = _native.times(None)
        seconds = {name: value - self._times.get(name, 0.0) for name, value in spent.items()}
        self.profile.usage = {
            "activities_s": seconds,
            "kernel_share": kernel_share(seconds),
        }
        self.profile.write(self.path)

    def _told(self) -> dict[str, Any]:
        return {
            "program": self._program,
            "arguments": self._arguments,
            "npaccel": version("npaccel"),
            "numpy": np.__version__,
            "python": platform.python_version(),
            "machine": platform.platform(),
        } | self._about()

    def __str__(self) -> str:
        if self.profile is None:
            return f"a profile that is not over yet; it will be in {self.path}"
        return profile_text.show(self.profile)

    __repr__ = __str__
