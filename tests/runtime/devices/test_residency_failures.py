"""Launches and transfers that fail: what can be kept is, and what is lost is told."""

import numpy as np
import pytest
from own_memory import LIMIT, NUMBERED, ROOM, N, halved_sum, numbers, on_device

import npaccel
from npaccel import _native
from npaccel.this_process import engine

pytestmark = [pytest.mark.pending, pytest.mark.usefixtures("device", "little_memory")]


@pytest.fixture
def failing(monkeypatch):
    """A function after which the device gives nothing back, nor launches anything."""
    monkeypatch.setattr(engine.machines, "_devices", {})
    monkeypatch.setattr(engine.telling, "told", set())
    yield lambda: _native.device_inject(1000, 1000)
    _native.device_inject(-1)
    engine.traces.clear()


def is_lost(x):
    with pytest.raises(RuntimeError, match=rf"shape \(.*float64.* {NUMBERED} alone, which failed"):
        x.tolist()
    return True


@pytest.mark.parametrize("failed", [(1, 0, 0, 2), (0, 1), (0, 0, 1)])
@pytest.mark.filterwarnings("ignore::npaccel.errors.NpaccelWarning")
def test_parts_that_a_device_does_not_do_are_the_hosts(failing, failed):
    a = numbers(0, 4 * N * ROOM)
    x = on_device(a)
    _native.device_inject(*failed)
    y = npaccel.evaluate(halved_sum(x, x))
    np.testing.assert_array_equal(np.asarray(y), halved_sum(a, a))
    (step,) = npaccel.explain().steps
    assert step.backend == "llvm" and "a launch failed" in step.reason


@pytest.mark.filterwarnings("ignore::npaccel.errors.NpaccelWarning")
def test_parts_over_what_they_read_go_on_where_the_device_failed(failing):
    a = numbers(0, 4 * N * ROOM)
    x = npaccel.evaluate(on_device(a) * 2.0)
    _native.device_inject(1, 0, 0, 2)
    x *= 0.25
    npaccel.evaluate()
    np.testing.assert_array_equal(np.asarray(x), a * 2.0 * 0.25)
    _native.device_inject(0, 1)
    engine.traces.clear()
    x *= 0.25  # a part's result came home in part
    with pytest.raises(RuntimeError, match=NUMBERED):
        npaccel.evaluate(x)
        x.tolist()


@pytest.mark.parametrize("limit", [LIMIT, 0])
@pytest.mark.filterwarnings("ignore::npaccel.errors.NpaccelWarning")
def test_a_kernel_that_failed_when_it_had_begun_is_not_run_on_what_it_left(failing, limit):
    npaccel.config.device_memory = limit
    a, b = numbers(0), numbers(1)
    x, y = npaccel.evaluate(halved_sum(on_device(a), on_device(b))), on_device(b)
    _native.device_inject(0, 0, 1)
    z = npaccel.evaluate(halved_sum(y, y))  # over nothing
    np.testing.assert_array_equal(np.asarray(z), halved_sum(b, b))
    engine.traces.clear()
    _native.device_inject(0, 0, 1)
    x *= 0.5
    assert is_lost(x)
    np.testing.assert_array_equal(np.asarray(halved_sum(y, z)), halved_sum(b, halved_sum(b, b)))
    assert is_lost(x)


def test_a_failed_launch_loses_nothing(monkeypatch):
    monkeypatch.setattr(engine.telling, "told", set())  # it is told once
    a, b = numbers(0), numbers(1)
    x = npaccel.evaluate(halved_sum(on_device(a), on_device(b)))
    _native.device_inject(1)
    with pytest.warns(npaccel.errors.NpaccelWarning, match="launch failed"):
        y = npaccel.evaluate(halved_sum(x, x))
    expected = halved_sum(a, b)
    np.testing.assert_array_equal(np.asarray(y), halved_sum(expected, expected))
    np.testing.assert_array_equal(np.asarray(x), expected)


@pytest.mark.filterwarnings("ignore::npaccel.errors.NpaccelWarning")
def test_what_needs_lost_data_fails_and_all_else_goes_on(failing):
    a, b = numbers(0), numbers(1)
    x = npaccel.evaluate(halved_sum(on_device(a), on_device(b)))
    plain = npaccel.asarray(b)
    y, z, w = halved_sum(x, x), plain * 2.0, plain + 3.0
    u, v = np.sqrt(y), w * z
    failing()
    np.testing.assert_array_equal(np.asarray(z), b * 2.0)
    np.testing.assert_array_equal(np.asarray(v), (b + 3.0) * (b * 2.0))
    assert is_lost(y) and is_lost(u) and is_lost(u)
    with pytest.raises(
        RuntimeError, match=f"lies on {NUMBERED} alone, which does not give it back"
    ):
        x.tolist()
    t = x * 3.0  # recorded as ever
    np.testing.assert_array_equal(np.asarray(plain - 1.0), b - 1.0)
    assert is_lost(t) and is_lost(t[1:5] + 1.0)
    with pytest.raises(RuntimeError, match=NUMBERED):
        float(y.sum())
    _native.device_inject(0, 0)
    np.testing.assert_array_equal(np.asarray(x), halved_sum(a, b))  # it was not given up
    assert is_lost(y)


@pytest.mark.filterwarnings("ignore::npaccel.errors.NpaccelWarning")
def test_of_requests_that_share_a_kernel_only_those_that_need_it_are_lost(failing):
    a, b = numbers(0), numbers(1)
    x = npaccel.evaluate(halved_sum(on_device(a), on_device(b)))
    plain = npaccel.asarray(b)
    with npaccel.backend("llvm"):  # one kernel for both
        y, z = x * 2.0, plain * 2.0
        failing()
        npaccel.evaluate()
        np.testing.assert_array_equal(np.asarray(z), b * 2.0)
        assert is_lost(y)


@pytest.mark.usefixtures("little_memory", "numpys_memory")
@pytest.mark.filterwarnings("ignore::npaccel.errors.NpaccelWarning")
def test_what_was_to_be_written_over_with_lost_data_is_not_shown(failing):
    a, b = numbers(0), numbers(1)
    x = npaccel.evaluate(halved_sum(on_device(a), on_device(b)))
    out, mine, foreign = npaccel.evaluate(npaccel.asarray(b) * 1.0), np.zeros(N), np.zeros(N)
    np.asarray(out)
    out += x
    part = out[:10]
    failing()
    assert is_lost(out) and is_lost(part)
    with pytest.raises(RuntimeError, match=f"{NUMBERED}|on a device alone"):
        np.add(x, b, out=foreign)
        np.asarray(foreign)
    with pytest.raises(RuntimeError, match=f"{NUMBERED}|on a device alone"):
        npaccel.asarray(mine)[:] = x
    assert not mine.any()
