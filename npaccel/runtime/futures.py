"""What `npaccel.evaluate(..., wait=False)` gives: futures of runs in flight.

    launch ──► Future ──► a thread, while there are such, that sleeps until a run is over and tells
                 │           them: results, callbacks, who waits (asyncio, concurrent.futures)
                 └── result(), exception(): sleep on the caller's thread, and tell by themselves

Runs are the core's (native/flights.c) and need none of this: who reads an array waits for the run
that makes it.
"""

from __future__ import annotations

import _thread
import concurrent.futures
import os
import threading
import time
from collections.abc import Generator, Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from npaccel import _native

__all__ = ["Future", "Futures", "Waited", "wait"]

LEAST_S = 1e-4  # handing a run over takes as long
SLICE_S: Final = 1.0  # what can't be missed is looked for all the same


class Waited(NamedTuple):
    """What `npaccel.wait` returns."""

    done: set[concurrent.futures.Future[Any]]
    not_done: set[concurrent.futures.Future[Any]]


class Failed(NamedTuple):
    """Instead of a value."""

    error: Exception


class Future(concurrent.futures.Future[Any]):
    """Values that are being computed while the program goes on.

    All of `concurrent.futures.Future` holds, so `concurrent.futures.wait`, `as_completed` and
    `asyncio.wrap_future` take it; ``await`` takes it as it is. It can't be cancelled. Callbacks run
    on a thread of npaccel's, or on one that asks for the result.
    """

    def __init__(self, flights: list[int], value: Any) -> None:
        super().__init__()
        self._flights: Final = flights
        self._value: Any = value
        self._claimed = False
        self._claim: Final = threading.Lock()
        self.set_running_or_notify_cancel()

    def done(self) -> bool:
        """Whether it is computed, or failed."""
        return super().done() or (self._wait(0) and self.tell())

    def result(self, timeout: float | None = None) -> Any:
        """Wait, and return what `npaccel.evaluate` would have.

        Parameters
        ----------
        timeout : seconds to wait at most; None: as long as it takes.

        Raises
        ------
        TimeoutError : it is not computed by then; it goes on.
        MemoryError : memory did not suffice. What was computed is kept, and what was not stays
            pending: whoever reads it has it tried again.

        Warnings of operations come here, or where one of the arrays is read first.
        """
        self._finish(timeout)
        value = super().result(0)
        _native.issue()
        return value

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait as `result` does, and return what it would raise; None: nothing."""
        self._finish(timeout)
        return super().exception(0)

    def __await__(self) -> Generator[Any, None, Any]:
        import asyncio

        yield from asyncio.wrap_future(self).__await__()
        return self.result()

    def _wait(self, timeout: float | None) -> bool:
        return _native.sleep(self._flights, timeout, -1)

    def _finish(self, timeout: float | None) -> None:
        if super().done():
            return
        end = None if timeout is None else time.monotonic() + timeout
        if not self._wait(timeout):
            raise concurrent.futures.TimeoutError
        if not self.tell():  # another thread is at it, and may go on with what has stopped
            super().exception(None if end is None else max(0.0, end - time.monotonic()))

    def tell(self) -> bool:
        """Its runs are over, or stopped: go on with these, and tell who waits. False: others do."""
        with self._claim:
            if self._claimed:
                return super().done()
            self._claimed = True
        try:
            _native.resume(self._flights)
        except BaseException as error:
            if not isinstance(error, Exception):  # Ctrl-C: it is told another time
                self._claimed = False
                raise
            self._set(Failed(error))
        else:
            self._set(self._value)
        return True

    def _set(self, value: Any) -> None:
        if isinstance(value, Failed):
            self.set_exception(value.error)
        else:
            self.set_result(value)

    def told(self) -> bool:
        """Whether who waits knows."""
        return super().done()

    def over(self) -> bool:
        """Whether its runs are, or have stopped."""
        return self._wait(0)

    @property
    def flights(self) -> list[int]:
        """Numbers of its runs."""
        return self._flights


class Futures:
    """Those there are, and the thread that tells them that their runs are over."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._futures: list[Future] = []
        self._wakes = 0
        self._thread: int | None = None  # its identity
        self._gone = threading.Event()
        os.register_at_fork(before=self._before_fork, after_in_child=self._after_fork)

    def launch(self, value: Any) -> Future:
        """Have everything pending run from now on: a future of that, and of what `value` needs."""
        try:
            future = Future(_native.launch(list(arrays_in(value)), LEAST_S), value)
        except Exception as error:  # it ran at once, and says so where runs in flight do
            future = Future([], Failed(error))
        if future.flights:
            self._add(future)
        else:
            future.tell()
        return future

    def _add(self, future: Future) -> None:
        with self._lock:
            self._futures.append(future)
            self._wakes = _native.wake()
            if self._thread is not None:
                return
            self._gone.clear()
            try:  # not threading.Thread: nobody waits until it has begun
                self._thread = _thread.start_new_thread(self._run, ())
            except RuntimeError:  # the interpreter is ending, or there can be no more threads
                self._futures.remove(future)
            else:
                return
        future.exception()

    def tell_all(self) -> None:
        """Wait for all there are, and tell them."""
        with self._lock:
            futures = list(self._futures)
        for future in futures:
            future.exception()

    def _run(self) -> None:
        while True:
            with self._lock:
                self._futures = [future for future in self._futures if not future.told()]
                futures, wakes = list(self._futures), self._wakes
                if not futures:
                    self._thread = None
                    self._gone.set()
                    return
            _native.sleep([n for future in futures for n in future.flights], SLICE_S, wakes)
            for future in futures:
                if future.over():
                    future.tell()

    def _before_fork(self) -> None:
        self.tell_all()
        if self._thread not in (None, threading.get_ident()):
            self._gone.wait(1)  # Python warns of forks with threads

    def _after_fork(self) -> None:
        self._lock = threading.Lock()
        self._futures = []
        self._thread = None


def arrays_in(value: Any) -> Iterator[np.ndarray[Any, Any]]:
    """Arrays among values, as `npaccel.evaluate` takes them."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from arrays_in(item)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from arrays_in(item)


def wait(futures: Any, timeout: float | None, return_when: str) -> Waited:
    """As `concurrent.futures.wait`."""
    done, not_done = concurrent.futures.wait(futures, timeout, return_when)
    return Waited(done, not_done)
