"""In a block, what is recorded and what NumPy does at once, as trials say (run/autotune.c)."""

from __future__ import annotations

import gc
import operator
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import npaccel
from npaccel import _native
from npaccel.ir.names import SAME_BITS, SAME_BITS_IF_REAL
from tests.dispatch.tried import counts

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
    yield lambda paces: _native.trials(True, *paces, 0)
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


@pytest.mark.skipif(not _native.guarded(), reason="nothing waits")
@pytest.mark.usefixtures("numpys_memory")
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


@pytest.mark.skipif(not _native.guarded(), reason="nothing waits")
@pytest.mark.usefixtures("numpys_memory")
@pytest.mark.parametrize("paces", [NUMPY_WINS, NUMPY_LOSES])
def test_explain_tells_what_was_tried(
    trials: Callable[[tuple[int, int]], None], paces: tuple[int, int]
) -> None:
    trials(paces)
    mine = arrays()
    counts(lambda: waves(*mine))
    found = npaccel.explain()
    first = waves.__code__.co_firstlineno
    assert found.tried != ()
    for one in found.tried:
        assert one.file == __file__ and first < one.line <= first + 5
        assert (one.recorded_s, one.numpys_s) == (paces[0] * 1e-9, paces[1] * 1e-9)
        assert one.numpys == (paces == NUMPY_WINS)
    kept = "NumPy's calls are kept" if paces == NUMPY_WINS else "recording is kept"
    assert "by turns, ms of a round" in str(found) and kept in str(found)
    assert "by turns" in found._repr_html_()


LIKE: tuple[Callable[[np.ndarray], np.ndarray], ...] = (
    np.zeros_like,
    np.ones_like,
    lambda a: np.full_like(a, 2),
)


@pytest.mark.pending
@pytest.mark.usefixtures("numpys_memory")
@pytest.mark.parametrize("paces", [NUMPY_WINS, NUMPY_LOSES])
@pytest.mark.parametrize("like", LIKE, ids=["zeros", "ones", "full"])
def test_what_is_made_like_an_array_of_ours_is_tried(
    trials: Callable[[tuple[int, int]], None],
    like: Callable[[np.ndarray], np.ndarray],
    paces: tuple[int, int],
) -> None:
    trials(paces)
    x = npaccel.asarray(arrays()[0])
    made: list[float] = []

    def program() -> None:
        made.extend(float(like(x)[0, 0]) for _ in range(ROUNDS))

    recorded, left = counts(program)
    assert made == [float(like(np.ones(1))[0])] * ROUNDS
    if paces == NUMPY_WINS:
        assert left > recorded
    else:
        assert 0 < left < recorded


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


def slope(a: np.ndarray) -> np.ndarray:
    return a - 0.5 * (a + 1.0)


def by_functions(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """The operation that begins a round comes six times in it."""
    for _ in range(60):
        total = slope(a) + slope(b) + slope(c)
        one = 1.0 + 0.0 * float(total[0, 0])
        a, b, c = slope(a) * one, slope(b) * one, slope(c) * one
    return a + b + c


def by_powers(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    for _ in range(60):
        b = b - 0.01 * (a**2 - c**0.5)
        c **= 2
        a = a / (1.0 + float(b[0, 0]) ** 2)
    return b + c


def by_small_parts(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Operations below the threshold are recorded only if something is pending."""
    d = c[:20]
    for _ in range(200):
        c = a + b
        d = d / (1.0 + np.exp(-c[:20])) + c[20:40]
        b = b * (0.5 + 0.1 * float(d[0, 0] > 1.0))
    return b + d[0]


@pytest.mark.skipif(not _native.guarded(), reason="nothing waits")
@pytest.mark.usefixtures("numpys_memory")
@pytest.mark.parametrize("program", [by_functions, by_powers, by_small_parts])
@pytest.mark.parametrize("paces", [NUMPY_WINS, NUMPY_LOSES])
def test_rounds_are_compared_whatever_they_are_made_of(
    trials: Callable[[tuple[int, int]], None],
    paces: tuple[int, int],
    program: Callable[..., np.ndarray],
) -> None:
    npaccel.config.threshold = 1 << 18
    trials(paces)
    results = []
    recorded, left = counts(lambda: results.append(program(*arrays())))
    assert np.array_equal(results[0], program(*arrays()))
    assert left > recorded if paces == NUMPY_WINS else left < recorded / 2


@pytest.mark.pending
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


@pytest.mark.usefixtures("numpys_memory")
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


@pytest.mark.skipif(not _native.guarded(), reason="nothing waits")
def test_a_loop_that_is_begun_anew_stays_numpys(
    trials: Callable[[tuple[int, int]], None],
) -> None:
    """In the rounds at its ends something else waits, so they begin with another operation."""
    a, b, c = arrays()
    small = np.ones((2, SHAPE[0]))

    def program(times: int, *waiting: int) -> None:
        for _ in range(times):
            for t in range(12):
                waits = np.exp(a) if t in waiting else None
                d = b * 0.5
                small @ d  # NumPy's: nothing waits from here on
                c[:] = -d
                del waits

    trials(NUMPY_WINS)
    counts(lambda: program(4))  # until it is decided
    recorded, left = counts(lambda: program(4, 0, 10, 11))
    assert recorded < left / 4


@pytest.mark.skipif(not _native.guarded(), reason="nothing waits")
@pytest.mark.usefixtures("numpys_memory")
@pytest.mark.parametrize("threads", [1, 2])
def test_block_by_block_one_thread_may_lose(
    trials: Callable[[tuple[int, int]], None], threads: int
) -> None:
    """Rounds of about a millisecond, as long as they take: recording is little beside them."""
    if npaccel.config.backend == "numpy":
        pytest.skip("nothing runs block by block")
    a, b = np.ones(1 << 21), np.ones(1 << 21)

    def program() -> None:
        for _ in range(40):
            c = (a - b) * 0.5
            assert c[0] == 0.0

    with npaccel.config(threads=threads, tiering="off"):
        trials((0, 0))
        recorded, left = counts(program)
    assert recorded > 0
    assert (left > 0) == (threads == 1)


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


@pytest.mark.skipif(not _native.guarded(), reason="nothing waits")
def test_what_is_new_is_numpys_until_it_is_worth_recording() -> None:
    """The first `rounds` of a loop, by the bytes that NumPy worked on."""
    a, b, c = arrays()
    rounds = 5
    _native.trials(True, 1, 1000, 2 * rounds * a.nbytes)

    def program() -> None:
        a[:] = b * 2 + c  # two operations; the assignment finds the sum, as it would be recorded
        npaccel.evaluate(a)

    with npaccel.accelerate(min_size=1 << 10):
        for t in range(2 * rounds):
            before = npaccel.stats()
            program()
            after = npaccel.stats()
            recorded, left = (after[k] - before[k] for k in ("requests", "left_to_numpy"))
            assert (recorded == 0) == (t * 3 < 2 * rounds)
            assert (left > 0) == (recorded == 0)
    assert np.array_equal(a, b * 2 + c)


@pytest.mark.pending
def test_what_is_new_is_as_large_as_its_result() -> None:
    """Small operands that make something large: recorded at once."""
    column, row = np.ones((1200, 1)), np.ones(1100)
    _native.trials(True, 1, 1000, 1 << 40)
    with npaccel.accelerate(min_size=1 << 10):
        before = npaccel.stats()["requests"]
        results = np.multiply(column, row), npaccel.asarray(column) + row
        assert npaccel.stats()["requests"] == before + 2
    assert all(np.asarray(result).shape == (1200, 1100) for result in results)


@pytest.mark.parametrize("worth", [1 << 20, 1 << 40])
def test_values_of_what_is_new(worth: int) -> None:
    """Functions that may have other bits too, creation, reductions, ours among the operands."""

    def program(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> list[np.ndarray]:
        results = []
        for t in range(4):
            d = np.zeros(SHAPE)
            d += np.exp(a) ** 0.5
            e = np.full(SHAPE, 2.0) - np.eye(*SHAPE) + np.arange(SHAPE[1] * 1.0)
            np.maximum(d, e, out=d)
            d[1:] += d[:-1]
            own = npaccel.asarray(b) if t % 2 else b
            results += [d, np.sqrt(own), own**2, abs(own - 1), np.array(own, "f4")]
            results += [np.cumsum(own, axis=1), own.sum(axis=0), np.add.outer(own[0], own[1])]
            results += [
                np.clip(c, own.min(), own),
                own.repeat(2, 0),
                np.where(c > own, c, t),
            ]
            results += [np.concatenate([own, c]), np.logical_and.reduce(own > c, axis=1)]
            c *= own
        return results

    mine, numpys = arrays(), arrays()
    expected = program(*numpys)
    _native.trials(True, 0, 0, worth)
    with npaccel.accelerate(min_size=1 << 10):
        got = program(*mine)
    for x, y in zip([*got, *mine], [*expected, *numpys], strict=True):
        assert x.dtype == y.dtype
        assert x.shape == y.shape
        assert np.allclose(x, y, rtol=1e-6 if x.dtype == "f4" else 1e-13)


def test_warnings_of_what_is_new_are_numpys() -> None:
    a, b, _ = arrays()
    b[3, 4] = 0.0
    _native.trials(True, 0, 0, 1 << 40)
    with npaccel.accelerate(min_size=1 << 10):
        with pytest.warns(RuntimeWarning, match="divide by zero encountered in divide") as caught:
            a / b
        assert caught[0].filename == __file__
        with np.errstate(all="raise"), pytest.raises(FloatingPointError):
            np.log(b)


@pytest.mark.skipif(not _native.guarded(), reason="nothing waits")
@pytest.mark.parametrize("name", ["add", "floordiv", "lt", "invert", "pow", "abs", "complex abs"])
def test_operators_of_ours_pass_where_their_ufuncs_do(name: str) -> None:
    """`ir.names.SAME_BITS` says so for both."""
    ufunc = {"floordiv": "floor_divide", "lt": "less", "pow": "power", "abs": "absolute"}
    exact = ufunc.get(name, name) in SAME_BITS | SAME_BITS_IF_REAL
    a = npaccel.asarray(np.arange(1, 40_001, dtype="c16" if "complex" in name else "i8"))
    name = name.removeprefix("complex ")
    operands = (a, a) if name in ("add", "floordiv", "lt", "pow") else (a,)

    def program() -> None:
        for _ in range(30):
            npaccel.evaluate(getattr(operator, name)(*operands))

    _native.trials(True, *NUMPY_WINS, 0)
    assert (counts(program)[1] > 0) == exact


REAL = np.random.default_rng(5).standard_normal(SHAPE)
MADE: dict[str, Callable[[], object]] = {
    "full": lambda: np.full(SHAPE, 2.0),
    "ones": lambda: np.ones(SHAPE, "f4"),
    "zeros_like": lambda: np.zeros_like(REAL),
    "eye": lambda: np.eye(200),
    "identity": lambda: np.identity(200),
    "diag": lambda: np.diag(REAL[0]),
    "arange": lambda: np.arange(50_000),
    "linspace": lambda: np.linspace(0, 1, 50_000),
    "a copy in order": lambda: np.ascontiguousarray(REAL.T),
    "a cast": lambda: np.array(REAL, "f4"),
    "abs": lambda: abs(REAL),
    "sqrt": lambda: np.sqrt(REAL + 9.0),
    "signbit": lambda: np.signbit(REAL),
    "frexp": lambda: np.frexp(REAL),
}


@pytest.mark.skipif(not _native.guarded(), reason="nothing waits")
@pytest.mark.parametrize("name", MADE)
def test_single_calls_become_numpys(trials: Callable[[tuple[int, int]], None], name: str) -> None:
    """What NumPy's own code calls inside does not keep rounds from being compared."""
    npaccel.config.threshold = 1 << 17
    make, results = MADE[name], []

    def program() -> None:
        for _ in range(60):
            results[:] = [make()]
            npaccel.evaluate()

    trials(NUMPY_WINS)
    counts(program)
    recorded, left = counts(program)
    assert left > 0
    assert recorded == 0
    have, want = (x if isinstance(x, tuple) else (x,) for x in (results[0], make()))
    for a, b in zip(have, want, strict=True):
        assert a.dtype == b.dtype
        assert np.array_equal(a, b)


@pytest.mark.skipif(not _native.guarded(), reason="nothing waits")
def test_absolute_values_of_complex_numbers_are_always_recorded(
    trials: Callable[[tuple[int, int]], None],
) -> None:
    z = REAL + 1j

    def program() -> None:
        for _ in range(60):
            npaccel.evaluate(np.absolute(z), np.sqrt(z))

    trials(NUMPY_WINS)
    assert counts(program) == (120, 0)


@pytest.mark.skipif(not _native.guarded(), reason="nothing waits")
def test_what_is_filled_waits_for_what_follows(trials: Callable[[tuple[int, int]], None]) -> None:
    """In one run, where that takes less time."""
    a, b, _ = arrays()

    def program() -> None:
        for _ in range(60):
            total = np.full(SHAPE, 2.0)
            total += a
            total *= b
            npaccel.evaluate(total)

    trials(NUMPY_LOSES)
    counts(program)
    before = npaccel.stats()["flushes"]
    recorded, left = counts(program)
    assert left <= 60
    assert recorded > 150
    assert npaccel.stats()["flushes"] - before <= 60 + left


@pytest.mark.skipif(not _native.guarded(), reason="nothing waits")
def test_what_is_new_and_larger_is_numpys_where_nothing_is_on_disk() -> None:
    npaccel.config.threshold = 1 << 17
    a = np.ones(1 << 20)
    _native.trials(True, 0, 0, 1 << 40)

    def recorded(found: bool, times: int) -> bool:
        for _ in range(times):
            _native.looked_up(found)
        with npaccel.accelerate():
            before = npaccel.stats()["requests"]
            assert np.all(a + 1.0 == 2.0)
            return bool(npaccel.stats()["requests"] > before)

    assert recorded(False, 1)
    assert not recorded(False, 3)
    assert recorded(True, 1)


PICKED = np.random.default_rng(5).permutation(SHAPE[0]).repeat(2)
INTEGERS = np.arange(SHAPE[0] * SHAPE[1]).reshape(SHAPE)
FOLDS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "sums of columns": lambda a, b: a.sum(axis=0),
    "sums of rows, of ours": lambda a, b: npaccel.asarray(a).sum(axis=1),
    "maxima of columns": lambda a, b: np.max(a, axis=0),
    "sums of integers": lambda a, b: INTEGERS.sum(axis=0),
    "sums in another type": lambda a, b: a.sum(axis=1, dtype=np.dtype("f4")),
    "what was computed": lambda a, b: (a * b).sum(axis=0),
    "numbers of what was computed": lambda a, b: np.array((a - b).max() + (a * b).sum()),
    "rows": lambda a, b: a[PICKED],
    "rows of ours": lambda a, b: npaccel.asarray(a)[PICKED],
    "columns of what was computed": lambda a, b: (a + b)[:, PICKED],
}


@pytest.mark.pending
@pytest.mark.parametrize("name", FOLDS)
@pytest.mark.parametrize("paces", [NUMPY_WINS, NUMPY_LOSES])
def test_folds_and_picks_take_part(
    trials: Callable[[tuple[int, int]], None], paces: tuple[int, int], name: str
) -> None:
    """A sum that is not recorded has the bits of one that is."""
    a, b, _ = arrays()
    seen = set()

    def program() -> None:
        for _ in range(ROUNDS):
            seen.add(memoryview(FOLDS[name](a, b)).tobytes())

    trials(paces)
    recorded, left = counts(program)
    if paces == NUMPY_WINS:
        assert left > recorded / 3
        assert recorded < 2 * ROUNDS
    else:
        assert 0 < left < recorded / 5
    assert len(seen) == 1
    expected = FOLDS[name](a, b)
    found = np.frombuffer(seen.pop(), expected.dtype).reshape(expected.shape)
    assert np.allclose(found, expected, rtol=1e-5 if expected.dtype == "f4" else 1e-13)


@pytest.mark.skipif(not _native.guarded(), reason="nothing waits")
@pytest.mark.usefixtures("numpys_memory")
def test_a_macro_section_that_stops_leaves_trials_as_they_are(
    trials: Callable[[tuple[int, int]], None],
) -> None:
    """Also where something of it was still alive when it stopped."""
    kept = []

    @npaccel.macro
    def body(x: np.ndarray) -> np.ndarray:
        doubled = x * 2
        kept.append(doubled)
        npaccel.peek(doubled)
        return doubled

    body(npaccel.asarray(np.arange(5.0)))
    kept.clear()
    gc.collect()  # frames of what stopped refer to each other
    trials(NUMPY_WINS)
    mine = arrays()
    recorded, left = counts(lambda: waves(*mine))
    assert left > recorded


@pytest.mark.pending
@pytest.mark.usefixtures("numpys_memory")
def test_threads_that_record_by_turns_leave_it_to_numpy(
    trials: Callable[[tuple[int, int]], None],
) -> None:
    """From the moment on in which one finds what another has recorded."""
    a, b, _ = arrays()
    trials((0, 0))
    seen = {}

    def other() -> None:
        with npaccel.accelerate():
            seen["other"] = a - b

    with npaccel.accelerate():
        seen["first"] = a + b
        assert _native.is_pending(seen["first"])
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert not _native.is_pending(seen["other"])
        assert _native.is_pending(seen["first"])
        seen["both"] = seen["first"] * seen["other"]
    assert np.array_equal(seen["first"], a + b) and np.array_equal(seen["other"], a - b)
    assert np.array_equal(seen["both"], (a + b) * (a - b))
