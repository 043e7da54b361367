"""`npaccel.stats` against what was really launched."""

from __future__ import annotations

import numpy as np
import pytest

import npaccel
from npaccel import _native

pytestmark = pytest.mark.usefixtures("deferred")
N = 100_000
NAMED = {
    "requests",
    "flushes",
    "kernels",
    "kernels_by_backend",
    "compiles",
    "fallbacks",
    "dead_requests",
    "bytes_read",
    "bytes_written",
    "guard_faults",
}


def test_every_count_is_there_and_documented() -> None:
    counts = npaccel.stats()
    assert set(counts) >= NAMED
    for name in counts:
        assert name in npaccel.stats.__doc__, f"{name} is not explained in the docstring"


def test_kernels_and_bytes_against_the_launches(launches) -> None:
    a = npaccel.asarray(np.linspace(0.0, 1.0, N))
    b = npaccel.asarray(np.linspace(1.0, 2.0, N))
    npaccel.stats(reset=True)
    for _ in range(3):
        c = (a * 2 + b) * 3
        npaccel.evaluate(c)
        d = np.sqrt(c)
        npaccel.evaluate(d)
    counts = npaccel.stats()
    assert counts["kernels"] == launches.kernels == 6
    assert counts["kernels_by_backend"] == {"llvm": 6}
    assert launches.elements == 6 * N
    assert counts["bytes_read"] == 3 * (2 + 1) * 8 * N
    assert counts["bytes_written"] == 3 * (1 + 1) * 8 * N
    assert (counts["requests"], counts["flushes"]) == (12, 6)
    assert (counts["kernel_requests"], counts["native_requests"]) == (12, 0)


def test_compiles_dead_requests_and_plans() -> None:
    a = npaccel.asarray(np.linspace(0.0, 1.0, N))
    npaccel.evaluate(np.arctan(a - 0.25) * 7.5)
    npaccel.stats(reset=True)
    for i in range(3):
        dead = np.negative(a)
        live = np.arctan(a - i) * 7.5
        del dead
        npaccel.evaluate(live)
    counts = npaccel.stats()
    assert counts["dead_requests"] == 3
    assert counts["compiles"] == 0  # the kernel was there from before
    assert (counts["plan_hits"], counts["plan_misses"]) == (2, 1)


def test_reset_begins_again() -> None:
    a = npaccel.asarray(np.linspace(0.0, 1.0, N))
    raw = _native.view_plain(a + 1)
    assert raw[3] > 1.0
    np.fft.fft(a)
    before = npaccel.stats(reset=True)
    assert before["requests"] > 0 and before["fallbacks"] > 0 and before["guard_faults"] > 0
    after = npaccel.stats()
    assert {name: after[name] for name in NAMED if name != "kernels_by_backend"} == dict.fromkeys(
        NAMED - {"kernels_by_backend"}, 0
    )
    assert sum(after["kernels_by_backend"].values()) == 0
