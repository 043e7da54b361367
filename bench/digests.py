"""Do two outputs of a script agree? Words must be equal, numbers nearly so."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

__all__ = ["TOLERANCES", "Agreement", "compare"]

# Functions such as `exp` and float sums may differ in the last place, and the digests with them.
USUAL = 1e-9
# Numbers smaller than this are compared as if they were this large: 1e-17 may stand for 0.
SMALLEST = 1e-3

# Single precision, and programs that let a difference in the last place grow: what is printed is
# rounded, and the last printed place may differ. NumPy's own float32 mean of image_pipeline's
# picture over its first two axes is off by a thousandth (one sum of millions), ours by a millionth.
TOLERANCES = {
    "gray_scott": 1e-2,
    "image_pipeline": 5e-2,
    "mixture": 1e-5,
    "molecules": 1e-4,
    "perceptron": 1e-2,
    "satellite": 1e-4,
    "terrain": 1e-2,
}


class Agreement(NamedTuple):
    """How two outputs compare; `gap` is the largest relative difference of two numbers."""

    same_text: bool
    gap: float
    ok: bool

    def __str__(self) -> str:
        if self.same_text:
            return "same"
        return f"{self.gap:.0e}" if self.ok else f"WRONG {self.gap:.0e}"


def compare(name: str, wanted: str, got: str) -> Agreement:
    """Compare what the script `name` printed with what it should have."""
    if wanted == got:
        return Agreement(True, 0.0, True)
    words, others = words_of(wanted), words_of(got)
    if len(words) != len(others):
        return Agreement(False, math.inf, False)
    gap = max((apart(a, b) for a, b in zip(words, others, strict=True)), default=math.inf)
    return Agreement(False, gap, gap <= TOLERANCES.get(name, USUAL))


def words_of(text: str) -> list[str]:
    return [word for word in re.split(r"[\s,\[\]()]+", text) if word]


def apart(word: str, other: str) -> float:
    """The relative difference of two numbers; infinite for words that are not equal."""
    if word == other:
        return 0.0
    try:
        a, b = float(word), float(other)
    except ValueError:
        return math.inf
    gap = abs(a - b) / max(abs(a), abs(b), SMALLEST)
    return math.inf if math.isnan(gap) else gap
