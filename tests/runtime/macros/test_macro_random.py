"""Random generators among a section's arguments advance as the body would have them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sections import plain_sizes, rand, same

import npaccel

__all__ = ["plain_sizes"]

pytestmark = pytest.mark.usefixtures("deferred")

DRAWS = {
    "random": lambda x, rng: x + rng.random(4),
    "normal": lambda x, rng: x * rng.normal(1.0, 2.0, size=4) - rng.standard_normal(4),
    "uniform": lambda x, rng: np.sqrt(rng.uniform(1, 2, (3, 4))) + x,
    "integers": lambda x, rng: x * rng.integers(0, 10, 4) + rng.integers(3, size=4, dtype=np.int16),
    "singles": lambda x, rng: rng.standard_normal(4, dtype=np.float32) * x.astype("f4"),
    "picks": lambda x, rng: x[rng.integers(0, 4, 6)] + rng.choice(5, 6),
    "permutation": lambda x, rng: x[rng.permutation(4)],
    "returned": lambda x, rng: (rng.random(3), x + 1),
    "a view returned": lambda x, rng: rng.random((3, 4))[1:].T,
    "written": lambda x, rng: np.multiply(noise := rng.random(4), 2, out=noise) + x,
    "in a loop": lambda x, rng: [x * rng.poisson(3.0, 4) for _ in range(3)],
    "in a function": lambda x, rng: jitter(x, rng) + jitter(x * 2, rng),
    "generalised": lambda x, rng: x if isinstance(rng, np.random.Generator) else 1 / 0,
}


def jitter(x, rng):
    return x + 0.1 * rng.standard_normal(x.shape)


@pytest.mark.parametrize("bits", [np.random.PCG64, np.random.MT19937, npaccel.random.Philox])
@pytest.mark.parametrize("name", DRAWS)
def test_draws_are_replayed(name, bits):
    body, section = DRAWS[name], npaccel.macro(DRAWS[name])
    rng, twin = (np.random.Generator(bits(7)) for _ in range(2))
    for k in range(4):
        same(section(rand(4, seed=k), rng), body(rand(4, seed=k), twin))
    assert rng.random() == twin.random()
    assert section.stats()["recordings"] == 1 and section.stats()["bodies"] == 0


def test_other_generators_and_shared_bits():
    def body(x, pair, other):
        return x + pair[0].random(4) - pair[1].random(4) * other.normal(size=4)

    section = npaccel.macro(body)
    bits, same_bits = np.random.PCG64(1), np.random.PCG64(1)
    for k in range(3):
        mine = [np.random.Generator(bits), np.random.Generator(bits)]
        its = [np.random.Generator(same_bits), np.random.Generator(same_bits)]
        same(section(rand(4), mine, mine[0]), body(rand(4), its, its[0]))
        one, other = np.random.default_rng(k), np.random.default_rng(k)
        same(section(rand(4), mine, one), body(rand(4), its, other))
    assert bits.state == same_bits.state
    assert section.stats()["bodies"] == 0


def drawn_with_arrays(x, rng):
    return rng.normal(x, 1.0)


def single(x, rng):
    return x * rng.normal()


def shuffled(x, rng):
    rng.shuffle(x)
    return x * 2


def refused(x, rng):
    return x + rng.random(-4)


def raising(x, rng):
    y = x + rng.random(4)
    raise KeyError(y.shape)


def bare(x, rng):
    return x + np.random.Generator(rng.bit_generator).random(4)


def two_ways(x, rng):
    return x + rng.random(4) * np.random.default_rng(rng).random(4)


@pytest.mark.parametrize(
    "body", [drawn_with_arrays, single, shuffled, refused, raising, bare, two_ways]
)
def test_what_is_not_replayed_runs(body):
    section = npaccel.macro(body)
    rng, twin = np.random.default_rng(5), np.random.default_rng(5)
    for k in range(3):
        x, its = rand(4, seed=k), rand(4, seed=k)
        try:
            expected = body(its, twin)
        except Exception as error:
            with pytest.raises(type(error)):
                section(x, rng)
        else:
            same(section(x, rng), expected)
        same(x, its)
        assert rng.bit_generator.state == twin.bit_generator.state


def test_draws_are_undone_where_the_body_runs():
    def body(x, i, rng, f=1.0):
        y = x / rng.integers(0, 2, 64)
        return y[i] + f

    section = npaccel.macro(body)
    rng, twin = np.random.default_rng(5), np.random.default_rng(5)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        for index in (3, 99, 2):
            i = np.array([0, index])
            try:
                same(section(rand(64), i, rng), body(rand(64), i, twin))
            except IndexError:
                with pytest.raises(IndexError):
                    body(rand(64), i, twin)
            assert rng.bit_generator.state == twin.bit_generator.state
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for where, generator in ((section, rng), (body, twin)):
            with pytest.raises(RuntimeWarning):
                where(rand(64), np.array([0, 1]), generator)
    assert rng.bit_generator.state == twin.bit_generator.state


def test_a_generator_reached_by_two_ways():
    rng, twin = np.random.default_rng(5), np.random.default_rng(5)

    def body(x, generator):
        return x + generator.random(4) * rng.random(4)

    section = npaccel.macro(body)
    for _ in range(3):
        same(section(np.zeros(4), rng), np.zeros(4) + twin.random(4) * twin.random(4))
    assert section.stats()["bodies"] == 3


def test_draws_in_a_block(setting):
    setting("threshold", 1)
    body = DRAWS["normal"]
    section = npaccel.macro(body)
    rng, twin = np.random.default_rng(5), np.random.default_rng(5)
    for k in range(3):
        with npaccel.accelerate():
            actual = section(rand(4, seed=k), rng)
        np.testing.assert_allclose(np.asarray(actual), body(rand(4, seed=k), twin), rtol=1e-12)
    assert section.stats()["bodies"] == 0


def test_npaccels_own_generators_draw_anew() -> None:
    """Such a body runs as it is written: its draws are recorded themselves."""

    def body(rng, x):
        return rng.random(x.size) + x, rng.normal(size=5)

    section, x = npaccel.macro(body), np.ones(40_000)
    ours, want = npaccel.random.default_rng(1), npaccel.random.default_rng(1)
    for _ in range(4):
        for got, expected in zip(section(ours, x), body(want, x), strict=True):
            np.testing.assert_array_equal(got, expected)
    with npaccel.macro("own draws", x) as m:
        got = m.arrays[0] * ours.random(x.size)
    np.testing.assert_array_equal(got, want.random(x.size))
