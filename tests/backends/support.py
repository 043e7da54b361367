"""Kernels, data and comparison for tests of compiled code against the interpreter."""

import numpy as np

from npaccel.backends import launch
from npaccel.backends.llvm import compile as llvm_compile
from npaccel.backends.registry import open_backend
from npaccel.ir.nodes import ArrayParam, Kernel, Stride
from npaccel.ir.reference.kernels import run_kernel


class Llvm:
    """What a test of any backend needs of one; the host is LLVM's."""

    name = "llvm"

    def __init__(self, host):
        self.host = host

    def compile(self, made):
        return llvm_compile.compile_kernel(made, self.host)

    def run(self, compiled, extents, arrays, scalars=(), *, grid=None):
        return launch.run_step(compiled, extents, arrays, scalars, grid=grid)


class Declared:
    """The same of a backend of another package whose code runs on the host."""

    def __init__(self, name):
        self.name, self._backend = name, open_backend(name)

    def compile(self, made):
        return self._backend.compile(made)

    def run(self, compiled, extents, arrays, scalars=(), *, grid=None):
        return launch.run_step(compiled, extents, arrays, scalars, grid=grid)


class Opencl:
    """The same of an OpenCL device."""

    def __init__(self, name="opencl"):
        from npaccel.backends.device_launch import run_step
        from npaccel.backends.opencl.backend import OpenclBackend

        self.name, self._backend, self._run = name, OpenclBackend(), run_step

    @classmethod
    def of_groups(cls):
        """The device with code for those that are no processors: no vectors, work groups."""
        from npaccel.backends.opencl.target import GROUP_SIZE

        made = cls("groups")
        there = made._backend.target
        there.vector_bytes, there.features, there.group_size = 0, "", GROUP_SIZE
        there.options += " -cl-opt-disable"  # or PoCL takes ten seconds for loops with barriers
        return made

    @classmethod
    def of_own_memory(cls):
        """The device as if it did not share the host's memory."""
        made = cls("apart")
        made._backend.limit_memory(1 << 30)
        return made

    def compile(self, made):
        return self._backend.compile(made)

    def run(self, compiled, extents, arrays, scalars=(), *, grid=None):
        return self._run(compiled, extents, arrays, scalars, grid=grid)


class Cuda:
    """The CUDA backend on an emulated driver, or on a real one."""

    name = "cuda"

    def __init__(self):
        from npaccel.backends.cuda.backend import CudaBackend
        from npaccel.backends.device_launch import run_step

        self._backend, self._run = CudaBackend(), run_step
        self._backend.memory.want(False)  # other tests' arrays are not to live there

    def compile(self, made):
        return self._backend.compile(made)

    def run(self, compiled, extents, arrays, scalars=(), *, grid=None):
        return self._run(compiled, extents, arrays, scalars, grid=grid)


def compile_kernel(made, machine):
    """Compiled by the backend under test, which `run_step` then knows."""
    if not isinstance(machine, Llvm | Declared | Opencl | Cuda):
        machine = Llvm(machine)
    compiled = machine.compile(made)
    _MACHINES[id(compiled)] = machine, compiled
    return compiled


_MACHINES = {}


def run_step(compiled, extents, arrays, scalars=(), *, grid=None):
    if id(compiled) not in _MACHINES:  # made by the test itself: LLVM's
        return launch.run_step(compiled, extents, arrays, scalars, grid=grid)
    machine, _ = _MACHINES[id(compiled)]
    return machine.run(compiled, extents, arrays, scalars, grid=grid)


U, Z, S, X, B = Stride.UNIT, Stride.ZERO, Stride.ANY, Stride.ACROSS, Stride.BACK


def param(dtype, vector=U, *, out=False, read=None, band_only=False, nontemporal=False):
    """An ArrayParam that is read, or with `out` written."""
    return ArrayParam(dtype, vector, not out if read is None else read, out, band_only, nontemporal)


def kernel(arrays, leaves, **fields):
    """A Kernel with defaults for what a test does not care about."""
    fields = {"band_rank": 0, "inner_rank": 1, "scalars": (), "rows": (), "scratch": ()} | fields
    return Kernel(name="k", arrays=tuple(arrays), leaves=tuple(leaves), **fields)


def edge_values(dtype, n, seed=0):
    """Ordinary values mixed with the edges of `dtype`."""
    rng = np.random.default_rng(seed)
    kind = dtype[0]
    if kind == "b":
        return rng.integers(0, 2, n).astype(bool)
    if kind in "iu":
        limits = np.iinfo(dtype)
        edges = np.array([limits.min, limits.max, 0, 1, 2], dtype)
        ordinary = rng.integers(limits.min, limits.max, n, dtype=dtype, endpoint=True)
    elif kind == "f":
        tiny = np.finfo(dtype).smallest_subnormal
        edges = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, tiny, np.finfo(dtype).max, 0.5, -1.5])
        edges = edges.astype(dtype)
        ordinary = (rng.standard_normal(n) * 10.0 ** rng.integers(-3, 4, n)).astype(dtype)
    else:
        part = "f4" if dtype == "c8" else "f8"
        result = np.empty(n, dtype)
        result.real, result.imag = edge_values(part, n, seed), edge_values(part, n, seed + 1)
        return result
    pick = rng.random(n) < 0.25
    return np.where(pick, edges[rng.integers(0, len(edges), n)], ordinary).astype(dtype)


def same_bits(left, right):
    """Bit for bit equal, but all NaNs alike."""
    left, right = np.ascontiguousarray(left), np.ascontiguousarray(right)
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    if left.dtype.kind == "c":
        part = np.dtype(f"f{left.itemsize // 2}")
        left, right = left.view(part), right.view(part)
    equal = left.view(f"u{left.itemsize}") == right.view(f"u{left.itemsize}")
    if left.dtype.kind == "f":
        equal |= np.isnan(left) & np.isnan(right)
    return bool(equal.all())


def copies(arrays):
    """The same arrays with their own memory, stride 0 and negative strides kept."""
    made = {}
    result = []
    for array in arrays:
        base = array if array.base is None else _root(array)
        if id(base) not in made:
            made[id(base)] = base.copy()
        at = array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
        result.append(
            np.ndarray(array.shape, array.dtype, made[id(base)].data, at, array.strides)
            if base.size
            else np.empty(array.shape, array.dtype)
        )
    return result


def _root(array):
    """The array whose memory it shows, also through as_strided, which has an object between."""
    base = array.base
    while base is not None:
        array = base if isinstance(base, np.ndarray) else array
        base = getattr(base, "base", None)
    return array


def check(host, made, extents, arrays, scalars=(), *, grid=None, compiled=None):
    """Run compiled and interpreted; both must write the same bits and raise the same flags."""
    compiled = compiled or compile_kernel(made, host)
    ours, theirs = copies(arrays), copies(arrays)
    flags = run_step(compiled, extents, ours, scalars, grid=grid)
    expected = run_kernel(made, extents, theirs, scalars)
    for index, (left, right) in enumerate(zip(ours, theirs, strict=True)):
        assert same_bits(left, right), (index, left, right)
    assert flags == expected
    return ours
