"""Modules and functions stay short: who opens one sees the whole."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "npaccel"
MOST_LINES = 600
MOST_LINES_OF_A_FUNCTION = 40  # its docstring is not counted


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
    paths = sorted(PACKAGE.rglob("*.py"))
    assert len(paths) > 200, "the walk finds no modules: it looks in the wrong place"
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
