"""A pytest plugin that runs somebody else's tests in one of three modes, and notes what came out.

`JUDGE_MODE` is "plain" (nothing is changed), "subclass" (NumPy's creation functions return a
subclass of ndarray that does nothing: what any subclass costs) or "npaccel" (every test, with its
fixtures, runs in `npaccel.accelerate(min_size=0)`, so that every array is deferred).
`JUDGE_NOTES` names the file that gets a JSON object per line: a test that begins, and its
outcome. Tests that the file already has are not run again, so a run that crashed goes on.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

MODE = os.environ.get("JUDGE_MODE", "plain")
if MODE == "npaccel":  # before the tests are collected, which puts their folders first on the path
    import npaccel
    from npaccel.dispatch.fallback import FALLBACKS
NOTES = Path(os.environ["JUDGE_NOTES"])
CREATORS = (
    *("array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray", "frombuffer"),
    *("zeros", "ones", "empty", "full", "zeros_like", "ones_like", "empty_like", "full_like"),
    *("arange", "linspace", "logspace", "geomspace", "eye", "identity", "fromfunction", "fromiter"),
)


class PassThrough(np.ndarray):
    """An ndarray of another class, and nothing more."""


def _passed(create: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(create)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        made = create(*args, **kwargs)
        # One that shares the memory of something else must stay as it is.
        if type(made) is not np.ndarray or made.base is not None or any(a is made for a in args):
            return made
        owner = np.empty_like(made[:0].view(PassThrough), shape=made.shape, order="K")
        if owner.strides != made.strides:
            owner = np.empty_like(made.view(PassThrough), order="K")
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
    if MODE == "npaccel":
        return npaccel.accelerate(min_size=0)
    return contextlib.nullcontext()


def _note(**entry: Any) -> None:
    with NOTES.open("a") as notes:
        notes.write(json.dumps(entry) + "\n")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    done = set()
    if NOTES.exists():
        done = {json.loads(line)["test"] for line in NOTES.read_text().splitlines()}
    items[:] = [item for item in items if item.nodeid not in done]


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


def pytest_sessionfinish() -> None:
    if MODE == "npaccel":
        counts: dict[str, int] = {}
        for (function, reason, _), count in FALLBACKS.counts().items():
            counts[f"{function}: {reason}"] = counts.get(f"{function}: {reason}", 0) + count
        _note(test="", stats=dict(npaccel.stats()), fallbacks=counts)
