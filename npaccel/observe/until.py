"""`npaccel run --until N`: the first N operations are npaccel's, all others NumPy's; which is the
last of the first."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from npaccel import _native
from npaccel.errors import ConfigError
from npaccel.runtime.process import failures

__all__ = ["Until", "parse_until"]


class Until(NamedTuple):
    """limit : how many; path : of the file that is written at the end; "": a line on stderr."""

    limit: int
    path: str

    def begin(self) -> Callable[[], None]:
        """From now on; returns what has to be called when all is computed, at the end."""
        found: list[dict[str, Any]] = []
        _native.until(self.limit, lambda: found.append(_last()))

        def end() -> None:
            recorded = _native.until_counted()
            about = found[0] if found else _last()
            self._tell({"recorded": recorded, "over": bool(found)} | about)

        return end

    def _tell(self, about: dict[str, Any]) -> None:
        if self.path:
            with open(self.path, "w", encoding="utf-8") as file:
                json.dump(about, file)
            return
        with suppress(OSError, ValueError):  # stderr is closed
            place = f" at {about['file']}:{about['line']}" if "file" in about else ""
            what = about.get("operation", "none")
            last = (
                f"the last of npaccel's is {what}{place}" if about["over"] else "all are npaccel's"
            )
            print(f"npaccel: {about['recorded']} operations; {last}", file=sys.stderr)


def parse_until(text: str) -> Until:
    """ "N" or "N:FILE"; raises ConfigError."""
    number, _, path = text.partition(":")
    if not number.isdigit():
        raise ConfigError(
            f"--until={text} is not allowed; it must be how many operations: --until=9"
        )
    return Until(int(number), path)


def _last() -> dict[str, Any]:
    """The operation that was recorded last, which has run; as far as that is known."""
    following = _native.serial(None) or 0
    run = _native.history(following - 1) if following else None
    if run is None:
        return {}
    _, program, sites, *_ = run
    rule, code, lasti = sites[-1]
    name = _native.rules()[rule].name
    about: dict[str, Any] = {"operation": name, "backend": "numpy", "kernel": ""}
    if code:
        about |= failures.place(code, lasti)
    if program is None or isinstance(program.info, str):
        return about
    info, number = program.info.plan_info(), len(sites) - 1
    about |= failures.about(info.trace.requests[number], (None, 0))
    for step in info.steps:
        if number in step.requests and step.kernel is not None and not program.single:
            about |= {"kernel": step.kernel.name, "backend": step.backend}
            about["operations"] = len(step.requests)
    return about
