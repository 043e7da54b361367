"""Random calls of NumPy's functions, methods, ufuncs and operators, as text: see soak_calls.py."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from call_arrays import DTYPES, ODD, ODD_TYPES, USUAL, USUALLY
from calls import SIGNATURES, STATEMENTS, UFUNCS

import npaccel

__all__ = ["Call", "endless"]


class Call:
    """One random call, as text."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.made: list[str] = []
        self.large = False
        dice = self.random.random()
        self.edges = dice >= 0.03 and self.random.random() < 0.5
        self.shape = self.some_shape(dice)
        self.dtype = self.some_dtype()
        self.axes = len(self.shape)
        self.odd = 0.25 if self.random.random() < 0.3 else 0.0
        self.where, self.out = "", False
        self.text = self.statement()

    def pick(self, *of: Any) -> Any:
        return self.random.choice(of)

    def chance(self, p: float) -> bool:
        return self.random.random() < p

    def some_shape(self, dice: float) -> tuple[int, ...]:
        if dice < 0.012:
            self.large = True
            return self.pick((40_000,), (200, 200), (40_001,), (3, 12_000), (70_000,))
        if dice < 0.03:
            return self.pick((9_000,), (90, 100), (3, 2_000), (600,), (20, 20, 5), (8_193,))
        ndim = self.pick(0, 1, 1, 1, 1, 2, 2, 2, 3)
        return tuple(
            self.pick(1, 2, 3, 4, 5, 7, 9, 0, 3, 17) if k == ndim - 1 else self.pick(1, 2, 3, 4)
            for k in range(ndim)
        )

    def some_dtype(self) -> str:
        return self.pick(*DTYPES) if self.chance(0.8) else self.pick(*ODD_TYPES)

    def argument(self, kind: str) -> str:
        """Of that kind, as the letters in calls.py are."""
        return str(getattr(self, f"arg_{kind.lower()}")())

    # Arguments.

    def new(self, shape: tuple[int, ...], dtype: str = "", layout: str = "") -> str:
        if not dtype:
            dtype = self.dtype if self.chance(0.8) else self.some_dtype()
        if not layout:
            layout = self.pick(*ODD) if self.chance(self.odd) else self.pick(*USUAL)
            if np.prod(shape) > 300 and layout in ("list", "tuple", "made"):
                layout = "C"
        return self.keep(
            f"array({dtype!r}, {shape}, {layout!r}, {self.edges}, {self.random.randrange(1000)})"
        )

    def keep(self, text: str) -> str:
        self.made.append(text)
        return f"a{len(self.made) - 1}"

    def arg_a(self) -> str:
        return self.new(self.shape)

    def arg_b(self) -> str:
        """An operand beside the first."""
        dice = self.random.random()
        if dice < 0.45:
            return self.new(self.shape)
        if dice < 0.6:
            return self.new(self.shape[self.random.randint(0, self.axes) :])
        if dice < 0.68:
            return self.new(tuple(self.pick(1, n) for n in self.shape))
        if dice < 0.72 and self.made:
            which = self.pick("", "[::-1]", "[...]", ".T", "[1:]", "[:1]")
            return self.keep(f"part(a0, {which!r})")
        if dice < 0.94:
            return self.arg_x()
        return self.new((self.pick(2, 3, 4),))

    def arg_x(self) -> str:
        """A number."""
        return self.pick(
            "0", "1", "2", "3", "-1", "0.5", "2.0", "-0.0", "True", "1j", "300", "2**40", "2**70",
            "float('nan')", "float('inf')", "np.float64(1.5)", "np.float32(0.1)", "np.int8(3)",
            "np.int64(2)", "np.uint64(2)", "np.bool_(True)", "np.array(2)", "np.array(0.5)",
            "np.complex64(1j)", "np.float16(2)", "-2", "1e300", "1e-3", "np.longdouble(2)", "10",
        )  # fmt: skip

    def arg_s(self) -> str:
        """Arrays that are joined."""
        n = self.pick(1, 2, 2, 3, 4)
        names = [self.new(self.shape) if self.chance(0.85) else self.arg_b() for _ in range(n)]
        if self.chance(0.1):
            names[-1] = names[0]
        if self.chance(0.05):
            return names[0]
        return f"({', '.join(names)},)" if self.chance(0.4) else f"[{', '.join(names)}]"

    def arg_i(self) -> str:
        """Indices."""
        n = max(1, self.shape[0] if self.axes else 1)
        dice = self.random.random()
        if dice < 0.2:
            return self.pick("0", "-1", "1", str(n), str(-n), "np.int64(0)", "True", "Numbered(0)")
        if dice < 0.45:
            found = [self.random.randint(-n, n - 1) for _ in range(self.random.randint(0, 5))]
            return self.pick(
                repr(found),
                f"np.array({found})",
                f"np.array({found}, int)",
                f"np.array({found}, np.int32)",
                f"np.array({found}, np.intp)[::-1]",
            )
        found = [self.random.randint(0, n - 1) for _ in range(self.random.randint(1, 6))]
        if self.chance(0.05):
            found[0] = n
        kind = self.pick("i8", "i8", "i8", "i4", "u1", "u8", "i2")
        made = self.keep(f"np.array({found}).astype({kind!r})")
        return made if self.chance(0.8) else f"{made}[None]"

    def arg_m(self) -> str:
        """A mask."""
        return self.new(
            self.shape if self.chance(0.8) else self.shape[:1],
            "bool",
            self.pick("C", "C", "C", "strided", "F", "spread", "ours"),
        )

    def arg_v(self) -> str:
        return self.new((self.pick(1, 2, 3, 5, 8, 0, 16),))

    def arg_k(self) -> str:
        """Small whole numbers that are not negative."""
        found = [self.random.randint(0, 6) for _ in range(self.random.randint(0, 9))]
        return self.keep(f"np.array({found}, {self.pick('i8', 'i8', 'i8', 'u1', 'i4', 'u8')!r})")

    def arg_q(self) -> str:
        """A square matrix, or several."""
        n = self.pick(1, 2, 3, 3, 4, 6)
        self.shape = (*self.pick((), (), (), (2,), (3, 1)), n, n)
        self.axes = len(self.shape)
        return self.new(self.shape, self.pick("f8", "f8", "f8", "f4", "c16", "i8", self.dtype))

    def arg_ax(self) -> str:
        if self.chance(0.7) and self.axes:
            return str(self.random.randint(-self.axes, self.axes - 1))
        return self.pick(
            "None",
            "0",
            "-1",
            "1",
            "(0,)",
            "(0, 1)",
            "(0, -1)",
            "()",
            "np.int64(0)",
            "True",
            "5",
            "(0, 0)",
            "[0]",
            "0.0",
            "'0'",
            "Numbered(0)",
            "(-1, 0)",
            "2",
            "-3",
            "np.array(0)",
        )

    def arg_dt(self) -> str:
        return self.pick(
            "float",
            "int",
            "bool",
            "complex",
            "np.float64",
            "np.float32",
            "'f8'",
            "'i4'",
            "np.dtype('f8')",
            "None",
            "np.int64",
            "'<f4'",
            "'>f8'",
            "'d'",
            "object",
            "'S2'",
            "'O'",
            "np.uint8",
            "'i8,f8'",
            "np.dtype('>i4')",
            "'g'",
            "'float64'",
            "'M8[s]'",
            "np.floating",
            "'nonsense'",
            "3",
            "np.bool_",
            "np.dtype('f8', metadata={'a': 1})",
            "'f2'",
            "'D'",
            "str",
        )

    def arg_out(self) -> str:
        dice = self.random.random()
        if dice < 0.1:
            return "None"
        self.out = True
        if dice < 0.2 and self.made:
            return self.pick("a0", "a0[::-1]", "a0[...]", "a0[1:]", "a0.T")
        if dice < 0.35:
            return self.new(self.pick((), (1,), self.shape[1:], self.shape[:-1], (3,)))
        name = self.new(self.shape)
        return name if self.chance(0.9) else f"({name},)"

    def arg_wh(self) -> str:
        self.where = self.arg_m() if self.chance(0.7) else self.pick("True", "False", "1", "[True]")
        return self.where

    def arg_bool(self) -> str:
        return self.pick(
            "True",
            "False",
            "True",
            "False",
            "1",
            "0",
            "None",
            "np.True_",
            "np._NoValue",
            "'yes'",
            "np.bool_(False)",
        )

    def arg_n(self) -> str:
        return self.pick(
            "0",
            "1",
            "2",
            "3",
            "-1",
            "5",
            "8",
            "None",
            "np.int64(2)",
            "2.0",
            "True",
            "Numbered(2)",
            "100",
            "-2",
            "2**70",
            "(1, 1)",
            "[1, 2]",
        )

    def arg_sh(self) -> str:
        """A shape."""
        size = int(np.prod(self.shape))
        return self.pick(
            "-1",
            "(-1,)",
            str(size),
            f"({size}, 1)",
            f"(1, {size})",
            "(2, -1)",
            "(-1, 3)",
            str(self.shape),
            str(self.shape[::-1]),
            "()",
            "(2, 3)",
            "3",
            "(-1, -1)",
            "[3, -1]",
            "np.int64(3)",
            "(0,)",
            "(np.int64(2), 2)",
            "2.0",
            "None",
            "(1, 1, -1)",
            "-2",
            "4",
            "(3, 0)",
            "True",
            "(2**40, 2**40)",
        )

    def arg_ord(self) -> str:
        return self.pick("'C'", "'F'", "'A'", "'K'", "None", "'X'", "'c'", "'fortran'")

    def arg_cast(self) -> str:
        return self.pick("'unsafe'", "'safe'", "'same_kind'", "'no'", "'equiv'", "'x'")

    def arg_mode(self) -> str:
        return self.pick(
            "'raise'",
            "'wrap'",
            "'clip'",
            "'x'",
            "'full'",
            "'same'",
            "'valid'",
            "'constant'",
            "'edge'",
            "'reflect'",
            "'linear'",
            "None",
            "0",
        )

    def arg_word(self) -> str:
        return self.pick(
            "'left'",
            "'right'",
            "'quicksort'",
            "'stable'",
            "'mergesort'",
            "None",
            "'heapsort'",
            "'x'",
            "'l'",
            "'ortho'",
            "'forward'",
            "'backward'",
            "'fro'",
            "2",
            "np.inf",
            "-np.inf",
            "1",
            "0",
            "'nuc'",
            "'stable'",
        )

    def arg_j(self) -> str:
        """Something that does not fit."""
        return self.pick(
            "None",
            "'words'",
            "Closed()",
            "object",
            "{}",
            "[]",
            "()",
            "[[1, 2], [3]]",
            "...",
            "range(3)",
            "[1, 2.5]",
            "['a']",
            "b'xy'",
            "set()",
            "slice(2)",
            "[None]",
            "np.float64",
            "[np.array(1.0), 2]",
            "bytearray(b'abcdefgh')",
            "[[]]",
            "np._NoValue",
            "[[[1.0]]]",
            "[True, False]",
            "(1,)",
            "10**400",
        )

    def arg_key(self) -> str:
        """A subscript."""
        parts = [self.part(k) for k in range(self.random.randint(1, max(1, self.axes)))]
        if self.chance(0.15):
            return self.pick(
                "...",
                "None",
                "()",
                "[]",
                "'a'",
                "True",
                "False",
                "1.0",
                "[True]",
                "'f0'",
                "(0,)*9",
                "slice(None)",
                "np.array(1)",
                "[[0]]",
                "2**70",
            )
        return ", ".join(parts)

    def part(self, k: int) -> str:
        n = self.shape[k] if k < self.axes else 3
        dice = self.random.random()
        if dice < 0.35:
            return str(self.random.randint(-n - 1, n))
        if dice < 0.7:
            ends = [self.pick("", str(self.random.randint(-n - 2, n + 2))) for _ in range(2)]
            return ":".join(ends) + self.pick("", "", ":1", ":2", ":-1", ":-2", ":3")
        if dice < 0.78:
            return self.pick("...", "None", "np.newaxis", "np.int64(0)", "Numbered(0)")
        return self.arg_m() if dice < 0.9 and k == 0 else self.arg_i()

    # Calls.

    def statement(self) -> str:
        dice = self.random.random()
        if dice < 0.13:
            return self.ufunc()
        if dice < 0.3:
            template = self.pick(*STATEMENTS)
            return self.filled(template)
        signature = self.pick(*SIGNATURES).split()
        return self.call(signature[0], signature[1:])

    def filled(self, template: str) -> str:
        """A statement, with its `{KIND}`."""
        parts = template.split("{")
        text = parts[0]
        for part in parts[1:]:
            kind, _, rest = part.partition("}")
            # What has no name would be changed behind the comparison.
            text += (self.argument(kind) if not kind.isdigit() else f"a{kind}") + rest
        return text

    def ufunc(self) -> str:
        name, nin = self.pick(*UFUNCS)
        method = self.pick(
            *(("",) * 7 if nin == 2 else ("",)),
            *((".reduce", ".accumulate", ".outer", ".reduceat", ".at") if nin == 2 else ()),
        )
        options = ["out:OUT", "where:WH", "dtype:DT", "casting:CAST", "order:ORD", "subok:BOOL"]
        if not method:
            given = ["A!", "B!"][:nin]
        elif method == ".outer":
            given = ["A!", "V!"]
        elif method == ".at":
            given, options = ["A!", "I!", "X!"], []
        elif method == ".reduceat":
            given, options = ["A!", "I!"], ["axis:AX", "dtype:DT", "out:OUT"]
        else:
            given, options = ["A!"], ["axis:AX", "dtype:DT", "out:OUT"]
            options += ["keepdims:BOOL", "initial:X", "where:WH"] if method == ".reduce" else []
        return self.call(f"np.{name}{method}", given + (options if self.chance(0.5) else []))

    def call(self, name: str, tokens: list[str]) -> str:
        method = name.startswith(".")
        texts, in_place, few = [], True, self.pick(0.0, 0.1, 0.3, 0.5)
        if name.endswith("outer") and np.prod(self.shape) > 300:
            tokens = ["V!", "V!"]
        for token in tokens:
            key, _, kind = token.rpartition(":")
            wanted = kind.endswith("!")
            if not (wanted or self.chance(few)) or (wanted and self.chance(0.006)):
                in_place = False
                continue
            text = self.argument(kind.rstrip("!")) if not self.chance(0.01) else self.arg_j()
            by_name = not in_place or (key and self.chance(0.15 if wanted else 0.6))
            in_place = in_place and not by_name
            texts.append(f"{key}={text}" if by_name and key else text)
        texts += (
            [self.pick("1", "None", "axis=0", "other=1", "a0", "out=None", "dtype=float")]
            if self.chance(0.008)
            else []
        )
        if method:
            first = self.pick("a0") if texts and texts[0] == "a0" else texts[0] if texts else "0"
            text = f"({first}){name}({', '.join(texts[1:])})"
        else:
            text = f"{name}({', '.join(texts)})"
        if "empty" in name:
            return f"return blank({text})"
        unwritten = self.where and not self.out and not method and name.count(".") == 1
        return f"return only({text}, {self.where})" if unwritten else f"return {text}"

    # The whole of it.

    def around(self) -> str:
        errors = self.pick(
            *("",) * 6, "all='ignore'", "all='raise'", "all='call'", "divide='raise'",
            "invalid='call', over='ignore'", "all='log'", "under='warn'", "over='raise'",
        )  # fmt: skip
        filters = self.pick(
            *("",) * 8, "('error', RuntimeWarning)", "('ignore', RuntimeWarning)",
            "('error', Warning)", "('once', Warning)", "('default', DeprecationWarning)",
        )  # fmt: skip
        return f"Around(dict({errors}), {filters})" if errors or filters else ""

    def program(self) -> str:
        names = ", ".join(f"a{k}" for k in range(len(self.made)))
        lines = ["def make():", "    with np.errstate(all='ignore'):"]
        lines += [f"        a{k} = {text}" for k, text in enumerate(self.made)]
        lines += [f"        return ({names}{',' if names else ''})"]
        around, body = self.around(), self.text.split("; ")
        lines += [f"def call({names}):"]
        if around:
            lines += [f"    with {around} as heard:", *(f"        {t}" for t in body)]
            if lines[-1].startswith("        return "):
                lines[-1] = lines[-1].replace("return ", "result = ", 1)
                lines += ["    return (result, *heard)"]
        else:
            lines += [f"    {t}" for t in body]
        return "\n".join(lines) + "\n"


def endless(text: str, size: int) -> bool:
    """Whether NumPy does not come back from it soon, or crashes."""
    square = ("tril", "triu", ".diag(", "kron", "outer", "meshgrid", "cov(", "corrcoef", "diagonal")
    crashes = ("cum" in text or "accumulate" in text) and ", (), " in text
    crashes |= "random" in text and ("out=(" in text or ",), out" in text)
    crashes |= "choose" in text and "out=" in text  # it writes beside an `out` that is no piece
    crashes |= "'matrix'" in text and any(f in text for f in ("stack", "concat", "append"))
    huge = "2**" in text or "10**" in text or "300" in text
    # Zeros and what is infinite, in another order.
    product = "prod" in text or "multiply." in text
    crashes |= product and (size > 9000 or npaccel.config.threshold < USUALLY)
    crashes |= size == 0 and "fft" in text  # it reads what was never written
    crashes |= size > 300 and any(f in text for f in square)
    return crashes or (huge and ("diff(" in text or "'O'" in text or ".at(" in text))
