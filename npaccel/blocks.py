"""`accelerate`: a block of code, or a function, in which plain ndarrays are recorded too.

Knows when a block begins and ends; what is redirected meanwhile is dispatch's table.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from npaccel import _native
from npaccel.config import Config
from npaccel.dispatch.redirect import TABLE
from npaccel.errors import ConfigError
from npaccel.later import later

if TYPE_CHECKING:
    from npaccel import engines
else:
    engines = later("npaccel.engines")

__all__ = ["Accelerate", "Function", "make"]

inspect = later("inspect")
Function = TypeVar("Function", bound=Callable[..., Any])


class Accelerate(_native.Opener):
    """A context manager and decorator. Entered again, or by several threads, it opens a block
    each time; see `npaccel.accelerate` for what it does.

    The core opens and leaves blocks. It calls these methods where something else is to be done,
    too: a backend is named, nothing can be recorded, or names of NumPy's stand in for objects.
    """

    __slots__ = ()

    tell_unguarded: ClassVar[Callable[[], None]]

    @property
    def __pandas_udf__(self) -> type[engines.PandasEngine]:
        """What pandas looks for in an ``engine=``."""
        return engines.PandasEngine

    def _opening(self) -> None:
        TABLE.prepare()
        self._is_vain()
        self._leaving()  # what is pending was asked of another backend

    def _opened(self) -> None:
        TABLE.enter()

    def _leaving(self) -> None:
        if self.backend is not None:
            _native.evaluate()

    def _left(self) -> None:
        TABLE.leave()

    def _is_vain(self) -> bool:
        """Whether nothing is recorded here; who did not ask for that is told."""
        if _native.guarded():
            return False
        type(self).tell_unguarded()
        return True

    def __call__(self, function: Function) -> Function:
        if not callable(function):
            raise ConfigError(
                f"npaccel.accelerate() decorates a function, not {type(function).__name__}; "
                "its options are min_size and backend"
            )
        return cast(Function, _decorated(self, function))


def make(
    config: Config,
    min_size: int | None,
    backend: str | None,
    everywhere: bool = False,
    place: _native.DeviceMemory | None = None,
) -> Accelerate:
    """An `Accelerate` with these settings, once they are checked."""
    options: dict[str, Any] = {}
    if min_size is not None:
        options["min_size"] = config.setting("threshold").check(
            min_size, "accelerate(min_size=...)"
        )
    if backend is not None:
        options["backend"] = config.setting("backend").check(backend, "accelerate(backend=...)")
    return Accelerate(everywhere=everywhere, place=place, **options)


def _decorated(block: Accelerate, function: Callable[..., Any]) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def coroutine(*args: Any, **kwargs: Any) -> Any:
            with block:
                return await function(*args, **kwargs)

        return coroutine
    if inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            return (yield from _driven(block, function(*args, **kwargs)))

        return generator

    @functools.wraps(function)
    def plain(*args: Any, **kwargs: Any) -> Any:
        if block._is_vain():
            return function(*args, **kwargs)
        with block:
            return function(*args, **kwargs)

    return plain


def _driven(block: Accelerate, steps: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Run a generator so that the block is open while it runs, not while it waits."""
    advance: Callable[[], Any] = functools.partial(next, steps)
    while True:
        try:
            with block:
                value = advance()
        except StopIteration as end:
            return end.value
        try:
            sent = yield value
        except GeneratorExit:
            with block:
                steps.close()
            raise
        except BaseException as error:
            advance = functools.partial(steps.throw, error)
        else:
            advance = functools.partial(steps.send, sent)
