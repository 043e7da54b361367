"""What `mkdocs` asks while it builds the site: README.md is the first page, and links that lead out
of the site are shown as the file's name. In docstrings, what stands behind a name's colon is a
description, not a type."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import griffe
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#:]+)(#[^)]*)?\)")
ENTRY = re.compile(r"^(\w[\w, *.]*) : (.+)$", re.MULTILINE)
SECTIONS = re.compile(r"^(Parameters|Attributes|Raises)\n-+\n(.*?)(?=^\w+\n-+\n|\Z)", re.M | re.S)


class Described(griffe.Extension):  # type: ignore[misc]
    """Has griffe read `name : words` as a name and its description."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of what was found."""
        if obj.docstring is not None:
            text = SECTIONS.sub(lambda m: ENTRY.sub(r"\1\n    \2", m[0]), obj.docstring.value)
            obj.docstring.value = text


def on_files(files: Files, config: Any) -> Files:
    """Add the first page."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "index.md", content=text.replace("](docs/", "](")))
    return files


def on_page_markdown(markdown: str, *, page: Any, files: Files, **_: Any) -> str:
    """Name a file of the repository that is no page; what is nowhere stays a link, and is told."""
    folder = (ROOT / "docs" / page.file.src_uri).parent

    def shown(match: re.Match[str]) -> str:
        target = (folder / match[2]).resolve()
        inside = target.is_relative_to(ROOT / "docs") and target.suffix == ".md"
        if inside or not target.exists():
            return match[0]
        name = target.relative_to(ROOT).as_posix()
        return f"`{name}`" if match[1].strip("`") in name else f"{match[1]} (`{name}`)"

    return LINK.sub(shown, markdown)
