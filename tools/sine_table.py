"""Run by the build: sines and cosines of 0, 1/128, 2/128 ... as the rows of a table in C.

    python sine_table.py HEADER

Each is a sum of two doubles. They are the numbers of the table by which the GNU C library computes
`sin` and `cos`; in a few of these the second double is not the nearest one.
"""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from pathlib import Path

LAST = 110  # angles go up to 0.855
BITS = 260
# By how many units of its last place the C library's second double is another: of the sine, of the
# cosine.
OTHER = {
    2: (-1, 0),
    10: (-1, 0),
    23: (-39, 0),
    26: (0, 1),
    27: (-1, 0),
    33: (-1, 0),
    34: (-1, 0),
    36: (1, 0),
    40: (-2, 0),
    44: (0, -1),
    70: (0, 1),
    75: (-1, 2),
    79: (0, 1),
    85: (-1, 0),
    90: (-2, 0),
    94: (1, 0),
    107: (1, 0),
}


def sine_and_cosine(x: Fraction) -> tuple[Fraction, Fraction]:
    """By their series, to some 250 bits."""
    sums, term, n = [0, 0, 0, 0], 1 << BITS, 0
    while term:
        sums[n % 4] += term
        n += 1
        term = term * x.numerator // (x.denominator * n)
    return Fraction(sums[1] - sums[3], 1 << BITS), Fraction(sums[0] - sums[2], 1 << BITS)


def in_two(value: Fraction, other: int) -> tuple[float, float]:
    """The nearest double and the rest, that many units of the last place away."""
    high = float(value)
    low = float(value - Fraction(high))
    return high, low + other * math.ulp(low)


def rows() -> list[tuple[float, float, float, float]]:
    """Of the sine and of the cosine, in two doubles each."""
    found = []
    for k in range(LAST):
        sine, cosine = sine_and_cosine(Fraction(k, 128))
        of_sine, of_cosine = OTHER.get(k, (0, 0))
        found.append((*in_two(sine, of_sine), *in_two(cosine, of_cosine)))
    return found


def main(header: str) -> None:
    """What the build calls."""
    halves: tuple[list[str], list[str]] = ([], [])
    for sine, sine_rest, cosine, cosine_rest in rows():
        for half, row in zip(
            halves,
            ((sine, sine_rest, cosine, cosine_rest), (cosine, cosine_rest, -sine, -sine_rest)),
            strict=True,
        ):
            half.append("{" + ", ".join(number.hex() for number in row) + "},")
    lines = ["/* Made by sine_table.py. */", "{", *halves[0], "}, {", *halves[1], "}"]
    Path(header).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
