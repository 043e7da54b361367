"""Arrays below the threshold in a block: recorded in loops where a trial finds that it wins."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import npaccel
from npaccel import _native
from tests.dispatch.tried import counts

SMALL, SMALLER = 16_000, 8_000  # f8: 125 and 62.5 KiB
ROUNDS = 120
NUMPY_WINS, NUMPY_LOSES = (1000, 1), (1, 1000)
Way = Callable[[tuple[int, int]], None]


@pytest.fixture
def way() -> Iterator[Way]:
    if npaccel.config.check != "off" or not _native.guarded():
        pytest.skip("nothing is left to NumPy")
    npaccel.evaluate()
    npaccel.config.threshold = 1 << 18
    yield lambda paces: _native.trials(True, *paces, 1)
    _native.trials(npaccel.config.tiering == "adaptive")


def lorenz(n: int, rounds: int = ROUNDS) -> tuple[np.ndarray, ...]:
    x, y, z = np.random.default_rng(1).random((3, n))
    for _ in range(rounds):
        dx, dy, dz = 10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z
        x, y, z = x + 1e-3 * dx, y + 1e-3 * dy, z + 1e-3 * dz
    return x, y, z


def in_place(n: int, rounds: int = ROUNDS) -> tuple[np.ndarray, ...]:
    x, v = np.linspace(0, 1, n), np.zeros(n)
    for _ in range(rounds):
        v -= x * 0.01
        v[1:-1] *= 0.999
        x += v * 0.01
    return x, v


def functions(n: int, rounds: int = ROUNDS) -> tuple[np.ndarray, ...]:
    x = np.linspace(0, 1, n)
    sums = np.zeros(rounds)
    for step in range(rounds):
        x = np.exp(-x) * np.sin(x) + np.where(x > 0.5, x, np.roll(x, 1))
        x[x > 2] = 0.5
        sums[step] = x.sum() + x.mean() + x.std()
    return x, sums


@pytest.mark.parametrize("paces", [NUMPY_WINS, NUMPY_LOSES])
@pytest.mark.parametrize("program", [lorenz, in_place, functions])
def test_bits_are_numpys(
    way: Way, program: Callable[[int], tuple[np.ndarray, ...]], paces: tuple[int, int]
) -> None:
    """Those of functions and sums, too, whoever computes them: the size alone decides."""
    way(paces)
    expected = program(SMALL)
    with npaccel.accelerate():
        found = program(SMALL)
    for have, want in zip(found, expected, strict=True):
        assert memoryview(have).tobytes() == memoryview(want).tobytes()


@pytest.mark.parametrize("program", [lorenz, in_place])
def test_a_loop_that_wins_is_recorded(
    way: Way, program: Callable[[int], tuple[np.ndarray, ...]]
) -> None:
    way(NUMPY_LOSES)
    recorded, _ = counts(lambda: program(SMALL))
    assert recorded > ROUNDS * 4
    recorded, _ = counts(lambda: program(SMALLER))
    assert recorded == 0


def test_a_loop_that_loses_is_left_alone(way: Way) -> None:
    """Nobody even asks, for as long as a trial's costs are to be made up for."""
    way((10**8, 10**6))  # ns: it rests for half a second
    u, v = np.random.default_rng(1).random((2, SMALL))

    def program(rounds: int) -> float:
        return sum(float((u * v - 0.5)[7]) for _ in range(rounds))

    with npaccel.accelerate():
        program(ROUNDS)
        before = npaccel.stats()
        program(20)
        after = npaccel.stats()
    assert after["requests"] == before["requests"] > 0
    assert after["left_to_numpy"] == before["left_to_numpy"] > 0


def ranges() -> int:
    return int(npaccel.stats()["live_ranges"])


def test_what_is_made_while_nobody_asks_may_be_written_later(way: Way) -> None:
    """Unless many of its size have died young: then NumPy's memory is the better one."""
    way((10**8, 10**6))
    u, v = np.random.default_rng(1).random((2, SMALL))
    with npaccel.accelerate():
        for _ in range(ROUNDS):
            float((u * v - 0.5)[7])
        before = ranges()
        state = [np.zeros(SMALL + 8) for _ in range(5)]
        assert ranges() == before + 5
        for _ in range(40):
            np.zeros(SMALL + 16)
        steps = [np.zeros(SMALL + 16) for _ in range(5)]
        assert ranges() == before + 5
    assert not any(a.any() for a in state + steps)


def test_a_round_may_begin_with_an_assignment(way: Way) -> None:
    u = np.random.default_rng(1).random(SMALL)

    def program() -> list[float]:
        found = []
        for _ in range(3 * ROUNDS):
            z = np.zeros(SMALL)
            z[:] = u
            z *= 2
            found.append(float(z[5]))
        return found

    way(NUMPY_WINS)
    recorded, left = counts(program)
    assert recorded < 3 * ROUNDS and left > 4
    assert program() == [2 * u[5]] * (3 * ROUNDS)


def carried(rounds: int) -> np.ndarray:
    x = np.linspace(0, 1, SMALL)
    for _ in range(rounds):
        x = x * 0.999 + 0.001
    return x


def filled(rounds: int) -> np.ndarray:
    total = np.zeros(SMALL)
    for _ in range(rounds):
        step = np.zeros(SMALL)
        step += 0.5
        step[3:] *= 2
        total += step
    return total


@pytest.mark.parametrize("program", [carried, filled])
def test_a_loop_that_nobody_reads_is_tried(way: Way, program: Callable[[int], np.ndarray]) -> None:
    """Its rounds end where a limit makes it run."""
    rounds = 6000
    way((10**8, 10**6))  # ns: then it rests for half a second
    recorded, left = counts(lambda: program(rounds))
    assert recorded < rounds and left > 4
    way(NUMPY_LOSES)
    recorded, left = counts(lambda: program(rounds))
    assert recorded > 1.5 * rounds
    expected = program(rounds)
    with npaccel.accelerate():
        assert program(rounds).tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    "shape", [(3, 834, 4), (4, 834, 3), (90, 12, 9), (9, 12, 90), (900, 3, 4), (40, 250, 1)]
)
@pytest.mark.parametrize("axis", [0, 1, 2, (0, 1), (1, 2), (0, 2)])
@pytest.mark.parametrize("turned", [False, True])
def test_sums_that_wait_have_numpys_bits(way: Way, shape: Any, axis: Any, turned: bool) -> None:
    """Below the threshold, of rows and columns of any length."""
    way(NUMPY_LOSES)
    x = np.random.default_rng(2).random(shape)
    x = x.T if turned else x

    def program() -> list[Any]:
        return [((x * 1.7).sum(axis), (x * 0.3 - 1).mean(axis)) for _ in range(40)][-1]

    with npaccel.accelerate():
        found = program()
    for have, want in zip(found, program(), strict=True):
        assert np.array(have).tobytes() == want.tobytes()


def test_whether_it_pays_is_told(way: Way) -> None:
    """So that the next process with the same command need not wait to find out."""
    u, v = np.random.default_rng(1).random((2, SMALL))
    for paces, pays in [(NUMPY_WINS, False), (NUMPY_LOSES, True)]:
        way(paces)
        assert not _native.smaller(False)
        with npaccel.accelerate():
            for _ in range(3000):
                float((u * v - 0.5)[7])
        assert _native.smaller(False) is pays


def test_it_is_tried_again(way: Way) -> None:
    way((2000, 1000))
    u, v = np.random.default_rng(1).random((2, SMALL))
    with npaccel.accelerate():
        for _ in range(100):  # a rest of half a millisecond, and some rounds more
            for _ in range(ROUNDS):
                float((u * v - 0.5)[7])
            before = npaccel.stats()["requests"]
            if before > 200:
                break
    assert before > 200


@pytest.mark.parametrize(
    "call",
    [np.sort, np.median, np.cumsum, np.unique, np.diff, lambda a: a[PLACES], lambda a: a[MASK]],
)
def test_functions_take_what_is_as_large_as_ever(way: Way, call: Callable[..., Any]) -> None:
    way(NUMPY_LOSES)
    a = np.random.default_rng(1).random(SMALL)
    expected = call(a)

    def program() -> None:
        for _ in range(ROUNDS):
            found = call(a)
            assert type(found) in (np.ndarray, np.float64)
            assert np.array_equal(found, expected)

    assert counts(program)[0] == 0


PLACES = np.random.default_rng(2).integers(0, SMALL, SMALL)
MASK = np.random.default_rng(3).random(SMALL) > 0.5


def test_outside_of_blocks_the_threshold_is_the_threshold(way: Way) -> None:
    way(NUMPY_LOSES)
    a = npaccel.asarray(np.random.default_rng(1).random(SMALL))
    before = npaccel.stats()["requests"]
    for _ in range(ROUNDS):
        b = a * 2 + 1
    assert npaccel.stats()["requests"] == before
    assert np.array_equal(b, np.asarray(a) * 2 + 1)


def test_without_trials_it_is_so_too(way: Way) -> None:
    _native.trials(False)
    a = np.random.default_rng(1).random(SMALL)
    recorded, left = counts(lambda: [a * 2 + 1 for _ in range(ROUNDS)])
    assert (recorded, left) == (0, 0)
