"""Which backend `auto` chooses, by times that the tests say; PoCL stands for any device."""

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import npaccel
from npaccel import _native, this_process
from npaccel.backends.speeds import Speeds, Work
from npaccel.errors import BackendUnavailable
from npaccel.runtime.devices import auto, machines
from npaccel.runtime.engine import engine
from npaccel.runtime.programs.program import PlanInfo
from npaccel.runtime.programs.stored import Planned

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
    monkeypatch.setattr(auto, "TURNS", 1)
    monkeypatch.setattr(auto, "ROW", 1)
    monkeypatch.setattr(auto, "FIRST", 0)
    monkeypatch.setattr(auto, "REVIEW_S", 0.0)
    setting("cache", "off")
    monkeypatch.setattr(auto, "MEASURED_RUNS", 1)
    monkeypatch.setattr(auto, "BUILD_S", 0.0)
    monkeypatch.setattr(this_process.engine, "auto", auto.Auto(this_process.engine.machines))
    this_process.engine.traces.clear()
    yield
    npaccel.evaluate()
    this_process.engine.traces.clear()


@pytest.fixture
def device(monkeypatch, opencl):
    """A device that may be chosen by its speeds, and the host's, as a test sets them."""
    known = {"llvm": SLOW, "opencl:0": FAST}
    monkeypatch.setattr(this_process.engine.machines, "candidates", lambda: ["opencl:0"])
    monkeypatch.setattr(this_process.engine.machines, "speeds", known.get)
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
    monkeypatch.setattr(auto._Record, "last_s", lambda self, name: known.get(name, 1.0))
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
    assert _run(5) == ["llvm", "opencl:0", "llvm"] + ["opencl:0"] * 2
    text = str(npaccel.explain())
    assert "What a run takes:" in text and "opencl:0" in text
    found = {estimate.backend: estimate for estimate in npaccel.explain().estimates}
    assert found["opencl:0"].measured
    assert "llvm and opencl:0 ran it by turns, 1 times each" in text


def test_what_turns_out_slower_there_goes_back_for_good(device, measured):
    measured["opencl:0"] = 2.0
    assert _run(5) == ["llvm", "opencl:0"] + ["llvm"] * 3


def test_runs_in_a_row_are_compared_without_the_first(device, measured, monkeypatch):
    monkeypatch.setattr(auto, "TURNS", 4)
    monkeypatch.setattr(auto, "CLEAR_TURNS", 4)
    monkeypatch.setattr(auto, "ROW", 2)
    monkeypatch.setattr(auto, "FIRST", 1)
    measured["opencl:0"] = 0.5
    rows = ["llvm"] + (["opencl:0"] * 3 + ["llvm"] * 3) * 2
    assert _run(15) == rows + ["opencl:0"] * 2
    (record,) = this_process.engine.auto._records.values()
    assert {name: len(times) for name, times in record.turns.seconds.items()} == {
        "llvm": 4,
        "opencl:0": 4,
    }


def test_a_device_that_is_predicted_to_be_slower_is_not_tried(device):
    device["opencl:0"] = SLOW
    assert _run(4) == ["llvm"] * 4
    pending = npaccel.asarray(np.arange(float(N))) * 3.0
    names = [(e.backend, e.measured) for e in npaccel.explain(pending).estimates]
    assert names == [("llvm", False), ("opencl:0", False)]
    assert "predicted: launches" in str(npaccel.explain(pending))


def test_a_processors_driver_needs_a_measurement(measured, opencl):
    assert _run(2) == ["llvm"] * 2
    measured["opencl:0"] = 0.0
    with npaccel.backend("opencl"):
        assert _run(2) == ["opencl:0"] * 2
    assert _run(6)[-1] == "opencl:0"


def test_a_device_that_is_not_there_any_more_changes_nothing(device, monkeypatch):
    def fail(name):
        raise BackendUnavailable(f"{name}: gone")

    monkeypatch.setattr(this_process.engine.machines, "_devices", {})
    monkeypatch.setattr(
        this_process.engine.machines, "_open", {"llvm": this_process.engine.backend("llvm")}
    )
    monkeypatch.setattr(machines, "open_backend", fail)
    monkeypatch.setattr(this_process.engine.telling, "told", set())
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
    this_process.engine.traces.clear()
    npaccel.stats(reset=True)
    x = there()
    assert ran(x) == ["opencl:0"]  # bringing it home is slow, too: it stays
    device["opencl:0"] = Speeds(1e12, 1e12, 1e-3, 1e6, 1e6, 1e6)
    this_process.engine.traces.clear()
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
    moved = 0 if this_process.engine.backend("opencl").shares_memory else 2 * 8 * N
    assert there.moving_s == pytest.approx(moved / 1e8)


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
from types import SimpleNamespace
from typing import Any
import numpy as np
import npaccel
from npaccel.runtime.engine import engine
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


def _turns(first, second, wanted=8):
    return auto._Turns({"llvm": first, "opencl:0": second}, wanted, 0.25)


def test_runs_as_they_mostly_are_decide():
    busy = _turns([2.0, 2.1, 2.2, 9.0, 9.0], [1.0, 1.0, 3.0, 3.1, 3.2], 5)
    assert busy.over()
    assert (busy.taken("llvm"), busy.taken("opencl:0")) == (2.2, 3.0)


@pytest.mark.parametrize("moves", [False, True])
def test_which_stays_if_they_are_alike(measured, monkeypatch, moves):
    monkeypatch.setattr(this_process.engine.machines, "moves", lambda name: moves)
    chooser = auto.Auto(this_process.engine.machines)
    assert next(iter(chooser._turns("opencl:0", "llvm", 8, 0.25).seconds)) == (
        "opencl:0" if moves else "llvm"
    )
    assert next(iter(chooser._turns("llvm", "opencl:0", 8, 0.25).seconds)) == "llvm"


def test_what_is_clear_needs_few_turns():
    assert _turns([1.0, 1.2, 1.1], [2.0, 3.0, 2.5]).over()
    assert not _turns([1.0, 1.4, 1.1], [2.0, 3.0, 2.5]).over()
    assert not _turns([1.0, 1.0], [9.0, 9.0]).over()


def test_comparing_again_costs_at_most_a_hundredth(device, measured, monkeypatch):
    asked = []
    monkeypatch.setattr(auto.Auto, "_compare", lambda *_: asked.append(1))
    measured.update({"llvm": 1.0, "opencl:0": 3.0})
    chooser = auto.Auto(this_process.engine.machines)
    pending: Any = SimpleNamespace(key=bytes(16), residence=[])
    programs = {name: _native.Program(None, 0, None, "") for name in measured}
    for name, program in programs.items():
        chooser.note(pending, name, program)
    record = chooser._record(pending)
    record.decided, record.turns = "", _turns([], [], 3)
    current = "llvm"
    for _ in range(6):
        current = chooser.review(pending, programs[current]) or current
    assert current == "llvm"
    assert record.turns.next_s == pytest.approx(3 * (3.0 - 1.0) / 0.01)
    chooser.review(pending, programs[current])
    assert asked


@pytest.fixture
def decisions(setting, tmp_path):
    """A folder of their own for what is decided, which the next process finds."""

    def next_process():
        this_process.engine.traces.clear()
        this_process.engine.auto = auto.Auto(this_process.engine.machines)

    setting("cache_dir", str(tmp_path))
    setting("cache", "on")
    return next_process


def test_the_next_process_decides_likewise(device, measured, decisions):
    measured["opencl:0"] = 0.0
    assert _run(5) == ["llvm", "opencl:0", "llvm"] + ["opencl:0"] * 2
    decisions()
    assert _run(4) == ["llvm"] + ["opencl:0"] * 3
    assert npaccel.explain().choice == "an earlier process has compared"


def test_what_lost_is_not_built_again_by_the_next_process(device, measured, decisions):
    measured["opencl:0"] = 2.0
    assert _run(5) == ["llvm", "opencl:0"] + ["llvm"] * 3
    decisions()
    assert _run(4) == ["llvm"] * 4


def test_what_was_decided_with_another_driver_does_not_count(
    device, measured, decisions, monkeypatch
):
    measured["opencl:0"] = 0.0
    _run(5)
    decisions()
    device["opencl:0"], measured["llvm"] = SLOW, 1e-3  # it would not be chosen anew
    monkeypatch.setattr(type(this_process.engine.backend("opencl")), "identity", "another driver")
    assert _run(4) == ["llvm"] * 4


def test_where_nothing_was_decided_no_backend_is_opened(decisions, monkeypatch):
    _run(1)
    monkeypatch.setattr(machines, "open_backend", lambda name: pytest.fail(f"{name!r} was opened"))
    assert _run(3) == ["llvm"] * 3


def test_what_has_run_on_both_is_compared_without_a_plan(measured, monkeypatch, opencl):
    with npaccel.backend("opencl"):
        _run(2)
    x = npaccel.asarray(np.arange(float(N)))
    npaccel.evaluate(x * 2.5 + 1.0)
    for kind in (PlanInfo, Planned):
        monkeypatch.setattr(kind, "plan_info", lambda self: pytest.fail("planned again"))
    npaccel.stats(reset=True)
    for _ in range(4):
        npaccel.evaluate(x * 2.5 + 1.0)
    assert npaccel.stats()["kernels_by_backend"]["opencl"] >= 1


def test_a_block_that_names_a_backend_is_not_planned_again(measured, opencl):
    with npaccel.backend("opencl"):
        _run(2)
    _run(1)
    (key,) = this_process.engine.traces._table
    pending: Any = SimpleNamespace(key=key, residence=[])
    program = this_process.engine.auto.program(pending, "opencl:0")
    program.review(1, 0.0)
    with npaccel.backend("opencl"):
        _run(3)
        assert this_process.engine.traces.find(pending.key) is program
