"""The C core: slots of Array, request records, memory and guard, evaluator, worker pool.

Knows bytes, pointers and threads; imports nothing and optimises nothing.
"""

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from types import CodeType, FrameType, TracebackType
from typing import Any, Self

import numpy as np

class ArrayBase(np.ndarray[Any, np.dtype[Any]]):
    """Base of npaccel.Array. In C: number, comparison, in-place, subscript and buffer slots,
    `__array_ufunc__`. All else is Python's (dispatch/)."""

class ArrayType(type):
    """The type of Array. `Array` equals ndarray and has its hash, so a table of types that has
    ndarray (autograd's), and `type(x) == ndarray`, find what they would with NumPy. In a block,
    whose program knows nothing of npaccel, it has ndarray's name and text: serialisers ask for
    them."""

class Rule:
    """How one combination of a function and operand types runs; interned, made once.

    id: as a rule the same in every process (a hash of what the rule is). value_in_key: scalar
    inputs join the trace's key by value; of floats only those that a rewrite may use. counts:
    requests recorded; of them run by NumPy's loops because the plan said so; and without a plan;
    elements that all of them run over.
    """

    id: int
    name: str
    kind: int
    loop: tuple[str, ...]
    counts: tuple[int, int, int, int]

def install(
    array_type: type[ArrayBase], hooks: dict[str, Callable[..., Any]], inside: tuple[str, ...], /
) -> None:
    """Give the core the final Array type and its Python callbacks.

    inside: path prefixes of code that is not the user's (NumPy's, ours).

    hooks:
      rule(ufunc, signature, out_dtype | None) -> Rule | None
          first meeting of a combination. signature: per operand a np.dtype, or the type int,
          float or complex for a weak Python scalar. None: never recorded, NumPy does it.
          May raise what NumPy raises (casting, no loop).
      ufunc(ufunc, method, inputs, kwargs) -> object
          `__array_ufunc__` for all that the C fast path does not take.
      getitem(array, key), setitem(array, key, value)
          subscripts that are not basic (or whose basic setitem needs more than a copy).
      plan(pending) -> Program | None      a flush with an unknown key; None: request by request.
          The object also has touched(pending) -> Program, for what a touch ran, and, for check
          mode, check(pending, before, after, looped), called after a run; before, after: bytes per
          buffer, None where nobody sees it; looped: by (request, output) what NumPy's loops made,
          in C order; None: no memory. What is pending does not change meanwhile: see Pending.
      warn(list of (kind_bits, rule, code, lasti, globals, errstate, scope)) -> None
          floating-point flags to report, after evaluation; may raise (warnings as errors).
      filters() -> str     "error", "ignore" or "show": what becomes of RuntimeWarnings now (called
          when filters changed).
      shown(list of (kind_bits, rule, code, lasti, globals, scope)) -> list of bool
          whether all that these requests may warn of was shown before, and would not be again.
    """

def rule(
    name: str,
    kind: int,
    ufunc: np.ufunc | None,
    loop: tuple[np.dtype[Any], ...],
    result: tuple[np.dtype[Any], ...],
    nin: int,
    value_in_key: bool = False,
    may_warn: bool = True,
) -> Rule | None:
    """Make a Rule. kind: ir.nodes.Kind. `loop`: dtypes of NumPy's inner loop, inputs then outputs.
    `result`: dtypes of new outputs. `ufunc` None: name is one of "copy", "where", "iota",
    "argmin", "argmax", which the core computes itself. None when the core finds no legacy
    inner loop for these dtypes (the function is then never recorded)."""

def wrap(array: np.ndarray[Any, Any], /) -> ArrayBase:
    """Array view of the same memory (zero copy); flags and strides as the argument's."""

def plain(array: np.ndarray[Any, Any], /) -> np.ndarray[Any, Any]:
    """Exact np.ndarray view after evaluating what is pending on its memory."""

def number(recorded: np.ndarray[Any, Any], /) -> Any:
    """The scalar in a recorded 0-d array that nobody else has; evaluates it, and never shows it."""

def view_plain(array: np.ndarray[Any, Any], /) -> np.ndarray[Any, Any]:
    """Exact np.ndarray view; evaluates nothing."""

def map(
    rule: Rule,
    inputs: tuple[object, ...],
    out: np.ndarray[Any, Any] | tuple[np.ndarray[Any, Any] | None, ...] | None = None,
    mask: np.ndarray[Any, Any] | None = None,
    order: str = "K",
) -> Any:
    """Record a MAP. Inputs: arrays or scalars, broadcast as NumPy does. Without `out` new deferred
    Arrays of the rule's result dtypes, laid out as NumPy would with `order`. `mask`: bool array."""

def reduce(
    rule: Rule,
    array: np.ndarray[Any, Any],
    axes: Sequence[int],
    keepdims: bool = False,
    out: np.ndarray[Any, Any] | None = None,
    mask: np.ndarray[Any, Any] | None = None,
    initial: object = None,
) -> Any:
    """Record a REDUCE or ARG over normalised `axes`. Returns an Array (0-d for all axes; the
    caller evaluates and takes the scalar with `item`)."""

def scan(
    rule: Rule, array: np.ndarray[Any, Any], axis: int, out: np.ndarray[Any, Any] | None = None
) -> Any:
    """Record a SCAN (accumulate)."""

def product(name: str, a: Any, b: Any, /) -> Any:
    """What NumPy's ``dot``, ``inner`` or ``vdot`` gives of arrays some of which wait, or were seen
    by nobody; they stay hidden. None: of others, or of what only NumPy multiplies."""

def iota(rule: Rule, n: int, start: object, step: object, /) -> Any:
    """Record a 1-d generator of the rule's result dtype."""

def gather(
    rule: Rule,
    source: np.ndarray[Any, Any],
    base: np.ndarray[Any, Any],
    index: np.ndarray[Any, Any],
    extent: int,
    step: int,
    out: np.ndarray[Any, Any],
    /,
) -> Any:
    """Record ``out[i] = base[i + index[i] * step]`` (step in elements); returns `out`, or None.
    `base` shows the source's elements at index 0; it and `index` broadcast to `out`. The caller
    has made sure that every index lies in [-extent, extent)."""

def index_bounds(index: np.ndarray[Any, Any], extent: int, /) -> int:
    """Where integers lie, after evaluating what is pending on them: 0 all in [0, extent), 1 some
    negative but none below -extent, 2 some elsewhere, -1 not integers."""

def take_homes() -> list[tuple[str, str, str, int, int, float, float]]:
    """What came home from devices since the last call: (device, why, file, line, times, bytes,
    0)."""

def fetched(array: Any, /) -> Any:
    """A plain copy of what the array shows, all of which stays on its device; None: it does not lie
    there, or it would not pay."""

def put_back(array: Any, part: Any, /) -> None:
    """Write into the array what was written to `part`, made by `fetched(array)`."""

def rebased(result: Any, part: Any, array: Any, /) -> Any:
    """The result; or, where it is a view of `part`, made by `fetched(array)`, that of `array`."""

def is_far(array: Any, /) -> bool:
    """Whether it lies on a device, and is so large that work on it is done there."""

def clusters() -> list[DeviceMemory]:
    """The memories of clusters that are open."""

def copies_exist() -> bool:
    """Whether a device may hold data of arrays."""

def held_up(works: float, starts: bool, /) -> float:
    """Seconds that products of matrices and the like would lose while the helper process works for
    so many, and starts before, at the share of the time that they have taken since the first."""

def take_fallbacks() -> list[tuple[str, str, str, int, int, float, float]]:
    """What the core left to NumPy, once: function, reason, file, line, calls, seconds, 0."""

def take_hindrances() -> list[tuple[str, str, str, int, int, float, float]]:
    """What kept lines from gaining, once: kind (native/trace/hinder.c) twice, file, line, calls or
    runs, seconds, and of all of them together bytes of operands or operations."""

def empty(shape: tuple[int, ...], dtype: np.dtype[Any], order: str = "C", /) -> ArrayBase:
    """A fresh Array in npaccel's memory, nothing recorded (content undefined)."""

def empty_like(prototype: np.ndarray[Any, Any], dtype: np.dtype[Any], /) -> ArrayBase | None:
    """A fresh Array whose axes lie in memory as those of ``prototype.copy("K")``; None: no room."""

def copy(array: np.ndarray[Any, Any], dtype: np.dtype[Any], /) -> ArrayBase | None:
    """``array.astype(dtype)``, recorded, as far as there is nothing unusual about it; else None."""

def wants(*operands: object) -> bool:
    """Whether an operation on these would be recorded (one is pending, or large enough)."""

def is_pending(array: np.ndarray[Any, Any], /) -> bool:
    """Whether a request that writes this array's memory has not run yet."""

def composites(functions: dict[Callable[..., Any], bool | None], /) -> None:
    """NumPy's functions whose own Python code runs on our arrays; the value: in blocks only;
    None: and in no macro section."""

def direct(
    original: Any,
    slow: Callable[..., Any],
    work: int = 0,
    writes: bool = False,
    moves: bool = False,
    /,
) -> Any:
    """A method: `original`, a method of ndarray, called on exact views where every array among the
    arguments is small and evaluated; else `slow`. `original` None: an `__array_function__`.

    work : 1, and the array's own size does not matter; 2, as in `take` it is what is picked; 3, as
        in `argmin` a full one may be NumPy's; 4, as in `var` any may be; 5, always `slow`, which
        tracebacks don't show, as with the others.
    writes : it writes the array.
    moves : its result has the same bits, whoever computes it.
    """

def evaluate() -> None:
    """Run everything pending, and wait for runs in flight."""

def launch(arrays: list[np.ndarray[Any, Any]], least_s: float, /) -> list[int]:
    """Have everything recorded run from now on; at once where it is known to take less.

    Returns the numbers of the run that begins and of those in flight that make these arrays. None
    where runs can't be in flight (without the guard, in check mode, ...): it has run.
    """

def sleep(flights: list[int], seconds: float | None, seen: int, /) -> bool:
    """Wait until these runs are over, or have stopped for want of memory: whether that is so.

    seconds: at most; None: whenever that is. seen: -1; or what `wake` returned last: until one of
    them is, or `wake` was called since.
    """

def wake() -> int:
    """Have `sleep` look again; returns how often that was so."""

def resume(flights: list[int], /) -> None:
    """Go on with those of these runs that have stopped: MemoryError; wait for the others."""

def landed(array: object, /) -> None:
    """Wait for the run in flight that makes an array, if there is one."""

def issue() -> None:
    """Tell what evaluation has warned of."""

def flights_end(cancel: bool, /) -> None:
    """No run is in flight from now on; cancel: those there are stop where they can."""

def may_warn(without_scope: bool, /) -> bool:
    """Whether something pending, or found and not yet issued, may warn; True: what has no scope."""

def give_scope(scope: object, /) -> None:
    """From now on what is pending and had none has this scope; the warn hook gets it back."""

def touch(array: np.ndarray[Any, Any], write: bool = False) -> None:
    """Evaluate what is pending on the memory of `array` (with write: also what reads it)."""

class Pending:
    """What was pending at one moment: requests, who was dead, where data lay, the user's lines.

    It does not change, whatever is recorded and run since. len(): how many requests.

    key: the requests and their buffers as words of eight bytes (native/trace/key.c), by which their
    program is found. scalars: values, 16 bytes each. rules: by id. serial: number of the flush
    that was to come. placement: the device that the user has given their data, under `auto`.
    homes: per buffer that lives on a device its name. residence: per buffer that lies on a device
    (buffer, device, bytes that are right there, bytes that are right there alone). sites: (code,
    lasti) per request. outline: a hash of them, sizes and places aside. points: elements that they
    run over, all of them together.
    """

    key: bytes
    scalars: bytes
    rules: dict[int, Rule]
    serial: int
    placement: str | None
    homes: dict[int, str]
    residence: list[tuple[int, str, int, int]]
    sites: list[tuple[Any, int]]
    outline: int
    points: float

    def __len__(self) -> int: ...
    def structure(self, band_points: int, inner_points: int, column_points: int, /) -> bytes | None:
        """What their plan depends on, sizes aside, under these limits; None where that is not
        known here. See native/trace/structure.c."""

    def numbers(self, places: bytes, /) -> list[int]:
        """Numbers of theirs. places: (request, operand, axis) as 32-bit words; of operand -1 it is
        an extent, of axis -1 an offset, else a stride, both in bytes."""

class Program:
    """Native form of a Plan: what a flush with a known key runs.

    steps: as runtime/programs/wire_format.py writes them; None: every request by itself with
    NumPy's loops (`single`). dropped: requests that nobody needs. code: the kernels' addresses,
    devices: their DeviceKernels, where a step runs, and on the host only if that fails; keep: has
    both.

    timing: (runs, seconds of the best one, seconds of all). last: seconds of the last one.
    baseline: seconds that NumPy's loops take for the same, 0 if unknown; a program that is slower
    in each of its first runs becomes `single`, and `lost` is the best time of its kernels.
    compares: whether those loops are to run once where it is a loop's round, and `baseline` is what
    they take then. home: seconds that bringing home took what runs had left on a device. due: by
    `review`; then the plan hook is asked again, for a program that is known. missed: per step why
    the host did in the last run what a device was to do: 1 no room there, 2 a launch failed, 3 it
    was touched; 4 it ran there in parts, 5 on both sides; and what of it the device did when it
    was last divided, from 0 to 1.
    """

    info: Any
    used: int  # number of the last flush that looked it up
    timing: tuple[int, float, float]
    last: float
    baseline: float
    compares: bool
    lost: float
    home: float
    missed: tuple[tuple[int, float, tuple[float, float, bool] | None], ...]
    due: bool
    single: bool
    planned: bool  # or it runs whatever requests there are block by block

    def __init__(
        self,
        steps: bytes | None,
        dropped: int,
        keep: object,
        info: object,
        code: bytes = ...,
        devices: tuple[DeviceKernel, ...] = ...,
    ) -> None: ...
    def review(self, runs: int, seconds: float, /) -> None:
        """Become `due` after so many runs more, and so many seconds more; (0, 0): never."""

    def fill(self, pending: Pending, words: bytes, keep: bool, /) -> Program | None:
        """A program for these requests, of this one, which has no numbers; None: it does not fit.

        words : where numbers of requests go, as runtime/programs/templates.py writes them.
        keep : others of the same structure are served by it, too; Note [Templates].
        Raises ValueError for words that are no template's of this program."""

    def layout(self) -> list[tuple[int, ...]]:
        """What sizes decide. Per step: the request, or -1; band, its step, inner, its step, parts;
        bytes of scratch memory, of partial results, read, written; extents, and per array offset
        and strides."""

class Code:
    """Machine code of a relocatable ELF object, in executable memory; freed with this object.

    Raises ValueError, with the reason, for an image that the core's small loader does not take.
    """

    addresses: tuple[int, ...]
    size: int

    def __init__(self, image: bytes, names: tuple[str, ...]) -> None: ...

def rules() -> dict[int, Rule]:
    """Every rule made so far, by id."""

def cpu() -> tuple[str, int]:
    """Text that tells processors apart that need different machine code, and the size of the
    widest vector register in bytes."""

def passing_reason() -> str:
    """Why this thread's last operation was left to NumPy: another thread's turn, or no room for its
    result; else ''."""

class Plans(MutableMapping[bytes, Any]):
    """The Program that is known per key, kept by the plan hook."""

    def __getitem__(self, key: bytes) -> Any: ...
    def __setitem__(self, key: bytes, value: Any) -> None: ...
    def __delitem__(self, key: bytes) -> None: ...
    def __iter__(self) -> Iterator[bytes]: ...
    def __len__(self) -> int: ...

def plans() -> Plans:
    """The one table, in which the core looks keys up."""

def forget_looks() -> None:
    """What all operations make is hidden at first, whatever was looked at before: for tests."""

def trials(on: bool, recorded_ns: int = 0, numpys_ns: int = 0, /) -> None:
    """Whether blocks compare recording with NumPy, by turns; forget what they have found. The times
    are for tests: rounds are said to take so long."""

def tried() -> list[tuple[CodeType, int, tuple[float, float, bool] | None]]:
    """Loops that had a trial: code and instruction at which a round begins; and, once that is
    decided, seconds of a round recorded, by NumPy's calls, and whether these are kept."""

def looked_up(found: bool, /) -> int:
    """A program was looked for on disk: where none are found, larger new operations are NumPy's.
    Return how many were not there, since one was."""

def smaller(known: bool, /) -> bool:
    """Whether most operations on arrays below the threshold that could be recorded were, and many
    of them. known: they were in the last process, so nobody waits until the block is older."""

def serial(array: np.ndarray[Any, Any] | None, /) -> int | None:
    """Number of the flush that made (will make) an array of ours; with None: the next one's.
    A number above that: no flush made it."""

def pending() -> Pending:
    """What is pending now."""

def history(
    serial: int,
    /,
) -> (
    tuple[
        int,
        Program | None,
        list[tuple[int, Any, int]],
        tuple[int, int, float, float],
        DeviceMemory | None,
        int,
    ]
    | None
):
    """(serial, Program, [(rule, code, lasti)], bytes that moved to devices, and back, and the
    seconds of both, the cluster that ran it, and the number of the run there) of one of the last 16
    flushes. rule: its id."""

def ledger() -> tuple[
    list[tuple[Program, int, float, list[tuple[int, Any, int]], bool]], int, float
]:
    """([(Program, runs, seconds, [(rule, code, lasti)], whether other lines ran it, too)], runs and
    seconds without a known program), since counts were reset."""

def boundscheck() -> bool:
    """Whether indices are looked through, and integers divided by 0 are told."""

def boundscheck_here(value: int, /) -> int:
    """The same for this thread from now on; -1: as the setting says. Returns what it was."""

def limit_memory(bytes: int, /) -> None:
    """What results may take of the host's; 0: nine tenths of what there is, or more."""

def memory_limit() -> int:
    """Bytes of memory: the machine's, or of the control group if that is less."""

def guarded() -> bool:
    """Whether results may stay pending past a call: the guard is on, and works here."""

def portable() -> bool:
    """Whether this is the portable build, which has no guard, loads no machine code, and starts no
    process."""

def memory(ours: bool, /) -> None:
    """Large arrays that NumPy makes in this context lie in our memory, as blocks say, or not."""

def primitives(level: str = ..., /) -> tuple[str, int]:
    """(level, how many) of operations on blocks that were compiled ahead. level: from now on."""

def exp_s() -> float:
    """Seconds that our exp takes for a double in the first cache, measured now; 0: it has none."""

def exact_loops(level: str = ..., /) -> dict[str, bool | None]:
    """Per function of doubles that has a loop of ours with the C library's bits, whether it has
    NumPy's here, which is proved now at the latest; None: this processor has no such loop. level:
    of processors, from now on."""

def system_calls() -> tuple[int, int, int, int, int]:
    """(errno that stops them from being served, functions of the C library that are replaced,
    libraries whose import tables lead to ours, entries changed there, entries that can't be).

    Begins to serve them if the guard is on; else all are 0."""

def until(limit: int, reached: Any, /) -> None:
    """Record so many operations as ever; those behind them run at their line by NumPy's loops.
    reached() is called once all of the former are computed, if there is one behind them."""

def watch(arrays: list[Any], /) -> None:
    """What writes the memory of these runs at its line from now on, and is told to the plan hook's
    `watched`."""

def bodies_run() -> bool:
    """Whether bodies of macro sections run as written, since each operation is looked at."""

def until_counted() -> int | None:
    """How many operations were recorded since; None: there is no limit."""

def check_busy(on: bool, /) -> None:
    """Whether a run is being compared in another thread: none is then prepared for that."""

def configure(
    *,
    threshold_bytes: int = ...,
    queue_limit: int = ...,
    memory_limit: int = ...,
    threads: int = ...,
    nursery_bytes: int = ...,
    guard: int = ...,
    check: int = ...,
    boundscheck: int = ...,
    numpy: int = ...,
    fast: int = ...,
    divide: int = ...,
) -> int:
    """Change settings after running what is pending. Returns 0, or the errno that stops the
    guard from working."""

class DeviceKernel:
    """A kernel that a device's driver runs.

    functions: addresses of clSetKernelArgSVMPointer, clEnqueueNDRangeKernel, clWaitForEvents,
    clGetEventInfo, clReleaseEvent. queue, run, finish (or 0): the driver's objects, which the
    caller keeps. rank, arrays, words: of the kernel's argument words. groups: work groups at most,
    group_size: work items of each.
    """

    def __new__(
        cls,
        functions: tuple[int, int, int, int, int],
        queue: int,
        run: int,
        finish: int,
        rank: int,
        arrays: int,
        words: int,
        groups: int,
        group_size: int,
        memory: DeviceMemory,
        host_memory: bool,
    ) -> DeviceKernel: ...
    def launch(
        self, words: int, grid: tuple[int, int, int, int, int], partials: int, flags: int, /
    ) -> int:
        """Run once, outside the queue. grid: band, band_step, inner, inner_step, scratch_bytes."""

class DeviceMemory:
    """What lies on a device of which buffers; `name` is the device's. Never freed.

    functions : addresses of clCreateBuffer, clReleaseMemObject, clEnqueueReadBuffer,
        clEnqueueWriteBuffer, clSetKernelArg, clEnqueueNDRangeKernel, clFinish, clFlush,
        clEnqueueMapBuffer, clWaitForEvents, clReleaseEvent.
    queue, transfers : for kernels, and for what moves beside them.
    limit : bytes that may be used.
    largest : bytes of the largest piece that the driver allocates.
    """

    limit: int
    largest: int
    @property
    def name(self) -> str: ...
    @property
    def used(self) -> int: ...
    def __new__(
        cls,
        functions: tuple[int, ...],
        context: int,
        queue: int,
        transfers: int,
        name: str,
        limit: int,
        largest: int,
    ) -> DeviceMemory: ...
    def want(self, whether: bool, /) -> None:
        """Of a device: something is to lie there, not in the host's memory. Without one of which
        that is so requests are recorded as where there is no device. False is for tests."""
    def place(
        self, array: np.ndarray[Any, Any], map: int = ..., copy: bool = ..., /
    ) -> ArrayBase | None:
        """An array with this content that is to live there; None: nothing can be hidden.

        map : of a cluster, the number of the map that its driver is to place it by; 0: none.
        copy : it is another array, also where this one lies in memory of ours.
        """
    def call(self, body: bytes, /) -> tuple[int, bytes]:
        """Of a cluster: what its driver answers, 0 and an answer, or another number and why not."""
    def number(self, array: np.ndarray[Any, Any], /) -> int:
        """Of a cluster: the piece of memory there that the array shows; 0: it is not there."""
    def write(self, memory: int, array: np.ndarray[Any, Any], /) -> None:
        """Of a device: the array's bytes go to that memory of the driver's as those of arrays do;
        RuntimeError where it refuses. For measurements."""
    def close(self) -> None:
        """Of a cluster: what lies there comes home, and its driver ends."""

def cuda_functions(addresses: tuple[int, ...], /) -> tuple[int, ...]:
    """The `functions` of a DeviceMemory that use NVIDIA's driver.

    addresses : of cuCtxPushCurrent, cuCtxPopCurrent, cuMemAlloc, cuMemFree, cuMemHostAlloc,
        cuMemFreeHost, cuMemcpyDtoHAsync, cuMemcpyHtoDAsync, cuStreamSynchronize, cuLaunchKernel,
        cuEventCreate, cuEventRecord, cuEventSynchronize, cuEventDestroy.
    """

def cuda_queue(context: int, stream: int, /) -> int:
    """The address of a queue for them, which is never freed."""

def cuda_kernel(function: int, arguments: int, /) -> tuple[int, object]:
    """The address of a kernel for them, with so many arguments, and what keeps it."""

def cluster_memory(socket: int, name: str, /) -> DeviceMemory:
    """The memory of a cluster whose driver listens at the other end of the socket."""

def echo(socket: int, /) -> None:
    """A native thread sends back what comes there, whoever holds the interpreter's lock, until the
    other end closes; the socket is its own from now on."""

def place_of(arrays: list[Any], /) -> DeviceMemory | None:
    """Where the first of these that lives on a device does."""

def lend(descriptor: int, /) -> None:
    """Kernels and blocks run on a thread fewer, whose processor is lent to the helper, until there
    is something to read from it; -1: no longer."""

def lends() -> bool:
    """Whether they do."""

def device_error() -> tuple[int, str] | None:
    """The driver's number of the last launch that failed and the device's name, told once."""

def device_inject(
    launches: int, reads: int = 0, midway: int = 0, after: int = 0, room: int = 0, /
) -> None:
    """Tests: so many of the next launches, and transfers back to the host, fail; and launches, when
    they have done their work. after: launches that go well before the first that fails. room: bytes
    that drivers allocate at most, from now on; 0: what they have. launches -1: none fails, and
    nothing that a device had lost is there any more."""

def jobs() -> int:
    """How many jobs of our own loops, which compiled kernels are not, the threads were given."""

def threads() -> int:
    """How many threads run kernels."""

def stats(reset: bool = False) -> dict[str, Any]:
    """requests, flushes, kernels, launches (a tuple: by whose code they are), native_requests,
    dead_requests, bytes_read, bytes_written, guard_faults, ..."""

class Opener:
    """A context manager that opens a block each time it is entered; left from anywhere.

    min_size : bytes from which plain arrays are taken, or -1; backend : its name, or None: as
    configured. everywhere : also for threads and contexts that are in no block of their own.
    place : where arrays that are made inside live; None: nowhere in particular.
    """

    backend: str | None
    def __new__(
        cls,
        *,
        min_size: int = ...,
        backend: str | None = ...,
        everywhere: bool = ...,
        place: DeviceMemory | None = ...,
    ) -> Self: ...
    def __enter__(self) -> Self:
        """From now on, in this thread and task, arrays are taken."""
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None:
        """No longer."""

def hear_blocks(all: bool, /) -> None:
    """Whether the methods _opening, _opened, _leaving, _left are called for each block."""

def redirect(
    function: object,
    look: int,
    taker: Callable[..., Any] | None,
    name: str,
    reason: str,
    writes: bool,
    adopts: int,
    moves: bool,
    /,
) -> bool:
    """Enter a C function or method in the table of what is redirected while a block is open.

    taker(*args, **kwargs) records the call; a string that it returns says why it could not.
    writes : NumPy writes its operands. adopts : 1 where a large new result becomes an Array; 2
    where, besides, a view of a whole Array is replaced by that Array.
    moves : the result has the same bits, whoever computes it.
    False: it is none that can be redirected.
    """

def redirect_ufunc(ufunc: np.ufunc, exact: int, /) -> bool:
    """The same for a ufunc; exact: its results have the same bits, whoever computes them: 2;
    if the operands are real: 1; 0: no."""

def settle_calls(kind: type, /) -> None:
    """Evaluate, and open, everything whenever an object of this C class is called."""

def redirect_whole(
    function: Callable[..., Any], name: str, reason: str, most_bytes: int, /
) -> bool:
    """Have a function that NumPy writes in Python run in NumPy as a whole while a block is open,
    counted with `reason`, or on so many bytes at most; -1: only of small arrays; -2: its code makes
    views, and is called on an array of ours at once. False: it is none that NumPy dispatches."""

def redirect_taker(taker: Callable[..., Any], /) -> None:
    """taker(ufunc, *args, **kwargs) for calls of ufuncs that the core does not record alone."""

def forget_rows() -> None:
    """How long NumPy's loops took by one thread and by all: nothing is known again. For tests."""

def redirected() -> list[int]:
    """What each redirected slot holds now, as addresses."""

def call_python(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call Python code of NumPy's, whose time is NumPy's but for what it has recorded."""

def did_it_here() -> bool:
    """Whether what the latest call_numpy or call_python called last was done here after all."""

def call_numpy(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call as if no block were open."""

def prove(ufunc: np.ufunc, /) -> tuple[bool, bool, bool]:
    """Whether calls of ufuncs, functions and methods can be redirected here; `ufunc`: one made
    for this."""

def any_block() -> bool:
    """Whether a block is open in any thread."""

def in_block() -> bool:
    """Whether plain arrays are taken here."""

def threshold() -> int:
    """Bytes from which operations are recorded here: the block's, or as configured."""

def block_backend() -> str | None:
    """The backend that the innermost block names."""

def prepare(sizes: tuple[int, ...], most_bytes: int, /) -> bool:
    """Have a thread start the pool's threads, and touch memory for ranges of these sizes, at most
    `most_bytes` or an eighth of what is free. What nobody took two seconds later is given back.
    False: there is one processor only, no guard, or it was done before."""

def prepare_end() -> None:
    """End that now."""

def spawn(
    arguments: tuple[bytes, ...], left_out: bytes, added: tuple[bytes, ...], errors: bytes, /
) -> tuple[object, int, int]:
    """Have a thread start a process in a session of its own, with nothing to wait for here; it is
    no child of this one, whose program might wait for its children.

    arguments: the first one is its program's file. Its environment is ours but for what begins
    with `left_out`, and what is added; `errors` is the file for its standard error. Returns its
    start, for `spawned`, and the ends of pipes to its standard input and from its output, which do
    not wait. What is written before it is there reaches it; where none can be started the second
    pipe ends.
    """

def spawned(start: object, /) -> int:
    """The process that was started, once it runs its program; raises OSError."""

def kill_spawned(start: object, /) -> None:
    """End the process that was started, if it has not ended; raises OSError as `spawned` does."""

def new_sizes() -> tuple[int, ...]:
    """Sizes of the ranges from 64 KiB on that got pages, for kernels, which nothing in the process
    had used before; from the first one on for a second or two."""

def place(array: np.ndarray[Any, Any], /) -> tuple[int, int] | None:
    """Of an array of ours its memory's number in the queue, or -1, and at which of its bytes it
    begins; None: the memory is not ours."""

def contents(which: int | np.ndarray[Any, Any], /) -> bytes:
    """What the memory with that number in the queue, or an array's, holds now; all of it."""

def stepping(on: bool, /) -> None:
    """Have this thread run each operation at its line, once more or once less."""

def profile_begin(libraries: tuple[str, ...], /) -> None:
    """Count time by line and program from now on; RuntimeError: that is being done. Python's own
    time in files whose names begin so is of the program's line that called."""

def profile_end() -> tuple[
    int,
    list[tuple[str, int, str, int, tuple[int, ...]]],
    list[
        tuple[
            Program | None,
            bool,
            int,
            int,
            list[tuple[int, int, int, list[int], int]],
            list[tuple[int, int, int]],
        ]
    ],
    bytes,
    int,
    int,
]:
    """What was counted: nanoseconds in all; lines as (file, line, function, calls, nanoseconds per
    activity: Python, recording, planning, running, kernels, loops, NumPy); runs as (program,
    whether without kernels, runs, nanoseconds, [(line, rule's id, points, links, seen)],
    [(kind, nanoseconds, requests)] per step), where links have for each input the request that
    wrote it, -1 for a scalar and -2 - n for array n from before, and seen what others may look at;
    events, see native/run/profile.c; how many of them one stands for;
    runs that there was no room for. Line 0 is elsewhere."""

def times(on: bool | None, /) -> dict[str, float]:
    """Seconds so far in recording, planning, kernels, loops, numpy and running (what a run does
    besides); whether to count from now on; None: as before."""

class Section:
    """A macro section while its body runs for the first time, on placeholders without values."""

    def __init__(
        self,
        stop: Callable[[str, str, int], None],
        called: Callable[[FrameType, Any], None],
    ) -> None:
        """stop(kind, what, buffer) is called to raise. kind: "read", "write", "evaluate" (illegal),
        "numpy" (NumPy would have to compute with a placeholder) or "refuse" (what says why).
        called(frame, function or None) hears of code that is entered, and of C functions."""

    def enter(self) -> None:
        """This thread records into it from now on."""
    def leave(self) -> None:
        """No longer."""
    def close(self) -> None:
        """Its placeholders can't be used any more; what was recorded stays."""

    def buffer(self, size: int, /) -> ArrayBase | None:
        """A placeholder of so many bytes; None: there is no guarded memory."""

    def view(
        self,
        buffer: ArrayBase,
        offset: int,
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        writable: bool,
        /,
    ) -> ArrayBase:
        """An Array over a placeholder."""
    def place(self, array: object, /) -> tuple[int, int] | None:
        """Number of the buffer that an array of the section lies in, and offset; None: another."""

    def scalar(self, array: object, /) -> None:
        """The array stands for a NumPy scalar, which nothing can change."""

    def is_scalar(self, array: object, /) -> bool:
        """Whether the array, or what it is a view of, stands for one."""

    def buffers(self) -> list[tuple[Any, ...]]:
        """Per buffer (size, written, seen, read, owner, address, changed). seen: arrays show it.
        read: raw, by a fault. owner: of an array from outside, and whether that changed."""

    def pending(self, states: bytes, /) -> Pending:
        """Its requests as a plan is made for them; floats that calls bring are NaN. states: per
        buffer a word, as keys have them (native/trace/key.c)."""

    def sites(self) -> list[tuple[str, Any, int]]:
        """(operation, code, lasti) per request."""

    def checks(self) -> list[tuple[int, int]]:
        """Of indices: their buffer and -1, or the buffers of the smallest and the largest."""

    def bindings(self) -> list[tuple[int, int, int]]:
        """(request, operand, slot) per use of a run-time number."""

class Runtime:
    """A Python number that a section takes anew at each call. slot: its position there."""

    def __init__(self, value: float, slot: int) -> None: ...
    @property
    def _value(self) -> Any: ...
    @property
    def _slot(self) -> int: ...
    def look(self) -> Any:
        """Only of runtime.macros.traced_scalars.TracedScalar."""

class Replay:
    """One recorded variant of a macro section; what it is made of: native/macro/macro.h."""

    info: Any
    program: Program
    section: Section
    used: int
    hits: int

    def __init__(
        self,
        *,
        section: Section,
        program: Program,
        nargs: int,
        names: tuple[str, ...],
        inputs: list[tuple[Any, ...]],
        members: list[tuple[int, int, int]],
        numbers: list[tuple[str, int, int, float]],
        uses: list[tuple[int, int, int]],
        guards: list[tuple[Any, str, Any]],
        buffers: list[tuple[Any, ...]],
        roots: list[tuple[Any, ...]],
        outputs: list[tuple[Any, ...]],
        temporary_bytes: int,
        errstate: int,
        draws: Any,
        drawn: list[Any],
        heavy: bool,
        info: object,
        place: DeviceMemory | None,
        anywhere: bool,
    ) -> None: ...
    def run(self, args: tuple[Any, ...], names: tuple[str, ...], /) -> tuple[int, Any]:
        """(0, None) these arguments are of another signature; (1, result); (2, why the body must
        run)."""

class Macro:
    """A function whose recorded runs are replayed; `miss(args, kwargs, why)` does the rest.
    why: empty where no variant fits, else why the body must run."""

    __wrapped__: Any
    stats: Any
    clear: Any
    _section: Any

    def __init__(self, miss: Callable[[tuple[Any, ...], dict[str, Any], str], Any]) -> None: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def _add(self, replay: Replay, /) -> None:
        """A recorded variant."""
    def _drop(self, replay: Replay | None, /) -> None:
        """Forget a variant, or with None all."""
    @property
    def _variants(self) -> list[Replay]: ...

def guard_holds(where: Any, name: str, value: Any, /) -> bool:
    """Whether `value` is under `name` in a dict, a cell or a class, or is an attribute; name "":
    whether a list has these items, a dict these keys and values, an array these bytes."""

def check_index(index: np.ndarray[Any, Any], extent: int, /) -> bool:
    """In a section: have each replay look whether these are in bounds. False: it computes them."""

def check_extremes(least: np.ndarray[Any, Any], most: np.ndarray[Any, Any], extent: int, /) -> None:
    """The same, of what the section computes: int64 without dimensions."""

def plainly(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], /) -> Any:
    """Its result, whatever it calls being NumPy's, also in a block."""

def in_section(*arrays: object) -> bool:
    """Whether one of these is a section's; without any, whether this thread records one."""

def copies_scalar(of: np.ndarray[Any, Any], copy: np.ndarray[Any, Any], /) -> None:
    """Where `of` stands for a NumPy scalar in a macro section, so does `copy`."""

def reading(array: np.ndarray[Any, Any], how: str, /) -> None:
    """Raise SectionError where `array` is a section's and has no values."""

class Recordings:
    """What the requests of macro blocks of one name were, at earlier times, and how many rounds
    went which way."""

    hits: int
    made: int
    matched: int
    count: int
    bodies: int
    replays: int
    aside: int
    times: tuple[float, float, bool] | None  # of a round recorded, and aside; whether it is aside

class MacroBlock:
    """A macro section that is a block of code. Inside, this thread records operations on npaccel
    arrays of any size and matches them against what `blocks.known(name, control)` has; or the block
    stands aside, where calls at once were measured to take less time.

    `_stop("read" or "evaluate", what)` is called where a pending value is asked for, and
    `_entered_again()` where this thread is in one of that name. Both may raise.
    """

    arrays: tuple[np.ndarray[Any, Any], ...]
    name: str
    line: tuple[str, int]
    def __new__(
        cls,
        blocks: Any,
        name: str,
        arrays: tuple[np.ndarray[Any, Any], ...],
        control: Any,
        boundscheck: int,
    ) -> Self:
        """boundscheck : 1, 0: indices and divisors are looked at inside, or not; -1: as outside."""
    def __enter__(self) -> Self:
        """What is pending runs, and what comes is the block's."""
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None:
        """What the block has recorded runs."""

def verify_matches(on: bool, /) -> int:
    """For tests: from now on keys of matched requests are made as well. How many were others."""

def refuse(why: str, /) -> None:
    """Have the section that this thread records, if any, run without being recorded."""

def evaluating() -> None:
    """Raise SectionError inside a section."""

def errstate() -> int:
    """The errstate as requests have it; -1 where something else than ignore and warn is set."""

# philox.c: words of a stream, and what numbers they stand for; each a ufunc.
philox: np.ufunc
philox_half: np.ufunc
unit_of: np.ufunc
single_of: np.ufunc
fraction_of: np.ufunc
normal_of: np.ufunc
exponential_of: np.ufunc

def philox_install(capsule: Any, state: Any, /) -> None:
    """Have a bit generator draw from a state: eight words."""

def philox_take(state: Any, n: int, /) -> tuple[int, int, int] | None:
    """(place, high, key) of the next n words, which count as drawn."""

def philox_words(state: Any, n: int, /) -> np.ndarray[Any, Any]:
    """The next n words."""
