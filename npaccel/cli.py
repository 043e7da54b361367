"""The command `npaccel`: run here, so that a program starts soon; all others in commands.py."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from npaccel.errors import ConfigError
from npaccel.later import later
from npaccel.launch import HELP, PROFILE_HELP, launch, parse

if TYPE_CHECKING:
    from npaccel import bisecting, commands
else:
    bisecting = later("npaccel.bisecting")
    commands = later("npaccel.commands")

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line `arguments` (default: the process's own); return the exit status."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    profile = words[:1] == ["profile"] and words[1:2] not in (["show"], ["compare"])
    if words[:1] == ["run"] or profile:
        return run_program(words[1:], profile=profile)
    if words[:1] == ["bisect"]:
        return bisect_program(words[1:])
    return commands.main(words)


def bisect_program(words: Sequence[str]) -> int:
    """`npaccel bisect`."""
    try:
        return bisecting.bisect(words)
    except ConfigError as error:
        print(f"npaccel: {error}", file=sys.stderr)
        return 2


def run_program(words: Sequence[str], *, profile: bool) -> int:
    """`npaccel run` and `profile`: all that follows the program's name is the program's, so no
    parser sees it."""
    try:
        options = parse(words, command="npaccel profile" if profile else "npaccel run")
    except ConfigError as error:
        print(f"npaccel: {error}", file=sys.stderr)
        return 2
    if options is None:
        print(PROFILE_HELP if profile else HELP, end="")
    else:
        launch(options)
    return 0
