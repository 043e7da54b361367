"""What the passes hand to each other: a trace and what is known of it so far."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from npaccel.ir.fold_order import FoldOrder
from npaccel.ir.limits import Limits
from npaccel.ir.nodes import KernelStep, Plan, Request, RequestStep, Trace, Wrap
from npaccel.ir.operation import Op
from npaccel.ir.views import Region

__all__ = ["Access", "Cut", "Draft", "Fact", "Group", "Member", "Need", "Pass", "Role"]


class Cut(NamedTuple):
    """Of a request: in how many requests' kernel it may be at most, and why. 0: it is NumPy's."""

    most: int
    why: str


class Need(enum.IntEnum):
    """Why a request is computed."""

    NOTHING = 0
    FLAGS = 1  # nobody sees its results, but it may warn
    VALUES = 2


class Role(enum.Enum):
    """How a request takes part in a kernel's loops."""

    FULL = "full"  # a map over the whole domain
    REDUCE = "reduce"  # from the whole domain to the band
    ROW = "row"  # a map over the band


@dataclass(frozen=True, slots=True)
class Access:
    """One operand of a request as memory. position: of inputs; -1 - k for output k; None: mask.

    strides: over the request's axes that are not 1. table: extent and step that an index moves
    over, in a GATHER's source; else empty. wraps: along the same axes. region holds all of it.
    """

    buffer: int
    dtype: str
    offset: int
    strides: tuple[int, ...]
    region: Region
    write: bool
    position: int | None
    table: tuple[int, ...] = ()
    wraps: tuple[Wrap, ...] = ()


@dataclass(frozen=True, slots=True)
class Fact:
    """What the passes need to know of one request.

    space : its shape without the axes of extent 1
    axes : reduced axes of `space`
    op : its row, or None where `reason` says why no kernel can compute it
    may_warn : whether a recorded warning is asked for
    size : operations of its body, about
    order : in which a float sum or product takes its elements, as axes of `space`
    """

    request: Request
    space: tuple[int, ...]
    axes: tuple[int, ...]
    accesses: tuple[Access, ...]
    op: Op | None
    reason: str | None
    may_warn: bool
    size: int
    order: FoldOrder | None = None


@dataclass(frozen=True, slots=True)
class Member:
    """A request in a group: when it runs (see Note [Times]) and in which role."""

    request: int
    time: int
    role: Role


@dataclass(frozen=True, slots=True)
class Group:
    """Requests that become one kernel, in program order; `axes` None: nothing is reduced.

    space : the kernel's domain before its axes are ordered and collapsed
    reason : why the one request in it runs as it is; None for a kernel
    order : of its float sums and products, which the kernel's loops keep
    """

    space: tuple[int, ...]
    axes: tuple[int, ...] | None
    members: tuple[Member, ...]
    reason: str | None = None
    order: FoldOrder | None = None


# Note [Times]
# The leaves of a kernel alternate in time: row leaf 0, inner leaf 1, row leaf 2, inner leaf 3, ...
# A map over the domain runs at an odd time, a map over the band at an even one. A reduction at
# the odd time t has its result in the row leaf at t + 1.


@dataclass(frozen=True, slots=True)
class Draft:
    """A trace on its way to a plan; each pass fills in what it finds."""

    trace: Trace
    limits: Limits
    cuts: Mapping[int, Cut] = field(default_factory=dict)
    facts: tuple[Fact, ...] = ()
    needs: tuple[Need, ...] = ()
    groups: tuple[Group, ...] = ()
    steps: tuple[KernelStep | RequestStep, ...] = ()
    plan: Plan | None = None


@dataclass(frozen=True, slots=True)
class Pass:
    """A step of a pipeline: a pure function from draft to draft."""

    name: str
    doc: str
    run: Callable[[Draft], Draft]
