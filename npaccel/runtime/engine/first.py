"""What runs before there is an engine: a short program is over before loading one has paid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npaccel import _native
from npaccel.config import Config
from npaccel.later import Once, later
from npaccel.own import time

if TYPE_CHECKING:
    from npaccel.runtime.checking import watching
    from npaccel.runtime.engine.engine import Engine
    from npaccel.runtime.engine.tiers import Ran
    from npaccel.runtime.helper.helper import Helper
    from npaccel.runtime.process import failures
else:
    failures = later("npaccel.runtime.process.failures")
    watching = later("npaccel.runtime.checking.watching")

__all__ = ["FirstRuns"]

# What loading the engine takes (bench/first_script.py, part start): so long is run without it.
LOADING_S = 0.05
# Code for what ran could save a good part of the time, if it took so much of it since it began.
PART = 0.25
REASON = "running block by block until it has run long enough for planning to pay"
UNLOADED = "running block by block: what plans it could not be loaded ({})"
HOSTS = ("auto", "llvm")


class FirstRuns:
    """The plan hook: the engine's, and until there is one the core's own ways.

    Whoever asks for something else of the engine makes it, and from then on it is asked.

    Where what ran is a good part of the program's time, the helper starts while the engine is
    loaded, if there is a second processor for it: a quarter of a second passes until it can be
    asked. Else it would only take a processor away; so it would from BLAS.
    """

    __slots__ = ("_begun", "_config", "_engine", "_helper", "_programs")

    def __init__(self, engine: Once[Engine], helper: Once[Helper], config: Config) -> None:
        self._engine, self._helper, self._config = engine, helper, config
        self._programs: list[Ran] = []
        self._begun = 0.0  # when the first of them ran

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine(), name)

    def __call__(self, pending: _native.Pending) -> _native.Program:
        return self._asked(pending, touched=False)

    def failed(
        self,
        error: Exception,
        rule: Any,
        site: failures.Site,
        shape: tuple[int, ...],
        result: tuple[int, ...],
    ) -> None:
        """What the C core calls where it raises an error; as `failures.told`."""
        failures.told(error, rule, site, shape, result, str(self._config.backend))

    def watched(self, name: str | None) -> None:
        """What the C core calls once watched memory may have been written, by that operation."""
        watching.look(name)

    def touched(self, pending: _native.Pending) -> _native.Program:
        """What a touch ran: so does the next one."""
        return self._asked(pending, touched=True)

    def _asked(self, pending: _native.Pending, *, touched: bool) -> _native.Program:
        try:
            early = self._early(pending)
            if early is not None:
                return early
            engine = self._engine()
            return engine.touched(pending) if touched else engine(pending)
        except (ImportError, OSError) as error:
            # A module can't be loaded now, as where no descriptors are left: NumPy needs none.
            return self._at_once(pending, UNLOADED.format(error))

    @staticmethod
    def _at_once(pending: _native.Pending, reason: str) -> _native.Program:
        """A program that runs block by block until it has taken as long as loading the engine."""
        program = _native.Program(None, 0, None, "")
        program.info = reason
        program.review(1, LOADING_S)
        _native.plans()[pending.key] = program
        return program

    def _early(self, pending: _native.Pending) -> _native.Program | None:
        if self._engine.made is None and self._waits():
            self._begun = self._begun or time.monotonic()
            program = self._at_once(pending, REASON)
            self._programs.append((pending, program))
            return program
        if self._programs:
            self._forget()  # the engine is asked about them
            if self._spent() > PART * (time.monotonic() - self._begun):
                if _native.threads() > 1 and self._spent() > _native.held_up(0.0, True):
                    self._helper().start()
                self._engine().tiers.take_over(self._programs)
            self._programs.clear()
        return None

    def _forget(self) -> None:
        known = _native.plans()
        for pending, program in self._programs:
            if known.get(pending.key) is program:
                del known[pending.key]

    def end(self) -> None:
        """At the process's end: what ran for long enough is the engine's affair after all."""
        if self._programs and self._spent() >= LOADING_S:
            self._engine().tiers.take_over(self._programs)
        self._programs.clear()

    def _waits(self) -> bool:
        config = self._config
        adaptive = config.tiering == "adaptive" and config.check != "compute"
        return adaptive and config.backend in HOSTS and self._spent() < LOADING_S

    def _spent(self) -> float:
        return sum(program.timing[2] for _, program in self._programs)
