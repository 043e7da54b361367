"""Object code into memory, and nothing else: all that a stored program needs of a backend."""

from __future__ import annotations

from npaccel import _native
from npaccel.backends.base import Loaded
from npaccel.errors import CompileError

__all__ = ["load_image"]


def load_image(
    image: bytes, symbols: tuple[str, ...], vector_bytes: int, backend: str = "llvm"
) -> Loaded:
    """Load object code that `backend` made for vectors of `vector_bytes` on this processor.

    Raises
    ------
    CompileError : the core's loader does not take it.
    """
    try:
        code = _native.Code(image, symbols)
    except ValueError as error:
        raise CompileError(f"{backend}: {error}") from error
    main, finish = (*code.addresses, 0)[:2]
    return Loaded(main, finish, vector_bytes, code.size, code)
