"""The half of the system's room for any system: it is compiled wherever there is a C compiler."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

NATIVE = Path(__file__).parents[1] / "npaccel" / "native"
COMPILER = shutil.which("cc")
FILES = [
    *sorted((NATIVE / "system").glob("*.c")),
    *sorted((NATIVE / "system" / "portable").glob("*.c")),
    NATIVE / "system" / "processor" / "plain.c",
]


@pytest.mark.skipif(COMPILER is None, reason="no C compiler")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_portable_files_compile(path: Path) -> None:
    """Without a word of warning, nothing of Linux being declared that C11 and POSIX have not."""
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-DNPA_PORTABLE", f"-I{NATIVE}"]
    found = subprocess.run(
        [COMPILER or "", *flags, "-fsyntax-only", path], capture_output=True, text=True, check=False
    )
    assert (found.returncode, found.stderr) == (0, "")


def test_there_are_such_files() -> None:
    assert len(FILES) >= 6 and all(path.exists() for path in FILES)
