"""`npaccel cluster start`: workers in one shell, programs in another, nothing left at the end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_living import ENVIRONMENT

from npaccel import BackendUnavailable, ConfigError, _native, commands
from npaccel.cluster import dask_local

pytest.importorskip("distributed")
COMMAND = Path(sys.executable).with_name("npaccel")
SCRIPT = """
import numpy as np

x = np.arange(90_000.0).reshape(300, 300)
y = x * 2 + 1
y[1:] += x[:-1]
print(y.sum(), np.asarray(y)[5, 5])
"""


def session(leader: int) -> list[int]:
    """Processes that were started by it, and it."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(stat[3]) == leader and stat[0] != "Z":
            found.append(int(folder.name))
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked for there")
@pytest.mark.parametrize(
    "how", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM]
)
def test_a_program_of_another_shell_uses_it_and_nothing_is_left(tmp_path: Path, how: int) -> None:
    """Ctrl-C goes to all processes of the terminal, SIGTERM to one."""
    if not _native.guarded():
        pytest.skip("nothing can be hidden")
    command = [COMMAND, "cluster", "start", "--workers", "2", "--address", "127.0.0.1:0"]
    with (
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
            start_new_session=True,
        ) as started,
        ExitStack() as stack,
    ):
        assert started.stdout is not None and started.stderr is not None
        words = started.stdout.readline().split()
        assert words[:3] == ["2", "workers", "at"], started.stderr.read()
        stack.callback(started.kill)
        if how == signal.SIGTERM:
            script = tmp_path / "script.py"
            script.write_text(SCRIPT)
            run = [COMMAND, "run", "--min-size=0", "--cluster", words[3].rstrip(";"), script]
            done = subprocess.run(run, capture_output=True, text=True, env=ENVIRONMENT, check=True)
            x = np.arange(90_000.0).reshape(300, 300)
            y = x * 2 + 1
            y[1:] += x[:-1]
            assert done.stdout == f"{y.sum()} {y[5, 5]}\n"
        assert len(session(started.pid)) >= 3
        (os.killpg if how == signal.SIGINT else os.kill)(started.pid, how)
        _, told = started.communicate()
    assert (started.returncode, told) == (0, "")
    end = time.monotonic() + 60
    while (left := session(started.pid)) and time.monotonic() < end:
        time.sleep(0.02)  # Python's resource tracker ends when it sees that nobody is there
    assert left == []


def test_an_address_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        command = [COMMAND, "cluster", "start", "--workers", "1", "--address", address]
        done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, check=False)
    assert done.returncode == 2
    assert f"the address {address} can't be used (Address already in use)" in done.stderr


@pytest.mark.parametrize("address", ["here", "127.0.0.1", "a:b", "tls://127.0.0.1:1", "h:1/x"])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(ConfigError, match=f"--address {address}: that is no HOST:PORT"):
        dask_local.serve(1, address, 1, print)


def test_no_workers(capsys: Any) -> None:
    with pytest.raises(SystemExit):
        commands.main(["cluster", "start", "--workers", "0"])
    assert "must be at least 1, not 0" in capsys.readouterr().err


def test_dask_is_not_installed(monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert commands.main(["cluster", "start", "--workers", "1"]) == 2
    assert "pip install npaccel[cluster]" in capsys.readouterr().err


def test_workers_that_do_not_come_up(monkeypatch: Any) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise RuntimeError("Cluster failed to start") from ModuleNotFoundError("no module 'x'")

    monkeypatch.setattr(dask_local, "_started", fails)
    words = r"2 workers were to start, and did not \(ModuleNotFoundError: no module 'x'\)"
    with pytest.raises(BackendUnavailable, match=words):
        dask_local.serve(2, "127.0.0.1:0", 1, print)
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_workers_that_end_while_they_are_waited_for(monkeypatch: Any) -> None:
    class Alone:
        class scheduler:  # noqa: N801
            workers = ()

        closed = False

        def close(self, timeout: float) -> None:
            self.closed = True

    found = Alone()
    monkeypatch.setattr(dask_local, "_started", lambda *_, **__: found)
    monkeypatch.setattr(dask_local, "START_S", -1.0)
    with pytest.raises(BackendUnavailable, match="0 were there"):
        dask_local.serve(2, "127.0.0.1:0", 1, print)
    assert found.closed
