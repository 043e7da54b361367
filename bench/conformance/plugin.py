"""A pytest plugin that runs somebody else's tests in one of six modes, and notes what came out.

`JUDGE_MODE` is "plain" (nothing is changed), "subclass" (NumPy's creation functions return a
subclass of ndarray that does nothing: what any subclass costs) or "npaccel" (every test, with its
fixtures, runs in `npaccel.accelerate(min_size=0)`, so that every array is deferred), or "eager" or
"opencl" (the same, with all compiled before its first run, or with that backend), or "users" (with
the size from which on a user's arrays are deferred: small ones take the short ways of the core).
`JUDGE_NOTES` names the file that gets a JSON object per line: a test that begins, its outcome, and
at the end what was recorded. Tests that the file already has are not run again, so a run that
crashed goes on.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import platform
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

MODE = os.environ.get("JUDGE_MODE", "plain")
OURS = MODE in ("npaccel", "eager", "opencl", "users")
if OURS:  # before the tests are collected, which puts their folders first on the path
    import npaccel
    from npaccel import _native
    from npaccel.dispatch.fallback import FALLBACKS
    from npaccel.ir.nodes import Kind
    from npaccel.runtime.engine import engine
NOTES = Path(os.environ["JUDGE_NOTES"])
# They need 16 GiB, for nothing but an error message.
LEFT_OUT = ("::test_huge_list_error", "::test_arbitrary_number_of_ops_error")
CREATORS = (
    *("array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray", "frombuffer"),
    *("zeros", "ones", "empty", "full", "zeros_like", "ones_like", "empty_like", "full_like"),
    *("arange", "linspace", "logspace", "geomspace", "eye", "identity", "fromfunction", "fromiter"),
)
# Modules that compare results for tests, by their classes first: they are to get to the values.
ASSERTING = ("dask.array.utils", "pandas._testing.asserters", "scipy.special.tests.test_basic")


class PassThrough(np.ndarray):
    """An ndarray of another class, and nothing more."""


def _passed(create: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(create)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        made = create(*args, **kwargs)
        # One that shares the memory of something else must stay as it is.
        if type(made) is not np.ndarray or made.base is not None or any(a is made for a in args):
            return made
        order: Literal["C", "F"] = "F" if made.flags.fnc else "C"
        owner = PassThrough(made.shape, made.dtype, order=order)
        if owner.strides != made.strides:
            return made
        owner[...] = made
        return owner

    return wrapper


@contextlib.contextmanager
def _subclass() -> Iterator[None]:
    kept = {name: getattr(np, name) for name in CREATORS}
    try:
        for name, create in kept.items():
            setattr(np, name, _passed(create))
        yield
    finally:
        for name, create in kept.items():
            setattr(np, name, create)


def _block() -> contextlib.AbstractContextManager[Any]:
    if MODE == "subclass":
        return _subclass()
    if OURS:
        return npaccel.accelerate(min_size=None if MODE == "users" else 0)
    return contextlib.nullcontext()


def _note(**entry: Any) -> None:
    with NOTES.open("a") as notes:
        notes.write(json.dumps(entry) + "\n")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    done = set()
    if NOTES.exists():
        done = {json.loads(line)["test"] for line in NOTES.read_text().splitlines()}
    items[:] = [i for i in items if i.nodeid not in done and not i.nodeid.endswith(LEFT_OUT)]
    for name in ASSERTING if OURS else ():
        if name in sys.modules:
            sys.modules[name].type = _Type  # type: ignore[attr-defined]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    _note(test=item.nodeid)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, Any, Any]:
    with _block():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, Any, Any]:
    with _block():
        return (yield)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or report.outcome != "passed":
        outcome = report.outcome if not hasattr(report, "wasxfail") else "xfail"
        text = str(report.longrepr)[-6000:] if report.failed else ""
        _note(test=report.nodeid, when=report.when, outcome=outcome, text=text)


# (operation, dtypes, reason) to how often a plan left a request to NumPy's loop.
LOOPS: Counter[tuple[str, str, str]] = Counter()


def _count_loops(build: Callable[..., Any]) -> Callable[..., Any]:
    """`build`, and what its plan does not compile is noted with the reason."""

    @functools.wraps(build)
    def counting(trace: Any, plan: Any, *rest: Any) -> Any:
        for step in plan.steps:
            if hasattr(step, "reason"):
                request = trace.requests[step.request]
                name = f"{request.kind.name.lower()} {request.op}"
                LOOPS[name, " ".join(request.loop), step.reason] += 1
        return build(trace, plan, *rest)

    return counting


class _Asked(type):
    """The class of what stands for `type` where results are compared."""

    def __call__(cls, *args: Any) -> Any:
        return np.ndarray if len(args) == 1 and type(args[0]) is npaccel.Array else type(*args)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, type)


class _Type(metaclass=_Asked):
    """`type`, by which our arrays are ndarrays."""


if OURS:
    engine.build = _count_loops(engine.build)


def pytest_sessionfinish(exitstatus: int) -> None:
    if exitstatus == pytest.ExitCode.INTERRUPTED:
        return  # it has not come to its end
    versions = {"numpy": np.__version__, "python": platform.python_version()}
    if not OURS:
        _note(test="", ended=versions)
        return
    counts: Counter[str] = Counter()
    for (function, reason, _), count in FALLBACKS.counts().items():
        counts[f"{function}: {reason}"] += count
    kinds = [kind.name.lower() for kind in Kind]
    operations = [
        (f"{kinds[rule.kind]} {rule.name}", " ".join(rule.loop), *rule.counts)
        for rule in _native.rules().values()
    ]
    _note(
        test="",
        ended=versions,
        settings={name: getattr(npaccel.config, name) for name in ("backend", "tiering", "guard")},
        stats=dict(npaccel.stats()),
        fallbacks=counts,
        operations=operations,
        loops=[(*key, count) for key, count in LOOPS.items()],
    )
