"""Looks at modules when they are imported."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from npaccel.later import when_imported


@pytest.mark.parametrize("own", ["", "__name__ = 'another'"])
def test_a_module_is_told_when_it_is_imported_whatever_it_calls_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str
) -> None:
    """As do some of NumPy 2.2's, such as `numpy.fft._pocketfft_umath`."""
    name = f"awaited_{len(own)}"
    (tmp_path / f"{name}.py").write_text(f"{own}\nanswer = 42\n")
    monkeypatch.syspath_prepend(tmp_path)
    told: list[ModuleType] = []
    when_imported(name, told.append)
    assert told == []
    module = import_module(name)
    assert told == [module] and module.answer == 42
    monkeypatch.delitem(sys.modules, name)
