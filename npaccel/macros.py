"""`npaccel.macro`: code that is recorded once and replayed, as a function or as a block."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from npaccel import _native
from npaccel.config import Config, current_name
from npaccel.errors import ConfigError
from npaccel.later import Once, later

inspect = later("inspect")
if TYPE_CHECKING:
    from npaccel.runtime.macros import macro, section_code, sections
else:
    macro = later("npaccel.runtime.macros.macro")
    sections = later("npaccel.runtime.macros.sections")

__all__ = ["MacroFactory", "scalar"]


class MacroFactory:
    """What `npaccel.macro` is. See its `__call__`.

    Parameters
    ----------
    code : gives what plans and builds sections; not asked before there is one.
    prepare : called before NumPy's functions are redirected in a block for the first time.
    """

    def __init__(
        self,
        config: Config,
        code: Callable[[], section_code.SectionCode],
        prepare: Callable[[], None],
    ) -> None:
        self._config = config
        self._sections = Once(lambda: macro.Sections(config, code()))
        self._blocks = Once(lambda: sections.Blocks(lambda: int(config.macro_cache), prepare))
        self._block: type[sections.Block] | None = None  # once one was made

    def __call__(
        self,
        what: Any = None,
        *arrays: Any,
        control: Any = (),
        on_illegal: str = "raise",
        boundscheck: str | None = None,
        **unknown: Any,
    ) -> Any:
        """A section that is recorded once and then replayed.

        ``@npaccel.macro`` or ``@npaccel.macro(on_illegal="warn")`` decorates a function: its body
        runs once per signature. ``with npaccel.macro("name", *arrays, control=...) as m:`` is a
        block: its body runs each time, operations on npaccel arrays of any size are recorded, and
        what was recorded is run when the block is left; `m.arrays` has the arrays, plain ones
        wrapped.

        Parameters
        ----------
        what : the function, or the block's name.
        control : of a block: hashable values on which the path through it depends.
        on_illegal : "raise": SectionError where a section reads a value or evaluates; "warn": a
            warning, once, and the function runs without recording, the block in parts.
        boundscheck : "on" or "off", inside in place of the setting of that name: whether indices
            out of bounds, and integers divided by 0, are told; None: as outside.

        Raises
        ------
        ConfigError : an option has a value that it can't have, or is for the other kind of section;
            a block was given something else than arrays.
        """
        usual = on_illegal == "raise" and boundscheck is None and not unknown
        if usual and type(what) is str and self._block is not None and _native.guarded():
            try:
                hash(control)
                return self._block(self._blocks.made, what, arrays, control, -1)
            except TypeError:
                pass  # what is wrong is told below
        if "checks" in unknown:  # its old name
            current_name("checks", 3)
            boundscheck = unknown.pop("checks")
        self._check_options(on_illegal, boundscheck, unknown)
        if isinstance(what, str):
            return self._block_of(what, arrays, control, on_illegal, boundscheck)
        if control != ():
            raise ConfigError(
                "macro(control=...) is for blocks; what a function does depends on its arguments"
            )
        if what is None:
            return lambda function: self(function, on_illegal=on_illegal, boundscheck=boundscheck)
        if not callable(what) or arrays:
            raise ConfigError(
                f"npaccel.macro() takes a function to decorate, or a block's name and its arrays, "
                f"not {type(what).__name__}"
            )
        if inspect.iscoroutinefunction(what) or inspect.isgeneratorfunction(what):
            raise ConfigError("npaccel.macro() decorates a function that returns, not a generator")
        return self._sections().section(what, on_illegal, boundscheck)

    def _block_of(
        self,
        name: str,
        arrays: tuple[Any, ...],
        control: Any,
        on_illegal: str,
        boundscheck: str | None,
    ) -> sections.Block:
        _check_block(name, arrays, control)
        if not _native.guarded():
            self._sections().code.tell_unguarded()
        self._block = sections.Block
        looked_at = -1 if boundscheck is None else int(boundscheck == "on")
        block = self._block(self._blocks(), name, arrays, control, looked_at)
        block.on_illegal = on_illegal
        return block

    def _check_options(
        self, on_illegal: str, boundscheck: str | None, unknown: dict[str, Any]
    ) -> None:
        if unknown:
            raise TypeError(
                f"npaccel.macro() has no option {', '.join(map(repr, unknown))}; it has control, "
                "on_illegal and boundscheck"
            )
        if on_illegal not in ("raise", "warn"):
            raise ConfigError(
                f"macro(on_illegal={on_illegal!r}) is not allowed; it must be 'raise' or 'warn'"
            )
        if boundscheck is not None:
            self._config.setting("boundscheck").check(boundscheck, "macro(boundscheck=...)")

    def stats(self) -> dict[str, dict[str, Any]]:
        """Per section: variants, replays, recordings, bodies run, and reasons for those."""
        return {
            where: counts
            for kept in (self._sections.made, self._blocks.made)
            if kept is not None
            for where, counts in kept.stats().items()
        }

    def clear(self) -> None:
        """Forget all recordings; the next calls record anew."""
        for kept in (self._sections.made, self._blocks.made):
            if kept is not None:
                kept.clear()


def _check_block(name: str, arrays: tuple[Any, ...], control: Any) -> None:
    for position, array in enumerate(arrays, 1):
        if not isinstance(array, np.ndarray):
            raise ConfigError(
                f"npaccel.macro({name!r}, ...): argument {position} is of type "
                f"{type(array).__name__}, not an array; the block's body can use it without being "
                "given it"
            )
    try:
        hash(control)
    except TypeError as error:
        raise ConfigError(
            f"npaccel.macro({name!r}, control={control!r}): {error}; a block is found by its "
            "name and by this, so it must be hashable, as numbers, strings and tuples of them are"
        ) from None


def scalar(value: Any) -> Any:
    """Mark an int as a number that a macro section takes anew at each call.

    Without it an int is a control value: each of its values is recorded by itself. Floats and
    NumPy's inexact scalars are taken anew in any case and come back as they are.
    """
    return _native.Runtime(value, -1) if type(value) is int else value
