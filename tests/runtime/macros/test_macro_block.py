"""Macro sections as blocks: the body runs each time, what it records is found again."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import npaccel
from npaccel.errors import ConfigError, NpaccelWarning, SectionError

pytestmark = pytest.mark.usefixtures("deferred")


@pytest.fixture(autouse=True)
def plain_sizes(setting):
    """Outside of blocks small operations are NumPy's, as they are for users."""
    setting("threshold", 1 << 18)
    setting("tiering", "eager")
    npaccel.macro.clear()


def rand(n, seed=0):
    return np.random.default_rng(seed).random(n)


def counts(name):
    return npaccel.macro.stats()[name]


def test_a_block_is_planned_once():
    u, v = npaccel.asarray(rand(100)), npaccel.asarray(rand(100, 1))
    e, f = rand(100), rand(100, 1)
    npaccel.stats(reset=True)
    for _ in range(10):
        with npaccel.macro("step", u, v) as m:
            u, v = u * 0.5 + v, np.sqrt(abs(v)) - u * 0.1
        assert m.arrays[0].shape == (100,)
        e, f = e * 0.5 + f, np.sqrt(abs(f)) - e * 0.1
    assert np.array_equal(np.asarray(u), e) and np.array_equal(np.asarray(v), f)
    stats = npaccel.stats()
    assert stats["plan_misses"] <= 2 and stats["flushes"] == 10  # plain inputs first, then ours
    assert counts("step")["replays"] >= 8


def test_small_arrays_are_recorded_only_inside():
    x = npaccel.asarray(rand(10))
    with npaccel.macro("inside", x):
        npaccel.stats(reset=True)
        y = x + 1
        assert npaccel.stats()["requests"] == 1
    assert np.array_equal(y, rand(10) + 1)
    npaccel.stats(reset=True)
    assert type(x + 1) is np.ndarray and npaccel.stats()["requests"] == 0


def test_ufuncs_by_name_in_a_block_within_accelerate():
    """Of small arrays, in rounds that are recorded and in those that stand aside."""
    plain, other = rand(10), rand(10, 1)
    x = npaccel.asarray(plain)
    expected = np.maximum(np.multiply(np.add(plain, 1.0), other), 0.75)
    for _ in range(60):
        with npaccel.accelerate(), npaccel.macro("by name", x):
            y = np.maximum(np.multiply(np.add(x, 1.0), other), 0.75)
        assert np.array_equal(y, expected)


def test_control_values_choose_the_variant():
    for i in range(6):
        x = npaccel.asarray(rand(20, i))
        with npaccel.macro("either", x, control=(i % 2,)) as m:
            (a,) = m.arrays
            y = a * 2 if i % 2 else a + a.mean(keepdims=True)
        assert np.allclose(y, rand(20, i) * 2 if i % 2 else rand(20, i) + rand(20, i).mean())
    assert counts("either")["variants"] == 2 and counts("either")["replays"] == 4


def test_another_path_without_saying_so_is_right():
    for i in range(6):
        x = npaccel.asarray(rand(20, i))
        with npaccel.macro("silent", x):
            y = x * 2 if i % 3 else x - 1
        assert np.array_equal(y, rand(20, i) * 2 if i % 3 else rand(20, i) - 1)


def test_plain_arrays_are_wrapped_and_written():
    plain = rand(30)
    with npaccel.macro("write", plain) as m:
        (x,) = m.arrays
        x += 1
        x[::2] *= 2
    expected = rand(30) + 1
    expected[::2] *= 2
    assert np.array_equal(plain, expected)


READS = {
    "if": lambda y: bool((y > 0).all(keepdims=True)),
    "list": lambda y: y.tolist(),
    "text": lambda y: str(y),  # noqa: PLW0108
    "evaluate": npaccel.evaluate,
    "float": lambda y: float(y[3]),
    "bool": lambda y: bool(y[3] > 1),
    "element": lambda y: y[-1],
    "plain element": lambda y: np.asarray(y)[3],
    "plain mask": lambda y: np.asarray(y)[[True] * 10],
}


@pytest.mark.parametrize("name", READS)
def test_reads_are_illegal_and_nothing_is_lost(name):
    x = npaccel.asarray(rand(10))
    line = test_reads_are_illegal_and_nothing_is_lost.__code__.co_firstlineno + 5
    where = rf"'bad' \({__file__}:{line}\)"
    with pytest.raises(SectionError, match=where), npaccel.macro("bad", x):
        y = x + 1
        READS[name](y)
    assert np.array_equal(y, rand(10) + 1)
    with npaccel.macro("bad", x):  # it was left
        z = x + 2
    assert np.array_equal(z, rand(10) + 2)


@pytest.mark.parametrize("name", READS)
def test_on_illegal_warn_runs_in_parts(name):
    x = npaccel.asarray(rand(10))
    with (
        pytest.warns(NpaccelWarning, match="runs in parts"),
        npaccel.macro("parts", x, on_illegal="warn"),
    ):
        y = x + 1
        READS[name](y)
        y = y * 2
    assert np.array_equal(y, (rand(10) + 1) * 2)


def test_what_is_not_pending_may_be_read():
    x = npaccel.asarray(rand(10))
    known = npaccel.evaluate(npaccel.asarray(rand(10)) * 3)
    with npaccel.macro("known", x):
        y = x + 1
        assert known[3] == rand(10)[3] * 3 and np.asarray(known)[3] == known[3]
        assert float(x[2]) == rand(10)[2]
        part = np.asarray(y)[2:5]  # a view: nothing is read
    np.testing.assert_array_equal(part, rand(10)[2:5] + 1)
    assert np.asarray(y + 1)[3] == rand(10)[3] + 2  # outside again


def test_forgotten_recordings_are_counted(setting):
    setting("macro_cache", 2)
    for i in range(12):
        x = npaccel.asarray(rand(10))
        with npaccel.macro("many", x, control=i % 6):
            y = x * (i % 6)
        assert np.array_equal(y, rand(10) * (i % 6))
    found = counts("many")
    assert found["bodies"] == 12 and found["recordings"] >= 6 and found["variants"] <= 2


def test_the_same_block_again_inside_is_illegal():
    x = npaccel.asarray(rand(3))
    with npaccel.macro("outer", x), npaccel.macro("inner", x):
        with pytest.raises(SectionError, match="entered again"), npaccel.macro("outer", x):
            pass
        y = x + 1
    assert np.array_equal(y, rand(3) + 1)


def test_an_exception_leaves_the_block():
    x = npaccel.asarray(rand(3))
    with pytest.raises(KeyError), npaccel.macro("broken", x):
        y = x + 1
        raise KeyError
    assert np.array_equal(y, rand(3) + 1)
    npaccel.stats(reset=True)
    x + 1
    assert npaccel.stats()["requests"] == 0


def test_what_numpy_computes_inside_splits_the_block():
    x = npaccel.asarray(rand(10))
    with npaccel.macro("split", x):
        y = np.sort(x + 1)
        z = npaccel.asarray(y) * 2
    assert np.array_equal(z, np.sort(rand(10) + 1) * 2)


def test_a_block_is_its_threads():
    x = npaccel.asarray(rand(10))
    found = []

    def elsewhere():
        found.append(type(x + 1))

    with npaccel.macro("mine", x):
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert found == [np.ndarray]


def test_a_function_section_in_a_block():
    @npaccel.macro
    def double(x):
        return x * 2

    x = npaccel.asarray(rand(10))
    for _ in range(2):
        with npaccel.macro("around", x):
            y = double(x + 1) + x
        assert np.array_equal(y, (rand(10) + 1) * 2 + rand(10))


@pytest.mark.parametrize("control", [[1], {"a": 1}, (1, [2]), np.ones(3)])
def test_what_a_block_is_found_by_must_be_hashable(control: Any) -> None:
    with pytest.raises(ConfigError, match=r"macro\('b', control=.*unhashable type.*tuples"):
        npaccel.macro("b", control=control)


@pytest.mark.parametrize("wrong", [[1, 2], 3.0, None, "u", np.float64(2)])
def test_a_block_takes_arrays(wrong: Any) -> None:
    """The text says which argument is none."""
    said = rf"macro\('b', \.\.\.\): argument 2 is of type {type(wrong).__name__}, not an array"
    with pytest.raises(ConfigError, match=said):
        npaccel.macro("b", np.ones(3), wrong)


def test_options_that_there_are_not() -> None:
    said = r"no option 'shape', 'x'; it has control, on_illegal and boundscheck"
    for what in ("b", None, len):
        with pytest.raises(TypeError, match=said):
            npaccel.macro(what, shape=3, x=4)
    with pytest.raises(ConfigError, match=r"control=.*is for blocks"):
        npaccel.macro(control=3)
    with pytest.raises(ConfigError, match=r"on_illegal=.* 'raise' or 'warn'"):
        npaccel.macro("b", on_illegal=["raise"])
