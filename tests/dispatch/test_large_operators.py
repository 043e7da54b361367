"""Operators on large plain arrays in a block, with all kinds of other operands: as NumPy's."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import npaccel
from npaccel import _native

from .differential import run, same

Array = np.ndarray[Any, Any]
N = 40_000
OTHERS: dict[str, Callable[[], Any]] = {
    "array": lambda: np.arange(float(N)) + 1,
    "text": lambda: np.full(N, "a"),
    "objects": lambda: np.arange(N).astype(object),
    "swapped": lambda: np.arange(float(N)).astype(">f8") + 1,
    "integers": lambda: np.arange(N) + 1,
    "truth values": lambda: np.arange(N) % 3 == 0,
    "dates": lambda: np.arange(N).astype("M8[s]"),
    "column": lambda: np.ones((N, 1))[:3],
    "too short": lambda: np.ones(3),
    "reversed": lambda: np.arange(float(N))[::-1],
    "float": lambda: 2.5,
    "integer": lambda: 3,
    "too large": lambda: 2**70,
    "truth value": lambda: True,
    "complex": lambda: 1j,
    "NumPy's double": lambda: np.float64(2.5),
    "NumPy's single": lambda: np.float32(2.5),
    "None": lambda: None,
    "a text": lambda: "a",
    "list": lambda: [1.0] * N,
}
OPERATORS = ("add", "truediv", "and_", "lt", "eq", "iadd", "ior")


@pytest.fixture(params=[(1000, 1), (1, 1000)], ids=["left", "recorded"])
def paces(request: pytest.FixtureRequest) -> Iterator[tuple[int, int]]:
    """Rounds take as long as that."""
    if npaccel.config.check != "off":
        pytest.skip("everything is recorded, to be compared")
    npaccel.evaluate()
    _native.trials(True, *request.param, 0)
    yield request.param
    _native.trials(npaccel.config.tiering == "adaptive")


@pytest.mark.parametrize("name", OTHERS)
def test_with_any_other_operand(paces: tuple[int, int], name: str) -> None:
    x, other = np.arange(N) % 7.0, OTHERS[name]()
    for text in OPERATORS:
        call = getattr(operator, text)
        calls = (call,) if text.startswith("i") else (call, lambda a, b, f=call: f(b, a))
        for one in calls:
            expected, copies = run(one, (x.copy(), other)), [x.copy() for _ in range(3)]
            for copy in copies:
                with npaccel.accelerate():
                    found = run(one, (copy, other))
                assert (found.error, found.warnings) == (expected.error, expected.warnings)
                same(found.value, expected.value, 0, False, f"{text} {name}")


def test_rounds_that_are_left_to_numpy(paces: tuple[int, int]) -> None:
    """Also those whose operands die, and in place; a loop long enough for trials."""
    a, b = np.arange(float(N)), np.arange(float(N))[::-1].copy()

    def program(a: Array, b: Array) -> list[float]:
        found = []
        for k in range(120):
            c = (a + b) * 2 - a / (k + 1)
            c += b
            c[c > 5] = k
            found.append(float(c[k]) + float((-c)[0]))
        return found

    expected = program(a, b)
    with npaccel.accelerate():
        assert program(a, b) == expected
