"""What a section's body calls, and which names its instructions hold."""

from __future__ import annotations

import dis
import functools
import sys
import types
from typing import Any, Final, NamedTuple

__all__ = [
    "HARMLESS",
    "LIBRARIES",
    "Names",
    "is_for_library",
    "library_of",
    "names_of",
    "unsafe_call",
]

# Libraries whose names are taken to stay what they are, and whose own code may run.
LIBRARIES: Final = ("numpy", "npaccel")
# Those of Python's that only compute.
HARMLESS: Final = frozenset(
    (
        *("abc", "builtins", "cmath", "collections", "contextlib", "copy", "dataclasses", "enum"),
        *("fractions", "functools", "itertools", "math", "numbers", "operator", "types", "typing"),
        *("_abc", "_collections", "_functools", "_operator"),
    )
)
# Functions of `builtins` whose results depend on more than their arguments, or that do more.
TELLING: Final = frozenset(
    ("breakpoint", "compile", "eval", "exec", "globals", "id", "input", "locals", "open", "print")
)
WRITING: Final = frozenset(("dump", "fromfile", "tofile"))  # of NumPy
# Names by which any attribute may be read.
DYNAMIC: Final = frozenset(
    (
        *("__dict__", "__getattribute__", "attrgetter", "delattr", "getattr", "hasattr"),
        *("setattr", "vars"),
    )
)


def is_for_library(frame: types.FrameType | None) -> bool:
    """Whether Python's own library runs for NumPy or us."""
    while frame is not None and library_of(frame.f_globals) in sys.stdlib_module_names:
        frame = frame.f_back
    return frame is not None and library_of(frame.f_globals) in LIBRARIES


def library_of(names: dict[str, Any]) -> str:
    return str(names.get("__name__")).partition(".")[0]


def unsafe_call(function: Any) -> str:
    """The name of a C function that may tell something new or does more than return; or empty."""
    of = getattr(function, "__self__", None)
    name = str(getattr(function, "__name__", ""))
    if of is None or isinstance(of, types.ModuleType):
        library = library_of({"__name__": getattr(function, "__module__", None)})
        if of is not None and library == "None":
            library = library_of(vars(of))
        known = library in HARMLESS and not (library == "builtins" and name in TELLING)
    else:
        library = (of if isinstance(of, type) else type(of)).__module__.partition(".")[0]
        known = library in HARMLESS or library in ("re", "decimal", "fractions")
    if not (known or library in LIBRARIES) or name in WRITING:
        return f"{library}.{name}"
    return ""


class Names(NamedTuple):
    """Global names and attributes in the instructions of some code.

    dynamic : attributes are also used by names that are computed
    imported : modules, each with the dots before its name
    """

    read: frozenset[str]
    written: frozenset[str]
    used: frozenset[str]
    stored: frozenset[str]
    dynamic: bool
    imported: frozenset[str]


@functools.lru_cache(maxsize=256)
def names_of(code: types.CodeType) -> Names:
    """Without those of functions that it makes."""
    names: set[tuple[str, str]] = set()
    constants: list[Any] = [0, 0]  # the last two: before an import, its dots and what it names
    for step in dis.get_instructions(code):
        action, _, what = step.opname.partition("_")
        if step.opname in ("LOAD_CONST", "LOAD_SMALL_INT"):
            constants = [constants[-1], step.argval]
        elif step.opname == "IMPORT_NAME":
            names.add(("imported", "." * constants[0] + step.argval))
        elif step.opname == "IMPORT_FROM":
            names.add(("attribute", step.argval))
        if what in ("GLOBAL", "NAME", "ATTR", "METHOD"):
            kind = "global" if what in ("GLOBAL", "NAME") else "attribute"
            names.add((kind, step.argval))
            if action != "LOAD":
                names.add((f"{kind} written", step.argval))

    def of(kind: str) -> frozenset[str]:
        return frozenset(name for its, name in names if its == kind)

    read, used = of("global"), of("attribute")
    dynamic = not DYNAMIC.isdisjoint(read | used)
    return Names(read, of("global written"), used, of("attribute written"), dynamic, of("imported"))
