"""Blocks that stand aside where calls at once take less time (native/macro/macro_block.c)."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import npaccel
from npaccel import _native
from npaccel.errors import NpaccelWarning, SectionError

ROUNDS = 80
ASIDE_WINS, ASIDE_LOSES = (1000, 1), (1, 1000)
Body = Callable[[np.ndarray, np.ndarray], Any]

pytestmark = [
    pytest.mark.usefixtures("deferred"),
    pytest.mark.skipif(not _native.guarded(), reason="nothing is recorded"),
]


@pytest.fixture(autouse=True)
def trials(setting: Any) -> Iterator[Callable[[tuple[int, int]], None]]:
    """Rounds take as long as a test says: here a block that stands aside takes less."""
    if npaccel.config.check != "off":
        pytest.skip("everything is recorded, to be compared")
    setting("threshold", 1 << 18)
    npaccel.macro.clear()
    _native.trials(True, *ASIDE_WINS, 0)
    yield lambda paces: _native.trials(True, *paces, 0)
    _native.trials(npaccel.config.tiering == "adaptive")


def arrays(n: int = 500) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n)
    return npaccel.asarray(rng.random(n)), npaccel.asarray(rng.random(n) + 0.5)


def counts(name: str) -> dict[str, Any]:
    return npaccel.macro.stats()[name]


def rounds(name: str, body: Body, number: int = ROUNDS, n: int = 500) -> list[Any]:
    """The results of each round: classes, dtypes, bytes."""
    found = []
    for _ in range(number):
        x, y = arrays(n)
        with npaccel.macro(name, x, y) as m:
            results = body(*m.arrays)
        results = results if isinstance(results, tuple) else (results,)
        found.append([(type(r), np.asarray(r).dtype, np.asarray(r).tobytes()) for r in results])
    return found


def exact(x: np.ndarray, y: np.ndarray) -> Any:
    z = x * 2.0 - y
    z[::3] = y[::3]
    z += x / y
    w = np.minimum(z, -z)
    w[1:] -= y[:-1]
    w[3] = 2.5
    return np.maximum(w, np.sqrt(abs(y))), x**2, w > y, x // y, 3.0 % y, -w


def test_a_block_stands_aside() -> None:
    found = rounds("plain", exact)
    assert all(one == found[0] for one in found)
    told = counts("plain")
    assert told["bodies"] == ROUNDS and told["aside"] > ROUNDS / 2
    (reason,) = told["reasons"]
    assert "it stands aside: a round takes 0.001 µs so, and 1 µs recorded" in reason


def test_it_does_not_where_that_takes_longer(
    trials: Callable[[tuple[int, int]], None],
) -> None:
    trials(ASIDE_LOSES)
    found = rounds("kept", exact)
    assert all(one == found[0] for one in found)
    assert counts("kept")["aside"] <= 4 and counts("kept")["reasons"] == []


def overlapping(x: np.ndarray, _: np.ndarray) -> np.ndarray:
    x[1:] -= x[:-1]
    x[:-2] *= x[2:]
    return x


FUNCTIONS: dict[str, Body] = {
    "where": lambda x, y: np.where(x > y, x, y * 2) + 1,
    "clip": lambda x, y: np.clip(x * 2, 0.5, 1.0) - y.clip(None, 1),
    "roll, join": lambda x, y: np.roll(x * 2, 3) + np.concatenate((x, y))[: len(x)],
    "stack": lambda x, y: np.stack([x, y * 2]).max(axis=0) * np.vstack([x, y])[1],
    "diff": lambda x, y: np.diff(x * y),
    "largest": lambda x, y: (x + y).max() * (x - 1) + np.min(y),
    "places": lambda x, y: np.argmax(x * y),
    "any": lambda x, y: ((x > 0.5).any(), np.all(y > x, axis=0, keepdims=True)),
    "alike": lambda x, y: (np.zeros_like(x) + np.ones_like(y) * np.full_like(x, 2), x.copy()),
    "types": lambda x, y: (x.astype(np.float32) * 2, (y * 9).astype(int)),
    "shapes": lambda x, y: (x.reshape(-1, 5)[1:] * 2, (x * y).reshape(5, -1).ravel()),
    "sums": lambda x, y: (x.sum() * y, (x * y).reshape(-1, 5).sum(axis=0), np.add.reduce(x * 2)),
    "means": lambda x, y: (x - (x * y).mean(), np.mean(x + y) + np.sum(y)),
    "overlapping": overlapping,
}


@pytest.mark.parametrize("n", [10, 500, 4000])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_done_aside(name: str, n: int) -> None:
    found = rounds(name, FUNCTIONS[name], 40, n)
    assert [k for k, one in enumerate(found) if one != found[0]] == []
    assert counts(name)["aside"] > 10


def test_large_arrays_are_recorded() -> None:
    """Also where a function would do them at once if they were small."""
    found = rounds("large", lambda x, y: np.where(x > y, x.clip(0, 1), y), 40, 40_000)
    assert all(one == found[0] for one in found)
    found = rounds("joined", lambda x, y: np.concatenate((x, y, x, y)), 40, 12_000)
    assert all(one == found[0] for one in found)


INEXACT: dict[str, Body] = {
    "mask": lambda x, y: (x + y)[x > y] * 2,
    "picked": lambda x, y: (x + y)[np.arange(5)] * x[:5],
    "sorted": lambda x, y: np.sort(x * y).sum() * y,
    "plain": lambda x, y: np.exp(np.linspace(0, 1, len(x))) * x + np.sum(np.ones(9)),
    "exp": lambda x, y: np.exp(x * 1.5) + y,
    "power": lambda x, y: (y - 0.25) ** 2.7 * x,
    "power of arrays": lambda x, y: y**x,
    "in place": lambda x, y: np.sin(x, out=x) + y,
    "method": lambda x, y: (x + y).sum(keepdims=True) * y,
    "sum": lambda x, y: (x + y).sum() * y,
    "mean": lambda x, y: x - (x * y).mean(),
    "std": lambda x, y: x / (x - y).std(),
    "norm": lambda x, y: x / np.linalg.norm(x - y),
    "average": lambda x, y: y * np.average(x, weights=y),
    "reduce": lambda x, y: np.add.reduce(x * y) * x,
    "product": lambda x, y: np.prod(x + 0.5) * y,
    "strided": lambda x, y: np.tanh((x + y)[::2]),
    "einsum": lambda x, y: np.einsum("i,i", x + 1, y) * y,
    "dot": lambda x, y: np.dot(x + 1, y) * y,
    "vecdot": lambda x, y: ((x + 1) @ y) * y,
    "complex": lambda x, y: (x + 1j * y) / (y - 2j * x),
    "complex modulus": lambda x, y: abs(x + 1j * y),
    "logaddexp": lambda x, y: np.logaddexp(x + 1, y),
    "cumsum": lambda x, y: np.cumsum(x * 3) + y,
    "hypot": lambda x, y: np.hypot(x, y) + 1,
    "trapezoid": lambda x, y: np.trapezoid(x + 1, y) * y,
    "var of rows": lambda x, y: (x + 1).reshape(-1, 5).var(1),
    "sum of singles": lambda x, y: (x * y).astype("f4").sum() + y,
    "after what is exact": lambda x, y: np.log((x * y + 1.0)[1:] - x[:-1]).sum() * y,
}


@pytest.mark.parametrize("n", [10, 500, 4000])
@pytest.mark.parametrize("name", INEXACT)
def test_bits_are_those_of_recorded_rounds(name: str, n: int) -> None:
    """What hangs on who computes it is recorded in each round."""
    found = rounds(name, INEXACT[name], 40, n)
    assert [k for k, one in enumerate(found) if one != found[0]] == []


def test_another_path_has_the_bits_of_recorded_rounds() -> None:
    """It was never met before the block stood aside."""

    def either(late: bool) -> Body:
        return lambda x, y: np.exp((x - y) * 1.25).sum() * y if late else x * 2 + y

    expected = rounds("first", either(True), 1)
    rounds("late", either(False), 30)
    assert counts("late")["aside"] > 0
    assert rounds("late", either(True), 10) == expected * 10


def test_reads_raise_from_the_first_round_on() -> None:
    x, _ = arrays(10)
    with pytest.raises(SectionError), npaccel.macro("reads", x):
        float((x + 1)[3])
    for _ in range(20):
        with (
            pytest.warns(NpaccelWarning, match="runs in parts"),
            npaccel.macro("parts", x, on_illegal="warn"),
        ):
            float((x + 1)[3])


def test_blocks_within_are_part_of_it() -> None:
    x, y = arrays()
    for _ in range(ROUNDS):
        with npaccel.macro("outer", x, y):
            a = x + y
            with npaccel.macro("inner", x):
                b = a * x
            with pytest.raises(SectionError, match="entered again"), npaccel.macro("outer", x):
                pass
        assert np.array_equal(b, (np.asarray(x) + np.asarray(y)) * np.asarray(x))
    assert counts("outer")["aside"] > 0 and "inner" not in npaccel.macro.stats()


def test_large_arrays_wait_inside_and_not_after() -> None:
    big = npaccel.asarray(np.arange(100_000.0))
    x, y = arrays()
    for _ in range(40):
        with npaccel.macro("mixed", x, big):
            c = big * 2 + 1
            d = x + y
        npaccel.stats(reset=True)
        assert c[5] == 11.0 and npaccel.stats()["flushes"] == 0
        assert np.array_equal(d, np.asarray(x) + np.asarray(y))


def test_exceptions_and_settings_inside() -> None:
    x, y = arrays(50)
    index = np.arange(50)
    for k in range(60):
        with pytest.raises(KeyError), npaccel.macro("raises", x):
            z = x + y
            raise KeyError(k)
        assert np.array_equal(z, np.asarray(x) + np.asarray(y))
        with pytest.raises(IndexError, match="out of bounds"), npaccel.macro("bounds", x) as m:
            m.arrays[0][index + 1] * 2
        with npaccel.macro("unchecked", x, boundscheck="off") as m:
            w = m.arrays[0] // 2.0
        assert np.array_equal(w, np.asarray(x) // 2.0)
        with (
            np.errstate(divide="raise"),
            pytest.raises(FloatingPointError),
            npaccel.macro("errors", x),
        ):
            x / (x - x)
    npaccel.stats(reset=True)
    assert type(x + 1) is np.ndarray and npaccel.stats()["requests"] == 0


def test_warnings_are_numpys() -> None:
    x, _ = arrays(10)
    for _ in range(ROUNDS):
        with pytest.warns(RuntimeWarning, match="divide by zero"), npaccel.macro("warns", x):
            x / (x - x)


def test_each_thread_is_in_its_own() -> None:
    wrong = []

    def run() -> None:
        found = rounds("threads", exact, 100)
        wrong.extend(one for one in found if one != found[0])

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == [] and counts("threads")["bodies"] == 300


def test_it_is_left_where_it_was_entered() -> None:
    x, _ = arrays(10)
    block = npaccel.macro("elsewhere", x)
    thread = threading.Thread(target=block.__enter__)
    thread.start()
    thread.join()
    with pytest.raises(RuntimeError, match="'elsewhere' was left where it was not entered"):
        block.__exit__(None, None, None)


def test_a_block_that_nobody_leaves_stays_one() -> None:
    """Its object may go; the thread is in it for good, and what it computes is right."""

    def run() -> None:
        x, y = arrays()
        for _ in range(30):
            with npaccel.macro("abandoned", x, y):
                x + y
        npaccel.macro("abandoned", x, y).__enter__()
        gc.collect()
        found.append(np.asarray(x * y - x).tobytes() == (np.asarray(x) * y - x).tobytes())

    found: list[bool] = []
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [True]
