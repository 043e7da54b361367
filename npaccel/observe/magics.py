"""IPython's magics: a cell that is accelerated, and one whose profile is shown.

Loaded by ``%load_ext npaccel``, where there is IPython.
"""

from __future__ import annotations

import argparse
import ast
import os
import shlex
import tempfile
from collections.abc import Callable
from typing import Any, Final, NoReturn

from npaccel.errors import ConfigError

__all__ = ["load", "unload"]


class _Parser(argparse.ArgumentParser):
    """Of the words behind a magic's name. A wrong one is an error of the cell."""

    def __init__(self, name: str) -> None:
        super().__init__(prog=f"%%{name}", add_help=False, allow_abbrev=False)
        self.add_argument("--min-size", type=int)
        self.add_argument("--backend")

    def error(self, message: str) -> NoReturn:
        """Not the end of the process."""
        raise ConfigError(f"{self.prog}: {message}; {self.format_usage().strip()}")


_ACCELERATE: Final = _Parser("accelerate")
_PROFILE: Final = _Parser("profile")
_PROFILE.add_argument("--plain", action="store_true")
_PROFILE.add_argument("--out")


def load(shell: Any, block: Callable[..., Any], profiling: Callable[[str], Any]) -> None:
    """Register the magics, over `npaccel.accelerate` and `npaccel.profile`."""

    def accelerate(line: str, cell: str) -> None:
        """%%accelerate [--min-size BYTES] [--backend NAME]

        Run the cell with plain arrays recorded, as in a ``with npaccel.accelerate`` block.
        """
        given = _ACCELERATE.parse_args(shlex.split(line))
        run = _compiled(shell, cell)
        with block(min_size=given.min_size, backend=given.backend):
            run()

    def profile(line: str, cell: str) -> None:
        """%%profile [--plain] [--out FILE] [--min-size BYTES] [--backend NAME]

        Run the cell as %%accelerate does, and show where its time went. --plain: not accelerated.
        --out: keep the profile, for ``npaccel profile show`` and ``compare``.
        """
        given = _PROFILE.parse_args(shlex.split(line))
        run = _compiled(shell, cell)
        with tempfile.TemporaryDirectory(prefix="npaccel-") as folder:
            taken = profiling(given.out or os.path.join(folder, "npaccel.profile"))
            taken.of("a cell", [])
            with taken:
                if given.plain:
                    run()
                else:
                    with block(min_size=given.min_size, backend=given.backend):
                        run()
        shell.display_pub.publish({"text/plain": str(taken), "text/html": taken._repr_html_()})

    for function in (accelerate, profile):
        shell.register_magic_function(function, "cell")


def unload(shell: Any) -> None:
    """Take them back."""
    for name in ("accelerate", "profile"):
        shell.magics_manager.magics["cell"].pop(name, None)


def _compiled(shell: Any, cell: str) -> Callable[[], None]:
    """The cell's code, which shows its last expression as a cell does."""
    text = shell.transform_cell(cell)
    name = shell.compile.cache(text, shell.execution_count, raw_code=cell)
    tree = shell.transform_ast(shell.compile.ast_parse(text, name))
    shown = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    parts = [shell.compile(tree, name, "exec")]
    if shown is not None:
        parts.append(shell.compile(ast.Interactive([shown]), name, "single"))

    def run() -> None:
        for part in parts:
            exec(part, shell.user_ns)

    return run
