"""Random programs that NumPy runs while they are written: see soak_mixed.py.

So a statement may have arrays of any shapes, dtypes and layouts, views of each other among them:
what does not fit is written anew, and what raises in a later round is written once more with a
`try` around it. Arrays with which a program would grow without end, or whose values would, are
mended by statements of the program's own.
"""

from __future__ import annotations

import random
import re
import signal
import warnings
from typing import Any

import mixed_blocks as blocks
import mixed_statements as said
import numpy as np

__all__ = ["ARRAYS", "Mixed", "Unfit", "written"]

FIRST, ARRAYS = "abcdefgh", "abcdefghpqrs"  # arrays that are there from the start; all there may be
SIZES = {
    "small": (3, 4, 5, 8, 10, 17, 30, 64, 100, 129, 300),
    "middle": (500, 1000, 2049, 4096, 10_000, 20_000, 30_000),
    "large": (33_000, 50_000, 70_001, 131_072, 131_072, 300_000),
}
DTYPES = (*["float"] * 9, *["int"] * 3, "'f4'", "'f4'", "'i4'", "'u1'", "bool", "complex", "'i2'",
          "'f2'", "'>f8'", "'g'", "'c8'", "'u4'", "'i1'", "'u8'")  # fmt: skip
SLICES = ("1:", ":-1", "::2", "1:-1", "::-1", "2:", ":", "{n} // 3:", ":{n} // 2 + 1", "-3:", "5:2",
          "::-2", "1::2", "-2::-1", ":t + 1", "t % 3:", "{n} // 4:{n} // 4 * 3 + 1", "::3",
          "-1:0:-1")  # fmt: skip
PLACES = ("[0, -1]", "[0]", "np.arange(0, {n}, 2)", "rng.integers(0, {n}, 5)", "[0, 0]", "[]",
          "np.array([0, 0, -1])", "np.arange({n})[::-1]", "np.zeros(3, int)",
          "rng.permutation({n})", "(np.arange({n}) * 7) % {n}", "np.array([1, 0], 'u1') % {n}",
          "np.nonzero(np.arange({n}) % 3)[0]", "rng.integers(0, {n}, {n})")  # fmt: skip
KINDS = {"n": "biufc", "r": "biuf", "f": "f", "i": "iu", "b": "b", "c": "c"}
MOST_BYTES, MOST_ELEMENTS, MOST_LINES = 3 << 20, 400_000, 60
MOST_BYTES_WITH_BITS = 1 << 17  # also two of them lie below the usual threshold
LONGEST_S = 0.5  # of a statement
MARK = re.compile(r"\{(\w+)(?::([^}{]*)|(~\w+))?\}")


class Unfit(BaseException):
    """A statement, or a program, that is to be written anew."""


def slow(*_: object) -> None:
    raise Unfit("slow")


def indented(text: str, depth: int) -> list[str]:
    return ["    " * depth + line for line in text.split("\n")]


class Mixed:
    """Writes one program; `names` are what it knows besides its own."""

    def __init__(self, seed: int, names: dict[str, Any]) -> None:
        self.random = random.Random(seed)
        self.names = dict(names)
        chance = self.random.random
        self.scale = self.random.choice((*["small"] * 4, *["middle"] * 3, "large"))
        self.bits = chance() < 0.5 and self.scale != "large"  # inexact ones, and NumPy's loops
        self.strict = chance() < 0.12  # floating-point errors raise
        self.hot = self.strict or chance() < 0.2  # values need not be finite
        self.sections = not self.bits and chance() < 0.4
        self.threads = chance() < 0.15
        self.loud = chance() < 0.6
        self.picks = 60 if chance() < 0.2 else 8

    # ------------------------------------------------------------------------ what it begins with

    def shapes(self) -> list[tuple[int, ...]]:
        pick = self.random.choice
        n = pick([k for k in SIZES[self.scale] if k <= 10_000 or not self.bits])
        k, columns = pick((2, 3, 4, 5, 8)), pick((2, 3, 4, 7, 16, 31))
        rows = max(2, n // columns)
        grids = [(rows, columns), (rows, columns), (columns,), (rows, 1), (1, columns)]
        if self.random.random() < 0.3:
            planes = (k, max(2, rows // k), columns)
            grids = [planes, planes, (k, 1, columns), planes[1:], (1, planes[1], 1), (k, 1, 1)]
        vectors = [(n,), (n,), (n,), (columns, rows), (n, 1) if n < 300 else (n,)]
        rare = [(), (k, k), (k, 3), (2, 3, k), (1,), (3,), (columns,) * 2, (k, n // (k * 3) + 1, 3)]
        return rare if self.random.random() < 0.2 else vectors + grids

    def array(self, shape: tuple[int, ...]) -> str:
        """An expression that makes one."""
        pick, size, dtype = self.random.choice, int(np.prod(shape)), self.random.choice(DTYPES)
        values = pick((
            f"(np.arange({size}) % {pick((7, 11, 13))} - 3)", f"np.linspace(-2, 2, {size})",
            f"rng.integers(-4, 5, {size})", f"rng.standard_normal({size})", f"rng.random({size})",
            f"np.zeros({size})", f"np.ones({size})", f"(np.arange({size}) * 0.125 % 3)",
            f"(np.arange({size})[::-1] % 5)", f"np.tile([0.5, -1.5, 2], {size} // 3 + 1)[:{size}]",
        ))  # fmt: skip
        if "u" in dtype:
            values = f"np.abs({values})"
        text, layout = f"{values}.reshape({shape}).astype({dtype})", self.random.random()
        if len(shape) > 1 and layout < 0.25:
            return f"np.asfortranarray({text})"
        if len(shape) > 1 and layout < 0.4:
            return f"{values}.reshape({shape[::-1]}).astype({dtype}).T"
        if shape and layout < 0.5:
            return f"np.repeat({text}, 2, axis=-1)[..., ::2]"
        if shape and layout < 0.58:
            return f"{text}[::-1]"
        return f"wrap({text})" if layout > 0.95 else text

    def section(self, name: str) -> list[str]:
        """A macro section."""
        body = [self.random.choice(blocks.SECTION) for _ in range(self.random.randint(1, 6))]
        first = "w = " + self.random.choice(("u", "v", "u * 1", "u + v"))
        return ["@macro", f"def {name}(u, v, k):", *indented("\n".join([first, *body]), 1),
                "    return u, v, w"]  # fmt: skip

    def head(self) -> list[str]:
        seed, shapes = self.random.randrange(999), self.shapes()
        lines = ["out, kept, t, GLOBAL = [], [], 0, np.ones(1)", f"np.random.seed({seed})"]
        lines += [f"rng, old_rng = np.random.default_rng({seed}), np.random.RandomState({seed})"]
        lines += blocks.START.strip().split("\n")
        if self.sections:
            lines += [*self.section("sec0"), *self.section("sec1")]
        lines += [f"{name} = {self.array(self.random.choice(shapes))}" for name in FIRST]
        lines += ["stream = stream_of(np.arange(4.0))"]
        return [*lines, "body = Body(np.ones(3), np.zeros((2, 3)))"]

    # ------------------------------------------------------------------------------------- marks

    def arrays(self) -> list[str]:
        return [name for name in ARRAYS if isinstance(self.names.get(name), np.ndarray)]

    def fits(self, name: str, wanted: str, chosen: dict[str, str]) -> bool:
        value, (kinds, _, like) = self.names[name], wanted.partition("~")
        for mark in kinds:
            if mark in "12" and value.ndim != int(mark):
                return False
            if (mark == "+" and value.ndim < 2) or value.dtype.kind not in KINDS.get(
                mark, "biufcmM"
            ):
                return False
        return not like or value.shape == self.names[chosen[like]].shape

    def subscript(self, value: np.ndarray) -> str:
        pick, parts = self.random.choice, []
        for n in value.shape:
            dice = self.random.random()
            if parts and dice < 0.3:
                break
            if dice < 0.75:
                parts.append(pick(SLICES).replace("{n}", str(n)))
            elif dice < 0.85:
                parts.append(pick(("0", "-1", str(n // 2))))
            else:
                parts.append(pick((":", "1:", "None", ":" if "..." in parts else "...")))
        return ", ".join(parts) or "..."

    def mask(self, name: str) -> str:
        value = self.names[name]
        if value.dtype.kind == "b":
            return self.random.choice((name, f"~{name}"))
        if value.dtype.kind == "c":
            return f"({name}.real > 0)"
        if value.ndim and self.random.random() < 0.15:
            every = self.random.choice((2, 3, 7))
            return f"(np.arange({name}.size).reshape({name}.shape) % {every} == 0)"
        than = self.random.choice(("> 0", "< 0.5", ">= 1", "<= -1", "== 2", "> 1", "< 0"))
        return f"({name} {than})"

    def gather(self, name: str) -> str:
        """A subscript of several arrays: places that broadcast, masks, integers, slices between."""
        pick, chance, value = self.random.choice, self.random.random, self.names[name]
        count, deep = pick((1, 2, 3, 7, 30, 200, 200, 5000, 20_000)), chance() < 0.2
        parts: list[str] = []
        axis = 0
        while axis < value.ndim and not (parts and chance() < 0.1):
            n, dice = value.shape[axis], chance()
            if dice < 0.12:
                parts.append(pick(SLICES).replace("{n}", str(n)))
            elif dice < 0.2:
                parts.append(pick(("None", "...", "True")) if chance() < 0.3 else str(-(n // 2)))
                axis -= parts[-1] in ("None", "True")
            elif dice < 0.32:
                axes = 1 + (axis + 1 < value.ndim and chance() < 0.4)
                left = ", ".join([":"] * axes)
                before = "".join("0, " * axis)
                rest = ", 0" * (value.ndim - axis - axes)
                cut = f"{name}[{before}{left}{rest}]" if value.size else name
                mask = f"({cut} {pick(('> 0', '!= 1', '<= 0', '== 2'))})"
                parts.append(mask if chance() < 0.9 else f"{mask}.tolist()")
                axis += axes - 1
            else:
                parts.append(self.places(n, count, deep))
            axis += 1
            if parts.count("...") > 1:
                parts.remove("...")
        return ", ".join(parts) or "..."

    def places(self, n: int, count: int, deep: bool) -> str:
        """Places along an axis of n elements; now and then one that there is not."""
        pick, chance = self.random.choice, self.random.random
        if chance() < 0.1:
            return pick(("[0, -1]", "[0]", "-1", "0", "np.int8(0)", f"[{n}]", "[]", "np.array(0)"))
        low, high = pick(((0, n), (0, n), (-n, n), (-n, 0), (0, 1), (-n - (chance() < 0.1), n)))
        text = pick((
            f"rng.integers({low}, {max(high, low + 1)}, {count})",
            f"np.arange({count}) * {pick((1, 3, 7))} % {max(n, 1)}",
            f"({max(n, 1)} - 1 - np.arange({count}) // 2 % {max(n, 1)})",
            f"np.repeat(np.arange({count}) % {max(n, 1)}, 2)[::2]",
            f"-1 - np.arange({count}) % {max(n, 1)}",
        ))  # fmt: skip
        if chance() < 0.25:
            text = f"({text}).astype({pick(('i4', 'u1', 'i2', 'u4', 'u8', '>i8', 'i1'))!r})"
        if deep and count < 300:
            text = f"({text}){pick(('[:, None]', '[None]', '[:1]', '.reshape(-1, 1)[:3]', ''))}"
        return text if chance() < 0.95 else f"({text}).tolist()"

    def axis(self, value: np.ndarray) -> str:
        if value.ndim == 0:
            raise Unfit
        return str(self.random.randrange(-value.ndim, value.ndim))

    def constant(self) -> str:
        rare = self.random.random() < 0.03
        return self.random.choice(said.RARE_CONSTANTS if rare else said.CONSTANTS)

    def plain(self, mark: str) -> str:
        """What is of no array; empty: it is."""
        if mark == "c":
            return self.constant()
        if mark == "dt":
            return self.random.choice(said.DTYPES)
        modes = ("'edge'", "'wrap'", "'reflect'", "'constant'", "'symmetric'")
        return {"k": str(self.random.randint(0, 5)), "pad": self.random.choice(modes)}.get(mark, "")

    def of_array(self, mark: str, name: str) -> str:
        value = self.names[name]
        if mark == "p":
            return self.random.choice(PLACES).replace("{n}", f"{name}.shape[0]")
        if mark == "e":
            return f"({self.expression(name)})"
        if mark == "g":
            return self.gather(name)
        return (
            {"sl": self.subscript, "ax": self.axis}[mark](value) if mark != "m" else self.mask(name)
        )

    def expression(self, name: str, deep: int = 2) -> str:
        """An expression of the shape of an array."""
        value, pick = self.names[name], self.random.choice
        if deep and self.random.random() < 0.45:
            partners = [y for y in self.arrays() if self.is_partner(y, value)]
            if partners:
                other = pick(partners)
                sides = [self.part(name, deep - 1), self.part(other, deep - 1)]
                if self.names[other].shape == value.shape:
                    self.random.shuffle(sides)
                pools = [said.BINARY] * 3 + [said.INEXACT_BINARY] * self.bits
                pools += [said.INTEGER_BINARY] * (value.dtype.kind in "iu")
                return pick(pick(pools)).format(*sides)
        tables = (said.SHAPED, said.SHAPED_INEXACT)[: 1 + self.bits]
        pools = [of[mark] for of in tables for mark in of if value.dtype.kind in KINDS[mark]]
        text = pick(pick(pools))
        inner = self.part(name, deep - 1) if ":0" not in text and text.count("{0}") < 3 else name

        def filled(found: re.Match[str]) -> str:
            mark, of = found[1], found[2]
            return inner if mark == "0" else self.of_array(mark, name) if of else self.plain(mark)

        return MARK.sub(filled, text)

    def is_partner(self, name: str, value: np.ndarray) -> bool:
        other = self.names[name]
        try:
            shape = np.broadcast_shapes(other.shape, value.shape)
        except ValueError:
            return False
        return shape == value.shape and other.dtype.kind in "biufc"

    def part(self, name: str, deep: int) -> str:
        if deep <= 0 or self.random.random() < 0.6:
            return name
        return f"({self.expression(name, deep)})"

    def filled(self, template: str) -> str:
        """A statement: the template with arrays, and what is of them, for its marks."""
        chosen: dict[str, str] = {"new": self.random.choice(ARRAYS)}
        wanted: dict[str, str] = {}
        for mark, kinds, like in MARK.findall(template):
            if mark in "xywv":
                wanted[mark] = wanted.get(mark) or kinds or like

        def array(mark: str) -> str:
            if mark not in chosen:
                fit = [a for a in self.arrays() if self.fits(a, wanted.get(mark, ""), chosen)]
                if not fit:
                    raise Unfit
                chosen[mark] = self.random.choice(
                    [a for a in fit if a not in chosen.values()] or fit
                )
            return chosen[mark]

        def text(found: re.Match[str]) -> str:
            mark, of = found[1], found[2] or ""
            if mark in ("sl", "m", "p", "g", "ax", "e"):
                return self.of_array(mark, array(of))
            return self.plain(mark) or array(mark)

        for mark, kinds in wanted.items():  # what another is to be like is chosen first
            array(kinds.partition("~")[2] or mark)
        return MARK.sub(text, template)

    # --------------------------------------------------------------------------------- statements

    def fails(self, text: str) -> str:
        """Run it; the name of the class that it raises."""
        signal.signal(signal.SIGALRM, slow)
        signal.setitimer(signal.ITIMER_REAL, LONGEST_S)
        try:
            exec(compile(text, "<written>", "exec"), self.names)
        except Exception as error:
            return type(error).__name__
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        return ""

    def grown(self) -> str:
        """An array of objects, or whose values are too large."""
        most = MOST_BYTES_WITH_BITS if self.bits else MOST_BYTES
        for name in self.arrays():
            value = self.names[name]
            if value.nbytes > most or value.size > MOST_ELEMENTS:
                raise Unfit
            if value.dtype.kind == "O":
                return name
            if value.dtype.kind in "fc" and not self.hot:
                with np.errstate(all="ignore"):
                    if not (np.abs(value) < 1e9).all():
                        return name
        return ""

    def mended(self, name: str) -> str:
        value = self.names[name]
        if value.dtype.kind in "Oc" or not value.flags.writeable:
            return f"{name} = np.arange(6.0).reshape(2, 3)"
        if value.ndim == 0 or self.random.random() < 0.5:
            return f"{name} = np.nan_to_num(np.clip({name}, -8, 8))"
        return f"{name}[~(np.abs({name}) < 99)] = 0.5"

    def pool(self) -> tuple[str, ...]:
        for use, pool in ((self.strict, blocks.STRICT), (self.sections, blocks.SECTION_CALLS),
                          (self.threads, blocks.THREADS)):  # fmt: skip
            if use and self.random.random() < 0.25:
                return pool
        pools = ((said.NEW, said.NEW_INEXACT), (said.IN_PLACE, said.IN_PLACE_INEXACT),
                 (blocks.COMPOUND,), (said.READS, said.READS_INEXACT), (said.PICKS,))  # fmt: skip
        (kinds,) = self.random.choices(pools, (28, 36, 18, 10, self.picks))
        return kinds[-1] if self.bits and self.random.random() < 0.25 else kinds[0]

    def statement(self) -> list[str]:
        """One, which has been run, with what it makes necessary."""
        for _ in range(60):
            template = self.random.choice(self.pool())
            if self.bits and "tune(" in template:  # whose bits?
                continue
            template, before = template.replace("SEC", self.random.choice(("sec0", "sec1"))), {}
            try:
                text = self.filled(template)
                before = dict(self.names)
                error = self.fails(text)
                if error and self.random.random() < (0.2 if error == "FloatingPointError" else 0.9):
                    continue
                return [text, *self.mends()]
            except Unfit:
                self.names.update(before)
        raise Unfit

    def mends(self) -> list[str]:
        lines: list[str] = []
        name = self.grown()
        while name and len(lines) < 4:
            lines.append(self.mended(name))
            self.fails(lines[-1])
            name = self.grown()
        return lines

    # ------------------------------------------------------------------------------------ programs

    def loop(self, depth: int) -> list[str]:
        """A loop, of which NumPy has run all rounds."""
        rounds = self.random.choice(
            (3, 5, 8) if self.scale == "large" else (3, 5, 8, 12, 20, 30, 60)
        )
        body: list[tuple[str, str]] = []
        for _ in range(self.random.randint(3, 12)):
            for text in self.statement():
                rare = self.random.random() < 0.15
                body.append((f"if t % {self.random.randint(2, 5)} == 1:" if rare else "", text))
        raising = set()
        for t in range(1, rounds):
            self.names["t"], k = t, 0
            while k < len(body):
                head, text = body[k]
                if self.fails(head + "\n" + "\n".join(indented(text, 1)) if head else text):
                    raising.add(body[k])
                name = self.grown()
                if name:
                    huge = f"{name}.dtype.kind == 'O' or not (np.abs({name}) < 1e9).all()"
                    body.insert(k + 1, (f"if {huge}:", self.mended(name)))
                k += 1
                if len(body) > MOST_LINES:
                    raise Unfit
        self.names["t"] = 0
        lines = indented(f"for t in range({rounds}):", depth)
        for head, text in body:
            inner = depth + 1 + bool(head)
            lines += indented(head, depth + 1) if head else []
            lines += indented("try:", inner) if (head, text) in raising else []
            lines += indented(text, inner + ((head, text) in raising))
            if (head, text) in raising:
                caught = "except Exception as error: out.append((type(error).__name__, str(error)))"
                lines += indented(caught, inner)
        return lines

    def program(self) -> str:
        head, loops = self.head(), []
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            exec(compile("\n".join(head), "<head>", "exec"), self.names)
            np.seterr(all="raise" if self.strict else "ignore", under="ignore")
            for _ in range(self.random.randint(1, 2)):
                loops += self.loop(2)
        of = "raise" if self.strict else "warn" if self.loud else "ignore"
        state = f"np.errstate(all='{of}', under='ignore')"
        lines = ["def run():", *indented("\n".join(head), 1)]
        lines += [f"    with warnings.catch_warnings(record=True) as told, {state}:"]
        lines += ["        listen(told); warnings.simplefilter('always')", *loops]
        return "\n".join([*lines, "    return ending(locals())"])


def written(seed: int, names: dict[str, Any]) -> tuple[Mixed, str]:
    """The first program from a seed on that does not grow without end, and its writer."""
    for k in range(20):
        mixed = Mixed(seed * 20 + k, names)
        try:
            return mixed, mixed.program()
        except Unfit:
            continue
    return mixed, "def run(): return []"
