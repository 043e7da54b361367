"""What a node is told to do, and the memory that it keeps between programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from npaccel.cluster import disk
from npaccel.cluster.boxes import Box, box_at
from npaccel.cluster.calling import Call, Called, Calls, Settle, Source, part_shown
from npaccel.cluster.disk import File
from npaccel.cluster.nodes import Node, new_memory, shown
from npaccel.cluster.parts import Block
from npaccel.cluster.placing import Layout
from npaccel.cluster.plans import Keep, PartialSums, Stage, Transfer, Work
from npaccel.cluster.shipping import unpacked
from npaccel.cluster.wires import Place
from npaccel.errors import MapError
from npaccel.ir.nodes import BufferInfo, KernelStep
from npaccel.runtime.checking.splitting import Launch

__all__ = [
    "Code",
    "Compiler",
    "Counted",
    "Fill",
    "Get",
    "Hall",
    "Lacks",
    "Load",
    "Order",
    "Part",
    "Put",
    "Recipe",
    "Reply",
    "RunOrder",
    "Save",
]

Array = np.ndarray[Any, Any]
LEAST_SPARE = 1 << 26  # bytes that may be kept for reuse, even if nothing is in use


class Part(NamedTuple):
    """What one node does in a stage: messages to others by node, what it keeps, whom it hears."""

    sends: tuple[tuple[int, tuple[Transfer, ...], tuple[PartialSums, ...]], ...]
    keeps: tuple[PartialSums, ...]
    hears: tuple[int, ...]
    work: tuple[Work, ...]
    copies: tuple[Keep, ...]

    @property
    def empty(self) -> bool:
        return not (self.sends or self.hears or self.work or self.copies)


def part_of(stage: Stage, node: int) -> Part:
    """A node's part of a stage."""
    pairs = sorted(stage.pairs())
    sends = tuple(
        (
            target,
            tuple(m for m in stage.transfers if (m.source, m.target) == (node, target)),
            tuple(p for p in stage.partials if (p.source, p.target) == (node, target)),
        )
        for source, target in pairs
        if source == node
    )
    keeps = tuple(p for p in stage.partials if p.source == p.target == node)
    hears = tuple(source for source, target in pairs if target == node)
    work, copies = tuple(stage.work.get(node, ())), tuple(stage.copies.get(node, ()))
    return Part(sends, keeps, hears, work, copies)


class Recipe(NamedTuple):
    """A node's part of a plan."""

    number: int
    buffers: Sequence[BufferInfo]
    layouts: Mapping[int, Layout]
    parts: tuple[Part, ...]
    uses: Mapping[int, int]


class RunOrder(NamedTuple):
    """Run a recipe.

    pieces : per buffer that is not temporary the memory that it is there. values : of scalars that
    are others than in the recipe, by (request, position).
    """

    recipe: int
    run: int
    pieces: Mapping[int, int]
    values: Mapping[tuple[int, int], Any]


class Put(NamedTuple):
    """Boxes of a piece of memory, which is new if there is none of that number."""

    piece: int
    size: int
    layout: Layout
    boxes: Sequence[tuple[Box, Array]]


class Fill(NamedTuple):
    """Boxes of a piece that a function of the user's makes; it gets a `Block` each, and the same
    box of each source.

    layout : in which blocks are boxes. code : see shipping.py.
    """

    piece: int
    size: int
    layout: Layout
    code: bytes
    dtype: str
    blocks: Sequence[Block]
    sources: tuple[Source, ...] = ()


class Get(NamedTuple):
    """Boxes that are asked for."""

    piece: int
    size: int
    layout: Layout
    boxes: Sequence[Box]


class Save(NamedTuple):
    """Boxes of a piece that are to be written to a file, see disk.py."""

    piece: int
    size: int
    layout: Layout
    boxes: Sequence[Box]
    folder: str
    name: str


class Load(NamedTuple):
    """A piece of which such a file has boxes."""

    piece: int
    size: int
    layout: Layout
    folder: str
    file: File


class Lacks(NamedTuple):
    """Kernels that a node has no code for, by digest; its kind says whose code it can run."""

    kind: str
    kernels: tuple[str, ...]


class Code(NamedTuple):
    """Object code of kernels, by digest, for nodes of a kind."""

    kind: str
    images: Mapping[str, bytes]


@runtime_checkable
class Compiler(Protocol):
    """What launches kernels by code that it compiles, or that others have compiled."""

    def lacking(self, steps: Iterable[KernelStep]) -> Lacks: ...
    def make(self, names: Iterable[str]) -> Code: ...
    def take(self, code: Code) -> None: ...


class Order(NamedTuple):
    """All that a node is told at a time, in this order. given_up : the last run that is to end, if
    it has begun; then nothing else is said. places : where nodes listen that its recipe has it send
    to."""

    forget: tuple[int, ...] = ()
    drops: tuple[int, ...] = ()
    puts: tuple[Put, ...] = ()
    recipe: Recipe | None = None
    run: RunOrder | None = None
    gets: tuple[Get, ...] = ()
    fills: tuple[Fill, ...] = ()
    code: Code | None = None
    compile: tuple[str, ...] = ()
    call: Call | None = None
    settle: Settle | None = None
    saves: tuple[Save, ...] = ()
    loads: tuple[Load, ...] = ()
    given_up: int = -1
    places: tuple[tuple[int, Place], ...] = ()


class Counted(NamedTuple):
    """Messages and bytes that arrived at nodes from others, in one run, as the nodes counted."""

    messages: int
    received_bytes: int


class Reply(NamedTuple):
    """What came of an order. raised : per request the kinds of floating-point warnings. lacks : of
    its recipe. code : that was to be compiled. called : what came of a call. saved :
    files that were written."""

    got: list[list[Array]]
    counted: Counted
    raised: dict[int, int]
    lacks: Lacks | None = None
    code: Code | None = None
    called: Called | None = None
    saved: tuple[File, ...] = ()


class Hall:
    """A node's memory by number of piece, and the recipes that it knows.

    Memory of pieces that were dropped serves new ones of the same size, as much as there is in use:
    what is new has pages that are still to be made.
    """

    def __init__(self, number: int, launch: Launch) -> None:
        self._number, self._launch = number, launch
        self._pieces: dict[int, Array] = {}
        self._spare: list[Array] = []  # the one that was dropped last is last
        self._recipes: dict[int, tuple[Recipe, Node]] = {}
        self._calls = Calls(self._piece)

    def _piece(self, number: int, size: int) -> Array:
        if number not in self._pieces:
            self._pieces[number] = self._taken(size)
        return self._pieces[number]

    def _taken(self, size: int) -> Array:
        for k in reversed(range(len(self._spare))):
            if len(self._spare[k]) == size:
                return self._spare.pop(k)
        return new_memory(size)

    def _drop(self, number: int) -> None:
        if number in self._pieces:
            self._spare.append(self._pieces.pop(number))
            used = sum(map(len, self._pieces.values()))
            while self._spare and sum(map(len, self._spare)) > max(used, LEAST_SPARE):
                del self._spare[0]

    def take(self, order: Order) -> Lacks | None:
        """Forget, take in and learn what an order says. What there is to be compiled for it."""
        for number in order.forget:
            self._recipes.pop(number, None)
        for number in order.drops:
            self._drop(number)
        for put in order.puts:
            memory = self._piece(put.piece, put.size)
            for box, content in put.boxes:
                shown(memory, put.layout, box)[...] = content
        for fill in order.fills:
            self._fill(fill)
        if order.code is not None:
            self._compiler().take(order.code)
        return self._learn(order.recipe) if order.recipe is not None else None

    def store(self, order: Order) -> tuple[File, ...]:
        """Files that it wrote, of what is there once others were read."""
        for one in order.loads:
            disk.load(one.folder, one.file, self._piece(one.piece, one.size), one.layout)
        return tuple(
            disk.save(
                one.folder,
                one.name,
                self._number,
                self._piece(one.piece, one.size),
                one.layout,
                one.boxes,
            )
            for one in order.saves
        )

    def call(self, order: Order) -> Called | None:
        """What came of a call. saved :
        files that were written."""
        if order.settle is not None:
            self._calls.settle(order.settle)
        return self._calls.call(order.call) if order.call is not None else None

    def compile(self, names: Sequence[str]) -> Code | None:
        """Code of kernels that it lacked."""
        return self._compiler().make(names) if names else None

    def _compiler(self) -> Compiler:
        assert isinstance(self._launch, Compiler)  # else nothing was lacking
        return self._launch

    def _fill(self, fill: Fill) -> None:
        function = unpacked(fill.code)
        memory = self._piece(fill.piece, fill.size)
        for block in fill.blocks:
            box = box_at(block.offset, block.extent)
            made = np.asarray(function(block, *(self._part(one, box) for one in fill.sources)))
            if made.shape != block.extent:
                raise MapError(
                    f"npaccel.from_blocks: the function gave shape {made.shape} for block "
                    f"{block.id} of shape {block.extent}; it gives an array of the block's shape"
                )
            shown(memory, fill.layout, box).view(fill.dtype)[...] = made

    def _part(self, source: Source, box: Box) -> Array:
        """A box of it, to be read."""
        memory = self._piece(source.piece, source.size)
        found = part_shown(memory, source, box)
        found.flags.writeable = False
        return found

    def _learn(self, recipe: Recipe) -> Lacks | None:
        node = Node(self._number, recipe.buffers, recipe.layouts, self._launch, recipe.uses)
        steps = node.prepare([part.work for part in recipe.parts])
        self._recipes[recipe.number] = recipe, node
        return self._launch.lacking(steps) if isinstance(self._launch, Compiler) else None

    def begin(self, run: RunOrder) -> tuple[tuple[Part, ...], Node]:
        """The parts of a run, and the node that does them."""
        recipe, node = self._recipes[run.recipe]
        sizes = {info.index: info.size_bytes for info in recipe.buffers}
        for index, number in run.pieces.items():
            node.memory[index] = self._piece(number, sizes[index])
        node.values = run.values
        node.begin()
        return recipe.parts, node

    def give(self, gets: Sequence[Get]) -> list[list[Array]]:
        """Copies of boxes."""
        return [
            [shown(self._piece(get.piece, get.size), get.layout, box).copy() for box in get.boxes]
            for get in gets
        ]
