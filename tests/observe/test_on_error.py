"""`npaccel.on_error`: who is told of errors that come to light behind their operation."""

from __future__ import annotations

import re
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
from lines import here
from mutants import mutate

import npaccel
from npaccel import CheckError, CompileError, _native, this_process
from npaccel.errors import Failure

from ..safety.fresh import succeed

__all__ = ["mutate"]
pytestmark = [pytest.mark.usefixtures("deferred"), pytest.mark.pending]
N = 2000


@pytest.fixture
def wrong(mutate, setting):
    """Additions are wrong, and check mode is on. wrong(): one, pending, and its line."""
    setting("check", "compute")
    mutate("add", "f", body=lambda x, y: x + y + 1)

    def make():
        return npaccel.asarray(np.arange(6.0).reshape(2, 3)) + np.arange(3.0), here()

    return make


def test_what_a_handler_is_told(wrong) -> None:
    told: list[Failure] = []
    with pytest.raises(CheckError) as error, npaccel.on_error(told.append):
        y, line = wrong()
        npaccel.evaluate(y)
    (failure,) = told
    assert failure.error is error.value and error.value.failure is failure
    assert failure[1:4] == ("add", __file__, line)
    assert failure.shapes == ((2, 3),) * 3 and failure.dtypes == ("f8",) * 3
    assert failure.kernel.startswith("k_") and failure.backend == "llvm"
    assert not failure.goes_on and all(Path(file).exists() for file in failure.files)
    assert str(failure) == (
        f"CheckError: add at {__file__}:{line}; f8[2,3] f8[2,3] f8[2,3]; {failure.kernel} on llvm"
    )


def test_the_innermost_is_told_first_and_true_ends_it(wrong) -> None:
    told: list[str] = []

    def handler(name, answer):
        return lambda failure: told.append(name) or answer

    with npaccel.on_error(handler("outer", True)), npaccel.on_error(handler("middle", None)):
        with npaccel.on_error(handler("inner", 1)):  # only True is an answer
            y, _ = wrong()
        assert told == ["inner", "middle", "outer"]  # at the end of the block
        assert y[0, 0] == 1  # the program goes on, with what was computed
        with npaccel.on_error(handler("inner", True)):
            npaccel.evaluate(wrong())
        assert told == ["inner", "middle", "outer", "inner"]
    with pytest.raises(CheckError):
        npaccel.evaluate(wrong())
    assert len(told) == 4


def test_what_a_handler_raises_is_raised_and_its_own_failures_are_for_those_outside(wrong) -> None:
    told: list[str] = []

    def outer(failure):
        told.append(failure.operation)
        return True

    def inner(failure):
        npaccel.evaluate(wrong())
        raise KeyError(failure.operation)

    with pytest.raises(KeyError, match="add"), npaccel.on_error(outer), npaccel.on_error(inner):
        npaccel.evaluate(wrong())
    assert told == ["add"]


def test_another_thread_is_not_in_the_block(wrong) -> None:
    told: list[Failure] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            npaccel.evaluate(wrong())
        except CheckError as error:
            errors.append(error)

    with npaccel.on_error(told.append):
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    assert len(errors) == 1 and not told


def test_what_was_pending_before_is_not_in_the_block(wrong) -> None:
    _waits, line = wrong()
    told: list[Failure] = []
    with pytest.raises(CheckError, match=f":{line} "), npaccel.on_error(told.append):
        pass
    assert not told


def test_numpys_own_errors_are_numpys() -> None:
    told: list[Failure] = []
    a = npaccel.asarray(np.arange(6.0))
    with npaccel.on_error(told.append):
        with pytest.raises(ValueError, match="broadcast"):
            a + np.arange(5.0)
        with pytest.raises(FloatingPointError), np.errstate(all="raise"):
            a / 0
    assert not told
    with pytest.raises(TypeError, match="on_error takes a function, not int"), npaccel.on_error(3):
        pass


class Refusing:
    """A backend that rejects every kernel."""

    name, identity, fingerprint, vector_bytes = "llvm", "llvm refusing", "llvm refusing", 64

    def symbols(self, kernel) -> tuple[str, ...]:
        return ("main",)

    def emit_object(self, kernel) -> bytes:
        raise CompileError("llvm: as asked")

    def load(self, *code) -> None:
        raise CompileError("llvm: as asked")


@pytest.mark.parametrize("answer", [None, True])
def test_a_kernel_that_a_compiler_rejects(answer, monkeypatch) -> None:
    engine = this_process.engine
    npaccel.evaluate()
    _native.plans().clear()
    engine.kernels.clear()
    monkeypatch.setattr(engine.machines, "_open", {"llvm": Refusing()})
    monkeypatch.setattr(engine.telling, "told", set())
    told: list[Failure] = []
    a = npaccel.asarray(np.linspace(1.0, 2.0, N))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with npaccel.on_error(lambda failure: told.append(failure) or answer):
            y, line = np.sqrt(a) * 3, here()
            assert np.array_equal(y, np.sqrt(np.asarray(a)) * 3)
    (failure,) = told
    assert isinstance(failure.error, CompileError) and failure.goes_on
    assert failure[1:4] == ("sqrt", __file__, line)
    assert (failure.shapes, failure.dtypes) == (((N,), (N,)), ("f8", "f8"))
    (dump,) = failure.files
    text = Path(dump).read_text()
    assert f"run {failure.kernel}" in text and failure.backend == "llvm"
    Path(dump).unlink()
    assert len(seen) == (answer is None)
    _native.plans().clear()


def test_memory_that_does_not_suffice() -> None:
    out = succeed("""
import resource
npaccel.config.nursery = 0
npaccel.config.backend = "numpy"
x = npaccel.asarray(np.ones(1 << 20))
told = []
with npaccel.on_error(told.append):
    try:
        y = np.add.accumulate(np.ones(1 << 20)[::2] * x[::2])
        npaccel.evaluate()
        before = resource.getrlimit(resource.RLIMIT_DATA)
        y = np.add.accumulate(x[::2], dtype="c16")
        status = open("/proc/self/status").read()
        used = int(status.split("VmData:")[1].split()[0]) << 10
        resource.setrlimit(resource.RLIMIT_DATA, (used + (2 << 20), before[1]))
        npaccel.evaluate(y)
    except MemoryError as error:
        resource.setrlimit(resource.RLIMIT_DATA, before)
        print(error.failure is told[0], len(told), told[0], sep="|")
""")
    assert re.fullmatch(
        r"True\|1\|MemoryError: add.accumulate at .*:\d+; "
        r"c16\[524288\] c16\[524288\]; numpy\n",
        out,
    ), out
