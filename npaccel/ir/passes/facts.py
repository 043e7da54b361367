"""Pass `facts`: look each request up once, and decide whether a kernel can compute it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

from npaccel.ir.fold_order import FoldOrder, fold_order
from npaccel.ir.limits import Limits
from npaccel.ir.nodes import FlagKind, Fold, Kind, Request, View
from npaccel.ir.operation import Op
from npaccel.ir.ops import find
from npaccel.ir.passes.draft import Access, Cut, Draft, Fact, Pass
from npaccel.ir.passes.rewrite import substitute
from npaccel.ir.scalar import SCANNED, Pool, Value, usual
from npaccel.ir.views import Region, gathered, overlaps, region, squeezed_axes

__all__ = ["FACTS", "flag_kinds", "kinds_asked"]

FLOATING = "fc"
ORDERED = (Fold.SUM, Fold.PRODUCT)
# What a sum or product may raise though no element was infinite or NaN.
GROWTH = frozenset({FlagKind.OVER, FlagKind.INVALID})


_Measured = tuple[Op | None, int, frozenset[FlagKind]]
_ASKED = tuple(
    tuple(kind for bit, kind in enumerate(FlagKind) if errstate >> (2 * bit) & 3)
    for errstate in range(256)
)


def kinds_asked(errstate: int) -> tuple[FlagKind, ...]:
    """The kinds of warning that an errstate does not ignore."""
    return _ASKED[errstate]


class _Looker:
    """Makes facts; remembers bodies and regions that were seen before."""

    def __init__(self, limits: Limits, cuts: Mapping[int, Cut]) -> None:
        self.limits = limits
        self.cuts = cuts
        self.bodies: dict[tuple[str, tuple[str, ...], bool], _Measured] = {}
        self.regions: dict[tuple[str, int, tuple[int, ...], tuple[int, ...]], Region] = {}
        self.casts: dict[tuple[str, str], frozenset[FlagKind]] = {}

    def body(self, request: Request) -> _Measured:
        key = (request.op, request.loop, request.fast)
        if key not in self.bodies:
            self.bodies[key] = _measure(*key)
        op = self.bodies[key][0]
        replaced = substitute(request) if op is not None and op.body is None else None
        return self.bodies[key] if replaced is None else _measured(request.loop, *replaced)

    def cast(self, source: str, target: str) -> frozenset[FlagKind]:
        key = (source, target)
        if key not in self.casts:
            self.casts[key] = _measure("copy", key)[2]
        return self.casts[key]

    def region(self, view: View, shape: tuple[int, ...]) -> Region:
        key = (view.dtype, view.offset, view.strides, shape)
        found = self.regions.get(key)
        if found is None:
            found = self.regions[key] = region(view, shape)
        return found

    def access(
        self, view: View, request: Request, kept: tuple[int, ...], position: int | None
    ) -> Access:
        write = position is not None and position < 0
        shape, strides = request.shape, view.strides
        if len(kept) != len(shape):
            strides = tuple(strides[axis] for axis in kept)
        whole = gathered(request) if position == 0 else None
        found = self.region(view, shape) if whole is None else self.region(*whole)
        table = () if whole is None else (whole[1][-1], whole[0].strides[-1])
        return Access(view.buffer, view.dtype, view.offset, strides, found, write, position, table)

    def written_by_empty(self, request: Request) -> tuple[Access, ...]:
        """What a request over no elements writes: a reduction may still have results."""
        axes = request.axes if request.kind is Kind.REDUCE else ()
        shape = tuple(1 if axis in axes else n for axis, n in enumerate(request.shape))
        if 0 in shape:
            return ()
        kept = squeezed_axes(shape)
        whole = dataclasses.replace(request, shape=shape)
        return tuple(
            self.access(view, whole, kept, -1 - position)
            for position, view in enumerate(request.outputs)
        )

    def fact(self, request: Request) -> Fact:
        kept = squeezed_axes(request.shape)
        space = tuple(request.shape[axis] for axis in kept)
        axes = tuple(place for place, axis in enumerate(kept) if axis in request.axes)
        if 0 in request.shape:
            written = self.written_by_empty(request)
            return Fact(request, space, axes, written, None, "empty", False, 0)
        accesses = [
            self.access(operand, request, kept, position)
            for position, operand in enumerate(request.inputs)
            if isinstance(operand, View)
        ]
        if request.mask is not None:
            accesses.append(self.access(request.mask, request, kept, None))
        for position, view in enumerate(request.outputs):
            accesses.append(self.access(view, request, kept, -1 - position))
        op, size, kinds = self.body(request)
        if request.kind not in (Kind.MAP, Kind.SCAN):
            grows = op is not None and op.fold in (Fold.SUM, Fold.PRODUCT)
            kinds = GROWTH if grows and request.loop[-1][0] in FLOATING else frozenset()
        kinds = kinds.union(*(self.cast(a, b) for a, b in _casts(request)))
        asked = kinds_asked(request.errstate)
        reason = self.reason(request, op, asked, accesses)
        cut = self.cuts.get(request.index)
        if reason is None and cut is not None and cut.most == 0:
            reason = cut.why
        if reason is None and request.kind is Kind.SCAN:
            reason = _reason_of_rows(space, axes, self.limits)
        # Nothing is known of the warnings of what NumPy computes.
        may_warn = bool(asked) if reason is not None else not kinds.isdisjoint(asked)
        size += len(request.loop)
        found = None if reason is not None else op
        order = _order(request, op, space, axes, accesses[0]) if accesses else None
        return Fact(request, space, axes, tuple(accesses), found, reason, may_warn, size, order)

    def reason(
        self, request: Request, op: Op | None, asked: tuple[FlagKind, ...], accesses: list[Access]
    ) -> str | None:
        """Why no kernel can compute the request, or None."""
        if FlagKind.UNDER in asked and _floating(request):
            return "underflow is asked for"
        if request.numpys:
            return "too small for a result of our own"
        reason = _reason_of_kind(request, op)
        if reason is not None:
            return reason
        for access in accesses:
            if access.write and any(_clash(access, other) for other in accesses):
                return "result overlaps an operand"
        return None


def _clash(access: Access, other: Access) -> bool:
    """Whether a written view meets another operand otherwise than element by element."""
    if other is access or other.buffer != access.buffer:
        return False
    same = (other.dtype, other.offset, other.strides, other.table) == (
        access.dtype,
        access.offset,
        access.strides,
        (),
    )
    return (not same or other.write) and overlaps(access.region, other.region)


def _order(
    request: Request,
    op: Op | None,
    space: tuple[int, ...],
    axes: tuple[int, ...],
    operand: Access,
) -> FoldOrder | None:
    """The order in which a float sum or product takes its elements; None for other requests."""
    folds = request.kind is Kind.REDUCE and op is not None and op.fold in ORDERED
    if not folds or not axes or request.loop[-1][0] not in FLOATING:
        return None
    return fold_order(space, operand.strides, axes)


def _measure(name: str, loop: tuple[str, ...], fast: bool = False) -> _Measured:
    return _measured(loop, find(name, loop, fast=fast))


def _measured(
    loop: tuple[str, ...], op: Op | None, position: int | None = None, value: Value = 0.0
) -> _Measured:
    """position : of an operand that is a constant, `value`."""
    if op is None or op.body is None:
        return op, 1, frozenset()
    pool = Pool()
    operands = tuple(
        pool.load(dtype, i) if i != position else pool.const(dtype, value)
        for i, dtype in enumerate(loop[: op.nin])
    )
    body = op.body(*operands)
    results = body if isinstance(body, tuple) else (body,)
    size = len(usual(results))
    kinds = frozenset(kind for kind, _ in op.flags(operands, results)) if op.flags else frozenset()
    return op, size, kinds


def flag_kinds(name: str, loop: tuple[str, ...]) -> frozenset[FlagKind]:
    """What an operation with a scalar form may warn of, whatever its operands are."""
    return _measure(name, loop)[2]


def _casts(request: Request) -> list[tuple[str, str]]:
    """Casts of array operands on the way into and out of the loop."""
    if request.kind is Kind.IOTA:
        return []
    nin = len(request.loop) - len(request.outputs)
    casts = [
        (operand.dtype, dtype)
        for operand, dtype in zip(request.inputs, request.loop[:nin], strict=False)
        if isinstance(operand, View) and operand.dtype != dtype
    ]
    outputs = zip(request.loop[nin:], request.outputs, strict=True)
    return casts + [(dtype, view.dtype) for dtype, view in outputs if dtype != view.dtype]


def _floating(request: Request) -> bool:
    dtypes = request.loop + tuple(view.dtype for view in request.outputs)
    return any(dtype[0] in FLOATING for dtype in dtypes)


def _reason_of_kind(request: Request, op: Op | None) -> str | None:
    loop = ".".join(request.loop)
    if request.kind is Kind.SCAN:
        known = op is not None and op.body is not None and request.op in SCANNED
        return (
            None if known and request.loop[-1][0] != "c" else f"{request.op} has no scan for {loop}"
        )
    if request.kind is Kind.GATHER:
        return None
    if request.kind is Kind.IOTA:
        return "complex iota" if request.loop[-1][0] == "c" else None
    if request.kind is Kind.MAP:
        if op is None or op.body is None:
            return f"{request.op} has no scalar form for {loop}"
        if len(request.inputs) != op.nin or len(request.outputs) != op.nout:
            return f"{request.op} is called with an unusual number of operands"
        return None
    if op is None or op.fold is None or (op.fold is Fold.PRODUCT and request.loop[-1][0] == "c"):
        return f"{request.op} has no fold for {loop}"
    if len(request.inputs) > 1 and op.body is None:
        return f"{request.op} cannot start from an initial value"
    if request.mask is not None and all(request.shape[axis] == 1 for axis in request.axes):
        return "masked reduction of single elements"
    return None


def _reason_of_rows(space: tuple[int, ...], axes: tuple[int, ...], limits: Limits) -> str | None:
    """A scan goes through its rows one by one: there must be enough of them for all threads."""
    if not axes:
        return None
    inner = math.prod(space[axis] for axis in axes)
    long = inner >= limits.inner_points
    few = long and math.prod(space) // inner < limits.band_points
    return "scan along few rows" if few or len(space) == 1 else None


def _run(draft: Draft) -> Draft:
    looker = _Looker(draft.limits, draft.cuts)
    facts = tuple(looker.fact(request) for request in draft.trace.requests)
    return dataclasses.replace(draft, facts=facts)


FACTS = Pass("facts", "what each request reads, writes, computes and may warn of", _run)
