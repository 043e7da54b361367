"""In a block, what loops over large arrays and their rows leave to NumPy, and how that is done."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import npaccel
from npaccel import _native
from tests.dispatch.test_autotuning import NUMPY_LOSES, NUMPY_WINS, ROUNDS, SHAPE, arrays
from tests.dispatch.tried import counts


@pytest.fixture
def trials() -> Iterator[Callable[[tuple[int, int]], None]]:
    """Rounds take as long as a test says."""
    if npaccel.config.check != "off":
        pytest.skip("everything is recorded, to be compared")
    yield lambda paces: _native.trials(True, *paces, 0)
    _native.trials(npaccel.config.tiering == "adaptive")


@pytest.mark.pending
@pytest.mark.usefixtures("numpys_memory")
@pytest.mark.parametrize("paces", [NUMPY_WINS, NUMPY_LOSES])
def test_rounds_begin_with_a_method_of_ours_and_call_functions(
    trials: Callable[[tuple[int, int]], None], paces: tuple[int, int]
) -> None:
    def steps(u: np.ndarray) -> np.ndarray:
        for _ in range(ROUNDS):
            v = u.copy()
            v[:, 1:-1] += 0.1 * (u[:, 2:] - 2 * u[:, 1:-1] + u[:, :-2])
            w = np.zeros_like(v)
            w += v
            w[0] = 1.0
            assert w[0].sum() == SHAPE[1]
            u = w
        return u

    trials(paces)
    expected = steps(arrays()[0])
    found = []
    recorded, left = counts(lambda: found.append(steps(arrays()[0])))
    assert np.array_equal(found[0], expected)
    if paces == NUMPY_WINS:
        assert left > recorded
    else:
        assert 0 < left < recorded / 2


def two_kinds(u: np.ndarray, v: np.ndarray, every: int) -> None:
    for t in range(2 * ROUNDS):
        u[0, :] = t
        u[1:, :] -= 0.5 * (v[1:, :] - v[:-1, :])
        if t % every == 0:
            v *= 0.75
        v[:-1, :-1] -= 0.25 * (u[:-1, 1:] - u[:-1, :-1])


@pytest.mark.pending
@pytest.mark.usefixtures("numpys_memory")
@pytest.mark.parametrize("every", [2, 5])
@pytest.mark.parametrize("paces", [NUMPY_WINS, NUMPY_LOSES])
def test_a_trial_waits_for_rounds_of_one_kind(
    trials: Callable[[tuple[int, int]], None], paces: tuple[int, int], every: int
) -> None:
    trials(paces)
    mine, numpys = arrays(), arrays()
    two_kinds(numpys[0], numpys[1], every)
    recorded, left = counts(lambda: two_kinds(mine[0], mine[1], every))
    assert all(np.array_equal(a, b) for a, b in zip(mine, numpys, strict=True))
    if paces == NUMPY_WINS:
        assert left > recorded
    else:
        assert 0 < left < recorded / 2


@pytest.mark.pending
@pytest.mark.usefixtures("numpys_memory", "trials")
def test_rounds_with_something_new_are_tried() -> None:
    first, read = 170, []

    def program(x: np.ndarray, y: np.ndarray) -> None:
        for t in range(300):
            x *= 0.99
            read.append(x[0, 0])
            if t >= first:
                z = -y  # new until much is left to NumPy
                read.append(z[0, 0])

    npaccel.config.threshold = 1 << 18
    _native.trials(True, *NUMPY_WINS, 64 << 20)
    program(*arrays()[:2])
    expected = read.copy()
    read.clear()
    recorded, left = counts(lambda: program(*arrays()[:2]))
    assert read == expected
    assert 0 < recorded < 60 < left


@pytest.mark.pending
@pytest.mark.usefixtures("numpys_memory")
def test_a_loop_over_rows_that_was_seen_waits_for_nothing(
    trials: Callable[[tuple[int, int]], None],
) -> None:
    def rows(n: int) -> np.ndarray:
        a = np.zeros(SHAPE)
        a += 1.0
        for i in range(1, n):
            a[i] = a[i - 1] + i
        return a

    expected = rows(SHAPE[0])
    npaccel.config.threshold = 1 << 17
    trials(NUMPY_LOSES)
    with npaccel.accelerate():
        npaccel.asarray(OTHER) + 1.0  # so that what follows is not the first to be recorded
        counted = [npaccel.stats()["requests"]]
        for _ in range(4):
            assert np.array_equal(rows(SHAPE[0]), expected)
            counted.append(npaccel.stats()["requests"])
    recorded = np.diff(counted)
    assert recorded.max() >= 32  # what is pending is needed, until so many
    assert recorded[-1] < 10


Made = Callable[[], np.ndarray]
OTHER = np.ones(SHAPE)
DYING: dict[str, Callable[[Made], np.ndarray]] = {  # what is made has no other name
    "number * a": lambda make: 2.0 * make(),
    "a + b": lambda make: make() + OTHER,
    "-a": lambda make: -make(),
    "a ** 2": lambda make: make() ** 2,
}


@pytest.mark.usefixtures("numpys_memory")
@pytest.mark.parametrize("name", DYING)
def test_numpys_operators_compute_in_the_memory_of_dying_arrays(name: str) -> None:
    """As outside of blocks, where no frame of ours is between NumPy's and the interpreter's."""

    def same_memory() -> bool:
        where = []

        def make() -> np.ndarray:
            a = np.full(SHAPE, 3.0)
            where.append(a.__array_interface__["data"][0])
            return a

        kept = make()
        expected = DYING[name](lambda: kept)
        found = DYING[name](make)
        assert np.array_equal(found, expected)
        return bool(found.__array_interface__["data"][0] == where[-1])

    expected = same_memory()
    with npaccel.accelerate(min_size=1 << 30):
        assert same_memory() == expected


@pytest.mark.pending
@pytest.mark.usefixtures("numpys_memory")
def test_rounds_that_mostly_do_something_else_have_a_trial(
    trials: Callable[[tuple[int, int]], None],
) -> None:
    def steps(u: np.ndarray) -> float:
        total = 0.0
        for _ in range(30):
            u *= 0.75
            u += 0.125
            total += float(u[5, 7])
            time.sleep(0.02)
        return total

    trials((0, 0))
    expected = steps(np.ones((1000, 1000)))
    found = []
    _, left = counts(lambda: found.append(steps(np.ones((1000, 1000)))))
    assert found == [expected]
    assert left > 0
