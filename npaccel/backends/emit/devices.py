"""What kernel functions of devices are given: words, their tasks by number, the groups they run in.

A group runs every n-th task of the launch, n being the number of groups; of one item on processors.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from npaccel.backends.emit.builder import Builder, Name, Range
from npaccel.backends.emit.machine import Machine

__all__ = ["COMPONENTS", "EXTRA_WORDS", "SCRATCH_WORD", "OnDevice", "machine_of"]

# Behind the words that all backends know: band, band_step, inner, inner_step, scratch bytes, and
# where the band and the inner space begin: not at 0 in a part of a kernel (native/place/tiling.c),
# whose arrays' places are moved back by what lies before it.
EXTRA_WORDS = 7
SCRATCH_WORD = 4
COMPONENTS = 2  # of a combiner, of 8 bytes at most


def machine_of(vector_bytes: int, group_size: int = 1) -> Machine:
    """A device with vectors of that size; 0: one element at a time."""
    return Machine(vector_bytes, widest=16, group_size=group_size, calls=True)


class OnDevice(Builder):
    """The part of a printer that says which tasks an item runs.

    words : how many there are that all backends know
    item, items : the group's number, and of how many
    """

    words: int

    def extra(self, index: int) -> Name:
        """One of the words that only devices have."""
        return self.word(self.words + index)

    @contextmanager
    def tasks(self) -> Iterator[Range]:
        band, band_step, inner, inner_step = (self.extra(k) for k in range(4))
        first = self.extra(5), self.extra(6)
        inner_tasks = self.div(self.sub(self.add(inner, inner_step), 1), inner_step)
        band_tasks = self.div(self.sub(self.add(band, band_step), 1), band_step)
        with self.count(self.item, self.mul(band_tasks, inner_tasks), self.items) as task:
            number = self.div(task, inner_tasks), self.coordinate("%", task, inner_tasks)
            yield Range(
                *self._extent(number[0], band_step, band, first[0]),
                *self._extent(number[1], inner_step, inner, first[1]),
            )

    def _extent(self, number: Name, step: Name, count: Name, first: Name) -> tuple[Name, Name]:
        """From where to where a task of that number goes, of `count` points from `first` on."""
        low = self.mul(number, step)
        high = self.minimum(self.add(low, step), count)
        return self.add(first, low), self.add(first, high)
