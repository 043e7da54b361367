"""A cluster whose scheduler and workers encrypt what they say; what is told where they can't."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_living import COMMAND, ENVIRONMENT, SCRIPT, SHAPE
from test_planner import heat, numbers

import npaccel
from npaccel import BackendUnavailable, Cluster, ConfigError, Map
from npaccel.cluster import dask_workers, wires
from npaccel.cluster.dask_workers import Workers, connected

distributed = pytest.importorskip("distributed")
pytestmark = [
    pytest.mark.pending,
    pytest.mark.usefixtures("deferred"),
    pytest.mark.filterwarnings("ignore"),  # dask's own, of its sockets and event loops
]
OPENSSL = shutil.which("openssl")

SCHEDULER = """
import sys
from distributed import LocalCluster, Security

if __name__ == "__main__":
    certificate, key = sys.argv[1:]
    both = {f"tls_{who}_cert": certificate for who in ("client", "scheduler", "worker")}
    both |= {f"tls_{who}_key": key for who in ("client", "scheduler", "worker")}
    security = Security(tls_ca_file=certificate, require_encryption=True, **both)
    with LocalCluster(n_workers=2, threads_per_worker=1, protocol="tls://", security=security,
                      dashboard_address=None, silence_logs=50) as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
"""


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """One that vouches for itself, and its key."""
    if OPENSSL is None:
        pytest.skip("openssl makes the certificates")
    folder = tmp_path_factory.mktemp("tls")
    made, key = folder / "certificate.pem", folder / "key.pem"
    what = [OPENSSL, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    what += ["-subj", "/CN=npaccel", "-keyout", str(key), "-out", str(made)]
    subprocess.run(what, check=True, capture_output=True, timeout=60)
    return made, key


@pytest.fixture(scope="module")
def address(certificate: tuple[Path, Path]) -> Iterator[str]:
    """Of a scheduler of two workers, in a process of its own."""
    script = certificate[0].with_name("scheduler.py")
    script.write_text(SCHEDULER)
    with subprocess.Popen(
        [sys.executable, script, *certificate],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        found = process.stdout.readline().strip()
        assert found.startswith("tls://")
        yield found
        process.stdin.close()
        process.wait(60)


def security_of(certificate: Path | str, key: Path | str) -> Any:
    return distributed.Security(
        tls_ca_file=str(certificate),
        tls_client_cert=str(certificate),
        tls_client_key=str(key),
        require_encryption=True,
    )


def test_arrays_live_there(address: str, certificate: tuple[Path, Path], setting: Any) -> None:
    setting("tiering", "off")
    with Cluster(address, security=security_of(*certificate)) as cluster:
        assert cluster.nodes == 2
        made = Map.block(SHAPE, 2)
        x = npaccel.asarray(numbers(1).copy(), device=cluster, map=made)
        y = npaccel.asarray(numbers(2).copy(), device=cluster, map=made)
        heat(x, y)
        total = y.sum(axis=0)
        npaccel.evaluate(y, total)
        assert cluster.stats()["messages"] > 0
        found = np.asarray(y).tobytes(), np.asarray(total).tobytes()
    x, y = npaccel.asarray(numbers(1).copy()), npaccel.asarray(numbers(2).copy())
    heat(x, y)
    assert found == (np.asarray(y).tobytes(), np.asarray(y.sum(axis=0)).tobytes())


def test_nodes_encrypt_what_they_say(address: str, certificate: tuple[Path, Path]) -> None:
    with (
        distributed.Client(address, security=security_of(*certificate)) as client,
        Workers(client, 2) as workers,
    ):
        places = workers._fleet._all("place")
        wire = wires.connect(places[0], dask_workers.PULSE, -1)  # with its token, but not encrypted
        with pytest.raises(wires.Gone):
            wire.send(7)
            wire.receive()


@pytest.mark.slow
def test_a_script_runs_by_the_configuration_of_dask(
    address: str, certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    made, key = map(str, certificate)
    tls = "DASK_DISTRIBUTED__COMM__TLS__"
    known = {f"{tls}CA_FILE": made, f"{tls}CLIENT__CERT": made, f"{tls}CLIENT__KEY": key}
    options = {"capture_output": True, "text": True, "timeout": 100}
    plain = subprocess.run([sys.executable, script], check=True, **options)
    there = subprocess.run(
        [COMMAND, "run", "--cluster", address, script],
        check=True,
        env=ENVIRONMENT | known,
        **options,
    )
    assert there.stdout == plain.stdout != ""


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(BackendUnavailable, match="encrypted, and tls_ca_file and tls_client_cert"):
        Cluster("tls://127.0.0.1:9")
    with pytest.raises(BackendUnavailable, match=r"can't be read .*No such file.*none\.pem"):
        connected("tls://127.0.0.1:9", security_of(tmp_path / "none.pem", "other.pem"))
    with pytest.raises(ConfigError, match="certificates are for an address"):
        Cluster(2, security=distributed.Security())


def test_a_key_is_not_told() -> None:
    with pytest.raises(BackendUnavailable) as caught:
        connected("tls://127.0.0.1:9", security_of("a\nb", "very\nsecret"))
    assert "can't be read" in str(caught.value) and "secret" not in str(caught.value)
