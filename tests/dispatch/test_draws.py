"""Random numbers drawn here, against NumPy: values, shape, the generator afterwards, errors."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npaccel

Draw = Callable[[np.random.Generator, Any], Any]

# Each kind of numbers, in each way that a call may say what is wanted.
DRAWS: dict[str, Draw] = {
    "random": lambda r, n: r.random(n),
    "random, words": lambda r, n: r.random(size=n, dtype=np.float64, out=None),
    "uniform": lambda r, n: r.uniform(-3, 5.5, n),
    "uniform, words": lambda r, n: r.uniform(size=n, high=7),
    "standard_normal": lambda r, n: r.standard_normal(n),
    "normal": lambda r, n: r.normal(1.5, 2, n),
    "normal, words": lambda r, n: r.normal(scale=np.float64(0.1), size=n),
    "normal, defaults": lambda r, n: r.normal(size=n),
    "standard_exponential": lambda r, n: r.standard_exponential(n),
    "exponential": lambda r, n: r.exponential(0.25, n),
    "lognormal": lambda r, n: r.lognormal(0.1, 0.5, n),
    "integers below": lambda r, n: r.integers(10, size=n),
    "integers between": lambda r, n: r.integers(-7, 9, n, endpoint=True),
    "integers of a power of two": lambda r, n: r.integers(0, 1 << 20, n),
    "integers, many": lambda r, n: r.integers(np.int64(3), (1 << 28) - 7, n),
    "choice": lambda r, n: r.choice(50, n),
    "poisson, few": lambda r, n: r.poisson(3, n),
    "poisson, many": lambda r, n: r.poisson(44.5, n),
    "binomial, few": lambda r, n: r.binomial(10, 0.3, n),
    "binomial, many": lambda r, n: r.binomial(1000, 0.7, n),
    # NumPy's own, which must go on where ours ended.
    "single precision": lambda r, n: r.random(n, dtype=np.float32),
    "integers of one byte": lambda r, n: r.integers(0, 200, n, dtype=np.uint8),
    "large integers": lambda r, n: r.integers(0, 10**13, n),
    "all of 32 bits": lambda r, n: r.integers(0, 1 << 32, n),
    "one integer": lambda r, n: r.integers(0, 100),
    "gamma": lambda r, n: r.gamma(2.0, size=n),
    "inverse": lambda r, n: r.standard_exponential(n, method="inv"),
    "numbers for each": lambda r, n: r.normal(np.arange(5.0), 1, (3, 5)),
}
# Around where work is shared out, with and without a rest.
SIZES = (1, 15, 63, 64, 65, 1000, 8191, 16_384, 16_500, 40_000, 100_001)
with_threads = pytest.mark.parametrize("threads", [1, 2, 5], indirect=True)


def same(got: Any, want: Any) -> None:
    got, want = np.asarray(got), np.asarray(want)
    assert (got.dtype, got.shape, got.strides) == (want.dtype, want.shape, want.strides)
    assert got.tobytes() == want.tobytes() or (got.dtype.hasobject and (got == want).all())


def check(draws: list[tuple[str, Any]], seed: int) -> None:
    """A generator's numbers, and what it is after each of them."""
    theirs, ours = np.random.default_rng(seed), np.random.default_rng(seed)
    for name, size in draws:
        want = DRAWS[name](theirs, size)
        with npaccel.accelerate():
            got = DRAWS[name](ours, size)
        same(got, want)
        assert ours.bit_generator.state == theirs.bit_generator.state, (name, size)


@pytest.mark.parametrize("name", DRAWS)
@with_threads
def test_numbers(name: str, threads: int) -> None:
    for size in SIZES:
        check([(name, size)], size)
        check([("integers below", 33), (name, size), ("integers below", 1)], size + 1)


@pytest.mark.parametrize("threads", [16], indirect=True)
def test_any_number_may_be_the_last(threads: int) -> None:
    """That of a piece, too, which is drawn again since the piece began within another number."""
    check([("poisson, few", n) for n in range(16_384, 17_000)], 1)


def test_few_numbers_again_and_again() -> None:
    """One number is NumPy's own; a few go on where others ended."""
    sizes = (None, 1, (2, 3), 5, 127, 128)
    draws = [(name, size) for _ in range(8) for name in DRAWS for size in sizes]
    theirs, ours = np.random.default_rng(3), np.random.default_rng(3)
    for name, size in draws:
        want = DRAWS[name](theirs, size)
        with npaccel.accelerate():
            got = DRAWS[name](ours, size)
        same(got, want)
        assert isinstance(got, np.ndarray) or type(got) is type(want), (name, size)
    assert ours.bit_generator.state == theirs.bit_generator.state
    check_old([(name, size) for _ in range(8) for name in OLD_DRAWS for size in (1, 3, 127)], 3)


def test_shapes() -> None:
    for shape in ((3, 50), (40, 50, 20), (1, 20_000), (64,), (0,), (3, 0), ()):
        for name in ("random", "normal", "integers below"):
            check([(name, shape), (name, shape)], 5)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(sorted(DRAWS)),
            st.one_of(st.integers(1, 300), st.sampled_from(SIZES[5:])),
        ),
        max_size=8,
    ),
    st.integers(0, 2**64),
)
def test_one_after_the_other(draws: list[tuple[str, Any]], seed: int) -> None:
    check(draws, seed)


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(st.sampled_from(sorted(DRAWS)), st.integers(8_000, 400_000), st.integers(0, 2**64))
def test_many(name: str, size: int, seed: int) -> None:
    check([("integers below", seed % 2 + 1), (name, size)], seed)


@pytest.mark.parametrize(
    ("kind", "mean"), [("poisson", 0.001), ("poisson", 9.99), ("poisson", 10), ("poisson", 1e6)]
)
@with_threads
def test_means(kind: str, mean: float, threads: int) -> None:
    theirs, ours = np.random.default_rng(2), np.random.default_rng(2)
    want = getattr(theirs, kind)(mean, 30_000)
    with npaccel.accelerate():
        got = getattr(ours, kind)(mean, 30_000)
    same(got, want)
    assert ours.bit_generator.state == theirs.bit_generator.state


@pytest.mark.parametrize("kind", ["MT19937", "PCG64DXSM", "Philox", "SFC64"])
def test_other_sources_are_numpys(kind: str) -> None:
    source = getattr(np.random, kind)
    theirs, ours = np.random.Generator(source(1)), np.random.Generator(source(1))
    want = theirs.normal(size=20_000)
    with npaccel.accelerate():
        same(ours.normal(size=20_000), want)


class Own(np.random.Generator):
    """A class that draws otherwise."""

    def random(self, *args: Any, **kwargs: Any) -> Any:
        return -super().random(*args, **kwargs)


def test_a_class_of_the_programs_own() -> None:
    theirs, ours = Own(np.random.PCG64(3)), Own(np.random.PCG64(3))
    want = theirs.random(50_000)
    with npaccel.accelerate():
        same(ours.random(50_000), want)


@pytest.mark.parametrize(
    "call",
    [
        lambda r: r.normal(0, -1, 1000),
        lambda r: r.normal("x", 1, 1000),
        lambda r: r.normal(0, 1, -1),
        lambda r: r.normal(0, 1, 100, 5),
        lambda r: r.normal(0, 1, 100, size=5),
        lambda r: r.normal(0, 1, sizes=100),
        lambda r: r.uniform(0, np.inf, 100_000),
        lambda r: r.exponential(-1, 1000),
        lambda r: r.integers(5, 5, 1000),
        lambda r: r.integers(5, 1, 1000),
        lambda r: r.integers(2**70, size=1000),
        lambda r: r.integers(size=1000),
        lambda r: r.poisson(-1, 1000),
        lambda r: r.poisson(np.nan, 100_000),
        lambda r: r.binomial(-3, 0.5, 100_000),
        lambda r: r.binomial(3, 1.5, 100_000),
        lambda r: r.random((10**6, 10**6, 10**6, 10**6)),
        lambda r: r.random(1000, dtype="i4"),
        lambda r: r.random(1000, out=np.empty(5)),
    ],
)
def test_errors(call: Callable[[np.random.Generator], Any]) -> None:
    def told() -> tuple[type, str]:
        with pytest.raises((ValueError, TypeError, OverflowError, MemoryError)) as error:
            call(np.random.default_rng(1))
        return error.type, str(error.value)

    want = told()
    with npaccel.accelerate():
        assert told() == want


@pytest.mark.parametrize(
    "call",
    [
        lambda r: r.uniform(2, 2, 50_000),
        lambda r: r.normal(0, 0, 50_000),
        lambda r: r.normal(np.inf, 1, 50_000),
        lambda r: r.normal(-0.0, 1e-320, 50_000),
        lambda r: r.exponential(0, 50_000),
        lambda r: r.exponential(1e-320, 50_000),
        lambda r: r.lognormal(700, 30, 50_000),
        lambda r: r.poisson(0, 50_000),
        lambda r: r.binomial(0, 0.5, 50_000),
        lambda r: r.binomial(5, 0, 50_000),
        lambda r: r.binomial(5, 1, 50_000),
        lambda r: r.integers(7, 8, 50_000),
        lambda r: r.integers(-(2**63), 2**63 - 1, 50_000),
        lambda r: r.integers(-(2**63), -(2**63) + 3, 50_000),
        lambda r: r.integers(True, size=50_000, endpoint=True),
        lambda r: r.random(out=np.empty(50_000)),
        lambda r: r.random(np.int64(50_000)),
        lambda r: r.random([10, 5000]),
    ],
)
def test_edges(call: Callable[[np.random.Generator], Any]) -> None:
    theirs, ours = np.random.default_rng(8), np.random.default_rng(8)
    want = call(theirs)
    with npaccel.accelerate():
        same(call(ours), want)
    assert ours.bit_generator.state == theirs.bit_generator.state


def test_a_generator_that_another_thread_holds() -> None:
    """NumPy waits for it, and so does what is drawn here."""
    theirs, ours = np.random.default_rng(4), np.random.default_rng(4)
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with ours.bit_generator.lock:
            held.set()
            done.wait(0.2)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    want = theirs.random(50_000)
    with npaccel.accelerate():
        got = ours.random(50_000)
    done.set()
    thread.join()
    same(got, want)


def test_threads_that_share_a_generator() -> None:
    """Each number is drawn once, by whoever."""
    theirs, ours = np.random.default_rng(4), np.random.default_rng(4)
    want = set(theirs.random(8 * 40_000).tolist())
    got: list[Any] = []

    def draw() -> None:
        with npaccel.accelerate():
            got.extend(ours.random(n) for n in (40_000, 10_000, 30_000))

    workers = [threading.Thread(target=draw) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert set(np.concatenate([np.asarray(x) for x in got]).tolist()) == want


# NumPy's older generator, and the functions of numpy.random.

OLD_DRAWS: dict[str, Callable[[np.random.RandomState, Any], Any]] = {
    "rand": lambda r, n: r.rand(n),
    "rand, by columns": lambda r, n: r.rand(n, 3),
    "random_sample": lambda r, n: r.random_sample(n),
    "random": lambda r, n: r.random(size=(n,)),
    "uniform": lambda r, n: r.uniform(-1, 3, n),
    "randn": lambda r, n: r.randn(n),
    "standard_normal": lambda r, n: r.standard_normal(n),
    "normal": lambda r, n: r.normal(0.5, scale=2, size=n),
    "randint": lambda r, n: r.randint(0, 10, n),
    "randint, half": lambda r, n: r.randint(-5, 60, size=n, dtype=int),
    "randint, a power of two": lambda r, n: r.randint(1 << 20, size=n),
    "choice": lambda r, n: r.choice(50, n),
    # NumPy's own.
    "one": lambda r, n: r.randn(),
    "exponential": lambda r, n: r.exponential(size=n),
    "permutation": lambda r, n: r.permutation(n),
    "large integers": lambda r, n: r.randint(0, 10**12, n),
    "integers of one byte": lambda r, n: r.randint(0, 9, n, dtype=np.uint8),
    "numbers for each": lambda r, n: r.normal(np.arange(300.0), 1),
}
OLD_SIZES = (1, 127, 128, 129, 1000, 1001, 5000, 70_001, 200_000)


def check_old(draws: list[tuple[str, Any]], seed: int) -> None:
    theirs, ours = np.random.RandomState(seed), np.random.RandomState(seed)
    for name, size in draws:
        want = OLD_DRAWS[name](theirs, size)
        with npaccel.accelerate():
            got = OLD_DRAWS[name](ours, size)
        same(got, want)
        told, kept = ours.get_state(legacy=False), theirs.get_state(legacy=False)
        assert told["state"]["key"].tobytes() == kept["state"]["key"].tobytes(), (name, size)
        assert told["state"]["pos"] == kept["state"]["pos"], (name, size)
        assert (told["has_gauss"], told["gauss"]) == (kept["has_gauss"], kept["gauss"])


@pytest.mark.parametrize("name", OLD_DRAWS)
@with_threads
def test_old_numbers(name: str, threads: int) -> None:
    for size in OLD_SIZES:
        check_old([(name, size)], size)
        check_old([("one", 1), (name, size), ("one", 1), (name, size)], size + 1)


def test_pairs_that_the_trials_before_the_last_ones_give() -> None:
    """Of 2048 trials and a few more, as many pairs as are asked for are found before these."""
    check_old([("standard_normal", n) for n in range(3170, 3200) for _ in range(4)], 1)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(sorted(OLD_DRAWS)),
            st.one_of(st.integers(1, 2000), st.sampled_from(OLD_SIZES[5:])),
        ),
        max_size=8,
    ),
    st.integers(0, 2**32 - 1),
)
def test_old_ones_after_the_other(draws: list[tuple[str, Any]], seed: int) -> None:
    check_old(draws, seed)


def test_functions_of_the_module() -> None:
    def draw() -> list[Any]:
        np.random.seed(7)
        return [
            np.random.rand(300, 4),
            np.random.randn(1001),
            np.random.normal(size=1001),
            np.random.randint(0, 5, 1000),
            np.random.uniform(2, 3, 1000),
            np.random.random(20_000),
            np.random.randn(),
        ]

    want = draw()
    with npaccel.accelerate():
        got = draw()
    for x, y in zip(got, want, strict=True):
        same(x, y)


def test_another_source_of_the_old_kind() -> None:
    theirs, ours = (np.random.RandomState(np.random.PCG64(5)) for _ in range(2))
    want = theirs.rand(10_000)
    with npaccel.accelerate():
        same(ours.rand(10_000), want)


@pytest.mark.parametrize(
    "call",
    [
        lambda r: r.rand(-1),
        lambda r: r.rand(1000, size=3),
        lambda r: r.rand(1000.5),
        lambda r: r.randn(300, "x"),
        lambda r: r.normal(0, -1, 1000),
        lambda r: r.randint(5, 5, 1000),
        lambda r: r.randint(5, size=1000, dtype="f8"),
        lambda r: r.uniform(0, np.inf, 1000),
    ],
)
def test_old_errors(call: Callable[[np.random.RandomState], Any]) -> None:
    def told() -> tuple[type, str]:
        with pytest.raises((ValueError, TypeError, OverflowError)) as error:
            call(np.random.RandomState(1))
        return error.type, str(error.value)

    want = told()
    with npaccel.accelerate():
        assert told() == want


# Arrays as parameters.

M = 60_000
MOVED: dict[str, Callable[[Any, Any, Any], Any]] = {
    "normal": lambda r, x, y: r.normal(x, y),
    "normal of one scale": lambda r, x, y: r.normal(x, 2),
    "normal of one mean": lambda r, x, y: r.normal(scale=y, loc=1.5),
    "normal by columns": lambda r, x, y: r.normal(x.reshape(300, -1), y[:200]),
    "normal, size given": lambda r, x, y: r.normal(x, y, M),
    "normal, shape given": lambda r, x, y: r.normal(x, y, size=(M,)),
    "normal, columns first": lambda r, x, y: r.normal(x.reshape(300, -1).T, 1.0),
    "normal of integers": lambda r, x, y: r.normal((x * 100).astype(int), y.astype("f4")),
    "normal of infinities": lambda r, x, y: r.normal(np.where(x > 0.9, np.inf, x), 1.0),
    "uniform": lambda r, x, y: r.uniform(x, x + y),
    "uniform of one end": lambda r, x, y: r.uniform(-1, y),
    "exponential": lambda r, x, y: r.exponential(y),
    # NumPy's own.
    "a larger size": lambda r, x, y: r.normal(x, y, (2, M)),
    "NaN as scale": lambda r, x, y: r.normal(x, np.where(y > 1, np.nan, y)),
    "few": lambda r, x, y: r.normal(x[:10], y[:10]),
    "lists": lambda r, x, y: r.normal([1.0, 2.0], 1.0),
    "lognormal": lambda r, x, y: r.lognormal(x, 0.1),
}


def parameters() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(12)
    return rng.random(M), rng.random(M) * 3


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", [np.random.default_rng, np.random.RandomState])
@pytest.mark.parametrize("name", MOVED)
def test_arrays_as_parameters(name: str, kind: Callable[[int], Any]) -> None:
    theirs, ours = kind(3), kind(3)
    x, y = parameters()
    for _ in range(2):
        want = MOVED[name](theirs, x, y)
        with npaccel.accelerate():
            same(MOVED[name](ours, x, y), want)
        with npaccel.accelerate():  # pending, and with its own use
            want = MOVED[name](theirs, x * 2, y + 1) * 2.0
            same(MOVED[name](ours, x * 2, y + 1) * 2.0, want)
    assert theirs.random() == ours.random()


@pytest.mark.pending
def test_arrays_as_parameters_are_recorded() -> None:
    x, y = parameters()
    with npaccel.accelerate():
        for name, draw in list(MOVED.items())[:12]:
            drawn = draw(np.random.default_rng(1), x, y)
            assert type(drawn) is npaccel.Array and npaccel._native.is_pending(drawn), name


@pytest.mark.parametrize("kind", [np.random.default_rng, np.random.RandomState])
@pytest.mark.parametrize(
    "draw",
    [
        lambda r, x, y: r.normal(x, -y),
        lambda r, x, y: r.normal(x, y * 0 - 0.0),
        lambda r, x, y: r.normal(x, y[:5]),
        lambda r, x, y: r.normal(x, y, 7),
        lambda r, x, y: r.normal(x + 1j, y),
        lambda r, x, y: r.normal(x.astype(np.longdouble), y),
        lambda r, x, y: r.normal(x, y, sizes=3),
        lambda r, x, y: r.uniform(x, x - y),
        lambda r, x, y: r.uniform(x, np.inf),
        lambda r, x, y: r.exponential(-y),
    ],
)
def test_errors_with_arrays_as_parameters(draw: Any, kind: Callable[[int], Any]) -> None:
    x, y = parameters()
    theirs, ours, told = kind(3), kind(3), []
    for rng, block in ((theirs, contextlib.nullcontext()), (ours, npaccel.accelerate())):
        with block:
            try:
                told.append(draw(rng, x, y).shape)
            except (TypeError, ValueError, OverflowError) as error:
                told.append((type(error), str(error)))
    assert told[0] == told[1]
    assert theirs.random() == ours.random()


SHUFFLED: dict[str, Callable[[], Any]] = {
    "elements": lambda: np.arange(5000),
    "a few": lambda: np.arange(129, dtype="i2"),
    "fewer": lambda: np.arange(100.0),
    "a block": lambda: np.arange(2049, dtype="u1"),
    "two blocks": lambda: np.arange(4097, dtype="f4"),
    "complex": lambda: np.arange(700) * 1j,
    "large": lambda: np.arange(300_000.0),
    "rows": lambda: np.arange(9000).reshape(3000, 3),
    "long rows": lambda: np.arange(200 * 301, dtype="f4").reshape(200, 7, 43),
    "one row": lambda: np.arange(900).reshape(1, 900),
    "no columns": lambda: np.zeros((500, 0)),
    "strided": lambda: np.arange(5000)[::2],
    "backward": lambda: np.arange(5000)[::-1],
    "columns": lambda: np.arange(9000).reshape(3, 3000).T,
    "other bytes": lambda: np.arange(700, dtype=">i8"),
    "objects": lambda: np.arange(700).astype(object),
    "records": lambda: np.zeros(700, "i4,f8"),
    "a list": lambda: list(range(700)),
}


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
@pytest.mark.parametrize("name", SHUFFLED)
def test_shuffling(name: str, make: Callable[[int], Any]) -> None:
    for before in range(3):  # half of a word may be left
        theirs, ours = make(before), make(before)
        for rng in (theirs, ours):
            getattr(rng, "integers", getattr(rng, "randint", None))(0, 5, before)
        want, got = SHUFFLED[name](), SHUFFLED[name]()
        theirs.shuffle(want)
        permuted = theirs.permutation(want)
        last = theirs.random(3), theirs.permutation(3000), theirs.permutation(5)
        with npaccel.accelerate():
            ours.shuffle(got)
            same(got, want)
            same(ours.permutation(got), permuted)
            same(ours.random(3), last[0])
            same(ours.permutation(3000), last[1])
            same(ours.permutation(5), last[2])


def test_shuffling_of_what_waits_and_what_must_not_change() -> None:
    want = np.arange(100_000) * 2 + 1
    np.random.default_rng(3).shuffle(want)
    fixed = np.arange(700)
    fixed.flags.writeable = False
    with npaccel.accelerate():
        got = npaccel.asarray(np.arange(100_000)) * 2 + 1
        np.random.default_rng(3).shuffle(got)
        same(got, want)
        for rng in (np.random.default_rng(3), np.random.RandomState(3)):
            with pytest.raises(ValueError, match="read-only"):
                rng.shuffle(fixed)
            with pytest.raises(TypeError):
                rng.shuffle()  # type: ignore[call-arg]
        rng = np.random.Generator(np.random.MT19937(1))
        rng.shuffle(got)
    np.random.Generator(np.random.MT19937(1)).shuffle(want)
    same(got, want)


def test_bytes_record_nothing() -> None:
    for make in (np.random.default_rng, np.random.RandomState):
        theirs, ours = make(1), make(1)
        for length in (0, 5, 1_000_001):
            with npaccel.accelerate():
                before = npaccel.stats()["requests"]
                assert ours.bytes(length) == theirs.bytes(length)
                assert npaccel.stats()["requests"] == before
        assert ours.random() == theirs.random()


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_few_in_whatever_holds_them(make: Callable[[int], Any]) -> None:
    def program() -> list[Any]:
        rng = make(5)
        found = [rng.random(size=None), rng.random(), rng.standard_normal(size=None)]
        rows = [np.arange(3.0), np.ones(2), np.zeros(1)]
        numbers, table, line = list(range(20)), np.arange(24).reshape(8, 3), np.arange(90.0)[::-1]
        for few in (rows, numbers, table, line, np.arange(9, dtype=object), []):
            rng.shuffle(few)
            found += [list(few), rng.random()]
        for wrong in ((1, 2, 3), 5, "abc"):
            with pytest.raises((TypeError, IndexError)) as caught:
                rng.shuffle(wrong)
            found.append(str(caught.value))
        return found

    want = program()
    with npaccel.accelerate():
        got = program()
    assert repr(got) == repr(want)
