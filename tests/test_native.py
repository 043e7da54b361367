"""The C core's functions and their stub, `_native.pyi`: the same names, texts and signatures."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import BuiltinFunctionType, MethodDescriptorType
from typing import Any

import pytest

from npaccel import _native

PACKAGE = Path(__file__).parent.parent / "npaccel"
STUB = ast.parse((PACKAGE / "_native.pyi").read_text())
CLASSES = {node.name: node for node in STUB.body if isinstance(node, ast.ClassDef)}
FUNCTIONS = {node.name: node for node in STUB.body if isinstance(node, ast.FunctionDef)}
TYPES = {name: found for name, found in vars(_native).items() if isinstance(found, type)}
IN_PYTHON = {("Runtime", "look")}  # of its subclass runtime.macros.traced_scalars.TracedScalar
ROW = re.compile(r'\{"(\w+)",[^{}"]*?,\s*(METH_[A-Z_| ]+),\s*NPA_DOC_(\w+)\}')


def _methods(name: str) -> dict[str, ast.FunctionDef]:
    """Those of a class that are written in C as methods, not as slots or properties."""
    return {
        node.name: node
        for node in CLASSES[name].body
        if isinstance(node, ast.FunctionDef)
        and not node.decorator_list
        and (name, node.name) not in IN_PYTHON
        and (node.name in ("__enter__", "__exit__") or not node.name.startswith("__"))
    }


def _of_type(found: type) -> dict[str, Any]:
    return {
        name: method
        for name, method in vars(found).items()
        if isinstance(method, MethodDescriptorType) and name != "__array_ufunc__"
    }


def _described() -> Iterator[tuple[str, ast.FunctionDef, Any]]:
    for name, node in FUNCTIONS.items():
        yield name, node, getattr(_native, name)
    for kind, found in TYPES.items():
        for name, node in _methods(kind).items():
            yield f"{kind}_{name}", node, vars(found)[name]


def _parameters(node: ast.FunctionDef) -> list[tuple[str, Any]]:
    """Names and kinds, as `inspect` has them."""
    a, kinds = node.args, inspect.Parameter
    found = [(argument.arg, kinds.POSITIONAL_ONLY) for argument in a.posonlyargs]
    found += [(argument.arg, kinds.POSITIONAL_OR_KEYWORD) for argument in a.args]
    found += [(a.vararg.arg, kinds.VAR_POSITIONAL)] if a.vararg else []
    found += [(argument.arg, kinds.KEYWORD_ONLY) for argument in a.kwonlyargs]
    return found + ([(a.kwarg.arg, kinds.VAR_KEYWORD)] if a.kwarg else [])


def test_the_stub_names_what_the_core_has() -> None:
    functions = {
        name for name, found in vars(_native).items() if isinstance(found, BuiltinFunctionType)
    }
    assert functions == set(FUNCTIONS)
    assert set(TYPES) <= set(CLASSES)
    for name, found in TYPES.items():
        assert set(_of_type(found)) == set(_methods(name)), name


@pytest.mark.parametrize(("name", "node", "function"), list(_described()))
def test_functions_say_what_the_stub_says(name: str, node: ast.FunctionDef, function: Any) -> None:
    text = ast.get_docstring(node)
    assert text and function.__doc__ == text, name
    own = isinstance(function, MethodDescriptorType)  # the first one is `self`
    told = [(p.name, p.kind) for p in inspect.signature(function).parameters.values()]
    assert told[own:] == _parameters(node)[own:]


def test_flags_in_c_are_those_of_the_stubs_signature() -> None:
    source = "\n".join(path.read_text() for path in sorted(PACKAGE.rglob("native/**/*.c")))
    rows = {described: (name, flags) for name, flags, described in ROW.findall(source)}
    nodes = dict(FUNCTIONS)
    for kind in CLASSES:
        nodes |= {f"{kind}_{name}": node for name, node in _methods(kind).items()}
    assert set(rows) == set(nodes)
    wrong = []
    for described, (name, flags) in rows.items():
        assert nodes[described].name == name
        kinds = [kind for _, kind in _parameters(nodes[described])[described != name :]]
        only = all(kind in (kind.POSITIONAL_ONLY, kind.VAR_POSITIONAL) for kind in kinds)
        one = [kind.name for kind in kinds] == ["POSITIONAL_ONLY"]
        fits = {
            "METH_NOARGS": not kinds,
            "METH_O": one,
            "METH_VARARGS": only,
            "METH_FASTCALL": only,
        }.get(flags.strip(), not only)
        wrong += [] if fits else [f"{described} has {flags}"]
    assert wrong == []
