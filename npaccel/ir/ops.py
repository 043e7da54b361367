"""The operation table: everything the other rooms know about an operation, one row each.

Bodies stand by subject: `exact` (arithmetic, comparison, bits), `pieces` (parts of floats),
`remainders` (modulo), `copying` (casts), `mathematics` (transcendental functions), `fast` (those
of the second accuracy class), `drawing` (random numbers), `special` (ufuncs of SciPy).
"""

from __future__ import annotations

from types import MappingProxyType

from npaccel.errors import InternalError
from npaccel.ir.copying import COPIES
from npaccel.ir.drawing import DRAWING
from npaccel.ir.exact import EXACT
from npaccel.ir.fast import FAST
from npaccel.ir.mathematics import MATHEMATICS
from npaccel.ir.operation import Op
from npaccel.ir.pieces import PIECES
from npaccel.ir.remainders import REMAINDERS
from npaccel.ir.special import SPECIAL

__all__ = ["OPS", "Op", "find"]

OPS: tuple[Op, ...] = (
    *EXACT,
    *PIECES,
    *REMAINDERS,
    *MATHEMATICS,
    *DRAWING,
    *SPECIAL,
    *COPIES.values(),
)


def _index() -> MappingProxyType[tuple[str, str], Op]:
    table: dict[tuple[str, str], Op] = {}
    for op in OPS:
        for kind in op.kinds if op.name != "copy" else "":
            if (op.name, kind) in table:
                raise InternalError(f"two rows for {op.name} of kind {kind}")
            table[op.name, kind] = op
    return MappingProxyType(table)


_TABLE = _index()


_FAST = MappingProxyType({op.name: op for op in FAST})


def find(name: str, loop: tuple[str, ...], *, fast: bool = False) -> Op | None:
    """Return the row for operation `name` with this inner loop, or None.

    Parameters
    ----------
    name : NumPy's name of the ufunc, or "copy", "where", "argmin", "argmax".
    loop : dtypes of the inner loop, inputs then outputs; ("f8", "i4") for a copy.
    fast : the row of the second accuracy class, if there is one.
    """
    if name == "copy":
        return COPIES.get(loop[-1])
    other = _FAST.get(name) if fast else None
    if other is not None and loop[0][0] in other.kinds and loop[0] not in other.without:
        return other
    found = _TABLE.get((name, loop[0][0]))
    return None if found is None or loop[0] in found.without else found
