"""Folders of PoCL's files: gone with their process, or with the next one if it was killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from npaccel.backends.opencl.folders import YOUNG_SECONDS, Folder, remove_abandoned


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def _make_old(folder: Path) -> None:
    long_ago = folder.stat().st_mtime - YOUNG_SECONDS - 60
    os.utime(folder, (long_ago, long_ago))


def test_what_a_killed_process_left_is_removed_by_the_next_one(place):
    program = """
import os, signal
from npaccel.backends.opencl.folders import Folder
print(Folder().path, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    environment = os.environ | {"TMPDIR": str(place)}
    command = [sys.executable, "-c", program]
    killed = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL
    left = Path(killed.stdout.strip())
    (left / "kernels").mkdir()
    assert left.parent == place
    remove_abandoned(str(place))
    assert left.exists()  # it is young
    _make_old(left)
    folder = Folder()
    assert os.listdir(place) == [Path(folder.path).name]
    folder.remove()
    assert os.listdir(place) == []


def test_what_is_in_use_or_not_ours_stays(place):
    folder = Folder()
    _make_old(Path(folder.path))
    (place / "elsewhere").mkdir()
    (place / "npaccel-pocl-file").touch()
    (place / "npaccel-pocl-link").symlink_to(place / "elsewhere")
    (place / "npaccel-pocl-unlocked").mkdir()
    _make_old(place / "npaccel-pocl-unlocked")
    before = set(os.listdir(place))
    remove_abandoned(str(place))
    assert before - set(os.listdir(place)) == {"npaccel-pocl-unlocked"}
    child = os.fork()
    if child == 0:
        folder.remove()  # not the fork's
        os._exit(0 if os.path.isdir(folder.path) else 1)
    assert os.waitpid(child, 0)[1] == 0
    folder.remove()
    assert not os.path.isdir(folder.path)
