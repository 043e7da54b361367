"""A cluster in this process: nodes that share nothing, and a network that counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from npaccel.cluster.nodes import Message, Node, interpret
from npaccel.cluster.plans import ClusterPlan, Stage
from npaccel.runtime.checking.splitting import Launch

__all__ = ["Simulation", "Traffic"]

Array = np.ndarray[Any, Any]


@dataclass
class Traffic:
    """What went over the network."""

    messages: int = 0
    sent_bytes: int = 0


class Simulation:
    """Runs a plan on nodes with memories of their own.

    Parameters
    ----------
    contents : per buffer that is not fresh its bytes; each node is given what is its.
    poison : what memory holds that nobody has written or sent: a mistake of the plan is seen.
    """

    def __init__(
        self,
        plan: ClusterPlan,
        contents: Mapping[int, Any],
        *,
        poison: int = 0xA5,
        launch: Launch = interpret,
    ) -> None:
        self.plan, self.traffic = plan, Traffic()
        layouts = {index: placed.layout for index, placed in plan.placed.items()}
        uses = plan.uses
        self.nodes = [Node(k, plan.trace.buffers, layouts, launch, uses) for k in range(plan.nodes)]
        for node in self.nodes:
            for number, memory in node.memory.items():
                memory[...] = (poison + 16 * node.number + number) % 256
        for index, content in contents.items():
            source = Node(-1, [plan.trace.buffers[index]], layouts)
            source.memory[index][...] = np.frombuffer(content, "u1")
            for share in plan.placed[index].shares:
                self.nodes[share.node].at(index, share.box)[...] = source.at(index, share.box)

    def run(self) -> None:
        """All stages, one after another."""
        for node in self.nodes:
            node.begin()
        for number, stage in enumerate(self.plan.stages):
            self._exchange(stage)
            for k, work in stage.work.items():
                self.nodes[k].work(work, number)

    @property
    def raised(self) -> dict[int, int]:
        """Per request the kinds of floating-point warnings, of all nodes together."""
        found: dict[int, int] = {}
        for node in self.nodes:
            for request, kinds in node.raised.items():
                found[request] = found.get(request, 0) | kinds
        return found

    def _exchange(self, stage: Stage) -> None:
        sent: list[tuple[int, Message]] = []
        here = [one for one in stage.partials if one.source == one.target]
        for one in here:
            self.nodes[one.source].unpack(self.nodes[one.source].pack((), (one,)))
        for source, target in sorted(stage.pairs()):
            pair = (source, target)
            message = self.nodes[source].pack(
                [one for one in stage.transfers if (one.source, one.target) == pair],
                [one for one in stage.partials if (one.source, one.target) == pair],
            )
            self.traffic.messages += 1
            self.traffic.sent_bytes += message.size_bytes
            sent.append((target, message))
        for target, message in sent:  # all are packed before any is taken in
            self.nodes[target].unpack(message)

    def contents(self, buffer: int) -> Array:
        """A buffer's bytes, each from the node that has it."""
        placed = self.plan.placed[buffer]
        layouts = {buffer: placed.layout}
        whole = Node(-1, [self.plan.trace.buffers[buffer]], layouts)
        for node, box in placed.shares:
            whole.at(buffer, box)[...] = self.nodes[node].at(buffer, box)
        return whole.memory[buffer]
