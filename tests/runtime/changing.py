"""Random programs whose loops work on parts that change from round to round.

The statements of a round stay the same; what changes are numbers: how many elements, rows and
columns, where parts begin, their steps, a scalar and its type, errstate. Most rounds are as usual,
or further on by a little; in some a number comes near another one, or near a limit: parts begin to
overlap, become one, have one row, none, a row more than a vector has, or run backward.

All values are exact; sums of floats are told apart, as their last bits are ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from loops import Writer
from numpy.lib.stride_tricks import sliding_window_view
from telling import comparable, listen, named, same

import npaccel

__all__ = ["OURS", "Changing", "differences", "outcome"]

# Of a part's elements: `{x}` of x or y, n; `{p}` of p or q, n; `{g}` of g or h, r rows of c; `{b}`
# of something that is broadcast to these; `{e}` and `{f}` are expressions of n, and of r times c.
PARTS = {
    "x": (
        "{a}[{o}:{o} + n]", "{a}[{o}:{o} + n]", "{a}[part({o}, n, s)]", "{a}[part({o}, n, s)]",
        "{a}[{o}:{o} + n][::-1]", "{a}[{o}:{o} + 2 * n:2]", "{a}[{o}:{o} + 3 * n:3]",
    ),
    "p": ("{a}[{o}:{o} + n]", "{a}[part({o}, n, s)]", "{a}[{o}:{o} + n][::-1]"),
    "g": (
        "{a}[{u}:{u} + r, {v}:{v} + c]", "{a}[{u}:{u} + r, {v}:{v} + c]",
        "{a}[part({u}, r, d), {v}:{v} + c]", "{a}[{u}:{u} + r, part({v}, c, d)]",
        "{a}[{u}:{u} + c, {v}:{v} + r].T[:]", "{a}[{u}:{u} + r, {v}:{v} + c][::-1, ::-1]",
        "{a}.reshape(-1, M)[{u}:{u} + r, :c]", "{a}.reshape(-1, M)[{u}:{u} + r, :c]",
        "{a}[:r, :c]", "{a}.reshape(-1)[{u}:{u} + r * c].reshape(r, c)[:]",
    ),
    "b": (
        "{a}[{u}:{u} + (r if b else 1), {v}:{v} + c]",
        "{a}[{u}:{u} + r, {v}:{v} + (c if b else 1)]",
        "{a}[{u}:{u} + r, {v}, None]", "{a}[{u}, {v}:{v} + c]", "x[{o}:{o} + c]",
        "x[part({o}, c, s)]", "{a}[{u}:{u} + r, {v}:{v} + c]",
    ),
}  # fmt: skip
ARRAYS = {"x": ("x", "y"), "p": ("p", "q1"), "g": ("g", "h"), "b": ("g", "h")}
FLAT = (
    "({e} + {e}) * 0.5", "{x} - 0.25 * {e}", "np.clip({e} * f, -8, 8)", "-{e}", "np.abs({x})",
    "np.maximum({e}, {x}) + 0.0", "np.where({x} > {x}, {e}, f)", "np.where({x} > 0.25, {e}, {x})",
    "np.roll({x}, 1)", "np.concatenate(({x}, {x}))[:n]", "np.sqrt(np.abs({x}))", "{p} * 0.25",
    "np.take({x}, index[:n] % max(n, 1))", "{x} / 2.0", "{x} / 4", "np.square(np.clip({x}, -2, 2))",
    "np.clip({x}, -2, 2) ** 2", "np.floor({x} * 8) / 8",
)  # fmt: skip
GRID = (
    "({f} + {b}) * 0.5", "{g} - 0.25 * {b}", "np.clip({b} * {b} + {g}, -8, 8)", "-{g}",
    "np.where({g} > {b}, {f}, f)", "np.maximum({g}, {b}) + 0.0", "np.abs({g}) * 0.5",
    "np.cumsum({g}, axis={axis}) % 4.0", "np.maximum.accumulate({g}, axis={axis}) + 0.0",
    "np.roll({g}, 1, axis={axis})", "np.clip({g} * f, -8, 8)",
)  # fmt: skip
WRITES = (
    "{x} = {e}", "x[{o}:{o} + n] = x[i:i + n]", "x[{o}:{o} + n] = x[i:i + n][::-1]",
    "{x} += 0.25 * {e}", "{x} *= 0.5", "{x} -= 0.5 * {x}",
    "np.add({x}, {e}, out={x})", "np.subtract({x}, {x}, out={x}); {x} *= 0.25",
    "np.multiply({x}, 0.5, out={x}, where={x} > 0.25)", "a = {e}; {x} = a; {x} = {e}; a = None",
    "a = {e}; {x} = {e}; {x} -= 0.25 * a", "{x} = {x} * 0.5; {x} = {x} - 0.25",
    "m = {x} > 0.25; a = {x}; a[m] = 0.5 * a[m] + 0.25",
    "m = {x} > 0.25; a = {x}; b1 = {x}; a[m] = 0.5 * b1[m]", "{x}[{x} > 0.5] *= 0.5",
    "m = {x} > 0.25; a = {x}[m]; a *= 0.5; {x} = {e}; a1 = {x}; a1[m] = a; a = a1 = None",
    "win({o}, n // 6, q)[...] = fresh[:n // 6] * f", "win({o}, n // 6, q)[...] *= 0.5",
    "{x}[...] = f", "{x} = np.concatenate(({x}, {x}))[n // 2:n // 2 + n]",
    "{p} = ({p} + {p}) // 2", "{p} += {p} & 7", "{p} -= {p} >> 1", "{p} ^= {p} & 15", "{p} //= 2",
    "{g} = {f}", "{g} = {g}", "{g} *= 0.5", "{g} -= np.clip({b} * {b}, -8, 8)", "{g} += 0.25 * {f}",
    "{g} = {f}; {g} = {f}", "a = {f}; {g} = a; {g} = {b} * 0.5; a = None", "{g} *= f; {g} *= 0.25",
    "np.add({g}, {b}, out={g}); {g} *= 0.5", "a = {f}; {g} = {f}; {g} -= 0.25 * a",
    "if r and c: {g} -= {g}.max(axis={axis}, keepdims=True)",
    "if r and c: {b0} = {g}.min(axis=0) + 0.0",
    "m = {g} > 0.25; a = {g}; a[m] = 0.5 * a[m] + 0.25",
    "{g} = {g} - np.cumsum({g}, axis={axis}) / 64",
)  # fmt: skip
READS = (
    "if n: out.append({x}.max() + 0.0)", "if n: out.append({x}.argmin())", "out.append({e})",
    "out.append(({x} > f).any())", "sums.append({e}.sum())", "out.append({p}.sum())",
    "out.append({p} * 3 - {p})", "out.append(np.cumsum({p}))",
    "out.append(np.cumsum({x}))", "sums.append({x}[::-1].sum())",
    "sums.append({x}.mean() if n else 0)",
    "out.append({x} / zeros[{o}:{o} + n])", "out.append(np.sqrt(zeros[{o}:{o} + n] - {x} * 0))",
    "out.append({f})", "if r and c: out.append({g}.max(axis={axis}) + 0.0)",
    "if r and c: out.append({g}.argmax(axis={axis}))", "sums.append({g}.sum(axis={axis}))",
    "sums.append({f}.sum(axis={axis}))", "sums.append({g}.sum())",
    "out.append(({g} > f).all(axis={axis}))",
    "sums.append({g}.sum(axis=0)); sums.append({g}.sum(axis=1))",
    "a = {g}; sums.append(a / (2.0 + np.abs(a).sum(axis={axis}, keepdims=True)))",
    "a = {g}; sums.append(a.mean(axis={axis}, keepdims=True) * a if r and c else 0)",
    "a = np.abs({g}); out.append(a / (1.0 + a.max(axis=1, keepdims=True)) if r and c else 0)",
    "out.append(np.cumsum({g}, axis={axis}))", "out.append({g} / np.add(zeros[:c], 0.0))",
    "out.append({g}.T * 0.5)",
)  # fmt: skip
SCALARS = ("0.5", "2", "np.float32(0.25)", "np.float64(0.3)", "True", "np.int64(1)", "np.bool_(1)")
READING = r"\[m\]|> 0.5\]|\(\)"  # what is computed at the call
NUMBERS = tuple("nrcijkuvwsdbqfe")
EDGES = (0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 511, 512)
START = """\
def run():
    out, sums, told = [], [], []
    listen(told)
    rng = np.random.default_rng({seed})
    x, y = [wrap(np.round(rng.random(8 * N) * 4 - 2, 3).astype({dtype!r})) for _ in "xy"]
    g, h = [wrap(np.round(rng.random((4 * M, 4 * M)) * 4 - 2, 3).astype({dtype!r})) for _ in "gh"]
    p, q1 = [wrap(rng.integers(-99, 99, 8 * N).astype({whole!r})) for _ in "pq"]
    zeros, fresh, index = np.ones(8 * N), rng.random((N, 5)), rng.integers(0, 9 * N, N)
    zeros[rng.integers(0, 8 * N, 3)] = 0.0
    def part(start, n, step):
        last = start + (n - 1) * -step
        if n == 0 or step > 0:
            return slice(start, start + n * step if n else start, step)
        return slice(last, start - 1 if start else None, step)
    def win(start, n, step):
        return sliding_window_view(x[start:], 5, writeable=True)[:n * step:step]
"""


def kind_of(text: str) -> str:
    """Of which arrays a statement is: integers, grids, or flat ones."""
    kinds = set(re.findall(r"\{(\w)", text))
    return "p" if "p" in kinds else "f" if kinds & set("fgb") else "e"


class Changing(Writer):
    """Writes one program.

    n, m : most elements of a flat part, rows or columns of one of a grid.
    reads : whether rounds read values; else they end where they are evaluated.
    """

    def __init__(self, seed: int, n: int = 0, m: int = 0, reads: bool = True) -> None:
        super().__init__(seed)
        self.reads = reads
        self.seed, choose = seed, self.random.choice
        few = self.random.choice((1, 2, 2, 3, 9))
        self.parts = {k: self.random.choices(texts, k=few) for k, texts in PARTS.items()}
        self.kind = choose(("e", "e", "f", "f", "p", " "))
        self.places, self.corners = choose(("ij", "ij", "ijk")), choose(("uv", "uv", "uvw"))
        self.n, self.m = n or choose((60, 200, 600, 1500)), m or choose((20, 40, 70, 140))

    # ------------------------------------------------------------------------------ statements

    def filled(self, template: str, depth: int = 0) -> str:
        chosen: dict[str, str] = {}

        def text(found: re.Match[str]) -> str:
            kind, choose = found[1], self.random.choice
            if kind in ("e", "f"):
                return self.expression(kind, depth + 1)
            if kind in PARTS:
                first, second = ARRAYS[kind]
                array = first if self.random.random() < 0.75 else second
                return self.filled(choose(self.parts[kind]).replace("{a}", array), depth)
            if kind == "b0":
                return self.filled("x[{o}:{o} + c]", depth)
            places = {"o": self.places, "u": self.corners, "v": self.corners, "axis": "01"}[kind]
            return chosen.setdefault(kind, choose(places))

        return re.sub(r"\{([a-z]\w*)\}", text, template)

    def expression(self, kind: str, depth: int) -> str:
        if depth > 2 or (depth > 1 and self.random.random() < 0.3):
            return self.filled("{x}" if kind == "e" else "{g}", depth)
        return f"({self.filled(self.random.choice(FLAT if kind == 'e' else GRID), depth)})"

    def statement(self, depth: int) -> None:
        texts = self.about(READS if self.random.random() < 0.35 else WRITES)
        for line in self.filled(self.random.choice(texts)).split("; "):
            self.add(depth, line)

    def about(self, texts: Sequence[str]) -> list[str]:
        """Those on arrays of the program's kind: statements on the same parts meet."""
        fit = [text for text in texts if self.kind in (" ", kind_of(text))]
        return [text for text in fit if self.reads or not re.search(READING, text)]

    # ---------------------------------------------------------------------------------- rounds

    def size(self, most: int) -> int:
        if self.random.random() < 0.5:
            return min(most, self.random.choice((*EDGES, *[most] * 5)))
        return self.random.randint(most // 2, most)

    def usual(self) -> dict[str, Any]:
        n, m, draw = self.n, self.m, self.random.randint
        row: dict[str, Any] = {"n": draw(n // 2, n), "r": draw(m // 2, m), "c": draw(m // 2, m)}
        row["c"] = m if self.random.random() < 0.4 else row["c"]
        apart = self.random.random() < 0.6
        row |= {name: k * n if apart else draw(0, 4 * n) for k, name in enumerate("jki")}
        row |= {name: k * m * apart or draw(0, 2 * m - 2) for k, name in enumerate("vuw")}
        row |= {"s": 1, "d": 1, "b": 1, "q": 6, "f": self.random.choice(SCALARS), "e": "'ignore'"}
        return row

    def changed(self, row: dict[str, Any]) -> None:
        """One number becomes another: further on, near another one, or near a limit."""
        choose = self.random.choice
        name = choose(self.moving)
        if name in "nrc":
            row[name] = self.size(self.n if name == "n" else self.m)
            if self.random.random() < 0.2:
                row["c"] = row["r"]
        elif name in "ijkuvw":
            flat = name in "ijk"
            other, long = row[choose("ijk" if flat else "uvw")], row["n" if flat else "r"]
            near = choose((0, 0, 1, -1, 3, 8, -8, long, -long, long - 1, 1 - long, long // 2))
            row[name] = max(0, min(4 * self.n if flat else 2 * self.m - 2, other + near))
        else:
            ranges = {"s": (1, 1, -1, 2, -2, 3), "d": (1, -1, 2, -2), "b": (0, 1), "q": range(3, 8)}
            values = {"f": SCALARS, "e": ("'ignore'", "'warn'", "'warn'"), **ranges}
            row[name] = choose(tuple(values[name]))

    def rounds(self) -> Iterator[dict[str, Any]]:
        usual = self.usual()
        drifting = self.random.sample("ijkuvw", 2) if self.random.random() < 0.5 else []
        for t in range(self.random.randint(10, 20)):
            row = dict(usual)
            for name in drifting:
                row[name] = min(row[name] + t, 4 * self.n if name in "ijk" else 2 * self.m - 2)
            for _ in range(self.random.choice((0, 1, 1, 2)) if t else 0):
                self.changed(row)
            if self.random.random() < 0.2:
                usual = dict(row)
            yield row

    # --------------------------------------------------------------------------------- program

    def section(self) -> None:
        """A function, perhaps a macro section, that some rounds call."""
        names = ", ".join(NUMBERS[:-1])
        self.add(1, self.random.choice(("@macro", "@macro", "@same")))
        self.add(1, f"def section(x, y, p, q1, g, h, fresh, index, {names}):")
        for _ in range(self.random.randint(1, 3)):
            text = self.filled(self.random.choice(WRITES))
            while "win(" in text or "[m]" in text or "[{x}" in text or " > 0.5]" in text:
                text = self.filled(self.random.choice(WRITES))
            for line in text.split("; "):
                self.add(2, line)
        self.add(2, f"return {self.filled('{e}')}, {self.filled('{f}')}")

    def body(self, depth: int) -> None:
        dice, choose = self.random.random() + (not self.reads), self.random.choice
        if dice < 0.12:
            self.add(
                depth, f"out += section(x, y, p, q1, g, h, fresh, index, {', '.join(NUMBERS[:-1])})"
            )
        elif dice < 0.22:
            self.add(depth, "with named('block', x, y, g, h):")
            for _ in range(2):
                self.add(depth + 1, self.filled("{x} = {e}"))
                self.add(depth + 1, self.filled("{g} = {f}"))
            return
        for _ in range(choose((1, 2, 2, 3, 4, 5))):
            self.statement(depth)

    def program(self) -> str:
        n, m, choose = self.n, self.m, self.random.choice
        start = START.format(
            seed=self.seed, dtype=choose(("f8", "f8", "f4")), whole=choose(("i8", "i4", "i2"))
        )
        self.lines += start.splitlines()
        self.section()
        place = len(self.lines)
        self.body(3)
        used = set(re.findall(r"\b\w\b", "\n".join(self.lines[place:])))
        self.moving = [name for name in NUMBERS if name in used]
        rows = [", ".join(str(row[name]) for name in NUMBERS) for row in self.rounds()]
        self.lines[place:place] = [
            f"    for t, ({', '.join(NUMBERS)}) in enumerate((",
            *(f"        ({row})," for row in rows),
            "    )):",
            "        with np.errstate(divide=e, invalid=e, over=e):",
        ]
        self.add(2, f"if t % {choose((2, 3, 9))} == 1:")
        self.add(3, choose(("a = None", "a = m = None")))
        often = choose((1, 1, 1, 1, 2, 4)) if self.reads else 1
        self.add(2, f"if t % {often} == {often - 1}:")
        read = choose(("sync()", "sync()", "sync()", "out.append(float(x[i] + g[u, v]))"))
        self.add(3, read if self.reads else "sync()")
        self.add(1, "return [x, y, p, q1, g, h, *out], sums, told")
        return re.sub(r"\bN\b", str(n), re.sub(r"\bM\b", str(m), "\n".join(self.lines)))


# -------------------------------------------------------------------------------------- running


NUMPY: dict[str, Any] = {
    "np": np, "sliding_window_view": sliding_window_view, "listen": listen, "same": same,
    "wrap": same, "macro": same, "named": named, "sync": lambda: None,
}  # fmt: skip


def outcome(code: Any, names: dict[str, Any]) -> tuple[Any, list[Any]]:
    """What is exact, as what can be compared; and the sums."""
    known = dict(names)
    exec(code, known)
    values, sums, told = known["run"]()
    return ([comparable(value) for value in values], told), [np.array(value) for value in sums]


OURS = {
    **NUMPY, "wrap": npaccel.asarray, "macro": npaccel.macro, "named": npaccel.macro,
    "sync": npaccel.evaluate,
}  # fmt: skip


def near(sums: list[Any], others: list[Any]) -> bool:
    """Whether these are NumPy's but for their last bits."""
    return all(
        (x.dtype, x.shape) == (y.dtype, y.shape)
        and np.allclose(x, y, rtol=1e-3 if x.dtype == "f4" else 1e-9, atol=1e-3, equal_nan=True)
        for x, y in zip(sums, others, strict=True)
    )


def differences(seed: int, ways: Sequence[Callable[[], Any]], **sizes: int) -> str:
    """How outcomes differ from NumPy's, and sums from each other; empty: not at all.

    ways : blocks in which the program runs.
    """
    text = Changing(seed, **sizes).program()
    code = compile(text, f"<program {seed}>", "exec")
    expected, bits_of = outcome(code, NUMPY), []
    for way in ways:
        with way():
            found = outcome(code, OURS)
        if found[0] != expected[0] or not near(found[1], expected[1]):
            return f"{way}: {first_of(found, expected)}\n{text}"
        bits_of.append([comparable(value) for value in found[1]])
        if bits_of[-1] != bits_of[0]:
            return f"{way}: sums have other bits than in {ways[0]}\n{text}"
    return ""


def first_of(found: Any, expected: Any) -> str:
    """The first difference, in words."""
    pairs = [*zip(found[0][0], expected[0][0], strict=True), found[0][1:], expected[0][1:]]
    return next(
        (
            f"item {k}: {x}"[:300] + f" instead of {y}"[:300]
            for k, (x, y) in enumerate(pairs)
            if x != y
        ),
        "sums are not near",
    )
