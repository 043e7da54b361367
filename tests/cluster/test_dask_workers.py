"""Plans on worker processes of dask.distributed, on loopback: one process's bits, and messages."""

from __future__ import annotations

import functools
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from clusters import Array, place
from test_planner import _step, heat, numbers

import npaccel
from npaccel import BackendUnavailable, Map, _native
from npaccel.cluster import (
    asking,
    compiling,
    dask_workers,
    folding,
    nodes,
    peers,
    relays,
    trees,
)
from npaccel.cluster.dask_workers import Workers, connected
from npaccel.cluster.recorded import plan_pending

distributed = pytest.importorskip("distributed")
pytestmark = [
    pytest.mark.pending,
    pytest.mark.usefixtures("deferred"),
    pytest.mark.filterwarnings("ignore"),  # dask's own, of its sockets and event loops
]
SHAPE = (96, 60)
TOKEN = bytes(range(32))


@pytest.fixture(autouse=True)
def no_kernels_here(setting: Any) -> None:
    """Workers compile; what they are compared with is NumPy's loops, which have the same bits."""
    setting("tiering", "off")


@contextmanager
def same_environment() -> Iterator[None]:
    """dask's nannies set OMP_NUM_THREADS and the like for good, in their parent."""
    before = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def client_of(workers: int) -> Iterator[Any]:
    with (
        same_environment(),
        distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            dashboard_address=None,
            silence_logs=logging.CRITICAL,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """Four worker processes."""
    yield from client_of(4)


@pytest.fixture(params=[2, 4])
def workers(client: Any, request: pytest.FixtureRequest) -> Iterator[Workers]:
    client.wait_for_workers(request.param, timeout=60)  # on a busy machine they come and go
    with Workers(client, request.param) as found:
        yield found


def both(workers: Workers, program: Any, *written: Any) -> Any:
    """Run what the program records on workers and here; compare bytes and counts."""
    results = program()
    results = results if isinstance(results, tuple) else (results,)
    plan, contents = plan_pending(workers.nodes)
    workers.begin(plan, {index: bytes(read()) for index, read in contents.items()})
    kept: list[tuple[Array, Any]] = [(one, _native.place(one)) for one in (*results, *written)]
    counted = workers.run()
    assert counted.messages == plan.messages and counted.received_bytes == plan.moved_bytes
    checked = 0
    for array, (index, offset) in kept:
        if index >= 0:
            made = workers.contents(index)
            there = np.ndarray(array.shape, array.dtype, made, offset, array.strides)
            assert there.tobytes() == np.asarray(array).tobytes(), str(plan)
            checked += 1
    assert checked
    return plan


def test_stencils_and_reductions(workers: Workers) -> None:
    made = Map.block(SHAPE, workers.nodes)
    x, y = place(numbers(1), made), place(numbers(2), made)

    def program() -> Any:
        heat(x, y)
        heat(y, x)
        return np.sin(x), np.add.reduce(x, axis=1), x.max(axis=0)

    plan = both(workers, program, x, y)
    halos = 2 * 2 * (workers.nodes - 1)
    assert plan.messages <= halos + workers.nodes and not plan.alone


def test_sweeps_send_once(workers: Workers) -> None:
    made = Map.block(SHAPE, workers.nodes)
    x, y = place(numbers(1), made), place(numbers(2), made)

    def program() -> Any:
        for _ in range(3):
            heat(x, y)
            heat(y, x)
        return x

    assert both(workers, program, x, y).messages == 2 * (workers.nodes - 1)


def test_partial_results_along_a_tree(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "FAN_IN", 2)
    n = 9 * folding.CHUNK
    made = Map.block((n,), workers.nodes)
    x, i = place(numbers(1, (n,)), made), place(numbers(2, (n,), "i4"), made)

    def program() -> Any:
        whole = [np.add.reduce(one, keepdims=True) for one in (x, i)]
        return *whole, np.maximum.reduce(x, keepdims=True)

    plan = both(workers, program)
    assert len(plan.stages) == (2 if workers.nodes == 2 else 3) and not plan.alone


def test_what_all_need_goes_along_a_tree(client: Any) -> None:
    """From a node to seven others: who has got it sends it on."""
    shape = (64, 300)
    x = place(numbers(1, shape), Map.block(shape, 8))
    npaccel.evaluate()
    with Workers(client, 8) as workers:
        plan = both(workers, lambda: x * x[11])
        npaccel.evaluate()
        total = both(workers, lambda: x / np.add.reduce(x, axis=None, keepdims=True))
    assert plan.messages == 7 and len(plan.stages) == 2
    assert total.messages == 14 and len(total.stages) == 3


def test_messages_per_worker_do_not_grow_with_operations(workers: Workers) -> None:
    """30 operations and 120 on 256 segments: the same. (Of longer loops the core runs rounds.)"""
    shape = (256, 64)
    made = Map.block_block(shape, workers.nodes, (16, 4))
    x, y = place(numbers(1, shape), made), place(numbers(2, shape), made)

    def program(n: int) -> Any:
        value = x
        for k in range(n - 1):
            value = value * 0.5 if k % 2 else value + x
        y[1:] += value[:-1]
        return y

    few = both(workers, lambda: program(30), y)
    npaccel.evaluate()
    many = both(workers, lambda: program(120), y)
    assert len(many.trace.requests) >= 120 and len(few.trace.requests) >= 30
    assert few.messages == many.messages == workers.nodes - 1


def test_redistribution(workers: Workers) -> None:
    x = place(numbers(1), Map.block(SHAPE, workers.nodes))
    y = place(numbers(2), Map.block(SHAPE, workers.nodes, axis=1))

    def program() -> Any:
        y[...] = x * 2
        return y

    plan = both(workers, program)
    assert plan.messages == workers.nodes * (workers.nodes - 1)


@pytest.mark.parametrize("seed", range(4))
def test_random_programs(client: Any, seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    maps = [Map.block(SHAPE, 3), Map.grid(SHAPE, (2, 2)), Map.row_block(SHAPE, 4)]
    inputs = [place(numbers(seed + k), maps[rng.integers(3)]) for k in range(3)]
    arrays = list(inputs)

    def program() -> Any:
        for _ in range(8):
            _step(rng, arrays)
        return tuple(arrays[3:]) or arrays[0]

    with Workers(client, 4, compiled=False) as workers, np.errstate(all="ignore"):
        both(workers, program, *inputs)


def test_a_plan_runs_again_and_again(client: Any) -> None:
    x = place(np.ones(SHAPE), Map.block(SHAPE, 2))
    x += 1
    plan, contents = plan_pending()
    with Workers(client, 2) as workers:
        workers.begin(plan, {index: bytes(read()) for index, read in contents.items()})
        index, _ = _native.place(x)
        for _ in range(3):
            workers.run()
            assert (workers.contents(index).view("f8") == 2).all()


def test_what_is_refused(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = place(numbers(1), Map.block(SHAPE, 4))
    y = x + 1
    few = pytest.raises(BackendUnavailable, match="a plan for 4 nodes, where there are 2")
    with Workers(client, 2) as workers, few:
        workers.begin(plan_pending().plan, {})
    del y
    monkeypatch.setattr(dask_workers, "ANSWER_S", 0.5)
    with pytest.raises(
        BackendUnavailable, match=r"asked tcp://127.0.0.1:9, .*no scheduler answered"
    ):
        connected("tcp://127.0.0.1:9")
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(BackendUnavailable, match=r"pip install npaccel\[cluster\]"):
        connected("tcp://127.0.0.1:9")


@pytest.fixture
def told_by_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of few nodes, too, some tell the others what to do."""
    monkeypatch.setattr(relays, "MANY", 2)


@pytest.mark.usefixtures("told_by_others")
def test_nodes_tell_others(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven nodes in three groups; the driver tells three of them of a run."""
    shape = (70, 300)
    told: list[int] = []
    say = asking.Asked.send

    def noted(self: asking.Asked, k: int, what: Any) -> None:
        told.append(k)
        say(self, k, what)

    x = place(numbers(1, shape), Map.block(shape, 7))
    npaccel.evaluate()
    with Workers(client, 7) as workers:
        y = (x[2:] - x[:-2]) * 0.5
        plan, contents = plan_pending(7)
        workers.begin(plan, {index: bytes(read()) for index, read in contents.items()})
        monkeypatch.setattr(asking.Asked, "send", noted)
        for _ in range(3):
            counted = workers.run()
            assert counted.messages == plan.messages and counted.received_bytes == plan.moved_bytes
        assert told == [0, 3, 6] * 3
        kept = _native.place(y)
        assert kept is not None
        made = workers.contents(kept[0])
        there = np.ndarray(y.shape, y.dtype, made, kept[1], y.strides)
        assert there.tobytes() == np.asarray(y).tobytes()


@pytest.mark.parametrize("runs", [1, 0])
def test_the_death_of_a_worker_is_an_error(runs: int) -> None:
    """Neither a wrong result nor a wait for ever; also where nothing was connected yet."""
    for client in client_of(2):
        pids = list(client.run(os.getpid).values())
        x, y = (place(numbers(k), Map.block(SHAPE, 2)) for k in (1, 2))
        heat(x, y)
        plan, contents = plan_pending()
        with Workers(client, silence_s=3) as workers:
            workers.begin(plan, {index: bytes(read()) for index, read in contents.items()})
            for _ in range(runs):
                workers.run()
            os.kill(pids[0], signal.SIGKILL)
            with pytest.raises(
                BackendUnavailable, match="is gone, and with it what its nodes held"
            ):
                for _ in range(1000):
                    workers.run()


@pytest.mark.parametrize("told", [None, 2])
def test_what_one_node_raises_ends_the_run(
    client: Any, monkeypatch: pytest.MonkeyPatch, told: int | None
) -> None:
    """The others do not wait for what it does not send, nor is it taken to be gone."""
    monkeypatch.setattr(relays, "MANY", told or relays.MANY)
    x = place(numbers(1), Map.block(SHAPE, 3))
    npaccel.evaluate()
    running = np.cumsum(x, axis=0)  # from node to node
    plan, contents = plan_pending(3)
    assert len(plan.stages) > 1 and running.shape == SHAPE
    held = {index: bytes(read()) for index, read in contents.items()}

    def fail() -> None:
        work = nodes.Node.work

        def fails(self: nodes.Node, parts: Any, stage: int) -> None:
            if (self.number, stage) == (1, 0):
                nodes.Node.work = work  # type: ignore[method-assign]
                raise MemoryError("planted")
            work(self, parts, stage)

        nodes.Node.work = fails  # type: ignore[method-assign]

    with Workers(client, 3, silence_s=1000.0) as workers:
        workers.begin(plan, held)
        client.run(fail, workers=[sorted(client.scheduler_info()["workers"])[1]])
        with pytest.raises(MemoryError, match="planted"):
            workers.run()
        workers.begin(plan, held)  # all of them live
        assert workers.run().messages == plan.messages


def test_a_worker_without_what_a_node_needs_is_named(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses = sorted(client.scheduler_info()["workers"])

    def fail() -> None:
        def fails() -> None:
            raise BackendUnavailable("no llvmlite here")

        compiling.compiled_here = fails  # type: ignore[assignment]

    def mend() -> None:
        compiling.compiled_here = functools.cache(compiling.Compiled)

    client.run(fail, workers=addresses[1:2])
    try:
        words = rf"on these workers:\n  {addresses[1]}: BackendUnavailable: no llvmlite here\ninst"
        with pytest.raises(BackendUnavailable, match=words):
            Workers(client, 4)
    finally:
        client.run(mend, workers=addresses[1:2])


@pytest.mark.usefixtures("told_by_others")
@pytest.mark.parametrize(
    ("who", "how"),
    [
        (0, signal.SIGKILL),
        (1, signal.SIGKILL),
        *(pytest.param(k, signal.SIGSTOP, marks=pytest.mark.slow) for k in (0, 1)),
    ],
)
def test_the_death_of_those_who_tell_others(who: int, how: signal.Signals) -> None:
    """Six nodes on three workers: the first has both that tell others, the second none."""
    shape = (60, 300)
    for client in client_of(3):
        pids = client.run(os.getpid)
        x, y = (place(numbers(k, shape), Map.block(shape, 6)) for k in (1, 2))
        heat(x, y)
        plan, contents = plan_pending()
        held = {index: bytes(read()) for index, read in contents.items()}
        with Workers(client, 6, silence_s=30) as workers:
            workers.begin(plan, held)
            counted = workers.run()
            killer = threading.Timer(0.3, os.kill, (pids[sorted(pids)[who]], how))
            killer.start()
            begin = time.monotonic()
            with pytest.raises(BackendUnavailable, match="is gone"):
                while time.monotonic() - begin < 60:
                    workers.run()
            assert time.monotonic() - begin < 60
            workers.begin(plan, held)
            assert workers.run() == counted  # by new nodes, and others that tell of it
            kept = _native.place(y)
            assert kept is not None
            made = workers.contents(kept[0])
            there = np.ndarray(shape, y.dtype, made, kept[1], y.strides)
            assert there.tobytes() == np.asarray(y).tobytes()
        if how == signal.SIGSTOP:
            os.kill(pids[sorted(pids)[who]], signal.SIGKILL)


def test_a_worker_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for client in client_of(2):
        pids = client.run(os.getpid)
        stopped = max(pids)
        monkeypatch.setattr(dask_workers, "SILENCE_S", 2.0)
        os.kill(pids[stopped], signal.SIGSTOP)
        try:
            with pytest.raises(BackendUnavailable, match=f"the worker at {stopped} did not"):
                Workers(client)
        finally:
            os.kill(pids[stopped], signal.SIGCONT)


def test_connections_are_made_where_messages_go(client: Any) -> None:
    """Eight nodes in rows: a stencil's have their neighbours, and none has all others."""
    shape = (64, 300)
    x, y = (place(numbers(k, shape), Map.block(shape, 8)) for k in (1, 2))
    npaccel.evaluate()
    with Workers(client, 8) as workers:
        assert not any(workers.connections())
        both(workers, lambda: x * 2.0 + y)
        assert not any(workers.connections())
        npaccel.evaluate()

        def stencil() -> Any:
            heat(x, y)
            return y

        both(workers, stencil, x, y)
        assert workers.connections() == [
            [near for near in (k - 1, k + 1) if 0 <= near < 8] for k in range(8)
        ]
        npaccel.evaluate()
        both(workers, lambda: x[:8, :8] + x[:8, :8].T)  # of one node
        assert sum(map(len, workers.connections())) == 14


def test_few_connections_are_kept(client: Any) -> None:
    """Of each to each other one that was ended is made again."""
    x = place(numbers(1), Map.block(SHAPE, 4))
    y = place(numbers(2), Map.block(SHAPE, 4, axis=1))
    client.run(setattr, peers, "MOST", 2)
    try:
        with Workers(client, 4) as workers:
            for factor in (2.0, 3.0, 4.0):

                def program() -> Any:
                    y[...] = x * factor  # noqa: B023
                    return y

                assert both(workers, program, y).messages == 12
                assert [len(one) for one in workers.connections()] == [2] * 4
                npaccel.evaluate()
    finally:
        client.run(setattr, peers, "MOST", peers.MOST)
