"""Yardsticks: how fast two arrays can be copied here with all cores and non-temporal stores, and
how many additions of doubles registers take.

The C below is compiled when asked for, for this machine. It copies in one slice per thread:

    for (i = begin; i < end; i += 64) stream(dst + i, load(src + i));
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from harness import Skip

__all__ = ["make_additions", "make_copy"]

SOURCE = r"""
#include <immintrin.h>
#include <pthread.h>
#include <stddef.h>

typedef struct { char *dst; const char *src; size_t bytes; } slice;

static void *copy_slice(void *argument) {
    slice s = *(slice *)argument;
    for (size_t i = 0; i + 64 <= s.bytes; i += 64) {
#ifdef __AVX512F__
        _mm512_stream_si512((void *)(s.dst + i), _mm512_loadu_si512(s.src + i));
#else
        for (int j = 0; j < 64; j += 16)
            _mm_stream_si128((__m128i *)(s.dst + i + j),
                             _mm_loadu_si128((const __m128i *)(s.src + i + j)));
#endif
    }
    _mm_sfence();
    return NULL;
}

/* dst aligned to 64, bytes a multiple of 64 * threads; threads at most 64 */
void copy(char *dst, const char *src, size_t bytes, int threads) {
    pthread_t id[64];
    slice part[64];
    size_t each = bytes / threads;
    for (int t = 0; t < threads; t++) {
        part[t] = (slice){dst + t * each, src + t * each, each};
        if (t) pthread_create(&id[t], NULL, copy_slice, &part[t]);
    }
    copy_slice(&part[0]);
    for (int t = 1; t < threads; t++) pthread_join(id[t], NULL);
}

#if defined __AVX512F__
enum { WIDTH = 64 };
#elif defined __AVX__
enum { WIDTH = 32 };
#else
enum { WIDTH = 16 };
#endif
typedef double lanes __attribute__((vector_size(WIDTH)));

static void *add_some(void *argument) {
    long rounds = *(long *)argument;
    lanes x[12];
#pragma GCC unroll 12
    for (int k = 0; k < 12; k++) x[k] = (lanes){k};
    for (long i = 0; i < rounds; i++)
#pragma GCC unroll 12
        for (int k = 0; k < 12; k++) {
            x[k] += 1.0;
            __asm__("" : "+x"(x[k]));
        }
#pragma GCC unroll 12
    for (int k = 1; k < 12; k++) x[0] += x[k];
    return (void *)(long)x[0][0];
}

/* How many additions it takes; 12 vectors per round and thread */
double additions(long rounds, int threads) {
    pthread_t id[64];
    for (int t = 1; t < threads; t++) pthread_create(&id[t], NULL, add_some, &rounds);
    add_some(&rounds);
    for (int t = 1; t < threads; t++) pthread_join(id[t], NULL);
    return 12.0 * (WIDTH / sizeof(double)) * rounds * threads;
}
"""


def compile_copy() -> ctypes.CDLL:
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise Skip("no C compiler for the copy")
    with tempfile.TemporaryDirectory(prefix="npaccel-bench-") as folder:
        source, library = Path(folder) / "copy.c", Path(folder) / "copy.so"
        source.write_text(SOURCE)
        command = [compiler, "-O2", "-march=native", "-shared", "-fPIC", "-pthread"]
        done = subprocess.run(
            [*command, str(source), "-o", str(library)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise Skip(f"the copy does not compile here: {done.stderr.splitlines()[0]}")
        return ctypes.CDLL(str(library))


def make_copy(size_bytes: int) -> Callable[[], None]:
    """A call that copies `size_bytes` (rounded down) between two arrays with all cores.

    It moves 2 * size_bytes. Both arrays are touched before and written again and again.
    """
    threads = min(64, len(os.sched_getaffinity(0)))
    size_bytes -= size_bytes % (64 * threads)
    library = compile_copy()
    library.copy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    source = np.ones(size_bytes, np.uint8)
    padded = np.zeros(size_bytes + 64, np.uint8)
    offset = -padded.ctypes.data % 64
    target = padded[offset : offset + size_bytes]

    def call() -> None:
        library.copy(target.ctypes.data, source.ctypes.data, size_bytes, threads)

    call()
    if not np.array_equal(source, target):
        raise Skip("the copy is wrong")
    return call


def make_additions() -> tuple[Callable[[], None], float]:
    """A call that adds doubles in registers on all cores, and how many."""
    threads, rounds = min(64, len(os.sched_getaffinity(0))), 2_000_000
    library = compile_copy()
    library.additions.argtypes = [ctypes.c_long, ctypes.c_int]
    library.additions.restype = ctypes.c_double
    return lambda: library.additions(rounds, threads), library.additions(rounds, threads)
