"""Makes npaccel/ir/coefficients.py: near-minimax polynomials of the mathematical functions.

Run with mpmath installed: ``python tools/polynomials.py > npaccel/ir/coefficients.py``.

Each polynomial interpolates its function at Chebyshev nodes with 60 digits. Its degree is the
smallest one whose error, weighted as it enters the final result (relative), is below 2**-58 for
f8 (F8), 2**-31 for f4 where the body computes in f8 and rounds once (F4), and 2**-27 for f4 where
it computes in f4 (SHORT).
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable

import mpmath as mp

mp.mp.dps = 60

LN2 = mp.log(2)
TARGETS = {"F8": mp.mpf(2) ** -58, "F4": mp.mpf(2) ** -31, "SHORT": mp.mpf(2) ** -27}
# Functions with a body in f4, of the rows whose polynomials serve f8, too.
SHORT = ("EXP", "EXP2", "SINH", "COSH", "SIN", "COS", "ASIN", "ATANH_NEAR")
Real = Callable[[mp.mpf], mp.mpf]


def quotient(function: Real, limit: mp.mpf, power: int, leading: list[mp.mpf]) -> Real:
    """(function - sum(leading[i] * x**i)) / x**power, by its Taylor series near 0."""
    series = mp.taylor(function, 0, 40)

    def value(x: mp.mpf) -> mp.mpf:
        if abs(x) < limit / 50:
            return mp.polyval(series[: power - 1 : -1], x)
        return (function(x) - sum(c * x**i for i, c in enumerate(leading))) / x**power

    return value


def of_square(function: Real, limit: mp.mpf, power: int, leading: list[mp.mpf]) -> Real:
    """The same as a function of z = x * x."""
    inner = quotient(function, mp.sqrt(limit), power, leading)
    return lambda z: inner(mp.sqrt(z))


def interpolate(function: Real, low: mp.mpf, high: mp.mpf, degree: int) -> list[mp.mpf]:
    """Coefficients from the lowest of the interpolation at Chebyshev nodes."""
    n = degree + 1
    nodes = [mp.cos(mp.pi * (2 * i + 1) / (2 * n)) for i in range(n)]
    points = [(low + high) / 2 + (high - low) / 2 * t for t in nodes]
    matrix = mp.matrix([[x**k for k in range(n)] for x in points])
    return list(mp.lu_solve(matrix, mp.matrix([function(x) for x in points])))


def fit(function: Real, low: mp.mpf, high: mp.mpf, weight: Real, target: mp.mpf) -> list[float]:
    """Coefficients (rounded to f8) of the smallest degree that is good enough."""
    grid = [low + (high - low) * i / 60 for i in range(61)]
    values = [function(x) for x in grid]
    for degree in range(2, 28):
        exact = interpolate(function, low, high, degree)
        error = max(
            abs((mp.polyval(exact[::-1], x) - v) * weight(x))
            for x, v in zip(grid, values, strict=True)
        )
        if error < target:
            return [float(c) for c in exact]
    raise ValueError("no degree is enough")


def erf_part(z: mp.mpf) -> mp.mpf:
    """erf(x) / x - 1 of z = x**2."""
    x = mp.sqrt(max(z, mp.mpf(10) ** -40))
    return mp.erf(x) / x - 1


def erfc_part(q: mp.mpf) -> mp.mpf:
    """(1 + 2 y) exp(y**2) erfc(y) of q = (y - 4) / (y + 4)."""
    y = 4 * (1 + q) / (1 - q)
    return (1 + 2 * y) * mp.exp(y * y) * mp.erfc(y)


H = LN2 / 2 + mp.mpf(2) ** -20
Q = (mp.pi / 4 + mp.mpf(2) ** -20) ** 2
S = mp.mpf("0.0296")  # ((sqrt(2) - 1) / (sqrt(2) + 1))**2
T = mp.mpf("0.1717")  # tan(pi / 8)**2

ROWS: dict[str, tuple[str, Real, mp.mpf, mp.mpf, Real]] = {
    "EXP": (
        "(exp(r) - 1 - r) / r**2, |r| <= log(2)/2",
        quotient(mp.exp, H, 2, [1, 1]), -H, H, lambda r: r,
    ),
    "EXP2": (
        "(2**r - 1) / r, |r| <= 1/2",
        quotient(lambda r: mp.exp(r * LN2), mp.mpf(1), 1, [1]),
        -mp.mpf(1) / 2, mp.mpf(1) / 2, lambda r: r,
    ),
    "SINH": (
        "(sinh(r) - r) / r**3, of z = r**2, |r| <= log(2)/2",
        of_square(mp.sinh, H * H, 3, [0, 1]), mp.mpf(0), H * H, lambda z: z,
    ),
    "COSH": (
        "(cosh(r) - 1) / z, of z = r**2",
        of_square(mp.cosh, H * H, 2, [1]), mp.mpf(0), H * H, lambda z: z,
    ),
    "LOG": (
        "(log((1 + s) / (1 - s)) / s - 2) / z, z = s**2",
        of_square(lambda s: mp.log((1 + s) / (1 - s)), S, 3, [0, 2]), mp.mpf(0), S, lambda z: z / 2,
    ),
    "ATANH": (
        "(atanh(s) / s - 1 - z/3) / z**2, z = s**2; 1024 times better than the others",
        of_square(mp.atanh, S, 5, [0, 1, 0, mp.mpf(1) / 3]), mp.mpf(0), S,
        lambda z: z**2 * 2**10,
    ),
    "ATANH_NEAR": (
        "(atanh(s) - s) / s**3, of z = s**2, |s| <= 0.201",
        of_square(mp.atanh, mp.mpf("0.0404"), 3, [0, 1]), mp.mpf(0), mp.mpf("0.0404"), lambda z: z,
    ),
    "SIN": (
        "(sin(r) - r) / r**3, of z = r**2, |r| <= pi/4",
        of_square(mp.sin, Q, 3, [0, 1]), mp.mpf(0), Q, lambda z: z,
    ),
    "COS": (
        "(cos(r) - 1 + z/2) / z**2, of z = r**2",
        of_square(mp.cos, Q, 4, [1, 0, -mp.mpf(1) / 2]), mp.mpf(0), Q, lambda z: z**2,
    ),
    "ATAN": (
        "(atan(t) - t) / t**3, of z = t**2, |t| <= tan(pi/8)",
        of_square(mp.atan, T, 3, [0, 1]), mp.mpf(0), T, lambda z: z,
    ),
    "ASIN": (
        "(asin(s) - s) / s**3, of z = s**2, |s| <= 1/2",
        of_square(mp.asin, mp.mpf(1) / 4, 3, [0, 1]), mp.mpf(0), mp.mpf(1) / 4, lambda z: z,
    ),
    "ERF": (
        "erf(x) / x - 1, of z = x**2, |x| <= 1",
        erf_part, mp.mpf(0), mp.mpf(1), lambda _: mp.mpf(1),
    ),
    "ERFC": (
        "(1 + 2 y) exp(y**2) erfc(y), of q = (y - 4) / (y + 4), 0 <= y <= 28",
        erfc_part, -mp.mpf(1), mp.mpf("0.751"), lambda _: mp.mpf(1),
    ),
}  # fmt: skip

ROOT = mp.sqrt(2)


def log_part(base: int | None) -> Real:
    """(log(1 + f) / f - 1) / f, over the logarithm of the base if there is one."""
    scale = mp.mpf(1) if base is None else 1 / mp.log(base)

    def value(f: mp.mpf) -> mp.mpf:
        if abs(f) < mp.mpf(2) ** -20:
            return scale * (-mp.mpf(1) / 2 + f / 3 - f * f / 4 + f**3 / 5)
        return scale * (mp.log1p(f) / f - 1) / f

    return value


# Only for f4.
SINGLES: dict[str, tuple[str, Real, mp.mpf, mp.mpf, Real]] = {
    "LN": (
        "(log(1 + f) - f) / f**2, sqrt(1/2) - 1 <= f <= sqrt(2) - 1",
        log_part(None), 1 / ROOT - 1, ROOT - 1, lambda f: f,
    ),
    "LN2": (
        "(log2(1 + f) - f / log(2)) / f**2",
        log_part(2), 1 / ROOT - 1, ROOT - 1, lambda f: f,
    ),
    "LN10": (
        "(log10(1 + f) - f / log(10)) / f**2",
        log_part(10), 1 / ROOT - 1, ROOT - 1, lambda f: 2 * f,
    ),
    "TAN": (
        "(tan(r) - r) / r**3, of z = r**2, |r| <= pi/4",
        of_square(mp.tan, Q, 3, [0, 1]), mp.mpf(0), Q, lambda z: z,
    ),
    "ATAN_ALL": (
        "(atan(t) - t) / t**3, of z = t**2, |t| <= 1",
        of_square(mp.atan, mp.mpf(1), 3, [0, 1]), mp.mpf(0), mp.mpf(1), lambda z: z,
    ),
    "ASINH": (
        "(asinh(a) - a) / a**3, of z = a**2, |a| <= 1/2",
        of_square(mp.asinh, mp.mpf(1) / 4, 3, [0, 1]), mp.mpf(0), mp.mpf(1) / 4, lambda z: z,
    ),
}  # fmt: skip


W = (mp.pi / 2 + mp.mpf(2) ** -20) ** 2


def erf_whole(x: mp.mpf) -> mp.mpf:
    """-log(1 - erf(x)) / x - 1."""
    x = max(x, mp.mpf(10) ** -22)
    return -mp.log(mp.erfc(x)) / x - 1


def erf_weight(x: mp.mpf) -> mp.mpf:
    """What an error of that becomes in erf(x)."""
    x = max(x, mp.mpf(10) ** -22)
    return x * mp.erfc(x) / mp.erf(x)


# With what is good enough of each: for exp, and in the second accuracy class.
OTHERS: dict[str, tuple[str, Real, mp.mpf, mp.mpf, Real, mp.mpf]] = {
    **{
        f"EXP_SUM_{size}": (
            "as EXP, for 1 + r + r**2 P(r)",
            ROWS["EXP"][1], -H, H, lambda r: r**2 * mp.exp(-r), target,
        )
        for size, target in (("F8", mp.mpf(2) ** -55), ("SHORT", mp.mpf(2) ** -26.5))
    },
    **{
        f"SIN_WHOLE_{size}": (
            "(sin(r) - r) / r**3, of z = r**2, |r| <= pi/2",
            of_square(mp.sin, W, 3, [0, 1]), mp.mpf(0), W,
            lambda z: z / mp.sincpi(mp.sqrt(z) / mp.pi), target,
        )
        for size, target in (("F8", mp.mpf(2) ** -56), ("SHORT", TARGETS["SHORT"]))
    },
    **{
        f"LOG_FAST_{size}": (*ROWS["LOG"], target)
        for size, target in (("F8", mp.mpf(2) ** -57), ("SHORT", TARGETS["SHORT"]))
    },
    # In power's exponent, so better than a logarithm need be.
    "LN2_F4": (*SINGLES["LN2"], mp.mpf(2) ** -34),
    # As part of a sum of two floats.
    "ATAN_LONG": (
        "(atan(t) - t + t**3/3 - t**5/5 + t**7/7) / t**9, of z = t**2, |t| <= tan(pi/8)",
        of_square(mp.atan, T, 9, [0, 1, 0, -1 / mp.mpf(3), 0, 1 / mp.mpf(5), 0, -1 / mp.mpf(7)]),
        mp.mpf(0), T, lambda z: z**4, mp.mpf(2) ** -66,
    ),
    **{
        f"ERF_WHOLE_{size}": (
            "-log(1 - erf(x)) / x - 1; fitted up to where more hardly counts",
            erf_whole, mp.mpf(0), mp.mpf(high), erf_weight, target,
        )
        for size, high, target in (("F8", 4, mp.mpf(2) ** -54), ("SHORT", 2.75, TARGETS["SHORT"]))
    },
}  # fmt: skip


def normal(w: mp.mpf) -> mp.mpf:
    """z / x: a standard normal number is within z with chance x = sqrt(1 - exp(-w))."""
    x = mp.sqrt(-mp.expm1(-max(w, mp.mpf(10) ** -20)))
    return mp.sqrt(2) * mp.erfinv(x) / x


def cbrt_part(power: int) -> Real:
    """((1 - r)**(-power/3) - 1) / r."""

    def value(r: mp.mpf) -> mp.mpf:
        return ((1 - r) ** (-mp.mpf(power) / 3) - 1) / r if r else mp.mpf(power) / 3

    return value


# Of degrees beyond which nothing is gained: middle, half width, function of the distance from it.
FIXED: dict[str, tuple[str, int, mp.mpf, mp.mpf, Real]] = {
    "CBRT_F4": (
        "(1 - r)**(-1/3), |r| <= 0.1021",
        3, mp.mpf(0), mp.mpf("0.1021"), lambda r: (1 - r) ** (-mp.mpf(1) / 3),
    ),
    "CBRT_F8": (
        "the same",
        4, mp.mpf(0), mp.mpf("0.1021"), lambda r: (1 - r) ** (-mp.mpf(1) / 3),
    ),
    "CBRT_START": (
        "the same, for a better guess",
        2, mp.mpf(0), mp.mpf("0.1021"), lambda r: (1 - r) ** (-mp.mpf(1) / 3),
    ),
    "CBRT_FAST_F8": (
        "((1 - r)**(-2/3) - 1) / r, |r| <= 0.0002",
        3, mp.mpf(0), mp.mpf("0.0002"), cbrt_part(2),
    ),
    "CBRT_FAST_SHORT": (
        "the same, |r| <= 0.1021",
        5, mp.mpf(0), mp.mpf("0.1021"), cbrt_part(2),
    ),
    "NORMAL": (
        "z / x of w - 5/2, w <= 5: exp(-w) = 1 - x**2, a normal number is within z with chance x",
        20, mp.mpf(5) / 2, mp.mpf(5) / 2, normal,
    ),
    "NORMAL_FAR": (
        "the same of sqrt(w) - 25/8, 5 <= w <= 16",
        19, mp.mpf(25) / 8, mp.mpf("0.89"), lambda s: normal(s * s),
    ),
    "NORMAL_FARTHER": (
        "the same of sqrt(w) - 5, 16 <= w <= 36.1",
        16, mp.mpf(5), mp.mpf("1.01"), lambda s: normal(s * s),
    ),
}  # fmt: skip


def fixed(name: str) -> list[float]:
    _, degree, middle, width, function = FIXED[name]
    exact = interpolate(lambda d: function(middle + d), -width, width, degree)
    return [float(c) for c in exact]


def text(name: str, about: str, coefficients: list[float]) -> str:
    lines = textwrap.wrap(", ".join(map(repr, coefficients)) + ",", 96, break_on_hyphens=False)
    inside = textwrap.indent("\n".join(lines), "    ")
    return f"# {about}\n{name} = (\n{inside}\n)  # fmt: skip\n"


def sizes(name: str) -> list[str]:
    return [size for size in TARGETS if size != "SHORT" or name in SHORT]


def in_order(name: str) -> list[tuple[int, str]]:
    """Sorts names as ruff does: numbers in them by value."""
    return [(int(p), "") if p.isdigit() else (-1, p) for p in re.split(r"(\d+)", name)]


def main() -> None:
    print('"""Polynomials, lowest coefficient first. Made by tools/polynomials.py."""\n')
    names = [f"{name}_{size}" for name in ROWS for size in sizes(name)]
    names = sorted([*names, *(f"{name}_SHORT" for name in SINGLES), *FIXED, *OTHERS], key=in_order)
    print("__all__ = [\n" + "".join(f'    "{n}",\n' for n in names) + "]\n")
    for name, (about, function, low, high, weight) in ROWS.items():
        for size in sizes(name):
            target = TARGETS[size]
            print(text(f"{name}_{size}", about, fit(function, low, high, weight, target)))
    for name, (about, *what) in SINGLES.items():
        print(text(f"{name}_SHORT", about, fit(*what, TARGETS["SHORT"])))
    for name, (about, *what, target) in OTHERS.items():
        print(text(name, about, fit(*what, target)))
    for name, (about, *_) in FIXED.items():
        print(text(name, about, fixed(name)))


if __name__ == "__main__":
    main()
