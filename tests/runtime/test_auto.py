"""Which backend `auto` chooses, by times that the tests say; PoCL stands for any device."""

import subprocess
import sys

import numpy as np
import pytest

import npaccel
from npaccel.api import _engine
from npaccel.backends.speeds import Speeds, Work
from npaccel.errors import BackendUnavailable
from npaccel.runtime import auto, engine

pytestmark = pytest.mark.pending
N = 1 << 14
SLOW = Speeds(1e6, 1e6, 1e-3, 1e6, 1e6, 1e6)
FAST = Speeds(1e12, 1e12, 1e-9, 1e12, 1e12, 1e12)


@pytest.fixture(autouse=True)
def reviewed_at_once(monkeypatch, deferred, setting):
    """Each known program is reviewed at its second run; building for a device always pays."""
    setting("tiering", "eager")
    monkeypatch.setattr(engine, "REVIEW_RUNS", 1)
    monkeypatch.setattr(engine, "REVIEW_S", 0.0)
    monkeypatch.setattr(engine, "TRIAL_RUNS", 1)
    monkeypatch.setattr(auto, "MEASURED_RUNS", 1)
    monkeypatch.setattr(auto, "BUILD_S", 0.0)
    monkeypatch.setattr(_engine, "auto", auto.Auto(_engine))
    _engine.traces.clear()
    yield
    npaccel.evaluate()
    _engine.traces.clear()


@pytest.fixture
def device(monkeypatch):
    """A device that may be chosen by its speeds, and the host's, as a test sets them."""
    pytest.importorskip("pyopencl")
    known = {"llvm": SLOW, "opencl:0": FAST}
    monkeypatch.setattr(_engine, "candidates", lambda: ["opencl:0"])
    monkeypatch.setattr(_engine, "speeds", known.get)
    return known


@pytest.fixture
def measured(monkeypatch):
    """What runs of programs take, by backend; of others as the clock says."""
    known = {}
    real = auto._Record.seconds
    monkeypatch.setattr(
        auto._Record,
        "seconds",
        lambda self, name: known.get(name, 1.0) if real(self, name) is not None else None,
    )
    return known


def _run(times):
    """What ran each time: backends of kernels, in order."""
    source = np.arange(float(N))
    x = npaccel.asarray(source)
    ran = []
    for _ in range(times):
        y = npaccel.evaluate(x * 2.5 + 1.0)
        ran += [step.backend for step in npaccel.explain(y).steps]
        np.testing.assert_array_equal(np.asarray(y), source * 2.5 + 1.0)
    return ran


def test_without_another_backend_nothing_is_asked():
    assert _run(4) == ["llvm"] * 4


def test_a_device_that_is_predicted_to_be_faster_is_chosen_and_told(device, measured):
    measured["opencl:0"] = 0.0
    assert _run(5) == ["llvm"] + ["opencl:0"] * 4
    text = str(npaccel.explain())
    assert "What a run takes:" in text and "opencl:0" in text
    found = {estimate.backend: estimate for estimate in npaccel.explain().estimates}
    assert found["opencl:0"].measured


def test_what_turns_out_slower_there_goes_back_for_good(device, measured):
    measured["opencl:0"] = 2.0
    assert _run(5) == ["llvm", "opencl:0"] + ["llvm"] * 3


def test_a_device_that_is_predicted_to_be_slower_is_not_tried(device):
    device["opencl:0"] = SLOW
    assert _run(4) == ["llvm"] * 4
    pending = npaccel.asarray(np.arange(float(N))) * 3.0
    names = [(e.backend, e.measured) for e in npaccel.explain(pending).estimates]
    assert names == [("llvm", False), ("opencl:0", False)]
    assert "predicted: launches" in str(npaccel.explain(pending))


def test_a_processors_driver_needs_a_measurement(measured):
    pytest.importorskip("pyopencl")
    assert _run(2) == ["llvm"] * 2
    measured["opencl:0"] = 0.0
    with npaccel.backend("opencl"):
        assert _run(2) == ["opencl:0"] * 2
    assert _run(6)[-1] == "opencl:0"


def test_a_device_that_is_not_there_any_more_changes_nothing(device, monkeypatch):
    def fail(name):
        raise BackendUnavailable(f"{name}: gone")

    monkeypatch.setattr(_engine, "_devices", {})
    monkeypatch.setattr(_engine, "_open", {"llvm": _engine.backend("llvm")})
    monkeypatch.setattr(engine, "open_backend", fail)
    monkeypatch.setattr(_engine, "_warned", set())
    with pytest.warns(npaccel.errors.NpaccelWarning, match="gone"):
        assert _run(4) == ["llvm"] * 4


def test_the_users_choice_comes_first(device):
    with npaccel.backend("llvm"):
        assert _run(3) == ["llvm"] * 3
    device["opencl:0"] = SLOW
    x = npaccel.asarray(np.arange(float(N)), device="opencl:0")
    for _ in range(3):
        y = npaccel.evaluate(x * 2.5 + 1.0)
        assert [step.backend for step in npaccel.explain(y).steps] == ["opencl:0"]


def test_where_data_lies_counts(device, setting):
    setting("device_memory", 1 << 24)
    source = np.arange(float(N))

    def there():
        with npaccel.backend("opencl"):
            return npaccel.evaluate(npaccel.asarray(source) * 2.5 + 1.0)

    def ran(x):
        return [step.backend for step in npaccel.explain(npaccel.evaluate(x * 2.5 + 1.0)).steps]

    assert ran(there()) == ["opencl:0"]
    device["opencl:0"], device["llvm"] = SLOW, FAST
    _engine.traces.clear()
    npaccel.stats(reset=True)
    x = there()
    assert ran(x) == ["opencl:0"]  # bringing it home is slow, too: it stays
    device["opencl:0"] = Speeds(1e12, 1e12, 1e-3, 1e6, 1e6, 1e6)
    _engine.traces.clear()
    assert ran(there()) == ["llvm"]
    assert npaccel.explain().moved == (0, source.nbytes)
    assert "back" in str(npaccel.explain())


def test_a_prediction_is_the_sum_of_its_parts(device):
    device["llvm"] = Speeds(1e9, 1e9, 1e-3, 1e9, 2e9, 5e8)
    assert device["llvm"].arithmetic_s(Work(1e9, 1e9, 1e9, 1e9)) == pytest.approx(1 + 2 + 0.5 + 1)
    device["opencl:0"] = Speeds(1e9, 1e8, 1e-3, 1e9, 2e9, 5e8)
    with np.errstate(all="ignore"):
        x = npaccel.asarray(np.arange(float(N))) * 2.5 + 1.0
    host, there = npaccel.explain(x).estimates
    memory, arithmetic = 2 * 8 * N / 1e9, 2 * N / 1e9
    assert (host.launch_s, host.moving_s, host.memory_s) == (1e-3, 0.0, memory)
    assert host.arithmetic_s == pytest.approx(arithmetic)
    assert host.seconds == pytest.approx(1e-3 + max(memory, arithmetic))
    assert there.moving_s == 0.0  # it shares the host's memory


def test_what_would_move(device, setting):
    setting("device_memory", 1 << 24)
    x = npaccel.asarray(np.arange(float(N)))
    y = x * 2.5 + 1.0
    assert npaccel.explain(y).estimates[1].moving_s == 2 * 8 * N / FAST.transfer_bytes_s
    z = y[: N // 2] - 3.0  # y need not be made for it
    del y
    assert npaccel.explain(z).estimates[1].moving_s == (8 + 4) * N / FAST.transfer_bytes_s


def test_no_driver_is_loaded_for_the_default():
    program = """
import sys
import numpy as np
import npaccel
from npaccel.runtime import engine
engine.REVIEW_RUNS, engine.REVIEW_S = 1, 0.0
npaccel.config.tiering = "eager"
x = npaccel.asarray(np.arange(1e5))
for _ in range(4):
    npaccel.evaluate(x * 2.5 + 1.0)
print("pyopencl" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["False"]
