"""Runs what is pending on simulated nodes, and in this process; both must have the same bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import npaccel
from npaccel import Map, _native
from npaccel.cluster.plans import ClusterPlan
from npaccel.cluster.recorded import plan_pending
from npaccel.cluster.simulation import Simulation

Array = np.ndarray[Any, Any]


def place(values: Array, made: Map) -> Any:
    """A copy in npaccel's own memory, which requests read there however small it is."""
    own = npaccel.evaluate(npaccel.asarray(values) * values.dtype.type(1))
    own[...] = values
    return npaccel.agile(own, made)


def both(program: Callable[[], Any], *written: Any, nodes: int | None = None) -> ClusterPlan:
    """Record the program; compare its results and what it writes. Returns the plan."""
    npaccel.evaluate()
    results = program()
    results = results if isinstance(results, tuple) else (results,)
    recorded = plan_pending(nodes)
    plan = recorded.plan
    contents = {index: bytes(read()) for index, read in recorded.contents.items()}
    kept = [
        (one, place) for one in (*results, *written) if (place := _native.place(one)) is not None
    ]
    simulation = Simulation(plan, contents)
    simulation.run()
    assert simulation.traffic.messages == plan.messages
    assert simulation.traffic.sent_bytes == plan.moved_bytes
    made = {index: simulation.contents(index) for _, (index, _) in kept if index >= 0}
    checked = 0
    for array, (index, offset) in kept:
        if index < 0:
            continue  # nothing that is pending concerns it
        there = np.ndarray(array.shape, array.dtype, made[index], offset, array.strides)
        here = np.asarray(array)
        assert there.tobytes() == here.tobytes(), f"{plan}\n{there}\n{here}"
        checked += 1
    assert checked, "nothing was compared"
    return plan
