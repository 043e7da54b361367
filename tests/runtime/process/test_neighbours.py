"""Libraries whose threads block SIGSEGV get arrays that are there."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

PROGRAM = """
import numpy as np, npaccel
{first}
a = npaccel.asarray(np.arange(1e6))
plain = np.zeros(1_000_000)
for _ in range(3):
    pending, used = a * 2, npaccel.asarray(plain) + 1
    {second}
    assert numexpr.evaluate("pending + 1")[-1] == 1999999.0
    pending = a * 3
    numexpr.evaluate("pending + 1", out=plain)
    assert plain[-1] == 2999998.0, plain
    assert (used[-1] == 1.0) or used[-1] == 2999999.0
    view = (a * 5).view(np.ndarray)
    assert numexpr.evaluate("sum(view)") == 5 * 499999500000.0
print("fine")
"""


@pytest.mark.parametrize("late", [False, True])
def test_numexpr_reads_and_writes(late: bool) -> None:
    pytest.importorskip("numexpr", reason="NumExpr is missing: install npaccel[bench]")
    lines = ["import numexpr; numexpr.set_num_threads(2)", "pass"]
    program = textwrap.dedent(PROGRAM).format(first=lines[late], second=lines[not late])
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr
