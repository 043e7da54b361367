"""What `npaccel.evaluate(..., wait=False)` gives: futures of runs in flight.

    launch ──► Future ──► a thread, while there are such, that sleeps until a run is over and tells
                 │           the rest of the world: callbacks, asyncio, concurrent.futures
                 └── result(), exception(), done(): ask the core

The thread alone changes futures, for no signal comes in between there.

Runs are the core's (native/run/flights.c) and need none of this: who reads an array waits for the
run that makes it.
"""

from __future__ import annotations

import _thread
import concurrent.futures
import threading
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from npaccel import _native, system
from npaccel.later import later

if TYPE_CHECKING:
    import asyncio
else:
    asyncio = later("asyncio")

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
        self.set_running_or_notify_cancel()

    def done(self) -> bool:
        """Whether it is computed, or failed."""
        return super().done() or self._wait(0)

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
        error = self.exception(timeout)
        if error is not None:
            raise error
        _native.issue()
        return self._value

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait as `result` does, and return what it would raise; None: nothing."""
        if super().done():
            return super().exception(0)
        if not self._wait(timeout):
            raise concurrent.futures.TimeoutError
        return self._resumed()

    def __await__(self) -> Generator[Any, None, Any]:
        yield from asyncio.wrap_future(self).__await__()
        return self.result()

    def _wait(self, timeout: float | None) -> bool:
        return _native.sleep(self._flights, timeout, -1)

    def _resumed(self) -> Exception | None:
        """What goes wrong where what has stopped goes on."""
        if isinstance(self._value, Failed):
            return self._value.error
        try:
            _native.resume(self._flights)
        except Exception as error:
            return error
        return None

    def tell(self) -> None:
        """Wait for it, and tell the rest of the world."""
        error = self._resumed()
        if error is not None:
            self.set_exception(error)
        else:
            self.set_result(self._value)

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
        system.at_fork(before=self._before_fork, after_in_child=self._after_fork)

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
            self._thread = 0  # until it knows
            try:  # not threading.Thread: nobody waits until it has begun
                _thread.start_new_thread(self._run, ())
            except RuntimeError:  # the interpreter is ending, or there can be no more threads
                self._futures.remove(future)
                self._thread = None
            else:
                return
        future.tell()

    def tell_all(self, seconds: float | None = None) -> None:
        """Wait until all that is over has been told."""
        with self._lock:
            thread = self._thread
        if thread not in (None, threading.get_ident()):
            self._gone.wait(seconds)

    def _run(self) -> None:
        self._thread = threading.get_ident()
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
        with self._lock:
            flights = [n for future in self._futures for n in future.flights]
        _native.sleep(flights, None, -1)
        self.tell_all(1)  # Python warns of forks with threads

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
