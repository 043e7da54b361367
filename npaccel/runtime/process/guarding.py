"""Whether results may stay pending past a call, and why not: then all is left to NumPy."""

from __future__ import annotations

import errno
import os
import sys

from npaccel import _native

__all__ = ["UNGUARDED", "has_lock", "why_unguarded"]

REMEDIES = {
    errno.ENOMEM: "the address space is limited, see ulimit -v",
    errno.ENOSYS: "this system's memory pages are not of 4 KiB",
    errno.EPERM: "a sandbox forbids to move memory pages, or to start threads",
    errno.EAGAIN: "no thread could be started, or another fault handler insists on being first",
}
UNGUARDED = "nothing is recorded, NumPy computes everything"
NO_LOCK = "this Python runs without its global lock, which is not supported; PYTHON_GIL=1 has it"


def has_lock() -> bool:
    """Whether Python has its global lock. Free-threaded ones take it up when they import the core,
    unless they were told not to."""
    asked = getattr(sys, "_is_gil_enabled", None)  # from Python 3.13 on
    return asked is None or bool(asked())


def why_unguarded(setting: str, error: int) -> str:
    """A few words; empty where pending memory is guarded.

    Parameters
    ----------
    setting : `npaccel.config.guard`.
    error : the errno that setting it up ended with, or 0.
    """
    if setting == "off":
        return "as set"
    if not has_lock():
        return NO_LOCK
    if error:
        why = f"{errno.errorcode.get(error, error)}: {os.strerror(error)}"
        return f"{why} ({REMEDIES[error]})" if error in REMEDIES else why
    if not _native.guarded():
        return "its handler of SIGSEGV does not stay in front, or its thread does not start"
    return ""
