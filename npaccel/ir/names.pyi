"""What is asked of operations before any is planned: names, and nothing that takes long to load.

The build makes the module (tools/operation_names.py) of what the tables say (ops.py,
passes/rewrite.py).
"""

from typing import Final

__all__ = [
    "FOLDING",
    "RAISES",
    "SAME_BITS",
    "SAME_BITS_IF_REAL",
    "SCIPYS",
    "VALUED",
    "WARNING",
]

# Whose reductions may be regrouped. The others (subtract, power ...) run in NumPy.
FOLDING: Final[frozenset[str]]
# Per operation with a scalar form, and kind of its first operand (of a copy: of source and
# target), the bits of FlagKind that an element may raise.
RAISES: Final[dict[str, dict[str, int]]]
# Whose results are NumPy's to the last bit (of NaNs: but for the payload), whatever the types
# (but see exact.py on complex products where the processor has no fused multiply-add).
SAME_BITS: Final[frozenset[str]]
# Of complex numbers they are mathematics.
SAME_BITS_IF_REAL: Final[frozenset[str]]
# Functions of scipy.special that have a row, for singles and doubles.
SCIPYS: Final[frozenset[str]]
# For which a scalar's value may make another plan: those that rewrites of requests are for.
VALUED: Final[frozenset[str]]
# Per operation the kinds, among `biufc`, for which NumPy's loop may warn.
WARNING: Final[dict[str, str]]
