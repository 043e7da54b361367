"""What a target has, as far as the emitter asks: the capabilities that a printer declares."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Machine"]


@dataclass(frozen=True, slots=True)
class Machine:
    """A target.

    vector_bytes : of a vector register; 0: code has one element at a time
    widest : lanes that a vector may have
    wide : whether vectors may be wider than registers, so that one holds all that is in flight;
        else an iteration has several vectors
    in_flight : vectors that overlap in an iteration of a small body: of rows, of a whole array, and
        of one whose lanes lie along the band
    held : values that vectors of a larger body may hold at once; 0: such vectors do not overlap
    few : a body whose vectors hold fewer values at once has twice as many of them in flight
    large_body : nodes from which on a loop's text serves its last elements, too, and has one vector
    masked_bytes : elements of fewer bytes, and if it is not 0 those apart, are not read or written
        under a mask: the last ones of a row run one by one
    copies : whether what lies along the band has code of its own where all lanes exist
    halves : whether f2 is computed as such; else as f4, rounded after each operation
    fetches : whether lines can be fetched ahead
    streams : whether whole lines can be stored past the caches
    group_size : work items that share a task, see groups.py; 1: there are none
    calls : whether what is rarely run may be a function of its own, see Note [Masks apart]
    fuses : whether an fma is one instruction
    converts : whether vectors of 8-byte integers are converted from and to floats
    masks : whether what is true of lanes has registers of its own
    """

    vector_bytes: int
    widest: int
    wide: bool = False
    in_flight: tuple[int, int, int] = (1, 1, 1)
    held: int = 0
    few: int = 0
    large_body: int = 120
    masked_bytes: int = 0
    copies: bool = False
    halves: bool = False
    fetches: bool = True
    streams: bool = False
    group_size: int = 1
    calls: bool = False
    fuses: bool = True
    converts: bool = True
    masks: bool = True

    def carried_bytes(self, dtype: str) -> int:
        """Bytes of an element of `dtype` (neither complex nor b1) in a variable."""
        return 4 if dtype == "f2" and not self.halves else int(dtype[1:])


# Note [Masks apart]
# Which operation raised what is told by masks, of which there are many: they are seven eighths of
# an ordinary kernel's code. They are evaluated only where a guard is true, but as long as they were
# written behind it they took most of the time of compiling (ten operations: 17 ms with them, 6.6
# without; fifty: 146 and 10), once more in the code for a row's end, and kept alive what they are
# made of, which the loop paid for with registers (up to 1.7 times its time). So they are a function
# of their own, which is given where the elements lie and computes again what it needs, before the
# leaf stores anything. A large one is compiled without being optimised, since it is rarely run.
