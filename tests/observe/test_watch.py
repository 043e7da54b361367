"""`npaccel.watch`: the program stops at the operation that makes a condition true."""

from __future__ import annotations

import inspect
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lines import here

import npaccel
from npaccel import _native

from ..safety.fresh import environment

pytestmark = [pytest.mark.usefixtures("deferred"), pytest.mark.pending]
N = 60


@pytest.fixture
def stops(monkeypatch) -> list[int]:
    """The lines of this file at which the program stopped; a debugger that goes on at once."""
    lines: list[int] = []

    def hook() -> None:
        frame = inspect.currentframe()
        while frame.f_code.co_filename != __file__ or frame.f_code.co_name == "hook":
            frame = frame.f_back
        lines.append(frame.f_lineno)

    monkeypatch.setattr(sys, "breakpointhook", hook)
    return lines


def array() -> npaccel.Array:
    return npaccel.asarray(np.arange(float(N)).reshape(6, 10))


def large(value: np.ndarray) -> bool:
    assert type(value) is np.ndarray
    return bool((value > 1000).any())


def test_the_line_is_that_of_the_operation_and_others_are_not_looked_at(stops, capsys) -> None:
    x = array() + 0
    y = npaccel.evaluate(x * 2)
    with npaccel.watch(x, large) as watch:
        z = y + 1
        z -= 1
        assert _native.is_pending(z)  # until what is watched is written
        x += 5
        x *= 100
        line = here() - 1
        x += 1  # still true
        assert watch.stops == 1
        x -= 9000
        x[2, 3] = 2000.0
        second = here() - 1
    x += 1e6
    assert stops == [line, second] and watch.stops == 2
    told = capsys.readouterr().err.splitlines()
    assert told[0] == f"npaccel: {__file__}:{line}: multiply has made the condition on " + (
        "float64[6, 10] true"
    )
    assert len(told) == 2
    assert np.array_equal(z, np.arange(float(N)).reshape(6, 10) * 2)


def by_view(x):
    part = x[1:3, ::2]
    part += 2000


def by_flat(x):
    x.reshape(-1)[7:9] = [5000.0, 1.0]


WRITES = {
    "in place": lambda x: x.__iadd__(2000),
    "out": lambda x: np.add(x, 2000, out=x),
    "out by name": lambda x: np.multiply(array(), 100, out=x),
    "slice": lambda x: x.__setitem__(np.s_[1:2], 4000),
    "element": lambda x: x.__setitem__((3, 4), 4000.0),
    "mask": lambda x: x.__setitem__(x > 30, 4000.0),
    "indices": lambda x: x.__setitem__(([1, 2], [3, 4]), 4000.0),
    "array": lambda x: x.__setitem__(..., array() * 100),
    "copyto": lambda x: np.copyto(x, 4000.0),
    "fill": lambda x: x.fill(4000.0),
    "put": lambda x: np.put(x, [1, 2], 4000.0),
    "view": by_view,
    "flat": by_flat,
    "ufunc.at": lambda x: np.add.at(x, (slice(None), 2), 4000.0),
    "reduction": lambda x: np.add.reduce(array()[None] * 100, axis=0, out=x),
    "where": lambda x: np.add(x, 4000, out=x, where=x > 30),
}


@pytest.mark.parametrize("way", WRITES)
@pytest.mark.parametrize("threshold", [0, 1 << 18])
def test_ways_to_write(way, threshold, stops, setting) -> None:
    setting("threshold", threshold)
    x = array()  # an Array, however small
    expected = np.array(x)
    WRITES[way](expected)
    with npaccel.watch(x, large):
        WRITES[way](x)
        x[0, 0] = 0.5  # the next operation of npaccel's notices what NumPy did on its own
    expected[0, 0] = 0.5
    assert len(stops) == 1 and np.array_equal(x, expected)


def test_what_does_not_write_it_stops_nowhere(stops) -> None:
    x = array() + 0
    with npaccel.watch(x, large):
        y = x * 1000
        y += 1000
        assert y.max() > 1000
        other = array()
        other[:] = 5000
    assert not stops and np.array_equal(x, array())


def test_what_is_true_already_stops_at_once(stops) -> None:
    x = array() * 1000
    line = here() + 1
    with npaccel.watch(x, large):
        x += 1
    assert stops == [line]


def test_several_watches_and_nested_looks(stops) -> None:
    x, y = array() + 0, array() + 0

    def looks(value) -> bool:
        inner = npaccel.asarray(value) + 1  # its own operations stop nowhere
        x_now = npaccel.peek(x)
        return inner.sum() > 1e5 and x_now.any()

    first, second = npaccel.watch(x, large), npaccel.watch(y, looks)
    y *= 1000
    one = here() - 1
    x *= 1000
    two = here() - 1
    first.stop(), second.stop(), second.stop()
    x *= 0
    x += 1e9
    assert stops == [one, two]


def test_what_a_condition_raises_is_raised_at_the_operation(stops) -> None:
    x = array() + 0

    def fails(value) -> bool:
        if value.max() > 100:
            raise KeyError("as asked")
        return False

    with npaccel.watch(x, fails):
        with pytest.raises(KeyError, match="as asked"):
            x += 1000
        assert x[0, 0] == 1000  # the operation itself is done
    x += 1
    assert x[0, 0] == 1001 and not stops


def test_another_thread_stops_where_it_writes(stops) -> None:
    x = array() + 0
    found: list[int] = []

    def write() -> None:
        x.__imul__(1000)
        found.append(here() - 1)

    with npaccel.watch(x, large):
        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
    assert stops == found


def test_bodies_of_sections_run_as_they_are_written(stops) -> None:
    lines: list[int] = []

    @npaccel.macro
    def step(u, v):
        w = u * 2
        v += w
        return w.sum()

    u, v = array() + 0, array() + 0
    expected = [step(u, v) for _ in range(3)]
    before = step.stats()["replays"]
    with npaccel.watch(v, large):
        for _ in range(8):
            assert step(u, v) == expected[0]
    assert step.stats()["replays"] == before and len(stops) == 1
    assert "v += w" in inspect.getsource(sys.modules[__name__]).splitlines()[stops[0] - 1]
    assert step(u, v) == expected[0] and not lines


def test_wrong_arguments() -> None:
    with pytest.raises(TypeError, match="watch takes an array, not list"):
        npaccel.watch([1], large)
    with pytest.raises(TypeError, match="watch takes a function, not bool"):
        npaccel.watch(array(), True)


STEPS = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 2)), max_size=14)


def program(steps, values, after) -> None:
    """after : is called behind each step."""
    for number, (deed, k) in enumerate(steps):
        a, b = values[k], values[(k + 1) % 3]
        match deed:
            case 0:
                a += b
            case 1:
                a *= -1.5
            case 2:
                a[1:] = b[:-1]
            case 3:
                np.add(a, b, out=values[(k + 2) % 3])
            case 4:
                a[::2] += 40
            case 5:
                values[k] = np.maximum(a, b) - 3  # another array: what was there stays
            case 6:
                a[5] = 70.0
            case 7:
                a[a > 50] = -1
        after(number)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_random_programs_stop_where_numpy_becomes_so(steps) -> None:
    def condition(value) -> bool:
        return bool(value.max() > 55)

    plain = [np.arange(30.0) + k for k in range(3)]
    watched, was, expected = plain[0], condition(plain[0]), []

    def note(number: int) -> None:
        nonlocal was
        now = condition(watched)
        if now and not was:
            expected.append(number)
        was = now

    program(steps, plain, note)
    own = [npaccel.asarray(np.arange(30.0) + k) + 0 for k in range(3)]
    seen: list[int] = []
    counter = [0]
    before, sys.breakpointhook = sys.breakpointhook, lambda: seen.append(counter[0])
    try:
        with npaccel.watch(own[0], condition):
            program(steps, own, lambda number: counter.__setitem__(0, number + 1))
    finally:
        sys.breakpointhook = before
    assert seen == expected
    for one, other in zip(own, plain, strict=True):
        assert one.tobytes() == other.tobytes()


def test_pdb_stops_behind_the_line(tmp_path) -> None:
    (tmp_path / "program.py").write_text("""\
import numpy as np
import npaccel
x = npaccel.asarray(np.zeros(100_000)) + 1
npaccel.watch(x, lambda v: (v > 50).any())
for i in range(9):
    x *= 2
    x += 0
print("end", x[0], i)
""")
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        input="p i, x[5]\np __name__\nn\nn\nw\nc\n",
        env={k: v for k, v in environment().items() if k != "PYTHONBREAKPOINT"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, "multiply has made" in done.stderr) == (0, True), done.stderr
    assert "program.py:6: " in done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].endswith("program.py(7)<module>()") and lines[1] == "-> x += 0"
    assert "(Pdb) (5, np.float64(64.0))" in lines and "(Pdb) '__main__'" in lines
    assert lines[-1].endswith("end 512.0 8")
