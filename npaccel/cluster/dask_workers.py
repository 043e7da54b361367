"""Nodes on workers of dask.distributed, which starts processes and moves bytes between them.

The only file that names that library. Each node is an actor on a worker. Whoever has the nodes
tells each what to do, in one call; what they need of each other nodes send directly, one message
per pair and stage.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from npaccel import _native
from npaccel.backends.launch import run_step
from npaccel.backends.registry import HOST, open_backend
from npaccel.cluster.boxes import Box
from npaccel.cluster.nodes import Message, Node, interpret
from npaccel.cluster.orders import (
    Counted,
    Get,
    Hall,
    Order,
    Put,
    Recipe,
    Reply,
    RunOrder,
    part_of,
)
from npaccel.cluster.placing import Placed
from npaccel.cluster.plans import ClusterPlan
from npaccel.errors import BackendUnavailable
from npaccel.ir.nodes import Kernel, KernelStep

__all__ = ["Counted", "Fleet", "NodeActor", "Silence", "Workers", "WorkersLost", "local_cluster"]

Array = np.ndarray[Any, Any]
ANSWER_S = 5.0  # how long somebody at an address may take to answer
LOOK_S = 0.5  # how often it is looked whether workers are alive
SILENCE_S = 60.0  # how long a node waits for another's message
HEARD_S = 20.0  # a worker that the scheduler has not heard of for so long is gone
KNOWN = 4096  # kernels that a worker finds without comparing them


class Silence(Exception):
    """A node's message did not come: (the node, stage, who waited, seconds)."""

    def __str__(self) -> str:
        node, stage, waiting, seconds = self.args
        return (
            f"node {waiting} waited {seconds:g} s in stage {stage} for a message of node {node}, "
            "which did not come; its worker may be gone"
        )


class WorkersLost(Exception):
    """Nodes are gone with all they held: (their numbers, where they were). New ones are there."""


# ------------------------------------------------------------------------------------- on workers


class Compiled:
    """Runs kernels by code for this processor, on the thread that calls it."""

    def __init__(self) -> None:
        self._backend: Any = open_backend(HOST)
        self._known: dict[Kernel, Any] = {}
        self._by_step: dict[int, tuple[KernelStep, Any]] = {}

    def compile(self, step: KernelStep) -> Any:
        """The code of a step's kernel."""
        known = self._by_step.get(id(step))
        if known is not None and known[0] is step:
            return known[1]
        found = self._known.get(step.kernel)
        if found is None:
            found = self._known[step.kernel] = self._backend.compile(step.kernel)
        if len(self._by_step) >= KNOWN:
            self._by_step.clear()
        self._by_step[id(step)] = step, found
        return found

    def __call__(self, step: KernelStep, arrays: list[Array], scalars: list[Any]) -> list[int]:
        return run_step(self.compile(step), step.extents, arrays, scalars)


compiled_here = functools.cache(Compiled)


class NodeActor:
    """A node, on the worker where it lives."""

    def __init__(self, number: int, compiled: bool) -> None:
        self.number = number
        self._hall = Hall(number, compiled_here() if compiled else interpret)
        self._peers: Mapping[int, Any] = {}
        self._mail: dict[tuple[int, int, int], Message] = {}
        self._news: asyncio.Event | None = None
        self._given_up = -1  # the last run that is to end

    def identity(self) -> tuple[str, str]:
        """What its bits may depend on: versions, and which vectors the processor has."""
        return f"NumPy {np.__version__}", _native.cpu()[0]

    def introduce(self, peers: Mapping[int, Any]) -> None:
        """The other nodes."""
        self._peers = peers

    async def deliver(self, run: int, stage: int, source: int, message: Message) -> None:
        """Another node's message; it may come before this one is there."""
        self._mail[run, stage, source] = message
        if self._news is not None:
            self._news.set()

    async def give_up(self, run: int) -> None:
        """A node that this one may wait for is gone."""
        self._given_up = run
        if self._news is not None:
            self._news.set()

    async def do(self, order: Order, silence_s: float) -> Reply:
        """What an order says. A worker's event loop goes on meanwhile: it takes in messages."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._hall.take, order)
        counted, raised = Counted(0, 0), dict[int, int]()
        if order.run is not None:
            counted, raised = await self._run(order.run, silence_s)
        got = await loop.run_in_executor(None, self._hall.give, order.gets)
        return Reply(got, counted, raised)

    async def _run(self, order: RunOrder, silence_s: float) -> tuple[Counted, dict[int, int]]:
        parts, mine = self._hall.begin(order)
        run = order.run
        self._news = asyncio.Event()
        for old in [key for key in self._mail if key[0] < run]:
            del self._mail[old]  # of a run that was given up
        messages = received = 0
        loop = asyncio.get_running_loop()
        for number, part in enumerate(parts):
            # All is packed before anything is written: neither below, nor by what arrives.
            sent = [(target, mine.pack(moves, sums)) for target, moves, sums in part.sends]
            for one in part.keeps:
                mine.unpack(mine.pack((), (one,)))
            replies = [
                self._peers[target].deliver(run, number, self.number, message)
                for target, message in sent
            ]
            for source in part.hears:
                message = await self._heard(run, number, source, silence_s)
                messages, received = messages + 1, received + message.size_bytes
                mine.unpack(message)
            for (target, _), reply in zip(sent, replies, strict=True):
                await self._taken(reply, run, target, number, silence_s)
            if part.work:
                await loop.run_in_executor(None, mine.work, part.work, number)
        return Counted(messages, received), mine.raised

    async def _taken(self, reply: Any, run: int, target: int, stage: int, silence_s: float) -> None:
        """Of who has died no reply comes: until it does, or the run is given up."""
        task = asyncio.ensure_future(reply)
        end = time.monotonic() + silence_s
        while not task.done():
            given_up = self._given_up == run
            if given_up or time.monotonic() > end:
                task.cancel()
                raise Silence(target, stage, self.number, 0 if given_up else silence_s)
            await asyncio.wait({task}, timeout=LOOK_S)
        await task

    async def _heard(self, run: int, stage: int, source: int, silence_s: float) -> Message:
        assert self._news is not None
        while (run, stage, source) not in self._mail:
            self._news.clear()
            if self._given_up == run:
                raise Silence(source, stage, self.number, 0)
            try:
                await asyncio.wait_for(self._news.wait(), silence_s)
            except TimeoutError:
                raise Silence(source, stage, self.number, silence_s) from None
        return self._mail.pop((run, stage, source))


# ------------------------------------------------------------------------------- who has the nodes


class Fleet:
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
        addresses = self._alive()
        if not addresses:
            raise BackendUnavailable(
                "npaccel.cluster: the dask cluster has no workers; start some, as with "
                "`dask worker ADDRESS`"
            )
        self.nodes = len(addresses) if nodes is None else nodes
        self._addresses = [addresses[k % len(addresses)] for k in range(self.nodes)]
        self._futures: dict[int, Any] = {}  # who lets go of them lets go of the actors
        self._actors: dict[int, Any] = {}
        self._start(range(self.nodes))

    def _start(self, numbers: Any) -> None:
        for k in numbers:
            self._futures[k] = self._client.submit(
                NodeActor,
                k,
                self._compiled,
                actor=True,
                pure=False,
                workers=[self._addresses[k]],
            )
        for k in numbers:
            self._actors[k] = self._futures[k].result(timeout=SILENCE_S)
        found = self._all("identity")
        if len(set(found)) > 1:
            pairs = zip(self._addresses, found, strict=True)
            rows = "\n".join(f"  {address}: {', '.join(one)}" for address, one in pairs)
            raise BackendUnavailable(
                "npaccel.cluster: workers differ, so results would depend on where they are "
                f"computed:\n{rows}\nuse workers that are alike"
            )
        self._all("introduce", dict(self._actors))

    def _all(self, method: str, *args: Any) -> list[Any]:
        calls = [getattr(self._actors[k], method)(*args) for k in range(self.nodes)]
        return [call.result(timeout=SILENCE_S) for call in calls]

    def _alive(self) -> list[str]:
        """Addresses of workers that the scheduler hears of."""
        workers = self._client.scheduler_info(n_workers=-1)["workers"]
        now = time.time()
        seen = {a: float(one.get("last_seen", now)) for a, one in workers.items()}
        return sorted(a for a, when in seen.items() if now - when < HEARD_S)

    def ask(self, orders: Mapping[int, Order]) -> dict[int, Reply]:
        """Have nodes do what they are told, at once.

        Raises
        ------
        WorkersLost : some are gone; all others have ended what they did.
        """
        replies: dict[int, Reply] = {}
        errors: dict[int, Exception] = {}
        calls = {}
        for k, order in orders.items():
            try:
                calls[k] = self._actors[k].do(order, self._silence_s)
            except Exception as error:  # dask raises this or that
                errors[k] = error
        run = next((one.run.run for one in orders.values() if one.run is not None), -1)
        lost = self._wait(calls, replies, errors, run)
        if lost:
            raise WorkersLost(lost, self._replace(lost))
        if errors:
            raise next(iter(errors.values()))
        return replies

    def _wait(
        self,
        calls: dict[int, Any],
        replies: dict[int, Reply],
        errors: dict[int, Exception],
        run: int,
    ) -> set[int]:
        """Until all have answered but those that are gone, which it returns."""
        lost: set[int] = set()
        looked = bool(errors)
        while calls or looked:
            for k, call in list(calls.items()):
                try:
                    replies[k] = call.result(timeout=LOOK_S)
                except TimeoutError:
                    looked = True
                    continue
                except Exception as error:
                    errors[k] = error
                    looked = True
                del calls[k]
            if looked:
                looked = False
                lost |= self._gone(errors)
                for k in lost:
                    calls.pop(k, None)
                if lost and run >= 0:
                    self._tell_given_up(calls, run)
        return lost

    def _gone(self, errors: Mapping[int, Exception]) -> set[int]:
        alive = self._alive()
        lost = {k for k, address in enumerate(self._addresses) if address not in alive}
        for k, error in errors.items():
            if isinstance(error, Silence):
                lost |= {error.args[0]} if error.args[3] else set()
            elif isinstance(error, OSError) or "Actor was lost" in str(error):
                lost.add(k)
        return lost

    def _tell_given_up(self, calls: Mapping[int, Any], run: int) -> None:
        for k in calls:
            with suppress(Exception):  # it is gone, too, as will be seen
                self._actors[k].give_up(run)

    def _replace(self, lost: set[int]) -> list[str]:
        """New nodes for those that are gone, where there are workers; where the old ones were."""
        before = [self._addresses[k] for k in sorted(lost)]
        alive = [address for address in self._alive() if address not in before]
        if not alive:
            raise BackendUnavailable(
                f"npaccel.cluster: the workers at {', '.join(before)} are gone, and none is left"
            )
        for number, k in enumerate(sorted(lost)):
            self._addresses[k] = alive[number % len(alive)]
        self._start(sorted(lost))
        return before

    def close(self) -> None:
        """Let go of the nodes, and of what they hold."""
        self._actors.clear()
        self._futures.clear()


class Workers:
    """Nodes that run one plan, made by hand. Parameters as for `Fleet`."""

    def __init__(self, client: Any, nodes: int | None = None, **options: Any) -> None:
        self._fleet = Fleet(client, nodes, **options)
        self.nodes = self._fleet.nodes
        self._plan: ClusterPlan | None = None
        self._runs = 0

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
        puts = _shared_out(plan, contents)
        drops = tuple(info.index for info in plan.trace.buffers)
        orders = {}
        for k in range(self.nodes):
            parts = tuple(part_of(stage, k) for stage in plan.stages)
            recipe = Recipe(0, plan.trace.buffers, layouts, parts, plan.uses)
            orders[k] = Order(drops=drops, puts=tuple(puts.get(k, ())), recipe=recipe)
        self._ask(orders)
        self._plan = plan

    def run(self) -> Counted:
        """Run the plan, once more each time; one call to each node."""
        assert self._plan is not None, "begin comes first"
        self._runs += 1
        temporary = self._plan.uses
        pieces = {
            info.index: info.index
            for info in self._plan.trace.buffers
            if info.index not in temporary
        }
        order = Order(run=RunOrder(0, self._runs, pieces, {}))
        found = self._ask(dict.fromkeys(range(self.nodes), order))
        return Counted(*map(sum, zip(*(one.counted for one in found.values()), strict=True)))

    def contents(self, buffer: int) -> Array:
        """A buffer's bytes, each from the node that has it."""
        assert self._plan is not None, "begin comes first"
        placed = self._plan.placed[buffer]
        whole = _assembly(self._plan, buffer, placed)
        size = len(whole.memory[buffer])
        boxes: dict[int, list[Box]] = {}
        for node, box in placed.shares:
            boxes.setdefault(node, []).append(box)
        gets = {k: Order(gets=(Get(buffer, size, placed.layout, b),)) for k, b in boxes.items()}
        for node, reply in self._ask(gets).items():
            for box, content in zip(boxes[node], reply.got[0], strict=True):
                whole.at(buffer, box)[...] = content
        return whole.memory[buffer]

    def _ask(self, orders: Mapping[int, Order]) -> dict[int, Reply]:
        try:
            return self._fleet.ask(orders)
        except WorkersLost as error:
            raise BackendUnavailable(
                f"npaccel.cluster: the worker at {error.args[1][0]} is gone, and with it what its "
                "nodes held; make Workers again and begin from what you have"
            ) from error

    def close(self) -> None:
        """Let go of the nodes, and of what they hold."""
        self._fleet.close()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def local_cluster(workers: int) -> Iterator[Any]:
    """A client of so many new worker processes on this machine, of one thread each.

    Raises
    ------
    BackendUnavailable : dask.distributed is not installed.
    """
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise _missing(error) from None
    with (
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            dashboard_address=":0",  # any: without one it asks for 8787, and warns
            silence_logs=50,
        ) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(workers, timeout=SILENCE_S)
        yield client


def _missing(error: ImportError) -> BackendUnavailable:
    return BackendUnavailable(
        f"npaccel.cluster: dask.distributed can't be imported ({error}); "
        "install it with `pip install npaccel[cluster]`"
    )


def _connected(address: str) -> Any:
    try:
        from distributed import Client
    except ImportError as error:
        raise _missing(error) from None
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


def _shared_out(plan: ClusterPlan, contents: Mapping[int, Any]) -> dict[int, list[Put]]:
    """Per node its pieces of what buffers hold."""
    found: dict[int, list[Put]] = {}
    for index, content in contents.items():
        placed = plan.placed[index]
        whole = _assembly(plan, index, placed)
        whole.memory[index][...] = np.frombuffer(content, "u1")
        for node, box in placed.shares:
            pieces = ((box, whole.at(index, box).copy()),)
            size = len(whole.memory[index])
            found.setdefault(node, []).append(Put(index, size, placed.layout, pieces))
    return found
