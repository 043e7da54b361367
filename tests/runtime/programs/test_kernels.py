"""Kernels come from memory, then from disk, then from the compiler."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import npaccel
from npaccel import _native, this_process

pytestmark = pytest.mark.usefixtures("deferred")

PROGRAM = """
import json, sys
import numpy as np
import npaccel
npaccel.config.threshold = 0
x = npaccel.asarray(np.linspace(1.0, 2.0, 5000))
z = npaccel.evaluate((np.log(x) * 2 + x).cumsum()[::7] + (x - x.mean()).std())
counts = npaccel.stats()
names = ("compiles", "kernels", "kernels_loaded")
print(json.dumps([counts[name] for name in names] + ["llvmlite" in sys.modules, float(z.sum())]))
"""


def in_new_process(folder: Path, **environment: str) -> list:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM],
        env=os.environ | {"NPACCEL_CACHE_DIR": str(folder)} | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.pending
def test_a_second_process_needs_no_compiler(tmp_path: Path) -> None:
    compiles, kernels, loaded, llvm, total = in_new_process(tmp_path / "cache")
    assert compiles > 0 and loaded == 0 and llvm
    again = in_new_process(tmp_path / "cache")
    assert again == [0, kernels, compiles, False, total]
    off = in_new_process(tmp_path / "cache", NPACCEL_CACHE="off")
    assert off == [compiles, kernels, 0, True, total]


def test_damaged_entries_are_compiled_again(tmp_path: Path) -> None:
    first = in_new_process(tmp_path / "cache")
    for path in (tmp_path / "cache").glob("*.entry"):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 0x40
        path.write_bytes(data)
    assert in_new_process(tmp_path / "cache") == first
    assert in_new_process(tmp_path / "cache")[0] == 0


@pytest.mark.pending
def test_a_folder_that_can_t_be_used_costs_a_warning_and_no_result(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    # Warnings are errors in that process; this one is no error even there.
    assert in_new_process(tmp_path / "file")[0] > 0


def test_it_warns_once_at_the_user_s_line(tmp_path: Path, setting) -> None:
    setting("cache_dir", str(tmp_path / "cache"))
    (tmp_path / "cache").write_text("")
    a = npaccel.asarray(np.arange(3000.0))
    _native.plans().clear()
    this_process.engine.kernels.clear()
    with pytest.warns(npaccel.errors.NpaccelWarning, match="is not a folder") as seen:
        for i in range(3):
            npaccel.evaluate(a.reshape(3, -1) ** 2 * (i + 1.5) + a[: i + 1].sum())
    assert [warning.filename for warning in seen] == [__file__]


def test_memory_keeps_within_its_bound(setting) -> None:
    """Many different kernels: code that no plan needs is freed."""
    setting("cache", "off")
    setting("code_limit", 1 << 16)
    setting("trace_cache", 4)
    a = npaccel.asarray(np.linspace(0.0, 1.0, 300))
    before = _native.stats()["code_bytes"]
    for i in range(60):
        x = a
        for bit in range(6):
            x = x * 2.0 if i >> bit & 1 else x + 1.0
        npaccel.evaluate(x)
    kernels = this_process.engine.kernels
    assert kernels.size_bytes <= 1 << 16
    # Programs, and the last runs that explain() remembers, keep a few more.
    assert _native.stats()["code_bytes"] - before <= (1 << 16) + 24 * 8192


@pytest.mark.parametrize("made", [lambda x: x * 2.5, lambda x: np.sin(x) * np.cos(x)])
def test_results_too_large_for_the_cache_pass_it_by(made, deferred) -> None:
    for n, passed in ((1 << 21, True), (1 << 12, False)):
        x = npaccel.asarray(np.ones(n))
        npaccel.evaluate()
        result = made(x)
        assert ("streamed" in str(npaccel.explain(result))) == passed
        npaccel.evaluate(result)


@pytest.mark.parametrize(
    ("made", "passed"),
    [
        (lambda x: x[1:, 1:] * 2.5, True),
        (lambda x: np.roll(x, 1, 1) * 2.5, True),
        (lambda x: x[1:, 1:] - x[1:, 1:].sum(), True),
        (lambda x: (x[:, 1:] * 2.5, x[:, 1:] + 1.0), False),  # the code looks for one's lines
        (lambda x: x.reshape(-1, 602)[:, :500] * 2.5, False),  # short rows
    ],
)
def test_rows_past_the_cache_may_begin_anywhere(made, passed, deferred) -> None:
    x = npaccel.asarray(np.ones((1602, 1204)))
    npaccel.evaluate()
    result = made(x)
    npaccel.evaluate(*(result if isinstance(result, tuple) else (result,)))
    assert ("streamed" in str(npaccel.explain())) == passed


def test_what_the_program_reads_again_stays_in_the_cache(deferred) -> None:
    x = npaccel.asarray(np.ones(1 << 21))
    npaccel.evaluate()
    first = x * 2.5
    again = first + first.sum(keepdims=True)
    npaccel.evaluate(first, again)
    stored = [line for line in str(npaccel.explain()).splitlines() if " writes " in line]
    assert [line.count("streamed") for line in stored] == [0, 1]
