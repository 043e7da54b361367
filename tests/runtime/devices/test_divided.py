"""Steps that the host and a device do together: the same bits, whatever each does of them."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from own_memory import numbers

import npaccel
from npaccel import _native
from npaccel.this_process import engine

pytestmark = [pytest.mark.pending, pytest.mark.usefixtures("opencl")]
N = 100_003


@pytest.fixture(params=["shared", "apart"], autouse=True)
def divided(request):
    """Whatever a device runs is divided; it has the host's memory, or its own."""
    if request.param == "shared" and not engine.machines.shares("opencl"):
        pytest.skip("the device has memory of its own")
    names = ("tiering", "threshold", "device_memory", "backend", "check", "divide")
    before = {name: getattr(npaccel.config, name) for name in names}
    npaccel.evaluate()
    npaccel.config.tiering, npaccel.config.threshold = "eager", 0
    npaccel.config.check, npaccel.config.divide = "off", "on"
    npaccel.config.device_memory = 1 << 26 if request.param == "apart" else 0
    npaccel.config.backend = "opencl"
    engine.traces.clear()
    yield request.param
    npaccel.evaluate()
    for name, value in before.items():
        setattr(npaccel.config, name, value)
    engine.traces.clear()


def how():
    return [step.reason for step in npaccel.explain().steps]


def run(work, sources):
    """Its results, and what it made of its arguments."""
    arrays = [npaccel.asarray(source.copy()) for source in sources]
    found = work(*arrays)
    found = [*(found if isinstance(found, tuple) else (found,)), *arrays]
    npaccel.evaluate(*found)
    return found


def compare(work, *sources, divides=True):
    """On both sides, anew and once speeds are known, and by the host alone."""
    with npaccel.backend("llvm"):
        expected = [np.asarray(a).copy() for a in run(work, sources)]
    for anew in (True, False):
        found = run(work, sources)
        assert not anew or any("divided: " in reason for reason in how()) == divides, how()
        for mine, theirs in zip(found, expected, strict=True):
            np.testing.assert_array_equal(np.asarray(mine), theirs, strict=True)


def _in_place(x, y):
    x *= y
    x += 1.0


def _strided(x, y):
    x[::2, 1:] = y[1::2, 1:] * 3.0


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "work",
    [
        lambda x, y: x * y + 1.0,
        lambda x, y: (np.exp(x), x > y),
        _in_place,
        lambda x, y: x[1:] - x[:-1],
        lambda x, y: x[::-1] + y,
        lambda x, y: np.multiply(x, 1j) + y,
    ],
)
def test_rows_of_elements(work):
    compare(work, numbers(0, N), numbers(1, N))


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "work",
    [
        lambda x, y: x.sum(axis=1) + y.mean(axis=1),
        lambda x, y: x.sum(axis=0),
        lambda x, y: np.exp(x - x.max(axis=1, keepdims=True)),
        lambda x, y: x.T + y.T * 2.0,
        lambda x, y: x + y[0],
        lambda x, y: (x[:, None, :7] * y[None, :40, :7]).sum(axis=2),
        lambda x, y: np.cumsum(x, axis=1),
        _strided,
        lambda x, y: 4 * x[1:-1, 1:-1] - x[:-2, 1:-1] - x[2:, 1:-1] - x[1:-1, :-2] - x[1:-1, 2:],
    ],
)
def test_matrices(work):
    source = numbers(2, 2 * 310 * 320).reshape(2, 310, 320)
    compare(work, source[0], source[1])


@pytest.mark.parametrize("fold", ["sum", "max", "argmin", "std"])
def test_folds_of_everything(fold):
    compare(lambda x: getattr(x * 3.0, fold)(), numbers(0, 40 * 32768 + 77))


def test_sums_of_few_long_rows(divided):
    """What the chunks of several rows leave lies apart: it does not come home by parts."""
    shared = divided == "shared"
    compare(lambda x: x.sum(axis=1), numbers(1, 3 * 300_000).reshape(3, -1), divides=shared)
    compare(lambda x: x.sum(axis=0), numbers(2, 3 * 300_000).reshape(-1, 3), divides=shared)


def test_interleaved_results_are_not_divided_where_memory_is_the_devices_own(divided):
    """A part would bring home what lies between its own elements, which is the host's."""

    def halves(x, y):
        x.real[:] = y * 2.0
        x.imag[:] = y - 1.0

    compare(halves, numbers(0, N).astype("c16"), numbers(1, N), divides=divided == "shared")


def test_few_elements_are_not_divided():
    for n in (5, 300):
        compare(lambda x: x * 2.0 + 1.0, numbers(0, n), divides=False)


def test_what_lives_on_the_device_is_not_divided(divided):
    a = numbers(0, N)
    x = npaccel.asarray(a, device="opencl:0")
    y = npaccel.evaluate(np.sqrt(x) * 2.0)
    assert ("divided" in how()[0]) == (divided == "shared")
    np.testing.assert_array_equal(np.asarray(y), np.sqrt(a) * 2.0)


def test_warnings_of_both_sides():
    """From the first part and from the last one, each of one side."""
    x = numbers(0, N) + 1.0
    for place in (0, N - 1):
        y = x.copy()
        y[place] = 0.0
        a = npaccel.asarray(y)
        engine.traces.clear()
        with pytest.warns(RuntimeWarning, match="divide by zero"):
            npaccel.evaluate(1.0 / a)
        assert "divided" in how()[0]


@pytest.mark.filterwarnings("ignore::npaccel.errors.NpaccelWarning")
@pytest.mark.parametrize("failed", [(1, 0), (0, 1), (0, 0, 1)])
def test_what_the_device_fails_at_is_the_hosts(monkeypatch, divided, failed):
    monkeypatch.setattr(engine.machines, "_devices", {})
    monkeypatch.setattr(engine.telling, "told", set())
    a, b = numbers(0, N), numbers(1, N)
    x, y = npaccel.asarray(a), npaccel.asarray(b)
    _native.device_inject(*failed)
    try:
        z = npaccel.evaluate(x * y + 3.0)
        reasons = how()
        np.testing.assert_array_equal(np.asarray(z), a * b + 3.0)
    finally:
        _native.device_inject(-1)
    if divided == "shared" and failed == (0, 1):
        assert "divided" in reasons[0]  # nothing comes home
    else:
        assert "a launch failed" in reasons[0] and npaccel.explain().steps[0].backend == "llvm"


@pytest.mark.filterwarnings("ignore::npaccel.errors.NpaccelWarning")
def test_what_was_half_written_over_is_lost(monkeypatch, divided):
    """A part that failed when it had begun on the host's memory, or when it came home."""
    monkeypatch.setattr(engine.machines, "_devices", {})
    monkeypatch.setattr(engine.telling, "told", set())
    x = npaccel.asarray(numbers(0, N))
    npaccel.evaluate()
    _native.device_inject(*((0, 0, 1) if divided == "shared" else (0, 1)))
    try:
        x *= 0.5
        with pytest.raises(RuntimeError, match="opencl:0"):
            npaccel.evaluate(x)
            x.tolist()
    finally:
        _native.device_inject(-1)


def test_a_signal_stops_both_sides_and_nothing_is_lost():
    large = npaccel.asarray(np.linspace(0.1, 1.0, 1 << 22))

    def slow(x):
        for _ in range(6):
            x = np.exp(-np.sqrt(x * x + 1.0))
        return x

    expected = slow(np.asarray(large))
    stopped, y = False, slow(large)
    try:
        threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGINT)).start()
        npaccel.evaluate(y)
        time.sleep(5)
    except KeyboardInterrupt:
        stopped = True
    assert stopped
    np.testing.assert_allclose(np.asarray(y), expected, rtol=1e-12)


def test_in_check_mode():
    npaccel.config.check = "compute"
    a = numbers(0, N)
    x = npaccel.asarray(a)
    y = npaccel.evaluate(np.exp(x) * 2.0 + x.sum())
    np.testing.assert_allclose(np.asarray(y), np.exp(a) * 2.0 + a.sum(), rtol=1e-12)


def test_shares_are_told():
    compare(lambda x: np.exp(np.sin(x)) + 1.0, numbers(0, N))
    with npaccel.config(divide="off"):
        x = npaccel.asarray(numbers(0, N))
        npaccel.evaluate(np.exp(np.sin(x)) + 1.0)
        assert how() == [""]


def test_from_a_thread_in_a_fork_and_in_flight():
    a = numbers(0, N)
    x = npaccel.asarray(a)
    future = npaccel.evaluate(x * 3.0, wait=False)
    np.testing.assert_array_equal(np.asarray(future.result(60)), a * 3.0)
    found = []
    thread = threading.Thread(target=lambda: found.append(npaccel.evaluate(x * 5.0)))
    thread.start()
    thread.join()
    np.testing.assert_array_equal(np.asarray(found[0]), a * 5.0)
    child = os.fork()
    if child == 0:
        good = False
        try:
            good = np.array_equal(np.asarray(npaccel.evaluate(x * 7.0)), a * 7.0)
        finally:
            os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


TRIED = """
import time
import numpy as np
import npaccel
npaccel.config.tiering, npaccel.config.threshold, npaccel.config.threads = "eager", 0, 1
npaccel.config.backend, npaccel.config.divide = "opencl", "auto"
x = npaccel.asarray(np.random.default_rng(0).random(600_000))
def work():
    return npaccel.evaluate(np.exp(np.sin(x)) * np.cos(x) + np.log1p(x))
with npaccel.config(divide="off"), npaccel.backend("llvm"):
    want = np.array(work())
seen = set()
for _ in range(12):
    assert np.array_equal(work(), want)
    seen.add(npaccel.explain().steps[0].reason.split(":")[0].split(";")[0])
assert seen >= {"", "divided"}, seen
reason = npaccel.explain().steps[0].reason
assert "tried: the device alone" in reason and "with the host" in reason, reason
"""


def test_by_trials(divided):
    """The device alone and both sides take turns, and what took less goes on."""
    if divided == "apart":
        npaccel.config.divide = "auto"
        x = npaccel.asarray(numbers(0, N))
        for _ in range(8):
            npaccel.evaluate(np.exp(np.sin(x)) + 1.0)
            assert how() == [""]  # what comes home later would not be counted
        return
    command = [sys.executable, "-c", TRIED]
    environment = {**os.environ, "POCL_DEVICES": "basic"}
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=300, env=environment
    )
    assert done.returncode == 0, done.stderr
