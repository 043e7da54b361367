"""What README.md and docs/ say is so: the code runs, the settings exist, the files are there."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
import types
from pathlib import Path

import pytest

from npaccel.config import SETTINGS

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "bench/README.md", *(ROOT / "docs").rglob("*.md")])


# What differs between machines: kernels' names, and how they write, which depends on caches.
MACHINES = re.compile(r"k_[0-9a-f]{12}|(?<= f8 )(contiguous|streamed)")


@pytest.mark.pending
def test_the_tour_prints_what_the_readme_says(tmp_path: Path) -> None:
    """In a new process, with an empty cache and the settings that a user has."""
    readme = (ROOT / "README.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    (printed,) = re.findall(r"```text\n(.*?)```", readme, re.DOTALL)
    (tmp_path / "tour.py").write_text(code)
    kept = {k: v for k, v in os.environ.items() if not k.startswith("NPACCEL_")}
    done = subprocess.run(
        [sys.executable, "tour.py"],
        cwd=tmp_path,
        env=kept | {"NPACCEL_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert MACHINES.sub("*", done.stdout) == MACHINES.sub("*", printed)


def test_every_setting_is_documented_as_it_is() -> None:
    table = re.findall(
        r"^\| `(\w+)` \| `(\w+)` \| `([\w.]+)` \|",
        (ROOT / "docs/usage.md").read_text(),
        re.MULTILINE,
    )
    assert table == [(s.name, s.variable, str(s.default)) for s in SETTINGS]


CODE = re.compile(r"```python\n(.*?)```", re.DOTALL)
TAUGHT = [ROOT / "docs" / page for page in ("tutorial.md", "cluster.md")]
TAUGHT += sorted((ROOT / "docs/howto").glob("*.md"))


@pytest.mark.pending
def test_what_the_pages_teach_runs(tmp_path: Path) -> None:
    """Each page's code in a namespace of its own, with the settings that a user has."""
    pages = {page.name: "".join(CODE.findall(page.read_text())) for page in TAUGHT}
    assert sum(map(bool, pages.values())) >= 6
    program = f"for name, code in {pages!r}.items():\n    exec(compile(code, name, 'exec'), {{}})\n"
    (tmp_path / "pages.py").write_text(program)
    kept = {k: v for k, v in os.environ.items() if not k.startswith("NPACCEL_")}
    done = subprocess.run(
        [sys.executable, "pages.py"],
        cwd=tmp_path,
        env=kept | {"NPACCEL_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.pending
def test_the_plan_on_the_page_of_maps_is_what_is_printed(tmp_path: Path) -> None:
    page = (ROOT / "docs/cluster.md").read_text()
    (printed,) = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    (tmp_path / "page.py").write_text("".join(CODE.findall(page)))
    kept = {k: v for k, v in os.environ.items() if not k.startswith("NPACCEL_")}
    done = subprocess.run(
        [sys.executable, "page.py"],
        env=kept | {"NPACCEL_CACHE_DIR": str(tmp_path / "cache")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.endswith(printed)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_site_has_the_pictures_of_the_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tool is asked without mkdocs, which `make docs` has."""
    for name in ("griffe", "mkdocs", "mkdocs.structure", "mkdocs.structure.files"):
        stand_in = types.ModuleType(name)
        stand_in.__dict__.update(Extension=object, Object=object, File=object, Files=object)
        monkeypatch.setitem(sys.modules, name, stand_in)
    shown = runpy.run_path(str(ROOT / "tools/site.py"))["on_page_markdown"]
    page = types.SimpleNamespace(file=types.SimpleNamespace(src_uri="cluster.md"))
    for text in ("![row block](maps/row_block.svg)", "[maps](usage.md#arrays)"):
        assert shown(text, page=page, files=None) == text
    assert (
        shown("[the tool](../tools/site.py)", page=page, files=None) == "the tool (`tools/site.py`)"
    )


# Of bench/: what others import, and what has no contenders but NumPy.
NO_QUESTIONS = {
    "across", "array_programs", "backends", "bandwidth", "blas_beside", "call_arrays", "calls",
    "choice", "cluster", "contenders", "digests", "doctor", "foreseen", "fresh", "functions",
    "grid_statements", "harness", "idioms", "looks", "loops", "meanwhile", "mixed_blocks",
    "mixed_statements", "model_steps", "mutants", "namespaces", "npbench", "planted",
    "planted_programs", "profile_loop", "profiles", "program_statements", "program_texts",
    "random_calls", "random_grids", "random_mixed", "random_numbers", "random_programs", "rows",
    "run_all", "smaller_loops", "soak_cache", "soak_calls", "soak_changing", "soak_cluster",
    "soak_cluster_programs", "soak_futures", "soak_grids", "soak_guard", "soak_loops", "soak_mixed",
    "soak_programs", "special_functions", "steps", "tiny_calls", "weak_scaling", "weights", "whole",
}  # fmt: skip


def test_every_benchmark_is_listed_and_run() -> None:
    questions = {path.stem for path in (ROOT / "bench").glob("*.py")} - NO_QUESTIONS
    listed = re.findall(r"^\| `(\w+)\.py`", (ROOT / "bench/README.md").read_text(), re.MULTILINE)
    runs = re.findall(r'^    "(\w+)",', (ROOT / "bench/run_all.py").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(runs) == sorted(questions)


def test_the_page_of_operations_is_what_is_written_now() -> None:
    """`make ops` writes it anew."""
    tool = runpy.run_path(str(ROOT / "tools/ops.py"))
    assert "\n".join(tool["page"]()) + "\n" == (ROOT / "docs/ops.md").read_text()
    assert tool["unlisted"]() == {"copy"}


DESIGN, GLOSSARY = (ROOT / "docs" / page for page in ("design.md", "glossary.md"))
SOURCES = [p for p in (ROOT / "npaccel").rglob("*.*") if p.suffix in (".py", ".c", ".h")]


def test_the_design_is_short() -> None:
    assert len(DESIGN.read_text().splitlines()) <= 400


@pytest.mark.parametrize("page", [DESIGN, GLOSSARY], ids=lambda page: page.name)
def test_files_that_are_named_are_there(page: Path) -> None:
    """C files by their bare names, others by the end of their path."""
    named = set(re.findall(r"[\w/]+\.(?:py|c|h)\b", page.read_text()))
    paths = [f"/{path.relative_to(ROOT)}" for path in [*SOURCES, *ROOT.glob("t*/*.py")]]
    assert len(named) > 40
    assert [name for name in named if not any(p.endswith(f"/{name}") for p in paths)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_paths_that_are_named_are_there(page: Path) -> None:
    """Of files and folders of the repository, whole."""
    named = re.findall(r"`((?:npaccel|tests|tools|bench|examples)/[\w/.-]*)`", page.read_text())
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_notes_that_are_named_are_there() -> None:
    """Comments in the source that a page sends its reader to."""
    named = set(re.findall(r"Note \[([^\]]+)\]", " ".join(DESIGN.read_text().split())))
    code = "".join(path.read_text() for path in SOURCES)
    written = set(re.findall(r"(?:/\*|#) Note \[([^\]]+)\]", code))
    assert len(named) > 5
    assert named <= written
