"""The command `npaccel`: run here, so that a program starts soon; all others in commands.py."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from npaccel.errors import ConfigError
from npaccel.later import later
from npaccel.launch import HELP, PROFILE_HELP, launch, parse

if TYPE_CHECKING:
    from npaccel import commands
else:
    commands = later("npaccel.commands")

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line `arguments` (default: the process's own); return the exit status."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    profile = words[:1] == ["profile"] and words[1:2] not in (["show"], ["compare"])
    if words[:1] == ["run"] or profile:
        return run_program(words[1:], profile=profile)
    return commands.main(words)


def run_program(words: Sequence[str], *, profile: bool) -> int:
    """`npaccel run` and `profile`: all that follows the program's name is the program's, so no
    parser sees it."""
    try:
        options = parse(words, profile=profile)
    except ConfigError as error:
        print(f"npaccel: {error}", file=sys.stderr)
        return 2
    if options is None:
        print(PROFILE_HELP if profile else HELP, end="")
    else:
        launch(options)
    return 0
