"""Mutants: programs of random operations, and one made wrong in everything that compiles it.

A mutant is *equivalent*, and left out, where the wrong operation by itself, as a kernel of its own
on the operands that it has in the program, gives NumPy's values: equal ones, or, where the
operation need not have NumPy's bits, ones within a thousand units in the last place of the largest.
"""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from mutants import wrong

import npaccel
from npaccel import CheckError
from npaccel.ir import copying, ops
from npaccel.ir.nodes import Fold
from npaccel.ir.operation import Op
from npaccel.ir.scalar import Core, Expr

__all__ = ["Mutant", "Verdict", "judge", "mutants"]

FILE = "<mutant>"
SHAPE = (16, 50)
NEAR = 1000  # units in the last place
STEPS = 3  # before the operation, at most, and as many behind it
FOLDS = {
    Fold.SUM: Fold.MAX,
    Fold.PRODUCT: Fold.SUM,
    Fold.MAX: Fold.MIN,
    Fold.MIN: Fold.MAX,
    Fold.FMAX: Fold.FMIN,
    Fold.FMIN: Fold.FMAX,
    Fold.AND: Fold.OR,
    Fold.OR: Fold.AND,
    Fold.XOR: Fold.OR,
    Fold.ARGMIN: Fold.ARGMAX,
    Fold.ARGMAX: Fold.ARGMIN,
}
# What may stand around the operation: operands as well as results of all kinds, and inexact ones.
AROUND = (
    "exp", "sin", "add", "multiply", "greater", "sqrt", "absolute", "tanh", "bitwise_xor", "fmax",
)  # fmt: skip
FUNCTIONS = {"where": "np.where", "clip": "np.clip"}


class Mutant(NamedTuple):
    """source : of the program, a function of arrays; line : that of the operation that is wrong."""

    name: str
    kind: str
    how: str
    changes: dict[str, Any]
    source: str
    line: int


class Verdict(NamedTuple):
    """equivalent : it computes what it should; found : check mode differs; named : and names the
    operation and its line."""

    equivalent: bool
    found: bool = False
    named: bool = False
    text: str = ""


def inputs() -> dict[str, np.ndarray]:
    """Operands of every kind, with what is special in each."""
    rng = np.random.default_rng(7)
    f8 = rng.standard_normal(SHAPE) * 3
    f8[0, :4] = 0.0, 1.0, -1.0, 0.5
    return {
        "a": f8,
        "b": rng.random(SHAPE) + 0.25,
        "f": rng.standard_normal(SHAPE).astype("f4"),
        "i": rng.integers(-9, 60, SHAPE),
        "j": rng.integers(1, 9, SHAPE).astype("i4"),
        "u": rng.integers(1, 50, SHAPE).astype("u4"),
        "m": rng.random(SHAPE) > 0.6,
        "c": rng.standard_normal(SHAPE) + 1j * rng.standard_normal(SHAPE),
    }


# --------------------------------------------------------------------------------------- programs


class Writer:
    """Writes a program line by line, each run by NumPy at once, so that dtypes are known."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.names: dict[str, Any] = {"np": np}
        self.arrays = inputs()
        self.lines = [f"def program({', '.join(self.arrays)}):"]

    def write(self, call: str, outputs: int = 1) -> bool:
        """Add a line, if NumPy takes it; its results are operands of what follows."""
        made = [f"v{len(self.lines)}{'xy'[k] if outputs > 1 else ''}" for k in range(outputs)]
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                values = eval(call, {"np": np}, self.arrays)
            except (TypeError, ValueError, FloatingPointError):
                return False
        found = values if isinstance(values, tuple) else (values,)
        if any(value.dtype.char not in "?bhilBHILefdFD" for value in found):
            return False
        self.lines.append(f"    {', '.join(made)} = {call}")
        self.arrays |= dict(zip(made, found, strict=True))
        return True

    def operand(self, kind: str, shape: tuple[int, ...] | None = SHAPE) -> str:
        """The name of an array of that kind; a result more often than what was there."""
        fits = [
            name
            for name, array in self.arrays.items()
            if array.dtype.kind == kind and (shape is None or array.shape == shape)
        ]
        late = [name for name in fits if name[0] == "v"]
        return self.chance.choice(late if late and self.chance.random() < 0.6 else fits)

    def around(self) -> None:
        """A line of something usual."""
        name = self.chance.choice(AROUND)
        kinds = [kind for kind in "bifc" if (row := ops._TABLE.get((name, kind))) and row.body]
        kind = self.chance.choice(kinds)
        row = ops._TABLE[name, kind]
        self.write(f"np.{name}({', '.join(self.operand(kind) for _ in range(row.nin))})")

    def text(self, results: list[str]) -> str:
        return "\n".join([*self.lines, f"    return {', '.join(results)}", ""])


def call_of(writer: Writer, row: Op, kind: str, *, fold: bool) -> str:
    """The operation as NumPy has it, on operands of that kind."""
    name, kinds = row.name, [kind] * row.nin
    if name == "copy":
        return f"{writer.operand('fiu'[writer.chance.randrange(3)])}.astype({kind!r})"
    if name in ("argmin", "argmax"):
        return f"{writer.operand(kind)}.{name}(axis={writer.chance.randrange(2)})"
    if fold:
        return f"np.{name}.reduce({writer.operand(kind)}, axis={writer.chance.randrange(2)})"
    if name == "where":
        kinds = ["b", "f", "f"]
    elif name == "ldexp":
        kinds = ["f", "i"]
    elif name == "power" and kind in "iu":
        kinds = [kind, "u"]
    operands = [writer.operand(one) for one in kinds]
    if operands[1:] == operands[:1]:  # x - x hides much
        operands[1] = writer.operand(kinds[1])
    return f"{FUNCTIONS.get(name, f'np.{name}')}({', '.join(operands)})"


# ---------------------------------------------------------------------------------------- mutants


def _each(change: Callable[..., Expr]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Apply it to each result: change(result, operands)."""

    def made(body: Callable[..., Any]) -> Callable[..., Any]:
        def wrong_body(*operands: Expr) -> Any:
            results = body(*operands)
            if isinstance(results, tuple):
                return tuple(change(result, operands) for result in results)
            return change(results, operands)

        return wrong_body

    return made


def _off(result: Expr, _operands: Any) -> Expr:
    """Next to the right value; for functions by more than these may be off."""
    kind = result.dtype[0]
    if kind == "b":
        return ~result
    if kind in "iu":
        return result + 1
    if kind == "c":
        part = result.real() * (1 + (1e-4 if result.dtype == "c8" else 1e-11))
        return result.pool.make(Core.COMPLEX, result.dtype, (part, result.imag()))
    return result * (1 + {"f2": 0.05, "f4": 1e-4, "f8": 1e-11}[result.dtype])


def _somewhere(result: Expr, operands: tuple[Expr, ...]) -> Expr:
    """Off only where the first operand is large, or true."""
    first = operands[0]
    first = first.real() if first.dtype[0] == "c" else first
    place = first if first.dtype == "b1" else first > first.like(2)
    return place.select(_off(result, operands), result)


def _negated(result: Expr, operands: tuple[Expr, ...]) -> Expr:
    kind = result.dtype[0]
    if kind == "c":
        parts = result.real(), -result.imag()
        return result.pool.make(Core.COMPLEX, result.dtype, parts)
    return ~result if kind == "b" else -result


def _swapped(body: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *operands: body(*operands[::-1])


HOW = {
    "off": _each(_off),
    "off somewhere": _each(_somewhere),
    "negated": _each(_negated),
    "operands swapped": _swapped,
}


def rows() -> Iterator[tuple[str, str, Op]]:
    """The operations of the table that NumPy has under their name, and casts."""
    for (name, kind), row in ops._TABLE.items():
        known = hasattr(np, name) or name in ("argmin", "argmax")
        if known and (row.body is not None or row.fold is not None):
            yield name, kind, row
    for dtype, row in copying.COPIES.items():
        if dtype[0] != "c" and row.body is not None:
            yield "copy", dtype, row


def mutants(seed: int) -> Iterator[Mutant]:
    """Mutants without end, each operation and each way to be wrong as often as the others."""
    chance = random.Random(seed)
    while True:
        ways = [(row, how) for row in rows() for how in (*HOW, "fold")]
        chance.shuffle(ways)
        for (name, kind, row), how in ways:
            if (row.fold if how == "fold" else row.body) is None or (how, kind) == ("fold", "c"):
                continue
            if how == "operands swapped" and (row.nin != 2 or name == "ldexp"):
                continue
            made = _mutant(chance, name, kind, row, how)
            if made is not None:
                yield made


def _mutant(chance: random.Random, name: str, kind: str, row: Op, how: str) -> Mutant | None:
    writer = Writer(chance)
    for _ in range(chance.randrange(STEPS + 1)):
        writer.around()
    if not writer.write(call_of(writer, row, kind, fold=how == "fold"), row.nout):
        return None
    line = len(writer.lines)
    for _ in range(chance.randrange(STEPS + 1)):
        writer.around()
    last = [name for name in writer.arrays if name[0] == "v"][-2:]
    own = writer.lines[line - 1].partition(" = ")[0].strip().split(", ")
    if not set(own) & _needed(writer.lines, last):  # what nobody sees is not computed
        last += own
    changes: dict[str, Any] = {"flags": None}
    if how == "fold":
        assert row.fold is not None
        changes["fold"] = FOLDS[row.fold]
    else:
        changes["body"] = HOW[how](row.body)
    return Mutant(name, kind, how, changes, writer.text(last), line)


def _needed(lines: list[str], results: list[str]) -> set[str]:
    """The names that they are computed from, themselves included."""
    needed = set(results)
    for line in reversed(lines[1:]):
        made, _, call = line.strip().partition(" = ")
        if set(made.split(", ")) & needed:
            needed |= set(re.findall(r"\b\w+\b", call))
    return needed


# ---------------------------------------------------------------------------------------- verdicts


def judge(mutant: Mutant) -> Verdict:
    """Run it under check mode; the settings are the caller's: check, cache off, no threshold."""
    names: dict[str, Any] = {"np": np}
    exec(compile(mutant.source, FILE, "exec"), names)
    with (
        np.errstate(all="ignore"),
        warnings.catch_warnings(),
        wrong(mutant.name, mutant.kind, **mutant.changes),
    ):
        warnings.simplefilter("ignore")
        try:
            npaccel.evaluate(names["program"](*map(npaccel.asarray, inputs().values())))
        except CheckError as error:
            failure = error.failure
            named = failure.operation.partition(".")[0] == mutant.name
            line = mutant.source.splitlines()[failure.line - 1]  # the row may be used elsewhere
            there = failure.line == mutant.line or f".{mutant.name}(" in line
            right = named and failure.file == FILE and there
            return Verdict(False, True, right, str(error))
        return Verdict(_is_equivalent(mutant))


def _is_equivalent(mutant: Mutant) -> bool:
    """Without check mode, and alone in its kernel, on what NumPy gives it."""
    before, npaccel.config.check = npaccel.config.check, "off"
    try:
        lines = mutant.source.splitlines()
        call = lines[mutant.line - 1].partition(" = ")[2]
        arrays = inputs()
        for line in lines[1 : mutant.line - 1]:
            made, _, value = line.strip().partition(" = ")
            found = eval(value, {"np": np}, arrays)
            found = found if isinstance(found, tuple) else (found,)
            arrays |= dict(zip(made.split(", "), found, strict=True))
        wanted = eval(call, {"np": np}, arrays)
        wrapped = {name: npaccel.asarray(array) for name, array in arrays.items()}
        got = npaccel.evaluate(eval(call, {"np": np}, wrapped))
    finally:
        npaccel.config.check = before
    row = ops._TABLE.get((mutant.name, mutant.kind))
    rounds = mutant.how == "fold" or (row is not None and row.ulp > 0)
    one = zip(
        *(each if isinstance(each, tuple) else (each,) for each in (got, wanted)), strict=True
    )
    return all(_same(np.asarray(seen), expected, rounds=rounds) for seen, expected in one)


def _same(seen: np.ndarray, expected: np.ndarray, *, rounds: bool) -> bool:
    if not rounds or expected.dtype.kind not in "fc":
        return np.array_equal(seen, expected, equal_nan=expected.dtype.kind in "fc")
    finite = np.abs(expected[np.isfinite(expected)])
    limit = NEAR * np.finfo(expected.dtype).eps * (finite.max() if finite.size else 0)
    return bool(np.allclose(seen, expected, rtol=0, atol=limit, equal_nan=True))
