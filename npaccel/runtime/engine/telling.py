"""What the user is told once in a process, of kernels that a compiler rejects above all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from npaccel.errors import BackendUnavailable, CompileError, Failure
from npaccel.later import later
from npaccel.runtime.process import failures
from npaccel.runtime.process.warn import tell, warn_user
from npaccel.runtime.programs.program import Built
from npaccel.runtime.programs.smaller import CUT, LOOPS, Made, cut_until, first_rejected

if TYPE_CHECKING:
    from npaccel.ir import nodes, text
else:
    text = later("npaccel.ir.text")

__all__ = ["Telling"]


class Telling:
    """Tells it, or has the user's own function deal with it.

    Attributes
    ----------
    told : what was told.
    """

    def __init__(self) -> None:
        self.told: set[str] = set()

    def tell(self, words: str, error: Exception | None = None, kernel: str = "") -> None:
        """error : what a device failed at, whose text begins with its name."""
        if words not in self.told:
            self.told.add(words)
            backend = str(error).partition(": ")[0]
            if error is None or not failures.dealt_with(
                Failure(error, kernel=kernel, backend=backend, goes_on=True)
            ):
                tell(words)

    def warn(
        self,
        error: Exception,
        dumped: str,
        instead: str = LOOPS,
        about: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """Of kernels that were rejected. dumped : their IR. about : what a Failure has of the
        operation."""
        if str(error) in self.told:
            return
        self.told.add(str(error))
        import tempfile  # with what it imports in turn, a tenth of the time of our whole import

        with tempfile.NamedTemporaryFile(
            "w", -1, "utf-8", None, ".ir", "npaccel-", delete=False, errors="backslashreplace"
        ) as dump:
            dump.write(dumped)
        backend = str(error).partition(": ")[0]
        failure = Failure(error, **about, backend=backend, goes_on=True, files=(dump.name,))
        if not failures.dealt_with(failure):
            warn_user(f"{error}; {instead}; their IR is in {dump.name}")

    def made(
        self,
        trace: nodes.Trace,
        planned: nodes.Plan,
        make: Callable[[nodes.Plan], Built],
        instead: str = LOOPS,
        sites: failures.Sites = (),
    ) -> Made[Built]:
        """What `make` makes of the plan, or of one with smaller kernels; the user is told then, and
        where it raises. sites: of the operations; empty: unknown."""

        def warn(error: CompileError | BackendUnavailable, instead: str) -> None:
            dump = text.trace_text(trace) + "\n" + text.plan_text(planned)
            number, kernel = first_rejected(error, planned)
            about = failures.of_kernel(trace, number, sites, kernel)
            self.warn(error, dump, instead, about)

        try:
            found = cut_until(trace, planned, make)
        except (CompileError, BackendUnavailable) as error:
            warn(error, instead)
            raise
        if found.rejected is not None:
            warn(found.rejected, CUT)
        return found
