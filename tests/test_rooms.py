"""Who may import whom, read from the import statements (docs/design.md: rooms)."""

from __future__ import annotations

import ast
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
    "observe.events",
}
ALLOWED = {
    "later": set(),
    "forks": set(),
    "errors": set(),
    "config": {"errors"},
    "ir": {"errors"},
    "ir.passes": {"errors", "ir"},
    "ir.reference": {"errors", "ir"},
    "backends": {"errors", "config", "forks", "ir", "observe.events", "_native"},
    "caches": {"errors", "config", "ir", "observe.events"},
    "runtime": EVERYTHING_BELOW_OBSERVE - {"runtime"},
    "cluster": EVERYTHING_BELOW_OBSERVE,
    "dispatch": EVERYTHING_BELOW_OBSERVE | {"cluster", "forks"},
    "observe.events": set(),
    "observe": {"errors", "config", "ir", "runtime", "_native"},
    # Public names, what is behind them, and the command line over them.
    "": {
        "api",
        "cluster",
        "config",
        "debugging",
        "dispatch",
        "observe",
        "errors",
        "later",
        "notebook",
        "random",
    },
    "notebook": {"api", "blocks", "observe"},
    "random": {"_native", "dispatch"},
    "api": EVERYTHING_BELOW_OBSERVE | {"blocks", "dispatch", "macros", "observe"},
    "debugging": {"_native", "api", "runtime"},
    "blocks": {"_native", "config", "dispatch", "engines", "errors"},
    "engines": set(),
    "macros": {"_native", "config", "errors", "runtime"},
    "children": {"api", "blocks", "errors", "runtime"},
    "bisecting": {"config", "errors", "launch"},
    "cli": {"bisecting", "commands", "errors", "launch"},
    "commands": {"", "demo", "errors", "caches.store", "observe"},
    "launch": {"api", "children", "errors", "observe"},
    "demo": {"errors"},
    "__main__": {"cli"},
}
# Packages from elsewhere that only these rooms may name.
FOREIGN = {
    "llvmlite": {"backends.llvm"},
    "distributed": {"cluster.dask_workers"},
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
            "macros",
            "random",
        )
    },
    "rich": {"observe", "commands", "demo"},
    "cachetools": {"caches", "runtime"},
    "platformdirs": {"config", "caches"},
}
# A function may import only these: large or optional, and not needed by `import npaccel`.
OPTIONAL = {
    "distributed",
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
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "later":
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
    if target == "later":
        return None
    same = mine != "" and (target == mine or target.startswith(mine + "."))
    if same or (entry.for_types_only and mine != "errors"):
        return None
    names = ALLOWED[mine]
    if target == "" and "" in names:
        return None
    if any(name and (target == name or target.startswith(name + ".")) for name in names):
        return None
    return f"{where}, but {mine or '__init__'} may import only {sorted(names)}"


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
    assert {room(importer) for importer in who} == {"cluster", "ir.reference", "runtime"}


def test_every_room_says_what_it_knows() -> None:
    for folder in (path for path in PACKAGE.iterdir() if (path / "__init__.py").exists()):
        doc = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
        assert "Must not know" in doc, f"{folder.name}/__init__.py: what must it not know?"


def test_only_config_reads_the_environment() -> None:
    for path in PACKAGE.rglob("*.py"):
        if module_name(path) != "config":
            tree = ast.parse(path.read_text())
            names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
            assert not names & {"environ", "getenv"}, f"{path}: only config.py reads those"


@pytest.mark.parametrize(
    ("importer", "source", "wrong"),
    [
        ("ir.views", "from npaccel.errors import ViewError", False),
        ("ir.views", "import npaccel.runtime.engine", True),
        ("ir.views", "from npaccel import runtime", True),
        ("ir.views", "from ..runtime import engine", True),
        ("ir.views", "from .nodes import View", False),
        ("ir.ops", "import llvmlite.ir", True),
        ("ir.ops", "from llvmlite import ir", True),
        ("backends.llvm.emit", "import llvmlite.ir", False),
        ("backends.llvm.emit", "from npaccel.ir.reference import kernels", False),
        ("backends.llvm.emit", "from npaccel.caches import program", True),
        ("backends.llvm.emit", "import npaccel.observe.events", False),
        ("backends.llvm.emit", "import npaccel.observe.explain", True),
        ("caches.program", "from npaccel.backends import base", True),
        ("runtime.engine", "from npaccel.backends import base", False),
        ("runtime.engine", "from npaccel.dispatch import array", True),
        ("cluster.planner", "from npaccel.runtime import trace", False),
        ("cluster.planner", "from npaccel.dispatch import array", True),
        ("runtime.engine", "from npaccel.cluster import maps", True),
        ("cluster.planner", "def f():\n    import distributed", True),
        ("cluster.dask_workers", "def f():\n    import distributed", False),
        ("dispatch.array", "def f():\n    import npaccel.runtime.engine", True),
        ("dispatch.array", "def f():\n    from math import pi", True),
        ("backends.llvm.emit", "def f():\n    import llvmlite", False),
        ("backends.registry", "def f():\n    import npaccel.backends.llvm.target", False),
        ("backends.registry", "def f():\n    import npaccel.runtime.engine", True),
        ("config", "import numpy", True),
        ("", "from npaccel.dispatch.array import Array", False),
        ("", "from npaccel.runtime.engine import Engine", True),
        ("api", "from npaccel.runtime.engine import Engine", False),
        ("cli", "from npaccel.runtime.engine import Engine", True),
        ("demo", "import npaccel", True),
        ("commands", "import npaccel", False),
        ("ir.views", "later('npaccel.runtime.engine')", True),
        ("ir.views", "if TYPE_CHECKING:\n    from npaccel import runtime", False),
        ("ir.views", "if TYPE_CHECKING:\n    pass\nelse:\n    later('npaccel.runtime')", True),
        ("api", "if TYPE_CHECKING:\n    pass\nelse:\n    later('npaccel.runtime.engine')", False),
    ],
)
def test_the_rules_themselves(importer: str, source: str, wrong: bool) -> None:
    problems = [problem(entry) for entry in imports_of(source, importer)]
    assert any(problems) is wrong, problems
