"""What nobody sees is not computed, unless it would be heard; Python's own record says so."""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import npaccel

pytestmark = pytest.mark.pending
N = 100_000

# A module of its own, with a registry of its own.
SOURCE = """
import numpy as np

def roots(x):
    np.sqrt(x)

def quotients(x, y):
    np.divide(x, y)

def logarithms(x):
    np.log(x)

def used(x):
    return np.sqrt(x)
"""


@pytest.fixture(params=["off", "eager"])
def tier(request, setting) -> str:
    setting("tiering", request.param)
    setting("threshold", 1 << 18)
    return str(request.param)


@pytest.fixture
def module(tier: str) -> Iterator[types.ModuleType]:
    npaccel.evaluate()
    made = types.ModuleType("of_the_user")
    exec(compile(SOURCE, "of_the_user.py", "exec"), vars(made))
    yield made
    npaccel.evaluate()


def values(*given: float) -> Any:
    return npaccel.asarray(np.resize(np.array(given), N))


def dead(run: Callable[[], object]) -> int:
    """How many requests of what it does, and evaluates, were never computed."""
    npaccel.evaluate()
    before = npaccel.stats()["dead_requests"]
    run()
    npaccel.evaluate()
    return int(npaccel.stats()["dead_requests"] - before)


def heard(run: Callable[[], object], action: str = "default") -> list[str]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter(action)
        run()
        npaccel.evaluate()
    return [str(w.message) for w in seen]


def test_what_cannot_warn_is_not_computed(tier: str) -> None:
    x = values(1.0, -2.0)

    def run() -> None:
        np.negative(np.absolute(x))

    assert dead(run) == 2
    with np.errstate(all="ignore"):
        assert dead(lambda: np.sqrt(x) * 2) == 2


def test_results_that_are_seen_or_read_are_computed(tier: str) -> None:
    x = values(1.0, 4.0)
    with np.errstate(all="ignore"):
        a = np.sqrt(x)
        b = a + 1
        del a
        c = b * 3  # nobody reads it
        d = b[5:] * 2
        part = np.negative(x)
        part[:10] = b[:10]
        del c, b, part
        assert dead(lambda: None) >= 0
        np.testing.assert_array_equal(np.asarray(d), (np.sqrt(np.asarray(x)) + 1)[5:] * 2)


def test_what_is_overwritten_in_part_and_read(tier: str) -> None:
    x = values(1.0, 4.0)
    with np.errstate(all="ignore"):
        a = x * 2
        a[::2] = 7.0
        whole = a + 0.5
        a *= 3  # dies unread
        del a
        expected = np.asarray(x) * 2
        expected[::2] = 7.0
        np.testing.assert_array_equal(np.asarray(whole), expected + 0.5)


def test_a_warning_that_was_shown_is_not_computed_again(module: types.ModuleType) -> None:
    x = values(-1.0, 4.0)

    def run() -> None:
        assert [dead(lambda: module.roots(x)) for _ in range(3)] == [0, 1, 1]
        assert dead(lambda: module.used(x)) == 0  # another line
        assert dead(lambda: module.used(x)) == 1

    assert heard(run) == ["invalid value encountered in sqrt"] * 2


def test_filters_that_show_all_of_them_have_them_computed(module: types.ModuleType) -> None:
    x = values(-1.0, 4.0)

    def run() -> None:
        assert [dead(lambda: module.roots(x)) for _ in range(3)] == [0, 0, 0]

    assert heard(run, "always") == ["invalid value encountered in sqrt"] * 3


def test_filters_that_ignore_them_have_nothing_computed(module: types.ModuleType) -> None:
    x = values(-1.0, 4.0)

    def run() -> None:
        assert dead(lambda: module.roots(x)) == 1

    assert heard(run, "ignore") == []
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("ignore")
        module.roots(x)
        warnings.simplefilter("always")  # it was recorded under the other one
        npaccel.evaluate()
        module.roots(x)
        npaccel.evaluate()
    assert len(seen) == 1
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("ignore")
        warnings.filterwarnings("default", message="no such", category=RuntimeWarning)
        assert dead(lambda: module.roots(x)) == 0  # it might be heard
    assert not seen


def test_what_its_line_may_still_warn_of_is_computed(module: types.ModuleType) -> None:
    """All kinds must have been shown: a logarithm of zero is not one of a negative number."""
    zero, negative = values(0.0, 1.0), values(-1.0, 1.0)

    def run() -> None:
        assert dead(lambda: module.logarithms(zero)) == 0
        assert dead(lambda: module.logarithms(zero)) == 0
        assert dead(lambda: module.logarithms(negative)) == 0
        assert dead(lambda: module.logarithms(values(-1.0, 0.0))) == 1

    assert heard(run) == [
        "divide by zero encountered in log",
        "invalid value encountered in log",
    ]


def test_a_registry_that_is_emptied_is_believed(module: types.ModuleType) -> None:
    x = values(-1.0, 4.0)

    def run() -> None:
        module.roots(x)
        npaccel.evaluate()
        module.__warningregistry__.clear()
        assert dead(lambda: module.roots(x)) == 0
        assert dead(lambda: module.roots(x)) == 1

    assert heard(run) == ["invalid value encountered in sqrt"] * 2


def test_filters_that_changed_have_it_shown_again(module: types.ModuleType) -> None:
    x = values(-1.0, 4.0)

    def run() -> None:
        module.roots(x)
        npaccel.evaluate()
        warnings.filterwarnings("default", message="no such")  # another version of the filters
        assert dead(lambda: module.roots(x)) == 0

    assert heard(run) == ["invalid value encountered in sqrt"] * 2


def test_each_request_is_asked_for_in_its_own_scope(module: types.ModuleType) -> None:
    x = values(-1.0, 4.0)

    def run() -> None:
        module.roots(x)
        npaccel.evaluate()  # shown, under these filters
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            module.roots(x)  # to be shown, under these
        assert dead(lambda: None) == 0

    numpys = [str(w.message) for w in _by_numpy(module)]
    assert heard(run) == numpys == ["invalid value encountered in sqrt"] * 2


def _by_numpy(module: types.ModuleType) -> list[warnings.WarningMessage]:
    x = np.array([-1.0, 4.0])
    vars(module).pop("__warningregistry__", None)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        module.roots(x)
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            module.roots(x)
    vars(module).pop("__warningregistry__", None)
    return seen


def test_a_function_that_shows_warnings_may_do_anything(module: types.ModuleType) -> None:
    x, shown = values(-1.0, 4.0), []
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = lambda *args: shown.append(args)
        module.roots(x)
        npaccel.evaluate()
        assert dead(lambda: module.roots(x)) == 0
    assert len(shown) == 1


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", range(12))
def test_as_numpy(module: types.ModuleType, seed: int) -> None:
    """Programs at random: what is heard, in its order, is what NumPy's own calls have heard."""

    def program(make: Callable[[np.ndarray[Any, Any]], Any]) -> list[tuple[str, int]]:
        rng = np.random.default_rng(seed)
        vars(module).pop("__warningregistry__", None)
        arrays = [make(np.resize([a, 1.0], N)) for a in (-1.0, 0.0, 2.0, np.inf)]
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("default")
            for step in rng.integers(0, 9, 40):
                x, y = (arrays[k] for k in rng.integers(0, len(arrays), 2))
                if step == 0:
                    npaccel.evaluate()
                elif step == 1:
                    warnings.filterwarnings("default", message=f"{rng.integers(3)}")
                elif step == 2:
                    npaccel.evaluate()
                    vars(module).get("__warningregistry__", {}).clear()
                elif step == 3:
                    with warnings.catch_warnings():
                        warnings.simplefilter(["default", "ignore", "always"][rng.integers(3)])
                        module.roots(x)
                elif step == 4:
                    module.quotients(x, y)
                elif step == 5:
                    module.logarithms(x)
                else:
                    module.roots(x)
            npaccel.evaluate()
        return [(str(w.message), w.lineno) for w in seen]

    assert program(npaccel.asarray) == program(lambda a: a)


def test_waiting_requests_of_the_rest_keep_what_they_read(tier: str, setting) -> None:
    """A flush of whole rounds runs a part of the queue; what is behind it still reads."""
    setting("queue_limit", 16)
    x = values(1.0, 2.0)
    with np.errstate(all="ignore"):
        for _ in range(20):
            np.negative(x)  # unseen
            x = x * 0.5 + 1.0
    expected = np.resize([1.0, 2.0], N)
    for _ in range(20):
        expected = expected * 0.5 + 1.0
    np.testing.assert_array_equal(np.asarray(x), expected)
