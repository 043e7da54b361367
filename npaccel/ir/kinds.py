"""What requests and the C core have in common: numbers of kinds and of warnings, and names."""

from __future__ import annotations

import enum
from typing import Any, Final

__all__ = ["OTHER_UFUNCS", "FlagKind", "Kind"]

# Ufuncs that are recorded and are not NumPy's, by name: entered by dispatch, which knows them.
OTHER_UFUNCS: Final[dict[str, Any]] = {}


class Kind(enum.IntEnum):
    """What a request does with its index space; the numbers are the C core's."""

    MAP = 0  # every output element from the input elements at the same index
    REDUCE = 1  # folds over `axes`; the output's strides are 0 along them
    SCAN = 2  # accumulate along the single axis in `axes`
    ARG = 3  # argmin / argmax over `axes`; output i8
    IOTA = 4  # out[i] = start + i * step, 1-d; inputs are the scalars start, step
    GATHER = 5  # out[i] = source[i + index[i] * step], see Request


class FlagKind(enum.IntEnum):
    """Bits of a floating-point warning, as NumPy numbers them."""

    DIVIDE = 1
    OVER = 2
    UNDER = 4
    INVALID = 8
