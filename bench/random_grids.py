"""Random programs on large grids, of which each statement takes a part of some: see soak_grids.py.

All grids of a program have one shape. A statement chooses a *frame*: how long the parts are that it
works on, along each axis; each name in it stands for such a part, somewhere, this way or that. So
stencils, scans, folds, picks and copies read and write each other's parts. All is exact, or goes
through `small` or `quantum`; values stay small.
"""

from __future__ import annotations

import math
import random
import re

from grid_statements import FUNCTIONS, HOT, PURE, RARE, READS, START, VALUES, WHOLE, WRITES

__all__ = ["ARRAYS", "Grids"]

SHAPES = (
    (300, 640), (700, 640), (300, 1500), (1500, 300), (400, 400), (512, 256), (60_000,), (150_000,),
    (450_000,), (131_072,), (40, 60, 120), (40, 40, 40), (5, 150, 310), (3, 200, 300), (64, 1000),
    (9, 40_000), (40_000, 3), (200, 8, 90), (4, 50_000), (350, 350), (900_000,), (800, 1000),
)  # fmt: skip
KINDS = {"f": "uvwpq", "s": "s", "i": "i", "k": "k", "z": "z", "m": "ml"}
ARRAYS = (*"uvwpqsikzml", "row", "col", "bag")
# Parts of an axis of n elements that are equally long.
FRAMES = {
    "all": (":", ":", ":", ":", "::-1"),
    "inner": ("1:-1", "1:-1", ":-2", "2:", "-2:0:-1", "-3::-1"),
    "front": (":-1", "1:", "1:", "-2::-1"),
    "moving": ("t % 4:{n} - 4 + t % 4", "3:-1", "4:", ":-4", "r:{n} - 4 + r"),
    "half": (":{h}", "{h}:{h} * 2", "-{h}:", "{h} - 1::-1", "1:{h} + 1"),
    "steps": ("::2", "1::2", "-1::-2", "-2::-2"),
    "few": (":3", "-3:", "1:4", "4::-2", "t:t + 3"),
    "one": ("0", "-1", "1", "-2", "t % 5"),
}
WEIGHTS = {"all": 8, "inner": 6, "front": 4, "moving": 2, "half": 2, "steps": 2, "few": 1, "one": 1}
ERRSTATE = "np.errstate(all='%s', under='ignore'):"
# Results of sections do not lie as NumPy's temporaries do.
CALLS = (
    "{f0} = np.array(swept({f}, {f}, t), order='C')",
    "{f0}, {f1} = [np.array(x, order='C') for x in two({f}, {f}, r)]",
    "{f0} = np.array(block({f}, {f}), order='C')",
)


class Frame:
    """Parts of one length along each axis."""

    def __init__(self, chance: random.Random, shape: tuple[int, ...], whole: bool) -> None:
        self.random, self.shape = chance, shape
        self.kinds = ["all"] * len(shape) if whole else [self.kind(k) for k in range(len(shape))]

    def kind(self, axis: int) -> str:
        n, last = self.shape[axis], axis == len(self.shape) - 1
        short = ("all", "front") if last else ("all", "front", "one")
        kinds = [k for k in FRAMES if k in short or (n > 14 and k != "one")]
        kinds = [k for k in kinds if k != "steps" or n % 2 == 0]
        return self.random.choices(kinds, [WEIGHTS[k] for k in kinds])[0]

    def part(self) -> str:
        """A subscript; none of the whole."""
        cut = [
            self.random.choice(FRAMES[kind]).format(n=n, h=n // 2)
            for kind, n in zip(self.kinds, self.shape, strict=True)
        ]
        while cut and cut[-1] == ":":
            cut.pop()
        return f"[{', '.join(cut)}]" if cut else ""


class Grids:
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        self.random, self.seed = random.Random(seed), seed
        self.shape = self.random.choice(SHAPES)
        self.hot = self.random.random() < 0.2
        self.kinds, self.values = KINDS, VALUES
        self.lines: list[str] = []

    def add(self, depth: int, text: str) -> None:
        self.lines += ["    " * depth + line for line in text.split("\n")]

    def frame(self, whole: float = 0.35) -> Frame:
        return Frame(self.random, self.shape, self.random.random() < whole)

    def filled(self, template: str, frame: Frame | None = None, deep: int = 0) -> str:
        """`{f}` is a name of kind f, `{f0}` the same one wherever it stands, `{f@}` a part of one,
        `{e@}` an expression over the frame; `{a}` an axis, `{A0}` the length of axis `{a0}`; `{n}`
        and `{h}` are the length of the first axis, and half of it."""
        frame, names = frame or self.frame(), {}

        def text(found: re.Match[str]) -> str:
            kind, mark, part = found[1], found[2], found[3]
            if kind == "e":
                return self.expression(frame, deep + 1)
            if kind in "nh":
                return str(self.shape[0] // (1 + (kind == "h")))
            choices = range(len(self.shape)) if kind in "aA" else self.kinds[kind]
            key = kind.lower() + (mark or str(len(names)) + ".")
            names.setdefault(key, self.random.choice(choices))
            if kind == "A":
                return str(self.shape[names[key]])
            return f"{names[key]}{frame.part() if part else ''}"

        return re.sub(r"\{([a-zA])(\d?)(@?)\}", text, template)

    def expression(self, frame: Frame, deep: int = 0) -> str:
        """Of floats, over the frame."""
        dice = self.random.random()
        if deep > 3 or dice < 0.35:
            return self.filled("{f@}", frame)
        if dice < 0.47 and self.values is VALUES:
            return f"({self.filled(self.random.choice(WHOLE), None, 3)}){frame.part()}"
        return f"({self.filled(self.random.choice(self.values), frame, deep)})"

    def simple(self) -> str:
        """An expression that goes into a part, or a new array."""
        dice, frame = self.random.random(), self.frame()
        if dice < 0.5:
            sign = self.random.choice(("=", "=", "+=", "-="))
            return self.filled(f"{{f@}} {sign} {{e@}}", frame)
        if dice < 0.75:
            return self.filled("x1 = {e@}; {f@} -= 0.5 * x1", frame)
        return self.filled("{f} = {e@} * 1.0", self.frame(whole=1.0))

    def statement(self, depth: int) -> None:
        dice, frame = self.random.random(), self.frame()
        if self.hot and dice < 0.08:
            text = self.filled(self.random.choice(HOT), frame)
        elif dice < 0.14:
            text = self.filled(self.random.choice(CALLS))
        elif dice < 0.55:
            text = self.simple()
        else:
            text = self.filled(self.random.choice(WRITES), frame)
        self.add(depth, text)

    def read(self, depth: int) -> None:
        texts = RARE if self.random.random() < 0.02 else READS
        self.add(depth, self.filled(self.random.choice(texts), self.frame(0.15)))

    def body(self, depth: int) -> None:
        for _ in range(self.random.randint(1, 7)):
            self.statement(depth)
        if self.random.random() < 0.25:
            self.add(depth, f"for r in range({self.random.randint(2, 4)}):")
            for _ in range(self.random.randint(1, 2)):
                self.statement(depth + 1)
        if self.random.random() < 0.3:
            self.add(depth, f"if t % {self.random.choice((2, 3, 5))} == 1:")
            self.statement(depth + 1)
        for _ in range(self.random.choice((0, 0, 1, 1, 2, 3))):
            self.add(depth, f"if t % {self.random.choice((1, 2, 3, 3, 5))} == 0:")
            self.read(depth + 1)

    def functions(self) -> None:
        """On x and y, with what sections may do."""
        self.kinds, self.values = {"f": "xy"}, PURE

        def statements(found: re.Match[str]) -> str:
            lines = [self.simple() for _ in range(self.random.randint(1, int(found[2])))]
            return "\n".join(found[1] + line for line in lines)

        text = re.sub(r"( *)@\{(\d)\}", statements, chosen(self.random, FUNCTIONS))
        self.kinds, self.values = KINDS, VALUES
        self.add(1, text.strip())

    def program(self) -> str:
        shape = ", ".join(map(str, self.shape))
        self.add(0, "def run():")
        self.add(1, f"shape, seed, t, r, out = ({shape},), {self.seed}, 0, 0, []")
        self.add(1, "ndim, size = len(shape), math.prod(shape)")
        self.add(1, chosen(self.random, START).strip())
        self.functions()
        state = "warn" if self.hot else "ignore"
        self.add(1, "with warnings.catch_warnings(record=True) as told, " + ERRSTATE % state)
        self.add(2, "listen(told); warnings.simplefilter('always')")
        most = 3 + 2_000_000 // math.prod(self.shape)
        for _ in range(self.random.choice((1, 1, 2))):
            rounds = self.random.randint(1, min(most, 14))
            self.add(2, f"for t in range({rounds}):")
            self.body(3)
        if self.random.random() < 0.3:
            self.read(2)
        self.add(1, "return ending(locals())")
        return "\n".join(self.lines)


def chosen(chance: random.Random, template: str) -> str:
    """With one of those texts for `@[a|b]@`."""
    return re.sub(r"@\[(.*?)\]@", lambda found: chance.choice(found[1].split("|")), template)
