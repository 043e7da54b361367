"""Nodes on workers of dask.distributed, which starts processes and moves bytes between them.

This file and dask_local.py are the only ones that name that library. Each node is an actor on a
worker, which listens (wires.py). Whoever has the nodes tells each what to do, in one message; what
they need of each other nodes send directly, one message per pair and stage.
"""

from __future__ import annotations

import importlib
import os
import secrets
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from npaccel import _native, system
from npaccel.cluster import relays
from npaccel.cluster.asking import SILENCE_S, Asked, Line, Silence
from npaccel.cluster.boxes import Box
from npaccel.cluster.compiling import Library, compile_shared, compiled_here
from npaccel.cluster.dask_local import missing
from npaccel.cluster.mail import Mail
from npaccel.cluster.nodes import Node, interpret
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
from npaccel.cluster.peers import Peers
from npaccel.cluster.placing import Placed
from npaccel.cluster.plans import ClusterPlan
from npaccel.cluster.relays import Group, Relay
from npaccel.cluster.shipping import portable
from npaccel.cluster.wires import TICK_S, TOKEN_BYTES, Gone, Place, Wire, connect, open_door, spoken
from npaccel.errors import BackendUnavailable
from npaccel.ir.differences import loops

__all__ = [
    "Counted",
    "Fleet",
    "NodeActor",
    "Silence",
    "Workers",
    "WorkersLost",
    "connected",
]

Array = np.ndarray[Any, Any]
ANSWER_S = 5.0  # how long somebody at an address may take to answer
AGAIN_S = 3.0  # how long it is waited for a worker that is started again, where there are others
START_S = 10.0  # the same where there is none
MEASURE_S = 0.5  # how long a node's speed is measured
HEARD_S = 20.0  # a worker that the scheduler has not heard of for so long gets no node


class WorkersLost(Exception):
    """Nodes are gone with all they held: (their numbers, where they were, and why it is so). New
    ones are there."""


# ------------------------------------------------------------------------------------- on workers


# What a connection to a node is for.
ORDERS, MESSAGES, PULSE, RELAY, LIFE = range(5)


class NodeActor:
    """A node, on the worker where it lives."""

    def __init__(self, number: int, compiled: bool, token: bytes) -> None:
        self.number = number
        system.many_files()
        self._hall = Hall(number, compiled_here() if compiled else interpret)
        self._mail = Mail(number)
        host, self._tls, inwards = _here()
        self._peers = Peers(number, self._wire, self._mail.is_given_up)
        self._relay = Relay(lambda place: _line(place, ORDERS, self._tls))
        self._doing = threading.Lock()  # an order that came by another way ends first
        ways = (self._obey, self._mail.listen, self._beat, self._relay.serve, self._live)
        self._door = open_door(host, token, ways, inwards)

    def __del__(self) -> None:
        self._door.close()

    def identity(self) -> tuple[str, str]:
        """What its bits may depend on: versions, and which vectors the processor has."""
        return f"NumPy {loops()}", _native.cpu()[0]

    def place(self) -> Place:
        """Where it listens."""
        return self._door.place

    def speed(self) -> float:
        """Elements that it multiplies in a second, past its cache, while others do, too."""
        x, begin, rounds = np.ones(1 << 20), time.perf_counter(), 0
        while (late := time.perf_counter() - begin) < MEASURE_S:
            np.multiply(x, 1.0, out=x)
            rounds += 1
        return rounds * x.size / late

    def introduce(self, places: Mapping[int, Place]) -> None:
        """Where nodes are that are in the place of others."""
        with self._doing:
            for k in places:
                self._mail.forget(k)
            self._peers.learn(places)

    def connected(self) -> list[int]:
        """The nodes that it sends to, so far."""
        return self._peers.connected

    def _wire(self, place: Place) -> Wire:
        return connect(place, MESSAGES, self.number, self._tls)

    def _beat(self, wire: Wire, _: int) -> None:
        """Hear what it is to give up."""
        while True:
            run = wire.receive()
            self._mail.give_up(run)
            self._relay.give_up()
            wire.send(run)

    def _live(self, wire: Wire, _: int) -> None:
        """From now on it answers to who asks whether it lives, whatever holds the interpreter."""
        connection = wire.bare()
        connection.settimeout(None)
        _native.echo(connection.detach())

    def _obey(self, wire: Wire, _: int) -> None:
        while True:
            order, silence_s = wire.receive()
            if order.given_up >= 0:
                self._mail.give_up(order.given_up)
            try:
                with self._doing:
                    reply = self._do(order, silence_s)
            except Exception as error:
                wire.send(portable(error))
            else:
                wire.send(reply)

    def _do(self, order: Order, silence_s: float) -> Reply:
        self._peers.learn(dict(order.places))
        lacks = self._hall.take(order)
        counted, raised = Counted(0, 0), dict[int, int]()
        if order.run is not None:
            counted, raised = self._run(order.run, silence_s)
        code = self._hall.compile(order.compile)
        called, saved = self._hall.call(order), self._hall.store(order)
        return Reply(self._hall.give(order.gets), counted, raised, lacks, code, called, saved)

    def _run(self, order: RunOrder, silence_s: float) -> tuple[Counted, dict[int, int]]:
        run = order.run
        self._mail.begin(run)
        parts, mine = self._hall.begin(order)
        messages = received = 0
        for number, part in enumerate(parts):
            # All is packed before anything is written: neither below, nor by what arrives.
            sent = [(target, mine.pack(moves, sums)) for target, moves, sums in part.sends]
            for one in part.keeps:
                mine.unpack(mine.pack((), (one,)))
            for target, message in sent:
                self._peers.send(target, run, number, message, silence_s)
            for source in part.hears:
                message = self._mail.take(run, number, source, silence_s)
                messages, received = messages + 1, received + message.size_bytes
                mine.unpack(message)
            mine.copy(part.copies)
            if part.work:
                mine.work(part.work, number)
        return Counted(messages, received), mine.raised


def _here() -> tuple[str, Any, Any]:
    """This worker's host, and what dask encrypts with, outwards and inwards."""
    from distributed import get_worker

    worker = get_worker()
    address = urlsplit(worker.address)
    if address.scheme not in ("tcp", "tls"):
        return "127.0.0.1", None, None
    host = address.hostname or "127.0.0.1"
    if address.scheme == "tcp":
        return host, None, None
    outwards = worker.security.get_connection_args("worker")["ssl_context"]
    inwards = worker.security.get_listen_args("worker")["ssl_context"]
    inwards.num_tickets = 0  # else there is something to read before anything is said
    return host, outwards, inwards


def _line(place: Place, kind: int, tls: Any) -> Line:
    """Connections to a node, by which it is told something, and asked whether it lives."""
    orders, pulse, life = (connect(place, one, -1, tls) for one in (kind, PULSE, LIFE))
    return Line(orders, pulse, life.bare())


def _process() -> tuple[int, str]:
    return os.getpid(), socket.gethostname()


def _lacks(compiled: bool) -> str:
    """What keeps a worker from having a node; it is sent as it is, since npaccel may be missing."""
    try:
        compiling = importlib.import_module("npaccel.cluster.compiling")
        if compiled:
            compiling.compiled_here()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


_lacks.__module__ = "__main__"  # so it is pickled by what it does


# ------------------------------------------------------------------------------- who has the nodes


class Fleet:
    """Nodes on the workers of a dask cluster.

    Parameters
    ----------
    client : a `distributed.Client`, as `connected` gives one.
    nodes : how many; None: one per worker. A worker may have several.
    compiled : kernels run by code that each worker compiles; else they are interpreted.
    silence_s : how long a node waits for another one's message before it gives up.

    Raises
    ------
    BackendUnavailable : there are no workers, or they differ in versions or processors, so that
        bits might.
    """

    def __init__(
        self,
        client: Any,
        nodes: int | None = None,
        *,
        compiled: bool = True,
        silence_s: float = SILENCE_S,
    ) -> None:
        self._client = client
        self._compiled, self._silence_s = compiled, silence_s
        addresses = self._alive()
        if not addresses:
            raise BackendUnavailable(
                "npaccel.cluster: the dask cluster has no workers; start some, as with "
                "`dask worker ADDRESS`"
            )
        self.nodes = len(addresses) if nodes is None else nodes
        self._addresses = [addresses[k % len(addresses)] for k in range(self.nodes)]
        self._token = secrets.token_bytes(TOKEN_BYTES)
        self._futures: dict[int, Any] = {}  # who lets go of them lets go of the actors
        self._actors: dict[int, Any] = {}
        self._lines: dict[int, Line] = {}
        self._places: list[Place] = []
        self._relays: relays.Relays | None = None
        self._left: set[str] = set()  # where nodes were that are gone
        self._start(range(self.nodes))

    def _start(self, numbers: Iterable[int]) -> None:
        self._look({self._addresses[k] for k in numbers})
        for k in numbers:
            self._futures[k] = self._client.submit(
                NodeActor,
                k,
                self._compiled,
                self._token,
                actor=True,
                pure=False,
                workers=[self._addresses[k]],
            )
        for k in numbers:
            self._actors[k] = self._answer(self._addresses[k], self._futures[k])
        found = self._all("identity")
        if len(set(found)) > 1:
            pairs = zip(self._addresses, found, strict=True)
            rows = "\n".join(f"  {address}: {', '.join(one)}" for address, one in pairs)
            raise BackendUnavailable(
                "npaccel.cluster: workers differ, so results would depend on where they are "
                f"computed:\n{rows}\nuse workers that are alike"
            )
        places = self._all("place")
        if self._places:  # else nobody knows of any yet
            self._all("introduce", {k: places[k] for k in numbers})
        self._places = places
        tls = None
        if any(address.startswith("tls:") for address in self._addresses):
            tls = self._client.security.get_connection_args("client")["ssl_context"]
        for k in numbers:
            self._lines[k] = _line(places[k], ORDERS, tls)
        if self.nodes >= relays.MANY:
            with suppress(Gone):  # then each is told directly, and it is seen who is gone
                self._relays = relays.Relays(places, lambda place: _line(place, RELAY, tls))

    def _look(self, addresses: Iterable[str]) -> None:
        """Workers have what a node needs; dask itself tells nothing of one without npaccel."""
        asked = {
            address: self._client.submit(_lacks, self._compiled, pure=False, workers=[address])
            for address in sorted(addresses)
        }
        found = {address: self._answer(address, one) for address, one in asked.items()}
        if rows := "\n".join(f"  {address}: {why}" for address, why in found.items() if why):
            raise BackendUnavailable(
                f"npaccel.cluster: a node needs npaccel and llvmlite, and on these workers:\n{rows}"
                "\ninstall npaccel[cluster] there, as it is here, and start them again, or end them"
            )

    def _all(self, method: str, *args: Any) -> list[Any]:
        calls = [getattr(self._actors[k], method)(*args) for k in range(self.nodes)]
        return [self._answer(self._addresses[k], call) for k, call in enumerate(calls)]

    def _answer(self, address: str, call: Any) -> Any:
        for _ in range(round(SILENCE_S / TICK_S)):  # in which this process was not stopped
            with suppress(TimeoutError):
                return call.result(timeout=TICK_S)
        raise BackendUnavailable(
            f"npaccel.cluster: the worker at {address} did not answer within {SILENCE_S:g} s; it "
            "is gone, or its machine can't be reached: end it, and make the cluster of the others"
        )

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
        run = next((one.run.run for one in orders.values() if one.run is not None), -1)
        alike = len(orders) == self.nodes and len(set(map(id, orders.values()))) == 1
        if self._relays is not None and alike and run >= 0:
            group = self._relays.ask(next(iter(orders.values())), self._silence_s, run)
        else:
            group = self._ask_each(orders, run)
        if group.lost and self._relays is not None:
            self._relays.close()
            self._relays = None  # until there are new nodes
            rest = self._ask_each(dict.fromkeys(orders, Order(given_up=run)), run)
            group = Group({}, group.errors, {**group.lost, **rest.lost})
        if group.lost:
            where = [f"{self._addresses[k]} ({why})" for k, why in sorted(group.lost.items())]
            raise WorkersLost(set(group.lost), where + self._replaced(set(group.lost)))
        if group.errors:  # those that wait for one that failed have errors, too
            raise min(group.errors.values(), key=lambda error: isinstance(error, Silence))
        return group.replies

    def _ask_each(self, orders: Mapping[int, Order], run: int) -> Group:
        asked = Asked(self._lines, run)
        told: dict[int, list[memoryview]] = {}  # many are told the same
        for k, order in orders.items():
            if id(order) not in told:
                told[id(order)] = spoken((self._with_places(order), self._silence_s))
            asked.send(k, told[id(order)])
        asked.wait()
        return Group(asked.replies, asked.errors, asked.lost)

    def _with_places(self, order: Order) -> Order:
        """Who is given a recipe is told where those are that it sends to."""
        if order.recipe is None:
            return order
        targets = {target for part in order.recipe.parts for target, _, _ in part.sends}
        return order._replace(places=tuple((k, self._places[k]) for k in sorted(targets)))

    def _replaced(self, lost: set[int]) -> list[str]:
        """There are others in the place of those that are gone, if that can be; else why not."""
        try:
            self._replace(lost)
        except Exception as error:  # dask raises this or that
            for k in lost & self._lines.keys():
                self._lines.pop(k).close()
            return [f"{type(error).__name__}: {error}"]
        return []

    def _replace(self, lost: set[int]) -> None:
        """New nodes for those that are gone, where there are workers."""
        before = [self._addresses[k] for k in sorted(lost)]
        self._left.update(before)
        for k in lost & self._lines.keys():
            self._lines.pop(k).close()
        free = self._free(lost)
        if not free:
            raise BackendUnavailable(
                f"npaccel.cluster: the workers at {', '.join(before)} are gone, and none is left"
            )
        for number, k in enumerate(sorted(lost)):
            self._addresses[k] = free[number % len(free)]
        self._start(sorted(lost))

    def _free(self, lost: set[int]) -> list[str]:
        """Workers where no node has died, those with the fewest nodes first. One that died may be
        started again soon, at another address: for that it is waited."""
        begin = time.monotonic()
        while True:
            used = Counter(a for k, a in enumerate(self._addresses) if k not in lost)
            alive = [address for address in self._alive() if address not in self._left]
            alive.sort(key=lambda address: used[address])
            late = time.monotonic() - begin
            enough = len([address for address in alive if not used[address]]) >= len(lost)
            if enough or late > START_S or (alive and late > AGAIN_S):
                return alive
            time.sleep(TICK_S / 2)

    def speeds(self) -> list[float]:
        """Of the nodes, measured all at once."""
        return self._all("speed")

    def connections(self) -> list[list[int]]:
        """Of the nodes, to which others each has sent."""
        return self._all("connected")

    def scheduler(self) -> tuple[int, str]:
        """The process that the scheduler is, and its machine."""
        found: tuple[int, str] = self._client.run_on_scheduler(_process)
        return found

    def close(self) -> None:
        """Let go of the nodes, and of what they hold."""
        if self._relays is not None:
            self._relays.close()
        for line in self._lines.values():
            line.close()
        self._lines.clear()
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
        compile_shared(self._ask, self._ask(orders), Library())
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

    def connections(self) -> list[list[int]]:
        """Of the nodes, to which others each has sent."""
        return self._fleet.connections()

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


def connected(address: str, security: Any = None) -> Any:
    """A client of the scheduler at an address.

    security : a `distributed.Security`; None: by dask's configuration.

    Raises
    ------
    BackendUnavailable : dask.distributed is not installed; certificates are missing, or can't be
        read; nobody answers.
    """
    try:
        from distributed import Client, Security
    except ImportError as error:
        raise missing(error) from None
    security = security if security is not None else Security()
    encrypts = urlsplit(address).scheme == "tls"
    if encrypts:
        _certificates(address, security)
    try:
        return Client(address, timeout=ANSWER_S, security=security)
    except (OSError, ValueError, RuntimeError) as error:
        too = ", or use certificates of its authority" if encrypts else ""
        raise BackendUnavailable(
            f"npaccel.cluster: asked {address}, where no scheduler answered within {ANSWER_S:g} s "
            f"({type(error).__name__}: {error}); start one with `dask scheduler`, or correct the "
            f"address{too}"
        ) from None


def _certificates(address: str, security: Any) -> None:
    """They are there, and can be read."""
    names = ("tls_ca_file", "tls_client_cert", "tls_client_key")
    missing = [name for name in names[:2] if not getattr(security, name)]
    why = f"{' and '.join(missing)} of its `distributed.Security` are not set"
    try:
        found = security.get_connection_args("client").get("ssl_context")
    except OSError as error:  # ssl.SSLError, too
        values = [str(getattr(security, name)) for name in names]
        files = ", ".join(one for one in values if "\n" not in one)  # else it is the key itself
        found, why = None, f"its certificates can't be read ({error}): {files}"
    if found is None:
        raise BackendUnavailable(
            f"npaccel.cluster: what is said with {address} is encrypted, and {why}; give them as "
            "npaccel.Cluster(address, security=distributed.Security(tls_ca_file=..., "
            "tls_client_cert=..., tls_client_key=..., require_encryption=True)), or as "
            "distributed.comm.tls in dask's configuration"
        )


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
