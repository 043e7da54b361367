"""Check mode finds a kernel that computes something wrong, and says where and what."""

from __future__ import annotations

import ctypes
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import npaccel
from npaccel import _native
from npaccel.errors import CheckError
from npaccel.ir import parse
from npaccel.ir.nodes import Fold
from npaccel.runtime.checking.check import Checker
from npaccel.this_process import engine

from ...safety.fresh import run

pytestmark = pytest.mark.usefixtures("deferred")
N = 2000


@pytest.fixture(autouse=True)
def checked(deferred, setting) -> None:
    setting("check", "compute")


def falsify(launches, array: int, index: int, value: float) -> None:
    """From now on every kernel's `array` holds `value` at `index` when it is done."""

    def after(launch) -> None:
        first = ctypes.c_double.from_address(launch.address(array) + 8 * index)
        first.value = value

    launches.after = after


def test_right_results_pass(launches) -> None:
    a = npaccel.asarray(np.linspace(-1.0, 2.0, N))
    with np.errstate(invalid="ignore"):
        y = np.log(a)  # NaN equals NaN
    z = (a * 2 + y).sum()
    assert np.isnan(z) and launches.kernels >= 1


@pytest.mark.parametrize("tiering", ["eager", "off"])
def test_warnings_that_are_errors_are_raised_at_their_line(setting, tiering: str) -> None:
    """Whatever is compared in a block, and though the comparison runs before they are raised."""
    setting("tiering", tiering)
    a = npaccel.asarray(np.arange(float(N)))
    with npaccel.accelerate(), warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        with pytest.raises(RuntimeWarning, match="divide by zero encountered in divide"):
            1.0 / a


def test_a_wrong_element_is_named(launches) -> None:
    a = npaccel.asarray(np.linspace(0.0, 1.0, N))
    falsify(launches, 1, 7, 99.0)
    y = a + 1
    line = 42
    with pytest.raises(CheckError) as error:
        npaccel.evaluate(y)
    text = str(error.value)
    line = test_a_wrong_element_is_named.__code__.co_firstlineno + 3
    assert f"add at {__file__}:{line} differs" in text
    assert "index (7,)" in text and "99.0" in text and repr(np.linspace(0.0, 1.0, N)[7] + 1) in text
    assert f"1 of {N}" in text


def test_a_slip_of_one_bit_is_found_where_results_are_exact(launches) -> None:
    a = npaccel.asarray(np.linspace(0.0, 1.0, N))
    falsify(launches, 1, 3, float(np.nextafter(a[3] * 0.5, 1.0)))
    y = a * 0.5
    with pytest.raises(CheckError, match=r"multiply .* index \(3,\)"):
        npaccel.evaluate(y)


def test_the_program_goes_on_after_a_difference(launches) -> None:
    a = npaccel.asarray(np.linspace(0.0, 1.0, N))
    falsify(launches, 1, 0, 5.0)
    y = a + 1
    with pytest.raises(CheckError):
        npaccel.evaluate(y)
    launches.after = None
    assert np.array_equal(a - 1, np.asarray(a) - 1)
    assert y[0] == 5.0


def test_off_means_off(launches, setting) -> None:
    setting("check", "off")
    a = npaccel.asarray(np.linspace(0.0, 1.0, N))
    falsify(launches, 1, 0, 5.0)
    assert npaccel.evaluate(a + 1)[0] == 5.0


def _source() -> np.ndarray:
    return np.linspace(0.1, 3.0, N).reshape(40, 50)


# What is wrong, how, in which program, and what has to be named. What comes before is inexact.
MUTANTS = {
    "a comparison behind exp": (
        ("greater", "f", {"body": lambda x, y: x >= y + y}),
        lambda x: np.exp(x) > 1.5,
        "greater",
    ),
    "an index behind sin": (
        ("argmax", "f", {"fold": Fold.ARGMIN}),
        lambda x: np.sin(x).argmax(axis=1),
        "argmax",
    ),
    "a cast behind log": (
        ("copy", "i8", {"body": lambda x: x.convert("i8") + x.convert("i8").like(1)}),
        lambda x: (np.log(x) * 10).astype("i8") + 2,
        "copy",
    ),
    "integers behind log": (
        ("multiply", "i", {"body": lambda x, y: x * y + x}),
        lambda x: (np.log(x) * 10).astype("i8") * 3 - 1,
        "multiply",
    ),
    "booleans behind sqrt and exp": (
        ("bitwise_or", "b", {"body": lambda x, y: x & y}),
        lambda x: (np.sqrt(x) > 1) | (np.exp(x) > 9),
        "bitwise_or",
    ),
    "a selection behind a sum": (
        ("where", "b", {"body": lambda c, x, y: c.select(y, x)}),
        lambda x: np.where(x > x.sum(axis=1, keepdims=True) / 50, np.cos(x), 1.0) > 0.5,
        "where",
    ),
    "the last digits of a function": (
        ("sin", "f", {"body": lambda x: x * (1 - 1e-14)}),
        lambda x: np.floor(np.sin(x * 1e-8) + 7),
        "sin",
    ),
    "a summand": (
        ("add", "f", {"body": lambda x, y: x + y + 1e-9}),
        lambda x: np.exp(x) + 1.0 > 2.0,
        "add",
    ),
}


# Which operation it is, is found by what the interpreter computes, whatever ran.
@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("backend", "case"), [*(("llvm", case) for case in MUTANTS), ("opencl", "a summand")]
)
def test_one_wrong_operation_is_named(backend, case, mutate, setting, request) -> None:
    """Whatever comes before it is inexact, and whether or not its own result can be seen."""
    if backend == "opencl":
        request.getfixturevalue("opencl")
    setting("backend", backend)
    wrong, program, name = MUTANTS[case]
    a = npaccel.asarray(_source())
    npaccel.evaluate(program(a))  # right as long as nothing is changed
    mutate(wrong[0], wrong[1], **wrong[2])
    result = program(a)
    with pytest.raises(CheckError, match=f"check: {name} at {__file__}:[0-9]+ differs"):
        npaccel.evaluate(result)


def test_integers_that_only_the_kernel_of_the_run_has_wrong(launches) -> None:
    """Each operation is right where its result is stored; not so in the kernel that ran."""
    a = npaccel.asarray(_source())

    def after(launch) -> None:
        ctypes.c_int64.from_address(launch.address(1) + 8 * 7).value += 1

    y = (np.exp(a) * 100).astype("i8")
    launches.after = after
    with pytest.raises(CheckError, match=r"copy .* index \(0, 7\).*kernel that it is fused into"):
        npaccel.evaluate(y)


@pytest.fixture
def compared_with(monkeypatch):
    """compared_with(change): runs are compared as if they had left what `change` makes of what they
    left: (contents, looped)."""

    def install(change) -> None:
        compare = Checker.compare
        monkeypatch.setattr(
            Checker,
            "compare",
            lambda self, state, contents, looped: compare(self, state, *change(contents, looped)),
        )

    return install


def flipped(content: bytes, at: int) -> bytes:
    changed = bytearray(content)
    changed[at] ^= 1
    return bytes(changed)


def test_what_an_earlier_write_left_is_compared_too(compared_with) -> None:
    """The last request that wrote a buffer has not written all of it."""
    x = npaccel.asarray(np.linspace(0.0, 1.0, N))
    y = x + 1
    y[: N // 2] *= 2
    y[N // 2 :] *= 4

    def change(contents, looped):
        return [c and flipped(c, 8 * 3) for c in contents], looped

    compared_with(change)
    with pytest.raises(CheckError, match=r"multiply .* index \(3,\)"):
        npaccel.evaluate(y)


def test_numpys_loops_are_compared_one_by_one(setting, compared_with) -> None:
    """Without kernels each result is looked at as the loop has left it."""
    setting("backend", "numpy")
    a = npaccel.asarray(_source())
    assert npaccel.evaluate(np.log(a) > 0.5).any()

    def change(contents, looped):
        assert sorted(looped) == [(0, 0), (1, 0)]
        return contents, {**looped, (1, 0): flipped(looped[1, 0], 5)}

    compared_with(change)
    y = np.log(a) > 0.5
    with pytest.raises(CheckError, match=r"greater .* index \(0, 5\).*same inputs"):
        npaccel.evaluate(y)


# ------------------------------------------------------------------ what is done about it, and when


def wrong_sum(mutate) -> list[npaccel.Array]:
    """Three runs, each of one operation that is wrong by a billionth."""
    mutate("add", "f", body=lambda x, y: (x + y) * (1 + 1e-9))
    a = npaccel.asarray(_source())
    return [npaccel.evaluate(a + number) for number in (1.0, 2.0, 3.0)]


def test_warnings_come_at_the_operations_line_and_the_program_goes_on(mutate, setting) -> None:
    setting("check_action", "warn")
    with pytest.warns(npaccel.NpaccelWarning, match="add at .* differs") as seen:
        results = wrong_sum(mutate)
    assert len(results) == len(seen) == 3
    line = wrong_sum.__code__.co_firstlineno + 4
    assert {(warning.filename, warning.lineno) for warning in seen} == {(__file__, line)}


def test_one_of_so_many_runs_is_compared(mutate, setting) -> None:
    setting("check_action", "warn")
    setting("check_every", 3)
    npaccel.stats(reset=True)
    with pytest.warns(npaccel.NpaccelWarning) as seen:
        wrong_sum(mutate)
    assert len(seen) == npaccel.stats()["checked_runs"] == 1


@pytest.mark.parametrize(("scale", "found"), [(1e-8, 0), (1e-10, 3)])
def test_floats_may_be_off_by_a_part_of_their_value(scale, found, mutate, setting) -> None:
    setting("check_action", "warn")
    setting("check_scale", scale)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        wrong_sum(mutate)
    assert len(seen) == found


def test_integers_have_to_be_equal_whatever_the_scale(mutate, setting) -> None:
    setting("check_scale", 1.0)
    mutate("add", "i", body=lambda x, y: x + y + x.like(1))
    y = npaccel.asarray(np.arange(N)) + 100
    with pytest.raises(CheckError, match=r"index \(0,\): .*101.* instead of .*100"):
        npaccel.evaluate(y)


def test_what_is_compared_beside_the_program_is_told_later(mutate, setting) -> None:
    setting("check", "beside")
    setting("tiering", "eager")
    mutate("add", "f", body=lambda x, y: (x + y) * (1 + 1e-9))
    y = npaccel.asarray(_source()) + 1.0
    assert y[0, 0] > 1  # computed, and no error yet
    with pytest.raises(CheckError, match=f"add at {__file__}:"):
        npaccel.evaluate()
    npaccel.evaluate()  # told once


def test_runs_are_left_out_while_one_is_compared(setting, monkeypatch) -> None:
    setting("check", "beside")
    goes_on, compare = threading.Event(), Checker.compare

    def waits(self, state, contents, looped):
        goes_on.wait(60)
        yield from compare(self, state, contents, looped)

    monkeypatch.setattr(Checker, "compare", waits)
    npaccel.stats(reset=True)
    a = npaccel.asarray(_source())
    for number in range(5):
        (a + number)[0, 0].item()
    assert npaccel.stats()["checked_runs"] == 1
    goes_on.set()
    npaccel.evaluate()
    npaccel.evaluate(a + 9)
    assert npaccel.stats()["checked_runs"] == 2


def test_a_run_is_compared_with_what_it_made_and_not_another_thread(setting, monkeypatch) -> None:
    """The other one's is between its run and its comparison, while this one's comparison begins."""
    setting("backend", "numpy")  # so NumPy's loops make all
    reached, goes_on, compare = threading.Event(), threading.Event(), Checker.compare
    a, other = npaccel.asarray(np.arange(float(N))), npaccel.asarray(np.arange(2.0 * N))
    began: list[threading.Thread] = []

    def waits(self, state, contents, looped):
        if began and threading.current_thread() is began[0]:
            reached.set()
            goes_on.wait(60)
        yield from compare(self, state, contents, looped)

    def show(*_) -> None:
        began.append(threading.Thread(target=lambda: npaccel.evaluate(other - 1.0)))
        began[0].start()
        reached.wait(60)

    monkeypatch.setattr(Checker, "compare", waits)
    monkeypatch.setattr(
        "npaccel.runtime.engine.engine.LONGEST_S", 0.5
    )  # that this one waits for the other's to end
    npaccel.stats(reset=True)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = show
        y = npaccel.evaluate(1.0 / a)
    goes_on.set()
    began[0].join()
    assert y[2] == 0.5 and npaccel.stats()["checked_runs"] == 2


def test_threads_that_write_parts_of_an_array_are_compared_each_with_its_own(setting) -> None:
    setting("check", "beside")
    setting("tiering", "off")
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(3) as pool:
            for _ in range(50):
                h = npaccel.asarray(np.zeros((5, N), order="F")) * 0.5

                def put(k: int, h=h) -> None:
                    h[k::3] = k
                    npaccel.evaluate()

                list(pool.map(put, range(3)))
                assert np.array_equal(h[:, 7], [0, 1, 2, 0, 1])
    finally:
        sys.setswitchinterval(interval)
    npaccel.evaluate()


def test_two_runs_that_were_due_at_once(setting, monkeypatch) -> None:
    """One is compared."""
    setting("check", "beside")
    goes_on, compare, times = threading.Event(), Checker.compare, []

    def waits(self, state, contents, looped):
        times.append(state)
        goes_on.wait(60)
        yield from compare(self, state, contents, looped)

    monkeypatch.setattr(Checker, "compare", waits)
    npaccel.stats(reset=True)
    a = npaccel.asarray(_source())
    (a + 1)[0, 0].item()
    _native.check_busy(False)  # as it was when the other became due
    with monkeypatch.context() as patch:
        patch.setattr(engine.comparing, "settle", lambda: None)
        (a + 2)[0, 0].item()
    goes_on.set()
    npaccel.evaluate()
    assert len(times) == 1 and npaccel.stats()["checked_runs"] == 1


def test_another_thread_waits_for_what_is_about_to_be_compared(setting, monkeypatch) -> None:
    setting("check", "beside")
    npaccel.evaluate(npaccel.asarray(_source()) + 1.0)  # the checker is there
    start, errors, waiting = threading.Thread.start, [], []

    def evaluate() -> None:
        try:
            npaccel.evaluate(npaccel.asarray(_source()) + 2.0)
        except RuntimeError as error:
            errors.append(error)

    def late(thread: threading.Thread) -> None:
        if thread.name == "npaccel check" and not waiting:
            other = threading.Thread(target=evaluate)
            waiting.append(other)
            start(other)
            other.join(0.3)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", late)
    npaccel.evaluate(npaccel.asarray(_source()) + 3.0)
    monkeypatch.undo()
    npaccel.evaluate()
    assert waiting
    waiting[0].join()
    assert not errors


@pytest.mark.pending
def test_the_end_of_the_program_waits_for_what_is_compared_beside_it() -> None:
    program = """
import dataclasses
from types import MappingProxyType
from npaccel.ir import ops
row = dataclasses.replace(ops._TABLE["add", "f"], body=lambda x, y: x + y + 1e-3)
ops._TABLE = MappingProxyType({**ops._TABLE, ("add", "f"): row})
a = npaccel.asarray(np.ones(400_000))
for k in range(12):
    a = np.sqrt(a) + 1.0
print(a[5] > 2)
"""
    settings = {"NPACCEL_CHECK": "beside", "NPACCEL_CACHE": "off", "NPACCEL_TIERING": "eager"}
    done = run(program, env=settings)
    assert done.stdout == "True\n", done.stderr
    assert done.stderr.count("CheckError: check: add at <string>:") == 1, done.stderr
    assert "Exception in thread" not in done.stderr


@pytest.mark.parametrize("backend", ["llvm", "opencl", "c"])
def test_what_is_written_about_a_difference(
    backend, mutate, setting, request, monkeypatch, tmp_path
) -> None:
    monkeypatch.setattr(engine.comparing, "_written", 0)  # of many, some are written about
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    if backend == "opencl":
        request.getfixturevalue("opencl")
    setting("backend", backend)
    mutate("add", "f", body=lambda x, y: (x + y) * (1 + 1e-9))
    y = np.sqrt(npaccel.asarray(_source()) + 1.0)
    with pytest.raises(CheckError) as error:
        npaccel.evaluate(y)
    failure = error.value.failure
    files = {Path(path).suffix: Path(path) for path in failure.files}
    folder = files[".ir"].parent
    assert str(error.value).endswith(f"kernel {failure.kernel} on {failure.backend}; see {folder}")
    program = (folder / "program.ir").read_text()
    assert "map add.f8.f8.f8" in program and f"run {failure.kernel}" in program
    kernel = parse.parse_kernel((folder / f"{failure.kernel}.ir").read_text())
    assert kernel.name == failure.kernel
    source = files[{"llvm": ".ll", "opencl": ".cl", "c": ".c"}[backend]].read_text()
    assert "fadd" in source if backend == "llvm" else " + " in source


def test_a_fold_by_numpys_loop_need_not_be_in_the_kernels_order(setting) -> None:
    setting("backend", "numpy")
    for dtype in ("f2", "f4", "f8", "c16"):
        a = npaccel.asarray(np.linspace(0.001, 0.1, N).reshape(40, 50).astype(dtype))
        total = npaccel.evaluate(np.add.reduce(a * 2, axis=0), (a + 1).prod(axis=1))
        assert len(total) == 2


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
@pytest.mark.parametrize("value", [2.0**32 + 5, -(2.0**32), np.nan])
def test_either_answer_is_right_where_numpy_has_two(setting, backend, value) -> None:
    """Its loop casts floats beyond `uint32` otherwise where a vector of them is left."""
    setting("backend", backend)
    for dtype in ("f4", "f8"):
        a = npaccel.asarray(np.full((N // 100, 100), value, dtype))
        with np.errstate(invalid="ignore"):
            cast = (a * 1).astype("u4")
            found = npaccel.evaluate(cast & 1, (a[:, ::2] * 1).T.astype("u4"))
        assert [len(np.unique(one)) for one in found] == [1, 1]


@pytest.mark.pending
def test_casts_within_uint32_are_compared(mutate, setting) -> None:
    setting("tiering", "eager")
    mutate("add", "f", body=lambda x, y: x + y + x.like(1))
    a, out = npaccel.asarray(np.full(N, 2.0**31)), npaccel.asarray(np.zeros(N, "u4"))
    with pytest.raises(CheckError, match="add at"):
        npaccel.evaluate(np.add(a, 1.0, out=out, casting="unsafe"))


UNDEFINED = {
    "itself": lambda y: y,
    "elementwise": lambda y: y * 2 + 1,
    "as bytes": lambda y: y.view("u1") + 1,
    "rows": lambda y: y.reshape(-1, 10).sum(axis=1),
    "scan": np.cumsum,
    "all": lambda y: y.max(),
    "gathered": lambda y: y[np.arange(N)[::-1]],
    "as mask": lambda y: np.add(np.ones(N), 1, out=np.zeros(N), where=y > 0),
    "in part": lambda y: y[N // 4 :: 3] - 1,
    "copied into": lambda y: np.concatenate([y, y]),
}


def _masked(y, x) -> None:
    y[x < 700] = 3
    y[(x > 500) & (x < 900)] = x[0] + 5


WRITES = {
    "not at all": lambda y, x: None,
    "in part": lambda y, x: y.__setitem__(slice(100, 300), x[100:300]),
    "by masks": _masked,
}


@pytest.mark.parametrize("after", UNDEFINED.values(), ids=UNDEFINED)
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_what_nobody_wrote_is_right_whatever_it_is(write, after) -> None:
    """NumPy has there what was in memory before, and kernels what they find, or like."""
    x = npaccel.asarray(np.arange(N, dtype="f8"))
    old = x * 7 + 1
    npaccel.evaluate(old)
    del old  # whose memory is the next one's
    y = np.empty_like(x)
    write(y, x)
    npaccel.evaluate(after(y))


def test_what_masks_wrote_to_new_memory_is_compared(compared_with) -> None:
    x = npaccel.asarray(np.arange(N, dtype="f8"))
    y = np.empty_like(x)
    y[x < 700] = 3
    z = y + 1

    def change(contents, looped):
        return [c and flipped(c, 8 * 699) for c in contents], looped

    compared_with(change)
    with pytest.raises(CheckError, match=r"index \(699,\).*1 of"):
        npaccel.evaluate(z)


def test_where_masks_wrote_to_written_memory_all_is_compared(compared_with) -> None:
    x = npaccel.asarray(np.arange(N, dtype="f8"))
    y = x * 2
    y[x < 700] = 3

    def change(contents, looped):
        return [c and flipped(c, 8 * 900) for c in contents], looped

    compared_with(change)
    with pytest.raises(CheckError, match=r"index \(900,\).*1 of"):
        npaccel.evaluate(y)
