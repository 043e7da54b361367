"""Macro sections on each backend: recorded and replayed there, with what NumPy gives.

TEST_SECTIONS=c (or opencl) runs all tests of sections on it; these show which code runs.
"""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from sections import plain_sizes, rand, replayed, same

import npaccel

__all__ = ["plain_sizes"]

pytestmark = pytest.mark.pending
N = 300


@pytest.fixture(params=["llvm", "c", "opencl"])
def backend(request, deferred, setting):
    if request.param == "opencl":
        request.getfixturevalue("opencl")
    if request.param == "c" and shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    setting("tiering", "eager")
    setting("backend", request.param)
    npaccel.stats(reset=True)
    return request.param


def _ran_on(backend):
    counts = npaccel.stats(reset=True)["kernels_by_backend"]
    return counts[backend] > 0 and sum(counts.values()) == counts[backend]


def _steps(x, y, f):
    y += x * f
    z = np.sqrt(y)
    return z, z.sum(), (z * f).reshape(20, -1).max(axis=1)


def test_it_is_recorded_once_and_replayed_there(backend):
    section = npaccel.macro(_steps)
    b, e = rand(N, seed=1), rand(N, seed=1)
    for k in range(4):
        same(section(rand(N, seed=k), b, k + 0.5), _steps(rand(N, seed=k), e, k + 0.5))
        same(b, e)
    assert section.stats()["recordings"] == 1 and section.stats()["replays"] == 4
    assert section.stats()["bodies"] == 0 and _ran_on(backend)
    assert backend in str(npaccel.explain(section))


def test_generators(backend):
    def body(x, rng):
        return x * rng.standard_normal(N) + rng.random(N)

    section, mine, its = npaccel.macro(body), np.random.default_rng(1), np.random.default_rng(1)
    for k in range(3):
        same(section(rand(N, seed=k), mine), body(rand(N, seed=k), its))
    assert mine.random() == its.random()
    assert section.stats()["bodies"] == 0 and _ran_on(backend)


def test_indices(backend):
    def body(x, i):
        return x[i] * 2.0 + x.take(i[::-1])

    section, indices = npaccel.macro(body), np.random.default_rng(0).integers(-N, N, N)
    replayed(section, *[(rand(N, seed=k), indices // (k + 1)) for k in range(2)])
    assert section.stats()["bodies"] == 0 and _ran_on(backend)
    indices[5] = N
    with pytest.raises(IndexError, match=f"index {N} is out of bounds for axis 0 with size {N}"):
        section(rand(N), indices)


def test_without_checks(backend):
    @npaccel.macro(boundscheck="off")
    def section(x, i, n):
        return x[i], n // 2

    for k in range(3):
        args = rand(N, seed=k), np.arange(N)[::-1].copy(), np.arange(N) * k
        same(section(*args), section.__wrapped__(*args))
    assert section.stats()["recordings"] == 1 and section.stats()["bodies"] == 0
    assert _ran_on(backend)


def test_warnings(backend):
    section, b = npaccel.macro(lambda x, y: x / y), np.ones(N)
    b[7] = 0.0
    for k in range(2):
        with pytest.warns(RuntimeWarning, match="divide by zero encountered in divide"):
            section(rand(N, seed=k) + 1.0, b)
    assert section.stats()["bodies"] == 0 and _ran_on(backend)


def test_what_is_in_force_at_the_call_counts(backend):
    section = npaccel.macro(lambda x: np.sqrt(x) * 2.0)
    replayed(section, (rand(N, seed=0),), (rand(N, seed=1),))
    assert _ran_on(backend)
    other = "c" if backend == "llvm" else "llvm"
    if other == "c" and shutil.which("cc") is None:
        return
    with npaccel.accelerate(backend=other):
        replayed(section, (rand(N, seed=2),), (rand(N, seed=3),))
        assert _ran_on(other)
    replayed(section, (rand(N, seed=4),))
    assert section.stats()["recordings"] == 2 and _ran_on(backend)
