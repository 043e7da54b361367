"""The public functions."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Literal, overload

import numpy as np

from npaccel import _native, dispatch, this_process
from npaccel.backends.registry import is_device
from npaccel.blocks import Accelerate, Function, make
from npaccel.config import DEVICE, HOSTS
from npaccel.dispatch.array import Array
from npaccel.dispatch.redirect import TABLE
from npaccel.errors import ConfigError
from npaccel.later import later
from npaccel.macros import MacroFactory, scalar
from npaccel.reports import found_hindrances, made_hindrances, profile
from npaccel.this_process import config, engine, make_engine, settle, tell_unguarded

if TYPE_CHECKING:
    from npaccel.observe import counts as counting
    from npaccel.observe import devices as inventory
    from npaccel.observe import explain as explanations
    from npaccel.observe import inspection
    from npaccel.runtime.engine import futures
    from npaccel.runtime.macros import section_code
else:
    counting = later("npaccel.observe.counts")
    inspection = later("npaccel.observe.inspection")
    inventory = later("npaccel.observe.devices")
    explanations = later("npaccel.observe.explain")
    futures = later("npaccel.runtime.engine.futures")
    section_code = later("npaccel.runtime.macros.section_code")

__all__ = [
    "__array_namespace_info__",
    "accelerate",
    "asarray",
    "backend",
    "config",
    "devices",
    "evaluate",
    "explain",
    "from_dlpack",
    "hint_read",
    "macro",
    "profile",
    "scalar",
    "stats",
    "wait",
]

ORDERS: Final = ("K", "A", "C", "F", None)
macro: Final = MacroFactory(config, lambda: section_code.SectionCode(make_engine()), TABLE.prepare)


def asarray(
    x: Any,
    dtype: Any = None,
    order: Literal["K", "A", "C", "F"] | None = None,
    *,
    device: Any = None,
    copy: bool | None = None,
    map: Any = None,
) -> Array:
    """Wrap `x` so that what is computed from it is recorded, fused and compiled.

    Parameters
    ----------
    x : an ndarray, wrapped without copying: the result shares its memory, in both directions; or
        anything `numpy.asarray` takes.
    dtype, order, copy : as in `numpy.asarray`: what the result must have, and whether it must
        (True), may (None) or must not (False) be a copy.
    device : where it is to live and what is computed from it is computed (``opencl:0``), unless a
        setting or a block says otherwise. The result is a copy then, unless `x` is an Array whose
        memory npaccel made. Whoever reads it gets it back, and it goes there again when used.
        ``cpu``, as in `numpy.asarray`, is the host's memory, where it lives by itself. An
        `npaccel.Cluster`: on its workers.
    map : an `npaccel.Map` of its shape, which says which of the cluster's nodes has which part;
        None: equal parts along the first axis, or beside what it is computed with.

    Raises
    ------
    BackendUnavailable : there is no such device; the text names those there are.
    ConfigError : `device` is no device, or an array of Python objects is to live on one.
    ValueError : `copy` is False, and it takes one.

    Returns
    -------
    Array
        An `numpy.ndarray` (a subclass) of the same shape, strides and dtype. An Array is returned
        as it is. Subclasses of ndarray (matrix, masked arrays) keep their own behaviour, so they
        are not wrapped but taken as plain arrays, as `numpy.asarray` does.
    """
    if device is not None and not is_cluster(device):
        DEVICE.check(device, "npaccel.asarray(device=...)")
    if map is not None and not is_cluster(device):
        raise ConfigError(
            "npaccel.asarray(map=...): a map is for an array on a cluster; give it too"
        )
    array = _converted(x, dtype, order, copy)
    if device in (None, *HOSTS):
        return array
    if array.dtype.hasobject:
        raise ConfigError(
            f"npaccel.asarray(device={device!r}): an array of dtype {array.dtype} holds Python "
            "objects, which can't be on a device; convert it, or leave device out"
        )
    # What NumPy's array shows stays where it is, wherever its memory lies: what is written to one
    # of the two never changes the other.
    apart = _is_numpys(array) and isinstance(x, np.ndarray) and np.may_share_memory(array, x)
    placed = (
        device.place(array, map, copy=apart)
        if is_cluster(device)
        else engine.machines.place(array, device, copy=apart)
    )
    if copy is False and placed is not None and placed is not x:
        raise ValueError(f"Unable to avoid copy while placing an array on {device}.")
    return array if placed is None else placed


def _is_numpys(array: np.ndarray[Any, Any]) -> bool:
    """Whether it shows an array of NumPy's own class."""
    base = array.base
    while isinstance(base, np.ndarray) and type(base) is Array:
        base = base.base
    return isinstance(base, np.ndarray)


def is_cluster(device: Any) -> bool:
    """Whether it is an `npaccel.Cluster`."""
    return isinstance(getattr(device, "memory", None), _native.DeviceMemory)


def _converted(x: Any, dtype: Any, order: Any, copy: Any) -> Array:
    """As `numpy.asarray` has it. What an Array has to be converted to is recorded."""
    if not _native.guarded():
        tell_unguarded()
    if type(x) is Array:
        wanted = x.dtype if dtype is None else np.dtype(dtype)
        flags = x.flags
        in_order = {"C": flags.c_contiguous, "F": flags.f_contiguous}.get(order, order in ORDERS)
        if wanted is x.dtype and in_order and not copy:
            return x
        known = order in ORDERS and copy in (None, True) and wanted.kind in "biufc"
        if known and (wanted is x.dtype or wanted != x.dtype):
            # NumPy takes "A" at its word only where it need not convert.
            kept = order if order in ("C", "F") or (order and wanted is x.dtype) else "K"
            x = dispatch.at_user_line(x.astype, (wanted,), {"order": kept})
            return x if type(x) is Array else _native.wrap(x)  # type: ignore[return-value]
        x = _native.view_plain(x) if copy is False else _native.plain(x)
    if dtype is None and order is None and copy is None:
        return _native.wrap(np.asarray(x))  # type: ignore[return-value]
    options = {"dtype": dtype, "order": order, "copy": copy}
    # So that what it warns of has the user's line.
    return _native.wrap(dispatch.at_user_line(np.asarray, (x,), options))  # type: ignore[return-value]


def from_dlpack(x: Any, /, *, device: str | None = None, copy: bool | None = None) -> Array:
    """Wrap an array of another library that has the DLPack protocol, without copying it.

    The other way each such library takes an Array as it takes NumPy's: it is computed then.

    Parameters
    ----------
    x : an object with ``__dlpack__``, whose memory is the host's; the result shares it.
    device, copy : as in `npaccel.asarray`.

    Raises
    ------
    BufferError : `x` is on a device that NumPy can't read, or can't be exported.
    """
    return asarray(np.from_dlpack(x), device=device, copy=copy)


def __array_namespace_info__() -> inspection.Inspection:  # noqa: N807 (the array API's)
    """What the array API's inspection asks: NumPy's answers, and the devices that there are."""
    return inspection.Inspection(engine.machines.places)


class AccelerateHere(Accelerate):
    """Have plain ndarrays recorded too, in a ``with`` block or, as decorator, in a function.

    Inside, NumPy's own functions, methods and operators record what they are asked to do with
    large arrays, whoever calls them and however long ago they were imported. Results are npaccel
    arrays; arrays that existed before stay what they are. It nests, holds in the thread (and the
    asyncio task) that entered it, and on leaving NumPy is as it was; results stay usable.

    ``with npaccel.accelerate:`` and ``@npaccel.accelerate`` take the settings as they are;
    ``npaccel.accelerate(...)``, which is used in the same ways, others:

    Parameters
    ----------
    min_size : bytes of the largest operand from which operations are recorded inside; None: as
        `npaccel.config.threshold` says.
    backend : what runs inside; None: as `npaccel.config.backend` says.
    device : an `npaccel.Cluster`, where arrays that are made inside live; None: the host.
    """

    __slots__ = ()

    @overload
    def __call__(
        self,
        function: None = None,
        /,
        *,
        min_size: int | None = None,
        backend: str | None = None,
        device: Any = None,
    ) -> Accelerate: ...
    @overload
    def __call__(
        self,
        function: Function,
        /,
        *,
        min_size: int | None = None,
        backend: str | None = None,
        device: Any = None,
    ) -> Function: ...
    def __call__(
        self,
        function: Any = None,
        /,
        *,
        min_size: int | None = None,
        backend: str | None = None,
        device: Any = None,
    ) -> Any:
        bare = min_size is None and backend is None and device is None
        made = Accelerate() if bare else _accelerate(min_size, backend, device)
        return made if function is None else made(function)

    def __repr__(self) -> str:
        return "npaccel.accelerate"


Accelerate.tell_unguarded = staticmethod(tell_unguarded)
accelerate: Final = AccelerateHere()


def accelerate_everywhere(
    min_size: int | None, backend: str | None, device: Any = None
) -> Accelerate:
    """A block that also holds in threads and contexts that have none of their own."""
    return _accelerate(min_size, backend, device, everywhere=True)


def _accelerate(
    min_size: int | None, backend: str | None, device: Any = None, everywhere: bool = False
) -> Accelerate:
    if device is not None and not is_cluster(device):
        raise ConfigError(
            f"npaccel.accelerate(device={device!r}): this is no npaccel.Cluster; "
            "another device is named by backend=..."
        )
    if device is not None:
        device.check_open()
    place = None if device is None else device.memory
    made = make(config, min_size, backend, everywhere, place)
    if backend is not None and is_device(backend):
        engine.backend(backend)  # what is not there is told here
    return made


@contextmanager
def backend(name: str) -> Iterator[None]:
    """Have what is computed inside the ``with`` block run on another backend.

    It is a setting of the process, as `npaccel.config.backend`: other threads are in the block too.
    What was pending before is computed before, and what is left of the block at its end.

    Parameters
    ----------
    name : ``llvm``, ``numpy``, ``opencl``, or a device such as ``opencl:1``.

    Raises
    ------
    ConfigError : there is no such backend.
    BackendUnavailable : this machine lacks what it needs; there is no such device.
    """
    before = config.backend
    config.setting("backend").check(name, "npaccel.backend")
    _native.evaluate()
    config.backend = name
    try:
        yield
        _native.evaluate()
    finally:
        config.backend = before


@overload
def evaluate(*values: Any, backend: str | None = None, wait: Literal[True] = True) -> Any: ...
@overload
def evaluate(*values: Any, backend: str | None = None, wait: Literal[False]) -> futures.Future: ...
def evaluate(*values: Any, backend: str | None = None, wait: bool = True) -> Any:
    """Compute everything pending, in as few programs as possible, and return the values.

    Parameters
    ----------
    *values : arrays, scalars, or tuples, lists and dicts of them; anything else is left alone.
    backend : what runs it, this time only; None: as `npaccel.config.backend` says.
    wait : False: begin, and return a future at once; the program goes on meanwhile. Where nothing
        can be pending (without the guard, in check mode, while a profile is taken), or with
        `backend`, it is computed before.

    Returns
    -------
    The one value, or the tuple of them. Arrays come back as the same objects, computed. With
    ``wait=False`` a `concurrent.futures.Future` of that, which ``await`` takes, too; its
    ``result()`` raises what went wrong. Whoever reads one of the arrays waits for it, and for
    nothing else.
    """
    _native.evaluating()
    value = values[0] if len(values) == 1 else values
    if not wait and backend is None:
        return this_process.futures().launch(value)
    before = config.backend
    if backend is not None:
        config.backend = backend
    try:
        _native.evaluate()
        settle()
    finally:
        config.backend = before
    return value if wait else this_process.futures().launch(value)


def hint_read(*values: Any) -> None:
    """Say that these arrays will be read soon: what is pending begins, and the program goes on.

    Parameters
    ----------
    *values : as `evaluate` takes them; where none of them is pending nothing begins.
    """
    _native.evaluating()
    if any(map(_native.is_pending, futures.arrays_in(values))):
        _native.launch([], futures.LEAST_S)


def wait(
    fs: Iterable[Any], timeout: float | None = None, return_when: str = "ALL_COMPLETED"
) -> futures.Waited:
    """Wait for futures, as `concurrent.futures.wait` does.

    Parameters
    ----------
    fs : futures, of `evaluate` or others.
    timeout : seconds to wait at most; None: as long as it takes.
    return_when : ALL_COMPLETED, FIRST_COMPLETED or FIRST_EXCEPTION.

    Returns
    -------
    Waited
        The sets `done` and `not_done`.
    """
    return futures.wait(fs, timeout, return_when)


def stats(reset: bool = False) -> counting.Counts:
    """Counts since the start, or since they were last reset.

    Parameters
    ----------
    reset : begin again at 0 after this. Also forgets the fallbacks that `explain` lists.

    Returns
    -------
    Counts
        A dict with all of these; printed, a few lines on what is not 0.

        requests : operations recorded.
        flushes : times that what was pending was run.
        background_runs : of these, that went on beside the program (`evaluate(..., wait=False)`).
        kernels : compiled kernels launched; `kernels_by_backend` has them by backend.
        kernel_requests : operations that those kernels computed.
        chained_kernels : kernels that followed each other through memory, part by part.
        native_requests : recorded operations that NumPy's own loops computed one by one.
        dead_requests : operations never computed, since nothing could see their results.
        compiles : kernels compiled.
        tier0_runs : runs with NumPy's loops because nothing was compiled yet.
        kernels_loaded : kernels that the cache on disk had.
        code_bytes : memory that machine code takes now, never reset.
        left_to_numpy : operations in blocks that NumPy did at once, since they were new, or
            recording them was found, by trial, to take longer.
        checked_runs : runs that check mode has compared, or is comparing.
        fallbacks : calls handed to NumPy, not recorded; `explain` lists them with their lines.
        reasons : these calls by reason.
        bytes_read, bytes_written : by kernels, what several views of an array share counted once.
        plan_hits, plan_misses : runs whose program was known, sizes and all; runs that needed one.
        plans_moved : how often the plan of other sizes was taken for a size that was new.
        traces : programs that are known now.
        guard_faults : reads of a pending array's memory that came unannounced.
        published : results that appeared at their address, since somebody looked or was likely to;
            never reset.
        fault_evaluations : times that such a read, or a write into what a pending operation reads,
            made what was pending run.
        fault_programs : of these, runs whose program was known; the others ran NumPy's loops.
        not_deferred : arrays computed at once for want of guarded memory.
        snapshots, early_reads : what pending operations read of memory that others may write:
            times that it was copied; times that they were run at once instead.
        write_faults : writes to such memory, protected until then, that came unannounced.
        uploads, uploaded_bytes, downloads, downloaded_bytes : what moved to the memory of devices,
            and back; uploading_ns, downloading_ns : what that took; pinned_bytes : of them, through
            memory that a device reads by itself; uploads_ahead : of these, while a kernel ran;
            looks : times that a part of an array was read while all of it stayed there. `explain`
            tells why, for which line.
        evictions : arrays that went back to the host to make room there.
        cluster_runs, cluster_requests : what ran on clusters' workers; cluster_refused : runs that
            were to, and ran here instead.
        sliced : runs that were short of memory, so that temporary arrays were computed piece by
            piece.
        pieces : how many pieces these were.
        used_bytes : memory that results take now, never reset.
        armed_blocks, live_ranges, live_bytes, nursery_bytes, part_bytes, mappings : memory as it is
            now, never reset: protected blocks of others, arrays of npaccel and their bytes, bytes
            of freed memory kept for reuse, parts of arrays on devices that were read here, memory
            mappings.
    """
    reasons: Counter[str] = Counter()
    for (_, reason, _), calls in dispatch.FALLBACKS.counts().items():
        reasons[reason] += calls
    if reset:
        dispatch.FALLBACKS.clear()
        dispatch.HOMES.clear()
        made_hindrances().clear()
    counts = engine.counters.read(reset=reset)
    return counting.Counts(counts, fallbacks=reasons.total(), reasons=dict(reasons))


def explain(
    x: Any = None, *, graph: str | os.PathLike[str] | None = None
) -> explanations.Explanation:
    """Tell which kernels ran, for which of your lines and on what, and what NumPy did instead.

    Parameters
    ----------
    x : an array: the run that computed it (one in flight is waited for), or, if it is pending,
        what would run; nothing is evaluated. A macro section: its latest variant. None: the last
        run, and how often and how long everything ran since ``npaccel.stats(reset=True)``.
    graph : a file, to which a picture of it is written (SVG): operations, which are fused with
        which, and the bytes between them.

    Returns
    -------
    Explanation
        Print it, or read its attributes: steps, dropped, fused_away, runs, fallbacks, brought_home,
        hindrances, ir, svg.
    """
    _native.landed(x)
    counts = dict(dispatch.FALLBACKS.counts())
    left = engine.counters.read(reset=False)["left_to_numpy"]
    if left:
        counts["operations", "new, or by trial slower when recorded", "in blocks"] = left
    homes = dispatch.HOMES
    found = found_hindrances(many=False)
    told = explanations.explain(x, engine, counts, homes.counts(), homes.seconds(), found)
    if graph is not None:
        with open(graph, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(told.svg + "\n")
    return told


def devices() -> inventory.Devices:
    """Tell what npaccel can compute on here, whether pending memory is guarded, and the settings.

    Returns
    -------
    Devices
        Print it, or read its attributes: devices, guard, settings.
    """
    return inventory.find_devices(engine, TABLE.describe())
