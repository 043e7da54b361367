"""Whether results may stay pending past a call, and why not: then all is left to NumPy. And what
the portable build of the core lacks: the one place that decides."""

from __future__ import annotations

import errno
import sys

from npaccel import _native
from npaccel.config import preloads
from npaccel.own import os

__all__ = [
    "UNGUARDED",
    "build",
    "why_aside",
    "why_no_helper",
    "why_no_kernels",
    "why_unguarded",
]

REMEDIES = {
    errno.ENOMEM: "the address space is limited, see ulimit -v",
    errno.ENOSYS: "this system's memory pages are not of 4 KiB",
    errno.EPERM: "a sandbox forbids to move memory pages, or to start threads",
    errno.EAGAIN: "no thread could be started, or another fault handler insists on being first",
}
UNGUARDED = "nothing is recorded, NumPy computes everything"
NO_GUARD = "the portable build of npaccel can't protect memory"
NO_KERNELS = "the portable build of npaccel loads no machine code, and records nothing to compile"
NO_HELPER = "the portable build of npaccel starts no process"
LINUX = "for Linux, which has everything"
PORTABLE = (
    "portable: C11 and threads, as for systems that are not Linux. It can't protect memory, so "
    "nothing stays pending; it loads no machine code, so there are no kernels and no devices; it "
    "starts no helper process and no cluster. NumPy computes everything: right, and not faster"
)
NO_LOCK = "this Python runs without its global lock, which is not supported; PYTHON_GIL=1 has it"


# Its `malloc` and `free` ask Python for its line: a thread of ours would wait for the lock that
# the thread has which waits for it.
SCALENE = (
    "Scalene's profile of memory has each thread that allocates take Python's lock, which threads "
    "of npaccel must not wait for; scalene --cpu-only has npaccel as it is"
)


def why_aside() -> str:
    """Why threads of npaccel can't do anything here, so that there are none; empty where they can.

    Free-threaded Pythons take the global lock up when they import the core, unless they were told
    not to.
    """
    asked = getattr(sys, "_is_gil_enabled", None)  # from Python 3.13 on
    if asked is not None and not asked():
        return NO_LOCK
    return SCALENE if preloads("libscalene") else ""


def build() -> str:
    """Which build of the core this is, and what it lacks, in words."""
    return PORTABLE if _native.portable() else LINUX


def why_no_kernels() -> str:
    """Why no backend but NumPy's loops can run anything; empty where they can."""
    return NO_KERNELS if _native.portable() else ""


def why_no_helper() -> str:
    """Why no helper process can be started; empty where that is tried."""
    return NO_HELPER if _native.portable() else ""


def why_unguarded(setting: str, error: int) -> str:
    """A few words; empty where pending memory is guarded.

    Parameters
    ----------
    setting : `npaccel.config.guard`.
    error : the errno that setting it up ended with, or 0.
    """
    if setting == "off":
        return "as set"
    if aside := why_aside():
        return aside
    if _native.portable():
        return NO_GUARD
    if error:
        why = f"{errno.errorcode.get(error, error)}: {os.strerror(error)}"
        return f"{why} ({REMEDIES[error]})" if error in REMEDIES else why
    if not _native.guarded():
        return "its handler of SIGSEGV does not stay in front, or its thread does not start"
    return ""
