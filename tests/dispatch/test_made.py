"""What NumPy makes lies in memory of npaccel's, so what is written into it in a block may wait."""

import contextvars
import io
import os
import subprocess
import sys
import threading
from collections.abc import Callable

import numpy as np
import pytest

import npaccel
from npaccel import _native

pytestmark = pytest.mark.usefixtures("usual_threshold")

SHAPE = (300, 200)  # 480 KB of f8, which is more than the threshold
LESS = (30, 20)


def loaded() -> np.ndarray:
    file = io.BytesIO()
    np.save(file, np.arange(SHAPE[0] * SHAPE[1], dtype="f8").reshape(SHAPE))
    file.seek(0)
    return np.load(file)


def through_buffer() -> np.ndarray:
    return np.array(memoryview(bytearray(8 * SHAPE[0] * SHAPE[1])).cast("d", SHAPE))


MAKERS: dict[str, Callable[[], np.ndarray]] = {
    "empty": lambda: np.empty(SHAPE),
    "zeros": lambda: np.zeros(SHAPE),
    "ones": lambda: np.ones(SHAPE),
    "full": lambda: np.full(SHAPE, 2.5),
    "array": lambda: np.array([[1.5] * SHAPE[1]] * SHAPE[0]),
    "buffer": through_buffer,
    "fromfunction": lambda: np.fromfunction(lambda i, j: i * (j + 2.0) / 7, SHAPE),
    "linspace": lambda: np.linspace(0, 1, SHAPE[0] * SHAPE[1]).reshape(SHAPE),
    "meshgrid": lambda: np.meshgrid(np.arange(200.0), np.arange(300.0))[0],
    "tile": lambda: np.tile(np.arange(200.0), (300, 1)),
    "load": loaded,
    "copy": lambda: np.broadcast_to(np.arange(200.0), SHAPE).copy(),
    "order": lambda: np.zeros(SHAPE, order="F"),
    "legacy random": lambda: np.random.RandomState(3).standard_gamma(2.0, SHAPE),
    "strings": lambda: np.full((300, 200), "ab"),
    "records": lambda: np.zeros((300, 200), [("a", "f8"), ("b", "i4")]),
}


def sweep(u: np.ndarray) -> None:
    for _ in range(4):
        u[1:-1] += 0.25 * (u[2:] - u[:-2])


@pytest.mark.skipif(not _native.guarded(), reason="nothing waits")
@pytest.mark.parametrize("name", [m for m in MAKERS if m not in ("strings", "records", "empty")])
def test_writes_wait(name: str) -> None:
    """A sweep over what NumPy made runs when it is read, not at each statement."""
    expected = MAKERS[name]()
    sweep(expected)
    with npaccel.accelerate():
        u = MAKERS[name]()
        npaccel.evaluate(u)
        before = npaccel.stats()["flushes"]
        sweep(u)
        assert npaccel.stats()["flushes"] - before <= 1
        assert u.flags.owndata == expected.flags.owndata
        assert u.strides == expected.strides
        assert np.asarray(u).tobytes("A") == expected.tobytes("A")


@pytest.mark.parametrize("name", MAKERS)
def test_values(name: str) -> None:
    expected = MAKERS[name]()
    with npaccel.accelerate():
        for _ in range(3):
            made = MAKERS[name]()
            assert (made.dtype, made.shape, made.strides) == (
                expected.dtype,
                expected.shape,
                expected.strides,
            )
            assert made.flags.writeable
            if name != "empty":
                assert made.tobytes() == expected.tobytes()
            made[...] = made[0, 0]  # dirty, for the next one


def test_zeros_are_zeros_where_others_were() -> None:
    with npaccel.accelerate():
        for k in range(20):
            x = np.zeros(SHAPE) if k % 2 else np.zeros(SHAPE[::-1])
            assert not np.asarray(x).any()
            x += k + 1
            assert float(x.min()) == k + 1


def test_memory_lasts_after_the_block() -> None:
    with npaccel.accelerate():
        u = np.ones(SHAPE)
        sweep(u)
        small = np.ones(LESS)
    view = u[::2]
    del u
    for _ in range(10):
        np.zeros(SHAPE)
    assert view.sum() == 150 * 200
    assert small.sum() == 600


@pytest.mark.skipif(not _native.guarded(), reason="nothing waits")
def test_what_was_made_before_the_block() -> None:
    """From the import on large arrays lie in our memory; writes into them wait in a later block."""
    expected = np.ones(SHAPE)
    u, small = np.ones(SHAPE), np.ones(LESS)
    sweep(expected)
    npaccel.evaluate(u)
    before = npaccel.stats()["flushes"]
    with npaccel.accelerate():
        sweep(u)
        sweep(small)
        assert npaccel.stats()["flushes"] - before <= 1
    assert np.asarray(u).tobytes() == expected.tobytes()


@pytest.mark.skipif(not _native.guarded(), reason="nothing waits")
def test_what_is_made_after_the_block() -> None:
    with npaccel.accelerate():
        with npaccel.accelerate():
            pass
        before = npaccel.stats()["live_ranges"]
        x = np.empty(SHAPE)
        assert npaccel.stats()["live_ranges"] == before + 1
    y, small = np.empty(SHAPE), np.empty(LESS)
    assert npaccel.stats()["live_ranges"] == before + 2
    assert (x.size, y.size, small.size) == (60_000, 60_000, 600)


@pytest.mark.skipif(not _native.guarded(), reason="nothing waits")
def test_contexts_and_threads() -> None:
    """A context has our memory once a block was entered in it; another's is NumPy's."""
    with npaccel.accelerate():
        u = np.ones(SHAPE)
        results: list[np.ndarray] = []
        thread = threading.Thread(target=lambda: results.append(np.ones(SHAPE) + u))
        thread.start()
        thread.join()
    inside, outside = contextvars.copy_context(), contextvars.Context()
    before = npaccel.stats()["live_ranges"]
    theirs = outside.run(lambda: np.ones(SHAPE))
    assert npaccel.stats()["live_ranges"] <= before
    before = npaccel.stats()["live_ranges"]
    ours = inside.run(lambda: np.ones(SHAPE))
    assert npaccel.stats()["live_ranges"] == before + 1
    assert (theirs.sum(), ours.sum(), results[0].sum()) == (60_000, 60_000, 120_000)


def test_guard_off() -> None:
    """Where nothing may wait, memory is NumPy's."""
    code = """
import numpy as np, npaccel
x = np.ones((300, 200))
with npaccel.accelerate():
    x[1:] += x[:-1]
assert npaccel.stats()["live_ranges"] == 0 and x[-1, 0] == 2
"""
    environment = {**os.environ, "NPACCEL_GUARD": "off", "PYTHONWARNINGS": "ignore"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


def test_resized() -> None:
    """Memory that grows or shrinks is NumPy's from then on, with the same content."""
    with npaccel.accelerate():
        x = np.arange(60_000.0)
        x += 1.0
        x.resize(90_000, refcheck=False)
        assert x[59_999] == 60_000
        assert not x[60_000:].any()
        x.resize(40_000, refcheck=False)
        assert x[39_999] == 40_000
        y = np.fromiter((k * 0.5 for k in range(100_000)), dtype=float)
        assert y[99_999] == 49_999.5


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked() -> None:
    with npaccel.accelerate():
        u = np.ones(SHAPE)
        sweep(u)
        child = os.fork()
        if child == 0:
            u += 1.0
            os._exit(0 if float(u[0, 0]) == 2.0 and np.zeros(SHAPE).sum() == 0 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert u[0, 0] == 1.0
