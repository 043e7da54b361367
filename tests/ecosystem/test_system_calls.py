"""What hands an array's memory to the kernel hands over its values, and what fills it changes no
recorded result: system_calls.py in fresh processes, one per library, as this user and as another.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from . import system_calls

SCRIPT = Path(system_calls.__file__)
LIBRARIES = sorted(set(system_calls.NEEDS.values()))
NOBODY = 65534
WATCHDOG_S = 240.0  # torch takes seconds to import


def run(names: list[str], user: int) -> list[list[str]]:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *names],
        env=os.environ | {"TEST_USER": str(user)},
        capture_output=True,
        text=True,
        timeout=WATCHDOG_S,
        check=False,
    )
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return [line.split() for line in done.stdout.splitlines()]


@pytest.mark.parametrize("user", ["this", "ordinary"])
@pytest.mark.parametrize("library", LIBRARIES, ids=lambda name: name or "standard")
def test_the_kernel_sees_values_and_changes_no_result(library: str, user: str) -> None:
    if user == "ordinary" and os.geteuid() != 0:
        pytest.skip("this user is an ordinary one already, or can't become another")
    if library and importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is missing: install npaccel[ecosystem]")
    names = [name for name, needs in system_calls.NEEDS.items() if needs == library]
    lines = run(names, NOBODY if user == "ordinary" else 0)
    assert lines == [["done", name] for name in names]
