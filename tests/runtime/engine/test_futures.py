"""Runs in flight: `npaccel.evaluate(..., wait=False)`; the rules of Note [In flight], flights.c."""

from __future__ import annotations

import asyncio
import concurrent.futures
import ctypes
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npaccel
from npaccel import _native
from npaccel.runtime.engine import futures

SIZE = 1 << 17
STEPS = 15  # no limit makes them run before they are asked for
pytestmark = pytest.mark.room  # with little address space runs are not in flight
needs_pending = pytest.mark.skipif(not _native.guarded(), reason="nothing can be in flight")


@pytest.fixture
def flying(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], int]]:
    """Runs are handed over however brief they are known to be. How many were, since it began."""
    monkeypatch.setattr(futures, "LEAST_S", 0.0)
    npaccel.evaluate()
    before = npaccel.stats()["background_runs"]
    yield lambda: npaccel.stats()["background_runs"] - before
    npaccel.evaluate()


@pytest.fixture
def checked() -> bool:
    """Whether nothing is in flight, since each run is compared, or nothing can be pending."""
    return npaccel.config.check != "off" or not _native.guarded()


def operands() -> tuple[np.ndarray, npaccel.Array]:
    plain = np.linspace(0.1, 1.0, SIZE)
    return plain, npaccel.asarray(plain.copy())


def slow(x: Any) -> Any:
    """Some milliseconds of work."""
    for _ in range(STEPS):
        x = np.sqrt(np.abs(x * x - 0.25)) + 0.125
    return x


def endless() -> Any:
    """What takes half a second and more: pending."""
    x = npaccel.asarray(np.linspace(0.1, 1.0, 64 * SIZE))
    for function in (np.sin, np.exp, np.tanh, np.cos, np.arctan, np.log1p, np.sinh, np.expm1):
        x = function(x)
    return x


def test_a_future_gives_the_values_it_was_asked_for(flying: Callable[[], int]) -> None:
    plain, x = operands()
    y, z = slow(x), x + 1.0
    future = npaccel.evaluate(y, {"z": z}, wait=False)
    assert isinstance(future, concurrent.futures.Future)
    value = future.result()
    assert value[0] is y and value[1]["z"] is z
    assert future.done() and not future.cancelled() and future.exception() is None
    np.testing.assert_array_equal(np.asarray(y), slow(plain))
    np.testing.assert_array_equal(np.asarray(z), plain + 1.0)


def test_nothing_pending_is_a_future_that_is_done() -> None:
    npaccel.evaluate()
    future = npaccel.evaluate(3.5, wait=False)
    assert future.done() and future.result(0) == 3.5
    assert npaccel.evaluate(wait=False).result(0) == ()


def test_runs_are_in_flight_unless_they_can_not_be(
    flying: Callable[[], int], checked: bool
) -> None:
    plain, x = operands()
    future = npaccel.evaluate(slow(x), wait=False)
    assert flying() == (0 if checked else 1)
    assert future.done() or not checked
    np.testing.assert_array_equal(np.asarray(future.result()), slow(plain))


def test_a_backend_of_its_own_is_waited_for(flying: Callable[[], int]) -> None:
    plain, x = operands()
    future = npaccel.evaluate(x * 2.0, backend="numpy", wait=False)
    assert future.done() and flying() == 0
    np.testing.assert_array_equal(np.asarray(future.result()), plain * 2.0)


def test_what_a_run_makes_can_be_used_at_once(flying: Callable[[], int], checked: bool) -> None:
    plain, x = operands()
    y = slow(x)
    first = npaccel.evaluate(y, wait=False)
    z = y * 2.0 + x  # recorded, and its run begins when y is there
    second = npaccel.evaluate(z, wait=False)
    w = z - y
    third = npaccel.evaluate(w, wait=False)
    assert flying() == (0 if checked else 3)
    np.testing.assert_array_equal(
        np.asarray(third.result()), slow(plain) * 2.0 + plain - slow(plain)
    )
    assert first.done() and second.done()


def test_a_program_that_reads_what_a_run_makes_is_planned_for_it(flying: Callable[[], int]) -> None:
    """Known programs are found again, though what they read was not there when they were made."""
    npaccel.config.tiering, before = "eager", npaccel.config.tiering
    try:
        plain, x = operands()
        for _ in range(3):
            y = slow(x)
            npaccel.evaluate(y, wait=False)
            z = np.maximum(y * 2.0, 0.5)
            npaccel.evaluate(z, wait=False).result()
            np.testing.assert_array_equal(np.asarray(z), np.maximum(slow(plain) * 2.0, 0.5))
    finally:
        npaccel.config.tiering = before


def test_what_a_run_reads_is_written_when_it_is_over(flying: Callable[[], int]) -> None:
    plain, x = operands()
    y = slow(x)
    npaccel.evaluate(y, wait=False)
    x += 1.0
    x[3] = 7.0
    expected = plain + 1.0
    expected[3] = 7.0
    np.testing.assert_array_equal(np.asarray(y), slow(plain))
    np.testing.assert_array_equal(np.asarray(x), expected)


def test_what_a_run_makes_is_written_when_it_is_over(flying: Callable[[], int]) -> None:
    plain, x = operands()
    y = slow(x)
    npaccel.evaluate(y, wait=False)
    y *= 0.5
    y[:10] = 1.0
    expected = slow(plain) * 0.5
    expected[:10] = 1.0
    np.testing.assert_array_equal(np.asarray(y), expected)


def test_plain_memory_that_a_run_reads_may_be_written(flying: Callable[[], int]) -> None:
    """By NumPy, through a pointer, by a system call; and it may be read by what is recorded."""
    plain = np.linspace(0.1, 1.0, SIZE)
    for write in (
        lambda: plain.__setitem__(5, 9.0),
        lambda: ctypes.c_double.from_address(plain.ctypes.data + 40).__setattr__("value", 9.0),
        lambda: np.multiply(plain, 2.0, out=plain),
        plain.sort,
    ):
        plain[:] = np.linspace(1.0, 0.1, SIZE)
        as_it_was = plain.copy()
        x = npaccel.asarray(plain)
        y = slow(x)
        future = npaccel.evaluate(y, wait=False)
        z = x * 3.0
        write()
        np.testing.assert_array_equal(np.asarray(z), as_it_was * 3.0)
        np.testing.assert_array_equal(np.asarray(future.result()), slow(as_it_was))


def test_memory_that_a_run_reads_outlives_its_arrays(flying: Callable[[], int]) -> None:
    plain, x = operands()
    y = slow(x)
    future = npaccel.evaluate(y, wait=False)
    del x
    np.testing.assert_array_equal(np.asarray(future.result()), slow(plain))


def test_a_result_that_dies_in_flight_can_be_read_by_what_is_recorded(
    flying: Callable[[], int],
) -> None:
    plain, x = operands()
    y = slow(x)
    npaccel.evaluate(y, wait=False)
    z = y + 1.0
    del y
    np.testing.assert_array_equal(np.asarray(z), slow(plain) + 1.0)


def test_two_runs_share_what_they_read(flying: Callable[[], int]) -> None:
    plain, x = operands()
    hidden = x + 0.5  # never shown
    npaccel.evaluate(hidden)
    made = [hidden * float(k) for k in range(4)]
    for y in made:
        npaccel.evaluate(y, wait=False)
    late = hidden - x
    for k, y in enumerate(made):
        np.testing.assert_array_equal(np.asarray(y), (plain + 0.5) * k)
    np.testing.assert_array_equal(np.asarray(late), plain + 0.5 - plain)
    np.testing.assert_array_equal(np.asarray(hidden), plain + 0.5)


@needs_pending
def test_a_touch_waits_for_the_run_that_makes_its_block_and_for_no_other(
    flying: Callable[[], int], checked: bool
) -> None:
    if checked:
        pytest.skip("each run is compared, so none is in flight")
    for _ in range(5):  # where this process stood still meanwhile, once more
        plain, x = operands()
        quick = x + 1.0
        first = npaccel.evaluate(quick, wait=False)
        second = npaccel.evaluate(endless(), wait=False)
        assert float(quick[7]) == plain[7] + 1.0
        assert float(np.asarray(quick)[8]) == plain[8] + 1.0
        other = x * 2.0  # nothing of the long run
        assert float(other[3]) == plain[3] * 2.0
        small = npaccel.asarray(np.arange(5.0))
        assert float((small + 1).sum()) == 15.0
        over = second.done()
        assert first.done()
        second.result()
        if not over:
            return
    raise AssertionError("each time the long run was over first")


def test_other_work_is_done_meanwhile(flying: Callable[[], int]) -> None:
    plain, x = operands()
    y = slow(x)
    future = npaccel.evaluate(y, wait=False)
    total = 0.0
    for k in range(50):
        z = x * float(k) + 1.0
        total += float(z[k])
    assert total == sum(plain[k] * k + 1.0 for k in range(50))
    np.testing.assert_array_equal(np.asarray(future.result()), slow(plain))


def test_reductions_scans_picks_and_sorts_in_flight(flying: Callable[[], int]) -> None:
    plain, x = operands()
    rows, plain_rows = x.reshape(256, -1), plain.reshape(256, -1)
    cases: list[Callable[[Any], Any]] = [
        lambda a: np.cumsum(a * 4.0 // 1.0),
        lambda a: (a * 8.0 // 1.0).sum(axis=0),
        lambda a: a.max(axis=1),
        lambda a: np.argmin(a * -1.0, axis=0),
        lambda a: np.where(a > 0.5, a, -a),
        lambda a: a.astype(np.float32).astype(np.int16),
        lambda a: np.take(a, np.arange(0, 40, 3), axis=0) + 1.0,
    ]
    for case in cases:
        y = case(rows)
        future = npaccel.evaluate(y, wait=False)
        z = rows - 1.0
        np.testing.assert_array_equal(np.asarray(future.result()), case(plain_rows))
        np.testing.assert_array_equal(np.asarray(z), plain_rows - 1.0)


def test_long_loops_run_round_by_round(flying: Callable[[], int]) -> None:
    plain, x = operands()
    for _ in range(3):
        u, v = x, plain
        for _ in range(60):
            u, v = np.sqrt(u * 0.5 + 0.25), np.sqrt(v * 0.5 + 0.25)
        u, v = u[::-1] * 2.0, v[::-1] * 2.0
        future = npaccel.evaluate(u, wait=False)
        w = x + 1.0
        np.testing.assert_array_equal(np.asarray(future.result()), v)
        np.testing.assert_array_equal(np.asarray(w), plain + 1.0)


def test_waiting_can_be_given_up(flying: Callable[[], int], checked: bool) -> None:
    plain, x = operands()
    y = endless()
    future = npaccel.evaluate(y, wait=False)
    if not checked:
        with pytest.raises(concurrent.futures.TimeoutError):
            future.result(0.0)
        with pytest.raises(concurrent.futures.TimeoutError):
            future.exception(0.0)
    assert not future.cancel()
    z = x + 1.0
    assert future.result(60) is y
    np.testing.assert_array_equal(np.asarray(y), np.asarray(endless()))
    np.testing.assert_array_equal(np.asarray(z), plain + 1.0)


def test_callbacks_may_record_and_begin_runs(flying: Callable[[], int]) -> None:
    plain, x = operands()
    found: concurrent.futures.Future[Any] = concurrent.futures.Future()

    def call(future: concurrent.futures.Future[Any]) -> None:
        found.set_result(npaccel.evaluate(future.result() * 2.0, wait=False))

    future = npaccel.evaluate(slow(x), wait=False)
    future.add_done_callback(call)
    second = found.result(60)
    np.testing.assert_array_equal(np.asarray(second.result(60)), slow(plain) * 2.0)
    late: list[Any] = []
    future.add_done_callback(late.append)
    assert late == [future]


def test_await(flying: Callable[[], int]) -> None:
    plain, x = operands()

    async def main() -> list[Any]:
        first = npaccel.evaluate(slow(x), wait=False)
        second = npaccel.evaluate(x + 1.0, wait=False)
        return [await second, *await asyncio.gather(asyncio.wrap_future(first))]

    one, other = asyncio.run(main())
    np.testing.assert_array_equal(np.asarray(one), plain + 1.0)
    np.testing.assert_array_equal(np.asarray(other), slow(plain))


def test_wait(flying: Callable[[], int]) -> None:
    _, x = operands()
    begun = [npaccel.evaluate(slow(x) + k, wait=False) for k in range(4)]
    done, left = npaccel.wait(begun, 60)
    assert done == set(begun) and not left
    more = npaccel.evaluate(x + 1.0, wait=False)
    assert more in npaccel.wait([more], return_when=concurrent.futures.FIRST_COMPLETED).done
    assert list(concurrent.futures.as_completed([more], 60)) == [more]


def test_explain_tells_of_the_run_that_makes_it(flying: Callable[[], int]) -> None:
    _, x = operands()
    y = x + 1.0
    npaccel.evaluate(y, wait=False)
    told = npaccel.explain(y)
    assert "Not computed yet" not in str(told)
    assert "add" in str(told) or not _native.guarded()


def test_hint_read_begins_early(flying: Callable[[], int], checked: bool) -> None:
    plain, x = operands()
    npaccel.hint_read(x)
    assert flying() == 0
    y = slow(x)
    npaccel.hint_read(y)
    assert flying() == (0 if checked else 1)
    np.testing.assert_array_equal(np.asarray(y), slow(plain))


def test_warnings_come_with_the_result_at_the_users_line(flying: Callable[[], int]) -> None:
    _, x = operands()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        y = x / (x * 0.0)
        line = sys._getframe().f_lineno - 1
        future = npaccel.evaluate(y, wait=False)
        future.result()
    assert [(str(w.message), w.lineno) for w in caught] == [
        ("divide by zero encountered in divide", line)
    ]


def test_warnings_belong_to_the_filters_they_were_recorded_under(flying: Callable[[], int]) -> None:
    _, x = operands()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        future = npaccel.evaluate(x / (x * 0.0), wait=False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        future.result()
    assert not caught


def test_errstates_that_raise_do_so_at_the_call(flying: Callable[[], int]) -> None:
    _, x = operands()
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        npaccel.evaluate(x / (x * 0.0), wait=False)


@pytest.mark.parametrize("deep", [1, 3])
def test_forks_wait_for_all(flying: Callable[[], int], deep: int) -> None:
    plain, x = operands()
    y = x
    for _ in range(deep):
        y = slow(y)
        future = npaccel.evaluate(y, wait=False)
    expected = plain
    for _ in range(deep):
        expected = slow(expected)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            good = future.done() and np.array_equal(np.asarray(y), expected)
            again = npaccel.evaluate(x * 2.0, wait=False)
            code = 0 if good and np.array_equal(again.result(30), plain * 2.0) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    np.testing.assert_array_equal(np.asarray(future.result()), expected)
    np.testing.assert_array_equal(
        np.asarray(npaccel.evaluate(x + 1, wait=False).result()), plain + 1
    )


def test_a_signal_ends_a_wait_and_not_the_run(flying: Callable[[], int]) -> None:
    """In `result`, and in a touch."""
    large = npaccel.asarray(np.linspace(0.1, 1.0, 32 * SIZE))
    expected = slow(np.asarray(large))
    for wait in (lambda f, y: f.result(), lambda f, y: float(y[3])):
        stopped = False
        y = slow(large)
        future = npaccel.evaluate(y, wait=False)
        try:
            threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGINT)).start()
            wait(future, y)
            time.sleep(5)
        except KeyboardInterrupt:
            stopped = True
        assert stopped
        np.testing.assert_array_equal(np.asarray(future.result()), expected)


def test_several_threads(flying: Callable[[], int]) -> None:
    failed: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            plain = np.random.default_rng(seed).random(20_000)
            x = npaccel.asarray(plain)
            for k in range(25):
                y = np.sqrt(x) + k
                future = npaccel.evaluate(y, wait=False)
                z = y * 2.0
                np.testing.assert_array_equal(np.asarray(z), (np.sqrt(plain) + k) * 2.0)
                np.testing.assert_array_equal(np.asarray(future.result()), np.sqrt(plain) + k)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_memory_comes_back(flying: Callable[[], int]) -> None:
    _, x = operands()
    npaccel.evaluate(slow(x), wait=False).result()
    npaccel.evaluate()
    before = npaccel.stats()["live_bytes"]
    for _ in range(20):
        y = slow(x)
        npaccel.evaluate(y, wait=False)
        z = y + 1.0
        npaccel.evaluate(z, wait=False)
        del y, z
    npaccel.evaluate()
    end = time.monotonic() + 30  # futures are told, and let go of their values, by a thread
    while npaccel.stats()["live_bytes"] > before + 2 * x.nbytes and time.monotonic() < end:
        npaccel.evaluate(x * 1.0)
    assert time.monotonic() < end


PROGRAMS = {
    "the end of the interpreter": """
        y = slow(x); f = npaccel.evaluate(y, wait=False)
        f.add_done_callback(lambda f: print(float(f.result()[3]) == float(expected[3])))
    """,
    "what runs at exit": """
        import atexit
        def late():
            print(npaccel.evaluate(x + 1.0, wait=False).result()[3] == plain[3] + 1)
        atexit.register(late)
        y = slow(x); f = npaccel.evaluate(y, wait=False)
    """,
    "Ctrl-C": """
        y = slow(x); f = npaccel.evaluate(y, wait=False)
        print(True, flush=True)
        raise KeyboardInterrupt
    """,
    "sys.exit": """
        y = slow(x); f = npaccel.evaluate(y, wait=False)
        print(True)
        sys.exit()
    """,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_exit_with_a_run_in_flight(name: str) -> None:
    source = f"""
        import sys
        import numpy as np, npaccel
        from npaccel.runtime.engine import futures
        futures.LEAST_S = 0.0
        plain = np.linspace(0.1, 1.0, {16 * SIZE})
        x = npaccel.asarray(plain.copy())
        def slow(x):
            for _ in range({STEPS}):
                x = np.sqrt(np.abs(x * x - 0.25)) + 0.125
            return x
        expected = slow(plain)
    """
    text = textwrap.dedent(source) + textwrap.dedent(PROGRAMS[name])
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", text],
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
    )
    assert done.returncode == (-signal.SIGINT if name == "Ctrl-C" else 0), done.stderr
    assert done.stdout.split() == ["True"]


@needs_pending
@pytest.mark.parametrize("seed", [3, 340])
def test_random_loops_with_futures(seed: int) -> None:
    """A few of what `bench/soak_futures.py` runs by the thousand."""
    bench = Path(__file__).parents[3] / "bench" / "soak_futures.py"
    command = [
        sys.executable,
        str(bench),
        "--programs",
        "6",
        "--processes",
        "1",
        "--seed",
        str(seed),
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
