"""docs/coverage.md says what tools/coverage.py finds, and what it adds up to."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
TOOL = ROOT / "tools/coverage.py"
PAGE = (ROOT / "docs/coverage.md").read_text()
EVERY = 20  # of how many rows one is written anew


def _tool() -> Any:
    spec = importlib.util.spec_from_file_location("npaccel_coverage", TOOL)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


tool = _tool()
SAME_NUMPY = f"NumPy {np.__version__}," in PAGE
other_numpy = pytest.mark.skipif(not SAME_NUMPY, reason="the page is about another NumPy")


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def _rows(namespace: str) -> list[list[str]]:
    """Name, call, kind and note of each row of a namespace's table."""
    _, _, rest = PAGE.partition(f"\n## {tool.title(namespace)}\n")
    section = rest.partition("\n## ")[0]
    return [_cells(line) for line in section.splitlines() if line.startswith("| `")]


def _left() -> Counter[tuple[str, str]]:
    """What is not counted, by title and name."""
    section = PAGE.partition("\n## Not counted\n")[2]
    lines = [_cells(line) for line in section.splitlines() if line.startswith("| ")][1:]
    return Counter(
        (where, name) for where, _, names in lines for name in re.findall(r"`(.+?)`", names)
    )


@pytest.mark.parametrize("namespace", tool.NAMESPACES)
def test_every_public_callable_is_there_once(namespace: str) -> None:
    rows = Counter(row[0].strip("`") for row in _rows(namespace))
    left = Counter(
        {name: n for (where, name), n in _left().items() if where == tool.title(namespace)}
    )
    assert rows and max((rows + left).values()) == 1
    if SAME_NUMPY:
        assert sorted(rows) == tool.counted(namespace)
        assert sorted(left) == sorted(tool.not_counted(namespace))


def test_the_totals_are_those_of_the_rows() -> None:
    numbers = {where: Counter(row[2] for row in _rows(where)) for where in tool.NAMESPACES}
    total: Counter[str] = sum(numbers.values(), Counter())
    assert set(total) == set(tool.KINDS)
    assert f"**{tool.share(total)}**" in PAGE
    for where, counts in [*((tool.title(k), v) for k, v in numbers.items()), ("all", total)]:
        cells = [where, *(str(counts[kind]) for kind in tool.KINDS), str(counts.total())]
        assert f"\n| {' | '.join(cells)} |\n" in PAGE


@pytest.mark.pending
@pytest.mark.room
@other_numpy
def test_a_sample_of_rows_is_what_the_tool_finds() -> None:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("NPACCEL_")}
    folder = os.environ["NPACCEL_CACHE_DIR"]
    done = subprocess.run(
        [sys.executable, "-P", TOOL, str(EVERY)],
        env=kept | {"NPACCEL_CACHE_DIR": folder},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) > 25
    assert [line for line in lines if line not in PAGE.splitlines()] == []
