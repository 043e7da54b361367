"""What a pattern is filled to is what planning for that size comes to."""

from __future__ import annotations

import random

import numpy as np
import pytest
from authors import Author

import npaccel
from npaccel import _native, api
from npaccel.backends.base import Loaded
from npaccel.backends.llvm.compiled import CompiledKernel, bind
from npaccel.ir.nodes import Kernel
from npaccel.ir.passes import plan
from npaccel.runtime.patterns import Pattern, Patterns, pack_pattern, pattern_of, unpack_pattern
from npaccel.runtime.program import Recipe, draft
from npaccel.runtime.trace import decode, portable

pytestmark = [pytest.mark.pending, pytest.mark.usefixtures("deferred")]

Sizes = tuple[int, int, int]


def compiled(kernel: Kernel) -> tuple[str, CompiledKernel]:
    """As the helper has it: nothing runs, so nothing is loaded."""
    return kernel.name, bind(kernel, Loaded(1, 0, 32, 0, None))


def pattern_here(threads: int) -> tuple[Recipe, Pattern | None]:
    """What planning comes to for what is pending."""
    pending = _native.pending()
    trace, rules = decode(pending), list(portable(pending).rules.values())
    planned = plan(trace)
    made = draft(trace, planned, compiled, threads, {})
    values = pending.values(tuple(number for pair in planned.consumed for number in pair))
    pattern = pattern_of(trace, planned, made, values, rules)
    return made.recipe(), None if pattern is None else unpack_pattern(pack_pattern(pattern))


@pytest.mark.parametrize(
    ("seeds", "low", "high", "least"),
    [
        (range(60), (16, 16, 16), (40, 40, 20), 40),
        (range(500, 510), (500, 1000, 2), (900, 1500, 4), 5),
    ],
    ids=["small", "large"],
)
def test_filling_is_planning(seeds, low: Sizes, high: Sizes, least: int, setting) -> None:
    setting("tiering", "off")
    draw, filled = random.Random(5), 0
    patterns = Patterns(64, lambda: None, lambda: "")
    with np.errstate(all="ignore"):
        for seed in seeds:
            for _ in range(3):
                sizes = tuple(map(draw.randint, low, high))
                npaccel.evaluate()
                author = Author(seed, sizes)
                name = patterns.name(_native.pending())
                recipe, pattern = pattern_here(2)
                for known in patterns.known(name):
                    found = known.recipe(_native.pending(), 2)
                    filled += found is not None
                    assert found is None or found == recipe
                if pattern is not None and name:
                    assert pattern.recipe(_native.pending(), 2) == recipe
                    patterns.add(name, pattern)
                author.pool.clear()
    assert filled > least, "the property is worth nothing where no pattern fits"


def test_it_does_not_fit_where_stores_go_past_the_cache() -> None:
    """They need another kernel."""

    def record(n: int) -> np.ndarray:
        return npaccel.asarray(np.ones(n)) + npaccel.asarray(np.ones(n))

    kept = record(1000)
    _, small = pattern_here(2)
    npaccel.evaluate(kept)
    kept = record(1 << 20)
    recipe, large = pattern_here(2)
    assert small is not None and small.recipe(_native.pending(), 2) is None
    assert large is not None and large.recipe(_native.pending(), 2) == recipe != small
    npaccel.evaluate(kept)


def test_rules_of_another_process_are_refused() -> None:
    kept = npaccel.asarray(np.ones(100)) + 1
    _, pattern = pattern_here(2)
    assert pattern is not None
    patterns = Patterns(4, lambda: None, lambda: "")
    rule = pattern.rules[0]
    assert not patterns.add("a", pattern._replace(rules=(rule._replace(name="other"),)))
    assert not patterns.add("a", pattern._replace(rules=(rule._replace(id=1 << 20),)))
    assert patterns.known("a") == [] and patterns.add("a", pattern)
    npaccel.evaluate(kept)


def test_a_pattern_on_disk_serves_other_sizes(setting, tmp_path) -> None:
    """Neither planned nor compiled, in a process that has never seen these operations."""
    setting("cache_dir", str(tmp_path / "cache"))
    engine = api._engine

    def run(n: int) -> None:
        x = npaccel.asarray(np.linspace(1.0, 2.0, n))
        assert np.array_equal((x * 3.0 - x) / 7.0, (np.asarray(x) * 3.0 - np.asarray(x)) / 7.0)

    run(70000)
    for part in (engine.traces, engine.kernels, engine.planner, engine.patterns):
        part.clear()
    engine.tiers.forget()
    engine.answers.forget()
    npaccel.stats(reset=True)
    run(80000)
    counts = npaccel.stats()
    assert (counts["plans_moved"], counts["compiles"], counts["kernels_loaded"]) == (1, 0, 1)
    assert len(engine.planner._known) == 0
    report = str(npaccel.explain())
    assert "80000" in report
