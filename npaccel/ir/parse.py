"""Kernels and traces from their text: reads back what `text.py` writes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from npaccel.errors import VerifyError
from npaccel.ir.nodes import (
    ArrayParam,
    BufferInfo,
    Flag,
    FlagKind,
    Fold,
    Kernel,
    Kind,
    Leaf,
    Reduce,
    Request,
    RowParam,
    ScalarOperand,
    Store,
    StoreRow,
    StoreScratch,
    Stride,
    Trace,
    View,
)
from npaccel.ir.scalar import Core, Expr, Pool, Value

__all__ = ["parse_kernel", "parse_trace"]

Effect = Store | StoreScratch | StoreRow | Reduce
_NUMBERED = ("load", "gather", "scalar", "row", "scratch", "index", "scan")


def parse_kernel(text: str) -> Kernel:
    """Return the kernel that this text shows; with its name, if it is `kernel_text`.

    Raises
    ------
    VerifyError : a line is none that `text.py` writes.
    """
    name, head, rest = _headed(text)
    arrays: list[ArrayParam] = []
    kinds: dict[str, list[str]] = {"c": [], "r": [], "t": []}
    leaves: list[_LeafReader] = []
    pool = Pool()
    for line in rest:
        words = line.split()
        try:
            if words[0] == "leaf":
                leaves.append(_LeafReader(pool, row=words[1:] == ["row"]))
            elif leaves:
                leaves[-1].read(words)
            elif words[0][0] == "a":
                arrays.append(_array(words[1:]))
            else:
                kinds[words[0][0]].append(words[1])
        except (IndexError, KeyError, ValueError) as error:
            raise VerifyError(f"text: no line of a kernel: {line!r}") from error
    return Kernel(
        name,
        int(head[1]),
        int(head[3]),
        tuple(arrays),
        tuple(kinds["c"]),
        tuple(RowParam(dtype) for dtype in kinds["r"]),
        tuple(kinds["t"]),
        tuple(leaf.made() for leaf in leaves),
        vector_band="vector_band" in head,
        split="split" in head,
        slots=int(head[-1]),
    )


def _headed(text: str) -> tuple[str, list[str], list[str]]:
    """Name, the words of the first line, and the other lines."""
    first, *rest = text.strip("\n").split("\n")
    name, _, line = first.rpartition(": ")
    head = line.split()
    if len(head) < 6 or (head[0], head[2], head[-2]) != ("band", "inner", "slots"):
        raise VerifyError(f"text: no kernel begins with {first!r}")
    return name, head, rest


def _array(words: Sequence[str]) -> ArrayParam:
    dtype, vector, *marks = words
    return ArrayParam(dtype, Stride[vector.upper()], **{k: k in marks for k in _MARKS})


_MARKS = ("read", "written", "band_only", "nontemporal", "gathered")


class _LeafReader:
    def __init__(self, pool: Pool, *, row: bool) -> None:
        self._pool, self._row = pool, row
        self._nodes: dict[str, Expr] = {}
        self._effects: list[Effect] = []
        self._guards: tuple[Expr, ...] = ()
        self._flags: list[Flag] = []

    def made(self) -> Leaf:
        return Leaf(self._row, tuple(self._effects), self._guards, tuple(self._flags))

    def read(self, words: Sequence[str]) -> None:
        """One line, by its words."""
        match words:
            case [name, "=", what, *more]:
                self._nodes[name] = self._node(what, more)
            case ["store", array, value, "at", offset, *mask]:
                at = self._nodes[offset]
                where, node = self._mask(mask), self._nodes[value]
                self._effects.append(Store(int(array[1:]), node, where, at))
            case ["store", array, value, *mask]:
                self._effects.append(Store(int(array[1:]), self._nodes[value], self._mask(mask)))
            case ["scratch", index, value]:
                self._effects.append(StoreScratch(int(index[1:]), self._nodes[value]))
            case ["row", index, value]:
                self._effects.append(StoreRow(int(index[1:]), self._nodes[value]))
            case ["reduce", index, fold, value, *mask]:
                where, node = self._mask(mask), self._nodes[value]
                self._effects.append(Reduce(int(index[1:]), Fold(fold), node, where))
            case ["guard", *names]:
                self._guards = tuple(self._nodes[name] for name in names)
            case ["flag", slot, kind, mask]:
                flag = Flag(int(slot[1:]), FlagKind[kind.upper()], self._nodes[mask])
                self._flags.append(flag)
            case _:
                raise ValueError(words)

    def _mask(self, words: Sequence[str]) -> Expr | None:
        return self._nodes[words[1]] if words else None

    def _node(self, what: str, words: Sequence[str]) -> Expr:
        op, _, dtype = what.partition(".")
        attr: Value | None = None
        if op == "const":
            attr, words = _constant(dtype, words[0]), words[1:]
        elif op in _NUMBERED:
            attr, words = int(words[0]), words[1:]
        return self._pool.make(Core(op), dtype, tuple(self._nodes[w] for w in words), attr)


def _constant(dtype: str, text: str) -> Value:
    if dtype == "b1":
        return {"True": True, "False": False}[text]
    if dtype[0] == "f":
        return float.fromhex(text)
    if dtype[0] != "c":
        return int(text)
    # The part before the last + that no exponent's is the real one: 0x1.8p+1+-0x0.0p+0j.
    at = next(k for k, sign in enumerate(text) if sign == "+" and k and text[k - 1] != "p")
    return complex(float.fromhex(text[:at]), float.fromhex(text[at + 1 : -1]))


# --------------------------------------------------------------------------------------- traces

_BUFFER = re.compile(r"b(\d+): (\d+) bytes((?: fresh| dead| owned)*)")
_REQUEST = re.compile(
    r"r(\d+): (?P<outputs>.+) = (?P<kind>\w+) (?P<what>[^(]+)\((?P<inputs>.*)\) "
    r"over \((?P<shape>[\d,]*)\)(?: axes \((?P<axes>[\d,]*)\))?"
    r"(?: where (?P<mask>\w+ b[^ ]+ [^ ]+))? "
    r"errstate (?P<errstate>0x[0-9a-f]+)(?P<numpys> numpys)?(?P<fast> fast)?"
)
_VIEW = re.compile(r"(\w+) b(\d+)\[(-?\d+): ([-\d,]*)\]")


def parse_trace(text: str) -> Trace:
    """Return the trace that this text shows, as `trace_text` wrote it.

    Raises
    ------
    VerifyError : a line is none that `text.py` writes.
    """
    buffers, requests = list[BufferInfo](), list[Request]()
    for line in text.splitlines():
        if found := _BUFFER.fullmatch(line):
            marks = found[3].split()
            flags = {name: name in marks for name in ("fresh", "dead", "owned")}
            buffers.append(BufferInfo(int(found[1]), int(found[2]), **flags))
        elif found := _REQUEST.fullmatch(line):
            try:
                requests.append(_request(int(found[1]), found.groupdict()))
            except (KeyError, ValueError) as error:
                raise VerifyError(f"text: no request: {line!r}") from error
        else:
            raise VerifyError(f"text: no line of a trace: {line!r}")
    return Trace(tuple(buffers), tuple(requests))


def _request(index: int, words: dict[str, str | None]) -> Request:
    def of(name: str) -> str:
        return words[name] or ""

    op, *loop = of("what").split(".")
    inputs = of("inputs").split(", ") if words["inputs"] else []
    return Request(
        index=index,
        kind=Kind[of("kind").upper()],
        op=op,
        shape=_numbers(of("shape")),
        axes=_numbers(of("axes")),
        inputs=tuple(_operand(text, at) for at, text in enumerate(inputs)),
        outputs=tuple(_view(text) for text in of("outputs").split(", ")),
        loop=tuple(loop),
        mask=_view(of("mask")) if words["mask"] else None,
        errstate=int(of("errstate"), 16),
        numpys=words["numpys"] is not None,
        fast=words["fast"] is not None,
    )


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split(",") if word)


def _view(text: str) -> View:
    found = _VIEW.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return View(int(found[2]), found[1], int(found[3]), _numbers(found[4]))


def _operand(text: str, position: int) -> View | ScalarOperand:
    if _VIEW.fullmatch(text):
        return _view(text)
    dtype, _, value = text.partition(" ")
    if not dtype:
        raise ValueError(text)
    read: dict[str, Callable[[str], Value]] = {"f": float, "c": complex, "b": _truth}
    return ScalarOperand(dtype, position, read.get(dtype[0], int)(value))


def _truth(text: str) -> bool:
    return {"True": True, "False": False}[text]
