"""The system's C compiler: what it is given, what it refuses, and where it is missing."""

import os
import platform
import shutil
import subprocess
import sys

import numpy as np
import pytest

from npaccel.backends.c import printer, target
from npaccel.backends.registry import open_backend
from npaccel.errors import BackendUnavailable, CompileError
from npaccel.ir.nodes import Leaf, Store
from npaccel.ir.scalar import Core, Pool

from .support import Declared, check, edge_values, kernel, param

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")


def _map(dtype):
    pool = Pool()
    x, y = (pool.load(dtype, k) for k in range(2))
    value = x.fma(y, abs(x).unary(Core.SQRT)).unary(Core.RINT)
    arrays = [param(dtype), param(dtype), param(dtype, out=True)]
    return kernel(arrays, [Leaf(False, (Store(2, value),))], split=True)


@pytest.fixture
def backend():
    return open_backend("c")


def test_there_is_no_compiler(monkeypatch):
    monkeypatch.setenv("CC", "no-such -x")
    with pytest.raises(BackendUnavailable, match="no compiler 'no-such'; CC names another"):
        open_backend("c")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the option is x86's")
def test_notes_in_object_code_are_no_variables(monkeypatch):
    """GCC of Ubuntu writes one, of what is protected against jumps."""
    monkeypatch.setenv("CC", "cc -fcf-protection")
    machine = Declared("c")
    check(machine, _map("f8"), (9,), [np.arange(9.0), np.ones(9), np.zeros(9)])


def test_what_the_compiler_rejects_is_told(backend):
    with pytest.raises(CompileError, match=r"c: a kernel was rejected: .*error"):
        backend.compiler.build("void run() { return 1 + ; }")


def test_a_compiler_that_hangs_is_given_up(backend, monkeypatch):
    def wait(*args, timeout, **more):
        raise subprocess.TimeoutExpired(args, timeout)

    monkeypatch.setattr(target.subprocess, "run", wait)
    with pytest.raises(CompileError, match="did not end well"):
        backend.compile(_map("f8"))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
def test_any_width_of_vectors_gives_the_same_bits(backend, dtype, vector_bytes):
    """Vectors wider than the processor's are taken apart by the compiler."""
    backend.vector_bytes = backend.compiler.vector_bytes = vector_bytes
    arrays = [edge_values(dtype, 333, k) for k in range(3)]
    machine = Declared("c")
    machine._backend = backend
    check(machine, _map(dtype), (333,), arrays)


def test_the_text_is_for_people():
    text = printer.write_source(_map("f8"), 32)
    assert text.startswith("/*\nk: band 0 inner 1 split")
    assert "double4 t" in text and "FMA_double4(" in text
    assert "void run(const long *words, const long *range, char *scratch, uint *flags)" in text
    assert max(map(len, text.splitlines())) < 120


WITHOUT_LLVM = """
import sys, time
sys.modules["llvmlite"] = None
import numpy as np
import npaccel
from npaccel import api
from npaccel.backends.registry import HOST

assert HOST == "c"
x = npaccel.asarray(np.linspace(0.5, 1.5, 1 << 17))
end = time.monotonic() + 60
while not npaccel.stats()["kernels_by_backend"].get("c") and time.monotonic() < end:
    y = npaccel.evaluate(np.sin(x) * 2.5 + 1.0)
    time.sleep(0.01)
assert " on c over " in str(npaccel.explain(y)), npaccel.explain(y)
assert [d.backend for d in npaccel.devices().devices][:1] == ["c"]
"""


@pytest.mark.parametrize("tiering", ["eager", "adaptive"])
def test_it_is_the_host_where_llvmlite_is_missing(tiering, tmp_path):
    """In the process that compiles, too."""
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['llvmlite'] = None")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    env = {"PYTHONPATH": path, "NPACCEL_TIERING": tiering, "NPACCEL_CACHE": "off"}
    command = [sys.executable, "-c", WITHOUT_LLVM]
    done = subprocess.run(
        command, env=os.environ | env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr


def test_stored_code_runs_again(backend):
    made = _map("f8")
    linked = backend.link(made, backend.emit_object(made))
    assert linked.vector_bytes == backend.vector_bytes
    arrays = [np.linspace(-3, 3, 50), np.ones(50), np.empty(50)]
    check(Declared("c"), made, (50,), arrays, compiled=linked)
