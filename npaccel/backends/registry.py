"""Finds a backend by name: our own, or one from the entry-point group ``npaccel.backends``."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

from npaccel.config import c_compiler
from npaccel.errors import BackendUnavailable
from npaccel.later import later

shutil = later("shutil")
if TYPE_CHECKING:
    from npaccel.backends.base import Backend

__all__ = ["GROUP", "HOST", "available", "is_device", "open_backend"]

GROUP = "npaccel.backends"
# What compiles for the host: LLVM, or where that is missing the system's compiler, if there is.
HOST = "c" if find_spec("llvmlite") is None and shutil.which(c_compiler().split()[0]) else "llvm"
_OWN = {
    "c": "npaccel.backends.c.backend:CBackend",
    "cuda": "npaccel.backends.cuda.backend:CudaBackend",
    "llvm": "npaccel.backends.llvm.backend:LlvmBackend",
    "opencl": "npaccel.backends.opencl.backend:OpenclBackend",
}


def is_device(backend: str) -> bool:
    """Whether a setting names a device that is not the host's own code."""
    return backend not in ("auto", HOST, "numpy")


def _declared() -> Mapping[str, str]:
    """Name to "module:attribute". Ours win over others' of the same name."""
    from importlib.metadata import entry_points  # as costly as all the rest of our import

    return {entry.name: entry.value for entry in entry_points(group=GROUP)} | _OWN


def available() -> tuple[str, ...]:
    """Names that `open_backend` knows, whether or not they work here; the host's own first."""
    return tuple(sorted(_declared(), key=lambda name: (name != HOST, name)))


def open_backend(name: str) -> Backend:
    """Import and make the backend `name`, or its device `name:number`; the caller keeps it.

    Raises
    ------
    BackendUnavailable : there is no such backend, or this machine lacks what it needs.
    """
    kind, _, number = name.partition(":")
    place = _OWN.get(kind) or _declared().get(kind)
    if place is None:
        known = ", ".join(available())
        raise BackendUnavailable(f"there is no backend {name!r}; known are: {known}")
    module_name, _, attribute = place.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise BackendUnavailable(f"{name}: {error}; install what it needs") from error
    make = getattr(module, attribute)
    backend: Backend = make(number) if number else make()
    return backend
