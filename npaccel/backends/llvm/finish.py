"""The finish function of a split kernel: combine the parts' results, then run the row leaves.

for (p = band_lo; p < band_hi; p++) {
    for each Reduce r:  for (part = 0; part < parts; part++)  row[r] = row[r] o partial;
    row leaves;
}
"""

from __future__ import annotations

from npaccel.backends.layout import is_ordered, reductions_of
from npaccel.backends.llvm.code import Code
from npaccel.backends.llvm.combine import Combiner
from npaccel.backends.llvm.frame import Frame
from npaccel.backends.llvm.leaves import LeafWriter, Scope
from npaccel.backends.llvm.reduce import ROW_LEVELS, Counter, load_partial
from npaccel.backends.llvm.scalar import Value
from npaccel.ir.nodes import Kernel, Reduce

__all__ = ["write_finish"]


def write_finish(kernel: Kernel, declarations: set[str]) -> str:
    """Text of function ``finish``; one band point at a time, whatever main's lanes are."""
    code = Code(declarations)
    frame = Frame(code, kernel)
    writer = LeafWriter(code, frame, 1, 0)
    band = range(kernel.band_rank)
    with frame.points(band, frame.range[0], frame.range[1]) as (flat, at):
        for ordinal, effect in enumerate(reductions_of(kernel)):
            writer.set_row(effect.index, _combine_parts(code, frame, effect, flat, ordinal))
        scope = Scope(flat, at, frame.move(frame.bases, band, at), None)
        for leaf in kernel.leaves:
            if leaf.row:
                writer.row(leaf, scope)
    return code.text("finish")


def _combine_parts(code: Code, frame: Frame, effect: Reduce, flat: str, ordinal: int) -> Value:
    combiner = Combiner(code, effect)
    if is_ordered(effect):
        counter = Counter(code, combiner, 1, ROW_LEVELS)
        counter.reset()
        with code.count("0", frame.parts) as part:
            counter.push(load_partial(code, combiner, frame.partial(flat, part, ordinal)))
        empty = code.emit(f"icmp eq i64 {frame.inner_total}, 0")
        return combiner.result(combiner.unless_empty(counter.finish(), empty, 1), 1)
    kinds = combiner.kinds(1)
    variables = [code.variable(kind) for kind in kinds]
    pairs = list(zip(kinds, variables, strict=True))
    for (kind, variable), name in zip(pairs, combiner.identity(1), strict=True):
        code.set(kind, variable, name)
    with code.count("0", frame.parts) as part:
        old = [code.get(kind, variable) for kind, variable in pairs]
        right = load_partial(code, combiner, frame.partial(flat, part, ordinal))
        for (kind, variable), name in zip(pairs, combiner.combine(old, right, 1), strict=True):
            code.set(kind, variable, name)
    return combiner.result([code.get(kind, variable) for kind, variable in pairs], 1)
