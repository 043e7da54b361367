"""What a target has, as far as the emitter asks: the capabilities that a printer declares."""

from __future__ import annotations

import enum
from dataclasses import dataclass

__all__ = ["Guard", "Machine"]


class Guard(enum.Enum):
    """How a function tells that something happened which NumPy warns of; see Note [Guards]."""

    VALUES = "values"  # it computes masks, where a cheap one is true
    STATUS = "status"  # it leaves that to the processor's sticky flags
    MASKS = "masks"  # it computes masks alone, for what a function with STATUS has been run over


@dataclass(frozen=True, slots=True)
class Machine:
    """A target.

    vector_bytes : of a vector register; 0: code has one element at a time
    widest : lanes that a vector may have
    wide : whether vectors may be wider than registers, so that one holds all that is in flight;
        else an iteration has several vectors
    in_flight : vectors that overlap in an iteration of a small body, or, second, of one whose lanes
        lie along the band
    large_body : nodes from which on a loop's text serves its last elements, too
    masked_bytes : elements of fewer bytes, and if it is not 0 those apart, are not read or written
        under a mask: the last ones of a row run one by one
    copies : whether what lies along the band has code of its own where all lanes exist
    halves : whether f2 is computed as such; else as f4, rounded after each operation
    fetches : whether lines can be fetched ahead
    group_size : work items that share a task, see groups.py; 1: there are none
    status : whether the processor's sticky flags can be read for next to nothing
    """

    vector_bytes: int
    widest: int
    wide: bool = False
    in_flight: tuple[int, int] = (1, 1)
    large_body: int = 120
    masked_bytes: int = 0
    copies: bool = False
    halves: bool = False
    fetches: bool = True
    group_size: int = 1
    status: bool = False

    def carried_bytes(self, dtype: str) -> int:
        """Bytes of an element of `dtype` (neither complex nor b1) in a variable."""
        return 4 if dtype == "f2" and not self.halves else int(dtype[1:])


# Note [Guards]
# Masks cost a kernel that computes much up to 2.9 times its time. A processor has flags that stay
# set once an operation has overflowed, divided by zero or made a NaN: who calls the function clears
# them before and reads them after, over a part of the range that is small enough; only where one
# is set the second function, with MASKS, says what happened, of the same inputs (which the caller
# keeps if the first one writes there). So that flags mean what NumPy's do, each operation is
# fenced: it is not left out or moved, and a select does not turn it into one of some lanes. Lanes
# that do not exist are 1. What processors compute otherwise (f2, integer division) keeps VALUES, as
# does a kernel whose later loop reads what an earlier one stored: `skeletons.may_use_status`.
