"""Work groups: how the items of one share a task, on devices that are no processors.

`lane` is the item's number in its group, of `size` items, a power of two and at least LANES. What
holds a barrier is reached by all items or by none: they run the loops over tasks, points, rows and
chunks together, each with its own copy of what those keep, and take elements next to each other.
"""

from __future__ import annotations

from collections.abc import Sequence

from npaccel.backends.layout import BLOCK, LANES
from npaccel.backends.opencl.code import Code
from npaccel.backends.opencl.combine import Combiner

__all__ = ["DECLARATIONS", "Group"]

# What groups need of what PREAMBLE leaves out; see Note [Builds] of code.py.
DECLARATIONS = """\
#ifdef BARE
size_t DECLARED get_group_id(uint);
size_t DECLARED get_num_groups(uint);
size_t DECLARED get_local_id(uint);
void DECLARED __attribute__((convergent)) barrier(uint);
#ifndef CLK_LOCAL_MEM_FENCE
#define CLK_LOCAL_MEM_FENCE 1
#define CLK_GLOBAL_MEM_FENCE 2
#endif
#endif
"""
# A combiner has two components at most, of 8 bytes at most.
COMPONENTS = 2


class Group:
    """The items of a work group that compute one point together."""

    def __init__(self, code: Code, size: int) -> None:
        self._code, self.size = code, size
        self._memory = ""

    def barrier(self) -> None:
        """What any item stored before, all see after it."""
        self._code.do("barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);")

    def fold(self, combiner: Combiner, names: Sequence[str]) -> list[str]:
        """All items' values in one, for folds that have no order."""
        return self._combine(combiner, names, [_halves(self.size)])

    def fold_chunk(self, combiner: Combiner, names: Sequence[str], teams: str) -> list[str]:
        """A chunk from `cut_chunk`, in its order: the teams' blocks, then the lanes."""
        trees = [_neighbours(LANES, teams), _halves(LANES)]
        return self._combine(combiner, names, trees)

    def fold_runs(self, combiner: Combiner, names: Sequence[str], used: str) -> list[str]:
        """What `cut` gave to the items, in order; `used` of them have any."""
        return self._combine(combiner, names, [_neighbours(1, used)])

    def cut(self, count: str, takers: int) -> tuple[str, str]:
        """How many of `count` each taker gets, a power of two, and how many get any.

        Then each one's part is a subtree of what a binary counter makes of all of them, and the
        parts' results combine as a counter's do: neighbours first, a last one without a
        neighbour waits.
        """
        code = self._code
        run = code.variable("long")
        code.do(f"for ({run} = 1; {run} * {takers} < {count}; {run} *= 2) {{}}")
        each = code.long(run)
        return each, code.long(f"({count} + {each} - 1) / {each}")

    def cut_chunk(self, chunk: str, end: str) -> tuple[str, str, str]:
        """This item's bounds, whole blocks, and how many teams of LANES items have blocks."""
        code = self._code
        blocks = code.long(f"({end} - {chunk} + {BLOCK - 1}) / {BLOCK}")
        each, teams = self.cut(blocks, self.size // LANES)
        first = code.long(f"{chunk} + lane / {LANES} * {each} * {BLOCK}")
        return first, code.minimum(code.long(f"{first} + {each} * {BLOCK}"), end), teams

    def _combine(
        self, combiner: Combiner, names: Sequence[str], trees: Sequence[tuple[str, str, str]]
    ) -> list[str]:
        code, kinds = self._code, combiner.kinds(1)
        self._memory = self._memory or code.variable("local ulong", COMPONENTS * self.size)
        places = []
        for k, (kind, name) in enumerate(zip(kinds, combiner.write(names, 1), strict=True)):
            place = code.fresh("shared")
            code.do(f"local {kind} *{place} = (local {kind} *)({self._memory} + {k * self.size});")
            code.do(f"{place}[lane] = {name};")
            places.append(place)

        def read(at: str) -> list[str]:
            pairs = zip(kinds, places, strict=True)
            return combiner.read([code.let(kind, f"{p}[{at}]") for kind, p in pairs], 1)

        self.barrier()
        for loop, condition, distance in trees:
            with code.block(loop):
                with code.when(condition):
                    both = combiner.combine(read("lane"), read(f"lane + {distance}"), 1)
                    for place, name in zip(places, combiner.write(both, 1), strict=True):
                        code.do(f"{place}[lane] = {name};")
                self.barrier()
        result = read("0")
        self.barrier()  # before the next one writes
        return result


def _halves(size: int) -> tuple[str, str, str]:
    """Item l with l + size/2, then + size/4, ... 1: a loop, who takes part, and the distance."""
    return f"for (long h = {size // 2}; h > 0; h /= 2)", "lane < h", "h"


def _neighbours(unit: int, used: str) -> tuple[str, str, str]:
    """Runs of `unit` items, `used` of them: each even one with the next, and so on."""
    place = f"lane / {unit}"
    condition = f"{place} % (2 * h) == 0 && {place} + h < {used}"
    return f"for (long h = 1; h < {used}; h *= 2)", condition, f"h * {unit}"
