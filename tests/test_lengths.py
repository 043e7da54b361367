"""Files and functions stay short, in Python and in C: who opens one sees the whole."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("npaccel", "tests", "tools", "examples")
MOST_LINES = 600
MOST_LINES_OF_A_FUNCTION = 40  # its docstring is not counted, nor its braces
MOST_COLUMNS = 100  # ruff holds that in Python


def functions(source: str) -> Iterator[tuple[str, int]]:
    """Name and lines of each function, also of those inside others."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = _lines(node)
            if ast.get_docstring(node) is not None:
                lines -= _lines(node.body[0])
            yield node.name, lines


def _lines(node: ast.stmt) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def problems(name: str, source: str) -> list[str]:
    """What is too long in a module."""
    lines = len(source.splitlines())
    found = [f"{name} has {lines} lines"] if lines > MOST_LINES else []
    return found + [
        f"{name}: {function} has {lines} lines"
        for function, lines in functions(source)
        if lines > MOST_LINES_OF_A_FUNCTION
    ]


def test_modules_and_functions_are_short() -> None:
    paths = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    assert len(paths) > 400, "the walk finds no modules: it looks in the wrong place"
    assert [text for path in paths for text in problems(path.name, path.read_text())] == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("x = 1\n" * 600, []),
        ("x = 1\n" * 601, ["m.py has 601 lines"]),
        ("def f():\n" + "    x = 1\n" * 39, []),
        ("def f():\n" + "    x = 1\n" * 40, ["m.py: f has 41 lines"]),
        ("async def f():\n" + "    x = 1\n" * 40, ["m.py: f has 41 lines"]),
        ('def f():\n    """A\n\n    B"""\n' + "    x = 1\n" * 39, []),
        ("class C:\n  def f(self):\n" + "    x = 1\n" * 40, ["m.py: f has 41 lines"]),
        ("def f():\n  def g():\n" + "    x = 1\n" * 38, []),
    ],
)
def test_the_rule_itself(source: str, found: list[str]) -> None:
    assert problems("m.py", source) == found


def c_problems(name: str, source: str) -> list[str]:
    """What is too long in a file of the C core, whose functions have their braces in the first
    column."""
    lines = source.splitlines()
    found = [
        f"{name}:{number} has {len(line)} columns"
        for number, line in enumerate(lines, 1)
        if len(line) > MOST_COLUMNS
    ]
    if len(lines) > MOST_LINES:
        found.append(f"{name} has {len(lines)} lines")
    begun = 0
    for number, line in enumerate(lines, 1):
        if line == "{":
            begun = number
        elif line == "}" and number - begun - 1 > MOST_LINES_OF_A_FUNCTION:
            found.append(f"{name}:{begun} is a function of {number - begun - 1} lines")
    return found


def test_c_files_functions_and_lines_are_short() -> None:
    paths = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.[ch]"))
    assert len(paths) > 200, "the walk finds no files: it looks in the wrong place"
    assert [text for path in paths for text in c_problems(path.name, path.read_text())] == []


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (["int f(void)", "{", *["    f();"] * 40, "}"], []),
        (["int f(void)", "{", *["    f();"] * 41, "}"], ["f.c:2 is a function of 41 lines"]),
        (["int x;"] * 600, []),
        (["int x;"] * 601, ["f.c has 601 lines"]),
        (["x" * 100], []),
        (["", "x" * 101], ["f.c:2 has 101 columns"]),
    ],
)
def test_the_rule_for_c_itself(lines: list[str], found: list[str]) -> None:
    assert c_problems("f.c", "\n".join(lines)) == found
