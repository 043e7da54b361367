"""Code of others that reads or writes arrays: a Cython module, a C library, a Numba function."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.util
import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
# Where what is built is kept, for all processes of one test run.
BUILT = os.environ.get("TEST_BUILT", "")

C_SOURCE = """
#include <pthread.h>
struct part { double *p; long n; double factor, sum; };
static void *add(void *arg)
{
    struct part *t = arg;
    for (long i = 0; i < t->n; i++) t->sum += t->p[i];
    return 0;
}
static void *scale(void *arg)
{
    struct part *t = arg;
    for (long i = 0; i < t->n; i++) t->p[i] *= t->factor;
    return 0;
}
static int in_threads(void *(*work)(void *), struct part *t, int threads)
{
    pthread_t id[8];
    for (int i = 0; i < threads; i++)
        if (pthread_create(&id[i], 0, work, &t[i])) return -1;
    for (int i = 0; i < threads; i++) pthread_join(id[i], 0);
    return 0;
}
int sums(double *p, long n, int threads, double *out)
{
    struct part t[8];
    for (int i = 0; i < threads; i++)
        t[i] = (struct part){p + n / threads * i, n / threads, 0, 0};
    int status = in_threads(add, t, threads);
    for (int i = 0; i < threads; i++) out[i] = t[i].sum;
    return status;
}
int scales(double *p, long n, int threads, double factor)
{
    struct part t[8];
    for (int i = 0; i < threads; i++)
        t[i] = (struct part){p + n / threads * i, n / threads, factor, 0};
    return in_threads(scale, t, threads);
}
"""


def unmet(need: str) -> bool:
    """Whether what a test needs (a module, a program) is missing."""
    if need == "gcc":
        return subprocess.run(["which", "gcc"], capture_output=True, check=False).returncode != 0
    if need == "Cython":
        header = Path(sysconfig.get_path("include")) / "Python.h"
        return unmet("gcc") or not header.exists() or importlib.util.find_spec(need) is None
    return bool(need) and importlib.util.find_spec(need) is None


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    if BUILT:
        yield Path(BUILT)
        return
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@functools.cache
def c_library(*, keep_gil: bool) -> Any:
    """`sums` and `scales` of C_SOURCE, in threads of their own."""
    with folder() as where:
        library = where / f"foreign_{os.getpid()}.so"
        subprocess.run(
            ["gcc", "-O1", "-shared", "-fPIC", "-pthread", "-x", "c", "-", "-o", str(library)],
            input=C_SOURCE,
            text=True,
            check=True,
        )
        loaded: Any = (ctypes.PyDLL if keep_gil else ctypes.CDLL)(str(library))
    loaded.scales.argtypes = [ctypes.c_void_p, ctypes.c_long, ctypes.c_int, ctypes.c_double]
    loaded.sums.argtypes = [ctypes.c_void_p, ctypes.c_long, ctypes.c_int, ctypes.c_void_p]
    return loaded


def build_cython(where: Path) -> Path:
    """Compile cython_module.pyx into the folder, unless it is there."""
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    library, source = where / f"cython_module{suffix}", where / "cython_module.c"
    if not library.exists():
        command = [sys.executable, "-m", "cython", str(HERE / "cython_module.pyx"), "-o"]
        subprocess.run([*command, str(source)], check=True, capture_output=True)
        include = f"-I{sysconfig.get_path('include')}"
        command = ["gcc", "-O1", "-w", "-shared", "-fPIC", include, str(source), "-o", str(library)]
        subprocess.run(command, check=True, capture_output=True)
    return library


@functools.cache
def cython_module() -> Any:
    with folder() as where:
        spec = importlib.util.spec_from_file_location("cython_module", build_cython(where))
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


@functools.cache
def numba_total() -> Any:
    import numba

    @numba.njit(nogil=True)  # type: ignore[untyped-decorator]
    def total(a: Any) -> float:
        s = 0.0
        for row in range(a.shape[0]):
            for column in range(a.shape[1]):
                s += a[row, column]
        return s

    return total


@functools.cache
def numba_scale(*, nogil: bool) -> Any:
    import numba

    @numba.njit(nogil=nogil)  # type: ignore[untyped-decorator]
    def scale(a: Any, factor: float) -> None:
        for row in range(a.shape[0]):
            for column in range(a.shape[1]):
                a[row, column] *= factor

    return scale
