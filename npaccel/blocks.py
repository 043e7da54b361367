"""`accelerate`: a block of code, or a function, in which plain ndarrays are recorded too.

Knows when a block begins and ends; what is redirected meanwhile is dispatch's table.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from npaccel import _native
from npaccel.config import Config
from npaccel.dispatch.redirect import TABLE
from npaccel.errors import ConfigError
from npaccel.later import later

if TYPE_CHECKING:
    from npaccel import engines
else:
    engines = later("npaccel.engines")

__all__ = ["Accelerate", "Function"]

inspect = later("inspect")
Function = TypeVar("Function", bound=Callable[..., Any])
NO_OPTIONS: dict[str, Any] = {}


class Accelerate:
    """A context manager and decorator. Entered again, or by several threads, it opens a block
    each time; see `npaccel.accelerate` for what it does.

    Blocks are kept with the frames that opened them, as numbers: a frame that is in a `with`
    statement lives, and leaves the block that it entered.
    """

    __slots__ = ("_blocks", "_everywhere", "_options", "_tell_unguarded")

    def __init__(
        self,
        config: Config,
        tell_unguarded: Callable[[], None],
        min_size: int | None,
        backend: str | None,
        everywhere: bool = False,
    ) -> None:
        self._tell_unguarded = tell_unguarded
        self._blocks: list[tuple[_native.Block, int]] = []
        self._everywhere = everywhere
        self._options = NO_OPTIONS
        if min_size is None and backend is None:
            return
        self._options = {}
        if min_size is not None:
            checked = config.setting("threshold").check(min_size, "accelerate(min_size=...)")
            self._options["min_size"] = checked
        if backend is not None:
            self._options["backend"] = config.setting("backend").check(
                backend, "accelerate(backend=...)"
            )

    @property
    def __pandas_udf__(self) -> type[engines.PandasEngine]:
        """What pandas looks for in an ``engine=``."""
        return engines.PandasEngine

    def __enter__(self) -> Accelerate:
        TABLE.prepare()
        self._is_vain()
        if self._options or self._everywhere:
            if "backend" in self._options:  # what is pending was asked of another one
                _native.evaluate()
            block = _native.Block(**self._options, everywhere=self._everywhere)
        else:
            block = _native.Block()
        # Kept before it is open: an interrupt between the two leaves nothing open for good.
        self._blocks.append((block, id(sys._getframe(1))))
        block.enter()
        TABLE.enter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._blocks:
            self._leave(self._entered(id(sys._getframe(1))))

    def _is_vain(self) -> bool:
        """Whether nothing is recorded here; who did not ask for that is told."""
        if _native.guarded():
            return False
        self._tell_unguarded()
        return True

    def _entered(self, frame: int) -> tuple[_native.Block, int]:
        """The newest block of this context; left from another one, that of the frame; or of all."""
        if len(self._blocks) == 1:
            return self._blocks[0]
        mine = [entry for entry in self._blocks if entry[0].is_mine()]
        return (mine or [entry for entry in self._blocks if entry[1] == frame] or self._blocks)[-1]

    def _leave(self, entry: tuple[_native.Block, int]) -> None:
        try:
            if "backend" in self._options:
                _native.evaluate()
        finally:
            entry[0].leave()
            self._blocks.remove(entry)
            TABLE.leave()

    def __del__(self) -> None:
        for block, _ in self._blocks:
            block.leave()
            TABLE.leave()

    def __call__(self, function: Function) -> Function:
        if not callable(function):
            raise ConfigError(
                f"npaccel.accelerate() decorates a function, not {type(function).__name__}; "
                "its options are min_size and backend"
            )
        return cast(Function, _decorated(self, function))


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
