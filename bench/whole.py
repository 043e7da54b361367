"""Runs commands as whole processes: wall time, processor time, what they printed."""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fresh import fetch_memory

__all__ = ["PYTHON", "Process", "accelerated", "busy", "empty_cache", "geometric", "process"]

LIMIT_S = 600
LINGER_S, HELPER, SET_CHILD_SUBREAPER = 30, b"runtime/helper/start.py", 36
PYTHON = (sys.executable,)
COMMAND = Path(sys.executable).with_name("npaccel")


@dataclass(frozen=True)
class Process:
    """What one process took and said. `cpu_s`: user and system time, children that it waited for
    included."""

    wall_s: float
    cpu_s: float
    status: int
    output: str
    errors: str

    @property
    def last_error(self) -> str:
        return (self.errors.strip() or f"exit status {self.status}").splitlines()[-1]


def process(command: list[str], environment: dict[str, str]) -> Process:
    """Run a command to its end, and wait for what it leaves compiling. Its output goes to files, so
    that a process which it leaves behind holds nobody up."""
    fetch_memory()
    ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        start = time.perf_counter()
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, env=environment
        )
        alarm = threading.Timer(LIMIT_S, child.kill)
        alarm.start()
        _, status, usage = os.wait4(child.pid, 0)
        wall_s = time.perf_counter() - start
        alarm.cancel()
        child.returncode = os.waitstatus_to_exitcode(status)
        end = time.monotonic() + LINGER_S
        while _helpers() and time.monotonic() < end:  # as when somebody runs it again later
            time.sleep(0.02)
        texts = []
        for file in (output, errors):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    cpu_s = usage.ru_utime + usage.ru_stime
    return Process(wall_s, cpu_s, child.returncode, texts[0], texts[1])


def _helpers() -> list[int]:
    """Processes that were left behind to compile: our children, as `process` adopts orphans."""
    found: list[int] = []
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError):  # a thread that has ended meanwhile
            children = (task / "children").read_text().split()
            found += [
                int(pid) for pid in children if HELPER in Path("/proc", pid, "cmdline").read_bytes()
            ]
    return found


def accelerated() -> list[str]:
    """The command that runs a script under npaccel."""
    return [str(COMMAND), "run"] if COMMAND.exists() else [*PYTHON, "-m", "npaccel", "run"]


@contextlib.contextmanager
def empty_cache(environment: dict[str, str]) -> Iterator[dict[str, str]]:
    """The environment with a cache folder of its own, empty at first and deleted in the end."""
    with tempfile.TemporaryDirectory(prefix="npaccel-bench-", ignore_cleanup_errors=True) as folder:
        yield environment | {"NPACCEL_CACHE_DIR": os.path.join(folder, "cache")}


@contextlib.contextmanager
def busy(count: int) -> Iterator[None]:
    """While open, `count` processes take all of the processor that they can get."""
    others = [subprocess.Popen([*PYTHON, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def geometric(values: list[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, values))) if values else math.nan
