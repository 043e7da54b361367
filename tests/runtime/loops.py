"""Random programs that are loops: steps of elementwise and neighbouring operations on a few arrays,
with inner loops, branches, rounds that others look into, and results that are kept."""

from __future__ import annotations

import random

__all__ = ["Writer", "random_loop"]

NAMES = "abcd"
BINARY = ("{} + {}", "{} - {}", "{} * {}", "np.maximum({}, {})", "np.minimum({}, {})")
UNARY = ("np.sqrt(np.abs({}))", "-{}", "{} * 0.5", "{} - 0.25 * t", "np.where({0} > 0, {0}, 0.125)")
NEIGHBOURS = ("{0}[2:] - 2 * {0}[1:-1] + {0}[:-2]", "0.5 * ({0}[1:-1] + {0}[::-1][1:-1])")
READS = (
    "out.append(float({}[3]))",
    "out.append(float({}.sum() * 0))",
    "out.append(np.array(plain({}))[::17])",
    "kept.append({})",
    "out.append({}.shape)",
)


class Writer:
    """Writes one program; who needs others overrides what a statement, or a read, is."""

    MOST_READS = 2

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []

    def name(self) -> str:
        return self.random.choice(NAMES)

    def add(self, depth: int, line: str) -> None:
        self.lines.append("    " * depth + line)

    def operation(self, depth: int) -> None:
        kind, x, y, z = self.random.random(), self.name(), self.name(), self.name()
        if kind < 0.4:
            # Halved, so that nothing overflows however many rounds there are.
            self.add(depth, f"{x} = 0.5 * ({self.random.choice(BINARY).format(y, z)})")
        elif kind < 0.6:
            self.add(depth, f"{x} = {self.random.choice(UNARY).format(y)}")
        elif kind < 0.7:
            self.add(depth, f"{x}[1:-1] += 0.125 * ({self.random.choice(NEIGHBOURS).format(y)})")
        elif kind < 0.76:
            self.add(
                depth, f"{x} = {x}.copy(); {x}[1:-1] = {self.random.choice(NEIGHBOURS).format(y)}"
            )
        elif kind < 0.82:
            self.add(depth, f"{x} *= 0.75")
        elif kind < 0.88:
            self.add(depth, f"{x} = 0.5 * {y} + 0.25 * w[t % {self.random.randint(1, 5)}]")
        elif kind < 0.94:
            self.add(depth, f"{x}, {y} = {y}, {x}")
        else:
            self.add(depth, f"w[t % 6] = 0.5 * {x}")

    def read(self, depth: int) -> None:
        self.add(depth, self.random.choice(READS).format(self.name()))

    def body(self, depth: int) -> None:
        for _ in range(self.random.randint(2, 7)):
            self.operation(depth)
        if self.random.random() < 0.3:
            self.add(depth, f"for s in range({self.random.randint(2, 4)}):")
            for _ in range(self.random.randint(1, 3)):
                self.operation(depth + 1)
        if self.random.random() < 0.4:
            self.add(depth, f"if t % {self.random.randint(2, 40)} == 1:")
            self.operation(depth + 1)
        for _ in range(self.random.randint(0, self.MOST_READS)):
            self.add(depth, f"if t % {self.random.randint(3, 60)} == 2:")
            self.read(depth + 1)
        if self.random.random() < 0.2:
            self.add(depth, f"if t == {self.random.randint(5, 90)}: break")

    def function(self) -> str:
        self.add(0, "def run(a, b, c, d, w, plain):")
        self.add(1, "out, kept = [], []")
        for _ in range(self.random.randint(1, 2)):
            self.add(1, f"for t in range({self.random.randint(20, 120)}):")
            self.body(2)
        self.add(1, "return a, b, c, d, w, *kept, *out")
        return "\n".join(self.lines)


def random_loop(seed: int) -> str:
    """The text of `run(a, b, c, d, w, plain)`; `plain` shows them to who knows nothing of us."""
    return Writer(seed).function()
