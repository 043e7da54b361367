"""Operations made wrong, in everything that compiles them: check mode has to find them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from types import MappingProxyType
from typing import Any

import pytest

import npaccel
from npaccel import _native
from npaccel.api import _engine
from npaccel.ir import copying, ops

__all__ = ["mutate"]


def _forget() -> None:
    """Plans and code of before; what has the same text has the same code."""
    npaccel.evaluate()
    _native.plans().clear()
    _engine.traces.clear()
    _engine.patterns.clear()
    _engine.tiers.forget()
    _engine.checker.clear()
    _engine._streams.clear()


@pytest.fixture
def mutate(monkeypatch: pytest.MonkeyPatch, setting: Any) -> Iterator[Any]:
    """mutate(name, kind, **changes): the row of operation `name` for loops of `kind` with these;
    of a copy, `kind` is the dtype that it makes."""

    def change(name: str, kind: str, **changes: Any) -> None:
        if name == "copy":
            changed = dataclasses.replace(copying.COPIES[kind], **changes)
            monkeypatch.setattr(ops, "COPIES", {**copying.COPIES, kind: changed})
        else:
            table = ops._TABLE
            changed = dataclasses.replace(table[name, kind], **changes)
            monkeypatch.setattr(ops, "_TABLE", MappingProxyType({**table, (name, kind): changed}))
        _forget()

    setting("cache", "off")  # wrong programs are for nobody else
    _forget()
    yield change
    monkeypatch.undo()
    _forget()
