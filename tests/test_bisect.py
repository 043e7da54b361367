"""`npaccel bisect`: which operation makes a program print something else than with NumPy."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import npaccel
from npaccel.bisecting import _array_differs, _text_differs

HERE = str(Path(npaccel.__file__).parent.parent)
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"}
ENVIRONMENT |= {"PYTHONPATH": HERE, "NPACCEL_CACHE": "off", "NPACCEL_TIERING": "eager"}
# Makes one operation wrong in everything that compiles it, as long as npaccel is not off.
PLANT = """\
import dataclasses
import os
from types import MappingProxyType
if os.environ["NPACCEL_GUARD"] != "off" if "NPACCEL_GUARD" in os.environ else True:
    from npaccel.ir import ops
    row = ops._TABLE["maximum", "f"]
    wrong = dataclasses.replace(row, body=lambda x, y: (x > y).select(x + 1e-3, y))
    ops._TABLE = MappingProxyType({**ops._TABLE, ("maximum", "f"): wrong})
"""
PROGRAM = """\
import sys
{first}
import numpy as np
x = np.linspace(0.5, 1.0, 100_000)
y = x * 2 + 1
for i in range(3):
    y = np.sqrt(y * y + x) + i
    y[:100] *= 2
z = np.maximum(y, x)  # here
for i in range(3):
    z = z * 1.01 - x
if "quiet" not in sys.argv:
    print("sum", z.sum(), sys.argv[1:])
np.save("z.npy", z)
"""


def run(*words: str, where: Path, **more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "npaccel", *words]
    return subprocess.run(
        command, cwd=where, env=ENVIRONMENT | more, capture_output=True, text=True, check=False
    )


@pytest.fixture
def where(tmp_path: Path) -> Path:
    (tmp_path / "plant.py").write_text(PLANT)
    (tmp_path / "right.py").write_text(PROGRAM.format(first=""))
    (tmp_path / "wrong.py").write_text(PROGRAM.format(first="import plant"))
    return tmp_path


LINE = next(n for n, line in enumerate(PROGRAM.splitlines(), 1) if "# here" in line)


@pytest.mark.pending
def test_a_wrong_kernel_is_found_by_what_the_program_prints(where) -> None:
    done = run("bisect", "wrong.py", "one", "--two", where=where)
    assert (done.returncode, done.stderr) == (1, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "NumPy: the same twice."
    assert re.fullmatch(r"npaccel: printed: \"sum .* instead of \"sum .* in line 1\.", lines[1])
    (number, total, place) = re.search(
        r"^Operation (\d+) of (\d+) is the first that changes it: maximum at (\S+)  "
        r"f8\[100000\] f8\[100000\] f8\[100000\]$",
        done.stdout,
        re.MULTILINE,
    ).groups()
    assert place == f"{where / 'wrong.py'}:{LINE}"
    trials = re.findall(r"^  the first (\d+): (right|wrong)$", done.stdout, re.MULTILINE)
    assert len(trials) <= 5
    assert all((int(n) < int(number)) == (what == "right") for n, what in trials)
    assert "in kernel k_" in done.stdout and "it is right: it is the kernel." in done.stdout
    assert f"Check mode: maximum at {place} differs from the reference" in done.stdout
    again = f"Again: NPACCEL_TIERING=eager npaccel run --until={number} -- wrong.py one --two"
    assert lines[-1].strip() == again
    # It is as it says: one operation fewer, and the program is right.
    told = {n: run("run", f"--until={n}:told", "wrong.py", where=where) for n in (number, total)}
    fewer = run("run", f"--until={int(number) - 1}", "wrong.py", where=where)
    plain = run("run", "right.py", where=where)
    assert fewer.stdout == plain.stdout != told[number].stdout
    assert "the last of npaccel's is " in fewer.stderr
    assert json.loads((where / "told").read_text())["over"] is False


@pytest.mark.pending
def test_a_file_is_compared_and_what_is_right_is_right(where) -> None:
    assert (
        "z.npy: np.float64("
        in run("bisect", "--file=z.npy", "wrong.py", "quiet", where=where).stdout
    )
    done = run("bisect", "--file", "z.npy", "right.py", where=where)
    assert done.returncode == 0, done.stdout
    last = done.stdout.splitlines()[-1]
    assert re.fullmatch(r"npaccel: nothing differs; \d\d operations were recorded\.", last)


def test_what_can_not_be_found(where) -> None:
    (where / "clock.py").write_text("import time\nprint(time.time_ns())\n")
    done = run("bisect", "--scale=0", "clock.py", where=where)
    assert done.returncode == 2 and "not do the same each time with NumPy: printed" in done.stdout
    (where / "fails.py").write_text("raise ValueError('as asked')\n")
    done = run("bisect", "fails.py", where=where)
    assert done.returncode == 0
    assert "NumPy: the same twice; exit status 1 (ValueError: as asked).\n" in done.stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "npaccel bisect needs a program"),
        (["-"], "can't read the program from standard input"),
        (["--scale=much", "a.py"], "--scale=much is not allowed; it must be a number"),
        (["--file"], "--file needs a value"),
        (["--report", "a.py"], "npaccel bisect has no option --report"),
    ],
)
def test_wrong_words(words, told, where) -> None:
    done = run("bisect", *words, where=where)
    assert (done.returncode, done.stdout) == (2, "") and told in done.stderr


def test_the_help_and_a_wrong_number(where) -> None:
    assert "usage: npaccel bisect" in run("bisect", "--help", where=where).stdout
    done = run("run", "--until=x", "right.py", where=where)
    assert done.returncode == 2 and "--until=x is not allowed" in done.stderr


@pytest.mark.pending
@pytest.mark.parametrize("number", [0, 1, 3, 8, 10**6])
def test_with_any_number_the_program_is_the_same(where, number) -> None:
    (where / "macro.py").write_text("""\
import numpy as np, npaccel
@npaccel.macro
def step(u, v):
    w = (u * v + 1) % 97.0
    u += w
    return w.sum()
u, v = (npaccel.asarray(np.arange(float(n), n + 9000)) for n in (1, 2))
npaccel.config.threshold = 0
for i in range(4):
    print(step(u, v), u[3], (u - v)[::7].max(), np.sort(u)[5], u[u > 9].size)
""")
    plain = run("run", "macro.py", where=where, NPACCEL_GUARD="off")
    done = run("run", f"--until={number}:told", "macro.py", where=where)
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout)
    told = json.loads((where / "told").read_text())
    assert told["over"] == (number < 1000) and told["recorded"] > 10


def test_texts_and_arrays_that_are_near() -> None:
    assert _text_differs("a 1.0 b", "a 1.0000001 b", 1e-6) == ""
    assert "in line 2" in _text_differs("x\na 1.0 b", "x\na 1.1 b", 1e-6)
    assert "in line 1" in _text_differs("a 1.0 b", "c 1.0 b", 1e-6)
    assert _text_differs("a\n", "a\nb\n", 1e-6) == "2 lines instead of 1"
    assert _text_differs("[1e3 -2e-17]", "[1e3 3e-17]", 1e-6) == ""  # of the line's largest
    assert _text_differs("nan inf", "nan inf ", 1e-6) != ""
    assert _text_differs("nan -inf", "nan inf", 1e-6) != ""
    x = np.array([1.0, np.nan, 3.0])
    assert _array_differs(x, x.copy(), 0.0) == ""
    assert "at (2,)" in _array_differs(x, np.array([1.0, np.nan, 3.001]), 1e-6)
    assert "instead of float64" in _array_differs(x, x.astype("f4"), 1e-6)
    assert "at (0,)" in _array_differs(np.arange(3), np.array([9, 1, 2]), 1e6)
