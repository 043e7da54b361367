"""Schedulers and workers of dask.distributed on this machine: for a program, or until told to end.

This file and dask_workers.py are the only ones that name that library.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import Any
from urllib.parse import urlsplit

from npaccel import system
from npaccel.errors import BackendUnavailable, ConfigError

__all__ = ["local_cluster", "missing", "serve"]

START_S = 60.0  # how long workers may take to be there
LOOK_S = 0.2  # how often it is looked whether it is to end
END_S = 10.0  # how long workers may take to end
LIBRARIES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def missing(error: ImportError) -> BackendUnavailable:
    """What is said where the library is not installed."""
    return BackendUnavailable(
        f"npaccel.cluster: dask.distributed can't be imported ({error}); "
        "install it with `pip install npaccel[cluster]`"
    )


@contextmanager
def local_cluster(workers: int) -> Iterator[Any]:
    """A client of so many new worker processes on this machine, of one thread each.

    Raises
    ------
    BackendUnavailable : dask.distributed is not installed.
    """
    try:
        from distributed import Client
    except ImportError as error:
        raise missing(error) from None
    with _started(workers, 1) as cluster, Client(cluster) as client:
        client.wait_for_workers(workers, timeout=START_S)
        yield client


def _started(workers: int, threads: int, **options: Any) -> Any:
    from distributed import LocalCluster

    return LocalCluster(
        n_workers=workers,
        threads_per_worker=threads,
        dashboard_address=":0",  # any: without one it asks for 8787, and warns
        silence_logs=50,
        **options,
    )


def serve(workers: int, address: str, threads: int, tell: Callable[[str, int], None]) -> None:
    """Have a scheduler and workers here until SIGINT, SIGTERM or SIGHUP; then end them all.

    Parameters
    ----------
    workers : how many processes.
    address : HOST:PORT for the scheduler; port 0 is any that is free.
    threads : that dask, and libraries such as BLAS, may use in each.
    tell : called once all are there, with the address and the number of workers.

    Raises
    ------
    ConfigError : that is no address.
    BackendUnavailable : dask.distributed is not installed; the address is taken, or another
        machine's; workers did not come up.
    """
    host, port = _split(address)
    try:
        import distributed  # noqa: F401
    except ImportError as error:
        raise missing(error) from None
    env = dict.fromkeys(LIBRARIES, str(threads))
    resource_tracker.ensure_running()  # when it starts, it ends that SIGINT is blocked
    with system.told_to_end() as told:
        try:
            cluster = _started(workers, threads, host=host, scheduler_port=port, env=env)
        except (RuntimeError, OSError, ValueError, TimeoutError) as error:
            _end_children()
            raise BackendUnavailable(_why(workers, address, error)) from None
        try:
            _wait_for(cluster, workers, address)
            tell(cluster.scheduler_address, workers)
            while not told():
                time.sleep(LOOK_S)
        finally:
            cluster.close(timeout=END_S)
            _end_children()


def _split(address: str) -> tuple[str, int]:
    scheme, _, rest = address.rpartition("://")
    try:
        found = urlsplit(f"//{rest}")
        host, port = found.hostname, found.port
    except ValueError:
        host = port = None
    if scheme not in ("", "tcp") or host is None or port is None or found.path:
        raise ConfigError(
            f"npaccel cluster start --address {address}: that is no HOST:PORT, as 127.0.0.1:8786; "
            "port 0 is any that is free"
            + ("; for TLS start `dask scheduler --protocol tls`" if scheme == "tls" else "")
        )
    return host, port


def _wait_for(cluster: Any, workers: int, address: str) -> None:
    begin = time.monotonic()
    while len(cluster.scheduler.workers) < workers:
        if time.monotonic() - begin > START_S:
            found = len(cluster.scheduler.workers)
            raise BackendUnavailable(
                _why(workers, address, TimeoutError(f"after {START_S:g} s {found} were there"))
            )
        time.sleep(LOOK_S)


def _why(workers: int, address: str, error: Any) -> str:
    cause = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    number = getattr(cause, "errno", None)
    if isinstance(cause, OSError) and number is not None:
        reason = os.strerror(number) if number > 0 else str(cause)
        return (
            f"npaccel cluster start: the address {address} can't be used ({reason}); end what uses "
            "it, or name another one with --address HOST:PORT: a name of this machine, and port 0 "
            "for any that is free"
        )
    return (
        f"npaccel cluster start: {workers} workers were to start, and did not "
        f"({type(cause).__name__}: {cause}); if that says nothing, the machine may lack memory or "
        "processes for so many, or a file of dask's configuration names what is not there"
    )


def _end_children() -> None:
    """Those that did not end when they were asked."""
    for child in multiprocessing.active_children():
        child.kill()
        child.join()
