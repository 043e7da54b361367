"""`npaccel.peek` and `npaccel.step`: values are seen, and nothing else changes."""

from __future__ import annotations

import inspect
import threading
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npaccel
from npaccel import _native

pytestmark = [pytest.mark.usefixtures("deferred"), pytest.mark.pending]
N = 60


MEMORY = ("armed_blocks", "live_ranges", "live_bytes", "used_bytes", "nursery_bytes", "mappings")


def counts() -> dict[str, object]:
    """All but where memory is at the moment: copies are made for a look."""
    return {name: value for name, value in npaccel.stats().items() if name not in MEMORY}


def array(dtype: str = "f8", seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype[0] in "iu":
        return rng.integers(0, 50, N).astype(dtype)
    if dtype == "b1":
        return rng.random(N) > 0.5
    return rng.standard_normal(N).astype(dtype)


DEEDS = {
    "add": lambda np_, a, b: a + b,
    "root": lambda np_, a, b: np_.sqrt(a * a + 1),
    "where": lambda np_, a, b: np_.where(a > b, a, b * 2),
    "slices": lambda np_, a, b: (a[1:-1] + b[2:]).copy(),
    "reversed": lambda np_, a, b: (a + b)[::-2],
    "sum": lambda np_, a, b: (a.reshape(6, 10) * 2).sum(axis=0),
    "maximum": lambda np_, a, b: (a + b).reshape(6, 10).max(axis=1, keepdims=True),
    "cumulative": lambda np_, a, b: (a + 1).cumsum(),
    "take": lambda np_, a, b: (a * 3).take(np.arange(N)[::3]),
    "astype": lambda np_, a, b: (a + b).astype("c16"),
    "transposed": lambda np_, a, b: (a.reshape(6, 10) - 1).T,
    "empty": lambda np_, a, b: (a + b)[5:5],
}


@pytest.mark.parametrize("deed", DEEDS)
@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "i4", "u1", "c16"])
def test_value_dtype_shape_and_still_pending(deed: str, dtype: str) -> None:
    plain = array(dtype), array(dtype, 1)
    with np.errstate(all="ignore"):
        expected = DEEDS[deed](np, *plain)
        pending = DEEDS[deed](np, *map(npaccel.asarray, plain))
    waits, before = _native.is_pending(pending), counts()
    seen = npaccel.peek(pending)
    assert type(seen) is np.ndarray and not np.shares_memory(seen, pending)
    assert (seen.dtype, seen.shape) == (expected.dtype, expected.shape)
    assert seen.tobytes() == expected.tobytes()
    assert _native.is_pending(pending) is waits
    assert counts() == before
    assert np.asarray(pending).tobytes() == expected.tobytes()
    assert npaccel.peek(pending).tobytes() == expected.tobytes()


def test_parts() -> None:
    a = npaccel.asarray(array().reshape(6, 10)) + 1
    expected = array().reshape(6, 10) + 1
    for at in [(2, 3), np.s_[:2, ::3], 4, np.s_[..., -1], ([0, 1], [2, 2])]:
        seen = npaccel.peek(a, at=at)
        assert np.array_equal(seen, expected[at]) and type(seen) is type(expected[at])
    with pytest.raises(IndexError, match="out of bounds"):
        npaccel.peek(a, at=(7, 0))
    assert _native.is_pending(a)


def test_what_waits_for_nothing() -> None:
    plain = np.arange(5)
    seen = npaccel.peek(plain)
    assert np.array_equal(seen, plain) and not np.shares_memory(seen, plain)
    done = npaccel.evaluate(npaccel.asarray(array()) * 2)
    waiting = done + 1
    assert np.array_equal(npaccel.peek(done), array() * 2)
    assert _native.is_pending(waiting)
    with pytest.raises(TypeError, match="peek takes an array, not list"):
        npaccel.peek([1])


def test_a_hidden_result_stays_hidden() -> None:
    large = np.linspace(0.0, 1.0, 1 << 16)
    made = npaccel.evaluate(npaccel.asarray(large) * 2)
    following = made + 1
    before = npaccel.stats()["guard_faults"]
    assert np.array_equal(npaccel.peek(made), large * 2)
    assert npaccel.stats()["guard_faults"] == before and _native.is_pending(following)


def program(steps, wrap, look) -> list[np.ndarray]:
    """What it leaves; look : is called with the values after the steps that say so."""
    values = [wrap(array(seed=seed)) for seed in range(3)]
    for deed, looked_at, k in steps:
        a, b = values[k], values[(k + 1) % 3]
        if deed == 0:
            values[k] = a * 0.5 + b
        elif deed == 1:
            a += b
        elif deed == 2:
            a[1:] = b[:-1]
        elif deed == 3:
            values[k] = np.maximum(a, b)
        elif deed == 4:
            values[k] = np.where(b > 0, a, -a)
        else:
            a[::2] *= 2
        if looked_at:
            look(values)
    return [np.asarray(value) for value in values]


STEPS = st.lists(
    st.tuples(st.sampled_from(range(6)), st.booleans(), st.integers(0, 2)), max_size=12
)


@settings(max_examples=40, deadline=None)
@given(STEPS)
def test_a_program_that_is_looked_at_is_the_same_to_the_bit(steps) -> None:
    expected, seen = [], []
    plain = program(steps, np.array, lambda values: expected.append(list(map(np.array, values))))
    npaccel.evaluate()
    told = [npaccel.stats()]
    looked = program(
        steps, npaccel.asarray, lambda values: seen.append(list(map(npaccel.peek, values)))
    )
    told.append(npaccel.stats())
    unlooked = program(steps, npaccel.asarray, lambda values: None)
    told.append(npaccel.stats())
    for name in ("requests", "flushes", "guard_faults"):
        first, middle, last = (count[name] for count in told)
        assert middle - first == last - middle, name
    for one, other, numpys in zip(looked, unlooked, plain, strict=True):
        assert one.tobytes() == other.tobytes() == numpys.tobytes()
    for copies, wanted in zip(seen, expected, strict=True):
        assert [c.tobytes() for c in copies] == [w.tobytes() for w in wanted]


def test_a_look_warns_of_nothing_and_the_run_still_does() -> None:
    a = npaccel.asarray(array()) * 0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        b = 1 / a
        assert np.isinf(npaccel.peek(b)).all()
        assert list.__len__(caught) == 0  # a look at it would end what is pending
        npaccel.evaluate(b)
    assert [str(w.message) for w in caught] == ["divide by zero encountered in divide"]
    assert caught[0].lineno == inspect.currentframe().f_lineno - 5


def test_in_a_block_and_random_numbers() -> None:
    rng, other = np.random.default_rng(3), np.random.default_rng(3)
    with npaccel.accelerate(min_size=0):
        a = rng.standard_normal(N) * 2
        state = rng.bit_generator.state
        seen = npaccel.peek(a)
        assert type(seen) is np.ndarray and rng.bit_generator.state == state
        b = rng.standard_normal(N)
    assert np.array_equal(seen, other.standard_normal(N) * 2)
    assert np.array_equal(np.asarray(b), other.standard_normal(N))


def test_in_a_macro_section() -> None:
    """Its body runs, then, and is not recorded."""
    seen = []

    @npaccel.macro
    def body(x):
        y = x * 2
        seen.append(npaccel.peek(y))
        return y

    for _ in range(3):
        made = body(npaccel.asarray(array()))
        assert np.array_equal(seen[-1], array() * 2) and np.array_equal(made, array() * 2)


# ---------------------------------------------------------------------------------------- step


def test_each_operation_runs_at_its_line() -> None:
    a = npaccel.asarray(array())
    waiting = a + 1
    with npaccel.step():
        assert not _native.is_pending(waiting)
        b = a * 2
        assert not _native.is_pending(b)
        with npaccel.step():
            c = b - a
        d = c + b
        assert not (_native.is_pending(c) or _native.is_pending(d))
    e = d + 1
    assert _native.is_pending(e)
    plain = array()
    assert np.array_equal(np.asarray(e), (plain * 2 - plain) + plain * 2 + 1)


def test_a_warning_comes_between_the_lines() -> None:
    a = npaccel.asarray(array()) * 0
    happened = []
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, kind, file, line, *rest: happened.append(line)
        with npaccel.step():
            b = 1 / a
            happened.append("after")
    assert happened == [inspect.currentframe().f_lineno - 2, "after"]
    assert np.isinf(b).all()


def test_it_ends_with_an_error_and_is_the_threads_own() -> None:
    a = npaccel.asarray(array())
    found = []
    with pytest.raises(ZeroDivisionError), npaccel.step():
        other = threading.Thread(target=lambda: found.append(_native.is_pending(a + 1)))
        other.start()
        other.join()
        raise ZeroDivisionError
    # For a while after another thread has recorded something, NumPy does what is new at once.
    later = [a * k for k in range(20)]
    assert found == [True] and _native.is_pending(later[-1])
