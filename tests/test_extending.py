"""docs/extending.md, step by step: its edits, applied to a copy of the package, do what it says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import llvmlite.binding as llvm
import pytest

import npaccel

pytestmark = pytest.mark.pending  # its programs look for kernels
PAGE = Path(__file__).parent.parent / "docs/extending.md"
BLOCKS = re.compile(r"```(diff|python|toml)\n(.*?)```", re.DOTALL)
CHANGE = re.compile(r"^--- (\S+)\n", re.MULTILINE)


def chapters() -> dict[str, list[tuple[str, str]]]:
    """Kind and text of the code of each chapter that has some."""
    _, *rest = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)
    found = {text.partition("\n")[0]: BLOCKS.findall(text) for text in rest}
    return {title: blocks for title, blocks in found.items() if blocks}


def changed(source: str, hunk: str) -> str:
    """The source with one hunk of a difference; what it takes out must be there once."""
    lines = [line for line in hunk.splitlines() if line]
    before = "\n".join(line[1:] for line in lines if line[0] in " -")
    after = "\n".join(line[1:] for line in lines if line[0] in " +")
    assert source.count(before) == 1, f"the page's edit does not fit any more:\n{before}"
    return source.replace(before, after)


def applied(difference: str, package: Path) -> list[str]:
    """Change files of the copy; the names of these."""
    _, *files = CHANGE.split(difference)
    for name, hunks in zip(files[::2], files[1::2], strict=True):
        path = package.parent / name
        source = path.read_text()
        for hunk in hunks.split("@@\n")[1:]:
            source = changed(source, hunk)
        path.write_text(source)
    return files[::2]


CHAPTERS = chapters()


def installed(project: str, folder: Path) -> None:
    """What pip would leave of that project's entry points."""
    about = tomllib.loads(project)["project"]
    info = folder / f"{about['name'].replace('-', '_')}-{about['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {about['name']}\nVersion: {about['version']}\n"
    )
    lines = []
    for group, names in about["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in names.items())]
    (info / "entry_points.txt").write_text("\n".join(lines))


def built(package: Path) -> None:
    """Write what the build makes in Python of the tables, anew."""
    tool = PAGE.parent.parent / "tools/operation_names.py"
    words = [sys.executable, tool, package, package / "ir/names.py"]
    subprocess.run(words, check=True, timeout=120)


def prepared(blocks: list[tuple[str, str]], folder: Path) -> str:
    """Do what a chapter's blocks say, but for its program, which is returned."""
    program = ""
    for kind, text in blocks:
        title, _, rest = text.partition("\n")
        if kind == "diff":
            # In one file, as the page's table says.
            assert len(applied(text, folder / "npaccel")) == 1
            built(folder / "npaccel")
        elif kind == "toml":
            installed(text, folder)
        elif title.startswith("# ") and title.endswith(".py"):
            (folder / title.removeprefix("# ")).write_text(rest)
        else:
            program += text
    return program


AVX2 = llvm.get_host_cpu_features().get("avx2", False)


@pytest.mark.parametrize("title", CHAPTERS)
def test_the_page_does_what_it_says(title: str, tmp_path: Path) -> None:
    if title == "A backend" and not AVX2:
        pytest.skip("the page's backend is for AVX2")
    ours = Path(npaccel.__file__).parent
    shutil.copytree(ours, tmp_path / "npaccel", ignore=shutil.ignore_patterns("*.pyc"))
    program = prepared(CHAPTERS[title], tmp_path)
    kept = {k: v for k, v in os.environ.items() if not k.startswith("NPACCEL_")}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=kept | {"PYTHONPATH": str(tmp_path), "NPACCEL_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_without_its_edits_a_program_fails(tmp_path: Path) -> None:
    """The page's programs tell whether the edits were made."""
    edited = [blocks for blocks in CHAPTERS.values() if any(kind == "diff" for kind, _ in blocks)]
    assert len(edited) == 3
    for blocks in edited:
        (program,) = (text for kind, text in blocks if kind == "python")
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            env=os.environ | {"NPACCEL_CACHE_DIR": str(tmp_path / "cache")},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 1
        assert "AssertionError" in done.stderr
