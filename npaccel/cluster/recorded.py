"""What is pending, planned for several nodes by the maps that its arrays carry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from npaccel import _native
from npaccel.cluster.carrying import MAPS
from npaccel.cluster.placing import Placed
from npaccel.cluster.planner import plan_requests
from npaccel.cluster.plans import ClusterPlan
from npaccel.errors import MapError
from npaccel.runtime.programs.trace import decode

__all__ = ["Recorded", "plan_pending"]

Array = np.ndarray[Any, Any]


class Recorded(NamedTuple):
    """A plan, and per buffer that is not fresh a function that gives its bytes as they are now."""

    plan: ClusterPlan
    contents: dict[int, Callable[[], bytes]]


def plan_pending(nodes: int | None = None) -> Recorded:
    """Plan what is pending. It stays so.

    Parameters
    ----------
    nodes : how many; None: as many as the maps of its arrays have.
    """
    pending = _native.pending()
    trace = decode(pending)
    placed: dict[int, Placed] = {}
    most = 1
    for carried in MAPS.all():
        owner = carried.owner()
        place = None if owner is None else _native.place(owner)
        if place is None or place[0] < 0:
            continue
        layout = replace(carried.layout, offset=carried.layout.offset + place[1])
        placed[place[0]] = Placed.by(layout, carried.map)
        most = max(most, carried.map.nodes)
    if nodes is not None and nodes < most:
        raise MapError(
            f"a plan for {nodes} nodes, where maps of its arrays have {most}; ask for as many"
        )
    there = [info.index for info in trace.buffers if not info.fresh]
    contents = {index: _contents(index) for index in there}
    return Recorded(plan_requests(trace, placed, nodes or most), contents)


def _contents(index: int) -> Callable[[], bytes]:
    return lambda: _native.contents(index)
