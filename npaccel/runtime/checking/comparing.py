"""When a run is compared with NumPy, at once or beside the program, and what is done about a
difference."""

from __future__ import annotations

import importlib
import os
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from npaccel import _native, system
from npaccel.backends.base import Backend
from npaccel.config import Config
from npaccel.errors import BackendUnavailable, CheckError, CompileError, Failure, NpaccelWarning
from npaccel.later import Once, later, stand_in
from npaccel.runtime.process import failures
from npaccel.runtime.programs.kernels import c_text

if TYPE_CHECKING:
    from npaccel.ir import nodes, text
    from npaccel.runtime.checking import check as checks
else:
    text = later("npaccel.ir.text")
    checks = later("npaccel.runtime.checking.check")

__all__ = ["Comparing"]

SUFFIXES = {"cuda": "ll", "llvm": "ll", "opencl": "cl"}  # of what a backend's compiler gets
LOOP = "; NumPy's loop computed it"
MOST_WRITTEN = 32  # differences of which files are written, in a process
Run = Callable[[], list[Failure]]


class Comparing:
    """One per engine.

    Parameters
    ----------
    backend : opens the one of that name, and may raise BackendUnavailable.

    Attributes
    ----------
    compared : how many runs were, or are being.
    """

    def __init__(self, config: Config, backend: Callable[[str], Backend]) -> None:
        self._config, self._backend = config, backend
        limit: Callable[[], int] = lambda: int(config.memory_limit)  # noqa: E731
        self.checker = stand_in(Once(lambda: checks.Checker(limit)))
        self._begin()
        system.at_fork(after_in_child=self._begin)
        self.compared = 0
        self._written = 0

    def _begin(self) -> None:
        self._thread: threading.Thread | None = None
        self._turn = threading.Lock()  # held while a run is compared beside the program
        self._found: list[Failure] = []
        _native.check_busy(False)

    def compare(
        self,
        pending: _native.Pending,
        before: Sequence[bytes | None],
        after: Sequence[bytes | None],
        looped: Mapping[tuple[int, int], bytes | None],
        code: checks.Code | None,
        backend: str,
    ) -> None:
        """Compare a run, or begin to.

        Parameters
        ----------
        before, after, looped : as in `Checker.compare`
        code : compiled kernels of that backend; None: NumPy's loops have run it

        Raises
        ------
        CheckError : by the setting `check_action`, of this run or of one before.
        """
        run = partial(self._compare, pending, before, after, looped, code, backend)
        if self._config.check != "beside":
            self.compared += 1
            self._act(run())
            return
        if code is not None:  # what starts threads can't be imported once the program is over
            importlib.import_module("npaccel.backends.launch")
        turn = self._turn
        if not turn.acquire(blocking=False):
            return  # the runs of two threads were due before either was compared
        self.compared += 1
        _native.check_busy(True)
        thread = threading.Thread(target=self._beside, args=(run, turn), name="npaccel check")
        self._thread = thread
        try:
            thread.start()
        except RuntimeError:  # there can be no more threads
            self._thread = None
            self._beside(run, turn)

    def _beside(self, run: Run, turn: threading.Lock) -> None:
        try:
            found = _native.call_numpy(run)
            self._found.extend(found)  # who settles may have taken the list that was there before
        finally:
            _native.check_busy(False)
            turn.release()

    def settle(self) -> None:
        """Wait for what is compared beside the program, and act on what was found."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            with self._turn:  # another thread of the program may be about to start it
                pass
            thread.join()
            if self._thread is thread:
                self._thread = None
            found, self._found = self._found, []
            self._act(found)

    def _compare(
        self,
        pending: _native.Pending,
        before: Sequence[bytes | None],
        after: Sequence[bytes | None],
        looped: Mapping[tuple[int, int], bytes | None],
        code: checks.Code | None,
        backend: str,
    ) -> list[Failure]:
        state = checks.State.before(pending, before, code, float(self._config.check_scale))
        found = self.checker.compare(state, after, looped)
        return [self._failure(state, one, backend) for one in found]

    def _failure(self, state: checks.State, found: checks.Difference, backend: str) -> Failure:
        kernel = found.kernel
        name = kernel.name if kernel is not None else ""
        where = backend if kernel is not None else "numpy"
        about = failures.about(found.request, state.sites[found.request.index])
        place = f"{about['file']}:{about['line']}" if about.get("file") else "unknown line"
        files = self._write(state, found, backend)
        text = (
            f"check: {found.request.op} at {place} differs from the reference at index "
            f"{found.index}: {found.seen!r} instead of {found.expected!r} ({found.count} of "
            f"{found.size} elements); {found.why}"
        )
        unseen = "; nothing can see it, so the run left it out"
        run = unseen if found.dropped else f"; kernel {name} on {where}" if name else LOOP
        text += run
        text += f"; see {os.path.dirname(files[0])}" if files else ""
        error = CheckError(text)
        error.failure = Failure(error, **about, kernel=name, backend=where, files=files)
        return error.failure

    def _write(
        self, state: checks.State, found: checks.Difference, backend: str
    ) -> tuple[str, ...]:
        """The operations, their plan and the kernel, to be read; the paths."""
        if self._written >= MOST_WRITTEN:
            return ()
        self._written += 1
        import tempfile  # a tenth of the time of our whole import

        folder = tempfile.mkdtemp(prefix="npaccel-check-")
        kernel, files = found.kernel, dict[str, str]()
        files["program.ir"] = text.trace_text(state.trace) + "\n" + text.plan_text(found.plan)
        if kernel is not None:
            files[f"{kernel.name}.ir"] = text.kernel_text(kernel)
            files |= self._sources(kernel, backend)
        paths = {os.path.join(folder, name): content for name, content in files.items()}
        for path, content in paths.items():
            with open(path, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(content)
        return tuple(paths)

    def _sources(self, kernel: nodes.Kernel, backend: str) -> dict[str, str]:
        """As its compiler gets it, and as C."""
        found = {f"{kernel.name}.c": c_text(kernel)}
        kind = backend.partition(":")[0]
        try:
            source = getattr(self._backend(backend), "source", None)  # others' need have none
            if source is not None and kind != "c":
                found[f"{kernel.name}.{SUFFIXES.get(kind, 'txt')}"] = source(kernel)
        except (CompileError, BackendUnavailable):
            pass  # the C is there
        return found

    def _act(self, found: Sequence[Failure]) -> None:
        """Tell handlers; the first that nobody has dealt with is raised, or each is warned of."""
        for failure in found:
            if failures.dealt_with(failure):
                continue
            if self._config.check_action == "raise":
                raise failure.error
            place = failure.file or "unknown", failure.line or 1
            warnings.warn_explicit(str(failure.error), NpaccelWarning, *place)
