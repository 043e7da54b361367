"""Functions of the user's that run on nodes: as bytes there, and what goes wrong in them as it was.

The only file that names cloudpickle, which dask.distributed brings along. What is unpacked on a
node came from the program, over a connection that showed the token.
"""

from __future__ import annotations

import functools
import io
import pickle
import types
from collections import ChainMap
from collections.abc import Callable
from typing import Any

from npaccel.errors import BackendUnavailable

__all__ = ["carried_over", "packed", "portable", "unpacked"]


def packed(function: Callable[..., Any]) -> bytes:
    """The function as bytes: what a module has by its name, others by what they consist of."""
    try:
        import cloudpickle
    except ImportError as error:
        raise BackendUnavailable(
            f"npaccel: cloudpickle can't be imported ({error}); install it with "
            "`pip install npaccel[cluster]`"
        ) from None
    table = getattr(cloudpickle.Pickler, "dispatch_table", {})
    reduced = table.get(types.CodeType)
    own = {} if reduced is None else {types.CodeType: functools.partial(_reduced, reduced)}
    kind = type("Pickler", (cloudpickle.Pickler,), {"dispatch_table": ChainMap(own, table)})
    with io.BytesIO() as file:
        kind(file).dump(function)
        return file.getvalue()


def _reduced(reduced: Callable[[Any], Any], code: types.CodeType) -> Any:
    """As cloudpickle has it, and with its file, which tracebacks and warnings name."""
    make, args, *rest = reduced(code)
    return (_named, (code.co_filename, make, args), *rest)


def _named(file: str, make: Callable[..., types.CodeType], args: Any) -> types.CodeType:
    return make(*args).replace(co_filename=file)


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


def carried_over(error: Any, cause: BaseException | None) -> bytes:
    """An error or a warning, for the program that sent the function: classes that it sent are its
    own there. cause : of an error, in the place of another, which can't be sent."""
    import cloudpickle

    for one in (error, RuntimeError(f"{type(error).__name__}: {error}")):
        try:
            found: bytes = cloudpickle.dumps((one, cause))
            back, _ = pickle.loads(found)
            if type(back) is type(one):
                return found
        except Exception:
            continue
    return pickle.dumps((RuntimeError(type(error).__name__), cause))
