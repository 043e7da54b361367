"""Kernels ready to be launched: from memory, from the cache on disk, or compiled now."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from cachetools import LRUCache

from npaccel import _native
from npaccel.backends.base import Backend, Compiled, Loaded
from npaccel.caches.program import KernelCache
from npaccel.caches.store import Store, digest
from npaccel.errors import CompileError, Unsupported
from npaccel.later import later

if TYPE_CHECKING:
    from npaccel.ir import nodes, text
else:
    text = later("npaccel.ir.text")
    nodes = later("npaccel.ir.nodes")

__all__ = ["Image", "Kernels", "MissingCode", "c_text", "kernel_key", "pack_image", "unpack_image"]

KEYS = 4096
# Symbols of an image, vector_bytes, object code.
Image = tuple[tuple[str, ...], int, bytes]


def c_text(kernel: nodes.Kernel) -> str:
    """The kernel as C for this processor, for people."""
    printer = importlib.import_module("npaccel.backends.c.printer")
    source: str = printer.write_source(kernel, _native.cpu()[1])
    return source


class MissingCode(Exception):
    """A kernel's code is neither in memory nor on disk."""


def pack_image(image: Image) -> bytes:
    """An Image as one entry of the cache."""
    symbols, vector_bytes, code = image
    return f"{' '.join(symbols)}\n{vector_bytes}\n".encode() + code


def unpack_image(entry: bytes) -> Image:
    """What `pack_image` made."""
    symbols, vector_bytes, code = entry.split(b"\n", 2)
    return tuple(symbols.decode().split()), int(vector_bytes), code


def kernel_key(identity: str, backend: Backend, kernel: nodes.Kernel) -> str:
    """The digest of all that a kernel's code depends on."""
    return digest(identity, backend.identity, text.body_text(kernel))


class Kernels:
    """Loaded kernels of one backend.

    Parameters
    ----------
    backend : opens it, and may raise BackendUnavailable.
    store : the cache on disk as it is now; None: there is none.
    identity : what entries on disk depend on besides the kernel; asked for when one is wanted.
    limit : bytes of machine code kept in memory.

    Attributes
    ----------
    compiled, loaded : how many kernels were compiled here, and how many came from disk.
    """

    def __init__(
        self,
        backend: Callable[[], Backend],
        store: Callable[[], Store | None],
        identity: Callable[[], str],
        limit: int,
    ) -> None:
        self._backend = backend
        self._store = store
        self._identity = identity
        self._memory = KernelCache(limit, lambda loaded: loaded.size)
        # By the kernel's id, with the kernel itself so that the id stays its own: plans that are
        # moved to other sizes come with the same kernels again and again.
        self._keys: LRUCache[int, tuple[nodes.Kernel, str]] = LRUCache(KEYS)
        # What the compiler said of kernels that it rejected.
        self._rejected: LRUCache[str, str] = LRUCache(KEYS)
        self.compiled = 0
        self.loaded = 0

    def key(self, kernel: nodes.Kernel) -> str:
        """The digest under which the code of `kernel` is known, in memory and on disk."""
        known = self._keys.get(id(kernel))
        if known is None:
            made = kernel_key(self._identity(), self._backend(), kernel)
            known = self._keys[id(kernel)] = (kernel, made)
        return known[1]

    def get(self, kernel: nodes.Kernel) -> tuple[str, Compiled]:
        """The kernel, compiled now if it is not known, and its key.

        Raises
        ------
        CompileError : the compiler rejects it.
        BackendUnavailable : there is no compiler.
        """
        key, backend = self.key(kernel), self._backend()
        loaded = self.find(key)
        if loaded is not None:
            return key, backend.bind(kernel, loaded)
        if key in self._rejected:
            raise CompileError(self._rejected[key])
        self.compiled += 1
        image = backend.symbols(kernel), backend.vector_bytes, self._emit(key, kernel)
        self.keep(key, image)
        return key, backend.bind(kernel, self.add(key, image))

    def _emit(self, key: str, kernel: nodes.Kernel) -> bytes:
        try:
            return self._backend().emit_object(kernel)
        except Unsupported:
            raise
        except CompileError as error:
            self._rejected[key] = str(error)
            raise

    def find(self, key: str) -> Loaded | None:
        """Code from memory or from disk; None: it has to be compiled."""
        found: Loaded | None = self._memory.get(key)
        store = self._store()
        if found is not None or store is None:
            return found
        entry = store.get(key)
        if entry is None:
            return None
        try:
            found = self.add(key, unpack_image(entry))
        except Unsupported:  # of this process, not of the code
            raise
        except (CompileError, ValueError):  # not damaged, but not made by us either
            store.drop(key)
            return None
        self.loaded += 1
        return found

    def has(self, key: str) -> bool:
        """Whether the code is in memory."""
        return self._memory.get(key) is not None

    def known(self, kernel: nodes.Kernel) -> tuple[str, Compiled]:
        """Like `get`, but compiles nothing; raises MissingCode."""
        key = self.key(kernel)
        loaded = self.find(key)
        if loaded is None:
            raise MissingCode(kernel.name)
        return key, self._backend().bind(kernel, loaded)

    def add(self, key: str, image: Image) -> Loaded:
        """Load code and keep it in memory; raises CompileError."""
        symbols, vector_bytes, code = image
        loaded = self._backend().load(code, symbols, vector_bytes)
        self._memory.add(key, loaded)
        return loaded

    def keep(self, key: str, image: Image) -> None:
        """Store code on disk, if there is a cache."""
        store = self._store()
        if store is not None:
            store.put(key, pack_image(image))

    def resize(self, limit: int) -> None:
        """Keep no more than `limit` bytes in memory."""
        self._memory.resize(limit)

    @property
    def size_bytes(self) -> int:
        return self._memory.size_bytes

    def clear(self) -> None:
        """Forget what is in memory."""
        self._memory.clear()
        self._keys.clear()
        self._rejected.clear()

    def __len__(self) -> int:
        return len(self._memory)
