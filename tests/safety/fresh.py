"""Python programs in fresh processes, each with a watchdog."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import npaccel

# Where the npaccel under test is, installed or in the source tree.
PACKAGES = Path(npaccel.__file__).parents[1]
HERE = Path(__file__).parent
WATCHDOG_S = 60.0

# What every program starts with. `pending(n)` gives a deferred array and what it must hold.
PRELUDE = """
import faulthandler, gc, os, signal, sys, threading, time, warnings
faulthandler.dump_traceback_later(float(os.environ["TEST_WATCHDOG_S"]) * 0.8)
if os.environ.get("TEST_FAULTHANDLER") == "before": faulthandler.enable()
import numpy as np
import npaccel
from npaccel import _native
if os.environ.get("TEST_FAULTHANDLER") == "after": faulthandler.enable()
GUARDED = _native.guarded()
def pending(n=1 << 17, seed=1):
    source = np.random.default_rng(seed).standard_normal(n)
    x = npaccel.asarray(source) * 2.0 + 1.0
    assert _native.is_pending(x) == GUARDED or threading.active_count() > 1
    return x, source * 2.0 + 1.0
"""


def environment(extra: dict[str, str] | None = None) -> dict[str, str]:
    inherited = {k: v for k, v in os.environ.items() if k != "PYTHONFAULTHANDLER"}
    path = os.pathsep.join([str(PACKAGES), str(HERE), inherited.get("PYTHONPATH", "")])
    return {**inherited, "PYTHONPATH": path, **(extra or {})}


def run(
    program: str,
    *,
    env: dict[str, str] | None = None,
    prelude: str = PRELUDE,
    watchdog_s: float = WATCHDOG_S,
    limit_kib: int = 0,
) -> subprocess.CompletedProcess[str]:
    """Run `program` after the prelude; more than `watchdog_s` seconds is a failure.

    limit_kib : address space that the process may have (`ulimit -v`); 0: any.
    """
    command = [sys.executable, "-c", prelude + program]
    if limit_kib:
        command = ["bash", "-c", f'ulimit -v {limit_kib}; exec "$@"', "bash", *command]
    try:
        return subprocess.run(
            command,
            env=environment({"TEST_WATCHDOG_S": str(watchdog_s), **(env or {})}),
            capture_output=True,
            text=True,
            timeout=watchdog_s,
            check=False,
        )
    except subprocess.TimeoutExpired as stuck:
        where = (stuck.stderr or b"").decode(errors="replace")
        raise AssertionError(f"not done after {watchdog_s} s:\n{where}") from None


def succeed(program: str, **how: object) -> str:
    """Run `program`; it must end well. Returns what it printed."""
    done = run(program, **how)  # type: ignore[arg-type]
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout
