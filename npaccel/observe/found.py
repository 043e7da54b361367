"""What an explanation is made of: steps, what they read and write, and what NumPy did instead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from npaccel.ir.nodes import Kernel
from npaccel.observe import graph
from npaccel.observe.hindrances import Hindrance
from npaccel.observe.operations import Operation
from npaccel.observe.ran import Ran, Tried
from npaccel.runtime.devices.auto import Estimate

__all__ = ["Access", "Fallback", "Found", "Home", "Reduction", "Step", "Tried"]


class Access(NamedTuple):
    """An array that a step reads or writes. how: contiguous, strided, repeated, shifted (around an
    axis, as by np.roll), or streamed (a contiguous store past the cache). The buffer's number is
    that of `Explanation.ir`."""

    buffer: int
    dtype: str
    how: str


class Reduction(NamedTuple):
    """A fold inside a kernel ("sum", "max"), and the dtype of what it folds."""

    fold: str
    dtype: str


class Step(NamedTuple):
    """A kernel, or one operation by NumPy's own loop, or all that a cluster ran.

    Attributes
    ----------
    kernel : its name; empty for NumPy's loop, then `reason` says why, and for a cluster, which
        `backend` names, then that is its plan.
    band, inner : extents of the kernel's parallel outer loop and of the loops inside it.
    scratch : dtypes of row-local temporary arrays.
    """

    kernel: str
    backend: str
    operations: tuple[Operation, ...]
    band: tuple[int, ...] = ()
    inner: tuple[int, ...] = ()
    loads: tuple[Access, ...] = ()
    stores: tuple[Access, ...] = ()
    reductions: tuple[Reduction, ...] = ()
    scratch: tuple[str, ...] = ()
    bytes_read: int = 0
    bytes_written: int = 0
    reason: str = ""


class Fallback(NamedTuple):
    """Calls that NumPy did instead: function, why, the user's "file:line", how many."""

    function: str
    reason: str
    site: str
    calls: int


class Home(NamedTuple):
    """Data that came from a device to the host: why, for the user's "file:line", how often."""

    device: str
    reason: str
    site: str
    times: int
    bytes: int


@dataclass(frozen=True, repr=False)
class Found:
    """The attributes of an `Explanation`, which says what each is."""

    heading: str
    fallbacks: tuple[Fallback, ...]
    run: int | None = None
    pending: bool = False
    steps: tuple[Step, ...] = ()
    dropped: tuple[Operation, ...] = ()
    fused_away: int = 0
    plan_known: bool | None = None
    ir: str = ""
    estimates: tuple[Estimate, ...] = ()
    choice: str = ""
    moved: tuple[int, int] = (0, 0)
    moving_s: tuple[float, float] = (0.0, 0.0)
    unguarded: str = ""
    brought_home: tuple[Home, ...] = ()
    hindrances: tuple[Hindrance, ...] = ()
    no_helper: str = ""
    runs: tuple[Ran, ...] = ()
    tried: tuple[Tried, ...] = ()
    kernels: tuple[Kernel, ...] = ()
    links: tuple[graph.Operation, ...] = ()
    together: tuple[graph.Together, ...] = ()

    @property
    def svg(self) -> str:
        """A picture of it."""
        return graph.svg(self.links, self.together)
