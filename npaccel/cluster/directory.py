"""What the process that drives a cluster knows: which node has what, and which plans there are.

A *piece* is an array's memory there. Written before anything has placed it, its bytes wait here;
the first plan that uses it places it. Plans are kept by what they were made of: requests, and where
their pieces are. Values of scalars are not part of that.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from npaccel.cluster.calling import Source
from npaccel.cluster.checkpoints import (
    COPY,
    PIECE,
    Checkpoint,
    Entry,
    Piece,
    goes_astray,
    neighbour,
    restoring,
    saving,
    spread_loss,
)
from npaccel.cluster.compiling import Library, compile_shared
from npaccel.cluster.dask_workers import WorkersLost
from npaccel.cluster.filing import files_of, load_orders, parts_of, save_orders
from npaccel.cluster.messages import DONE, LOST, REFUSED, Asked
from npaccel.cluster.orders import (
    Fill,
    Get,
    Order,
    Put,
    Recipe,
    Reply,
    RunOrder,
    part_of,
)
from npaccel.cluster.parts import Block
from npaccel.cluster.placing import Layout, Placed, Share
from npaccel.cluster.planner import plan_requests
from npaccel.cluster.plans import ClusterPlan, Stage
from npaccel.cluster.regions import aligned, parts
from npaccel.cluster.words import changed, sizes_of
from npaccel.ir.nodes import BufferInfo, Trace
from npaccel.runtime.programs.trace import Requests, decode

__all__ = ["Directory", "Nodes"]

Array = np.ndarray[Any, Any]
MOST_RECIPES = 64
MOST_TOLD = 32  # runs whose plan is known yet
MOST_PLACEMENTS = 4096  # that are remembered while nothing is placed so
COUNTS = (
    *("plans", "plan_hits", "compiled", "shipped", "messages", "moved_bytes", "written_bytes"),
    *("read_bytes", "checkpoints", "returns", "replayed"),
)
TRIES = 5  # to come back to a checkpoint, while nodes die


class Nodes(Protocol):
    """What has nodes: `ask` raises WorkersLost with the numbers of those that are gone."""

    nodes: int

    def ask(self, orders: Mapping[int, Order]) -> dict[int, Reply]: ...
    def speeds(self) -> list[float]: ...


class Lost(Exception):
    """Something that was asked for is gone with the node that had it."""


@dataclasses.dataclass(slots=True)
class Known:
    """A plan, each node's part, and which nodes have got it. scalars : that it was made with."""

    number: int
    plan: ClusterPlan
    recipes: dict[int, Recipe]
    scalars: bytes
    sent: set[int] = dataclasses.field(default_factory=set)


class Directory:
    """Pieces by number, and plans.

    Attributes
    ----------
    losses : how often something was lost with a node.
    told : of the last runs the plan.
    counts : what happened, for `npaccel.stats`; reasons : why runs were refused.
    """

    def __init__(self, fleet: Nodes) -> None:
        self.fleet = fleet
        self.pieces: dict[int, Piece] = {}
        self.maps: dict[int, Placed] = {}
        self.losses = 0
        self.counts: Counter[str] = Counter(dict.fromkeys(COUNTS, 0))
        self.reasons: Counter[str] = Counter()
        self.checkpoint: Checkpoint | None = None
        self._interned: dict[tuple[Layout, tuple[Share, ...]], tuple[int, Placed]] = {}
        self._most, self._numbered = MOST_PLACEMENTS, 0
        self._known: OrderedDict[Any, Known] = OrderedDict()
        self._made = self._runs = self._done = 0
        self.told: dict[int, ClusterPlan] = {}
        self._pending: dict[int, list[Put]] = {}
        self._drops: dict[int, list[int]] = {}
        self._forget: list[int] = []
        self._library = Library()

    # Where things are.

    def intern(self, placed: Placed) -> Placed:
        """The one object for placements that are equal."""
        key = placed.layout, tuple(placed.shares)
        if key not in self._interned:
            if len(self._interned) >= self._most:
                self._forget_placements()
            self._numbered += 1
            self._interned[key] = self._numbered, placed
        return self._interned[key][1]

    def _forget_placements(self) -> None:
        """Those that nothing has: no piece, nor one of the maps that were noted last."""
        for number in list(self.maps)[: -self._most // 2]:
            del self.maps[number]
        pieces = [*self.pieces.values()]
        pieces += self.checkpoint.pieces.values() if self.checkpoint is not None else ()
        used = {id(one.placed) for one in pieces} | {id(one) for one in self.maps.values()}
        kept = {key: one for key, one in self._interned.items() if id(one[1]) in used}
        self._interned = kept
        self._most = max(MOST_PLACEMENTS, 2 * len(kept))

    def _number(self, placed: Placed | None) -> int:
        return 0 if placed is None else self._interned[placed.layout, tuple(placed.shares)][0]

    def note_map(self, layout: Layout, shares: Sequence[Share]) -> int:
        """The number of a map, for arrays that are to be placed so."""
        placed = self.intern(Placed(layout, shares))
        number = self._number(placed)
        self.maps[number] = placed
        return number

    def piece(self, number: int, made: int, total: int) -> Piece:
        """That of this number; a new one is placed by its map, if it has one that fits."""
        found = self.pieces.get(number)
        if found is None:
            placed = self.maps.get(made)
            fits = placed is not None and placed.layout.size_bytes == total
            found = self.pieces[number] = Piece(total, placed if fits else None)
        return found

    def release(self, numbers: Sequence[int]) -> None:
        """Nobody needs these any more."""
        if numbers:
            gone = frozenset(numbers)
            self.note(
                lambda: self._release(numbers), frozenset(), dict.fromkeys(gone, 0), 8 * len(gone)
            )
        self._release(numbers)

    def _release(self, numbers: Sequence[int]) -> int:
        for number in numbers:
            gone = self.pieces.pop(number, None)
            if gone is not None and gone.placed is not None:
                for node in {share.node for share in gone.placed.shares}:
                    self._drops.setdefault(node, []).append(number)
        return DONE

    # Bytes.

    def write(self, number: int, made: int, total: int, low: int, body: bytearray) -> int:
        """These bytes of a piece are so from now on."""
        done = self._write(number, made, total, low, body)
        if done == DONE:
            again = functools.partial(self._write, number, made, total, low, body)
            whole = low == 0 and len(body) == total
            mine = frozenset((number,))
            self.note(again, frozenset() if whole else mine, {number: total}, len(body))
        return done

    def _write(self, number: int, made: int, total: int, low: int, body: bytearray) -> int:
        piece = self.piece(number, made, total)
        whole = low == 0 and len(body) == total
        if piece.lost and not whole:
            return LOST
        piece.lost = False
        self.counts["written_bytes"] += len(body)
        if piece.placed is None:
            piece.held = [] if whole else piece.held
            piece.held.append((low, bytes(body)))
        else:
            self._put(number, piece, low, body)
        return DONE

    def _put(self, number: int, piece: Piece, low: int, body: bytes | bytearray) -> None:
        assert piece.placed is not None
        first, stop = aligned(piece.placed.layout, low, low + len(body), piece.size)
        content = np.frombuffer(body, "u1")
        if (first, stop) != (low, low + len(body)):
            around = self._get(number, piece, first, stop)
            around[low - first : low - first + len(body)] = content
            content = around
        boxes: dict[int, list[Any]] = {}
        for region in parts(piece.placed, first, content):
            boxes.setdefault(region.node, []).append((region.box, region.content.copy()))
        for node, mine in boxes.items():
            put = Put(number, piece.size, piece.placed.layout, mine)
            self._pending.setdefault(node, []).append(put)

    def read(self, number: int, made: int, total: int, low: int, size: int) -> Array:
        """Bytes of a piece.

        Raises
        ------
        Lost : they are gone.
        """
        piece = self.piece(number, made, total)
        if piece.lost:
            raise Lost
        self.counts["read_bytes"] += size
        if piece.placed is None:
            found = np.zeros(total, "u1")
            for first, body in piece.held:
                found[first : first + len(body)] = np.frombuffer(body, "u1")
            return found[low : low + size]
        first, stop = aligned(piece.placed.layout, low, low + size, total)
        return self._get(number, piece, first, stop)[low - first : low - first + size]

    def _get(self, number: int, piece: Piece, first: int, stop: int) -> Array:
        assert piece.placed is not None
        content = np.empty(stop - first, "u1")
        regions: dict[int, list[Any]] = {}
        for region in parts(piece.placed, first, content):
            regions.setdefault(region.node, []).append(region)
        gets = {
            node: (Get(number, piece.size, piece.placed.layout, [one.box for one in mine]),)
            for node, mine in regions.items()
        }
        replies = self.ask({node: Order(gets=get) for node, get in gets.items()})
        if piece.lost:
            raise Lost
        for node, mine in regions.items():
            for region, got in zip(mine, replies[node].got[0], strict=True):
                region.content[...] = got
        return content

    def fill(
        self,
        number: int,
        layout: Layout,
        code: bytes,
        dtype: str,
        blocks: Sequence[Block],
        of: Sequence[tuple[int, np.dtype[Any]]],
    ) -> None:
        """Have each block of a piece, all of it, made by its owner.

        layout : in which blocks are boxes, each with the owner that the piece is placed by.
        of : pieces that are placed alike, of whose blocks it is made.
        """
        piece = self.pieces[number]
        sources = tuple(self.source(n, one, layout) for n, one in of)
        by_node: dict[int, list[Block]] = {}
        for block in blocks:
            by_node.setdefault(block.owner, []).append(block)
        self.ask(
            {
                node: Order(fills=(Fill(number, piece.size, layout, code, dtype, mine, sources),))
                for node, mine in by_node.items()
            }
        )
        piece.lost = False
        again = functools.partial(self._fill_again, number, layout, code, dtype, blocks, of)
        self.note(again, frozenset(n for n, _ in of), {number: piece.size}, len(code))

    def source(self, number: int, dtype: np.dtype[Any], layout: Layout) -> Source:
        """A piece that a function is given blocks of."""
        piece = self.pieces[number]
        if piece.lost:
            raise RuntimeError(
                "an array that a function is to be given is gone with the worker that had it"
            )
        strides = tuple(n // layout.item * dtype.itemsize for n in layout.strides)
        return Source(number, piece.size, Layout(layout.shape, strides, 0, dtype.itemsize), dtype)

    def _fill_again(self, number: int, *args: Any) -> int:
        kept, self.checkpoint = self.checkpoint, None  # it is noted
        try:
            self.fill(number, *args)
        finally:
            self.checkpoint = kept
        return DONE

    # Nodes.

    def ask(self, orders: Mapping[int, Order]) -> dict[int, Reply]:
        """What nodes reply; they are told of all that waits for them, too."""
        forget, told = tuple(self._forget), {}
        same = {id(order): order._replace(forget=forget) for order in orders.values()}
        for node, order in orders.items():
            drops, puts = self._drops.pop(node, ()), self._pending.pop(node, ())
            told[node] = same[id(order)]  # one object for all who have nothing of their own
            if drops or puts:
                told[node] = told[node]._replace(drops=tuple(drops), puts=(*puts, *order.puts))
        return self.fleet.ask(told)

    def lose(self, nodes: set[int]) -> None:
        """These nodes are new ones, and what they had is gone; or it is there again, by the last
        checkpoint."""
        self.losses += 1
        gone = set(nodes)
        self._without(gone)
        for _ in range(TRIES if self.checkpoint is not None else 0):
            try:
                self._come_back(gone)
                return
            except WorkersLost as error:
                gone |= error.args[0]
                self._without(gone)
            except Exception as error:  # then it is as if there had been no checkpoint
                self.reasons[f"no way back: {type(error).__name__}: {error}"] += 1
                break
        for piece in self.pieces.values():
            if piece.placed is not None:
                owners = {share.node for share in piece.placed.shares}
                piece.lost |= bool(owners & gone) or self.checkpoint is not None
        self._drop_checkpoint()

    def _without(self, gone: set[int]) -> None:
        for known in self._known.values():
            known.sent -= gone
        for node in gone:
            self._pending.pop(node, None)
            self._drops.pop(node, None)

    # Checkpoints.

    def note(
        self,
        again: Callable[[], Any],
        reads: frozenset[int],
        writes: Mapping[int, int],
        size_bytes: int,
    ) -> None:
        kept = self.checkpoint
        if kept is not None and not kept.note(Entry(again, reads, writes, size_bytes)):
            self.reasons["the log since the checkpoint was too long; take one more often"] += 1
            self._drop_checkpoint()

    def _drop_checkpoint(self) -> None:
        kept, self.checkpoint = self.checkpoint, None
        for number, copy in kept.copies.items() if kept is not None else ():
            placed = kept.pieces[number].placed if kept is not None else None
            nodes = {share.node for share in placed.shares} if placed is not None else set()
            for node in nodes | {neighbour(node, self.fleet.nodes) for node in nodes}:
                self._drops.setdefault(node, []).append(copy)

    def take_checkpoint(self, numbers: Sequence[int]) -> int:
        """Keep these pieces as they are; all of them where none is named. How many."""
        chosen = [n for n in numbers or self.pieces if n in self.pieces]
        if any(self.pieces[number].lost for number in chosen):
            raise Lost("what is to be kept is gone with the worker that had it")
        copies = {}
        for number in chosen:
            piece = self.pieces[number]
            if piece.placed is not None:
                self._made += 1
                copies[number] = -self._made
                self._copy(number, piece, copies[number], saving(piece.placed, self.fleet.nodes))
        self._drop_checkpoint()
        pieces = {n: dataclasses.replace(one, held=[*one.held]) for n, one in self.pieces.items()}
        self.checkpoint = Checkpoint(pieces, copies)
        self.counts["checkpoints"] += 1
        return len(chosen)

    def save(
        self, numbers: Mapping[int, str], folder: str, copies: Mapping[int, int]
    ) -> dict[int, tuple[int, Any, Any]]:
        """Keep these pieces as they are, in files, by the beginnings of their names: of each the
        size, its layout and the files; of what is not placed yet, nothing. copies : what is
        written in their place, as it lies in chunks; then a file is all of an array."""
        here = {n: self.pieces[n] for n in numbers if n in self.pieces}
        if any(piece.lost for piece in here.values()):
            raise Lost("what is to be kept is gone with the worker that had it")
        names = {copies.get(n, n): name for n, name in numbers.items() if n in here}
        orders = save_orders(names, {n: self.pieces[n] for n in names}, folder)
        found = files_of(orders, self.ask(orders), folder)
        found = parts_of(numbers, here, folder) if copies else found
        self._drop_checkpoint()
        pieces = {n: dataclasses.replace(one, held=[*one.held]) for n, one in self.pieces.items()}
        self.checkpoint = Checkpoint(pieces, {}, found)
        self.counts["checkpoints"] += 1
        return {n: (here[n].size, here[n].layout, files) for n, (_, files) in found.items()}

    def _copy(self, number: int, piece: Piece, copy: int, stages: Sequence[Stage]) -> None:
        """Run stages whose buffers are a piece and its copy."""
        assert piece.placed is not None
        self._made += 1
        self._runs += 1
        info = [BufferInfo(k, piece.size, False, False, True) for k in (PIECE, COPY)]
        layouts = dict.fromkeys((PIECE, COPY), piece.placed.layout)
        run = RunOrder(self._made, self._runs, {PIECE: number, COPY: copy}, {})
        orders = {}
        for node in range(self.fleet.nodes):
            parts = tuple(part_of(stage, node) for stage in stages)
            if not all(part.empty for part in parts):
                orders[node] = Order(recipe=Recipe(self._made, info, layouts, parts, {}), run=run)
        replies = self.ask(orders)
        self._count(replies)
        self._forget.append(self._made)
        del self._forget[: -4 * MOST_RECIPES]

    def _come_back(self, gone: set[int]) -> None:
        """All is as it was at the checkpoint; then it is done once more."""
        kept = self.checkpoint
        assert kept is not None
        changed = kept.written()
        self.counts["returns"] += 1
        self._pending.clear()
        self.pieces = {}
        for number, before in kept.pieces.items():
            if before.placed is not None:
                there = kept.can_give(number, before.placed, gone, self.fleet.nodes)
                before.lost |= not there or (not kept.keeps(number) and number in changed)
            self.pieces[number] = dataclasses.replace(before, held=[*before.held])
        for number, copy in kept.copies.items():
            piece = self.pieces[number]
            if not piece.lost and piece.placed is not None:
                self._copy(number, piece, copy, restoring(piece.placed, gone, self.fleet.nodes))
        self.ask(load_orders(kept.files, self.pieces))
        for entry in kept.log:
            self._do_again(entry)

    def _do_again(self, entry: Entry) -> None:
        self.counts["replayed"] += 1
        lost = any(n in self.pieces and self.pieces[n].lost for n in entry.reads)
        if lost or entry.again() != DONE:
            self._mark(entry.writes)

    def _mark(self, sizes: Mapping[int, int]) -> int:
        """Nobody knows what is in these pieces."""
        for number, size in sizes.items():
            self.pieces.setdefault(number, Piece(size)).lost = True
        return DONE

    def spoil(self, asked: Asked) -> None:
        """A run that may have begun did not end."""
        sizes = sizes_of(asked.key, len(asked.pieces))
        trace = decode(Requests(asked.key, asked.scalars, asked.rules))
        buffers = {view.buffer for request in trace.requests for view in request.outputs}
        pieces = enumerate(asked.pieces)
        written = {one[0]: sizes[k] for k, one in pieces if one[0] and k in buffers}
        self._mark(written)
        self.note(lambda: self._mark(written), frozenset(), written, 0)
        self.losses += 1

    # Runs.

    def run(self, asked: Asked, requests: int) -> tuple[int, bytes]:
        """Run requests. (DONE, kinds of warnings), (REFUSED, why) or (LOST, why)."""
        try:
            known = self._plan(asked)
        except Exception as error:  # what can't be planned runs at home, with the reason counted
            reason = f"no plan: {type(error).__name__}: {error}"
            self.reasons[reason] += 1
            return REFUSED, reason.encode()
        if any(self.pieces[number].lost for number, _ in asked.pieces if number):
            return REFUSED, b"something that it needs is lost"
        done = self._go(asked, known, requests)
        if done[0] == DONE:
            self._done += 1
            self.told[self._done] = known.plan
            self.told.pop(self._done - MOST_TOLD, None)
            if self.checkpoint is not None:
                self._note_run(asked, known, requests)
        return done

    def _note_run(self, asked: Asked, known: Known, requests: int) -> None:
        trace = known.plan.trace
        written = {view.buffer for request in trace.requests for view in request.outputs}
        pieces = {index: one[0] for index, one in enumerate(asked.pieces) if one[0]}
        self.note(
            lambda: self._run_again(asked, requests),
            frozenset(),
            {n: trace.buffers[k].size_bytes for k, n in pieces.items() if k in written},
            len(asked.key) + len(asked.scalars),
        )

    def _run_again(self, asked: Asked, requests: int) -> int:
        """What is computed from what is lost is lost."""
        known = self._plan(asked)
        trace = known.plan.trace
        pieces = {k: n for k, (n, _) in enumerate(asked.pieces) if n}
        tainted = spread_loss(trace, {k for k, n in pieces.items() if self.pieces[n].lost})
        sizes = {n: trace.buffers[k].size_bytes for k, n in pieces.items() if k in tainted}
        if goes_astray(trace, tainted):
            return LOST
        done, _ = self._go(asked, known, requests)
        self._mark(sizes)
        return done

    def _plan(self, asked: Asked) -> Known:
        sizes = sizes_of(asked.key, len(asked.pieces))
        here = [
            self.piece(number, made, sizes[index]) if number else None
            for index, (number, made) in enumerate(asked.pieces)
        ]
        signature = (
            asked.key,
            tuple(-1 if piece is None else self._number(piece.placed) for piece in here),
        )
        known = self._known.get(signature)
        if known is not None:
            self._known.move_to_end(signature)
            self.counts["plan_hits"] += 1
        if known is None:
            trace = decode(Requests(asked.key, asked.scalars, asked.rules))
            placed = {
                index: piece.placed
                for index, piece in enumerate(here)
                if piece is not None and piece.placed is not None
            }
            known = self._known[signature] = self._learn(trace, placed, asked.scalars)
        for index, piece in enumerate(here):
            if piece is not None and piece.placed is None:
                piece.placed = self.intern(known.plan.placed[index])
                number = asked.pieces[index][0]
                for low, body in piece.held:
                    self._put(number, piece, low, body)
                piece.held = []
        return known

    def _learn(self, trace: Trace, placed: Mapping[int, Placed], scalars: bytes) -> Known:
        self.counts["plans"] += 1
        self._made += 1
        plan = plan_requests(trace, placed, self.fleet.nodes)
        layouts = {index: one.layout for index, one in plan.placed.items()}
        recipes = {}
        for node in range(plan.nodes):
            mine = tuple(part_of(stage, node) for stage in plan.stages)
            if not all(part.empty for part in mine):
                recipes[node] = Recipe(self._made, trace.buffers, layouts, mine, plan.uses)
        while len(self._known) >= MOST_RECIPES:
            _, old = self._known.popitem(last=False)
            self._forget.append(old.number)
            del self._forget[: -4 * MOST_RECIPES]
        return Known(self._made, plan, recipes, scalars)

    def _go(self, asked: Asked, known: Known, requests: int) -> tuple[int, bytes]:
        missing = set(known.recipes) - known.sent
        if missing:
            try:
                replies = self.ask({k: Order(recipe=known.recipes[k]) for k in missing})
                compiled, sent = compile_shared(self.ask, replies, self._library)
                self.counts["compiled"] += compiled
                self.counts["shipped"] += sent
            except RuntimeError as error:  # a kernel that can't be compiled
                reason = f"the workers can't: {error}"
                self.reasons[reason] += 1
                return REFUSED, reason.encode()
            known.sent |= missing
        self._runs += 1
        pieces = {index: one[0] for index, one in enumerate(asked.pieces) if one[0]}
        order = Order(
            run=RunOrder(
                known.number,
                self._runs,
                pieces,
                changed(known.plan.trace, known.scalars, asked.scalars),
            )
        )
        replies = self.ask(dict.fromkeys(known.recipes, order))
        self._count(replies)
        kinds = bytearray(requests)
        for reply in replies.values():
            for request, raised in reply.raised.items():
                kinds[request] |= raised
        for whole in known.plan.alone:
            self.reasons[f"on one node: {whole.reason}"] += 1
        return DONE, bytes(kinds)

    def _count(self, replies: Mapping[int, Reply]) -> None:
        self.counts["messages"] += sum(one.counted.messages for one in replies.values())
        self.counts["moved_bytes"] += sum(one.counted.received_bytes for one in replies.values())
