"""Write docs/coverage.md: what npaccel does with each public callable of NumPy.

    PYTHONSAFEPATH=1 .venv/bin/python tools/coverage.py > docs/coverage.md

Each callable is called on operands that wait to be computed, in a block of `accelerate`. What the
C core counts meanwhile says how it was done; the same call outside the block has to give the same.
Nothing is timed. Written down by hand are the calls (`CALLS`, `ALSO`, `OPERATORS`) and what is not
counted (`OTHERS`), in coverage_calls.py, and what nothing of npaccel's counts but NumPy's sources
tell (`KNOWN`), in coverage_seen.py.

    PYTHONSAFEPATH=1 .venv/bin/python tools/coverage.py 20    the rows of every twentieth callable
"""

from __future__ import annotations

import sys
import types
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import npaccel
from npaccel.dispatch.function import WHOLE

sys.path.append(str(Path(__file__).parent))  # not first: site.py is the name of one of Python's
from coverage_calls import (
    ALSO,
    CALLS,
    DRAWS,
    FORMS,
    FUNCTIONS,
    LARGE,
    LENGTH,
    METHODS,
    NAMESPACES,
    OPERATORS,
    OTHERS,
    PREFIXES,
    SIDE,
)
from coverage_seen import (
    COMPOSED,
    DELEGATED,
    FALLBACK,
    KERNEL,
    KINDS,
    KNOWN,
    OWN,
    UNLISTED,
    UNSEEN,
    VIEW,
    classify,
    fits,
    observe,
)


class Row(NamedTuple):
    """A line of the page."""

    name: str
    call: str
    kind: str
    note: str


def public(namespace: str) -> list[str]:
    """The names of a namespace's public callables."""
    where: Any = NAMESPACES[namespace]
    if namespace == "operators":
        return [f"__{name}__" for name in OPERATORS if hasattr(np.ndarray, f"__{name}__")]
    listed = getattr(where, "__all__", None) if isinstance(where, types.ModuleType) else None
    names = dir(where) if listed is None else listed
    return sorted(
        {name for name in names if name[0] != "_" and callable(getattr(where, name, None))}
    )


def not_counted(namespace: str) -> dict[str, str]:
    """By name, why not."""
    why = {n: why for why, names in OTHERS[namespace].items() for n in names.split()}
    for name in public(namespace):
        if isinstance(getattr(NAMESPACES[namespace], name), type):
            why[name] = "class"
    return {name: why[name] for name in public(namespace) if name in why}


def counted(namespace: str) -> list[str]:
    """The names of a namespace's rows."""
    left = not_counted(namespace)
    forms = FORMS if namespace == "operators" else ()
    return sorted([*(name for name in public(namespace) if name not in left), *forms])


def _calls(namespace: str, name: str) -> list[str]:
    """What may stand for a callable: the first that NumPy takes does."""
    if namespace == "operators":
        return [FORMS.get(name) or OPERATORS[name.strip("_")]]
    known = CALLS[namespace].get(name)
    if namespace in ("ufunc", "ndarray"):
        return [known] if known else [f"x.{name}({given})" for given in METHODS]
    usual = FUNCTIONS if namespace in ("numpy", "numpy.linalg", "numpy.fft") else DRAWS
    return [f"{PREFIXES[namespace]}{name}({given})" for given in ([known] if known else usual)]


def row(namespace: str, name: str) -> Row:
    """One line of a table."""
    call = next(filter(fits, _calls(namespace, name)), None)
    if call is None:
        raise LookupError(f"{namespace}: no call of {name} is known; CALLS needs one")
    kind, note = classify(namespace, name, observe(call))
    function = np.unique if name.startswith("unique_") else getattr(np, name, None)
    most = WHOLE.get(function, ("", 0))[1] if namespace == "numpy" else 0
    small = note in ("", UNLISTED, UNSEEN) and (kind == FALLBACK or (kind == OWN and most))
    if small:
        found = classify(namespace, name, observe(call, LARGE))
        if found != (kind, note):
            less = f"up to {most >> 20} MiB" if most else "where arrays are smaller"
            kind, note = found[0], "; ".join(filter(None, [found[1], f"NumPy's {less}"]))
    if name.strip("_") in ALSO.get(namespace, {}):
        label, other = ALSO[namespace][name.strip("_")]
        others, _ = classify(namespace, name, observe(other))
        if others != kind:
            note = "; ".join(filter(None, [note, f"{label}: {others}"]))
    return Row(name, call, kind, note)


HEAD = """# What npaccel does with each callable of NumPy

A program writes this page; nobody edits it. `make coverage` writes it anew, which a change of what
npaccel does with a call needs.

NumPy {version}, backend llvm, kernels compiled before their first run, two threads.

**{share}**
"""
HOW = """
How it was counted. The program calls each public callable in a block of `accelerate`, with the
call that its row shows. Its operands wait to be computed, as in the middle of a program; most have
{length:,} elements, matrices {side} × {side}. The program compares the results with NumPy's, and
reads from npaccel's counters what happened. Other arguments, dtypes and memory orders may be done
in other ways. Each name counts once, aliases too (`abs` and `absolute`), and an operator counts
beside its function. Of `x[...]` and `x[...] = ...` three forms count.

The counters do not see all. NumPy's C code that npaccel does not redirect, and steps on small
arrays, leave no trace in a row of another kind. Where NumPy's sources show that such code does most
of the work, the row was written by hand ({known} rows: `KNOWN` in `tools/coverage_seen.py`).

- **kernel**: the call is a ufunc or one recorded operation. A compiled kernel computes it, together
  with those around it.
- **composed**: Python code, NumPy's or npaccel's, makes several recorded operations of it.
- **own loops**: loops of npaccel's own do it at once on all threads, or npaccel shares the rows of
  NumPy's loops among them, where either is faster.
- **delegated**: npaccel's tables leave it, or a part of it, to NumPy. This is NumPy's own code at
  NumPy's speed; npaccel computes what the call reads first. The note has the reason in the words of
  `npaccel.explain()`.
- **view or metadata**: it computes nothing.
- **fallback**: NumPy runs it, or a part of it, and npaccel's tables did not mean it to. The note
  says why.

A kernel row says that npaccel records the operation. Of small arrays, and where a trial has shown
that NumPy is done sooner, a block leaves it to NumPy all the same. Where a note says "NumPy's up to
8 MiB" or "NumPy's where arrays are smaller", NumPy runs the whole function on such arrays, and the
row is about arrays {large} times as large.
"""
TITLES = {
    "Generator": "numpy.random.Generator, methods",
    "RandomState": "numpy.random.RandomState, methods",
    "ufunc": "numpy.ufunc, methods",
    "ndarray": "numpy.ndarray, methods",
    "operators": "numpy.ndarray, operators",
}


def share(counts: Mapping[str, int]) -> str:
    """The sentences at the top, of numbers by kind."""
    computing = sum(n for kind, n in counts.items() if kind != VIEW)
    own = sum(counts.get(kind, 0) for kind in (KERNEL, COMPOSED, OWN))
    delegated, back = counts.get(DELEGATED, 0), counts.get(FALLBACK, 0)
    return (
        f"Of {computing} callables that compute something, npaccel computes {own} "
        f"({own / computing:.1%}) and delegates {delegated} ({delegated / computing:.1%}), which "
        f"is NumPy's own code at NumPy's speed: {(own + delegated) / computing:.1%} together. "
        f"{back} ({back / computing:.1%}) fall back. {counts.get(VIEW, 0)} more only make views or "
        "ask for metadata."
    )


def title(namespace: str) -> str:
    """The heading of its table."""
    return TITLES.get(namespace, namespace)


def _table(head: Iterable[str], lines: Iterable[Iterable[object]]) -> Iterator[str]:
    names = list(head)
    yield "| " + " | ".join(names) + " |"
    yield "|---" * len(names) + "|"
    for cells in lines:
        yield "| " + " | ".join(map(str, cells)) + " |"


def line(found: Row) -> list[str]:
    """The cells of a row."""
    call = found.call.replace("|", "\\|")
    return [f"`{found.name}`", f"`{call}`", found.kind, found.note]


def page() -> Iterator[str]:
    """The lines of docs/coverage.md."""
    found = {where: [row(where, name) for name in counted(where)] for where in NAMESPACES}
    numbers = {where: Counter(each.kind for each in rows) for where, rows in found.items()}
    total: Counter[str] = sum(numbers.values(), Counter())
    yield HEAD.format(version=np.__version__, share=share(total))
    totals = [*((title(where), n) for where, n in numbers.items()), ("all", total)]
    sums = [(where, *(n[kind] for kind in KINDS), n.total()) for where, n in totals]
    yield from _table(["", *KINDS, "all"], sums)
    yield HOW.format(length=LENGTH, side=SIDE, large=LARGE, known=len(KNOWN))
    for where, rows in found.items():
        yield f"## {title(where)}\n"
        yield from _table(["name", "call", "kind", "note"], map(line, rows))
        yield ""
    yield "## Not counted\n\nThey take no array, or are not about what arrays hold.\n"
    yield from _table(["where", "why", "names"], _left())


def _left() -> Iterator[tuple[str, str, str]]:
    for where in NAMESPACES:
        left = not_counted(where)
        for why in sorted(set(left.values())):
            names = ", ".join(f"`{name}`" for name, reason in left.items() if reason == why)
            yield title(where), why, names


def settle() -> None:
    """Settings that depend neither on the machine nor on the environment."""
    npaccel.config.backend = "llvm"
    npaccel.config.tiering = "eager"
    npaccel.config.threads = 2
    np.seterr(all="ignore")
    warnings.simplefilter("ignore")


def main(every: str = "") -> None:
    """The command line: the page, or the lines of every so many callables."""
    settle()
    if not every:
        for text in page():
            print(text)
        return
    names = [(where, name) for where in NAMESPACES for name in counted(where)]
    for where, name in names[:: int(every)]:
        print("| " + " | ".join(line(row(where, name))) + " |")


if __name__ == "__main__":
    main(*sys.argv[1:])
