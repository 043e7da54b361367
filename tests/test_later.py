"""Looks at modules when they are imported."""

from __future__ import annotations

import sys
import threading
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from npaccel.later import later, when_imported

BEGUN = threading.Event()


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


def test_a_module_that_another_thread_is_importing_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is among the modules, and has only a part of its names, or none."""
    lines = "import time", f"from {__name__} import BEGUN", "BEGUN.set()", "time.sleep(0.3)"
    (tmp_path / "slowly.py").write_text("\n".join((*lines, "answer = 42\n")))
    monkeypatch.syspath_prepend(tmp_path)
    slowly, found = later("slowly"), list[object]()
    importing = threading.Thread(target=lambda: found.append(slowly.answer))
    importing.start()
    assert BEGUN.wait(60)
    found.append(slowly.answer)
    importing.join()
    assert found == [42, 42]
    monkeypatch.delitem(sys.modules, "slowly")
