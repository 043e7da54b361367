"""Random loops with futures, each against NumPy: a wrong value, a lost run, a wait without end?

    python bench/soak_futures.py [--programs 20000] [--seed 0] [--backend auto] [--check off]
                                 [--threshold 4096] [--processes 2] [--show SEED]

The programs are those of `soak_loops.py`. Besides, rounds begin runs and go on at once, give hints,
wait for results, give up waiting, add callbacks that compute and begin runs of their own, are
interrupted in a wait by a signal, do all that in threads and beside forks. Where NumPy runs alone
these are plain calls. What is the same without futures is `soak_loops.py`'s to tell: the signs of
a maximum of zeros. A program that takes longer than MOST_S is taken to hang: the traceback of
each thread is printed, and the process ends.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import faulthandler
import itertools
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import npaccel
from npaccel.runtime.engine import futures

sys.path.insert(0, str(Path(__file__).parent))
import soak_loops

__all__ = ["FutureProgram"]

MOST_S = 120
READS = (
    "begin({x})",
    "begin({x}, {y}); {y} *= 0.5",
    "begin({x}); {x}[1:9] = 0.25",
    "begin({x} * 2.0)",
    "hint({x})",
    "out.append(float(awaited({x})[3]))",
    "out.append(float(awaited({x} + {y})[5]))",
    "out.append(np.array(awaited({x})[::19]))",
    "tried({x}); {y} = 0.5 * {x}",
    "tried({x}); out.append(float({x}[7]))",
    "begin({x}); {y} = 0.25 * {x}; begin({y}); {x} = {y} + 1.0",
    "kept.append(called(0.5 * {x} + t))",
    "out.append(interrupted({x}))",
    "begin({x}); out.append(threaded(lambda: float(awaited({x} * 0.5)[1])))",
    "out.append(threaded(lambda: float((begin({x}), {x} + {y})[1][2])))",
    "begin({x}); out.append(pointed({x}, 9))",
    "begin({x} + {y}); put({x}, 5, 0.5)",
    "begin({x} + rows[2]); rows[2] *= 0.5",
    "begin({x}); del {x}; {x} = np.ones(n)",
    "begin({x}); out.append(warned(lambda: float(({y} / (0 * {y}))[2])))",
    "all_over()",
)
RARE = (
    *soak_loops.RARE,
    "begin({x}); out.append(forked(lambda: int(({x} + 1.0)[4] * 1024) % 251))",
    "begin({x}); out.append(forked(lambda: int(awaited({y} + 1.0)[4] * 1024) % 251))",
)


class FutureProgram(soak_loops.Program):
    """Writes one program."""

    MOST_READS = 6

    def read(self, depth: int) -> None:
        kind = self.random.random()
        texts = RARE if kind < 0.01 else soak_loops.READS if kind < 0.2 else READS
        self.add(depth, self.filled(texts))


class Futures:
    """What programs call; `real`: futures, else NumPy's values as they are."""

    def __init__(self, real: bool) -> None:
        self.real = real
        self.futures: list[concurrent.futures.Future[Any]] = []
        self.turn = itertools.count()

    def begin(self, *values: np.ndarray) -> None:
        if self.real:
            self.futures.append(npaccel.evaluate(*values, wait=False))
            del self.futures[:-20]

    def hint(self, value: np.ndarray) -> None:
        if self.real:
            npaccel.hint_read(value)

    def awaited(self, value: np.ndarray) -> np.ndarray:
        found = npaccel.evaluate(value, wait=False).result() if self.real else value
        assert found is value
        return found

    def tried(self, value: np.ndarray) -> None:
        """Begin, and give up waiting."""
        if not self.real:
            return
        future = npaccel.evaluate(value, wait=False)
        with contextlib.suppress(concurrent.futures.TimeoutError):
            future.result(0.0001 * (next(self.turn) % 3))
        self.futures.append(future)

    def called(self, value: np.ndarray) -> Any:
        """What a callback makes of it, on whichever thread."""
        if not self.real:
            return value * 2.0 - 1.0
        found: concurrent.futures.Future[Any] = concurrent.futures.Future()

        def call(future: concurrent.futures.Future[Any]) -> None:
            try:
                with npaccel.accelerate():
                    made = future.result() * 2.0 - 1.0
                    self.futures.append(npaccel.evaluate(made, wait=False))
                found.set_result(made)
            except BaseException as error:
                found.set_exception(error)

        npaccel.evaluate(value, wait=False).add_done_callback(call)
        return found

    def interrupted(self, value: np.ndarray) -> float:
        """An element, behind a wait that a signal ends."""
        if not self.real:
            return float(value[4])

        def stop(number: int, frame: Any) -> None:
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, stop)
        future = npaccel.evaluate(value, wait=False)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.0001 * (1 + next(self.turn) % 7))
            future.result()
            time.sleep(1)
        except KeyboardInterrupt:
            pass
        signal.signal(signal.SIGALRM, before)
        future.result()
        return float(value[4])

    def all_over(self) -> None:
        if self.real:
            done, left = npaccel.wait(self.futures[-3:], 60)
            assert not left and all(future.exception() is None for future in done)


plain_outcome = soak_loops.outcome


def outcome(code: Any, *, real: bool) -> list[Any]:
    """As `soak_loops.outcome`."""
    calls = Futures(real)
    names = {name: getattr(calls, name) for name in dir(calls) if not name.startswith("_")}
    found = plain_outcome(code, **names)
    for future in calls.futures:
        assert future.exception(60) is None
    return found


def differences(seed: int) -> str:
    """How npaccel's outcome differs from NumPy's; empty: not at all."""
    text = FutureProgram(seed).program()
    code = compile(text, f"<program {seed}>", "exec")
    expected = outcome(code, real=False)
    for turn in range(2 if seed % 5 == 0 else 1):
        faulthandler.dump_traceback_later(MOST_S, exit=True)
        with npaccel.accelerate():
            found = outcome(code, real=True)
        faulthandler.cancel_dump_traceback_later()
        with npaccel.accelerate():
            alike = found == expected or found == outcome(code, real=False)
        if not alike:
            return soak_loops.told(seed, turn, found, expected, text)
    return ""


futures.LEAST_S = 0.0  # whatever is known to be brief flies, too
soak_loops.differences = differences
soak_loops.Program = FutureProgram
soak_loops.COUNTS = ("requests", "flushes", "background_runs", "kernels", "write_faults")

if __name__ == "__main__":
    sys.exit(soak_loops.main())
