"""npaccel.random: NumPy's interface, one stream whatever computes it, the distributions meant."""

from __future__ import annotations

import copy
import itertools
import pickle
import shutil
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fixtures import setting
from scipy import special, stats

import npaccel
from npaccel import _native
from npaccel.random import Generator, Philox, default_rng

__all__ = ["setting"]

LARGE = 40_000  # from the threshold on, in every dtype
Draw = Callable[[Generator, Any], Any]
DRAWS: dict[str, Draw] = {
    "random": lambda rng, size: rng.random(size),
    "random f4": lambda rng, size: rng.random(size, dtype=np.float32),
    "uniform": lambda rng, size: rng.uniform(-1, 4, size),
    "standard_normal": lambda rng, size: rng.standard_normal(size),
    "standard_normal f4": lambda rng, size: rng.standard_normal(size, dtype=np.float32),
    "normal": lambda rng, size: rng.normal(3.0, 2.0, size),
    "standard_exponential": lambda rng, size: rng.standard_exponential(size),
    "standard_exponential f4": lambda rng, size: rng.standard_exponential(size, np.float32),
    "exponential": lambda rng, size: rng.exponential(2.0, size),
    "integers": lambda rng, size: rng.integers(0, 1000, size),
    "integers i1": lambda rng, size: rng.integers(-128, 127, size, np.int8, endpoint=True),
    "integers u8": lambda rng, size: rng.integers(2**64 - 9, 2**64, size, np.uint64),
    "wide integers": lambda rng, size: rng.integers(-(2**62), 2**62, size),
    "gamma": lambda rng, size: rng.gamma(2.0, size=size),
}
FUSED = [name for name in DRAWS if name not in ("wide integers", "gamma")]
all_draws = pytest.mark.parametrize("name", DRAWS)


def plain(x: Any) -> np.ndarray:
    return np.array(x, copy=True, subok=False)


def in_parts(draw: Draw, rng: Generator, parts: tuple[int, ...]) -> np.ndarray:
    return np.concatenate([plain(draw(rng, n)) for n in parts])


# ------------------------------------------------------------------------------------- the stream


@pytest.mark.parametrize(
    ("counter", "high", "key", "words"),
    [  # those that Random123 publishes
        (0, 0, 0, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        (2**64 - 1, 2**64 - 1, 2**64 - 1, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            0x85A308D3_243F6A88, 0x03707344_13198A2E, 0x299F31D0_A4093822,
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)  # fmt: skip
def test_known_answers(counter: int, high: int, key: int, words: tuple[int, ...]) -> None:
    bits = Philox(0)
    state = bits.state
    state["state"] = {"counter": [counter, high], "key": key}
    bits.state = state
    assert bits.random_raw(2).tolist() == [words[0] | words[1] << 32, words[2] | words[3] << 32]
    if counter < 2**63:
        place = np.uint64(2 * counter)
        assert _native.philox(place, np.uint64(high), np.uint64(key)) == words[0] | words[1] << 32


def test_words_are_the_same_one_by_one_at_once_and_recorded() -> None:
    one, few, many = Philox(5), Philox(5), Philox(5)
    want = one.random_raw(LARGE + 3)
    assert (few.words((3,)) == want[:3]).all() and (few.words((1000,)) == want[3:1003]).all()
    recorded = many.words((LARGE + 3,))
    assert (recorded == want).all()
    assert repr(one.state) == repr(many.state)


def test_the_counter_goes_over_all_of_its_128_bits() -> None:
    bits, drawn = Philox(5), []
    for _ in range(3):
        state = bits.state
        state["state"]["counter"] = np.array([2**64 - 2, 7], np.uint64)
        bits.state = state
        drawn.append(bits.random_raw(8) if not drawn else plain(Generator(bits)._bits.words((8,))))
        assert bits.state["state"]["counter"] == (2, 8)
    assert (drawn[0] == drawn[1]).all() and (drawn[1] == drawn[2]).all()
    state["state"]["counter"] = np.array([2**64 - 1, 7], np.uint64)
    bits.state = state
    assert (plain(bits.words((LARGE,)))[:6] == drawn[0][2:]).all()  # where nothing is recorded


@all_draws
def test_drawing_in_parts_is_drawing_at_once(name: str) -> None:
    draw = DRAWS[name]
    whole, parts = default_rng(7), default_rng(7)
    sizes = (1, 3, 63, 64, 65, 1001, 1025, LARGE - 2222)
    want = plain(draw(whole, sum(sizes)))
    got = in_parts(draw, parts, sizes)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)
    assert repr(parts.bit_generator.state) == repr(whole.bit_generator.state)
    np.testing.assert_array_equal(draw(whole, 5), draw(parts, 5))


@pytest.mark.parametrize("name", [name for name in DRAWS if " " not in name])
def test_single_numbers_are_those_of_an_array(name: str) -> None:
    whole, single = default_rng(7), default_rng(7)
    want = plain(DRAWS[name](whole, 20))
    assert [DRAWS[name](single, None) for _ in range(20)] == want.tolist()
    numpys = DRAWS[name](np.random.default_rng(7), None)
    assert type(DRAWS[name](single, None)) is type(numpys)


@pytest.mark.pending
@pytest.mark.parametrize("name", FUSED)
def test_from_the_threshold_on_numbers_are_recorded(name: str) -> None:
    made = DRAWS[name](default_rng(7), LARGE)
    assert type(made) is npaccel.Array and _native.is_pending(made)


@pytest.mark.one_in(2)
@all_draws
def test_numbers_do_not_depend_on_what_computes_them(name: str, setting: Any) -> None:
    want = plain(DRAWS[name](default_rng(3), LARGE))
    for tiering, backend in itertools.product(("off", "eager"), ("llvm", "numpy")):
        setting("tiering", tiering)
        setting("backend", backend)
        np.testing.assert_array_equal(DRAWS[name](default_rng(3), LARGE), want)
    setting("tiering", "off")
    setting("threads", 1)
    np.testing.assert_array_equal(DRAWS[name](default_rng(3), LARGE), want)
    setting("threshold", 0)
    np.testing.assert_array_equal(DRAWS[name](default_rng(3), 100), want[:100])
    with npaccel.accelerate(min_size=64):
        np.testing.assert_array_equal(DRAWS[name](default_rng(3), 100), want[:100])
    with npaccel.accelerate:
        np.testing.assert_array_equal(
            DRAWS[name](default_rng(3), (200, LARGE // 200)).ravel(), want
        )


def all_fused() -> list[np.ndarray]:
    drawn = [DRAWS[name](default_rng(3), LARGE) for name in FUSED]
    npaccel.evaluate()
    return list(map(plain, drawn))


@pytest.mark.pending
@pytest.mark.parametrize("backend", ["c", "opencl"])
def test_numbers_do_not_depend_on_the_compiler(backend: str, request: Any) -> None:
    if backend == "opencl":
        request.getfixturevalue("opencl")
    elif not any(map(shutil.which, ("cc", "gcc", "clang"))):
        pytest.skip("no C compiler")
    want = all_fused()
    with npaccel.backend(backend):
        got = all_fused()
    for name, x, y in zip(FUSED, got, want, strict=True):
        np.testing.assert_array_equal(x, y, name)


@pytest.mark.parametrize("name", FUSED)
@pytest.mark.parametrize("level", ["v4", "v3", "neon", ""])
def test_numbers_do_not_depend_on_the_processor(name: str, level: str, setting: Any) -> None:
    """'': loops in C; but for what was found before, hence at a size of its own."""
    best = _native.primitives()[0]
    try:
        _native.primitives(level)
    except ValueError:
        pytest.skip(f"no primitives {level!r} here")
    try:
        setting("tiering", "off")
        got = plain(DRAWS[name](default_rng(3), LARGE))
    finally:
        _native.primitives(best)
    assert np.array_equal(got, in_parts(DRAWS[name], default_rng(3), (1,) * 50 + (LARGE - 50,)))


def test_loops_in_c_have_the_bits_of_primitives() -> None:
    bits = np.concatenate([
        np.random.default_rng(1).integers(0, 2**64, 20_000, np.uint64),
        np.arange(50, dtype=np.uint64) << np.uint64(11), ~np.arange(50, dtype=np.uint64),
        *(np.uint64(1 << k) - np.arange(2, dtype=np.uint64) for k in range(1, 64)),
    ])  # fmt: skip
    apart = np.repeat(bits, 2)[::2]  # which primitives do not take
    still = np.uint64(2**40 + 12345)
    for name, others in (
        ("unit_of", ()), ("normal_of", ()), ("exponential_of", ()), ("fraction_of", (still,)),
        ("philox", (still, still)), ("philox_half", (still, still)),
    ):  # fmt: skip
        function = getattr(_native, name)
        np.testing.assert_array_equal(function(apart, *others), function(bits, *others), name)
    halves = apart & np.uint64(2**32 - 1)
    np.testing.assert_array_equal(_native.single_of(halves), _native.single_of(halves.copy()[::1]))


# ---------------------------------------------------------------------------------- distributions


def test_normal_and_exponential_numbers_are_inverses_of_their_distributions() -> None:
    words = np.concatenate([Philox(1).random_raw(100_000), np.arange(0, 2**15, 7) << 11])
    words = words.astype(np.uint64)
    tail = ((words >> np.uint64(11) & np.uint64(2**52 - 1)).astype(np.float64) + 0.5) * 2.0**-52
    sign = np.where(words >> np.uint64(63) == 0, 1, -1)
    want = -special.ndtri(tail / 2) * sign
    np.testing.assert_allclose(_native.normal_of(words), want, rtol=3e-15, atol=1e-16)
    np.testing.assert_allclose(_native.exponential_of(words), -np.log(tail), rtol=3e-16)


N = 200_000


@pytest.mark.parametrize(
    ("name", "law"),
    [
        ("random", stats.uniform()),
        ("random f4", stats.uniform()),
        ("uniform", stats.uniform(-1, 5)),
        ("standard_normal", stats.norm()),
        ("normal", stats.norm(3, 2)),
        ("standard_normal f4", stats.norm()),
        ("standard_exponential", stats.expon()),
        ("exponential", stats.expon(scale=2)),
        ("gamma", stats.gamma(2)),
    ],
)
def test_distributions(name: str, law: Any) -> None:
    x = plain(DRAWS[name](default_rng(11), N)).astype(np.float64)
    assert stats.kstest(x, law.cdf).pvalue > 1e-4
    pairs = law.cdf(x).reshape(-1, 2)  # neighbours have nothing to do with each other
    counts, _, _ = np.histogram2d(*pairs.T, bins=16, range=[[0, 1], [0, 1]])
    assert stats.chisquare(counts.ravel()).pvalue > 1e-4


@pytest.mark.parametrize(("low", "high"), [(0, 2), (0, 7), (-3, 1000), (0, 2**16), (5, 2**32 + 5)])
def test_integers_are_alike(low: int, high: int) -> None:
    x = plain(default_rng(4).integers(low, high, N))
    assert x.min() >= low and x.max() < high and x.dtype == np.int64
    bins = min(high - low, 64)
    counts = np.bincount((x - low) * bins // (high - low), minlength=bins)
    expected = np.bincount(np.arange(high - low) * bins // (high - low)) if high - low < 2000 else 1
    expected = expected * np.ones(bins)
    assert stats.chisquare(counts, expected * N / expected.sum()).pvalue > 1e-4


def test_streams_of_a_spawn_differ() -> None:
    rng = default_rng(1)
    drawn = [plain(r.random(1000)) for r in (rng, *rng.spawn(3), Generator(Philox(1).jumped()))]
    for a, b in itertools.combinations(drawn, 2):
        assert abs(np.corrcoef(a, b)[0, 1]) < 0.15 and not np.isin(a, b).any()


# -------------------------------------------------------------------------------------- interface


def test_uniform_numbers_are_those_of_numpys_methods_over_the_same_words() -> None:
    ours, numpys = default_rng(9), np.random.Generator(Philox(9))
    for size, dtype in itertools.product((None, 3, (4, 5), 1001, LARGE, LARGE + 1), ("f8", "f4")):
        np.testing.assert_array_equal(ours.random(size, dtype), numpys.random(size, dtype))
    assert repr(ours.bit_generator.state) == repr(numpys.bit_generator.state)
    assert isinstance(ours, np.random.Generator)


def test_seeds_are_numpys() -> None:
    sequence = np.random.SeedSequence(42)
    key, high = sequence.generate_state(2, np.uint64).tolist()
    rng = default_rng(42)
    state = rng.bit_generator.state["state"]
    assert state["key"] == key and state["counter"] == (0, high)
    assert default_rng(rng) is rng
    for same in (sequence, Philox(42), Philox(np.random.SeedSequence(42))):
        assert default_rng(same).random() == default_rng(42).random()
    assert default_rng().random() != default_rng().random()
    for wrong in (np.random.PCG64(1), np.random.default_rng(1)):
        with pytest.raises(TypeError, match=r"draws from npaccel\.random\.Philox, not from"):
            default_rng(wrong)


def test_copies_and_states() -> None:
    rng = default_rng(3)
    rng.random(5, dtype=np.float32)
    state = rng.bit_generator.state
    copies = [pickle.loads(pickle.dumps(rng)), copy.deepcopy(rng), default_rng(8)]
    copies[2].bit_generator.state = state
    want = rng.random(3, np.float32), rng.standard_normal(3), rng.spawn(1)[0].random()
    for other in copies[:2]:
        assert type(other) is Generator and type(other.bit_generator) is Philox
        assert other.random(3, np.float32).tolist() == want[0].tolist()
        assert other.standard_normal(3).tolist() == want[1].tolist()
        assert other.spawn(1)[0].random() == want[2]
    assert copies[2].random(3, np.float32).tolist() == want[0].tolist()
    with pytest.raises(ValueError, match="state must be for a Philox4x32 PRNG"):
        rng.bit_generator.state = np.random.Philox(1).state
    with pytest.raises(TypeError, match="state must be a dict"):
        rng.bit_generator.state = 3


def test_advance_and_jumped() -> None:
    want = Philox(3).random_raw(100)
    for step in (0, 1, 2, 37, 98):
        assert Philox(3).advance(step).random_raw() == want[step]
    bits = Philox(3)
    bits.random_raw(50)
    assert bits.advance(-13).random_raw() == want[37]
    far = Philox(3).jumped(2)
    assert far.state["state"]["counter"][1] == Philox(3).state["state"]["counter"][1] + 2
    assert far.advance(-(2**66)).random_raw() == want[0]


BAD: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("random", (-1,), {}),
    ("random", (2.5,), {}),
    ("random", ("a",), {}),
    ("random", ((2, -1),), {}),
    ("random", (3, "i8"), {}),
    ("random", (3, ">f8"), {}),
    ("random", (3, "no dtype"), {}),
    ("random", (3,), {"out": np.empty(4)}),
    ("random", (), {"out": np.empty(4, "f4")}),
    ("random", (), {"out": np.empty(8)[::2]}),
    ("random", (), {"out": np.empty(4)[::-1]}),
    ("random", (), {"out": [1.0, 2.0]}),
    ("standard_normal", (3, np.int32), {}),
    ("standard_normal", (), {"out": np.empty(3), "dtype": "f4"}),
    ("standard_exponential", (-3,), {}),
    ("normal", (0.0, -1.0), {}),
    ("normal", (0.0, -0.0, 3), {}),
    ("normal", (0.0, [1.0, -1.0]), {}),
    ("normal", ([0.0, 1.0], 1.0, 3), {}),
    ("normal", ([0.0, 1.0], [1.0, 2.0, 3.0]), {}),
    ("normal", ("a",), {}),
    ("exponential", (-1.0,), {}),
    ("exponential", ([1.0, -2.0],), {}),
    ("uniform", (1.0, 0.0), {}),
    ("uniform", (0.0, np.inf), {}),
    ("uniform", ([0.0, 2.0], 1.0), {}),
    ("uniform", (-1e308, 1e308), {}),
    ("integers", (3, 3), {}),
    ("integers", (5, 3), {}),
    ("integers", (0, 300), {"dtype": "u1"}),
    ("integers", (-1, 3), {"dtype": "u8"}),
    ("integers", (0, 2**64), {}),
    ("integers", (0, 5), {"dtype": "f8"}),
    ("integers", (0, 5), {"dtype": ">i8"}),
    ("integers", (0, 5), {"size": -1}),
    ("integers", ([0, 1], [5, 0]), {}),
]


@pytest.mark.parametrize(("name", "args", "kwargs"), BAD, ids=str)
def test_errors_are_numpys(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    with pytest.raises(Exception) as numpys:
        getattr(np.random.default_rng(1), name)(*args, **kwargs)
    with pytest.raises(numpys.type) as ours:
        getattr(default_rng(1), name)(*args, **kwargs)
    assert str(ours.value) == str(numpys.value)


GOOD: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    *((name, (size,), {}) for name in ("random", "standard_normal", "standard_exponential")
      for size in (None, 0, 1, (), (0, 3), (2, 3), [4], np.int64(3), (LARGE, 2), (70, 3))),
    ("random", (3, "f4"), {}), ("random", (3, float), {}), ("standard_normal", (None, "f4"), {}),
    ("random", (None, "f4"), {}),
    ("standard_exponential", (5,), {"method": "inv"}),
    ("normal", (np.float32(1), 2), {}), ("normal", ([0.0, 1.0], 2.0), {}),
    ("normal", (np.zeros((3, 1)), np.ones(4)), {}), ("normal", ([0.0, 1.0], 2.0, (3, 2)), {}),
    ("normal", (np.nan, np.nan), {}), ("normal", (np.float64(1), np.array(2.0)), {}),
    ("normal", (0, 1, 0), {}), ("normal", (np.zeros((0, 3)),), {}),
    ("uniform", (2, 5), {}), ("uniform", (np.zeros(3), 1), {}), ("uniform", (1, 1, 4), {}),
    ("uniform", (0.0, 1.0, (LARGE,)), {}),
    ("exponential", ([1.0, 2.0],), {}), ("exponential", (0.0, 3), {}), ("exponential", (3,), {}),
    ("integers", (10,), {}), ("integers", (10,), {"dtype": int}),
    ("integers", (2,), {"dtype": bool}),
    ("integers", (1,), {}), ("normal", (0, 1, ()), {}), ("integers", (0, 5, ()), {}),
    ("uniform", (0, 1, ()), {}), ("normal", ([1.0], 1, 1), {}),
    ("integers", (5, 6, 3), {}), ("integers", (0, 5, 0), {}),
    ("integers", (2.0,), {}), ("integers", (-5, 5, (2, 3)), {"dtype": np.int16}),
    ("integers", (0, 255), {"dtype": np.uint8, "endpoint": True, "size": LARGE}),
    ("integers", ([1, 2], 10), {}), ("integers", (np.int64(3),), {}), ("integers", (True, 5), {}),
    ("integers", (-(2**63), 2**63 - 1, 3), {"endpoint": True}),
    ("integers", (5, None, 3, "u8"), {}),
    ("permutation", (20,), {}), ("choice", (20, 5), {}), ("choice", (5,), {"p": [0.2] * 5}),
    ("permuted", (np.arange(12).reshape(3, 4),), {"axis": 1}), ("poisson", (3, 4), {}),
    ("bytes", (5,), {}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args", "kwargs"), GOOD, ids=lambda x: repr(x)[:30])
def test_types_and_shapes_are_numpys(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    want = getattr(np.random.default_rng(1), name)(*args, **kwargs)
    got = getattr(default_rng(1), name)(*args, **kwargs)
    assert isinstance(got, type(want)) and type(got) in (type(want), npaccel.Array)
    if isinstance(want, np.ndarray):
        assert (got.shape, got.dtype, got.flags.c_contiguous) == (want.shape, want.dtype, True)
        assert got.flags.writeable


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("name", ["random", "standard_normal", "standard_exponential"])
@pytest.mark.parametrize("shape", [(10,), (3, 5), (LARGE,), (200, LARGE // 200 + 1)])
def test_out(name: str, shape: tuple[int, ...], dtype: str) -> None:
    want = plain(getattr(default_rng(1), name)(shape, dtype=dtype))
    filled = [np.empty(shape, dtype), np.empty(shape[::-1], dtype).T,
              npaccel.asarray(np.empty(shape, dtype))]  # fmt: skip
    for out in filled:
        assert getattr(default_rng(1), name)(out=out, dtype=dtype) is out
        in_order = out if out.flags.c_contiguous else out.T
        np.testing.assert_array_equal(plain(in_order).ravel(), want.ravel())
    assert getattr(default_rng(1), name)(shape, out=filled[0], dtype=dtype) is filled[0]


def test_shuffle_and_permutation_do_not_depend_on_their_array() -> None:
    x = np.arange(LARGE)
    want = default_rng(2).permutation(LARGE)
    np.testing.assert_array_equal(default_rng(2).permutation(x), want)
    ours, pending = npaccel.asarray(x.copy()), npaccel.asarray(x) * 1
    for array in (ours, pending, x):
        assert default_rng(2).shuffle(array) is None
        np.testing.assert_array_equal(array, want)
    assert sorted(want.tolist()) == list(range(LARGE))
    rows, numpys = np.arange(LARGE).reshape(4, -1), np.random.Generator(Philox(2))
    want = numpys.permuted(rows, axis=1)
    np.testing.assert_array_equal(default_rng(2).permuted(rows, axis=1), want)
    out = npaccel.asarray(np.zeros_like(rows))
    assert default_rng(2).permuted(npaccel.asarray(rows), axis=1, out=out) is out
    np.testing.assert_array_equal(out, want)
    listed = [1, 2, 3, "a"]
    default_rng(2).shuffle(listed)
    assert sorted(map(str, listed)) == ["1", "2", "3", "a"]
    with pytest.raises(np.exceptions.AxisError):
        default_rng(2).shuffle(rows, 5)


def test_threads_share_a_stream() -> None:
    """Each draw has places of its own, whoever makes it."""
    rng, drawn = default_rng(6), []

    def draw() -> None:
        drawn.extend(plain(rng.random(n)) for n in (10, 1000, LARGE) * 5)

    threads = [threading.Thread(target=draw) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    total = sum(map(len, drawn))
    together = np.sort(np.concatenate(drawn))
    np.testing.assert_array_equal(together, np.sort(plain(default_rng(6).random(total))))
