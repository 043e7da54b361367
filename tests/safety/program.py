"""Random programs: the same steps on deferred arrays and on plain ones, compared as they go.

The names of a program are slots. A step works on the slots by number, so any sequence of steps is a
program. Aliases of a slot's memory, made behind npaccel's back, are kept and read later.
"""

from __future__ import annotations

import ctypes
import gc
import os
import tempfile
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import npaccel

SLOTS = 5


class Pair:
    """A deferred array and the plain one that it must equal; aliases of both."""

    def __init__(self, fast: Any, plain: Any) -> None:
        self.fast = fast
        self.plain = plain


class Machine:
    """Runs steps; a difference is an AssertionError."""

    def __init__(self, n: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.slots = []
        for _ in range(SLOTS):
            source = rng.standard_normal(n)
            self.slots.append(Pair(npaccel.asarray(source.copy()) * 1.0, source.copy()))
        self.aliases: list[tuple[Any, Any]] = []

    def step(self, name: str, i: int, j: int) -> None:
        getattr(self, name)(i % SLOTS, j % SLOTS)

    def _set(self, i: int, f: Callable[..., Any], *slots: int) -> None:
        fast = f(*(self.slots[k].fast for k in slots))
        self.slots[i] = Pair(fast, f(*(self.slots[k].plain for k in slots)))

    # What is recorded. Values stay bounded, and every operation is exact in its bits.

    def add(self, i: int, j: int) -> None:
        self._set(i, lambda x, y: (x + y) * 0.5, i, j)

    def largest(self, i: int, j: int) -> None:
        self._set(i, lambda x, y: np.maximum(x, -y), i, j)

    def root(self, i: int, j: int) -> None:
        self._set(i, lambda x: np.sqrt(np.abs(x)) - 0.25, j)

    def shift(self, i: int, j: int) -> None:
        def shifted(x: Any) -> Any:
            y = x * 1.0
            y[1:] = x[:-1]
            return y

        self._set(i, shifted, j)

    def reverse(self, i: int, j: int) -> None:
        self._set(i, lambda x: x[::-1] + 0.0, j)

    def in_place(self, i: int, j: int) -> None:
        pair, other = self.slots[i], self.slots[j]
        pair.fast *= 0.5
        pair.plain *= 0.5
        pair.fast[::2] -= other.fast[::2]
        pair.plain[::2] -= other.plain[::2]

    def out(self, i: int, j: int) -> None:
        np.negative(self.slots[j].fast, out=self.slots[i].fast)
        np.negative(self.slots[j].plain, out=self.slots[i].plain)

    def number(self, i: int, j: int) -> None:
        assert float(self.slots[j].fast.max()) == self.slots[j].plain.max()

    # What npaccel is not told of.

    def alias(self, i: int, j: int) -> None:
        pair = self.slots[i]
        self.aliases.append((np.asarray(pair.fast)[j:], pair.plain[j:]))
        del self.aliases[:-4]

    def read_aliases(self, i: int, j: int) -> None:
        for fast, plain in self.aliases:
            np.testing.assert_array_equal(fast, plain)

    def read(self, i: int, j: int) -> None:
        fast = np.asarray(self.slots[i].fast)
        np.testing.assert_array_equal(fast, self.slots[i].plain)

    def element(self, i: int, j: int) -> None:
        assert np.asarray(self.slots[i].fast)[-1 - j] == self.slots[i].plain[-1 - j]

    def forget(self, i: int, j: int) -> None:
        self.slots[i] = self.slots[j]
        gc.collect(0)

    def evaluate(self, i: int, j: int) -> None:
        npaccel.evaluate()

    # Writes that npaccel is not told of.

    def foreign(self, i: int, j: int) -> None:
        """Memory that NumPy made: what others write there, operations must not see."""
        plain = self.slots[j].plain
        self.slots[i] = Pair(npaccel.asarray(plain.copy()), plain.copy())

    def write_alias(self, i: int, j: int) -> None:
        for array in (np.asarray(self.slots[i].fast), self.slots[i].plain):
            array[j::7] = 0.375

    def write_memoryview(self, i: int, j: int) -> None:
        for array in (np.asarray(self.slots[i].fast), self.slots[i].plain):
            memoryview(array)[(len(array) // 2 + j) % len(array)] = -0.5

    def write_pointer(self, i: int, j: int) -> None:
        for array in (np.asarray(self.slots[i].fast), self.slots[i].plain):
            pointer = ctypes.cast(array.ctypes.data, ctypes.POINTER(ctypes.c_double))
            pointer[j] = pointer[len(array) // 2] = pointer[len(array) - 1 - j] = 0.625

    def out_plain(self, i: int, j: int) -> None:
        """Into an array of NumPy's that other operations read."""
        fast, plain = self.slots[i], self.slots[j]
        target = np.asarray(fast.fast)
        np.subtract(plain.fast, 0.125, out=target)
        np.subtract(plain.plain, 0.125, out=fast.plain)
        np.asarray(fast.fast)[j] = fast.plain[j] = 0.0

    def read_into(self, i: int, j: int) -> None:
        with tempfile.TemporaryFile(buffering=0) as file:
            np.linspace(-1.0, 1.0 + j, len(self.slots[i].plain)).tofile(file)
            for array in (np.asarray(self.slots[i].fast), self.slots[i].plain):
                file.seek(0)
                assert file.readinto(array) == array.nbytes

    def thread_writes(self, i: int, j: int) -> None:
        """Another thread writes while this one records; what it writes was not read by anything."""
        alias = np.asarray(self.slots[i].fast)
        thread = threading.Thread(target=alias.fill, args=(0.75,))
        if self.slots[i].plain is not self.slots[j].plain:
            thread.start()
            made = self.slots[j].fast * 0.5
            thread.join()
            self.slots[i].plain.fill(0.75)
            self.slots[j] = Pair(made, self.slots[j].plain * 0.5)

    def scope(self, i: int, j: int) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.add(i, j)
            self.slots[i].fast / 0.0  # dies, and would warn
        self.root(j, i)

    def scope_that_records(self, i: int, j: int) -> None:
        def divide(x: Any) -> Any:
            return np.copysign(0.5, x) / (x * 0.0)

        counts = []
        for array in (self.slots[i].fast, self.slots[i].plain):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                divide(array)
            counts.append(sorted(str(warning.message) for warning in caught))
        assert counts[0] == counts[1]

    def threads(self, i: int, j: int) -> None:
        """Two threads read, two record; all at once."""
        failures: list[BaseException] = []
        made: dict[int, Any] = {}

        def guarded(work: Callable[[], None]) -> None:
            try:
                work()
            except BaseException as error:
                failures.append(error)

        def record(k: int) -> None:
            made[k] = self.slots[k].fast * 0.5 + self.slots[i].fast

        tasks = [lambda: self.read(i, j), lambda: self.read(j, i)]
        tasks += [lambda: record(i), lambda: record(j)]
        threads = [threading.Thread(target=guarded, args=(task,)) for task in tasks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        for k, fast in made.items():
            plain = self.slots[k].plain * 0.5 + self.slots[i].plain
            np.testing.assert_array_equal(np.asarray(fast), plain)

    def fork(self, i: int, j: int) -> None:
        child = os.fork()
        if child == 0:
            try:
                self.read(i, j)
                self.add(i, j)
                self.finish()
            except BaseException:
                os._exit(1)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0

    def finish(self) -> None:
        for i in range(SLOTS):
            self.read(i, i)
        self.read_aliases(0, 0)


RECORDED = ["add", "largest", "root", "shift", "reverse", "in_place", "out"]
WRITTEN = [
    *("foreign", "write_alias", "write_memoryview", "write_pointer", "out_plain", "read_into"),
    *("thread_writes", "scope", "scope_that_records"),
]
READ = ["number", "alias", "read_aliases", "read", "element", "forget", "evaluate", "threads"]
STEPS = [*RECORDED, *RECORDED, *WRITTEN, *READ]
