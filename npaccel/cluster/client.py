"""A cluster as a program sees it: where arrays can live, and the process that drives it."""

from __future__ import annotations

import pickle
import socket
import struct
import subprocess
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from numbers import Integral
from typing import Any

import numpy as np

from npaccel import _native
from npaccel.cluster.carrying import agile
from npaccel.cluster.maps import Map
from npaccel.cluster.messages import tell
from npaccel.cluster.placing import Layout, Placed, dense_strides, layout_of
from npaccel.cluster.shipping import packed
from npaccel.cluster.wires import TICK_S
from npaccel.errors import BackendUnavailable, ConfigError, MapError

__all__ = ["OPEN", "Cluster"]

Array = np.ndarray[Any, Any]
START_S = 120.0  # for the workers to be there
END_S = 20.0  # for the process to end, once it is told
OPEN: weakref.WeakSet[Cluster] = weakref.WeakSet()
_GREETING = struct.Struct("=IIQ")


class Cluster:
    """Workers of dask.distributed, on which arrays can live and be computed.

    Parameters
    ----------
    where : how many workers of one thread to start on this machine, or the address of a dask
        scheduler (``tcp://host:8786`` or ``tls://host:8786``), all of whose workers are used.
    security : a `distributed.Security` with the certificates for a ``tls://`` address; None: those
        of dask's configuration.

    ``npaccel.asarray(a, device=cluster)`` and ``with npaccel.accelerate(device=cluster):`` have
    arrays live there. `close`, or the end of a ``with`` block, brings home what lives there and
    ends the workers that were started.

    Attributes
    ----------
    nodes : how many workers there are.

    Raises
    ------
    BackendUnavailable : dask.distributed is not installed; nobody answers at the address; its
        certificates are missing; there are no workers, or they differ; nothing can stay pending
        here.
    ConfigError : a number below one; certificates for workers that are started here.
    """

    def __init__(self, where: int | str, *, security: Any = None) -> None:
        if not _native.guarded():
            raise BackendUnavailable(
                "npaccel.Cluster: arrays can't live elsewhere, since nothing can be hidden here; "
                "print(npaccel.devices()) says why"
            )
        _check(where, security)
        self.where = str(where)
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = _started(theirs.fileno(), self.where)
        try:
            self.nodes = int(self._greeting(ours, security))
        except BackendUnavailable:
            ours.close()
            self._process.kill()
            self._process.wait()
            raise
        self.memory = _native.cluster_memory(ours.detach(), f"cluster({where})")
        self._open = True
        self.moves = 0  # by `npaccel.move`
        OPEN.add(self)

    def _greeting(self, connection: socket.socket, security: Any) -> bytes:
        connection.settimeout(START_S)
        try:
            tell(connection, security)
            _wait(connection)
            head = connection.recv(_GREETING.size, socket.MSG_WAITALL)
            status, _, size = _GREETING.unpack(head)
            text = connection.recv(size, socket.MSG_WAITALL)
        except (OSError, struct.error) as error:
            raise BackendUnavailable(
                f"npaccel.Cluster({self.where!r}): the process that drives it did not start"
            ) from error
        if status:
            raise BackendUnavailable(text.decode())
        connection.settimeout(None)
        return text

    def check_open(self) -> None:
        """Raises
        ------
        BackendUnavailable : it was closed.
        """
        if not self._open:
            raise BackendUnavailable(
                f"npaccel.Cluster({self.where}) was closed, so nothing can be there any more; open "
                "another one"
            )

    def ask(self, what: str, *args: Any) -> Any:
        """What the process that drives it answers.

        Raises
        ------
        BackendUnavailable : it has ended, or can't.
        """
        self.check_open()
        try:
            status, body = self.memory.call(pickle.dumps((what, *args)))
        except ConnectionError as error:
            raise BackendUnavailable(f"npaccel.Cluster: {error}") from None
        if status:
            raise BackendUnavailable(f"npaccel.Cluster: {body.decode()}")
        return pickle.loads(body)

    def place(self, array: Array, map: Map | None = None, *, copy: bool = False) -> Any:
        """An array with this content that lives there: the same where it is an Array in npaccel's
        memory, unless it is to be a copy. None: nothing can be hidden.

        Raises
        ------
        MapError : the map is of another shape, or has more nodes than there are workers.
        """
        self.check_open()
        number = 0 if map is None else self._map_number(array, map)
        placed = self.memory.place(array, number, copy)
        if placed is not None and map is not None:
            agile(placed, map)
        return placed

    def _map_number(self, array: Array, made: Map) -> int:
        if made.nodes > self.nodes:
            raise MapError(
                f"a map of {made.nodes} nodes, where the cluster has {self.nodes}; make one of as "
                "many, or open a cluster with more workers"
            )
        dense = layout_of(array.shape, array.strides, 0, array.itemsize)
        if dense is None and array.size:
            raise MapError(
                f"an array of shape {array.shape} and strides {array.strides} has gaps or goes "
                "backwards; place a copy of it"
            )
        if dense is None:
            return 0
        placed = Placed.by(dense, made)
        number: int = self.ask("map", dense, placed.shares)
        return number

    def speeds(self) -> tuple[float, ...]:
        """How fast each worker is beside the fastest, in eighths: weights for a map.

        Measured now, for half a second, on all at once: those that share cores or memory are as
        slow as they will be. ``npaccel.Map.block(shape, cluster.nodes, weights=cluster.speeds())``
        """
        _native.evaluate()
        found: list[float] = self.ask("speeds")
        return tuple(max(1, round(8 * one / max(found))) / 8 for one in found)

    def stats(self) -> dict[str, Any]:
        """What happened there: plans made and found, messages and bytes between nodes, and reasons
        why something ran here, or on one node."""
        _native.evaluate()
        counts, reasons = self.ask("stats")
        return {**counts, "moves": self.moves, "reasons": reasons}

    def fill(
        self, array: Array, function: Callable[..., Any], made: Map, of: Sequence[Array] = ()
    ) -> bool:
        """Have an array that lives here made by the owners of its blocks, of those of others that
        are placed alike; False: they are not here.

        Raises
        ------
        Exception : what the function raises.
        """
        _native.evaluate()
        number, *others = (self.memory.number(one) for one in (array, *of))
        if not number or not all(others):
            return False
        layout = Layout(array.shape, dense_strides(array.shape, array.itemsize), 0, array.itemsize)
        if made.flat:
            layout = Layout((array.size,), (array.itemsize,), 0, array.itemsize)
        blocks = list(made.blocks("memory"))
        sources = [(other, one.dtype) for other, one in zip(others, of, strict=True)]
        code = packed(function)
        error = self.ask("fill", number, layout, code, array.dtype.str, blocks, sources)
        if error is not None:
            raise error
        return True

    def checkpoint(self, *arrays: Any) -> int:
        """Keep arrays that live here, all where none is named; see `npaccel.checkpoint`."""
        _native.evaluate()
        numbers = [self.memory.number(array) for array in arrays]
        there = [number for number in numbers if number]
        kept: int = self.ask("checkpoint", there) if there or not arrays else 0
        return kept

    def save(
        self, arrays: Mapping[str, Any], folder: str, copies: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Have arrays, or these copies, written to files by their owners, whose names begin so: of
        each that is not here what there is to know of it, see `Directory.save`."""
        _native.evaluate()
        numbers = {self.memory.number(one): name for name, one in arrays.items()}
        numbers.pop(0, None)
        others = {n: self.memory.number(copies[numbers[n]]) for n in numbers} if copies else {}
        found = self.ask("save", numbers, folder, others)
        if isinstance(found, Exception):
            raise found
        return {numbers[number]: one for number, one in found.items()}

    def close(self) -> None:
        """What lives there comes home, and workers that were started end."""
        if self._open:
            self._open = False
            OPEN.discard(self)
            _native.evaluate()
            self.memory.close()
            try:
                self._process.wait(END_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = f"{self.nodes} nodes" if self._open else "closed"
        return f"npaccel.Cluster({self.where}): {state}"


def _wait(connection: socket.socket) -> None:
    """For something to read, in ticks in which this process waited: it may have been stopped."""
    connection.settimeout(TICK_S)
    for _ in range(int(START_S / TICK_S)):
        with suppress(TimeoutError):
            connection.recv(1, socket.MSG_PEEK)
            connection.settimeout(START_S)
            return
    raise TimeoutError


def _check(where: Any, security: Any) -> None:
    if not isinstance(where, str | Integral) or isinstance(where, bool):
        raise ConfigError(
            f"npaccel.Cluster({where!r}): that is neither a number of workers nor the address of a "
            "scheduler; give one of them, as 4 or tcp://host:8786"
        )
    number = str(where).isdigit() or isinstance(where, Integral)
    if number and int(where) < 1:
        raise ConfigError(f"npaccel.Cluster({where}): at least one worker is needed")
    if number and security is not None:
        raise ConfigError(
            f"npaccel.Cluster({where}, security=...): workers that are started here speak "
            "within this machine; certificates are for an address, as tls://host:8786"
        )


# The module search path is the program's, whatever the folder it was started in.
_CODE = """
import sys
descriptor, where, *sys.path[:] = sys.argv[1:]
from npaccel.cluster.driver import main
main(int(descriptor), where)
"""


def _started(descriptor: int, where: str) -> subprocess.Popen[bytes]:
    """Its session is its own: Ctrl-C is the program's."""
    path = [folder for folder in sys.path if folder]
    return subprocess.Popen(
        [sys.executable, "-I", "-c", _CODE, str(descriptor), where, *path],
        pass_fds=[descriptor],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
