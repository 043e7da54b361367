"""Tracebacks of a program that `npaccel run` runs are those that it has under `python`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import npaccel

HERE = str(Path(npaccel.__file__).parent.parent)
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"} | {"PYTHONPATH": HERE}

SHOW = """
import asyncio, threading, traceback, warnings
import numpy as np

n = 1 << 18
x = np.arange(float(n))
m, i = x.reshape(512, 512), np.arange(n)
pending = x * 2.0

def outer(text):
    return inner(text)

def inner(text):
    return exec(text, globals())

def show(text):
    print("##", text)
    try:
        outer(text)
    except BaseException:
        print(traceback.format_exc())

"""
# What NumPy raises where a call is recorded, where it falls back, and where Python code of ours or
# of NumPy's is in between.
WRONG = """
x + np.zeros(3)
x + pending[:5]
x @ np.zeros(3)
x + object()
x[i + 5]
x['a']
m[1, 2, 3]
x[np.zeros(3, bool)]
x[np.ones((2, 2), bool)]
x.__setitem__(slice(3), np.zeros(7))
x.__setitem__('a', 1)
x.__setitem__(i > 3, np.zeros(7))
np.take(x, i + 5)
x.take(i + 5)
np.concatenate([x, m])
np.where(x, m[:3], 3)
x.sum(axis=3)
np.sum(x, axis=3)
np.sort(x, axis=4)
x.argmax(axis=3)
x.reshape(7)
x.astype("foo")
x.astype([("a", int)])[0].foo
x.view("i3")
x.fill("a")
x.flat["a"]
x.flat[n + 3]
x.flat.__setitem__("a", 3)
complex(x)
float(x)
bool(x > 3)
format(x, "d")
list(pending.sum()[()])
iter(np.add(x.sum(), 1))
np.add(x, x, out=np.zeros(3))
np.add(x, x, x, x)
np.exp(x, dtype="i4")
np.left_shift(x, 1)
i ** -i
np.linalg.inv(m * 0)
np.histogram(x, bins=-1)
np.full(n, [1, 2])
np.copyto(x, m)
np.vectorize(lambda r: 1 / 0)(x)
np.apply_along_axis(lambda r: 1 / 0, 0, m)
np.select([x], [x])
np.einsum("ij,jk", m, x)
x.put([n], 1)
setattr(x, "real", np.zeros(3))
setattr(x, "flat", "a")
np.random.default_rng(1).normal(size=-1)
sorted([x, m])
"""
STRICT = """
1 / x
np.log(-x)
pending / (x - 3) + 1
(x * 1e300).astype("i4")
np.sqrt(-x).sum()
x / 0 / m
"""
# Entries of NumPy's own files: which of its functions stand between differs.
NUMPYS = re.compile(r'  File "[^"]*/numpy/[^\n]*\n(?:    [^\n]*\n)*')


def shown(where: Path, source: str, *command: str) -> str:
    (where / "program.py").write_text(source)
    done = subprocess.run(
        [sys.executable, *command, "program.py"],
        cwd=where,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    return NUMPYS.sub("", re.sub(" at 0x[0-9a-f]+", "", done.stdout + done.stderr))


def compare(where: Path, source: str) -> str:
    expected = shown(where, source)
    ours = shown(where, source, "-m", "npaccel", "run", "--min-size=8")
    assert ours == expected
    return ours


def test_errors_that_the_program_catches(tmp_path: Path) -> None:
    calls = "".join(f"show({line!r})\n" for line in WRONG.strip().splitlines())
    text = compare(tmp_path, SHOW + calls)
    assert text.count("Traceback") >= len(WRONG.strip().splitlines())


@pytest.mark.parametrize("strict", ["np.seterr(all='raise')", "warnings.simplefilter('error')"])
def test_floating_point_errors(tmp_path: Path, strict: str) -> None:
    calls = "".join(f"show({line!r})\n" for line in STRICT.strip().splitlines())
    text = compare(tmp_path, f"{SHOW}{strict}\n{calls}")
    assert text.count("Traceback") == len(STRICT.strip().splitlines())


@pytest.mark.parametrize(
    "end",
    [
        "outer('x[i + 5]')",
        "threading.Thread(target=outer, args=('np.log(-x, dtype=3)',), name='t').start()",
        "asyncio.run(asyncio.to_thread(outer, 'x + np.zeros(3)'))",
        "try: outer('x[i + 5]')\nexcept IndexError as error: raise KeyError(3) from error",
        "try: outer('x[i + 5]')\nexcept IndexError: x['a']",
        "raise ExceptionGroup('both', [ValueError(1), KeyError(2)])",
        "class A:\n    def __del__(self): x[i + 5]\nA()\ndel A",
    ],
)
def test_errors_that_end_a_program_or_a_thread(tmp_path: Path, end: str) -> None:
    text = compare(tmp_path, SHOW + end)
    assert "Traceback" in text and "npaccel" not in text


@pytest.mark.pending
def test_errors_of_npaccel_itself_name_the_users_line(tmp_path: Path) -> None:
    """Of a section that can't be recorded, say; and mistakes of ours keep our lines."""
    source = """
import traceback
import numpy as np
import npaccel
from npaccel.dispatch import fallback

@npaccel.macro
def step(u):
    return float(u[3] + 1)

x = npaccel.asarray(np.ones(1 << 18))
for kind in (npaccel.errors.SectionError, TypeError):
    try:
        step(x) if kind is not TypeError else x["a"]
    except kind:
        print(traceback.format_exc())
    fallback.exact = None
"""
    (tmp_path / "program.py").write_text(source)
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stderr == ""
    meant, mistake = done.stdout.split("\n\n")[:2]
    lines = re.findall(r'File "[^"]*/(\w+\.py)", line (\d+)', meant)
    assert lines == [("program.py", "14"), ("program.py", "9")]
    assert "program.py" in mistake and "fallback.py" in mistake
