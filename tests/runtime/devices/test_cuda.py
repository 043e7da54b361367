"""CUDA's backend whole, its driver emulated: data there and back, launches, failures, what is told.

`TEST_DEVICE=emulated` has the tests of other devices' memory run on it, too.
"""

import ctypes
import os
import warnings

import numpy as np
import pytest

import npaccel
from npaccel.backends.cuda import driver, target
from npaccel.backends.device_launch import Calls
from npaccel.backends.registry import open_backend
from npaccel.errors import BackendUnavailable, CompileError, Unsupported
from npaccel.this_process import engine

pytestmark = pytest.mark.usefixtures("emulated_cuda")
N = 1 << 16


@pytest.fixture(autouse=True)
def eager(emulated_cuda):
    """Kernels from the first run on; what was made to fail is forgotten."""
    with npaccel.config(tiering="eager", threshold=0, check="off"):
        npaccel.stats(reset=True)
        yield
        npaccel.evaluate()
    emulated_cuda.library.emulator_fail(0)


def _launches():
    return npaccel.stats()["kernels_by_backend"].get("cuda", 0)


@pytest.mark.pending
def test_a_program_stays_there_and_its_result_comes_home():
    a = np.random.default_rng(0).standard_normal((300, 400))
    x, expected = npaccel.asarray(a, device="cuda"), a
    for _ in range(3):
        x = (x - x.mean(axis=0)) * 0.5
        assert "on cuda:0 over" in str(npaccel.explain(x))  # before it runs, too
        npaccel.evaluate(x)
        expected = (expected - expected.mean(axis=0)) * 0.5
    counts = npaccel.stats()
    assert _launches() >= 3
    assert (counts["uploads"], counts["downloads"]) == (1, 0)
    assert "on cuda:0" in str(npaccel.explain(x))
    np.testing.assert_allclose(np.asarray(x), expected, rtol=1e-13, atol=1e-13)
    assert npaccel.stats()["downloads"] == 1


@pytest.mark.pending
def test_bits_and_warnings_are_the_hosts():
    """Sums in order, NaNs, quotients, integers, masks and picks; where NumPy warns, at the line."""
    a = np.random.default_rng(1).standard_normal((257, 129)) * 1e3
    a[3, 5], a[7, 9], a[11, 2] = np.nan, np.inf, 0.0

    def program():
        x = npaccel.asarray(a)
        y = np.exp(np.sin(x)) / x
        k = (np.where(np.isfinite(x), x, 0).astype("i4") // 7)[::-1, ::2]
        return y, y.sum(), np.nansum(x, axis=0), x.max(axis=1), k, k.cumsum(axis=1), x.T[4:9] + 1

    found = []
    for backend in ("llvm", "cuda"):
        with warnings.catch_warnings(record=True) as told, npaccel.backend(backend):
            warnings.simplefilter("always")
            values = npaccel.evaluate(*program())
            made = [np.ascontiguousarray(value).tobytes() for value in values]
        found.append((made, [(str(w.message), w.lineno) for w in told]))
    assert found[0] == found[1]
    assert found[0][1] and _launches()


@pytest.mark.pending
def test_large_arrays_move_through_pinned_memory():
    source = np.random.default_rng(0).random((1 << 20) + 5)  # two chunks and 40 bytes
    with npaccel.config(threads=4):
        for k in range(14):
            x = npaccel.asarray(source, device="cuda:0")
            part = npaccel.evaluate(x[k:] * 2.0 + 1.0)
            assert np.array_equal(np.asarray(part), source[k:] * 2.0 + 1.0)
        assert npaccel.stats()["pinned_bytes"] > 0


@pytest.mark.pending
def test_a_launch_that_fails_is_done_by_the_host(emulated_cuda):
    a = np.arange(float(N))
    npaccel.evaluate(npaccel.asarray(a, device="cuda") * 2.0)
    x = npaccel.asarray(a, device="cuda")
    device = engine.machines.device("cuda:0")
    emulated_cuda.library.emulator_fail(719)
    with pytest.warns(npaccel.errors.NpaccelWarning, match="error 719"):
        y = npaccel.evaluate(x * 2.0)
    np.testing.assert_array_equal(np.asarray(y), a * 2.0)
    device._failures, device.lost = 0, ""


def test_the_context_of_a_thread_is_left_as_it_was(emulated_cuda):
    """Another library may be using another one."""
    here = ctypes.c_void_p()
    assert emulated_cuda.library.cuCtxPopCurrent_v2(ctypes.byref(here)) != 0
    backend = engine.backend("cuda")
    data = np.zeros(9)
    with Calls(backend.target) as calls:
        calls.get(calls.put(np.arange(9.0)), data)
    assert data.tolist() == list(range(9))
    assert emulated_cuda.library.cuCtxPopCurrent_v2(ctypes.byref(here)) != 0


def test_memory_that_is_short_is_an_error_of_its_own(emulated_cuda):
    """The core makes room, then; see test_residency.py."""
    emulated_cuda.library.emulator_limit(emulated_cuda.library.emulator_used() + 4096)
    try:
        with pytest.raises(npaccel.errors.InternalError, match="error -4"):
            Calls(engine.backend("cuda").target).memory(1 << 20)
    finally:
        emulated_cuda.library.emulator_limit(1 << 32)


def test_what_is_told_of_a_device():
    (row,) = open_backend("cuda").list_devices()
    assert row[:4] == ("cuda:0", "Emulated, CUDA 12.8, memory of its own", "ready", 2)
    assert open_backend("cuda").identity == "cuda CUDA 12.8 Emulated sm_80"
    with pytest.raises(BackendUnavailable, match=r"no device cuda:3; there are: cuda:0 \(Emulated"):
        open_backend("cuda:3")
    assert "cuda:0" in str(npaccel.devices())


def test_a_device_that_is_too_old_is_named(monkeypatch):
    monkeypatch.setattr(driver.Driver, "capability", lambda self, number: (5, 2))
    with pytest.raises(BackendUnavailable, match=r"compute capability 5\.2, 6\.0 is needed"):
        target.Target(0)


def test_code_that_the_driver_rejects(monkeypatch, emulated_cuda):
    there = open_backend("cuda").target
    with pytest.raises(CompileError, match="not loaded: CUDA_ERROR"):
        there.load(b"no code")
    monkeypatch.setattr(emulated_cuda, "texts", [])
    monkeypatch.setattr(there.driver, "_call", lambda name, *arguments: 218 * ("Add" in name))
    with pytest.raises(CompileError, match="a kernel was rejected: error 218"):
        there.driver.assemble(there.context, b"nor PTX")


def test_without_a_driver_the_reason_says_where_it_comes_from():
    with pytest.raises(BackendUnavailable, match="comes with the system, not with pip"):
        driver.Driver("libcuda_of_nobody.so")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_computes_on_the_host():
    there = open_backend("cuda").target
    child = os.fork()
    if child == 0:
        try:
            there.load(b"")
        except Unsupported:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
