"""Kernels of nodes: compiled once for each kind of worker, and sent to the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from clusters import place
from test_planner import heat, numbers

import npaccel
from npaccel import Map
from npaccel.cluster import compiling
from npaccel.cluster.compiling import Compiled, Library, compile_shared, shared_out
from npaccel.cluster.orders import Code, Counted, Hall, Lacks, Order, Recipe, Reply, part_of
from npaccel.cluster.recorded import plan_pending
from npaccel.errors import BackendUnavailable

SHAPE = (96, 60)
NODES = 3


@pytest.fixture
def kinds() -> Iterator[list[Compiled]]:
    """What three nodes run kernels by."""
    try:
        yield [Compiled() for _ in range(NODES)]
    except BackendUnavailable as error:
        pytest.skip(str(error))


def halls(kinds: list[Compiled]) -> tuple[list[Hall], Any]:
    """Three nodes, and how they are asked."""
    found = [Hall(k, kinds[k]) for k in range(NODES)]

    def ask(orders: Mapping[int, Order]) -> dict[int, Reply]:
        return {
            k: Reply([], Counted(0, 0), {}, found[k].take(order), found[k].compile(order.compile))
            for k, order in orders.items()
        }

    return found, ask


def recipes() -> dict[int, Order]:
    made = Map.block(SHAPE, NODES)
    x, y = place(numbers(1), made), place(numbers(2), made)
    heat(x, y)
    z = np.sin(x) * y + x.sum(axis=1)[:, None]
    plan, _ = plan_pending(NODES)
    layouts = {index: placed.layout for index, placed in plan.placed.items()}
    orders = {}
    for k in range(NODES):
        parts = tuple(part_of(stage, k) for stage in plan.stages)
        orders[k] = Order(recipe=Recipe(0, plan.trace.buffers, layouts, parts, plan.uses))
    npaccel.evaluate(z)
    return orders


@pytest.mark.pending
@pytest.mark.usefixtures("deferred")
def test_each_kernel_is_compiled_once(
    kinds: list[Compiled], monkeypatch: pytest.MonkeyPatch, setting: Any
) -> None:
    setting("tiering", "off")
    _, ask = halls(kinds)
    orders = recipes()
    replies = ask(orders)
    lacked = [set(one.lacks.kernels) for one in replies.values() if one.lacks is not None]
    assert len(lacked) == NODES and set.intersection(*lacked)
    compiled, sent = compile_shared(ask, replies, Library())
    assert compiled == len(set.union(*lacked)) < sum(map(len, lacked)) == compiled + sent
    for one in kinds:  # nobody compiles any more
        monkeypatch.setattr(one._backend, "compile", None)
        monkeypatch.setattr(one._backend, "emit_object", None)
    again = ask(orders)
    assert [one.lacks.kernels for one in again.values() if one.lacks is not None] == [()] * NODES


@pytest.mark.pending
@pytest.mark.usefixtures("deferred")
def test_code_of_another_kind_is_not_loaded(
    kinds: list[Compiled], monkeypatch: pytest.MonkeyPatch, setting: Any
) -> None:
    setting("tiering", "off")
    kinds[2].kind = "another processor"
    _, ask = halls(kinds)
    replies = ask(recipes())
    found = replies[0].lacks
    assert found is not None
    asked: list[tuple[int, str]] = []

    def noted(orders: Mapping[int, Order]) -> dict[int, Reply]:
        asked.extend((k, one.code.kind) for k, one in orders.items() if one.code is not None)
        return ask(orders)

    fresh = Compiled()
    fresh._lacked = dict(kinds[0]._lacked)
    compile_shared(noted, replies, Library())
    assert {kind for k, kind in asked if k == 2} <= {"another processor"}
    assert (1, kinds[1].kind) in asked or (0, kinds[0].kind) in asked
    monkeypatch.setattr(fresh._backend, "link", None)
    fresh.take(Code("another processor", dict.fromkeys(found.kernels, b"")))
    assert not fresh._known


@pytest.mark.pending
@pytest.mark.usefixtures("deferred")
def test_who_comes_later_is_sent_what_others_compiled(
    kinds: list[Compiled], monkeypatch: pytest.MonkeyPatch, setting: Any
) -> None:
    setting("tiering", "off")
    found, ask = halls(kinds)
    library, orders = Library(), recipes()
    compiled, _ = compile_shared(ask, ask(orders), library)
    assert compiled
    fresh = Compiled()  # in the place of one that died
    found[1] = Hall(1, fresh)
    monkeypatch.setattr(fresh._backend, "emit_object", None)
    replies = ask({1: orders[1]})
    lacks = replies[1].lacks
    assert lacks is not None and lacks.kernels
    assert compile_shared(ask, replies, library) == (0, len(lacks.kernels))
    assert set(fresh._known) == set(lacks.kernels)
    other = Lacks("another processor", lacks.kernels)
    assert not library.of(other).images


def test_code_that_is_kept_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "MOST_BYTES", 100)
    library = Library()
    library.keep(Code("one", {"a": b"x" * 40, "b": b"y" * 40}))
    assert library.of(Lacks("one", ("a", "c"))).images == {"a": b"x" * 40}
    library.keep(Code("one", {"c": b"z" * 40}))
    assert library.of(Lacks("one", ("a", "b", "c"))).images.keys() == {"a", "c"}
    library.keep(Code("one", {"c": b"z" * 60}))
    assert library.of(Lacks("one", ("a", "b", "c"))).images.keys() == {"a", "c"}


@pytest.mark.pending
@pytest.mark.usefixtures("deferred")
def test_code_that_does_not_load_is_compiled(kinds: list[Compiled], setting: Any) -> None:
    setting("tiering", "off")
    _, ask = halls(kinds)
    found = ask(recipes())[0].lacks
    assert found is not None and found.kernels
    kinds[0].take(Code(kinds[0].kind, dict.fromkeys(found.kernels, b"rubbish")))
    assert not kinds[0]._known


def test_who_has_least_to_do_compiles() -> None:
    lacks = {
        0: Lacks("one", ("a", "b", "c", "d")),
        1: Lacks("one", ("a", "b", "c", "d")),
        2: Lacks("other", ("a", "b")),
        3: Lacks("one", ()),
    }
    found = shared_out(lacks)
    assert sorted([*found[0], *found[1]]) == ["a", "b", "c", "d"]
    assert len(found[0]) == len(found[1]) == 2 and sorted(found[2]) == ["a", "b"]
    assert 3 not in found
