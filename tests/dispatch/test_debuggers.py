"""What a debugger shows of its own accord is not computed for it; what the program asks for is."""

from __future__ import annotations

import io
import pdb
import reprlib
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import npaccel
from npaccel import _native

N = 100_000
PENDING = f"Array(pending, shape=({N},), dtype=float64)"


def made() -> npaccel.Array:
    return npaccel.asarray(np.ones(N)) * 2 + 1


def asked(module: str, text: str, x: npaccel.Array) -> str:
    """What code of that module makes of it."""
    space = {"__name__": module, "x": x, "reprlib": reprlib}
    return eval(text, space)


@pytest.mark.pending
@pytest.mark.parametrize("text", ["repr(x)", "str(x)", "'%s' % x", "reprlib.repr(x)"])
@pytest.mark.parametrize(
    "module", ["pdb", "_pydevd_bundle.pydevd_safe_repr", "IPython.core.debugger", "debugpy"]
)
def test_debuggers_are_told_that_it_is_pending(module: str, text: str) -> None:
    x = made()
    told = PENDING if "reprlib" not in text else f"{PENDING[:13]}...{PENDING[-14:]}"
    assert asked(module, text, x) == told
    assert _native.is_pending(x)
    assert asked(module, "repr([x])", x) == f"[{PENDING}]"
    assert _native.is_pending(x)
    npaccel.evaluate(x)
    assert asked(module, "repr(x)", x) == repr(np.full(N, 3.0))


@pytest.mark.parametrize("module", ["__main__", "pdb_of_mine", "mydebugpy.x", "logging", "reprlib"])
def test_programs_get_numpys_text(module: str) -> None:
    x, plain = made(), np.full(N, 3.0)
    assert asked(module, "repr(x)", x) == repr(plain)
    assert not _native.is_pending(x)
    assert asked(module, "f'{x}'", made()) == asked(module, "str(x)", made()) == str(plain)
    assert asked(module, "reprlib.repr([x])", made()) == asked(module, "reprlib.repr([x])", plain)


@pytest.mark.pending
def test_pdb() -> None:
    pending = []

    def work() -> None:
        y = made()
        pending.append(_native.is_pending(y))
        pending.append(_native.is_pending(y))

    lines = ["n", "p y", "y", "display y", "pp [y]", "n", "print(y)", "c"]
    told = io.StringIO()
    typed = io.StringIO("\n".join(lines) + "\n")
    debugger = pdb.Pdb(stdin=typed, stdout=told, nosigint=True, readrc=False)
    debugger.use_rawinput = False
    debugger.prompt = ""
    debugger.runcall(work)
    shown = told.getvalue().splitlines()
    assert shown.count(PENDING) == 2
    assert f"[{PENDING}]" in shown
    assert f"display y: {PENDING}" in shown
    assert str(np.full(N, 3.0)) in told.getvalue()  # asked for by the program's own print
    assert pending == [True, False]


@pytest.mark.pending
def test_debugpy() -> None:
    pytest.importorskip("debugpy", reason="debugpy is not installed")
    code = """
    import numpy as np, npaccel
    from npaccel import _native
    from debugpy._vendored import force_pydevd
    from _pydevd_bundle.pydevd_safe_repr import SafeRepr
    from _pydevd_bundle.pydevd_xml import get_variable_details
    x = npaccel.asarray(np.ones(100_000)) * 2 + 1
    print(SafeRepr()(x))
    print(SafeRepr()({"a": [x]}))
    print(get_variable_details(x)[-1])
    print(_native.is_pending(x))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    shown = [PENDING, f"{{'a': [{PENDING}]}}", f"ndarray: {PENDING}", "True"]
    assert done.stdout.splitlines() == shown
