"""Random programs with aliases, threads, deletions and forks: never another value."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import npaccel

from . import program
from .fresh import succeed

STEP = st.tuples(st.sampled_from(program.STEPS), st.integers(0, 4), st.integers(0, 4))
PROGRAM = st.lists(STEP, max_size=30)


@pytest.fixture(autouse=True)
def defer_everything() -> Iterator[None]:
    before, tiers = npaccel.config.threshold, npaccel.config.backend
    npaccel.config.threshold = 0
    yield
    npaccel.evaluate()
    npaccel.config.threshold, npaccel.config.backend = before, tiers


def run_program(steps: list[tuple[str, int, int]], n: int) -> None:
    machine = program.Machine(n)
    for step in steps:
        machine.step(*step)
    machine.finish()


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(PROGRAM, st.sampled_from([7, 600, 5000]))
def test_programs_with_numpy_loops(steps: list[tuple[str, int, int]], n: int) -> None:
    npaccel.config.backend = "numpy"
    run_program(steps, n)


@settings(max_examples=25, deadline=None, derandomize=True, database=None)
@given(PROGRAM, st.sampled_from([7, 600, 5000]))
def test_programs_with_kernels(steps: list[tuple[str, int, int]], n: int) -> None:
    npaccel.config.backend = "llvm"
    run_program(steps, n)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@settings(
    max_examples=5000,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(PROGRAM, st.sampled_from([7, 600, 5000, 40000]))
def test_many_programs(steps: list[tuple[str, int, int]], n: int) -> None:
    npaccel.config.backend = "numpy"
    run_program(steps, n)


def test_programs_that_fork() -> None:
    """In a process of their own: the test runner has threads that a fork would lose."""
    succeed(
        """
import random, program
warnings.simplefilter("ignore", DeprecationWarning)
npaccel.config.threshold = 0
npaccel.config.backend = "numpy"
choice = random.Random(0)
for _ in range(30):
    machine = program.Machine(choice.choice([7, 5000]))
    for _ in range(20):
        name = choice.choice([*program.STEPS, "fork"])
        machine.step(name, choice.randrange(5), choice.randrange(5))
    machine.fork(0, 1)
    machine.finish()
"""
    )
