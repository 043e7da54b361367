"""What is asked of operations before any is planned: names, and nothing that takes long to load.

What the tables say (ops.py, passes/rewrite.py), which tests/ir/test_ops.py compares.
"""

from __future__ import annotations

from typing import Any, Final

__all__ = ["OTHER_UFUNCS", "SAME_BITS", "SAME_BITS_IF_REAL", "VALUED"]

# Whose results are NumPy's to the last bit (of NaNs: but for the payload), whatever the types
# (but see exact.py on complex products where the processor has no fused multiply-add).
_EXACT = """
    _ones_like add argmax argmin bitwise_and bitwise_count bitwise_or bitwise_xor ceil clip
    conjugate copysign divide divmod equal fabs floor floor_divide fmax fmin fmod frexp gcd greater
    greater_equal heaviside invert isfinite isinf isnan lcm ldexp left_shift less less_equal
    logical_and logical_not logical_or logical_xor maximum minimum modf multiply negative nextafter
    not_equal positive reciprocal remainder right_shift rint sign signbit spacing square subtract
    trunc where
"""
SAME_BITS = frozenset(_EXACT.split())
# Of complex numbers they are mathematics.
SAME_BITS_IF_REAL = frozenset(("absolute", "sqrt"))
# For which a scalar's value may make another plan: those that rewrites of requests are for.
VALUED = frozenset(("divide", "float_power", "power", "true_divide"))
# Ufuncs that are recorded and are not NumPy's, by name: entered by dispatch, which knows them.
OTHER_UFUNCS: Final[dict[str, Any]] = {}
