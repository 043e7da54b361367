"""What the planner and the cost model foresee for 1 to 1,000 nodes that each have as much to do.

No node is started: plans are made from requests, and costed. Each node has a square of 8192 x 8192
doubles (512 MiB); memory 25 GB/s, network 10 Gb/s, for two latencies: TCP's, and an actor's of
dask.distributed.
"""

from __future__ import annotations

import json
import math
import sys
import time

from npaccel.cluster.costs import Machine, predict
from npaccel.cluster.maps import Map
from npaccel.cluster.placing import Layout, Placed, dense_strides
from npaccel.cluster.planner import plan_requests
from npaccel.ir.nodes import BufferInfo, Kind, Request, ScalarOperand, Trace, View

SIDE = 8192
NODES = (1, 2, 4, 8, 16, 64, 256, 1000)
F8 = "f8"


class Program:
    """Requests on arrays of one shape that have no memory."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self.shape = shape
        self.buffers: list[BufferInfo] = []
        self.requests: list[Request] = []

    def array(self, *, fresh: bool = False) -> int:
        """A buffer; a fresh one is a temporary."""
        size = math.prod(self.shape) * 8
        self.buffers.append(BufferInfo(len(self.buffers), size, fresh, fresh, True))
        return len(self.buffers) - 1

    def view(self, buffer: int, rows: int = 0, columns: int = 0, edge: int = 0) -> View:
        """All but `edge` elements at each end, moved by some rows and columns."""
        width = self.shape[1]
        return View(buffer, F8, (edge + rows) * width + edge + columns, (width, 1))

    def inner(self) -> View:
        """A temporary without the edge."""
        rows, columns = (n - 2 for n in self.shape)
        self.buffers.append(BufferInfo(len(self.buffers), rows * columns * 8, True, True, True))
        return View(len(self.buffers) - 1, F8, 0, (columns, 1))

    def add(self, op: str, out: View, *inputs: View | float, edge: int = 0) -> View:
        """Record an operation."""
        operands = tuple(
            ScalarOperand(F8, at, one) if isinstance(one, float) else one
            for at, one in enumerate(inputs)
        )
        shape = tuple(n - 2 * edge for n in self.shape)
        loop = (F8,) * (len(inputs) + 1)
        index = len(self.requests)
        self.requests.append(
            Request(index, Kind.MAP, op, shape, (), operands, (out,), loop, None, 0)
        )
        return out

    def trace(self) -> Trace:
        return Trace(tuple(self.buffers), tuple(self.requests))


def elementwise(shape: tuple[int, int]) -> Program:
    """y = 0.5 * x * x + x, ten times over; only x and y are in memory."""
    p = Program(shape)
    x, y = p.array(), p.array()
    value = p.view(x)
    for step in range(10):
        squared = p.add("multiply", p.view(p.array(fresh=True)), value, value)
        half = p.add("multiply", p.view(p.array(fresh=True)), squared, 0.5)
        out = p.view(y) if step == 9 else p.view(p.array(fresh=True))
        value = p.add("add", out, half, p.view(x))
    return p


def stencil(shape: tuple[int, int]) -> Program:
    """Ten sweeps of five points, from x to y and back."""
    p = Program(shape)
    x, y = p.array(), p.array()
    for step in range(10):
        a, b = (x, y) if step % 2 == 0 else (y, x)
        total = p.view(a, 0, 0, 1)
        for rows, columns in ((-1, 0), (1, 0), (0, -1), (0, 1)):
            out = p.inner()
            total = p.add("add", out, total, p.view(a, rows, columns, 1), edge=1)
        p.add("multiply", p.view(b, 0, 0, 1), total, 0.2, edge=1)
    return p


def total(shape: tuple[int, int]) -> Program:
    """A sum of all elements."""
    p = Program(shape)
    x = p.array()
    p.buffers.append(BufferInfo(1, 8, False, False, True))
    out = View(1, F8, 0, (0, 0))
    p.requests.append(
        Request(0, Kind.REDUCE, "add", shape, (0, 1), (p.view(x),), (out,), (F8, F8), None, 0)
    )
    return p


def shares(shape: tuple[int, int]) -> Program:
    """All elements over their sum: it goes to one node, and back to all."""
    p = total(shape)
    y = p.array()
    p.add("divide", p.view(y), p.view(0), View(1, F8, 0, (0, 0)))
    return p


def grid_of(nodes: int) -> tuple[int, int]:
    """The most square grid."""
    rows = next(k for k in range(math.isqrt(nodes), 0, -1) if nodes % k == 0)
    return rows, nodes // rows


def main() -> None:
    """Print a row per program, map and number of nodes, and JSON where it is asked for."""
    rows = []
    for make in (elementwise, stencil, total, shares):
        for kind in ("rows", "grid"):
            alone: dict[float, float] = {}
            for nodes in NODES:
                counts = (nodes, 1) if kind == "rows" else grid_of(nodes)
                shape = (SIDE * counts[0], SIDE * counts[1])
                made = Map.grid(shape, counts)
                layout = Layout(shape, dense_strides(shape, 8), 0, 8)
                begin = time.process_time()
                placed = Placed.by(layout, made)
                given = {0: placed} if make in (total, shares) else {0: placed, 1: placed}
                plan = plan_requests(make(shape).trace(), given, nodes)
                planned = time.process_time() - begin
                for latency in (80e-6, 800e-6):
                    found = predict(plan, Machine(latency_s=latency))
                    alone.setdefault(latency, found.total_s)
                    rows.append(
                        {
                            "program": make.__name__,
                            "map": kind,
                            "nodes": nodes,
                            "latency_s": latency,
                            "messages": plan.messages,
                            "moved_bytes": plan.moved_bytes,
                            "total_s": found.total_s,
                            "messages_s": found.messages_s,
                            "efficiency": alone[latency] / found.total_s,
                            "planning_s": planned,
                        }
                    )
                    print(
                        f"{make.__name__:12} {kind:5} {nodes:5} nodes, {latency * 1e6:4.0f} us:"
                        f" {found.total_s * 1e3:8.2f} ms, {plan.messages:6} messages,"
                        f" {plan.moved_bytes / 1e6:9.2f} MB, {alone[latency] / found.total_s:6.1%}"
                        f" of one node's speed; planned in {planned:.2f} s"
                    )
    if len(sys.argv) > 1:
        with open(sys.argv[1], "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
