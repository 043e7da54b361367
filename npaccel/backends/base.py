"""What a backend is: the protocols that the engine relies on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from npaccel.ir.scalar import Core
from npaccel.later import later

if TYPE_CHECKING:
    from npaccel.ir import nodes
else:
    nodes = later("npaccel.ir.nodes")

__all__ = ["Backend", "Capabilities", "Compiled", "Grid", "Loaded"]


class Capabilities(NamedTuple):
    """What a backend can run.

    missing: primitives that it lacks; an operation that needs one falls back, with that reason.
    vector_band: whether it runs kernels whose lanes lie along the last band axis.
    """

    missing: frozenset[Core] = frozenset()
    vector_band: bool = True


class Grid(NamedTuple):
    """Tasks: the band's [0, n_band) in steps of band_step times the inner [0, n_inner) in steps.

    n_inner counts elements of the inner axis if it is the only one, else rows of the outer inner
    axes; it is 1 for a kernel that is not split.
    """

    n_band: int
    band_step: int
    n_inner: int
    inner_step: int


class Loaded(NamedTuple):
    """Object code in memory, not tied to a Kernel: what a stored program runs.

    main, finish: addresses; finish is 0 without one. `library` keeps the code, `size` bytes of it.
    vector_bytes: size of the vector registers it was made for.
    """

    main: int
    finish: int
    vector_bytes: int
    size: int
    library: object


class Compiled(Protocol):
    """A kernel in machine code of the host; the code lives as long as this object.

    main, finish: addresses of the functions that the C core calls; finish is 0 without one.
    """

    @property
    def kernel(self) -> nodes.Kernel: ...
    @property
    def main(self) -> int: ...
    @property
    def finish(self) -> int: ...
    @property
    def image(self) -> bytes: ...
    def scratch_bytes(self, extents: Sequence[int]) -> int:
        """Bytes of scratch that each running task needs, aligned to 64."""

    def parts(self, extents: Sequence[int]) -> int:
        """Parts per band point that the finish function combines; 0 without one."""

    def partial_bytes(self, extents: Sequence[int]) -> int:
        """Bytes of partial results that a launch needs, aligned to 64."""

    def task_grid(self, extents: Sequence[int], threads: int) -> Grid:
        """How to cut the domain into tasks; results never depend on it."""


class Backend(Protocol):
    """A machine that runs kernels."""

    @property
    def name(self) -> str: ...
    @property
    def fingerprint(self) -> str:
        """Text that changes whenever stored object code would not do any more."""

    @property
    def identity(self) -> str:
        """Like `fingerprint`, but known without loading a compiler: part of the cache's keys."""

    @property
    def capabilities(self) -> Capabilities: ...
    @property
    def device(self) -> str:
        """The machine it compiles for, as its compiler names it."""

    @property
    def vector_bytes(self) -> int:
        """Size of the widest vector register."""

    def compile(self, kernel: nodes.Kernel) -> Compiled:
        """Compile and load; raises CompileError."""

    def emit_object(self, kernel: nodes.Kernel) -> bytes:
        """Compile only: object code for `link`, here or where the fingerprint is the same."""

    def link(self, kernel: nodes.Kernel, image: bytes) -> Compiled:
        """Load object code that `emit_object` made of the same kernel."""

    def load(self, image: bytes, symbols: tuple[str, ...], vector_bytes: int) -> Loaded:
        """Load object code; needs no compiler as a rule. Raises CompileError."""

    def symbols(self, kernel: nodes.Kernel) -> tuple[str, ...]:
        """Functions that the object code of `kernel` defines."""

    def bind(self, kernel: nodes.Kernel, loaded: Loaded) -> Compiled:
        """What `loaded`, made of this very kernel, needs to know to be launched."""
