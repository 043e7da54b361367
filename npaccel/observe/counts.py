"""The counts of `npaccel.stats`, which print as what matters of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from npaccel.observe import html
from npaccel.observe.words import bytes_text, count, moved_text

__all__ = ["Counts"]

MOST_REASONS: Final = 3


class Counts(dict[str, Any]):
    """A dict of all counts. `str()` tells in a few lines what is not 0 and matters most."""

    def __str__(self) -> str:
        return "\n".join(self._lines())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """For notebooks."""
        return html.counts(str(self), self)

    def _lines(self) -> Iterator[str]:
        recorded = self["requests"]
        if recorded:
            done = {
                f"in {count(self['kernels'], 'kernel')}": self["kernel_requests"],
                "by NumPy's loops": self["native_requests"],
                "never needed": self["dead_requests"],
            }
            parts = ", ".join(f"{number} {how}" for how, number in done.items() if number)
            told = f": {parts}" if parts else ", pending"
            yield f"{count(recorded, 'operation')} recorded, {count(self['flushes'], 'run')}{told}"
        else:
            yield "nothing was recorded"
        if self["kernels"]:
            read, written = bytes_text(self["bytes_read"]), bytes_text(self["bytes_written"])
            yield f"kernels read {read} and wrote {written}"
        if self["compiles"] or self["kernels_loaded"]:
            loaded = self["kernels_loaded"]
            yield f"{count(self['compiles'], 'kernel')} compiled, {loaded} from the cache on disk"
        if self["downloads"] or self["uploads"]:
            up = moved_text(self["uploaded_bytes"], 1e-9 * self["uploading_ns"])
            down = moved_text(self["downloaded_bytes"], 1e-9 * self["downloading_ns"])
            yield f"{up} moved to devices, {down} back"
        if self["left_to_numpy"]:
            yield f"{count(self['left_to_numpy'], 'operation')} left to NumPy: new, or no gain"
        yield from self._fallen()
        yield "all counts: dict(npaccel.stats()); what they mean: help(npaccel.stats)"

    def _fallen(self) -> Iterator[str]:
        if not self["fallbacks"]:
            return
        reasons = sorted(self["reasons"].items(), key=lambda item: -item[1])
        words = ", ".join(f"{reason} ({times})" for reason, times in reasons[:MOST_REASONS])
        more = "" if len(reasons) <= MOST_REASONS else f", and {len(reasons) - MOST_REASONS} more"
        yield f"{count(self['fallbacks'], 'call')} handed to NumPy: {words}{more}"
