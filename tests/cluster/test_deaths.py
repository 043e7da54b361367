"""Ends of a cluster's processes: what is lost is named, what was kept comes back."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from test_living import ENVIRONMENT

pytest.importorskip("distributed")
pytestmark = pytest.mark.pending
BENCH = Path(__file__).parents[2] / "bench"


def run(folder: Path, text: str) -> str:
    """What such a program prints, in a process of its own: what is lost there stays lost."""
    script = folder / "script.py"
    script.write_text(text)
    done = subprocess.run(
        [sys.executable, script, BENCH],
        check=False,
        capture_output=True,
        text=True,
        timeout=100,
        env=ENVIRONMENT,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


DRIVER_ENDS = """
import os, signal
import numpy as np
import npaccel

if __name__ == "__main__":
    values = np.random.default_rng(1).normal(size=(300, 200))
    cluster = npaccel.Cluster(1)
    x = npaccel.asarray(values.copy(), device=cluster)
    y = npaccel.evaluate(x * 2.0)
    os.kill(cluster._process.pid, signal.SIGKILL)
    cluster._process.wait()
    try:
        y[0, 0]
    except RuntimeError as error:
        assert "lies on cluster(1) alone" in str(error), error
        print("told")
    assert (np.asarray(npaccel.evaluate(x * 3.0)) == values * 3.0).all()
    assert any(one.state.startswith("unavailable") for one in npaccel.devices().devices)
    cluster.close()
    assert not npaccel._native.clusters()
    del y
"""


def test_the_end_of_the_driver_is_an_error(tmp_path: Path) -> None:
    """What it had is named; all else lives."""
    assert run(tmp_path, DRIVER_ENDS) == "told\n"


BEGIN = """
import os, signal, sys
import numpy as np
import npaccel
sys.path.append(sys.argv[1])
from soak_cluster import processes

if __name__ == "__main__":
    values = np.random.default_rng(1).normal(size=(1000, 300))
"""

WORKER_ENDS = """
    with npaccel.Cluster(2) as cluster:
        x = npaccel.asarray(values.copy(), device=cluster)
        y = npaccel.evaluate(x * 2.0)
        z = npaccel.asarray(values + 1.0)
        os.kill(processes(cluster._process.pid)[0], signal.SIGKILL)
        for read in (lambda: float(y.sum()), lambda: float((y + 1.0).max())):
            try:
                read()
            except RuntimeError as error:
                assert "cluster(2) alone" in str(error), error
                print("told")
        assert (np.asarray(npaccel.evaluate(x * 3.0)) == values * 3.0).all()
        assert (np.asarray(npaccel.evaluate(z * 2.0)) == (values + 1.0) * 2.0).all()
        w = npaccel.asarray(values.copy(), device=cluster)
        assert (np.asarray(npaccel.evaluate(w - 1.0)) == values - 1.0).all()
        del y
"""


def test_the_end_of_a_worker_is_an_error(tmp_path: Path) -> None:
    """What it alone had is named; what the program has, too, and what comes after, is right."""
    assert run(tmp_path, BEGIN + WORKER_ENDS) == "told\n" * 2


SUCCESSOR = """
    npaccel.config.threshold = 0
    with npaccel.Cluster(2) as cluster:

        def step():
            x = npaccel.asarray(values.copy(), device=cluster)
            y = np.sqrt(x * x + 1.0)
            y[1:] -= x[:-1] * 0.25
            return np.asarray(npaccel.evaluate(y)).tobytes()

        expected = step()
        lost = npaccel.evaluate(npaccel.asarray(values.copy(), device=cluster) + 1.0)
        before = cluster.stats()
        assert before["compiled"]
        os.kill(processes(cluster._process.pid)[0], signal.SIGKILL)
        try:
            lost[5, 5], lost[-5, 5]
        except RuntimeError:
            del lost
        assert step() == expected
        after = cluster.stats()
        assert after["compiled"] == before["compiled"], (before, after)
        print(after["shipped"] > before["shipped"])
"""


def test_the_successor_of_a_worker_compiles_nothing_again(tmp_path: Path) -> None:
    assert run(tmp_path, BEGIN + SUCCESSOR) == "True\n"


COMES_BACK = """
    with npaccel.Cluster(3) as cluster:
        x = npaccel.asarray(values.copy(), device=cluster)
        y, kept = npaccel.evaluate(x * 2.0, x - 1.0)
        lost = npaccel.evaluate(x + 5.0)
        assert npaccel.checkpoint(y, kept) == 2
        expected = values * 2.0
        y += 1.0
        expected += 1.0
        npaccel.evaluate(y)
        y[3] = 0.25
        expected[3] = 0.25
        lost *= 2.0
        z = npaccel.evaluate(y[1:] * y[:-1])
        del kept
        for time in range({times}):
            os.kill(processes(cluster._process.pid)[0], signal.{signal})
            y *= 3.0
            expected_z = expected[1:] * expected[:-1] if time == 0 else expected_z
            expected *= 3.0
            assert np.asarray(npaccel.evaluate(y * 1.0)).tobytes() == expected.tobytes()
        assert np.asarray(z).tobytes() == expected_z.tobytes()
        stats = cluster.stats()
        assert stats["returns"] == {times} and stats["checkpoints"] == 1, stats
        try:
            lost[5, 5]
        except RuntimeError as error:
            print("told")
        del lost
        assert npaccel.checkpoint(values) == 0
        cluster.checkpoint()
        assert cluster.stats()["checkpoints"] == 2
"""


@pytest.mark.parametrize(
    ("how", "times"), [("SIGKILL", "2"), pytest.param("SIGSTOP", "1", marks=pytest.mark.slow)]
)
def test_what_was_kept_comes_back(tmp_path: Path, how: str, times: str) -> None:
    """And what was written in place without being kept is lost."""
    program = BEGIN + COMES_BACK.replace("{signal}", how).replace("{times}", times)
    assert run(tmp_path, program) == "told\n"


CALLS = """
    with npaccel.Cluster(2) as cluster:
        made = npaccel.Map.block(values.shape, 2)
        x = npaccel.asarray(values.copy(), device=cluster, map=made)
        npaccel.evaluate(x * 1.0)  # it is there
        assert npaccel.checkpoint(x) == 1

        def write(part):
            part *= 2.0

        npaccel.forall(write, x)
        y = npaccel.forall(lambda part: part + 1.0, x)
        os.kill(processes(cluster._process.pid)[1], signal.SIGKILL)
        npaccel.forall(write, x)
        assert np.asarray(x).tobytes() == (values * 4.0).tobytes()
        assert np.asarray(y).tobytes() == (values * 2.0 + 1.0).tobytes()
        total = npaccel.reduce(np.maximum, y)
        print(total == (values * 2.0 + 1.0).max(), cluster.stats()["returns"])
"""


@pytest.mark.slow
def test_functions_are_called_again_after_a_death(tmp_path: Path) -> None:
    assert run(tmp_path, BEGIN + CALLS) == "True 1\n"
