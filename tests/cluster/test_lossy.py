"""Processes in network namespaces between which packets are lost: one process's bits."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_living import ENVIRONMENT

pytest.importorskip("distributed")
BENCH = Path(__file__).parents[2] / "bench"


def can_make_networks() -> bool:
    """This is Linux's root, and may make namespaces and devices."""
    if shutil.which("unshare") is None or shutil.which("ip") is None or not os.path.exists(TUN):
        return False
    return subprocess.run(["unshare", "--net", "--mount", "true"], check=False).returncode == 0


TUN = "/dev/net/tun"


@pytest.mark.slow
@pytest.mark.pending
def test_lost_packets_are_sent_again() -> None:
    if not can_make_networks():
        pytest.skip("no network namespaces can be made here")
    soak = [BENCH / "soak_cluster_programs.py", "--address", "{address}", "--workers", "2"]
    network = [BENCH / "namespaces.py", "--workers", "2", "--loss", "5", "--"]
    done = subprocess.run(
        [sys.executable, *network, sys.executable, *soak, "--programs", "3"],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        env=ENVIRONMENT,
    )
    assert done.returncode == 0, done.stderr
    assert "3 programs on 2 workers: 0 wrong" in done.stdout
    lost = re.search(r"of which (\d+) were lost", done.stdout)
    assert lost is not None and int(lost[1]) > 0
