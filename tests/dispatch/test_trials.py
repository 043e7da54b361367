"""In a block, what is recorded and what NumPy does at once, as trials say (native/trial.c)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

import npaccel
from npaccel import _native

SHAPE = (200, 220)  # more than the threshold
ROUNDS = 80
NUMPY_WINS, NUMPY_LOSES = (1000, 1), (1, 1000)
Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]


@pytest.fixture(autouse=True)
def trials() -> Iterator[Callable[[tuple[int, int]], None]]:
    """Rounds take as long as a test says."""
    if npaccel.config.check != "off":
        pytest.skip("everything is recorded, to be compared")
    npaccel.evaluate()
    yield lambda paces: _native.trials(True, *paces)
    _native.trials(npaccel.config.tiering == "adaptive")


def arrays() -> Arrays:
    rng = np.random.default_rng(3)
    return rng.random(SHAPE), rng.random(SHAPE), rng.random(SHAPE)


def waves(ex: np.ndarray, ey: np.ndarray, hz: np.ndarray, rounds: int = ROUNDS) -> None:
    for t in range(rounds):
        ey[0, :] = t
        ey[1:, :] -= 0.5 * (hz[1:, :] - hz[:-1, :])
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])


def counts(program: Callable[[], object]) -> tuple[int, int]:
    """Operations recorded, and left to NumPy, in a block."""
    before = npaccel.stats()
    with npaccel.accelerate():
        program()
    npaccel.evaluate()
    after = npaccel.stats()
    return tuple(after[key] - before[key] for key in ("requests", "left_to_numpy"))


@pytest.mark.skipif(not _native.guarded(), reason="nothing waits")
@pytest.mark.parametrize("paces", [NUMPY_WINS, NUMPY_LOSES])
def test_the_way_that_takes_less_is_kept(
    trials: Callable[[tuple[int, int]], None], paces: tuple[int, int]
) -> None:
    trials(paces)
    mine, numpys = arrays(), arrays()
    waves(*numpys)
    recorded, left = counts(lambda: waves(*mine))
    for a, b in zip(mine, numpys, strict=True):
        assert np.array_equal(a, b)
    if paces == NUMPY_WINS:
        assert left > recorded
    else:
        assert 0 < left < recorded / 5


def test_values_while_ways_alternate(trials: Callable[[tuple[int, int]], None]) -> None:
    """Plain arrays and ours, new results, casts, masks, views and writes, both ways."""

    def program(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> list[np.ndarray]:
        results = []
        own = np.zeros_like(a)
        for t in range(40):
            d = np.empty(SHAPE)
            d[:] = a * 2 - b
            own += d
            own[1:] -= own[:-1] * 0.25
            c[:, ::2] = np.maximum(own[:, ::2], -d[:, ::2])
            mask = c > b
            e = np.where(mask, d, c).astype("f4")
            np.add(own, b, out=d)
            b -= d * (t % 3 == 0)
            np.copyto(a, -b, where=mask)
            results += [e, d] if t % 10 == 9 else []
            if t % 7 == 0:
                b *= 1e-3
                own *= 1e-3
        return [own, *results]

    mine, numpys = arrays(), arrays()
    expected = program(*numpys)
    for paces in (NUMPY_WINS, NUMPY_LOSES):
        trials(paces)
        mine = arrays()
        with npaccel.accelerate():
            got = program(*mine)
        for a, b in zip([*mine, *got], [*numpys, *expected], strict=True):
            assert a.dtype == b.dtype
            assert np.array_equal(a, b)


def test_what_may_have_other_bits_is_always_recorded(
    trials: Callable[[tuple[int, int]], None],
) -> None:
    trials(NUMPY_WINS)
    a, b, _ = arrays()

    def program() -> None:
        for _ in range(60):
            np.add(b, np.exp(a), b)

    recorded, _ = counts(program)
    assert recorded >= 60


def test_inner_and_outer_loops(trials: Callable[[tuple[int, int]], None]) -> None:
    def program(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
        for _ in range(6):
            a += b * 0.5
            for _ in range(10):
                b -= c * 0.01
            c *= 0.99
            waves(a, b, c, 8)

    trials(NUMPY_WINS)
    mine, numpys = arrays(), arrays()
    program(*numpys)
    _, left = counts(lambda: program(*mine))
    assert left > 0 or not _native.guarded()
    for a, b in zip(mine, numpys, strict=True):
        assert np.array_equal(a, b)


def test_nothing_is_left_outside_a_block_or_when_compiling_is_eager() -> None:
    before = npaccel.stats()["left_to_numpy"]
    with npaccel.accelerate():
        pass
    waves(*map(npaccel.asarray, arrays()))
    tiering = npaccel.config.tiering
    npaccel.config.tiering = "off"
    try:
        with npaccel.accelerate():
            waves(*arrays())
    finally:
        npaccel.config.tiering = tiering
    assert npaccel.stats()["left_to_numpy"] == before
