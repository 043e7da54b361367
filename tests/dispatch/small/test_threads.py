"""Memory of dead arrays in a block, in threads, processes and collections of garbage."""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npaccel

from .dead_arrays import check_next, made

Array = np.ndarray[Any, Any]
pytestmark = pytest.mark.filterwarnings("ignore:Setting the shape")  # NumPy 2.5 and later


def run_threads(*works: Callable[[float], None]) -> None:
    errors: list[BaseException] = []

    def guarded(work: Callable[[float], None], until: float) -> None:
        try:
            work(until)
        except BaseException as error:
            errors.append(error)

    until = time.monotonic() + 0.4
    threads = [threading.Thread(target=guarded, args=(work, until)) for work in works]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not errors, errors[0]


def computing(value: float, in_block: bool) -> Callable[[float], None]:
    """Work on sizes with and without the GIL, of all dtypes' ways."""

    def work(until: float) -> None:
        while time.monotonic() < until:
            for size in (6, 400, 600, 5000, 20_000):
                for char in "fdDl":
                    x = np.full(size, value, char)
                    y = x * 3
                    z = y - x
                    z += x
                    assert (z == y).all()
                    assert (np.maximum(x, y) == y).all()
                    assert (abs(-y) == y).all()
                    assert not (y < x).any() if char != "D" else True
                    assert np.add(y, x, y) is y
                    assert y[-1] == x[0] * 4

    def block(until: float) -> None:
        with npaccel.accelerate():
            work(until)

    return block if in_block else work


def test_two_threads() -> None:
    run_threads(computing(1.0, True), computing(7.0, True))


def test_a_thread_beside_a_block() -> None:
    run_threads(computing(1.0, True), computing(7.0, False))


def test_a_thread_beside_blocks_that_open_and_close() -> None:
    def opening(until: float) -> None:
        while time.monotonic() < until:
            with npaccel.accelerate():
                check_next(times=10)

    run_threads(computing(3.0, False), opening)


def test_threads_that_hand_on_arrays() -> None:
    """What one thread made dies in another."""
    handed: list[Array] = []

    def give(until: float) -> None:
        while time.monotonic() < until:
            if len(handed) < 100:
                handed.append(np.ones(600) * len(handed))

    def take(until: float) -> None:
        while time.monotonic() < until:
            if handed:
                x = handed.pop()
                assert (x == x[0]).all()
                del x
                made("d", (600,))

    with npaccel.accelerate():
        run_threads(give, take)


def test_ways_that_take_each_others_place() -> None:
    """A loop runs without the GIL while another thread calls all that there are."""
    ufuncs = [
        u for u in vars(np).values() if isinstance(u, np.ufunc) and u.nin == 2 and u.nout == 1
    ]
    ufuncs = [u for u in ufuncs if not u.signature]

    def churn(until: float) -> None:
        with np.errstate(all="ignore"):
            while time.monotonic() < until:
                for u in ufuncs:
                    for char in "?bhilBHILfdFD":
                        x = np.ones(4, char)
                        with contextlib.suppress(TypeError):
                            u(x, x)

    def rows(until: float) -> None:
        x = np.ones((3000, 4))[:, :3]
        while time.monotonic() < until:
            assert ((x + x) == 2.0).all()

    with npaccel.accelerate():
        run_threads(churn, rows)


def test_fork() -> None:
    with npaccel.accelerate():
        x = made()
        dead = [made() for _ in range(10)]
        del dead
        child = os.fork()
        if child == 0:
            status = 1
            try:
                check_next()
                assert (x + x).tolist() == [4.0] * 6
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        check_next()


ENDS = {
    "open": "block.__enter__()\nx = f(np.ones(6))",
    "in a thread": "block.__enter__()\nthreading.Thread(target=f, args=(np.ones(6),)).start()",
    "at exit": "atexit.register(lambda: f(np.ones(6)))\nblock.__enter__()\nf(np.ones(6))",
    "in a cycle": "block.__enter__()\na = [f(np.ones(6))]\na.append(a)\ndel a",
    "error": "with block:\n    x = f(np.ones(6))\n    x = x + 'a'",
}


@pytest.mark.parametrize("name", ENDS)
def test_the_end_of_a_process(name: str) -> None:
    program = (
        "import atexit, threading\nimport numpy as np\nimport npaccel\n"
        "def f(x):\n    return [x + k for k in range(20)][3] * 2\n"
        "block = npaccel.accelerate()\n" + ENDS[name]
    )
    run = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONSAFEPATH": "1"},
        check=False,
    )
    assert run.returncode == (1 if name == "error" else 0), run.stderr
    assert ("UFuncNoLoopError" in run.stderr) == (name == "error"), run.stderr


def test_collections_amid_operations() -> None:
    class Node:
        def __init__(self, x: Array) -> None:
            self.x, self.me = x, self

        def __del__(self) -> None:
            last.append(float((self.x + 1)[0]))

    last: list[float] = []
    threshold = gc.get_threshold()
    gc.set_threshold(5)
    try:
        with npaccel.accelerate():
            for k in range(500):
                Node(np.ones(6) * k)
                y = np.ones(6) * k + np.ones(6)
                assert y.tolist() == [k + 1.0] * 6
            gc.collect()
    finally:
        gc.set_threshold(*threshold)
    assert sorted(last) == [k + 1.0 for k in range(500)]
