"""Every exception and warning class of npaccel, and what is known of a failure; imports nothing of
npaccel's."""

from __future__ import annotations

from typing import NamedTuple


class Failure(NamedTuple):
    """What is known of an error that came to light behind its operation.

    Attributes
    ----------
    error : the exception that is raised, or whose text is warned of.
    operation : NumPy's name; of a kernel that was rejected its first operation; "": unknown.
    file, line : where the program has it; "" and 0: unknown.
    shapes : of each operand, as broadcast, then of each result.
    dtypes : the same, as they are computed: "f8", "i4".
    kernel : its name; "": none, or unknown.
    backend : what runs the kernel, or was to run it; "numpy" for NumPy's own loops.
    goes_on : nothing is raised: the program continues, and values are right.
    files : what was written about it: the operations and kernels as text, source code.
    """

    error: Exception
    operation: str = ""
    file: str = ""
    line: int = 0
    shapes: tuple[tuple[int, ...], ...] = ()
    dtypes: tuple[str, ...] = ()
    kernel: str = ""
    backend: str = ""
    goes_on: bool = False
    files: tuple[str, ...] = ()

    def __str__(self) -> str:
        place = f" at {self.file}:{self.line}" if self.file else ""
        typed = zip(self.dtypes, self.shapes, strict=False)
        arrays = " ".join(f"{dtype}{list(shape)}".replace(" ", "") for dtype, shape in typed)
        run = " on ".join(filter(None, (self.kernel, self.backend)))
        what = f"{type(self.error).__name__}: {self.operation or 'unknown operation'}{place}"
        return "; ".join(filter(None, (what, arrays, run)))


class NpaccelError(Exception):
    """Base of every error that npaccel itself raises."""

    failure: Failure | None = None  # where one is known


class ConfigError(NpaccelError, ValueError):
    """A setting has a value that is not allowed; the text lists what is."""


class MapError(NpaccelError, ValueError):
    """A map does not cover its index space, or does not divide; or an array can't have one."""


class VerifyError(NpaccelError):
    """An IR program breaks a rule, or its text is none; it names the pass, or the line."""


class CompileError(NpaccelError):
    """A kernel was rejected by a compiler."""


class Unsupported(CompileError):
    """A kernel needs what a device does not have, so it runs on the host; not a failure."""


class BuildTimeout(CompileError):
    """A compiler took too long; a smaller kernel would keep the user waiting as well."""


class BackendUnavailable(NpaccelError):
    """A backend cannot be used on this machine; the text says why."""


class CheckError(NpaccelError, AssertionError):
    """Check mode found a result that differs from the reference."""


class SectionError(NpaccelError, RuntimeError):
    """A macro section did what cannot be recorded; the text names its line and the operation's."""


class ProfileError(NpaccelError):
    """A profile cannot be taken, or a file of one cannot be read; the text says why."""


class InternalError(NpaccelError):
    """A bug in npaccel; the text names the dumped IR file to report."""


class NpaccelWarning(UserWarning):
    """npaccel had to do something slower than asked; the text says what and why."""
