"""A plan run by workers of dask.distributed, which starts processes and moves bytes between them.

The only file that names that library. Each node is an actor on a worker. The client sends each its
part of a plan and one call to run it; from then on nodes send each other one message per pair and
stage, and the client hears of the end.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from npaccel import _native
from npaccel.backends.launch import run_step
from npaccel.backends.registry import HOST, open_backend
from npaccel.cluster.boxes import Box
from npaccel.cluster.nodes import Message, Node, interpret
from npaccel.cluster.placing import Layout, Placed
from npaccel.cluster.plans import ClusterPlan, PartialSums, Stage, Transfer, Work
from npaccel.errors import BackendUnavailable
from npaccel.ir.nodes import BufferInfo, Kernel, KernelStep

__all__ = ["Counted", "NodeActor", "Workers"]

Array = np.ndarray[Any, Any]
ANSWER_S = 5.0  # how long somebody at an address may take to answer
LOOK_S = 1.0  # how often the client looks whether workers are alive
SILENCE_S = 60.0  # how long a node waits for another's message


class Part(NamedTuple):
    """What one node does in a stage: messages to others by node, what it keeps, whom it hears."""

    sends: tuple[tuple[int, tuple[Transfer, ...], tuple[PartialSums, ...]], ...]
    keeps: tuple[PartialSums, ...]
    hears: tuple[int, ...]
    work: tuple[Work, ...]


class Counted(NamedTuple):
    """Messages and bytes that arrived at nodes from others, in one run, as the nodes counted."""

    messages: int
    received_bytes: int


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
    return Part(sends, keeps, hears, tuple(stage.work.get(node, ())))


# ------------------------------------------------------------------------------------- on workers


@functools.cache
def compiled_here() -> Callable[[KernelStep, list[Array], list[Any]], None]:
    """Runs kernels by code for this processor, on the thread that calls it."""
    backend: Any = open_backend(HOST)
    known: dict[Kernel, Any] = {}

    def launch(step: KernelStep, arrays: list[Array], scalars: list[Any]) -> None:
        found = known.get(step.kernel)
        if found is None:
            found = known[step.kernel] = backend.compile(step.kernel)
        run_step(found, step.extents, arrays, scalars)

    return launch


class NodeActor:
    """A node, on the worker where it lives. `identity` says what its bits may depend on."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._node: Node | None = None
        self._parts: tuple[Part, ...] = ()
        self._peers: Mapping[int, Any] = {}
        self._mail: dict[tuple[int, int, int], Message] = {}
        self._news: asyncio.Event | None = None
        self._run = 0

    def identity(self) -> tuple[str, str]:
        """Versions, and which vectors the processor has."""
        return f"NumPy {np.__version__}", _native.cpu()[0]

    def begin(
        self,
        buffers: Sequence[BufferInfo],
        layouts: Mapping[int, Layout],
        parts: Sequence[Part],
        peers: Mapping[int, Any],
        compiled: bool,
        uses: Mapping[int, int],
    ) -> None:
        """Take a plan's part; memory is new, and empty."""
        launch = compiled_here() if compiled else interpret
        self._node = Node(self.number, buffers, layouts, launch, uses)
        self._parts, self._peers = tuple(parts), peers
        self._mail.clear()

    def put(self, pieces: Sequence[tuple[int, Box, Array]]) -> None:
        """What it owns of buffers."""
        self._mine.unpack(Message(list(pieces), []))

    def get(self, buffer: int, boxes: Sequence[Box]) -> list[Array]:
        """What it owns of a buffer."""
        return [self._mine.at(buffer, box).copy() for box in boxes]

    @property
    def _mine(self) -> Node:
        assert self._node is not None, "begin comes first"
        return self._node

    async def deliver(self, run: int, stage: int, source: int, message: Message) -> None:
        """Another node's message; it may come before this one is there."""
        self._mail[run, stage, source] = message
        if self._news is not None:
            self._news.set()

    async def run(self, silence_s: float) -> Counted:
        """All stages. A worker's event loop goes on meanwhile: it takes in messages."""
        run, self._run = self._run, self._run + 1
        self._news = asyncio.Event()
        messages = received = 0
        for number, part in enumerate(self._parts):
            sent = []
            for target, transfers, partials in part.sends:
                # All is packed before anything is written: neither below, nor by what arrives.
                packed = self._mine.pack(transfers, partials)
                sent.append((target, packed))
            for sums in part.keeps:
                self._mine.unpack(self._mine.pack((), (sums,)))
            replies = [
                self._peers[target].deliver(run, number, self.number, message)
                for target, message in sent
            ]
            for source in part.hears:
                message = await self._heard(run, number, source, silence_s)
                messages, received = messages + 1, received + message.size_bytes
                self._mine.unpack(message)
            for reply in replies:
                await asyncio.wait_for(reply, silence_s)  # of who has died no reply comes
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, self._mine.work, part.work)
        return Counted(messages, received)

    async def _heard(self, run: int, stage: int, source: int, silence_s: float) -> Message:
        assert self._news is not None
        while (run, stage, source) not in self._mail:
            self._news.clear()
            try:
                await asyncio.wait_for(self._news.wait(), silence_s)
            except TimeoutError:
                raise BackendUnavailable(
                    f"node {self.number} waited {silence_s:g} s in stage {stage} for a message of "
                    f"node {source}, which did not come; its worker may be gone: see the client's "
                    "log, and run it again"
                ) from None
        return self._mail.pop((run, stage, source))


# ------------------------------------------------------------------------------------- the client


class Workers:
    """Nodes on the workers of a dask cluster.

    Parameters
    ----------
    client : a `distributed.Client`, or the address of a scheduler.
    nodes : how many; None: one per worker. A worker may have several.
    compiled : kernels run by code that each worker compiles; else they are interpreted.
    silence_s : how long a node waits for another one's message before it gives up.

    Raises
    ------
    BackendUnavailable : dask.distributed is not installed, nobody answers at the address, there are
        no workers, or they differ in versions or processors, so that bits might.
    """

    def __init__(
        self,
        client: Any,
        nodes: int | None = None,
        *,
        compiled: bool = True,
        silence_s: float = SILENCE_S,
    ) -> None:
        self._client = _connected(client) if isinstance(client, str) else client
        self._compiled, self._silence_s = compiled, silence_s
        addresses = sorted(self._client.scheduler_info(n_workers=-1)["workers"])
        if not addresses:
            raise BackendUnavailable(
                "npaccel.cluster: the dask cluster has no workers; start some, as with "
                "`dask worker ADDRESS`"
            )
        self.nodes = len(addresses) if nodes is None else nodes
        futures = [
            self._client.submit(
                NodeActor, k, actor=True, pure=False, workers=[addresses[k % len(addresses)]]
            )
            for k in range(self.nodes)
        ]
        self._futures = futures  # who lets go of them lets go of the actors
        self._addresses = [addresses[k % len(addresses)] for k in range(self.nodes)]
        self._actors: list[Any] = [future.result() for future in futures]
        self._refuse_differences()
        self._plan: ClusterPlan | None = None

    def _refuse_differences(self) -> None:
        found = self._ask("identity", dict.fromkeys(range(self.nodes), ()))
        if len(set(found)) > 1:
            pairs = zip(self._addresses, found, strict=True)
            rows = "\n".join(f"  {address}: {', '.join(one)}" for address, one in pairs)
            raise BackendUnavailable(
                "npaccel.cluster: workers differ, so results would depend on where they are "
                f"computed:\n{rows}\nuse workers that are alike"
            )

    def begin(self, plan: ClusterPlan, contents: Mapping[int, Any]) -> None:
        """Give each node its part of a plan, and its part of what buffers hold.

        contents : per buffer that is not fresh its bytes.
        """
        if plan.nodes > self.nodes:
            raise BackendUnavailable(
                f"npaccel.cluster: a plan for {plan.nodes} nodes, where there are {self.nodes}; "
                "make Workers with as many"
            )
        layouts = {index: placed.layout for index, placed in plan.placed.items()}
        peers = dict(enumerate(self._actors))
        buffers = plan.trace.buffers
        rest = peers, self._compiled, plan.uses
        given = {k: (buffers, layouts, [part_of(s, k) for s in plan.stages], *rest) for k in peers}
        self._ask("begin", given)
        pieces = _shared_out(plan, contents)
        self._ask("put", {k: (part,) for k, part in pieces.items()})
        self._plan = plan

    def run(self) -> Counted:
        """Run the plan, once more each time; one call to each node."""
        found = self._ask("run", dict.fromkeys(range(self.nodes), (self._silence_s,)))
        return Counted(*map(sum, zip(*found, strict=True)))

    def contents(self, buffer: int) -> Array:
        """A buffer's bytes, each from the node that has it."""
        assert self._plan is not None, "begin comes first"
        placed = self._plan.placed[buffer]
        whole = _assembly(self._plan, buffer, placed)
        boxes: dict[int, list[Box]] = {}
        for node, box in placed.shares:
            boxes.setdefault(node, []).append(box)
        for node, wanted in boxes.items():
            (found,) = self._ask("get", {node: (buffer, wanted)})
            for box, content in zip(wanted, found, strict=True):
                whole.at(buffer, box)[...] = content
        return whole.memory[buffer]

    def _ask(self, method: str, given: Mapping[int, tuple[Any, ...]]) -> list[Any]:
        """Call a method of some nodes, at once; what they return. Of a worker that has died dask
        raises this or that, or lets the caller wait for ever."""
        try:
            calls = [getattr(self._actors[k], method)(*args) for k, args in given.items()]
            return [self._answer(call) for call in calls]
        except (OSError, RuntimeError) as error:
            self._refuse_losses(error)
            raise

    def _answer(self, call: Any) -> Any:
        while True:
            try:
                return call.result(timeout=LOOK_S)
            except TimeoutError:
                self._refuse_losses(None)

    def _refuse_losses(self, error: Exception | None) -> None:
        alive = self._client.scheduler_info(n_workers=-1)["workers"]
        lost = [k for k, address in enumerate(self._addresses) if address not in alive]
        if lost or isinstance(error, OSError) or "Actor was lost" in str(error):
            who = f"the worker at {self._addresses[lost[0]]}" if lost else "a worker"
            raise BackendUnavailable(
                f"npaccel.cluster: {who} is gone, and with it what its nodes held; "
                "make Workers again and begin from what you have"
            ) from error

    def close(self) -> None:
        """Let go of the nodes, and of what they hold."""
        self._actors.clear()
        self._futures.clear()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _connected(address: str) -> Any:
    try:
        from distributed import Client
    except ImportError as error:
        raise BackendUnavailable(
            f"npaccel.cluster: dask.distributed can't be imported ({error}); "
            "install it with `pip install npaccel[cluster]`"
        ) from None
    try:
        return Client(address, timeout=ANSWER_S)
    except (OSError, ValueError) as error:
        raise BackendUnavailable(
            f"npaccel.cluster: asked {address}, where no scheduler answered within {ANSWER_S:g} s "
            f"({type(error).__name__}); start one with `dask scheduler`, or correct the address"
        ) from None


def _assembly(plan: ClusterPlan, buffer: int, placed: Placed) -> Node:
    """A node's memory with one buffer alone, to take it apart or put it together."""
    return Node(-1, [plan.trace.buffers[buffer]], {buffer: placed.layout})


def _shared_out(
    plan: ClusterPlan, contents: Mapping[int, Any]
) -> dict[int, list[tuple[int, Box, Array]]]:
    """Per node its pieces of what buffers hold."""
    found: dict[int, list[tuple[int, Box, Array]]] = {}
    for index, content in contents.items():
        whole = _assembly(plan, index, plan.placed[index])
        whole.memory[index][...] = np.frombuffer(content, "u1")
        for node, box in plan.placed[index].shares:
            found.setdefault(node, []).append((index, box, whole.at(index, box).copy()))
    return found
