"""Programs on disk: what a process that meets the same requests runs without planning them."""

from __future__ import annotations

import marshal
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from npaccel import _native
from npaccel.backends.base import Loaded
from npaccel.caches.startup_profile import Use
from npaccel.caches.store import Store, digest
from npaccel.later import later
from npaccel.own import time
from npaccel.runtime.programs.jobs import Kept
from npaccel.runtime.programs.program import PlanInfo, Recipe, assemble, describe
from npaccel.runtime.programs.trace import Requests, RuleText, decode, rule_text

if TYPE_CHECKING:
    from npaccel.ir import passes
else:
    passes = later("npaccel.ir.passes")

__all__ = [
    "Found",
    "Outcome",
    "Planned",
    "StoredPrograms",
    "pack_outcome",
    "program_key",
    "unpack_outcome",
]

# Entries larger than this are not written: plans of thousands of requests, which change with the
# length of a loop.
LARGEST_BYTES = 4 << 20


class Outcome(NamedTuple):
    """What planning a trace came to, as plain data.

    consumed : as Plan has it; of the values a program's key says as much.
    requests : their rules are what their key means; all else is for explain().
    cuts : what the plan was made with.
    """

    consumed: tuple[tuple[int, int], ...]
    recipe: Recipe
    requests: Requests
    cuts: dict[int, passes.Cut]


def pack_outcome(outcome: Outcome, *, whole: bool = True) -> bytes:
    """The bytes of an Outcome, which this version of Python reads in half a pickle's time. whole:
    with its requests, which who asked for it has."""
    recipe, requests = outcome.recipe, outcome.requests
    rules = [tuple(rule) for rule in requests.rules.values()]
    return marshal.dumps(
        (
            outcome.consumed,
            (recipe.steps, recipe.dropped, recipe.kernels, recipe.buffers),
            rules,
            (requests.key, requests.scalars) if whole else (),
            {request: tuple(cut) for request, cut in outcome.cuts.items()},
        )
    )


def unpack_outcome(packed: bytes, asked: Requests | None = None) -> Outcome:
    """What `pack_outcome` packed. asked: its requests, if it is without."""
    consumed, recipe, rules, requests, cuts = marshal.loads(packed)
    known = {request: passes.Cut(*cut) for request, cut in cuts.items()}
    if asked is None:
        key, scalars = requests
        asked = Requests(key, scalars, {rule[0]: RuleText(*rule) for rule in rules})
    return Outcome(consumed, Recipe(*recipe), asked, known)


class Found(NamedTuple):
    """A Program, the scalars for whose values alone it holds, the buffers that need memory."""

    program: _native.Program
    consumed: tuple[tuple[int, int], ...]
    buffers: tuple[int, ...]


class Planned(NamedTuple):
    """Stands for a PlanInfo that is made when somebody asks."""

    requests: Requests
    first_flush: int
    cuts: Mapping[int, passes.Cut] = MappingProxyType({})

    def plan_info(self) -> PlanInfo:
        """Plan again: the same requests have the same plan, and what a template was filled for has
        the plan that it would have got."""
        made = decode(self.requests)
        return describe(made, passes.plan(made, cuts=self.cuts), self.first_flush)

    def at(self, key: bytes) -> Planned:
        """The same of other sizes."""
        return self._replace(requests=self.requests._replace(key=key))

    def plain(self) -> bytes:
        """For a profile: what `of` makes it of again."""
        key, scalars, rules = self.requests
        texts = [tuple(rule_text(rule)) for rule in rules.values()]
        cuts = {request: tuple(cut) for request, cut in self.cuts.items()}
        return marshal.dumps((key, scalars, texts, cuts))

    @classmethod
    def of(cls, plain: bytes) -> Planned:
        """What `plain` gave, in another process of the same version."""
        key, scalars, texts, cuts = marshal.loads(plain)
        rules = {text[0]: RuleText(*text) for text in texts}
        known = {request: passes.Cut(*cut) for request, cut in cuts.items()}
        return cls(Requests(key, scalars, rules), 0, known)


def program_key(key: bytes) -> str:
    """What stands for the key of requests in names of entries: keys are long."""
    return digest(key)


def _taken(found: Outcome, program: _native.Program, first_flush: int) -> Found | None:
    """What the requests at hand get; None where its rules are not this process's."""
    known = _native.rules()
    for number, text in found.requests.rules.items():
        rule = known.get(number)
        if rule is None or (number, rule.name, rule.kind, rule.loop) != text:
            return None
    program.info = Planned(found.requests, first_flush, found.cuts)
    return Found(program, found.consumed, found.recipe.buffers)


class StoredPrograms:
    """Finds and keeps Programs on disk.

    Parameters
    ----------
    store : the cache as it is now; None: there is none.
    identity : what entries depend on besides requests.
    code : finds the loaded code of a kernel by its key, or None.
    threads : how many the programs are for.
    """

    def __init__(
        self,
        store: Callable[[], Store | None],
        identity: Callable[[], str],
        code: Callable[[str], Loaded | None],
        threads: Callable[[], int],
    ) -> None:
        self._store = store
        self._threads = threads
        self._identity = identity
        self._code = code
        self._ready: dict[str, tuple[Outcome, _native.Program]] = {}
        self._given: dict[Use, _native.Program] = {}
        self._found: dict[Use, None] = {}

    def done(self, jobs: Iterable[Kept]) -> Iterator[Use]:
        """Of what was to be compiled, what is on disk, and under which name."""
        store = self._store()
        for key, *_ in jobs:
            name = self._name(key)
            if store is not None and store.get(name, hit=False) is not None:
                yield name, True

    def prepare(
        self, uses: Iterable[Use], limit_s: float, give: Callable[[bytes, Found], None]
    ) -> None:
        """Bring these into memory until so much time is over.

        give : called with the key of requests and their program, which then need not be looked
            for. Not with those whose rules this process has not made yet: `find` has them ready.
        """
        store, end = self._store(), time.monotonic() + limit_s
        for name, in_queue in uses:
            if store is None or time.monotonic() >= end:
                return
            entry = store.get(name)
            outcome = unpack_outcome(entry) if entry else None
            program = self._assembled(outcome) if outcome is not None else None
            if outcome is None or program is None:
                continue
            key, found = outcome.requests.key, None
            if in_queue and name == self._name(program_key(key)):
                found = _taken(outcome, program, 0)
            if found is not None:
                self._given[name, in_queue] = program
                give(key, found)
            else:
                self._ready[name] = outcome, program

    @property
    def used(self) -> tuple[Use, ...]:
        """What was found, or given and run, in order."""
        given = [use for use, program in self._given.items() if program.timing[0]]
        return tuple(dict.fromkeys((*given, *self._found)))

    def find(self, pending: _native.Pending, *, in_queue: bool = True) -> Found | None:
        """The Program for these requests. None: it has to be planned, or a kernel lacks.

        in_queue : not a section's, which has no place where it would be given to.
        """
        store = self._store()
        if store is None:
            return None
        name = self._name(program_key(pending.key))
        entry = self._ready.pop(name, None) or store.get(name)
        if entry is None:
            return None
        self._found[name, in_queue] = None
        if isinstance(entry, bytes):
            return self.program(unpack_outcome(entry), pending.serial)
        return _taken(*entry, pending.serial)

    def note(self, found: Outcome, program: _native.Program, *, in_queue: bool) -> None:
        """Count a program that was compiled meanwhile as one that was on disk."""
        self._given[self._name(program_key(found.requests.key)), in_queue] = program

    def program(self, found: Outcome, first_flush: int) -> Found | None:
        """The Program of an Outcome; None where its rules are not this process's, or code lacks."""
        program = self._assembled(found)
        return None if program is None else _taken(found, program, first_flush)

    def _assembled(self, found: Outcome) -> _native.Program | None:
        code = [self._code(kernel) for kernel in found.recipe.kernels]
        return assemble(found.recipe, code, "") if all(code) else None

    def keep(self, key: str, made: Outcome, *, tidy: bool = True) -> None:
        """Store an Outcome under its `program_key`. tidy: as Store.put has it."""
        store = self._store()
        if store is None:
            return
        entry = pack_outcome(made)
        if len(entry) <= LARGEST_BYTES:
            store.put(self._name(key), entry, tidy=tidy)

    def _name(self, key: str) -> str:
        return digest("program", self._identity(), str(self._threads()), key)
