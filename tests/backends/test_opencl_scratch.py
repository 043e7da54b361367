"""Scratch memory of OpenCL's kernels: items that run at the same time share none of it."""

import ctypes
from dataclasses import replace

import numpy as np
import pytest

from npaccel.backends.base import Grid
from npaccel.backends.layout import Layout
from npaccel.ir.nodes import Fold, Leaf, Reduce, RowParam, Store, StoreScratch
from npaccel.ir.scalar import Pool

from .support import Opencl, U, compile_kernel, kernel, param

pytestmark = pytest.mark.usefixtures("opencl")
TASKS, STEP, BEYOND = 3, 128, 4096
_SET_POINTER = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p)


@pytest.fixture(scope="module", params=["own", "groups"])
def device(request):
    machine = Opencl() if request.param == "own" else Opencl.of_groups()
    if not machine._backend.target.shares_memory:
        pytest.skip("the device does not see the host's memory")
    yield machine
    machine._backend.target.builder.stop()


class Launcher:
    """Launches as the C core does, a task for each item or group, with scratch memory to look at.

    fill : what is in all bytes of `scratch` before
    """

    def __init__(self, compiled, target, fill):
        self._compiled, self._target, self._fill = compiled, target, fill
        self.scratch = np.empty(0, "u1")

    def launch(self, words, sizes, partials, flags):
        layout, target = Layout.of(self._compiled.kernel), self._target
        given = np.ctypeslib.as_array((ctypes.c_int64 * layout.size).from_address(words))
        own = np.array([*given, *sizes, 0, 0])
        self.scratch = np.full(TASKS * sizes[-1] + BEYOND, self._fill, "u1")
        begin = self.scratch[-self.scratch.ctypes.data % 64 :]
        pointers = [own.ctypes.data, begin.ctypes.data, partials, flags]
        for k in range(layout.arrays):
            pointers.append(int(own[layout.array(k)]))
            own[layout.array(k)] = 0
        (run, *_) = self._compiled.library.library
        for k, pointer in enumerate(pointers):
            assert _SET_POINTER(target.functions[0])(run.int_ptr, k, pointer) == 0
        items, size = TASKS * target.group_size, target.group_size
        target.cl.enqueue_nd_range_kernel(target.cl_queue, run, (items,), (size,)).wait()
        self.scratch = begin[: TASKS * sizes[-1]]
        assert (begin[TASKS * sizes[-1] :] == self._fill).all()
        return 0


def _written(device, made, extents, arrays, step):
    """How many bytes of each task's scratch memory are written; results are checked elsewhere."""
    compiled = compile_kernel(made, device)
    left = []
    for fill in (0, 255):
        launcher = Launcher(compiled, device._backend.target, fill)
        grid = Grid(TASKS * step, step, extents[-1] if made.split else 1, 1 << 16)
        device.run(replace(compiled, launcher=launcher), extents, arrays, grid=grid)
        left.append(launcher.scratch.reshape(TASKS, -1))
    return compiled, (left[0] == left[1]).sum(1).tolist()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("fold", [Fold.SUM, Fold.ARGMIN])
@pytest.mark.parametrize("split", [False, True])
def test_items_keep_what_their_tiles_need_apart(device, fold, split):
    pool, result = Pool(), "f4" if fold is Fold.SUM else "i8"
    leaves = [
        Leaf(False, (Reduce(0, fold, pool.load("f4", 0)),)),
        Leaf(True, (Store(1, pool.row(result, 0)),)),
    ]
    arrays = [param("f4"), param(result, U, out=True, band_only=True)]
    fields = {"band_rank": 1, "vector_band": True, "split": split, "rows": (RowParam(result),)}
    made = kernel(arrays, leaves, **fields)
    tile = compile_kernel(made, device).tasks.tile or STEP
    columns = TASKS * tile
    data = np.random.default_rng(0).standard_normal((20, columns), "f4").T
    out = np.lib.stride_tricks.as_strided(
        np.zeros(columns, result), (columns, 20), (np.dtype(result).itemsize, 0)
    )
    compiled, written = _written(device, made, (columns, 20), [data, out], tile)
    assert len(set(written)) == 1
    assert (written[0] > 0) == (compiled.tasks.tile > 0)


def _two_arrays(pool, x, **fields):
    """Two arrays of scratch, of 1 and 8 bytes for each element of x."""
    leaves = [
        Leaf(False, (StoreScratch(0, x.convert("i1")),)),
        Leaf(False, (StoreScratch(1, x * 2.0),)),
        Leaf(False, (Store(1, pool.scratch("f8", 1) - pool.scratch("i1", 0).convert("f8")),)),
    ]
    arrays = [param("f8"), param("f8", out=True)]
    return kernel(arrays, leaves, band_rank=1, scratch=("i1", "f8"), **fields)


@pytest.mark.parametrize("kind", ["rows", "columns", "scans"])
def test_items_keep_rows_of_scratch_apart(device, kind):
    """Each item has all that its rows need, and no other writes it: no two write one byte."""
    pool, inner = Pool(), 5
    x = pool.load("f8", 0)
    x = pool.scan("add", x) if kind == "scans" else x
    made = _two_arrays(pool, x, vector_band=kind == "columns")
    data = np.random.default_rng(0).integers(1, 9, (TASKS * STEP, inner)).astype("f8")
    arrays = [data, np.zeros_like(data)]
    if kind == "columns":
        arrays = [array.T.copy().T for array in arrays]
    compiled, written = _written(device, made, data.shape, arrays, STEP)
    np.testing.assert_array_equal(arrays[1], arrays[0] if kind != "scans" else data.cumsum(1))
    alone = compiled.tasks.width or (kind == "scans" and device._backend.target.group_size) or 1
    assert written == [alone * inner * 9] * TASKS
