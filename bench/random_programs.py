"""Whole random programs in NumPy, as a stranger would write them, as text: see soak_programs.py."""

from __future__ import annotations

import random
import re

from program_statements import HOT, RARE, READS, WRITES
from program_texts import EXPRESSIONS, FEWER, FUNCTIONS, KINDS, MAKERS, SHAPES, START, VALUES

__all__ = ["Whole"]


class Whole:
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.large = self.random.random() < 0.2
        self.hot = self.random.random() < 0.35
        self.strict = self.hot and self.random.random() < 0.3

    def add(self, depth: int, text: str) -> None:
        self.lines += ["    " * depth + line for line in text.split("\n")]

    def filled(self, template: str, deeper: float = 0.0) -> str:
        """With names for `{f}` and the like; `{f0}` is the same name wherever it stands. Instead
        of a name there may be a value, with the chance `deeper`."""
        names: dict[str, str] = {}
        template = template.replace("{q}", self.random.choice(("q", "places")))

        def name(found: re.Match[str]) -> str:
            kind, mark = found[1], found[2]
            if not mark and self.random.random() < deeper:
                return f"({self.filled(self.random.choice(VALUES[kind]), deeper / 3)})"
            if kind + mark not in names or not mark:
                names[kind + mark] = self.random.choice(KINDS[kind])
            return names[kind + mark]

        return re.sub(r"\{([fsikzgmh])([01]?)\}", name, template)

    def statement(self, depth: int) -> None:
        first = len(self.lines)
        self.change(depth)
        if self.strict and len(self.lines) == first + 1:
            line = "    " + self.lines.pop()
            self.add(depth, "try:")
            self.lines.append(line)
            self.add(depth, "except (FloatingPointError, RuntimeWarning) as error:")
            self.add(depth + 1, "out.append(str(error))")

    def change(self, depth: int) -> None:
        dice = self.random.random()
        if self.hot and dice < 0.12:
            self.add(depth, self.filled(self.random.choice(HOT)))
        elif dice < 0.55:
            kind = self.random.choice("fffffffsiigggkzmh")
            name = self.random.choice(KINDS[kind])
            value = self.filled(self.random.choice(VALUES[kind]), 0.2)
            dtype = {"k": ".astype(kd)", "i": "", "z": ""}.get(kind, "")
            self.add(depth, f"{name} = ({value}){dtype}" if dtype else f"{name} = {value}")
        else:
            self.add(depth, self.filled(self.random.choice(WRITES)))

    def read(self, depth: int) -> None:
        texts = RARE if self.random.random() < 0.06 else READS
        self.add(depth, self.filled(self.random.choice(texts)))

    def body(self, depth: int) -> None:
        for _ in range(self.random.randint(2, 9)):
            self.statement(depth)
        if self.random.random() < 0.25:
            self.add(depth, f"for s in range({self.random.randint(2, 4)}):")
            for _ in range(self.random.randint(1, 3)):
                self.statement(depth + 1)
        if self.random.random() < 0.4:
            self.add(depth, f"if t % {self.random.randint(2, 20)} == 1:")
            self.statement(depth + 1)
        for _ in range(self.random.randint(0, 4)):
            self.add(depth, f"if t % {self.random.choice((1, 2, 3, 5, 9, 20))} == 0:")
            self.read(depth + 1)
        if self.random.random() < 0.2:
            self.text(depth, FEWER.replace("TURN", str(self.random.randint(2, 30))))
        if self.random.random() < 0.15:
            self.text(depth, f"if t == {self.random.randint(3, 30)}: @[break|continue]@")

    def text(self, depth: int, template: str) -> None:
        """With an expression of those names for `@{x; y}`, and one of those texts for `@[a|b]@`."""

        def expression(found: re.Match[str]) -> str:
            names = found[1].split("; ")
            text = self.random.choice(EXPRESSIONS)
            return text.format(*(self.random.choice(names) for _ in range(2)))

        text = re.sub(r"@\[(.*?)\]@", lambda m: self.random.choice(m[1].split("|")), template)
        self.add(depth, re.sub(r"@\{(.*?)\}", expression, text.strip()))

    def start(self) -> None:
        self.text(1, f"out, kept, t = [], [], 0\nrows, cols = {'@[' + SHAPES[self.large] + ']@'}")
        if self.random.random() < 0.2:
            names = [name for of in KINDS.values() for name in of]
            self.add(1, f"global n, rng, state, {', '.join(names)}")
        self.add(1, f"n, seed = rows * cols, {self.random.randrange(10**6)}")
        self.text(1, FUNCTIONS)
        self.text(1, START.replace("MADE", "@[" + "|".join(MAKERS) + "]@"))

    def program(self) -> str:
        self.add(0, "def run():")
        self.start()
        of = "warn|warn|raise" if self.strict else "warn" if self.hot else "ignore"
        state = f"np.errstate(all='@[{of}]@', under='ignore')"
        self.text(1, f"with warnings.catch_warnings(record=True) as told, {state}:")
        self.add(2, "listen(told); warnings.simplefilter('always')")
        if self.strict:
            self.add(2, "warnings.simplefilter('error', RuntimeWarning)")
        for _ in range(self.random.randint(1, 2)):
            rounds = self.random.randint(4, 14) if self.large else self.random.randint(8, 60)
            heads = ("t in range(N)", "t in range(N)", "t, w in enumerate(np.linspace(0, 1, N))")
            self.add(2, f"for {self.random.choice(heads).replace('N', str(rounds))}:")
            self.body(3)
        self.add(1, "return [a, b, c, e, i, j, k, z, g, h, m, o, store, *kept, *out, sorted(told)]")
        return "\n".join(self.lines)
