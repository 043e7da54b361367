"""Proofs of loops of exponentials, logarithms and powers tell where a library rounds otherwise."""

from __future__ import annotations

import functools
import re
import struct
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import npaccel
from npaccel import _native

ROOT = Path(__file__).parents[3]
STEPS, LN2_HIGH = float.fromhex("0x1.71547652b82fep7"), float.fromhex("0x1.62e42fefa3800p-1")
ROWS = 128


def fused(a: float, b: float, c: float) -> float:
    return float(Fraction(a) * Fraction(b) + Fraction(c)) or a * b + c


def words(x: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", x))[0])


def number(word: int) -> float:
    return float(struct.unpack("<d", struct.pack("<Q", word % 2**64))[0])


@functools.cache
def library() -> tuple[list[float], list[float], list[float]]:
    """What this process's library has from its numbers for exp, for log, and for powers on."""
    maps = Path("/proc/self/maps").read_text()
    path = re.search(r"/\S*/libm[.-]\S*", maps)
    assert path is not None
    content = Path(path[0]).read_bytes()
    found: list[list[float]] = [[], [], []]
    for first, pick in ((STEPS, lambda _: 0), (LN2_HIGH, lambda x: 2 if x[2] == -0.5 else 1)):
        at = content.find(struct.pack("<d", first))
        while at >= 0:
            numbers = [x for (x,) in struct.iter_unpack("<d", content[at : at + 8 * 600])]
            found[pick(numbers)] = numbers
            at = content.find(struct.pack("<d", first), at + 8)
    return found[0], found[1], found[2]


class Model:
    """The library's functions, one number at a time, with one product rounded, by name."""

    def __init__(self, rounded: str = "") -> None:
        self.rounded = rounded

    def add(self, name: str, a: float, b: float, c: float) -> float:
        """a * b + c"""
        return a * b + c if name == self.rounded else fused(a, b, c)

    def exp(self, x: float, rest: float = 0.0) -> float:
        by = library()[0]
        turns = fused(x, by[0], by[7])
        k = words(turns)
        row = next(i for i in range(14, 64) if by[i : i + 2] == [0.0, 1.0]) + 2 * (k % ROWS)
        turns -= by[7]
        r = fused(turns, by[2], fused(turns, by[1], x)) + rest
        p, q, square = fused(r, by[4], by[3]), fused(r, by[6], by[5]), r * r
        p = self.add("square", p, square, r + by[row])
        p = fused(square * square, q, p)
        step = number(words(by[row + 1]) + (k << 45))
        return self.add("step", step, p, step)

    def log(self, x: float) -> float:
        by = library()[1]
        if not 1 - 2.0**-4 <= x < float.fromhex("0x1.109p0"):
            k, z = divmod(words(x) - words(0.6875), 2**52)
            inverse, log_c = by[18 + 2 * (z >> 45) : 20 + 2 * (z >> 45)]
            r = fused(number(words(x) - (k << 52)), inverse, -1.0)
            first = fused(k, by[0], log_c)
            high = first + r
            rest = self.add("half", r * r, by[2], fused(k, by[1], first - high + r))
            p = fused(fused(r, by[6], by[5]), r * r, fused(r, by[4], by[3]))
            return fused(r * (r * r), p, rest) + high
        r, of = x - 1, by[7:]
        square, cube = r * r, r * (r * r)
        p = self.add("third", square, of[3], self.add("second", r, of[2], of[1]))
        q = fused(square, of[6], fused(r, of[5], of[4]))
        s = fused(square, of[9], fused(r, of[8], of[7]))
        p = self.add("cube", fused(fused(cube, of[10], s), cube, q), cube, p)
        high = fused(-(2.0**27), r, fused(r, 2.0**27, r))
        total = fused(high * high, of[0], r)
        rest = fused(high * high, of[0], r - total)
        return self.add("near 1", p, cube, fused(of[0] * (r - high), r + high, rest)) + total

    def power(self, x: float, y: float) -> float:
        by = library()[2]
        k, z = divmod(words(x) - 0x3FE6955500000000, 2**52)
        inverse, _, log_c, log_rest = by[9 + 4 * (z >> 45) : 13 + 4 * (z >> 45)]
        r = fused(number(words(x) - (k << 52)), inverse, -1.0)
        first = fused(k, by[0], log_c)
        second, half = first + r, r * by[2]
        square = r * half
        high = second + square
        rest = fused(k, by[1], log_rest) + (first - second + r)
        rest = rest + self.add("what half loses", half, r, -square) + (second - high + square)
        p = fused(fused(r, by[8], by[7]), square, fused(r, by[6], by[5]))
        p = fused(square, p, fused(r, by[4], by[3]))
        rest = self.add("cube", r * square, p, rest)
        log = high + rest
        e = y * log
        lost = self.add("what y loses", y, log, -e)
        return self.exp(e, fused(y, high - log + rest, lost))


def telling(name: str) -> list[float]:
    """The arguments that a proof begins with."""
    source = (ROOT / "npaccel" / "native" / "loops" / "exact.c").read_text()
    listed = re.search(name + r"\[\] = \{(.*?)\}", source, flags=re.S)
    assert listed is not None
    return [float.fromhex(word.lower()) for word in listed[1].replace(",", " ").split()]


Arguments = list[tuple[float, ...]]


def arguments(name: str) -> Arguments:
    """Of these those that our loops compute."""
    if name == "power":
        numbers = telling("telling_powers")
        return list(zip(numbers[::2], numbers[1::2], strict=True))
    if name == "exp":
        return [(x,) for x in telling("telling_exponents") if 2.0**-54 <= abs(x) < 512]
    return [(x,) for x in telling("telling_positive") if x >= 2.0**-1022 and x != 1]


@pytest.fixture(autouse=True)
def _known_library() -> None:
    found = _native.exact_loops()
    if not all(found[name] for name in ("exp", "log", "power")):
        pytest.skip("another library, or no loops of ours")


@pytest.mark.parametrize("name", ["exp", "log", "power"])
def test_the_model_is_what_loops_compute(name: str) -> None:
    u: Callable[..., np.ndarray[tuple[int, ...], np.dtype[np.float64]]] = getattr(np, name)
    of, rng = getattr(Model(), name), np.random.default_rng(3)
    more = rng.uniform([0.01, -9], [9, 9], (500, 2))[:, : 2 if name == "power" else 1]
    listed = [*arguments(name), *map(tuple, more.tolist())]
    with npaccel.accelerate():
        got = u(*(np.array(column) for column in zip(*listed, strict=True)))
    assert [of(*each) for each in listed] == got.tolist()


ROUNDINGS = [("exp", "square"), ("exp", "step")]
ROUNDINGS += [("log", each) for each in ("half", "second", "third", "cube", "near 1")]
ROUNDINGS += [("power", each) for each in ("what half loses", "cube", "what y loses")]
ROUNDINGS += [("power", each) for each in ("square", "step")]


@pytest.mark.parametrize(("name", "rounded"), ROUNDINGS)
def test_a_rounding_is_told(name: str, rounded: str) -> None:
    """A library that rounds there has other bits for an argument of the proof."""
    ours, other = getattr(Model(), name), getattr(Model(rounded), name)
    assert any(ours(*each) != other(*each) for each in arguments(name))
