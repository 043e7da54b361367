"""Who may include whom in the C core, read from the statements (npaccel/native/README.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "npaccel"

# The rooms of the C core, from bottom to top: a file may include headers of its own room and of
# those before it (npaccel/native/README.md).
NATIVE = PACKAGE / "native"
C_ROOMS = (
    "system",
    "base",
    "loops",
    "trace",
    "place",
    "run",
    "macro",
    "record",
    "small",
    "functions",
    "numpy",
)
MADE_BY_THE_BUILD = {
    "drawing_tables.h",
    "native_docs.h",
    "operation_names.h",
    "sine_table.h",
    "npa_primitives_v4",
    "npa_primitives_v3",
    "npa_primitives_neon",
}


# Headers of C11, of NumPy, and of the interpreter; its internal ones say where its stack lies. What
# else there is of an operating system only linux/ and portable/ of system/ include, of a processor
# only files that are named for it.
C11 = {
    "assert.h complex.h errno.h fenv.h limits.h math.h stdatomic.h stdbool.h stddef.h stdint.h",
    "stdio.h stdlib.h string.h time.h",
}
PYTHON = {"Python.h", "opcode.h", "structmember.h"}
PYTHON |= {f"internal/pycore_{name}.h" for name in ("debug_offsets", "interpframe_structs")}
ANYWHERE = set(" ".join(C11).split()) | PYTHON
POSIX_THREADS = {"pthread.h", "unistd.h"}
OF_X86_64 = {"cpuid.h", "immintrin.h", "xmmintrin.h"}


def allowed_headers(path: str) -> set[str] | None:
    """Which headers of others this file may include; None: any."""
    if path.startswith("system/linux/"):
        return None
    if path == "system/os.h" or path.startswith("system/portable/"):
        return ANYWHERE | POSIX_THREADS
    return ANYWHERE | OF_X86_64 if "x86_64" in path else ANYWHERE


# What the compiler says of the system and the processor is asked where it is chosen.
ASKED = r"\b(?:__linux__|__APPLE__|_WIN32|__x86_64__|__aarch64__|NPA_PORTABLE|__builtin_cpu_\w+)\b"
CHOOSERS = {"system/os.h", "system/processor.h", "system/processor/x86_64.c"}
CHOOSERS |= {"loops/x86_64/compress.c"}


def system_problems(files: dict[str, str]) -> list[str]:
    """What of a system or a processor is in files that must not know it."""
    found = []
    for path, source in files.items():
        allowed = allowed_headers(path)
        for header in re.findall(r"^[ \t]*#[ \t]*include[ \t]*<(.*)>", source, flags=re.M):
            if allowed is not None and header not in allowed and not header.startswith("numpy/"):
                found.append(f"{path} includes {header}")
        if path not in CHOOSERS:
            code = re.sub(r"/\*.*?\*/", " ", source, flags=re.S)
            found += [f"{path} asks for {name}" for name in re.findall(ASKED, code)]
    return found


def test_systems_and_processors_have_their_own_files() -> None:
    files = {
        path.relative_to(NATIVE).as_posix(): path.read_text() for path in NATIVE.rglob("*.[ch]")
    }
    assert system_problems(files) == []


@pytest.mark.parametrize(
    ("path", "source", "problem"),
    [
        ("run/flush.c", "#include <string.h>", None),
        ("run/flush.c", "#include <numpy/arrayscalars.h>", None),
        ("run/flush.c", "#include <sys/mman.h>", "run/flush.c includes sys/mman.h"),
        ("run/flush.c", "#include <unistd.h>", "run/flush.c includes unistd.h"),
        ("system/pool.c", "#include <linux/futex.h>", "system/pool.c includes linux/futex.h"),
        ("system/linux/threads.c", "#include <linux/futex.h>", None),
        ("system/portable/threads.c", "#include <unistd.h>", None),
        (
            "system/portable/threads.c",
            "#include <signal.h>",
            "system/portable/threads.c includes signal.h",
        ),
        ("loops/masks.c", "#include <immintrin.h>", "loops/masks.c includes immintrin.h"),
        ("loops/x86_64/compress.c", "#include <immintrin.h>", None),
        ("loops/masks.c", "#ifdef __x86_64__", "loops/masks.c asks for __x86_64__"),
        ("loops/masks.c", "/* __linux__ */", None),
        ("run/flush.c", "#ifdef NPA_PORTABLE", "run/flush.c asks for NPA_PORTABLE"),
    ],
)
def test_the_rules_of_systems(path: str, source: str, problem: str | None) -> None:
    assert system_problems({path: source}) == ([problem] if problem else [])


def bare(source: str) -> str:
    """C without comments, preprocessor lines, and what is between quotes."""
    source = re.sub(r"/\*.*?\*/", " ", source, flags=re.S)
    source = re.sub(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', '""', source)
    return re.sub(r"^[ \t]*#(?:.*\\\n)*.*$", "", source, flags=re.M)


def statements(source: str) -> Iterator[str]:
    """What stands outside of functions, a body as `{}`."""
    depth, text = 0, ""
    for part in re.split(r"([{};])", bare(source)):
        if part == "}":
            depth -= 1
        if depth == 0:
            text += part
        if part == "{":
            depth += 1
        body = part == "}" and depth == 0 and re.search(r"\)[^=]*\{\}$", text) is not None
        if depth == 0 and (part == ";" or body):
            yield " ".join(text.split())
            text = ""


def names(statement: str) -> tuple[str, list[str]]:
    """Whether it is a "function" with a body, a "variable", or "declared"; and whose `npa_` names.

    Types, and what is the file's own, are "other"."""
    if re.match(r"(static|typedef|enum|union|_Static_assert)\b", statement):
        return "other", []
    statement = re.sub(r"__attribute__ ?\(\(.*?\)\)", "", statement)
    called = re.search(r"\b(npa_\w+) ?\(", statement.split("=")[0])
    if called and not statement.startswith("extern struct"):
        return ("function" if statement.endswith("}") else "declared"), [called[1]]
    external = statement.startswith("extern ")
    statement = re.sub(r"\{\}", "", statement).rstrip("; ")
    declarators = re.sub(r"= ?[^,;]*|\[[^]]*\]", "", statement).split(",")
    if re.fullmatch(r"struct \w+", statement):
        return "other", []
    found = [re.search(r"\b(npa_\w+) *$", part) for part in declarators]
    kind = "declared" if external or re.match(r"npa_(own|recorder) ", statement) else "variable"
    return kind, [match[1] for match in found if match]


def c_problems(files: dict[str, str]) -> list[str]:
    """What is wrong with these files, by name as in `system/memory.c`."""
    place = {name: number for number, name in enumerate(C_ROOMS)}
    defined: dict[str, str] = {}
    declared: list[tuple[str, str]] = []
    found = []
    for path, source in files.items():
        mine = path.split("/")[0]
        for target in re.findall(r'^[ \t]*#[ \t]*include[ \t]*"(.*)"', source, flags=re.M):
            theirs = target.split("/")[0]
            if target in MADE_BY_THE_BUILD:
                continue
            if target not in files:
                found.append(f"{path} includes {target}, which is none: name it with its room")
            elif place[theirs] > place[mine]:
                found.append(f"{path} includes {target}, but {mine} is below {theirs}")
        for statement in statements(source):
            kind, which = names(statement)
            if kind in ("function", "variable"):
                defined.update(dict.fromkeys(which, mine))
            elif kind == "declared" and path.endswith(".c"):
                found += [f"{path} declares {name}: only headers may" for name in which]
            elif kind == "declared":
                declared += [(path, name) for name in which]
    for path, name in declared:
        where = defined.get(name, "no room")
        if where != path.split("/")[0] and name not in MADE_BY_THE_BUILD:
            found.append(f"{path} declares {name}, which is in {where}")
    return found


def test_the_c_core_includes_downwards() -> None:
    files = {
        path.relative_to(NATIVE).as_posix(): path.read_text() for path in NATIVE.rglob("*.[ch]")
    }
    assert {path.split("/")[0] for path in files} == set(C_ROOMS), "a room that is not in the list"
    assert len(files) > 100
    assert c_problems(files) == []


@pytest.mark.parametrize("name", C_ROOMS)
def test_every_room_of_the_c_core_says_what_it_knows(name: str) -> None:
    header = (NATIVE / name / f"{name}.h").read_text()
    first = header[: header.index("*/")]
    assert first.startswith(f"/* {name}.h: ") and "Knows " in first
    assert "Must not know " in first or name == C_ROOMS[-1]
    assert f"`{name}/`" in (NATIVE / "README.md").read_text()


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({}, None),
        ({"base/base.c": '#include "trace/trace.h"'}, "base is below trace"),
        ({"trace/queue.c": '#include "base.h"\nint npa_count;'}, "name it with its room"),
        ({"base/base.c": "extern int npa_count;"}, "only headers may"),
        ({"base/base.c": "int npa_flush(void);"}, "only headers may"),
        ({"base/base.h": "int npa_flush(void);"}, "which is in trace"),
        ({"base/base.h": "extern int npa_other, npa_count;"}, "declares npa_count, which is in"),
        ({"trace/trace.h": "extern int npa_gone;"}, "which is in no room"),
        ({"base/base.c": "static int npa_own_matter(void) { return 0; }"}, None),
    ],
)
def test_the_rules_of_the_c_core(changed: dict[str, str], problem: str | None) -> None:
    files = {
        "base/base.h": "typedef struct { int npa_x; } npa_thing;",
        "base/base.c": "int npa_other;",
        "trace/trace.h": "extern int npa_count;\nint npa_flush(void); /* } */",
        "trace/queue.c": '#include "trace/trace.h"\nint npa_count = 3;\nint npa_flush(void)\n{\n}',
    }
    found = c_problems({**files, **changed})
    assert any(problem in text for text in found) if problem else found == [], found
