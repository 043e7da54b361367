"""Pass `shifts`: what copies only shift around an axis is read where it came from.

`np.roll(u, 1, axis=0)` is recorded as two copies into memory of its own. Where nobody else sees
that, each later reader takes the element of `u` itself: an `Access` with `wraps`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence

from npaccel.ir.nodes import Kind, View, Wrap
from npaccel.ir.passes.draft import Access, Draft, Fact, Pass
from npaccel.ir.views import Region, overlaps, squeezed_axes

__all__ = ["SHIFTS"]

# Along an axis; what consists of more is not worth what their edges cost.
MOST_PIECES = 3


@dataclasses.dataclass(frozen=True, slots=True)
class _Place:
    """Elements of a buffer over all axes of a request, also those of extent 1.

    region : that they lie in. since : place of the first fact from which on they must not change.
    """

    buffer: int
    dtype: str
    offset: int
    strides: tuple[int, ...]
    wraps: tuple[Wrap, ...]
    region: Region
    since: int


@dataclasses.dataclass(frozen=True, slots=True)
class _Piece:
    """A copy into a box of a buffer."""

    begin: int  # offset of the box
    strides: tuple[int, ...]
    extents: tuple[int, ...]
    source: _Place


@dataclasses.dataclass(frozen=True, slots=True)
class _Shifted:
    """A dense buffer of these strides and extents, and where its elements come from."""

    strides: tuple[int, ...]
    extents: tuple[int, ...]
    source: _Place

    def read(self, view: View, shape: Sequence[int]) -> _Place | None:
        """Where a view of the buffer has its elements from; None: it is no box of it."""
        origin = _origin(view.offset, self.strides)
        fits = len(shape) == len(self.strides) and view.dtype == self.source.dtype
        if not fits or origin is None:
            return None
        source, offset, wraps = self.source, self.source.offset, []
        for axis, (start, extent) in enumerate(zip(origin, shape, strict=True)):
            if extent > 1 and view.strides[axis] != self.strides[axis]:
                return None
            if start + extent > self.extents[axis]:
                return None
            offset += start * source.strides[axis]
        for wrap in source.wraps:
            cut = wrap.cut - origin[wrap.axis]
            if cut <= 0:
                offset += wrap.step
            elif cut < shape[wrap.axis]:
                wraps.append(wrap._replace(cut=cut))
        strides = tuple(s if n > 1 else 0 for s, n in zip(source.strides, shape, strict=True))
        return dataclasses.replace(source, offset=offset, strides=strides, wraps=tuple(wraps))


def _origin(offset: int, strides: Sequence[int]) -> tuple[int, ...] | None:
    """Per axis the index of the element at `offset` of a dense array with these strides."""
    found = [0] * len(strides)
    for axis in sorted(range(len(strides)), key=lambda axis: -strides[axis]):
        if strides[axis]:
            found[axis], offset = divmod(offset, strides[axis])
    return None if offset else tuple(found)


def _common(views: Iterable[tuple[Sequence[int], Sequence[int]]], rank: int) -> list[int] | None:
    """Per axis the stride of all (strides, extents) that move along it; 0: none does."""
    found = [0] * rank
    for strides, extents in views:
        for axis in range(rank):
            if extents[axis] > 1:
                if strides[axis] <= 0 or found[axis] not in (0, strides[axis]):
                    return None
                found[axis] = strides[axis]
    return found


def _boxes(pieces: Sequence[_Piece], strides: Sequence[int]) -> dict[tuple[int, ...], _Piece]:
    """By their origins; none where two have the same, or one has none."""
    found: dict[tuple[int, ...], _Piece] = {}
    for piece in pieces:
        origin = _origin(piece.begin, strides)
        if origin is None or origin in found:
            return {}
        found[origin] = piece
    return found


def _shifted(pieces: Sequence[_Piece]) -> _Shifted | None:
    """What these pieces, all that there are, make of one source; None: no shift of it."""
    rank = len(pieces[0].extents)
    sources = {(p.source.buffer, p.source.dtype, p.source.wraps, len(p.extents)) for p in pieces}
    if len(sources) != 1:
        return None
    strides = _common([(p.strides, p.extents) for p in pieces], rank)
    steps = _common([(p.source.strides, p.extents) for p in pieces], rank)
    boxes = _boxes(pieces, strides) if strides and steps else {}
    corner = boxes.get((0,) * rank)
    if corner is None or strides is None or steps is None:
        return None
    wraps: list[Wrap] = []
    lengths: list[dict[int, int]] = []
    for axis in range(rank):
        found = _along(axis, boxes, steps[axis])
        if found is None:
            return None
        length, turns = found
        several = sum(length.values()) > 1
        if len(length) > MOST_PIECES or (several and not (strides[axis] and steps[axis])):
            return None
        lengths.append(length)
        wraps += turns
    inside = {wrap.axis for wrap in corner.source.wraps}
    if len(boxes) != math.prod(map(len, lengths)) or any(len(lengths[axis]) > 1 for axis in inside):
        return None
    if not all(_fits(at, piece, corner, steps, wraps, lengths) for at, piece in boxes.items()):
        return None
    source = dataclasses.replace(
        corner.source,
        strides=tuple(steps),
        wraps=(*corner.source.wraps, *wraps),
        region=_around([piece.source.region for piece in pieces]),
        since=min(piece.source.since for piece in pieces),
    )
    extents = tuple(sum(length.values()) for length in lengths)
    return _Shifted(tuple(strides), extents, source)


def _along(
    axis: int, boxes: Mapping[tuple[int, ...], _Piece], step: int
) -> tuple[dict[int, int], list[Wrap]] | None:
    """Extents by starts of the boxes along an edge of the array, and where the source's elements
    do not follow each other by `step`; None: there are gaps."""
    lengths: dict[int, int] = {}
    wraps: list[Wrap] = []
    rank = len(next(iter(boxes)))
    end, before = 0, boxes[(0,) * rank].source.offset
    for start in sorted({origin[axis] for origin in boxes}):
        piece = boxes.get((*(0,) * axis, start, *(0,) * (rank - axis - 1)))
        if piece is None or start != end:
            return None
        jump = piece.source.offset - start * step - before
        wraps += [Wrap(axis, start, jump)] if jump else []
        before += jump
        lengths[start] = piece.extents[axis]
        end += piece.extents[axis]
    return lengths, wraps


def _fits(
    origin: tuple[int, ...],
    piece: _Piece,
    corner: _Piece,
    steps: Sequence[int],
    wraps: Sequence[Wrap],
    lengths: Sequence[Mapping[int, int]],
) -> bool:
    """Whether the box at `origin` has the extents and the source that the array's edges tell."""
    offset = corner.source.offset + sum(i * s for i, s in zip(origin, steps, strict=True))
    offset += sum(wrap.step for wrap in wraps if origin[wrap.axis] >= wrap.cut)
    told = tuple(length[start] for length, start in zip(lengths, origin, strict=True))
    return piece.source.offset == offset and piece.extents == told


def _around(regions: Sequence[Region]) -> Region:
    """All bytes from the first to the last of some regions of one buffer."""
    low, high = min(r.low for r in regions), max(r.high for r in regions)
    item = regions[0].item
    return Region(low, high, item, (((high - low) // item, item),))


def _is_copy(fact: Fact) -> bool:
    request = fact.request
    views = (*request.inputs, *request.outputs)
    dtypes = {*request.loop, *(view.dtype for view in views if isinstance(view, View))}
    plain = request.kind is Kind.MAP and request.op == "copy" and request.mask is None
    return (
        plain and fact.reason is None and len(dtypes) == 1 and isinstance(request.inputs[0], View)
    )


class _Shifts:
    def __init__(self, draft: Draft) -> None:
        self.facts = draft.facts
        dead = {buffer.index for buffer in draft.trace.buffers if buffer.dead}
        self.reads: dict[int, list[tuple[int, Access]]] = {}
        self.writes: dict[int, list[tuple[int, Access]]] = {}
        for place, fact in enumerate(self.facts):
            for access in fact.accesses:
                uses = self.writes if access.write else self.reads
                uses.setdefault(access.buffer, []).append((place, access))
        self.found: dict[int, _Shifted] = {}
        # In order of their last writes: the sources of the later ones may be earlier ones.
        for buffer in sorted(dead & self.writes.keys(), key=lambda b: self.writes[b][-1][0]):
            shifted = self._buffer(buffer)
            if shifted is not None:
                self.found[buffer] = shifted

    def _buffer(self, buffer: int) -> _Shifted | None:
        places = [place for place, _ in self.writes[buffer]]
        reads = self.reads.get(buffer, [])
        if len(places) < 2 or not reads or reads[0][0] <= places[-1]:
            return None
        if not all(_is_copy(self.facts[place]) for place in places):
            return None
        pieces = []
        for place in places:
            request = self.facts[place].request
            out = request.outputs[0]
            source = self._source(place)
            pieces.append(_Piece(out.offset, out.strides, request.shape, source))
        shifted = _shifted(pieces)
        if shifted is None or not self._stays(shifted.source, reads[-1][0]):
            return None
        return shifted if all(self.read(*read, shifted) for read in reads) else None

    def _source(self, place: int) -> _Place:
        """Where a copy has its elements from."""
        fact = self.facts[place]
        view, access = fact.request.inputs[0], fact.accesses[0]
        assert isinstance(view, View)
        known = self.found.get(view.buffer)
        read = known.read(view, fact.request.shape) if known is not None else None
        if read is not None:
            return read
        return _Place(view.buffer, view.dtype, view.offset, view.strides, (), access.region, place)

    def read(self, place: int, access: Access, shifted: _Shifted) -> Access | None:
        """The access as one of the source; None: it needs the buffer itself."""
        fact = self.facts[place]
        request = fact.request
        view = request.mask if access.position is None else request.inputs[access.position]
        if fact.reason is not None or request.kind is not Kind.MAP or not isinstance(view, View):
            return None
        found = shifted.read(view, request.shape)
        if found is None:
            return None
        kept = squeezed_axes(request.shape)
        return dataclasses.replace(
            access,
            buffer=found.buffer,
            offset=found.offset,
            strides=tuple(found.strides[axis] for axis in kept),
            region=found.region,
            wraps=tuple(wrap._replace(axis=kept.index(wrap.axis)) for wrap in found.wraps),
        )

    def _stays(self, source: _Place, last: int) -> bool:
        """Whether nothing changes the source before the fact at `last` has read it."""
        return not any(
            source.since < place <= last and overlaps(source.region, access.region)
            for place, access in self.writes.get(source.buffer, ())
        )

    def fact(self, place: int) -> Fact:
        """The fact at `place`, reading sources."""
        fact = self.facts[place]
        if not any(access.buffer in self.found and not access.write for access in fact.accesses):
            return fact
        accesses = []
        for access in fact.accesses:
            shifted = None if access.write else self.found.get(access.buffer)
            read = access if shifted is None else self.read(place, access, shifted)
            assert read is not None  # else it would not be among those that are found
            accesses.append(read)
        return dataclasses.replace(fact, accesses=tuple(accesses))


def _run(draft: Draft) -> Draft:
    shifts = _Shifts(draft)
    if not shifts.found:
        return draft
    return dataclasses.replace(draft, facts=tuple(map(shifts.fact, range(len(draft.facts)))))


SHIFTS = Pass("shifts", "what is only shifted is read where it came from", _run)
