"""Whether results may stay pending past a call, and why not: then all is left to NumPy."""

from __future__ import annotations

import errno
import os

from npaccel import _native

__all__ = ["UNGUARDED", "why_unguarded"]

REMEDIES = {
    errno.ENOMEM: "the address space is limited, see ulimit -v",
    errno.ENOSYS: "this system's memory pages are not of 4 KiB",
    errno.EPERM: "a sandbox forbids to move memory pages, or to start threads",
    errno.EAGAIN: "no thread could be started, or another fault handler insists on being first",
}
UNGUARDED = "nothing is recorded, NumPy computes everything"


def why_unguarded(setting: str, error: int) -> str:
    """A few words; empty where pending memory is guarded.

    Parameters
    ----------
    setting : `npaccel.config.guard`.
    error : the errno that setting it up ended with, or 0.
    """
    if setting == "off":
        return "as set"
    if error:
        why = f"{errno.errorcode.get(error, error)}: {os.strerror(error)}"
        return f"{why} ({REMEDIES[error]})" if error in REMEDIES else why
    if not _native.guarded():
        return "its handler of SIGSEGV does not stay in front, or its thread does not start"
    return ""
