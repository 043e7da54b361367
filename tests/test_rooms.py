"""Who may import whom, read from the statements (docs/design.md: rooms)."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "npaccel"


# What each room may import of npaccel, besides itself. Longest matching prefix counts.
EVERYTHING_BELOW_OBSERVE = {
    "errors",
    "config",
    "ir",
    "backends",
    "caches",
    "_native",
    "runtime",
    "system",
}
# The rooms of the runtime, from bottom to top: each may import those before it.
RUNTIME = ("process", "programs", "devices", "checking", "helper", "engine", "macros")
ALLOWED = {
    "later": set(),
    "own": set(),
    "system": set(),
    "errors": set(),
    "config": {"errors"},
    "ir": {"errors"},
    "ir.passes": {"errors", "ir"},
    "ir.reference": {"errors", "ir"},
    "backends": {"errors", "config", "ir", "system", "_native"},
    "caches": {"errors", "config", "ir", "system"},
    "runtime": set(),
    **{
        f"runtime.{name}": (EVERYTHING_BELOW_OBSERVE - {"runtime"})
        | {f"runtime.{below}" for below in RUNTIME[:number]}
        for number, name in enumerate(RUNTIME)
    },
    "cluster": EVERYTHING_BELOW_OBSERVE,
    "dispatch": EVERYTHING_BELOW_OBSERVE | {"cluster"},
    "observe": {"errors", "config", "ir", "runtime", "system", "_native"},
    # Public names, what is behind them, and the command line over them.
    "": {
        "api",
        "cluster",
        "config",
        "debugging",
        "dispatch",
        "observe",
        "errors",
        "keeping",
        "later",
        "making",
        "notebook",
        "owners",
        "random",
    },
    "notebook": {"api", "blocks", "observe"},
    "making": {"_native", "api", "cluster", "errors"},
    "keeping": {"_native", "api", "cluster", "errors", "making"},
    "owners": {"_native", "cluster", "errors", "making", "this_process"},
    "random": {"_native", "dispatch"},
    "this_process": EVERYTHING_BELOW_OBSERVE | {"dispatch"},
    "reports": EVERYTHING_BELOW_OBSERVE | {"dispatch", "observe", "this_process"},
    "api": EVERYTHING_BELOW_OBSERVE
    | {"blocks", "dispatch", "macros", "observe", "reports", "this_process"},
    "debugging": {"_native", "api", "listing", "runtime"},
    "listing": {"api", "errors", "ir"},
    "blocks": {"_native", "config", "dispatch", "engines", "errors"},
    "engines": set(),
    "macros": {"_native", "config", "errors", "runtime"},
    "children": {"api", "blocks", "errors", "runtime", "system"},
    "bisecting": {"config", "errors", "launch"},
    "cli": {"bisecting", "commands", "errors", "launch"},
    "commands": {"", "cluster", "demo", "errors", "caches.store", "observe", "system"},
    "launch": {"api", "children", "cluster", "errors", "observe", "reports", "runtime"}
    | {"this_process"},
    "demo": {"errors"},
    "__main__": {"cli"},
}
# Packages from elsewhere that only these rooms may name.
FOREIGN = {
    "llvmlite": {"backends.llvm"},
    "distributed": {"cluster.dask_local", "cluster.dask_workers"},
    "cloudpickle": {"cluster.shipping"},
    "h5py": {"cluster.stored"},
    "zarr": {"cluster.stored"},
    "pyopencl": {"backends.opencl"},
    "numpy": {
        *(
            "backends",
            "runtime",
            "cluster",
            "dispatch",
            "observe",
            "ir",
            "commands",
            "demo",
            "api",
            "bisecting",
            "debugging",
            "engines",
            "keeping",
            "listing",
            "macros",
            "making",
            "owners",
            "random",
            "this_process",
        )
    },
    "rich": {"observe", "commands", "demo"},
    "cachetools": {"caches", "runtime"},
    "platformdirs": {"config", "caches"},
}
# A function may import only these: large or optional, and not needed by `import npaccel`.
OPTIONAL = {
    "distributed",
    "cloudpickle",
    "h5py",
    "zarr",
    "llvmlite",
    "pyopencl",
    "rich",
    "platformdirs",
    "cachetools",
    "tempfile",
    "json",
    "code",
    "difflib",
    "pdb",
    "tomllib",
}


@dataclass(frozen=True)
class Import:
    """One imported module: by which file and line, and whether inside a function."""

    importer: str
    line: int
    target: str
    inside_function: bool
    for_types_only: bool


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def imports_of(source: str, importer: str, *, is_package: bool = False) -> Iterator[Import]:
    """Every import in `source`; relative ones made absolute, `npaccel.` left off."""
    stack: list[tuple[ast.AST, bool, bool]] = [(ast.parse(source), False, False)]
    while stack:
        node, inside, types_only = stack.pop()
        inside = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for target in targets(node, importer, is_package):
            yield Import(importer, getattr(node, "lineno", 0), target, inside, types_only)
        checked = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for child in ast.iter_child_nodes(node):
            only = types_only or (checked and child not in node.orelse)
            stack.append((child, inside, only))


def targets(node: ast.AST, importer: str, is_package: bool) -> list[str]:
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "later":
        return [str(ast.literal_eval(node.args[0]))]
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    base = node.module or ""
    if node.level:
        here = ["npaccel", *importer.split(".")] if importer else ["npaccel"]
        keep = len(here) - node.level + (1 if is_package or not importer else 0)
        base = ".".join([*here[:keep], *([node.module] if node.module else [])])
    if base == "npaccel" or base.startswith("npaccel."):
        # `from npaccel.observe import events` names a module or a member; the file tells which.
        return [
            f"{base}.{alias.name}" if is_module(f"{base}.{alias.name}") else base
            for alias in node.names
        ]
    return [base]


def is_module(name: str) -> bool:
    path = PACKAGE.parent.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").exists() or path.with_suffix(".pyi").exists()


def room(module: str) -> str:
    """The longest key of ALLOWED that `module` lies in; "" for the package itself."""
    found = [key for key in ALLOWED if key and (module == key or module.startswith(key + "."))]
    return max(found, key=len, default="")


def problem(entry: Import) -> str | None:
    where = f"{entry.importer or '__init__'}:{entry.line} imports {entry.target}"
    top = entry.target.split(".")[0]
    mine = room(entry.importer)
    # The registry imports a backend when it is first used: its compiler is large or missing.
    late = top in OPTIONAL or entry.importer == "backends.registry"
    # What other packages declare is asked for when a name is none of ours: it is costly to import.
    late = late or (entry.importer, entry.target) == ("config", "importlib.metadata")
    if entry.inside_function and not late:
        return f"{where} inside a function"
    if top in FOREIGN and not entry.for_types_only:
        allowed = any(
            entry.importer == key or (key and entry.importer.startswith(key + "."))
            for key in FOREIGN[top]
        )
        return None if allowed else f"{where}, which only {sorted(FOREIGN[top])} may"
    if top != "npaccel":
        return None
    target = entry.target.removeprefix("npaccel").removeprefix(".")
    if target in ("later", "own"):  # which import nothing of npaccel
        return None
    same = mine != "" and (target == mine or target.startswith(mine + "."))
    within = mine.startswith("runtime.") and target.startswith("runtime.")
    if same or (entry.for_types_only and mine != "errors" and not within):
        return None
    names = ALLOWED[mine]
    if target == "" and "" in names:
        return None
    if any(name and (target == name or target.startswith(name + ".")) for name in names):
        return None
    return f"{where}, but {mine or '__init__'} may import only {sorted(names)}"


@functools.cache
def all_imports() -> list[Import]:
    return [
        entry
        for path in sorted(PACKAGE.rglob("*.py"))
        for entry in imports_of(
            path.read_text(), module_name(path), is_package=path.name == "__init__.py"
        )
    ]


def test_imports_point_downwards() -> None:
    entries = all_imports()
    assert len(entries) > 20, "the walk finds no imports: it looks in the wrong place"
    assert [text for text in map(problem, entries) if text] == []


def test_nobody_computes_with_the_reference() -> None:
    """It is slow: for check mode, simulated nodes, and tests."""
    who = {e.importer for e in all_imports() if e.target.startswith("npaccel.ir.reference")}
    assert {room(importer) for importer in who} == {
        "cluster",
        "ir.reference",
        "listing",
        "runtime.checking",
    }


def test_every_room_says_what_it_knows() -> None:
    folders = [path for path in PACKAGE.iterdir() if (path / "__init__.py").exists()]
    for folder in (*folders, *(PACKAGE / "runtime" / name for name in RUNTIME)):
        doc = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
        assert "Must not know" in doc, f"{folder.name}/__init__.py: what must it not know?"


def test_every_room_of_the_table_is_there() -> None:
    named = set(ALLOWED).union(*ALLOWED.values())
    assert [name for name in sorted(named) if name and not is_module(f"npaccel.{name}")] == []
    folders = {path.parent.name for path in PACKAGE.glob("runtime/*/__init__.py")}
    assert folders == set(RUNTIME)
    assert [path.name for path in PACKAGE.glob("runtime/*.py")] == ["__init__.py"]


def reached(start: str, edges: dict[str, set[str]]) -> set[str]:
    """The modules that `start` imports, and those that they import, and so on."""
    found: set[str] = set()
    left = [start]
    while left:
        new = edges.get(left.pop(), set()) - found
        found |= new
        left += new
    return found


def circles(entries: list[Import]) -> list[set[str]]:
    """Sets of modules of which each leads to each other one, imports for types included."""
    edges: dict[str, set[str]] = {}
    for entry in entries:
        target = entry.target.removeprefix("npaccel.")
        if target not in ("npaccel", entry.importer) and entry.target.startswith("npaccel."):
            edges.setdefault(entry.importer, set()).add(target)
    leads = {module: reached(module, edges) for module in edges}
    found: list[set[str]] = []
    for module in edges:
        circle = {other for other in leads[module] if module in leads.get(other, set())}
        if circle and circle not in found:
            found.append(circle)
    return found


def test_modules_do_not_import_in_circles() -> None:
    assert circles(all_imports()) == []
    both = [
        *imports_of("import npaccel.ir.b", "ir.a"),
        *imports_of("later('npaccel.ir.a')", "ir.b"),
    ]
    assert circles(both) == [{"ir.a", "ir.b"}]


# Members with an underscore that are used where they are not defined.
PRIVATE = {
    "_replace": "a named tuple's, and public",
    "_asdict": "a named tuple's, and public",
    "_exit": "of os, and public",
    "_getframe": "of sys: the caller",
    "_make": "a named tuple's, and public",
    "_rand": "NumPy's global RandomState",
    "_core": "NumPy's: what it has under no other name",
    "_implementation": "NumPy's function without its dispatch",
    "_bit_generator": "of NumPy's RandomState",
    "_showwarnmsg_impl": "of warnings: what shows one",
    "_run_module_as_main": "of runpy: as the interpreter runs a program",
    "_cl": "of pyopencl: its extension module",
    "_lock": "of llvmlite: to be held across a fork",
    "_repr_html_": "what notebooks call",
    "_section": "of the core's Macro, whose other names are the user's function's",
    "_variants": "of the core's Macro",
    "_add": "of the core's Macro",
    "_drop": "of the core's Macro",
    "_value": "of the core's Runtime, which stands for a number of the user's",
}


def private_problems(source: str) -> list[str]:
    """Private members that this module reads of something, and does not define."""
    attributes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute)]
    own = {
        node.attr
        for node in attributes
        if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
    }
    own |= set(re.findall(r"\bdef (_\w+)", source))
    return [
        f"line {node.lineno}: {ast.unparse(node)}"
        for node in attributes
        if re.match(r"_[a-z]", node.attr) and node.attr not in own | set(PRIVATE)
    ]


def test_nobody_reads_private_members_of_another_module() -> None:
    found = [
        f"{module_name(path)} {text}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for text in private_problems(path.read_text())
    ]
    assert found == []
    assert private_problems("engine._alone()") == ["line 1: engine._alone"]


def test_only_config_reads_the_environment() -> None:
    for path in PACKAGE.rglob("*.py"):
        if module_name(path) != "config":
            tree = ast.parse(path.read_text())
            names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
            assert not names & {"environ", "getenv"}, f"{path}: only config.py reads those"


@pytest.mark.parametrize(
    ("importer", "source", "wrong"),
    [
        ("ir.views", "from npaccel.errors import VerifyError", False),
        ("ir.views", "import npaccel.runtime.engine.engine", True),
        ("ir.views", "from npaccel import runtime", True),
        ("ir.views", "from ..runtime import engine", True),
        ("ir.views", "from .nodes import View", False),
        ("ir.ops", "import llvmlite.ir", True),
        ("ir.ops", "from llvmlite import ir", True),
        ("backends.llvm.emit", "import llvmlite.ir", False),
        ("backends.llvm.emit", "from npaccel.ir.reference import kernels", False),
        ("backends.llvm.emit", "from npaccel.caches import program", True),
        ("backends.llvm.emit", "import npaccel.observe.explain", True),
        ("caches.program", "from npaccel.backends import base", True),
        ("runtime.engine", "from npaccel.backends import base", False),
        ("runtime.engine", "from npaccel.runtime.programs import trace", False),
        ("runtime.programs", "from npaccel.runtime.engine import tiers", True),
        (
            "runtime.programs",
            "if TYPE_CHECKING:\n    from npaccel.runtime.engine import tiers",
            True,
        ),
        ("runtime.engine", "from npaccel.dispatch import array", True),
        ("cluster.planner", "from npaccel.runtime.programs import trace", False),
        ("cluster.planner", "from npaccel.dispatch import array", True),
        ("runtime.engine", "from npaccel.cluster import maps", True),
        ("cluster.planner", "def f():\n    import distributed", True),
        ("cluster.dask_workers", "def f():\n    import distributed", False),
        ("dispatch.array", "def f():\n    import npaccel.runtime.engine.engine", True),
        ("dispatch.array", "def f():\n    from math import pi", True),
        ("backends.llvm.emit", "def f():\n    import llvmlite", False),
        ("backends.registry", "def f():\n    import npaccel.backends.llvm.target", False),
        ("backends.registry", "def f():\n    import npaccel.runtime.engine.engine", True),
        ("config", "import numpy", True),
        ("", "from npaccel.dispatch.array import Array", False),
        ("", "from npaccel.runtime.engine.engine import Engine", True),
        ("api", "from npaccel.runtime.engine.engine import Engine", False),
        ("cli", "from npaccel.runtime.engine.engine import Engine", True),
        ("demo", "import npaccel", True),
        ("commands", "import npaccel", False),
        ("ir.views", "later('npaccel.runtime.engine.engine')", True),
        ("ir.views", "if TYPE_CHECKING:\n    from npaccel import runtime", False),
        ("ir.views", "if TYPE_CHECKING:\n    pass\nelse:\n    later('npaccel.runtime')", True),
        (
            "api",
            "if TYPE_CHECKING:\n    pass\nelse:\n    later('npaccel.runtime.engine.engine')",
            False,
        ),
    ],
)
def test_the_rules_themselves(importer: str, source: str, wrong: bool) -> None:
    problems = [problem(entry) for entry in imports_of(source, importer)]
    assert any(problems) is wrong, problems
