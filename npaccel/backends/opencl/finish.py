"""The finish function of a split kernel: combine the parts' results, then run the row leaves.

for each band point:
    for each Reduce r:  for (part = 0; part < parts; part++)  row[r] = row[r] o partial;
    row leaves;
"""

from __future__ import annotations

from npaccel.backends.layout import is_ordered, reductions_of
from npaccel.backends.opencl.code import Code
from npaccel.backends.opencl.combine import Combiner
from npaccel.backends.opencl.frame import Frame
from npaccel.backends.opencl.leaves import LeafWriter, Scope
from npaccel.backends.opencl.reduce import ROW_LEVELS, Counter, load_partial
from npaccel.backends.opencl.scalar import Value
from npaccel.ir.nodes import Kernel, Reduce

__all__ = ["write_finish"]


def write_finish(kernel: Kernel, code: Code) -> None:
    """The function's body; one band point at a time, whatever main's lanes are."""
    frame = Frame(code, kernel)
    writer = LeafWriter(code, frame, 1)
    band = range(kernel.band_rank)
    with frame.tasks(), frame.points(band, frame.range[0], frame.range[1]) as (flat, at):
        for ordinal, effect in enumerate(reductions_of(kernel)):
            writer.set_row(effect.index, _combine_parts(code, frame, effect, flat, ordinal))
        scope = Scope(flat, at, frame.move(frame.bases, band, at), None, None)
        for leaf in kernel.leaves:
            if leaf.row:
                writer.row(leaf, scope)


def _combine_parts(code: Code, frame: Frame, effect: Reduce, flat: str, ordinal: int) -> Value:
    combiner = Combiner(code, effect)
    if is_ordered(effect):
        counter = Counter(code, combiner, 1, ROW_LEVELS)
        counter.reset()
        with code.count("0", frame.parts) as part:
            counter.push_one(load_partial(code, combiner, frame.partial(flat, part, ordinal)))
        return combiner.result(counter.finish_one(), 1)
    variables = [code.variable(kind) for kind in combiner.kinds(1)]
    for variable, text in zip(variables, combiner.identity(1), strict=True):
        code.set(variable, text)
    with code.count("0", frame.parts) as part:
        right = load_partial(code, combiner, frame.partial(flat, part, ordinal))
        new = combiner.combine(combiner.read(variables, 1), right, 1)
        for variable, name in zip(variables, combiner.write(new, 1), strict=True):
            code.set(variable, name)
    return combiner.result(combiner.read(variables, 1), 1)
