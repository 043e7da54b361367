"""OpenCL chosen for the process, a block or one evaluation; failures; what is told."""

import os
import subprocess
import sys
import warnings
from unittest.mock import Mock

import numpy as np
import pytest

import npaccel
from npaccel import _native, this_process
from npaccel.backends.opencl import backend, helper, target
from npaccel.errors import BackendUnavailable, ConfigError, Unsupported
from npaccel.runtime.engine import futures

pytestmark = pytest.mark.usefixtures("opencl")
N = 1 << 17


@pytest.fixture(autouse=True)
def eager():
    """Kernels from the first run on, whichever backend they are for."""
    before = npaccel.config.tiering
    npaccel.config.tiering = "eager"
    npaccel.evaluate()
    yield
    npaccel.config.tiering = before


def _launches(name):
    return npaccel.stats()["kernels_by_backend"].get(name, 0)


def _program(source):
    x = npaccel.asarray(source)
    y = x * 2.5 + 1.0
    return npaccel.evaluate(y, (y * x).sum(), y.reshape(256, -1).max(axis=1), (x > 1).any())


@pytest.mark.pending
def test_what_the_host_reads_is_kept_as_where_there_is_no_device():
    """A driver that shares the host's memory is open, and nothing is to live with it."""
    if not this_process.engine.machines.backend("opencl:0").host_memory:
        pytest.skip("the device has memory of its own")
    a = np.arange(float(N))
    before = npaccel.stats()["armed_blocks"]
    x = npaccel.asarray(a) * 2.0
    assert _native.is_pending(x) and npaccel.stats()["armed_blocks"] == before + 1
    a[0] = 5.0
    assert x[0] == 0.0


def _same(left, right):
    for x, y in zip(left, right, strict=True):
        assert np.asarray(x).tobytes() == np.asarray(y).tobytes()


@pytest.mark.pending
def test_a_block_runs_on_the_device_with_the_same_bits():
    source = np.random.default_rng(0).standard_normal(N)
    with npaccel.backend("llvm"):
        expected = _program(source)
    before, host = _launches("opencl"), _launches("llvm")
    with npaccel.backend("opencl"):
        found = _program(source)
        assert "opencl:0" in str(npaccel.explain())
    assert _launches("opencl") > before
    assert _launches("llvm") == host
    _same(found, expected)
    assert npaccel.config.backend == "auto"


@pytest.mark.pending
def test_one_evaluation():
    x = npaccel.asarray(np.arange(float(N))) * 3.0
    before = _launches("opencl")
    assert npaccel.evaluate(x, backend="opencl:0") is x
    assert _launches("opencl") == before + 1
    assert npaccel.config.backend == "auto"
    np.testing.assert_array_equal(np.asarray(x), np.arange(float(N)) * 3.0)


def test_a_device_that_is_not_there_is_named_and_nothing_changes():
    with pytest.raises(BackendUnavailable, match=r"no device opencl:77; there are: opencl:0"):
        npaccel.config.backend = "opencl:77"
    with pytest.raises(ConfigError, match="opencl"):
        npaccel.config.backend = "opencl:x"
    assert npaccel.config.backend == "auto"


def test_warnings_name_the_line():
    x = npaccel.asarray(np.arange(float(N)))
    with npaccel.backend("opencl"), pytest.warns(RuntimeWarning, match="divide by zero") as seen:
        y = npaccel.evaluate(1.0 / x)
    assert [w.filename for w in seen] == [__file__]
    assert y[0] == np.inf


@pytest.mark.pending
def test_a_failed_launch_is_done_on_the_host_and_told_once():
    source = np.arange(float(N))
    with npaccel.backend("opencl"):
        x = npaccel.asarray(source)
        npaccel.evaluate(x * 4.0 - 2.0)
        _native.device_inject(1)
        with pytest.warns(npaccel.errors.NpaccelWarning, match=r"launch failed .* ran with llvm"):
            y = npaccel.evaluate(x * 4.0 - 2.0)
        np.testing.assert_array_equal(np.asarray(y), source * 4.0 - 2.0)
        before = _launches("llvm")
        np.testing.assert_array_equal(np.asarray(npaccel.evaluate(x * 4.0 - 2.0)), y)
        # Where memory is apart it may be another program, whose kernel has not failed yet.
        if this_process.engine.backend("opencl").shares_memory:
            assert _launches("llvm") == before + 1, "a kernel that failed is not tried again"


@pytest.mark.pending
def test_a_device_that_fails_in_flight_has_its_work_done_on_the_host(monkeypatch):
    monkeypatch.setattr(this_process.engine.telling, "told", set())
    monkeypatch.setattr(futures, "LEAST_S", 0.0)
    source = np.arange(float(N))
    with npaccel.backend("opencl"):
        x = npaccel.asarray(source)
        npaccel.evaluate(x * x - 3.0)
        _native.device_inject(1)
        future = npaccel.evaluate(x * x - 3.0, wait=False)
        y = future.result()
        with pytest.warns(npaccel.errors.NpaccelWarning, match=r"launch failed .* ran with llvm"):
            npaccel.evaluate()
        np.testing.assert_array_equal(np.asarray(y), source * source - 3.0)
        again = npaccel.evaluate(x * x - 3.0, wait=False).result()
        np.testing.assert_array_equal(np.asarray(again), np.asarray(y))


@pytest.mark.pending
def test_what_a_device_cannot_do_is_explained_and_no_failure(monkeypatch):
    def refuse(kernel, target):
        raise Unsupported("opencl: it has no double precision")

    monkeypatch.setattr(backend, "emit_image", refuse)
    source = np.arange(float(N)).reshape(-1, 4)
    with npaccel.backend("opencl"), warnings.catch_warnings():
        warnings.simplefilter("error")
        x = npaccel.asarray(source)
        y = npaccel.evaluate((x + 1.25).cumsum(axis=1))
        assert "no double precision" in str(npaccel.explain())
    np.testing.assert_array_equal(np.asarray(y), (source + 1.25).cumsum(axis=1))


def test_without_a_driver_the_reason_says_what_to_do():
    program = """
import sys
sys.modules["pyopencl"] = None
import npaccel
try:
    npaccel.config.backend = "opencl"
except npaccel.errors.BackendUnavailable as error:
    print(error)
print(npaccel.devices())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.count("pip install 'pyopencl[pocl]'") == 2


@pytest.mark.pending
def test_a_device_that_is_not_there_leaves_what_is_pending_as_it_was():
    x = npaccel.asarray(np.arange(float(N))) * 2.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(npaccel.errors.BackendUnavailable, match="there are: opencl:0"):
            npaccel.evaluate(x, backend="opencl:7")
        assert npaccel.explain(x).pending
        npaccel.evaluate(x)
        assert "opencl:7" not in str(npaccel.explain(x))
    with pytest.raises(npaccel.errors.ConfigError, match="'opencl:N'"):
        npaccel.config.backend = "opencl:x"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.pending
def test_a_forked_process_computes_on_the_host():
    program = """
import os, warnings
import numpy as np, npaccel
warnings.simplefilter("error")
source = np.arange(float(1 << 17))
npaccel.config.tiering, npaccel.config.backend = "eager", "opencl"
npaccel.evaluate(npaccel.asarray(source) * 2.0)

def count():
    return npaccel.stats()["kernels_by_backend"].get("opencl", 0)

before, child = count(), os.fork()
# A program that is known, a new one of a kernel that is, and one of a new kernel.
x = npaccel.asarray(source)
y = npaccel.evaluate(x * 2.0)
z = npaccel.evaluate(x[1:] * 2.0, x[:9] * 2.0)
w = npaccel.evaluate(x * 2.0 - 1.0)
good = all(bool((np.asarray(i) == j).all()) for i, j in zip(
    (y, *z, w), (source * 2, source[1:] * 2, source[:9] * 2, source * 2 - 1), strict=True))
if child == 0:
    os._exit(0 if good and count() == before else 1)
print(good and count() > before, os.waitpid(child, 0)[1])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.split() == ["True", "0"]


@pytest.mark.pending
def test_an_accelerated_block_runs_on_the_device_it_names():
    source = np.random.default_rng(0).standard_normal(N)
    with npaccel.accelerate():
        expected = npaccel.evaluate(np.sqrt(source * source + 1.0).sum())
    before, host = _launches("opencl"), _launches("llvm")
    with npaccel.accelerate(backend="opencl"):
        found = npaccel.evaluate(np.sqrt(source * source + 1.0).sum())
    assert _launches("opencl") > before
    assert _launches("llvm") == host
    assert float(found) == float(expected)
    with pytest.raises(BackendUnavailable, match="opencl:77"):
        npaccel.accelerate(backend="opencl:77")


ECHO = """
import sys
sys.path.insert(0, sys.argv[1])
from helper import read_message, write_message
while True:
    request, source = read_message(sys.stdin.buffer)
    write_message(sys.stdout.buffer, {"ok": True}, source)
"""


def test_an_interrupted_build_does_not_answer_for_the_next(monkeypatch):
    folder = os.path.dirname(helper.__file__)
    builder = target.Builder(command=[sys.executable, "-c", ECHO, folder])
    assert builder.build({}, "one") == b"one"
    with monkeypatch.context() as patched:
        patched.setattr(target, "_readable", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            builder.build({}, "two")
    assert builder.build({}, "three") == b"three"
    builder.stop()
