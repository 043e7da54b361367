"""Run by the build: docstrings of the C core's functions and methods, as a C header.

    python native_docs.py STUB HEADER

They are written in the stub, `_native.pyi`, with the signatures. The tables of methods in C name
them, as NPA_DOC_wrap and NPA_DOC_Section_enter; what the stub lacks does not compile.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path


def documented(stub: str) -> Iterator[tuple[str, str]]:
    """Name, as C has it, and docstring of each function and method."""
    for node in ast.parse(stub).body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, _docstring(node, "$module")
        elif isinstance(node, ast.ClassDef):
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and ast.get_docstring(method) is not None:
                    yield f"{node.name}_{method.name}", _docstring(method, "")


def _docstring(function: ast.FunctionDef, first: str) -> str:
    """As C has it: begun by the signature, without types, which `inspect` reads."""
    arguments = function.args
    for argument in ast.walk(arguments):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    names = ast.unparse(arguments)
    # What is called on is named by a dollar sign: `self`, or the module.
    names = ", ".join(filter(None, (first, names))) if first else f"${names}"
    return f"{function.name}({names})\n--\n\n{ast.get_docstring(function) or ''}"


def _literal(text: str) -> str:
    escaped = text.replace("\\", r"\\").replace('"', r"\"").split("\n")
    return " \\\n    ".join(f'"{line}\\n"' for line in escaped[:-1]) + f' \\\n    "{escaped[-1]}"'


def main(stub: str, header: str) -> None:
    """What the build calls."""
    lines = ["/* Made by native_docs.py. */"]
    for name, text in documented(Path(stub).read_text(encoding="utf-8")):
        lines.append(f"#define NPA_DOC_{name} {_literal(text)}")
    Path(header).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
