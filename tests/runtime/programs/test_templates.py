"""What a template is filled to is what planning for that size comes to."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import numpy as np
import pytest
from authors import Author
from changing import OURS, Changing, outcome

import npaccel
from npaccel import _native, this_process
from npaccel.backends.base import Loaded
from npaccel.backends.llvm.compiled import CompiledKernel, bind
from npaccel.ir.nodes import Kernel, KernelStep, Plan
from npaccel.ir.passes import Limits, plan
from npaccel.runtime.programs import templates as templates_module
from npaccel.runtime.programs.program import Recipe, assemble, draft
from npaccel.runtime.programs.templates import (
    Template,
    Templates,
    pack_template,
    template_of,
    unpack_template,
)
from npaccel.runtime.programs.trace import decode, portable

pytestmark = [pytest.mark.pending, pytest.mark.usefixtures("deferred")]

Sizes = tuple[int, int, int]
NO_CODE = Loaded(1, 0, 32, 0, None)


def recipe_program(recipe: Recipe) -> _native.Program:
    """With code of no use: it never runs."""
    return assemble(recipe, [NO_CODE] * len(recipe.kernels), "")


def filled(template: Template, pending: _native.Pending) -> list[tuple[int, ...]] | None:
    """What the template comes to for these requests; it is not found by others."""
    code = [NO_CODE] * len(template.kernels)
    program = template.program(pending, code, "", keep=False)
    return None if program is None else program.layout()


def compiled(kernel: Kernel) -> tuple[str, CompiledKernel]:
    """As the helper has it: nothing runs, so nothing is loaded."""
    return kernel.name, bind(kernel, NO_CODE)


def planned_here(limits: Limits) -> tuple[Plan, list[tuple[int, ...]], Any]:
    """What planning comes to for what is pending, and the template of that, if it has one."""
    pending = _native.pending()
    trace, rules = decode(pending), list(portable(pending).rules.values())
    planned = plan(trace, limits=limits)
    made = draft(trace, planned, compiled, _native.threads(), {})
    template = template_of(trace, planned, made, rules)
    layout = recipe_program(made.recipe()).layout()
    return planned, layout, template and unpack_template(pack_template(template))


def same(a: Plan, b: Plan) -> None:
    """Equal but for where numbers come from, and the bounds of rows."""
    assert len(a.steps) == len(b.steps)
    for x, y in zip(a.steps, b.steps, strict=True):
        wanted = y
        if isinstance(x, KernelStep) and isinstance(y, KernelStep):
            assert x.kernel.name == y.kernel.name  # which is made of all that is in it
            wanted = dataclasses.replace(y, kernel=x.kernel, origin=x.origin)
        assert x == wanted
    assert (a.buffers, a.dropped, a.consumed) == (b.buffers, b.dropped, b.consumed)


# Limits that small programs come near to.
NEAR = Limits(
    nodes=40, arrays=6, scratch_bytes=500, band_points=24, inner_points=30, column_points=26
)


@pytest.mark.parametrize(
    ("seeds", "low", "high", "limits", "least"),
    [
        (range(60), (16, 16, 16), (40, 40, 20), Limits(), 40),
        (range(100, 200), (16, 16, 16), (40, 40, 20), NEAR, 40),
        (range(500, 510), (500, 1000, 2), (900, 1500, 4), Limits(), 5),
    ],
    ids=["small", "near", "large"],
)
def test_filling_and_moving_is_planning(
    seeds, low: Sizes, high: Sizes, limits: Limits, least: int, setting, monkeypatch
) -> None:
    setting("tiering", "off")
    monkeypatch.setattr(templates_module, "DEFAULT_LIMITS", limits)
    draw, fitting, moved = random.Random(5), 0, 0
    templates = Templates(64, lambda: None, lambda: "")
    with np.errstate(all="ignore"):
        for seed in seeds:
            for _ in range(4):
                sizes = tuple(map(draw.randint, low, high))
                npaccel.evaluate()
                author = Author(seed, sizes)
                pending = _native.pending()
                name = templates.name(pending)
                planned, layout, template = planned_here(limits)
                for known in templates.known(name):
                    found = filled(known, pending)
                    fitting += found is not None
                    assert found is None or found == layout
                made = templates.moved(name, pending)
                if made is not None:
                    moved += 1
                    same(made, planned)
                if name:
                    assert filled(template, pending) == layout
                    templates.add(name, template)
                    templates.add_plan(name, template, planned)
                author.pool.clear()
    assert min(fitting, moved) > least, "the property is worth nothing where no template fits"


@pytest.mark.parametrize("seeds", [range(first, first + 20) for first in range(0, 60, 20)])
def test_rounds_of_one_structure_have_one_plan(seeds, setting) -> None:
    """In programs whose numbers come near each other, and near limits."""
    setting("tiering", "off")
    templates, limits, counts = Templates(256, lambda: None, lambda: ""), Limits(), [0, 0]

    def met() -> None:
        pending = _native.pending()
        name = templates.name(pending) if len(pending) else ""
        if name:
            planned, layout, template = planned_here(limits)
            for known in templates.known(name):
                found = filled(known, pending)
                assert found is None or found == layout
                counts[0] += found is not None
            made = templates.moved(name, pending)
            if made is not None:
                same(made, planned)
                counts[1] += 1
            if template is not None:
                assert filled(template, pending) == layout
                templates.add(name, template)
                templates.add_plan(name, template, planned)
        npaccel.evaluate()

    for seed in seeds:
        code = compile(Changing(seed, reads=False).program(), f"<program {seed}>", "exec")
        with npaccel.accelerate():
            outcome(code, {**OURS, "sync": met})
    assert min(counts) > 40, "the property is worth nothing where no template fits"


@pytest.mark.parametrize(
    "join",
    [
        lambda x: np.concatenate([x[:, :3], x[:, 3:6]], axis=1) + 1,
        lambda x: np.concatenate([x[:, :3], x[:, 3:]], axis=1)[:, 4:] + 1,
        lambda x: np.concatenate([x[:, 4:], x[:, :4]], axis=1) + 1,
        lambda x: np.roll(x, 1, axis=0)[1:] * 2,
    ],
    ids=["beside", "a part", "turned", "rolled"],
)
def test_what_is_read_where_it_came_from_has_no_template(join, setting) -> None:
    """A reader's own operand does not tell where that is."""
    setting("tiering", "eager")
    setting("threshold", 0)
    base = np.arange(96.0).reshape(12, 8)
    for start in 3 * (0, 1, 5, 3, 7):
        x = npaccel.asarray(base) + 0
        assert x[0, 0].item() == 0  # so it is there before
        got = np.array(join(x[start : start + 4]))
        np.testing.assert_array_equal(got, join(base[start : start + 4]), str(start))


def test_it_does_not_fit_where_stores_go_past_the_cache() -> None:
    """They need another kernel, but not another plan."""

    def record(n: int) -> np.ndarray:
        return npaccel.asarray(np.ones(n)) + npaccel.asarray(np.ones(n))

    kept = record(1000)
    planned, _, small = planned_here(Limits())
    npaccel.evaluate(kept)
    kept = record(1 << 21)
    afresh, layout, large = planned_here(Limits())
    pending = _native.pending()
    assert filled(small, pending) is None and filled(large, pending) == layout
    moved = small.moved(planned, pending)
    assert moved is not None and large != small
    same(moved, afresh)
    npaccel.evaluate(kept)


def test_rows_that_arrays_lie_across_are_cut_as_planned() -> None:
    """A row, or a piece of it, whatever the size that a template is of."""

    def record(n: int) -> np.ndarray:
        return npaccel.asarray(np.ones((n + 8, n))) < npaccel.asarray(np.ones((n, n + 8))).T

    templates, steps = [], set()
    for n in (90, 300, 1000, 1300):
        kept = record(n)
        _, layout, template = planned_here(Limits())
        templates.append(template)
        for known in templates:
            assert filled(known, _native.pending()) == layout
        steps.add(template.steps[0][5].across)
        npaccel.evaluate(kept)
    assert steps == {8}


def test_rows_that_outgrow_scratch_need_another_plan() -> None:
    def record(columns: int) -> np.ndarray:
        x = npaccel.asarray(np.ones((100, columns)))
        e = np.exp(x - x.max(axis=1, keepdims=True))
        return np.max(e / e.sum(axis=1, keepdims=True), axis=1)  # nothing goes past the cache

    with np.errstate(all="ignore"):
        kept = record(5000)
        planned, _, template = planned_here(Limits())
        assert planned.ranges and planned.ranges[0].low == 0
        longest = planned.ranges[0].high - 1
        assert longest == Limits().scratch_bytes // 8
        name = Templates(1, lambda: None, lambda: "").name
        structure = name(_native.pending())
        npaccel.evaluate(kept)
        for columns, fits in ((longest, True), (longest + 1, False)):
            kept = record(columns)
            pending = _native.pending()
            assert name(pending) == structure
            moved = template.moved(planned, pending)
            assert (moved is not None) is fits
            if moved is not None:
                same(moved, plan(decode(pending)))
            else:
                assert filled(template, pending) is None
            npaccel.evaluate(kept)


def test_rules_of_another_process_are_refused() -> None:
    kept = npaccel.asarray(np.ones(100)) + 1
    _, _, template = planned_here(Limits())
    templates = Templates(4, lambda: None, lambda: "")
    rule = template.rules[0]
    assert not templates.add("a", template._replace(rules=(rule._replace(name="other"),)))
    assert not templates.add("a", template._replace(rules=(rule._replace(id=1 << 20),)))
    assert templates.known("a") == [] and templates.add("a", template)
    npaccel.evaluate(kept)


def test_a_template_on_disk_serves_other_sizes(setting, tmp_path) -> None:
    """Neither planned nor compiled, in a process that has never seen these operations."""
    setting("cache_dir", str(tmp_path / "cache"))
    engine = this_process.engine

    def run(n: int) -> None:
        x = npaccel.asarray(np.linspace(1.0, 2.0, n))
        y = npaccel.evaluate((x * 3.0 - x) / 7.0)  # not by a touch, which is planned afterwards
        assert np.array_equal(y, (np.asarray(x) * 3.0 - np.asarray(x)) / 7.0)

    def forget() -> None:
        for part in (engine.traces, engine.kernels, engine.templates):
            part.clear()
        engine.tiers.forget()
        engine.answers.forget()

    forget()  # what an earlier test has left in memory is not written to this folder
    run(70000)
    forget()
    npaccel.stats(reset=True)
    run(80000)
    counts = npaccel.stats()
    assert (counts["plans_moved"], counts["compiles"], counts["kernels_loaded"]) == (1, 0, 1)
    report = str(npaccel.explain())
    assert "80000" in report
