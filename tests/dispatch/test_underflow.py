"""Where underflow is asked for, floating-point operations are NumPy's at once, and it is said."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np
import pytest

import npaccel
from npaccel import _native

REASON = "underflow is asked for (np.errstate)"
pytestmark = pytest.mark.pending


def plain(dtype: str = "f8") -> np.ndarray:
    return np.linspace(0.5, 3.0, 1 << 17).astype(dtype)


@dataclass
class Way:
    """How arrays come to npaccel: wrapped, or in a block."""

    wrap: Callable[[np.ndarray], np.ndarray]
    block: Callable[[], AbstractContextManager[object]]

    def run(self, operation: Callable[[np.ndarray], object], source: np.ndarray) -> object:
        """`operation` alone, as `stats` sees it."""
        npaccel.evaluate()
        npaccel.stats(reset=True)
        x = self.wrap(source)
        with self.block():
            return operation(x)


WAYS = {
    "wrapped": Way(npaccel.asarray, nullcontext),
    "block": Way(np.asarray, npaccel.accelerate),
}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> Iterator[Way]:
    _native.trials(False)
    yield WAYS[request.param]
    _native.trials(npaccel.config.tiering == "adaptive")


def in_place(x: np.ndarray) -> np.ndarray:
    x *= 0.5
    return x


def into_slice(x: np.ndarray) -> np.ndarray:
    x.astype("f4")[:] = x
    return x


OPERATIONS: dict[str, Callable[[np.ndarray], object]] = {
    "operator": lambda x: x * 2.0,
    "in place": in_place,
    "ufunc": np.exp,
    "out": lambda x: np.divide(x, 3.0, out=x),
    "where": lambda x: np.where(x > 1.0, x, 0.5),
    "copy": lambda x: x.copy(),
    "cast": lambda x: x.astype("f4"),
    "into a slice": into_slice,
    "reduction": lambda x: np.add.reduce(x.reshape(2, -1), axis=0),
    "scan": np.multiply.accumulate,
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_it_is_counted_with_its_reason_at_its_line(name: str, way: Way) -> None:
    want = OPERATIONS[name](plain())
    with np.errstate(all="warn"):
        have = way.run(OPERATIONS[name], plain())
    counts, told = npaccel.stats(), npaccel.explain()
    assert np.array_equal(np.asarray(have), np.asarray(want))
    assert counts["requests"] == 0 and counts["fallbacks"] >= 1, counts
    assert counts["reasons"] == {REASON: counts["fallbacks"]}
    assert {f.reason for f in told.fallbacks} == {REASON} and REASON in str(told)
    assert {f.site.rpartition(":")[0] for f in told.fallbacks} == {__file__}


def test_what_was_pending_is_an_operand_all_the_same(way: Way) -> None:
    def operation(x: np.ndarray) -> np.ndarray:
        y = x * 2.0
        assert _native.is_pending(y)
        with np.errstate(under="warn"):
            return y * 0.25

    have = way.run(operation, plain())
    assert np.array_equal(have, plain() * 0.5) and type(have) is np.ndarray


@pytest.mark.parametrize("multiply", [np.multiply, operator.mul])
def test_underflow_is_told_at_the_users_line(multiply: Callable, way: Way) -> None:
    tiny = np.full(1 << 17, 1e-200)
    with np.errstate(all="warn"), pytest.warns(RuntimeWarning, match="underflow") as told:
        way.run(lambda x: multiply(x, x), tiny)
    assert [warning.filename for warning in told] == [__file__]


def test_integers_and_other_errstates_are_recorded(way: Way) -> None:
    with np.errstate(all="warn"):
        assert _native.is_pending(way.run(lambda x: x + 1, np.arange(1 << 17)))
        assert _native.is_pending(way.run(lambda x: x > 3, np.arange(1 << 17)))
    with np.errstate(all="warn", under="ignore"):
        assert _native.is_pending(way.run(lambda x: x * 2.0, plain()))


@pytest.mark.parametrize("operation", [np.exp, lambda x: x * 2.0])
def test_a_raising_errstate_is_a_reason_too(operation: Callable, way: Way) -> None:
    with np.errstate(over="raise"):
        way.run(operation, plain())
    assert npaccel.stats()["reasons"] == {"errors raise, print or call (np.errstate)": 1}


@pytest.mark.skipif(npaccel.config.check != "off", reason="check mode records no sections")
def test_sections_run_by_numpys_loops_and_say_so() -> None:
    @npaccel.macro
    def step(u: np.ndarray) -> np.ndarray:
        return np.exp(u * 0.5)

    with np.errstate(all="warn"):
        results = [step(plain()) for _ in range(3)]
    assert np.array_equal(results[2], np.exp(plain() * 0.5))
    if npaccel.config.backend != "numpy":
        assert "underflow is asked for" in str(npaccel.explain(step))
