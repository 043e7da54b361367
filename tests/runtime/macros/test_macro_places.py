"""Macro sections on a device: where they run, what moves, and what is never lost.

PoCL shares the host's memory; the setting `device_memory` has it treated as if it did not.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from sections import plain_sizes, rand, same

import npaccel
from npaccel import _native
from npaccel.this_process import engine

__all__ = ["plain_sizes"]

pytestmark = [pytest.mark.pending, pytest.mark.usefixtures("opencl")]
N = 1 << 14
LIMIT = 1 << 20


@pytest.fixture(autouse=True)
def own_memory(deferred, setting, plain_sizes):
    npaccel.evaluate()
    setting("backend", "auto")
    setting("tiering", "eager")
    setting("threshold", N)
    setting("device_memory", LIMIT)
    npaccel.stats(reset=True)


@pytest.fixture
def failing(monkeypatch):
    """Nothing that failed in a test is known after it."""
    monkeypatch.setattr(engine.machines, "_devices", {})
    monkeypatch.setattr(engine.telling, "told", set())
    yield
    _native.device_inject(0)
    npaccel.macro.clear()


def _there(source):
    return npaccel.asarray(source, device="opencl:0")


def _moved():
    """Bytes to the device and back, since the last question."""
    counts = npaccel.stats(reset=True)
    return counts["uploaded_bytes"], counts["downloaded_bytes"]


def _launches(backend="opencl"):
    return npaccel.stats()["kernels_by_backend"].get(backend, 0)


def _steps(x, y):
    for _ in range(3):
        x = x * 0.5 + y
    return x


def test_placed_arguments_are_computed_with_where_they_live():
    section = npaccel.macro(_steps)
    a, b = rand(N, seed=0), rand(N, seed=1)
    x, y, expected = _there(a), _there(b), a
    for _ in range(5):
        x, expected = section(x, y), _steps(expected, b)
    assert section.stats()["recordings"] == 1 and section.stats()["replays"] == 5
    assert _launches() == 5 and _launches("llvm") == 0
    assert _moved() == (a.nbytes + b.nbytes, 0)
    same(np.asarray(x), expected)
    assert _moved() == (0, a.nbytes)


def test_host_arguments_run_on_the_host_and_placed_ones_have_a_variant_of_their_own():
    section = npaccel.macro(_steps)
    a, b = rand(N, seed=0), rand(N, seed=1)
    for x, y, place in [(a, b, "llvm"), (_there(a), b, "opencl"), (a, _there(b), "opencl")]:
        for _ in range(2):
            before = _launches(place)
            same(np.asarray(section(x, y)), _steps(a, b))
            assert _launches(place) == before + 1
    assert section.stats()["recordings"] == 2
    assert section.stats()["bodies"] == 0


@pytest.mark.usefixtures("numpys_memory")  # ours stays there, and is moved once
def test_arrays_by_other_names_count_as_arguments_do():
    weights, b = rand(N, seed=0), rand(N, seed=1)
    placed = _there(weights)

    @npaccel.macro
    def section(x):
        return x * placed + 1.0

    for _ in range(3):
        x = section(b)
    assert section.stats()["recordings"] == 1 and _launches() == 3
    assert _moved() == (weights.nbytes + 3 * b.nbytes, 0)
    same(np.asarray(x), b * weights + 1.0)
    placed[3] = 7.0
    same(np.asarray(section(b)), b * np.asarray(placed) + 1.0)


def test_a_placed_argument_that_is_not_used_is_one():
    section = npaccel.macro(lambda x, y: x * 2.0 + x)
    a, b = rand(N, seed=0), rand(N, seed=1)
    y = _there(b)
    for _ in range(2):
        same(np.asarray(section(a, y)), a * 2.0 + a)
    assert section.stats()["recordings"] == 1 and section.stats()["bodies"] == 0


def test_what_a_section_wrote_over_stays_there():
    @npaccel.macro
    def section(x, y):
        x[1000:2000] *= 2.0
        y += x

    a, b = rand(N, seed=0), rand(N, seed=1)
    x, y = _there(a), _there(b)
    for _ in range(3):
        section(x, y)
        section.__wrapped__(a, b)
    assert _moved() == (2 * a.nbytes, 0)
    same(np.asarray(y), b)
    same(np.asarray(x), a)
    assert _moved() == (0, 8000 + b.nbytes)
    y += 1.0  # on the host
    section(x, y), section.__wrapped__(a, b + 1.0)
    same(np.asarray(x), a)


def test_scalars_and_small_results_come_home():
    @npaccel.macro
    def section(x, y):
        z = x * y
        return z.sum(), z[:4] + 1.0, z

    a, b = rand(N, seed=0), rand(N, seed=1)
    x, y = _there(a), _there(b)
    for _ in range(2):
        total, few, z = section(x, y)
        assert _moved()[1] <= 8 + a.nbytes  # what was made is never read whole but for the views
        same((total, few.copy(), np.asarray(z)), ((a * b).sum(), (a * b)[:4] + 1.0, a * b))
        npaccel.stats(reset=True)
    assert section.stats()["replays"] == 2


def test_temporaries_are_made_and_forgotten_there():
    @npaccel.macro
    def section(x):
        y = np.sqrt(x)
        return (y - y.mean()) * y[::-1]

    a = rand(N)
    x = _there(a)
    for _ in range(3):
        z = section(x)
    assert _moved() == (a.nbytes, 0)
    same(np.asarray(z), section.__wrapped__(a))


@pytest.mark.usefixtures("numpys_memory")
def test_what_numpys_loops_do_in_between_comes_home_and_goes_back():
    @npaccel.macro
    def section(x):
        y = np.sqrt(x)
        return (y - 1.0).cumsum() * y  # one row: a scan of NumPy's

    a = rand(N)
    x = _there(a)
    for _ in range(3):
        z = section(x)
    assert _moved() == (4 * a.nbytes, 3 * a.nbytes)
    same(np.asarray(z), np.asarray(section.__wrapped__(a)))


def test_indices_are_looked_at_at_home_and_picked_by_there():
    @npaccel.macro
    def section(x, i):
        return x[i] * 2.0

    a, indices = rand(N), np.arange(N)[::-1].copy()
    x, i = _there(a), _there(indices)
    for _ in range(2):
        same(np.asarray(section(x, i)), a[indices] * 2.0)
    assert section.stats()["bodies"] == 0 and _launches() == 2
    indices[3] = N
    for given in (_there(indices), indices):
        with pytest.raises(IndexError, match=f"index {N} is out of bounds"):
            section(x, given)


def test_generators_draw_at_home_what_is_computed_with_there():
    def body(x, rng):
        return x + rng.standard_normal(N)

    section = npaccel.macro(body)
    a, mine, its = rand(N), np.random.default_rng(1), np.random.default_rng(1)
    x = _there(a)
    for _ in range(3):
        same(np.asarray(section(x, mine)), body(a, its))
    assert section.stats()["bodies"] == 0 and _launches() == 3


def test_without_checks():
    @npaccel.macro(boundscheck="off")
    def section(x, y):
        return x / y

    a, b = rand(N, seed=0), rand(N, seed=1) + 1
    x, y = _there(a), _there(b)
    for _ in range(3):
        same(np.asarray(section(x, y)), a / b)
    assert section.stats()["bodies"] == 0 and _launches() == 3


def test_what_is_pending_there_is_computed_first():
    section = npaccel.macro(_steps)
    a, b = rand(N, seed=0), rand(N, seed=1)
    x, y = _there(a), _there(b)
    for _ in range(2):
        pending, more = x * 2.0, y - 1.0
        same(np.asarray(section(pending, y)), _steps(a * 2.0, b))
        same(np.asarray(more), b - 1.0)
    assert _launches("llvm") == 0


def test_what_is_pending_will_live_where_it_is_computed():
    section = npaccel.macro(_steps)
    a, b = rand(N, seed=0), rand(N, seed=1)
    x, y = _there(a), _there(b)
    for _ in range(2):
        same(np.asarray(section(x * 2.0, y - 1.0)), _steps(a * 2.0, b - 1.0))
    assert section.stats()["recordings"] == 1 and _launches("llvm") == 0


@pytest.mark.parametrize("turned", [False, True])
def test_two_parts_of_one_array(turned):
    @npaccel.macro
    def section(x, y):
        x *= 2.0
        y += x[::-1]

    a, half = rand(N), N // 2
    x = _there(a)
    for _ in range(3):
        for whole, call in ((x, section), (a, section.__wrapped__)):
            parts = whole[:half], whole[half:]
            call(*parts[::-1] if turned else parts)
    assert section.stats()["bodies"] == 0
    same(np.asarray(x), a)


def test_temporaries_that_make_room_come_back():
    def body(x):
        parts = [np.sqrt(x + float(k)) for k in range(12)]  # more than there is room for
        parts = [part - part.mean() for part in parts]
        total = x * 0.0
        for part in parts:
            total = total + part[::-1] * part.max()
        for part in parts:
            total = total + part * part.min()
        return total

    section, a = npaccel.macro(body), rand(N)
    x = _there(a)
    for _ in range(2):
        same(np.asarray(section(x)), body(a))
    assert npaccel.stats()["evictions"] > 0
    assert section.stats()["bodies"] == 0


def test_indices_that_are_computed_there():
    def body(x, k):
        return x[(k * 2.0).astype(np.int64)] * 1.5

    section, a, k = npaccel.macro(body), rand(N), np.arange(N // 2) * 1.0
    x, placed = _there(a), _there(k)
    for _ in range(2):
        same(np.asarray(section(x, placed)), body(a, k))
    assert section.stats()["bodies"] == 0 and _launches("llvm") == 0
    k[7] = N
    with pytest.raises(IndexError, match=f"index {2 * N} is out of bounds"):
        section(x, _there(k))


def test_another_limit_of_memory_is_another_recording(setting):
    section, a = npaccel.macro(lambda x: np.sqrt(x) * 2.0), rand(N)
    x = _there(a)
    for limit in (LIMIT, a.nbytes * 3 // 2, LIMIT):
        setting("device_memory", limit)
        for _ in range(2):
            same(np.asarray(section(x)), np.sqrt(a) * 2.0)
    assert section.stats()["recordings"] == 3 and section.stats()["bodies"] == 0


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_computes_on_the_host():
    section, a = npaccel.macro(_steps), rand(N)
    x = _there(a)
    result = section(x, x)
    child = os.fork()
    if child == 0:
        good = np.array_equal(np.asarray(section(x, x)), _steps(a, a))
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0
    same(np.asarray(result), _steps(a, a))
    same(np.asarray(section(x, x)), _steps(a, a))


def test_warnings_are_those_of_the_body():
    @npaccel.macro
    def section(x, y):
        return x / y

    a, b = rand(N), np.ones(N)
    b[7] = 0
    x, y = _there(a), _there(b)
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match="divide by zero"):
            z = section(x, y)
        with np.errstate(divide="ignore"):
            same(np.asarray(z), a / b)


def test_explain_names_the_device():
    section = npaccel.macro(_steps)
    section(_there(rand(N)), _there(rand(N)))
    assert "opencl:0" in str(npaccel.explain(section))


def test_asked_for_a_section_runs_on_the_device_whatever_lives_where(setting):
    section = npaccel.macro(_steps)
    a, b = rand(N, seed=0), rand(N, seed=1)
    with npaccel.backend("opencl"):
        for x, y in [(a, b), (_there(a), b), (b, a)]:
            same(np.asarray(section(x, y)), _steps(b, a) if x is b else _steps(a, b))
    assert section.stats()["recordings"] == 1 and section.stats()["bodies"] == 0
    assert _launches() == 3 and _launches("llvm") == 0
    setting("backend", "opencl")
    setting("tiering", "off")
    section = npaccel.macro(_steps)
    for given in [(a, b), (b, a)]:
        same(np.asarray(section(*given)), _steps(*given))
    assert _launches() == 5 and _launches("llvm") == 0


@pytest.mark.filterwarnings("ignore::npaccel.errors.NpaccelWarning")
def test_a_failed_launch_loses_nothing(failing):
    section = npaccel.macro(_steps)
    a, b = rand(N, seed=0), rand(N, seed=1)
    x, y = _there(a), _there(b)
    x, expected = section(x, y), _steps(a, b)
    _native.device_inject(1)
    same(np.asarray(section(x, y)), _steps(expected, b))
    same(np.asarray(x), expected)


def test_what_the_host_is_not_given_back_is_told(failing):
    section, a, indices = npaccel.macro(lambda x, i: x[i] * 2.0), rand(N), np.arange(N)
    x, i = _there(a), _there(indices) + 0
    section(x, i)  # the indices come home
    i = _there(indices) + 0
    npaccel.evaluate(i)
    _native.device_inject(0, 1000)
    with pytest.raises(RuntimeError, match=r"opencl:0|on a device alone"):
        section(x, i)
    _native.device_inject(0, 0)
    same(np.asarray(section(x, i)), a[indices] * 2.0)


@pytest.mark.filterwarnings("ignore::npaccel.errors.NpaccelWarning")
def test_what_a_device_does_not_give_back_is_told(failing):
    section = npaccel.macro(_steps)
    a, b = rand(N, seed=0), rand(N, seed=1)
    y = _there(b)
    x = section(_there(a), y)
    _native.device_inject(1000, 1000)
    with pytest.raises(RuntimeError, match=r"opencl:0|on a device alone"):
        section(x, y)
    same(np.asarray(section(a, b)), _steps(a, b))
    with pytest.raises(RuntimeError, match="opencl:0"):
        x.tolist()
    _native.device_inject(0, 0)
    same(np.asarray(x), _steps(a, b))  # it was not given up
    same(np.asarray(section(x, y)), _steps(_steps(a, b), b))
