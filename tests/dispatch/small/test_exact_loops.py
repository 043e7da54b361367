"""`sin`, `exp`, `log`, `power` and others of small arrays of doubles: the C library's bits."""

from __future__ import annotations

import functools
import itertools
import math
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npaccel
from npaccel import _native

from .comparison import Case, all_same

Array = np.ndarray[Any, Any]
h = float.fromhex
ROOT = Path(__file__).parents[3]
TURNED, EXPONENTIALS = (np.sin, np.cos), (np.exp, np.exp2, np.expm1, np.sinh, np.cosh, np.tanh)
LOGARITHMS, POWERS = (np.log, np.log2, np.log10), (np.power, np.float_power)
FUNCTIONS = (*TURNED, np.hypot, *EXPONENTIALS, *LOGARITHMS, np.log1p, np.logaddexp, *POWERS)


def choose(*levels: str) -> bool:
    """Loops for the first of these levels of processors that this one has, if there is one."""
    return any(set(_native.exact_loops(level).values()) != {None} for level in levels)


@pytest.fixture(params=["v4", "v3"])
def level(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each kind of registers in turn; what a proof finds unlike is NumPy's."""
    there = choose(request.param)
    try:
        if not there:
            pytest.skip(f"no processor of level {request.param}")
        yield
    finally:
        choose("v4", "v3")


def around(*centres: float, reach: int = 40) -> Array:
    """The doubles next to these, of both signs."""
    bits = np.array(centres).view(np.int64)[:, None] + np.arange(-reach, reach + 1)
    found = np.abs(bits).view(np.float64).ravel()
    return np.concatenate([found, -found])


# Where one way of computing ends and another one begins.
STEPS = (0.126, h("0x1.b6p-1"), h("0x1.368fdp1"), h("0x1.921fbp26"))
BORDERS = (*STEPS, 2.0**-26, 2.0**-27, 2.0**-1022)
QUARTERS = tuple(k * math.pi / 4 for k in (1, 2, 3, 4, 5, 6, 7, 8, 9, 100, 101, 1e6, 1e8, 1e15))
SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, -math.nan, 1e22, 5e-324, -5e-324, 2.0**1023]


def angles(rng: np.random.Generator) -> Iterator[tuple[str, Array]]:
    yield "borders", around(*BORDERS, math.pi / 2 - 0.126, math.pi / 2 + 0.126)
    yield "quarters", around(*QUARTERS)
    yield "rows", around(*((np.arange(1, 220) + 0.5) / 128), reach=3)
    yield "special", np.resize(np.array(SPECIAL), 300)
    yield "any", rng.integers(0, 2**64, 30_000, dtype=np.uint64).view(np.float64)
    yield "small", rng.normal(size=30_000) * 10.0 ** -rng.integers(0, 320, 30_000)
    for width in (0.126, 1.0, 3.0, 7.0, 1e3, 1e8, 1e12):
        yield f"up to {width}", rng.uniform(-width, width, 30_000)


def sides(rng: np.random.Generator) -> Iterator[tuple[str, tuple[Array, Array]]]:
    x, y = rng.normal(size=(2, 30_000))
    yield "alike", (x, y)
    yield "apart", (x, y * 2.0 ** rng.integers(-60, 60, 30_000))
    yield "any", tuple(rng.integers(0, 2**64, (2, 30_000), dtype=np.uint64).view(np.float64))
    yield "large", (x * 2.0**511, y * 2.0**511)
    yield "small", (x * 2.0**-459, y * 2.0**-459)
    yield "twice", (x, np.abs(x) / 2 * (1 + rng.integers(-9, 9, 30_000) * 2.0**-50))
    yield "border of apart", (x, x * 2.0**-54 * (1 + rng.integers(-9, 9, 30_000) * 2.0**-52))
    pairs = np.array([*itertools.product([*SPECIAL, 1.0, 2.0**511, 2.0**-459], repeat=2)])
    yield "special", (pairs[:, 0].copy(), pairs[:, 1].copy())


# Where ways of computing meet: results out of range, sums near 1, the rows of tables.
EXPONENTS = (
    1e-9,
    2.0**-54,
    2.0**-28,
    22.0,
    38.81625,
    512.0,
    708.3964,
    709.7827,
    745.1332,
    928.0,
    1022.0,
    1024.0,
    1075.0,
)
NEAR_1 = (1 - 2.0**-4, 1 + h("0x1.09p-4"), 1 - h("0x1.5b51p-5"), 1 + h("0x1.6ab2p-5"), 1.0)


def exponents(rng: np.random.Generator) -> Iterator[tuple[str, Array]]:
    yield "borders", around(*EXPONENTS)
    yield "rows", around(*((np.arange(300) + 0.5) / 128), reach=2)
    yield "rows of exp", around(*((np.arange(300) + 0.5) * math.log(2) / 128), reach=2)
    yield "rows of tanh", around(*np.outer(2.0 ** np.arange(-4, 6), (1.0, 1.5)).ravel())
    yield "rows of expm1", around(*((np.arange(1, 60) / 2) * math.log(2)), reach=20)
    yield "special", np.resize(np.array(SPECIAL), 300)
    yield "any", rng.integers(0, 2**64, 30_000, dtype=np.uint64).view(np.float64)
    yield "small", rng.normal(size=30_000) * 10.0 ** -rng.integers(0, 320, 30_000)
    for width in (0.01, 1.0, 10.0, 100.0, 800.0):
        yield f"up to {width}", rng.uniform(-width, width, 30_000)


def positive(rng: np.random.Generator) -> Iterator[tuple[str, Array]]:
    begins = np.r_[0.6875 + np.arange(129) / 128, 0.7057291567 + np.arange(129) / 128]
    yield "borders", around(*NEAR_1, 2.0**-1022, 2.0**1023, reach=100)
    yield "rows", around(*begins, reach=2)
    yield "special", np.resize(np.array(SPECIAL), 300)
    yield "any", rng.integers(0, 2**64, 30_000, dtype=np.uint64).view(np.float64)
    yield "of all sizes", 2.0 ** rng.uniform(-1070, 1024, 30_000)
    for width in (0.05, 0.5, 1.0):
        yield f"within {width} of 1", 1 + rng.uniform(-width, width, 30_000)
    yield "usual", rng.uniform(0, 100, 30_000)


def sums(rng: np.random.Generator) -> Iterator[tuple[str, Array]]:
    borders = (h("0x1.a827ap-2"), h("0x1.2bec4p-2"), 2.0**-29, 2.0**-54, 1.0, 2.0**53, 2.0**1023)
    yield "borders", around(*borders, 2.0**-1022)
    yield "next to powers of 2", around(*(2.0 ** np.arange(-30, 60) - 1))
    yield "small", rng.normal(size=30_000) * 10.0 ** -rng.integers(0, 320, 30_000)
    for label, x in positive(rng):
        half = x[:15_000]
        yield label, x if label in ("special", "any") else np.r_[half, half - 1]


def terms(rng: np.random.Generator) -> Iterator[tuple[str, tuple[Array, Array]]]:
    x, y = rng.normal(size=(2, 30_000))
    yield "alike", (x, np.where(x < 1, y, x))
    yield "apart", (x * 300, y * 300)
    yield "near", (x, x + y * 2.0 ** -rng.integers(0, 60, 30_000))
    yield "large", (x * 2.0**1000, x * 2.0**1000 * (1 + y * 2.0**-50))
    yield "any", tuple(rng.integers(0, 2**64, (2, 30_000), dtype=np.uint64).view(np.float64))
    pairs = np.array([*itertools.product([*SPECIAL, 1.0, 745.0, -745.0, 2.0**1000], repeat=2)])
    yield "special", (pairs[:, 0].copy(), pairs[:, 1].copy())


def powers(rng: np.random.Generator) -> Iterator[tuple[str, tuple[Array, Array]]]:
    signs = rng.choice([-1.0, 1.0], 30_000)
    x, y = rng.uniform(0, 5, 30_000), rng.uniform(-9, 9, 30_000)
    yield "usual", (x, y)
    yield "whole", (x * signs, np.rint(y))
    yield "halves", (x * signs, np.rint(y) / 2)
    yield "near 1", (1 + y / 200, x * 10.0 ** rng.integers(-6, 6, 30_000))
    yield "of all sizes", (2.0 ** rng.uniform(-1070, 1024, 30_000), y)
    yield "out of range", (x * signs, np.rint(y * 100))
    yield "large powers", (1 + signs * 2.0**-50, np.rint(y) * 2.0 ** rng.integers(45, 63, 30_000))
    yield "small powers", (x, y * 2.0 ** -rng.integers(40, 1080, 30_000))
    yield "any", tuple(rng.integers(0, 2**64, (2, 30_000), dtype=np.uint64).view(np.float64))
    few = [*SPECIAL, 1.0, -1.0, 0.5, -0.5, 2.0, 3.0, -3.0, 2.0**52, 2.0**53, 1 - 2.0**-53]
    pairs = np.array([*itertools.product(few, repeat=2)])
    yield "special", (pairs[:, 0].copy(), pairs[:, 1].copy())


@functools.cache
def calls() -> list[tuple[str, np.ufunc, tuple[Array, ...]]]:
    rng = np.random.default_rng(7)
    with np.errstate(all="ignore"):
        singles = (
            (angles, TURNED),
            (exponents, EXPONENTIALS),
            (positive, LOGARITHMS),
            (sums, (np.log1p,)),
        )
        pairs = ((sides, (np.hypot,)), (terms, (np.logaddexp,)), (powers, POWERS))
        found = [(f"{u} {label}", u, (x,)) for m, us in singles for label, x in m(rng) for u in us]
        return found + [
            (f"{u} {label}", u, p) for m, us in pairs for label, p in m(rng) for u in us
        ]


@pytest.mark.usefixtures("level")
def test_values() -> None:
    def cases() -> Iterator[Case]:
        for label, u, inputs in calls():
            yield label, u, lambda inputs=inputs: inputs

    with np.errstate(all="ignore"):
        all_same(cases(), times=1)


@pytest.mark.slow
@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("u", FUNCTIONS, ids=lambda u: str(u.__name__))
def test_values_of_three_hundred_million(u: np.ufunc) -> None:
    """Half of them of usual size, the others of all sizes up to where the library computes."""
    rng = np.random.default_rng(11)
    for number in range(10_000):
        width = 8.0 if number % 2 else 10.0 ** rng.uniform(-7, 8)
        inputs = (rng.random((u.nin, 30_000)) - 0.5) * width
        inputs[0] = np.abs(inputs[0]) if u in LOGARITHMS + POWERS else inputs[0]
        with np.errstate(all="ignore"):
            expected = u(*inputs)
            with npaccel.accelerate():
                found = u(*inputs)
        assert found.tobytes() == expected.tobytes(), number


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("mode", ["warn", "raise", "ignore"])
def test_warnings(mode: Any) -> None:
    """Those of each kind of numbers apart: an overflow would hide that underflow is missing."""

    def cases() -> Iterator[Case]:
        for label, u, inputs in calls():
            size = 64 if "special" in label else 3_000
            for at in range(0, min(len(inputs[0]), 6_000), size):
                part = tuple(x[at : at + size] for x in inputs)
                yield f"{label} {at}", u, lambda part=part: part
        for x, u in itertools.product(SPECIAL, FUNCTIONS):
            yield f"{u} {x}", u, lambda x=x, u=u: (np.full(20, x), np.ones(20))[: u.nin]
            yield f"{u} one {x}", u, lambda x=x, u=u: (np.r_[np.ones(9), x], np.ones(10))[: u.nin]
        few = [*SPECIAL, 1.0, -3.0]
        for x, y, u in itertools.product(few, few, [u for u in FUNCTIONS if u.nin == 2]):
            yield f"{u} {x} {y}", u, lambda x=x, y=y: (np.full(20, x), np.full(20, y))

    with np.errstate(all=mode):
        all_same(cases(), times=1)


@pytest.mark.usefixtures("level")
def test_layouts() -> None:
    def cases() -> Iterator[Case]:
        for u, n in itertools.product(FUNCTIONS, (*range(1, 71), 127, 128, 129, 1000)):
            x, y = np.random.default_rng(n).normal(size=(2, 3 * n)) * 9
            x[n // 2] = 1e10
            x = np.abs(x) if u in LOGARITHMS + POWERS else x
            small = (x[:3].reshape(3, 1), y[:3])[: u.nin]
            for name, view in VIEWS.items():
                args = (view(x, n), view(y, n))[: u.nin]
                yield f"{u} {n} {name}", u, lambda args=args: args
            yield f"{u} {n} table", u, lambda small=small: small
            yield f"{u} {n} number", u, lambda x=x, n=n, u=u: (x[:n], 0.75)[: u.nin]

    with np.errstate(all="ignore"):
        all_same(cases())


VIEWS: dict[str, Callable[[Array, int], Array]] = {
    "line": lambda x, n: x[:n],
    "every third": lambda x, n: x[::3],
    "backwards": lambda x, n: x[:n][::-1],
    "columns": lambda x, n: x.reshape(n, 3)[:, :2],
    "transposed": lambda x, n: x.reshape(n, 3).T,
}


@pytest.mark.usefixtures("level")
def test_results_over_their_inputs() -> None:
    def over_first(u: np.ufunc, *args: Array) -> Any:
        return u(*args, args[0])

    def over_second(u: np.ufunc, *args: Array) -> Any:
        return u(*args, out=args[-1])

    def cases() -> Iterator[Case]:
        for u, n in itertools.product(FUNCTIONS, (1, 5, 8, 64, 65, 300)):
            for write in (over_first, over_second):
                for step in (1, 2):

                    def make(n: int = n, u: np.ufunc = u, step: int = step) -> tuple[Array, ...]:
                        values = np.random.default_rng(n).normal(size=(2, step * n)) * 9
                        values[:, n // 2] = 1e10, math.inf
                        return tuple(x.copy()[::step] for x in values[: u.nin])

                    yield f"{u} {n} {step}", functools.partial(write, u), make

    with np.errstate(all="ignore"):
        all_same(cases())


def test_the_library_here_is_told() -> None:
    """Nothing is None but where the processor has no such loops, which `devices` says, too."""
    found = _native.exact_loops()
    assert {*found} == {u.__name__ for u in FUNCTIONS}
    told = re.split(r",? ", npaccel.devices().exact_loops.partition(";")[0])
    for name, same in found.items():
        assert (name in told) == bool(same)


def has_avx2_alone() -> bool:
    features: dict[str, bool] = np._core._multiarray_umath.__cpu_features__  # type: ignore[attr-defined]
    return bool(features.get("AVX2") and features.get("FMA3") and not features.get("AVX512F"))


def test_exponentials_logarithms_and_powers_are_ours() -> None:
    """Its numbers are found in this process's C library, and NumPy calls it."""
    library, version = platform.libc_ver()
    if _native.portable() or not has_avx2_alone():
        pytest.skip("no loops for this processor, or NumPy has loops of its own")
    if library != "glibc" or version not in KNOWN:
        pytest.skip(f"{library} {version} is not known to have these numbers")
    found = _native.exact_loops()
    assert [name for name in ("exp", "log", "power", "tanh") if not found[name]] == []


KNOWN = {f"2.{minor}" for minor in range(28, 39)}


# ----------------------------------------------------------------------------------------- proof

OTHER_LIBRARY = """
import numpy as np, npaccel
from npaccel import _native
x = np.random.default_rng(1).uniform(-50, 50, 20_000)
expected = [u(x).tobytes() for u in (np.sin, np.exp)]
with npaccel.accelerate():
    found = [u(x).tobytes() for u in (np.sin, np.exp) for _ in range(3)]
assert found[0::3] == found[2::3] == expected
print(_native.exact_loops(), npaccel.devices().exact_loops)
"""


def test_a_library_with_other_bits_keeps_its_loop() -> None:
    """As the GNU C library has them for processors that do not add products unrounded."""
    here = _native.exact_loops()
    ours = [name for name in ("sin", "cos", "exp", "log", "power") if here[name]]
    if "sin" not in ours:
        pytest.skip("it has other bits already, or there are no loops of ours")
    run = subprocess.run(
        [sys.executable, "-c", OTHER_LIBRARY],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "PYTHONSAFEPATH": "1",
            "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-FMA,-FMA4,-AVX2",
        },
        check=False,
    )
    told = run.stdout.partition("by NumPy's loop: it has other bits than ours")
    assert "'hypot': True" in run.stdout, run.stderr
    for name in ours:
        assert f"'{name}': False" in run.stdout
        assert re.search(rf"[ ;]{name},", told[0].rpartition(";")[2].rstrip() + ",")


def fused(a: float, b: float, c: float) -> float:
    return float(Fraction(a) * Fraction(b) + Fraction(c)) or a * b + c


class Library:
    """The library's sine and cosine, one number at a time, with one product rounded, by name."""

    def __init__(self, rounded: str = "") -> None:
        self.rounded = rounded

    def add(self, name: str, a: float, b: float, c: float) -> float:
        """a * b + c"""
        return a * b + c if name == self.rounded else fused(a, b, c)

    def angle(self, x: float, cosine: bool) -> tuple[float, float, int]:
        """What of it is near a multiple of pi/2, in two numbers, and which quarter that is."""
        parts = ("0x1.921fb58p0", "-0x1.dde973cp-27", "-0x1.cb3b398p-55", "-0x1.d747f23e32ed7p-83")
        of_pi = [h(part) for part in parts]
        if x < h("0x1.b6p-1"):
            return x, 0.0, int(cosine)
        if x < h("0x1.368fdp1"):
            end, rest = h("0x1.921fb54442d18p0") - x, h("0x1.1a62633145c07p-54")
            return (end + rest, (end - (end + rest)) + rest, 0) if cosine else (end, rest, 1)
        turns = self.add("turns", x, h("0x1.45f306dc9c883p-1"), h("0x1.8p52")) - h("0x1.8p52")
        y = fused(-turns, of_pi[1], fused(-turns, of_pi[0], x))
        t = fused(-turns, of_pi[2], y)
        a = fused(-turns, of_pi[3], t)
        rest = fused(-turns, of_pi[2], y - t) + fused(-turns, of_pi[3], t - a)
        return a, rest, int(turns) + cosine

    def series(self, a: float, rest: float) -> float:
        square = a * a
        p = fused(h("-0x1.addffc2fcdf59p-26"), square, h("0x1.71de27b9a7ed9p-19"))
        p = fused(fused(p, square, h("-0x1.a01a019db08b8p-13")), square, h("0x1.1111111110ecep-7"))
        p = self.add("series", p, square, h("-0x1.5555555555555p-3"))
        if self.rounded == "half":
            p = fused(-0.5, rest, p * a)
        else:
            p = self.add("both halves", p, a, -0.5 * rest)
        return a + self.add("series' rest", p, square, rest)

    def put_together(self, a: float, rest: float, odd: bool) -> float:
        k = round(a * 128)
        sine, sine_rest, cosine, cosine_rest = table()[k]
        d = a - k / 128
        if odd:
            d = a - (k / 128 - rest) if self.rounded == "rest of a cosine" else d + rest
        square, more = d * d, 0.0 if odd else rest
        p = fused(square, h("0x1.11110e829872fp-7"), h("-0x1.5555555555515p-3"))
        s = fused(d * square, p, d) if odd else d + fused(d * square, p, more)
        c = fused(square, h("0x1.6c16bedd9e239p-10"), h("-0x1.5555555555535p-5"))
        c = fused(square, c, 0.5)
        if self.rounded == "cosine of the rest":
            c = fused(square, c, d * more)
        else:
            c = fused(d, more, square * c)
        if odd:
            sine, sine_rest, cosine, cosine_rest = cosine, cosine_rest, -sine, -sine_rest
        which = " of a cosine" if odd else ""
        low = fused(s, cosine_rest, sine_rest)
        low = self.add("high" + which, -sine, c, low)
        return sine + self.add("other" + which, cosine, s, low)

    def __call__(self, x: float, cosine: bool) -> float:
        a, rest, quarter = self.angle(x, cosine)
        sign = math.copysign(1.0, a)
        a, rest = abs(a), sign * rest
        odd = bool(quarter & 1)
        result = self.series(a, rest) if a < 0.126 and not odd else self.put_together(a, rest, odd)
        return result * (1.0 if odd else sign) * (-1 if quarter & 2 else 1)


@functools.cache
def table() -> list[tuple[float, float, float, float]]:
    namespace: dict[str, Any] = {"__name__": "sine_table"}
    exec((ROOT / "tools" / "sine_table.py").read_text(), namespace)
    rows: list[tuple[float, float, float, float]] = namespace["rows"]()
    return rows


def telling() -> list[float]:
    """The arguments that a proof begins with, of the ranges that the model has."""
    source = (ROOT / "npaccel" / "native" / "loops" / "exact.c").read_text()
    listed = re.search(r"telling_angles\[\] = \{(.*?)\}", source, flags=re.S)
    assert listed is not None
    numbers = [float.fromhex(word) for word in listed[1].replace(",", " ").split()]
    return [x for x in numbers if 2.0**-26 <= x < h("0x1.921fbp26")]


def test_the_model_is_what_loops_compute() -> None:
    """Which it is only where the library computes as ours do."""
    if not _native.exact_loops()["sin"]:
        pytest.skip("another library")
    x = np.concatenate([telling(), np.random.default_rng(3).uniform(0, 50, 2000)])
    of = Library()
    for u in (np.sin, np.cos):
        with npaccel.accelerate():
            got = u(x)
        assert [of(number, u is np.cos) for number in x.tolist()] == got.tolist()


ROUNDINGS = ["turns", "series", "half", "both halves", "series' rest", "rest of a cosine"]
ROUNDINGS += ["cosine of the rest", "high", "other", "high of a cosine", "other of a cosine"]


@pytest.mark.parametrize("rounded", ROUNDINGS)
@pytest.mark.parametrize("cosine", [False, True])
def test_a_rounding_is_told(rounded: str, cosine: bool) -> None:
    """A library that rounds there has other bits for an argument of the proof."""
    ours, other = Library(), Library(rounded)
    assert any(ours(x, cosine) != other(x, cosine) for x in telling())
