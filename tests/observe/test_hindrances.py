"""What keeps lines from gaining is found at the right line, for the right reason."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator

import numpy as np
import pytest
from lines import here

import npaccel
from npaccel import _native
from npaccel.ir.kinds import Kind
from npaccel.observe import weights
from npaccel.observe.explain import Explanation
from npaccel.observe.hindrances import ADDED, Hindrance, _call, gained_s, limits, verdict

pytestmark = pytest.mark.pending
SMALL, LARGE = 256, 100_000
# One call in 256 to 767 is looked at, so of these there are at least twelve.
CALLS = 10_000


@pytest.fixture(autouse=True)
def as_a_user(setting) -> Iterator[None]:
    """The usual threshold; nothing counted, nothing pending."""
    setting("threshold", 1 << 18)
    npaccel.evaluate()
    npaccel.stats(reset=True)
    yield
    npaccel.evaluate()


def found(words: str) -> Hindrance:
    """The one of this file whose reason has these words."""
    hindrances = npaccel.explain().hindrances
    (one,) = (h for h in hindrances if words in h.reason and __file__ in h.site)
    assert one.seconds > 0
    return one


def test_small_arrays() -> None:
    u = np.ones(SMALL)
    with npaccel.accelerate():
        for _ in range(CALLS):
            u = u * 0.5
    one = found("works on arrays of 2.0 KiB; from 256.0 KiB on")
    assert one.site == f"{__file__}:{here() - 2}" and one.lines == 1
    assert CALLS / 2 < one.calls < 2 * CALLS
    assert f"test_hindrances.py:{here() - 4} works on arrays of" in str(one)


def test_small_rows_of_ours() -> None:
    with npaccel.accelerate():
        u = npaccel.evaluate(np.ones((1000, 200)) * 2.0)
        for i in range(CALLS):
            u[i % 1000] *= 0.5
    assert found("works on arrays of 1.6 KiB").site == f"{__file__}:{here() - 1}"


@pytest.mark.parametrize("plain", [False, True])
def test_elements(plain: bool) -> None:
    x = np.ones(LARGE)
    with npaccel.accelerate():
        y = x if plain else npaccel.evaluate(x * 2)
        for i in range(CALLS):
            y[i] = y[i + 1]
    assert found("takes elements one by one").site == f"{__file__}:{here() - 1}"


def test_a_product_of_matrices() -> None:
    with npaccel.accelerate():
        a = np.ones((200, 200))
        for _ in range(3):
            a @ a
    one = found("calls matmul, which is NumPy's own (matrix product)")
    assert (one.site, one.calls) == (f"{__file__}:{here() - 2}", 3)


@pytest.mark.usefixtures("numpys_memory")
def test_writes_into_what_is_not_ours() -> None:
    a = np.ones(LARGE)
    with npaccel.accelerate():
        for _ in range(200):
            np.sqrt(a, out=a)
    one = found("writes in place into memory that is not npaccel's, 1 operation at a time")
    assert (one.site, one.calls) == (f"{__file__}:{here() - 2}", 200)


def test_writes_into_what_others_hold() -> None:
    with npaccel.accelerate():
        a = npaccel.evaluate(np.ones(LARGE) * 2.0)
        with memoryview(a):
            for _ in range(10):
                np.sqrt(a, out=a)
    one = found("writes into memory that other code holds a buffer on, 1 operation at a time")
    assert (one.site, one.calls) == (f"{__file__}:{here() - 2}", 10)


def test_a_result_is_read_each_round() -> None:
    total = 0.0
    with npaccel.accelerate():
        a = np.ones(LARGE)
        for _ in range(10):
            a = np.sqrt(a) + 1
            total += a[3]
    one = found("reads a result after every 2 operations")
    assert one.site == f"{__file__}:{here() - 2}" and one.calls >= 10


def test_a_result_is_read_after_each_operation() -> None:
    with npaccel.accelerate():
        a = npaccel.evaluate(np.ones(LARGE) * 2.0)
        for _ in range(10):
            a = np.sqrt(a)
            a[3]
    assert found("reads a result after every operation").site == f"{__file__}:{here() - 1}"


def test_a_result_is_read_through_a_pointer() -> None:
    a = npaccel.asarray(np.ones(LARGE))
    for _ in range(10):
        a = np.sqrt(a) + 1
        np.asarray(a)[3]
    b = a * 2
    one = found("comes after code that reads a result's memory by itself, after every 2 operations")
    assert (one.site, one.calls, one.lines) == (f"{__file__}:{here() - 4}", 10, 2)
    del b


def test_warnings_are_errors() -> None:
    a = np.ones(LARGE)
    with npaccel.accelerate(), warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(10):
            a = np.sqrt(a)
    assert found("since warnings are errors").site == f"{__file__}:{here() - 1}"


def test_what_comes_once_is_numpys() -> None:
    a = np.ones(LARGE)
    _native.trials(True)
    with npaccel.accelerate():
        b = a * 2.0
    assert found("does something new each time, on arrays of 781.2 KiB").calls == 1
    del b


def test_objects_are_numpys_for_what_they_are_and_not_for_coming_once() -> None:
    a = np.array([3, 2**70] * LARGE, object)
    _native.trials(True)
    with npaccel.accelerate():
        b = a * 2
    one = found("calls multiply, which is NumPy's own (dtype object has no kernel)")
    assert (one.site, one.calls) == (f"{__file__}:{here() - 2}", 1)
    assert b.dtype == object and list(b[:2]) == [6, 2**71]


@pytest.mark.parametrize("ours", [False, True])
def test_a_time_beside_an_array_is_numpys(ours: bool) -> None:
    numbers, day = np.arange(LARGE), np.timedelta64(1, "D")
    days = np.datetime64("2020-01-01") + numbers
    with npaccel.accelerate():
        if ours:
            numbers = npaccel.evaluate(numbers * 1)
        results = days - days[3], days > days[5], numbers * day
    one = found("calls subtract, which is NumPy's own (operand of type datetime64)")
    assert (one.site, one.calls) == (f"{__file__}:{here() - 2}", 1)
    assert found("(operand of type timedelta64)").calls == 1
    expected = days - days[3], days > days[5], np.arange(LARGE) * day
    for result, other in zip(results, expected, strict=True):
        assert result.dtype == other.dtype
        np.testing.assert_array_equal(result, other)


def test_many_operations_hinder_nothing() -> None:
    with npaccel.accelerate():
        a = np.ones(LARGE)
        for _ in range(20):
            a = np.sqrt(a) + 1
        a[3]
    assert not [h for h in npaccel.explain().hindrances if "reads a result" in h.reason]


def test_all_is_forgotten_with_the_counts() -> None:
    u = np.ones((200, 200))
    with npaccel.accelerate():
        u @ u
    assert npaccel.explain().hindrances
    npaccel.stats(reset=True)
    assert not [h for h in npaccel.explain().hindrances if __file__ in h.site]


def test_explain_says_the_longest() -> None:
    first, other = Hindrance("a reason", "a.py:3", 2, 5, 2.0), Hindrance("b", "a.py:4", 1, 5, 1.0)
    told = Explanation("Nothing has run yet.", (), hindrances=(first, other))
    assert "Longest without a gain: a.py:3 (and 1 other line) a reason (2 s)." in str(told)
    short = Explanation("Nothing has run yet.", (), hindrances=(first._replace(seconds=0.01),))
    assert "Longest" not in str(short)


def test_verdict() -> None:
    """Only of a program that gained little."""
    hindrance = Hindrance("works on arrays of 2.0 KiB", "a.py:3", 1, 5, 1.5)

    def gained(seconds: float):
        return lambda enough: seconds

    told = verdict(2.0, [hindrance], gained(0.1))
    assert told == "npaccel gained little: a.py:3 works on arrays of 2.0 KiB (75 % of 2.0 s)"
    assert verdict(2.0, [hindrance], gained(0.3)) == ""
    less = hindrance._replace(seconds=0.5)
    told = "75 % of 2.0 s went into Python itself and other libraries, not into array operations"
    assert verdict(2.0, [less], gained(-1.0)) == f"npaccel gained little: {told}"
    assert "100 % of 2.0 s went into Python" in verdict(2.0, [], gained(0.0))


def test_numpy_can_be_asked_for_all_that_is_recorded() -> None:
    with npaccel.accelerate():
        a, k = np.linspace(0.0, 1.0, LARGE), np.arange(LARGE)
        b = np.where(a > 0.5, np.exp(a), a.astype(np.float32)).cumsum()
        large = np.tile(b, 40)  # NumPy's own argmax below
        npaccel.evaluate(a.take(k), np.argmax(large + 1), b.max(keepdims=True), np.divmod(k, 3))
        npaccel.evaluate(k.astype(np.int16).sum(dtype=np.int16))
    rules = [rule for rule in _native.rules().values() if rule.counts[0] > 0]
    assert {Kind(rule.kind) for rule in rules} == set(Kind)
    for rule in rules:
        call = _call(rule, 60)
        if call is None and rule.name == "copy" and rule.loop[0][0] == "c" != rule.loop[-1][0]:
            continue  # a cast that warns
        assert call is not None, (rule.name, rule.loop)
        function, *operands = call
        result = function(*operands)
        results = result if isinstance(result, tuple) else (result,)
        folds = rule.kind in (Kind.REDUCE, Kind.ARG)
        assert {np.size(array) for array in results} == {1 if folds else 60}, rule.name
        assert results[-1].dtype.str[1:] == rule.loop[-1], rule.name


def test_nothing_is_measured_where_enough_is_gained() -> None:
    with npaccel.accelerate():
        npaccel.evaluate(np.exp(np.ones(LARGE)))
    requests = sum(rule.counts[0] for rule in _native.rules().values())
    assert gained_s(-math.inf, 5.0, 1e3) == pytest.approx(-5.0 - 1e-6 * requests)
    assert gained_s(math.inf, 5.0, 1e3) > -5.0 - 1e-6 * requests


def test_limits_are_measured_as_far_as_arrays_were_large() -> None:
    small, large = limits(1000), limits(ADDED[1] + 1)
    assert [size for size, _ in small["bytes_s"]] == [16 * ADDED[0]]
    assert [size for size, _ in large["bytes_s"]] == [16 * n for n in ADDED]
    assert all(1e-13 < pace < 1e-7 for _, pace in large["bytes_s"])
    assert large["bytes_s"][:1] == small["bytes_s"]  # nothing is measured twice
    assert 1e-11 < large["exp_s"] < 1e-6
    divide = {(name, code) for name, code, pace in large["divide_s"] if 1e-12 < pace < 1e-6}
    assert divide == set(weights.DIVIDERS)


def test_a_cast_that_warns_is_not_asked_of_numpy() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = npaccel.asarray(np.full(LARGE, 2j))
        npaccel.evaluate(x.astype("f8"))
    rules = [r for r in _native.rules().values() if r.name == "copy" and r.loop == ("c16", "f8")]
    assert [_call(rule, 60) for rule in rules] == [None] * len(rules)
