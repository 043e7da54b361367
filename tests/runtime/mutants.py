"""Operations made wrong, in everything that compiles them: check mode has to find them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import pytest

import npaccel
from npaccel import _native
from npaccel.ir import copying, ops
from npaccel.this_process import engine

__all__ = ["mutate", "wrong"]


def _forget() -> None:
    """Plans and code of before; what has the same text has the same code."""
    npaccel.evaluate()
    _native.plans().clear()
    engine.traces.clear()
    engine.templates.clear()
    engine.tiers.forget()
    engine.comparing.checker.clear()
    engine.streams.clear()


def _change(patch: pytest.MonkeyPatch, name: str, kind: str, changes: dict[str, Any]) -> None:
    if name == "copy":
        changed = dataclasses.replace(copying.COPIES[kind], **changes)
        patch.setattr(ops, "COPIES", {**copying.COPIES, kind: changed})
    else:
        table = ops._TABLE
        changed = dataclasses.replace(table[name, kind], **changes)
        patch.setattr(ops, "_TABLE", MappingProxyType({**table, (name, kind): changed}))
    _forget()


@contextmanager
def wrong(name: str, kind: str, **changes: Any) -> Iterator[None]:
    """The row of operation `name` for loops of `kind` with these changes, in the block; of a copy,
    `kind` is the dtype that it makes. The cache on disk has to be off."""
    _forget()
    with pytest.MonkeyPatch.context() as patch:
        _change(patch, name, kind, changes)
        yield
    _forget()


@pytest.fixture
def mutate(monkeypatch: pytest.MonkeyPatch, setting: Any) -> Iterator[Any]:
    """mutate(name, kind, **changes): as `wrong`, until the test's end."""
    setting("cache", "off")  # wrong programs are for nobody else
    _forget()
    yield lambda name, kind, **changes: _change(monkeypatch, name, kind, changes)
    monkeypatch.undo()
    _forget()
