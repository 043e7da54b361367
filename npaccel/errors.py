"""Every exception and warning class of npaccel; imports nothing."""

from __future__ import annotations


class NpaccelError(Exception):
    """Base of every error that npaccel itself raises."""


class ConfigError(NpaccelError, ValueError):
    """A setting has a value that is not allowed; the text lists what is."""


class ViewError(NpaccelError):
    """A view cannot be expressed as (offset, shape, strides) in elements."""


class VerifyError(NpaccelError):
    """An IR program breaks a rule; the text names the pass that made it."""


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
