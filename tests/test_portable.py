"""What does not need Linux: the half of the system's room for any system, which is compiled
wherever there is a C compiler; and Python's modules, which ask one of them what the system has."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import npaccel
from npaccel import _native
from npaccel.caches.store import Store

PACKAGE = Path(__file__).parents[1] / "npaccel"
NATIVE = PACKAGE / "native"
COMPILER = shutil.which("cc")
FILES = [
    *sorted((NATIVE / "system").glob("*.c")),
    *sorted((NATIVE / "system" / "portable").glob("*.c")),
    NATIVE / "system" / "processor" / "plain.c",
]


@pytest.mark.skipif(COMPILER is None, reason="no C compiler")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_portable_files_compile(path: Path) -> None:
    """Without a word of warning, nothing of Linux being declared that C11 and POSIX have not."""
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-DNPA_PORTABLE", f"-I{NATIVE}"]
    found = subprocess.run(
        [COMPILER or "", *flags, "-fsyntax-only", path], capture_output=True, text=True, check=False
    )
    assert (found.returncode, found.stderr) == (0, "")


def test_there_are_such_files() -> None:
    assert len(FILES) >= 6 and all(path.exists() for path in FILES)


# What Windows lacks: Python's modules, and names of `os` and `signal`. macOS lacks the schedulers.
MODULES = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"}
OF_OS = """
 O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK F_LOCK F_TLOCK F_ULOCK SCHED_BATCH SCHED_IDLE WNOHANG
 chown fchmod fchown fork forkpty getegid geteuid getgid getloadavg getpgid getpriority getuid
 killpg lchown lockf memfd_create mkfifo nice pidfd_open posix_fadvise posix_fallocate posix_spawn
 posix_spawnp pread preadv pwrite pwritev register_at_fork sched_getaffinity sched_param
 sched_setaffinity sched_setscheduler sched_yield setpgid setpriority setsid statvfs sysconf uname
 wait wait3 wait4 waitid
"""
OF_SIGNAL = """
    SIGALRM SIGBUS SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGPROF SIGQUIT SIGSTOP SIGUSR1 SIGUSR2
    SIGXCPU SIG_BLOCK SIG_SETMASK alarm pthread_kill pthread_sigmask setitimer sigwait
"""
NAMES = {"os": set(OF_OS.split()), "signal": set(OF_SIGNAL.split())}
FOLDERS = ("/proc/", "/sys/", "/dev/")  # that Linux has


def system_problems(source: str) -> Iterator[str]:
    """What a module may not use or import, from anywhere in it."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names):
                yield from MODULES.intersection(alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names):
                yield from MODULES.intersection([module])
                yield from NAMES.get(module, set()).intersection(a.name for a in names)
            case ast.Call(ast.Name("later"), [ast.Constant(str(module))]) if module in MODULES:
                yield module
            case ast.Attribute(ast.Name(module), name) if name in NAMES.get(module, ()):
                yield f"{module}.{name}"
            case ast.Constant(str(text)) if text.startswith(FOLDERS):
                yield text


def test_one_module_knows_what_systems_lack() -> None:
    found = {
        f"{path.relative_to(PACKAGE)}: {problem}"
        for path in PACKAGE.rglob("*.py")
        if path != PACKAGE / "system.py"
        for problem in system_problems(path.read_text())
    }
    assert found == set()
    assert set(system_problems((PACKAGE / "system.py").read_text())) > {"fcntl"}


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("import fcntl", "fcntl"),
        ("def f():\n    from resource import getrlimit", "resource"),
        ("from os import fork", "fork"),
        ("fcntl = later('fcntl')", "fcntl"),
        ("os.kill(pid, signal.SIGKILL)", "signal.SIGKILL"),
        ("open('/proc/self/maps')", "/proc/self/maps"),
        ("os.getpid(); signal.SIGINT; import mmap", None),
    ],
)
def test_the_rule_of_systems(source: str, problem: str | None) -> None:
    assert list(system_problems(source)) == ([problem] if problem else [])


# Other modules look at `os` when they are imported.
AS_ON_WINDOWS = f"""
import concurrent.futures, logging, multiprocessing, os, random, shutil, signal, subprocess, sys
import tempfile, threading, numpy as np
if not sys.warnoptions:
    import warnings
    warnings.simplefilter("error")
for module, names in {NAMES!r}.items():
    for name in names:
        vars(sys.modules[module]).pop(name, None)
sys.modules.update(dict.fromkeys({MODULES!r} - {{"posix"}}))
import npaccel
from npaccel import _native
x = npaccel.asarray(np.arange(100_000.0))
with npaccel.accelerate:
    assert (np.exp(-x) * 2).sum() == (np.exp(-np.arange(100_000.0)) * 2).sum()
section = npaccel.macro(lambda x: x * 2)
assert section(x)[7] == section(x)[7] == 14.0
assert "off" in str(npaccel.explain())
from npaccel.caches.store import Store
store = Store(sys.argv[1], 1 << 20, print)
assert store.put("ab" * 32, b"\\r\\n\\x1a") and store.get("ab" * 32) == b"\\r\\n\\x1a"
assert store.claim("claim") is None
print(npaccel.stats()["kernels"])
"""


def test_python_needs_nothing_that_windows_lacks(tmp_path: Path) -> None:
    """Without the guard, as there. NumPy and Python's own modules are not judged."""
    words = [sys.executable, "-c", AS_ON_WINDOWS, str(tmp_path / "store")]
    found = subprocess.run(
        words,
        env=os.environ | {"NPACCEL_GUARD": "off", "NPACCEL_CACHE_DIR": str(tmp_path / "cache")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (found.returncode, found.stdout, found.stderr) == (0, "0\n", "")
    # Another process finds the same there, on a system where files have owners.
    assert Store(str(tmp_path / "store"), 1 << 20, print).get("ab" * 32) == b"\r\n\x1a"


def test_which_build_this_is_is_told() -> None:
    assert ("portable" in npaccel.devices().build) is _native.portable()


@pytest.mark.skipif(not _native.portable(), reason="this is not the portable build")
def test_the_portable_build_says_what_it_lacks() -> None:
    words = "import npaccel as na; print(na.devices()); na.backend('opencl').__enter__()"
    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", words], capture_output=True, text=True, check=False
    )
    assert "portable: C11 and threads" in found.stdout and "unavailable" in found.stdout
    assert "the portable build of npaccel loads no machine code" in found.stderr
