"""Kernels on nodes: each is compiled by one of those that need it, and sent to the others.

    recipes ──► nodes plan, and say what they lack ──► each kernel: who compiles it
    images  ◄── of what they were asked for        ──► to all others of the same kind

Code goes to nodes of the same kind alone: of the same processor, compiler and npaccel. Who gets
code of another kind does not load it; what a node still lacks when it runs, it compiles itself.
"""

from __future__ import annotations

import functools
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

__all__ = ["Compiled", "compile_shared", "compiled_here", "shared_out"]

Array = np.ndarray[Any, Any]
KNOWN = 4096  # kernels that a worker finds without looking at them


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


def compile_shared(
    ask: Callable[[Mapping[int, Order]], Mapping[int, Reply]], replies: Mapping[int, Reply]
) -> tuple[int, int]:
    """Have nodes compile what they said that they lack. How many were compiled, and sent."""
    lacks = {node: one.lacks for node, one in replies.items() if one.lacks is not None}
    shares = shared_out(lacks)
    if not shares:
        return 0, 0
    made = ask({node: Order(compile=tuple(names)) for node, names in shares.items()})
    images: dict[str, dict[str, bytes]] = {}
    for reply in made.values():
        if reply.code is not None:
            images.setdefault(reply.code.kind, {}).update(reply.code.images)
    sent = {}
    for node, one in lacks.items():
        others = images.get(one.kind, {}).keys() & set(one.kernels) - set(shares.get(node, ()))
        if others:
            sent[node] = Code(one.kind, {name: images[one.kind][name] for name in others})
    if sent:
        ask({node: Order(code=code) for node, code in sent.items()})
    return sum(map(len, shares.values())), sum(len(code.images) for code in sent.values())
