"""Kernels on nodes: each is compiled by one of those that need it, and sent to the others.

    recipes ──► nodes plan, and say what they lack ──► what is known is sent
                                                   ──► each other kernel: who compiles it
    images  ◄── of what they were asked for        ──► to all others of the same kind, and kept

Code goes to nodes of the same kind alone: of the same processor, compiler and npaccel. Who gets
code of another kind does not load it; what a node still lacks when it runs, it compiles itself.
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from npaccel.backends.launch import run_step
from npaccel.backends.registry import HOST, open_backend
from npaccel.caches.store import digest
from npaccel.cluster.orders import Code, Lacks, Order, Reply
from npaccel.errors import CompileError
from npaccel.ir.nodes import Kernel, KernelStep
from npaccel.ir.text import body_text

__all__ = ["Compiled", "Library", "compile_shared", "compiled_here", "shared_out"]

Array = np.ndarray[Any, Any]
KNOWN = 4096  # kernels that a worker finds without looking at them
MOST_BYTES = 1 << 26  # of code that is kept for nodes that come later


class Compiled:
    """Runs kernels by code for this processor, on the thread that calls it."""

    def __init__(self) -> None:
        self._backend: Any = open_backend(HOST)
        self._known: dict[str, Any] = {}  # by digest: kernels of two plans are never equal
        self._by_step: dict[int, tuple[KernelStep, Any]] = {}
        self._lacked: dict[str, Kernel] = {}
        self.kind = f"{_version('npaccel')}, {_version('llvmlite')}, {self._backend.identity}"

    def compile(self, step: KernelStep) -> Any:
        """The code of a step's kernel."""
        known = self._by_step.get(id(step))
        if known is not None and known[0] is step:
            return known[1]
        name = _name(step.kernel)
        found = self._known.get(name)
        if found is None:
            found = self._known[name] = self._backend.compile(step.kernel)
        if len(self._by_step) >= KNOWN:
            self._by_step.clear()
        self._by_step[id(step)] = step, found
        return found

    def __call__(self, step: KernelStep, arrays: list[Array], scalars: list[Any]) -> list[int]:
        return run_step(self.compile(step), step.extents, arrays, scalars)

    def lacking(self, steps: Iterable[KernelStep]) -> Lacks:
        """Kernels of these steps that there is no code for yet."""
        kernels = {_name(step.kernel): step.kernel for step in steps}
        found = {name: one for name, one in kernels.items() if name not in self._known}
        self._lacked.update(found)
        return Lacks(self.kind, tuple(found))

    def make(self, names: Iterable[str]) -> Code:
        """Compile some of what is lacking, for here and for others."""
        images = {}
        for name in names:
            kernel = self._lacked.pop(name)
            images[name] = self._backend.emit_object(kernel)
            self._known[name] = self._backend.link(kernel, images[name])
        return Code(self.kind, images)

    def take(self, code: Code) -> None:
        """Load what another node has compiled, if its kind is this one's."""
        for name, image in code.images.items() if code.kind == self.kind else ():
            kernel = self._lacked.pop(name, None)
            if kernel is not None and name not in self._known:
                with suppress(CompileError):  # then it compiles it itself
                    self._known[name] = self._backend.link(kernel, image)


def _name(kernel: Kernel) -> str:
    return digest(body_text(kernel))


def _version(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return f"no {package}"


compiled_here = functools.cache(Compiled)


def shared_out(lacks: Mapping[int, Lacks]) -> dict[int, list[str]]:
    """Who compiles what: each kernel once per kind, by that of its nodes which has least to do."""
    needed: dict[tuple[str, str], list[int]] = {}
    for node, one in lacks.items():
        for name in one.kernels:
            needed.setdefault((one.kind, name), []).append(node)
    found: dict[int, list[str]] = {node: [] for node in lacks}
    for (_, name), nodes in sorted(needed.items(), key=lambda item: len(item[1])):
        found[min(nodes, key=lambda node: len(found[node]))].append(name)
    return {node: names for node, names in found.items() if names}


class Library:
    """Code that nodes have compiled, for those that come later: in the place of one that died, or
    whose part of a plan needs a kernel that others have. What was used last stays longest."""

    def __init__(self) -> None:
        self._images: OrderedDict[tuple[str, str], bytes] = OrderedDict()
        self._size_bytes = 0

    def keep(self, code: Code) -> None:
        """Take in what a node has compiled."""
        for name, image in code.images.items():
            self._size_bytes += len(image) - len(self._images.pop((code.kind, name), b""))
            self._images[code.kind, name] = image
        while self._size_bytes > MOST_BYTES:
            self._size_bytes -= len(self._images.popitem(last=False)[1])

    def of(self, lacks: Lacks) -> Code:
        """What there is of what a node lacks."""
        keys = [(lacks.kind, name) for name in lacks.kernels]
        found = {name: self._images[kind, name] for kind, name in keys if (kind, name) in self}
        for name in found:
            self._images.move_to_end((lacks.kind, name))
        return Code(lacks.kind, found)

    def __contains__(self, key: tuple[str, str]) -> bool:
        return key in self._images


def compile_shared(
    ask: Callable[[Mapping[int, Order]], Mapping[int, Reply]],
    replies: Mapping[int, Reply],
    library: Library,
) -> tuple[int, int]:
    """Give nodes the code that they said they lack, and have them compile what there is none of.
    How many kernels were compiled, and sent."""
    lacks = {node: one.lacks for node, one in replies.items() if one.lacks is not None}
    known = {node: library.of(one) for node, one in lacks.items()}
    rest = {
        node: one._replace(kernels=tuple(n for n in one.kernels if n not in known[node].images))
        for node, one in lacks.items()
    }
    shares = shared_out(rest)
    orders = {
        node: Order(
            code=known[node] if known[node].images else None, compile=tuple(shares.get(node, ()))
        )
        for node in lacks
        if known[node].images or node in shares
    }
    if not orders:
        return 0, 0
    for reply in ask(orders).values():
        if reply.code is not None:
            library.keep(reply.code)
    sent = {}
    for node, one in rest.items():
        mine = set(shares.get(node, ()))
        code = library.of(one._replace(kernels=tuple(n for n in one.kernels if n not in mine)))
        if code.images:
            sent[node] = code
    if sent:
        ask({node: Order(code=code) for node, code in sent.items()})
    shipped = sum(len(code.images) for code in (*known.values(), *sent.values()))
    return sum(map(len, shares.values())), shipped
