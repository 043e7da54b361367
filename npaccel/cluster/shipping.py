"""Functions of the user's that run on nodes: as bytes there, and what goes wrong in them as it was.

The only file that names cloudpickle, which dask.distributed brings along. What is unpacked on a
node came from the program, over a connection that showed the token.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

from npaccel.errors import BackendUnavailable

__all__ = ["packed", "portable", "unpacked"]


def packed(function: Callable[..., Any]) -> bytes:
    """The function as bytes: what a module has by its name, others by what they consist of."""
    try:
        import cloudpickle
    except ImportError as error:
        raise BackendUnavailable(
            f"npaccel.from_blocks: cloudpickle can't be imported ({error}); install it with "
            "`pip install npaccel[cluster]`"
        ) from None
    found: bytes = cloudpickle.dumps(function)
    return found


def unpacked(code: bytes) -> Callable[..., Any]:
    """The function of these bytes."""
    found: Callable[..., Any] = pickle.loads(code)
    return found


def portable(error: Exception) -> Exception:
    """As it is, where it can be sent."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
