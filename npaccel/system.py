"""What Python lacks on some systems, and what only Linux tells: the one place that asks.

Each function does the nearest thing there is, or says that there is none. Windows has no forks, no
owners of files, no `fcntl` and no SIGKILL; macOS has all of these. What the C core lacks in its
portable build `runtime/process/guarding.py` knows.

A process forked while another thread holds a lock of another library would wait for that thread,
which it lacks. So such locks are taken before a fork, and the child finds them free. What is
pending is evaluated before: who plans it and waits for such a lock is not waited for with the lock
in hand. `before` hooks run in the order opposite to their making, so this module is imported before
`dispatch` makes its own.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from npaccel.later import later
from npaccel.own import os, time

if TYPE_CHECKING:
    import fcntl
    import re
    import resource
    import signal
else:
    fcntl, re, resource, signal = map(later, ("fcntl", "re", "resource", "signal"))

__all__ = [
    "PLAIN",
    "Descriptor",
    "at_fork",
    "hold",
    "idle",
    "last_cache_bytes",
    "lock",
    "many_files",
    "mapped_file",
    "module_path",
    "nice",
    "processor",
    "processor_features",
    "processors",
    "scheduled",
    "told_to_end",
    "user",
]

# With which files of ours are opened: as bytes, not for children, not through links.
PLAIN: Final[int] = (
    getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
)
LAST_CACHE = "/sys/devices/system/cpu/cpu0/cache/index3/size"
AUTOGROUP, AUTOGROUP_TRIES = "/proc/self/autogroup", 5
PROCESSOR, MAPPED = "/proc/cpuinfo", "/proc/self/maps"
SCHEDULED = "/proc/thread-self/schedstat"
_locks: list[AbstractContextManager[Any]] = []
_held: dict[int, ExitStack] = {}  # by threads that fork


# -------------------------------------------------------------------------------------- processes


def at_fork(**hooks: Callable[[], object]) -> None:
    """As `os.register_at_fork`. Nothing, where processes don't fork."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(**hooks)


def many_files() -> None:
    """This process may open as many as its limit can be raised to: connections are files."""
    with suppress(ImportError, OSError, ValueError):
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


@contextmanager
def told_to_end() -> Iterator[Callable[[], bool]]:
    """Whether this process was told to end, by Ctrl-C or another signal, until then; in the main
    thread.

    Ctrl-C reaches all processes of a terminal. Those that are started meanwhile inherit that it is
    blocked in the thread that starts them; a thread that was there before may still take it here.
    """
    told: list[int] = []
    names = [getattr(signal, n) for n in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, n)]
    before = [signal.signal(one, lambda number, _: told.append(number)) for one in names]
    with ExitStack() as stack:
        for one, handler in zip(names, before, strict=True):
            stack.callback(signal.signal, one, handler)
        if not hasattr(signal, "pthread_sigmask"):
            yield lambda: bool(told)
            return
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        stack.callback(signal.pthread_sigmask, signal.SIG_SETMASK, blocked)
        try:
            yield lambda: bool(told) or signal.SIGINT in signal.sigpending()
        finally:
            if signal.SIGINT in signal.sigpending():
                signal.sigwait({signal.SIGINT})


def hold(lock: AbstractContextManager[Any]) -> None:
    """Take this lock, too, before each fork from now on, and give it back in both processes."""
    if not any(lock is other for other in _locks):
        _locks.append(lock)


def _before() -> None:
    held = _held[threading.get_ident()] = ExitStack()
    for lock in tuple(_locks):
        held.enter_context(lock)


def _after() -> None:
    held = _held.pop(threading.get_ident(), None)
    if held is not None:
        held.close()


at_fork(before=_before, after_in_parent=_after, after_in_child=_after)


def nice(own: int, group: int) -> None:
    """Lower this process's priority by `own`, and set that of its scheduling group."""
    if hasattr(os, "nice"):
        with suppress(OSError):
            os.nice(own)
    # A session of its own is a scheduling group of its own (autogroup), which gets as much as the
    # user's process: niceness counts within a group, and a group has its own.
    for _ in range(AUTOGROUP_TRIES):
        try:
            with open(AUTOGROUP, "w") as file:
                file.write(str(group))
            return
        except BlockingIOError:  # ten a second, of all users
            time.sleep(0.1)
        except OSError:  # there are no such groups here
            return


def idle(thread: int, group: int) -> None:
    """Have a thread of ours run when nobody else wants the processor."""
    if hasattr(os, "SCHED_IDLE"):
        with suppress(OSError):  # the lowest priority will have to do
            os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))
    with suppress(OSError), open(AUTOGROUP, "w") as file:
        file.write(str(group))


# ------------------------------------------------------------------------------------------ files


def user() -> int | None:
    """This user's number, as files have it; None where files have no owners, and their modes say
    nothing of who may write them."""
    return os.geteuid() if hasattr(os, "geteuid") else None


def lock(descriptor: int) -> bool:
    """Lock a file while it is open here; False: another process has it locked, or nothing can be
    locked."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (OSError, ImportError):
        return False
    return True


class Descriptor:
    """A descriptor that stays open: a program may close all that there are, and from then on have
    files of its own under their numbers, which nobody here must touch."""

    def __init__(self, number: int = -1) -> None:
        self._number = number
        self._file = self._named()

    def _named(self) -> tuple[int, int] | None:
        try:
            status = os.fstat(self._number)
        except OSError:
            return None
        return status.st_dev, status.st_ino

    @property
    def number(self) -> int:
        """-1 if it is not ours any more."""
        ours = self._file is not None and self._named() == self._file
        return self._number if ours else -1

    def close(self) -> None:
        """Once; then it is nobody's."""
        if self.number >= 0:
            os.close(self._number)
        self._file = None


def module_path() -> list[str]:
    """Where modules are, the program's folder last: other processes of ours want Python's `queue`,
    not the program's."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    own = {"", os.path.dirname(os.path.realpath(file)) if file else ""}
    with suppress(OSError):  # it was removed
        own.add(os.getcwd())
    path = [str(entry) for entry in sys.path]
    return [entry for entry in path if entry not in own] + [entry for entry in path if entry in own]


def mapped_file(pattern: bytes) -> str:
    """The path of a file that is mapped here, such as a library; '' if none is known."""
    try:
        with open(MAPPED, "rb") as file:
            found = re.search(pattern, file.read(), re.MULTILINE)
    except OSError:
        return ""
    return os.fsdecode(found[0]) if found else ""


# ------------------------------------------------------------------------------------ processors


def processors() -> int:
    """How many this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processor() -> str:
    """The first one's name as its maker gives it; '' where the system does not tell."""
    return _told("model name")


def processor_features() -> frozenset[str]:
    """The first one's, as Linux calls them; none where it does not tell."""
    return frozenset(_told("flags").split())


def scheduled() -> tuple[float, float]:
    """Seconds that this thread has run, and that it has waited for a processor, as Linux counts."""
    try:
        with open(SCHEDULED, encoding="ascii") as file:
            ran, waited, *_ = map(int, file.read().split())
    except (OSError, ValueError):
        return 0.0, 0.0
    return 1e-9 * ran, 1e-9 * waited


def last_cache_bytes() -> int:
    """The third-level cache's size; 0 where the system does not tell."""
    try:
        with open(LAST_CACHE, "rb") as file:
            return int(file.read().strip().removesuffix(b"K")) << 10
    except (OSError, ValueError):
        return 0


def _told(key: str) -> str:
    try:
        with open(PROCESSOR) as file:
            found = re.search(rf"^{key}\s*:(.*)$", file.read(), re.MULTILINE)
    except OSError:
        return ""
    return found[1].strip() if found else ""
