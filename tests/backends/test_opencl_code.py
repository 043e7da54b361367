"""What the OpenCL backend writes for other devices than this one, and how programs are built."""

from types import SimpleNamespace

import numpy as np
import pytest

from npaccel import _native
from npaccel.backends.base import Grid
from npaccel.backends.opencl import helper, target
from npaccel.backends.opencl.printer import Device, write_source
from npaccel.errors import CompileError, Unsupported
from npaccel.ir.nodes import Fold, Leaf, Reduce, RowParam, Store, StoreRow, StoreScratch
from npaccel.ir.scalar import Core, Pool

from .support import Cuda, Opencl, S, Z, check, compile_kernel, edge_values, kernel, param

pytestmark = pytest.mark.usefixtures("opencl")
# A device that is no processor has no vectors; a processor need not have wide ones.
OTHERS = (0, 32)
N = 333


@pytest.fixture(scope="module", params=[None, *OTHERS], ids=["own", "none", "narrow"])
def device(request):
    machine = Opencl()
    there = machine._backend.target
    if request.param and not there.processor:
        pytest.skip("vectors are for processors")
    if request.param is not None:
        there.vector_bytes, there.features = request.param, ""
    there.group_size = 1  # a device that is no processor has work groups, too: see `groups`
    yield machine
    machine._backend.target.builder.stop()


@pytest.fixture(scope="module", params=["opencl", "cuda"])
def groups(request):
    """All of the kernels' tests run there with TEST_BACKENDS=groups, or emulated."""
    if request.param == "cuda":
        request.getfixturevalue("emulated_cuda")
        yield Cuda()
        return
    machine = Opencl.of_groups()
    yield machine
    machine._backend.target.builder.stop()


def _floats(dtype):
    pool = Pool()
    x, y = (pool.load(dtype, k) for k in range(2))
    values = [x.fma(y, x), abs(x).unary(Core.SQRT), x.binary(Core.COPYSIGN, y)]
    rounded = [Core.FLOOR, Core.CEIL, Core.TRUNC, Core.RINT]
    values.append(sum((x.unary(op) * k for k, op in enumerate(rounded, 2)), x))
    return _map(dtype, values)


def _integers(dtype):
    pool = Pool()
    x, y = (pool.load(dtype, k) for k in range(2))
    divisor = (y & 77) | 1
    values = [x.binary(Core.DIV, divisor), x.binary(Core.REM, divisor)]
    return _map(dtype, [*values, x.unary(Core.POPCOUNT), x.unary(Core.CLZ)])


def _map(dtype, values):
    """A kernel that stores these values, and data for it."""
    arrays = [param(dtype), param(dtype), *(param(dtype, out=True) for _ in values)]
    stores = tuple(Store(k, value) for k, value in enumerate(values, 2))
    data = [edge_values(dtype, N, k) for k in range(len(arrays))]
    return kernel(arrays, [Leaf(False, stores)], split=True), data


@pytest.mark.parametrize("make", [_floats, _integers])
def test_functions_of_other_devices_are_the_same(device, make):
    made, data = make("f8" if make is _floats else "i4")
    check(device, made, (N,), data)


@pytest.mark.parametrize("vector_bytes", [None, *OTHERS])
def test_quotients_by_double_are_the_same(vector_bytes):
    """Of all kinds of floats, and of small integers, which are divided as floats."""
    machine, pool = Opencl(), Pool()
    there = machine._backend.target
    if not there.processor and not there.by_double:
        # NVIDIA's compiler makes a quotient of floats of it again, by the rounding of its options.
        pytest.skip("this device rounds quotients of floats itself")
    there.options, there.exact_singles, there.by_double = "-cl-std=CL1.2", True, True
    if vector_bytes is not None:
        there.vector_bytes, there.features = vector_bytes, ""
    x, y, h, k = (pool.load(dtype, i) for i, dtype in enumerate(("f4", "f4", "f2", "i2")))
    values = [x / y, abs(x).unary(Core.SQRT), h / y.convert("f2"), abs(h).unary(Core.SQRT)]
    values.append(k.binary(Core.DIV, (k & 77) | 1))
    arrays = [param(value.dtype) for value in (x, y, h, k)]
    arrays += [param(value.dtype, out=True) for value in values]
    made = kernel(arrays, [Leaf(False, tuple(Store(i, v) for i, v in enumerate(values, 4)))])
    rng = np.random.default_rng(0)
    data = [rng.integers(0, 256, 4 * 10_007, "u1").view(a.dtype)[:10_007].copy() for a in arrays]
    data[0][:N], data[1][:N] = edge_values("f4", N), edge_values("f4", N, 1)
    check(machine, made, (10_007,), data)
    machine._backend.target.builder.stop()


def test_what_is_asked_of_a_devices_singles():
    """Quotients and roots may be wrong where there are doubles to compute them by."""
    kinds = pytest.importorskip("pyopencl").device_fp_config
    all_but = int(kinds.DENORM | kinds.INF_NAN | kinds.ROUND_TO_NEAREST)

    def singles(config, fp64):
        device = SimpleNamespace(single_fp_config=config)
        there = SimpleNamespace(cl=target._opencl(), device=device, fp64=fp64)
        return target.Target._singles(there)

    correct = all_but | int(kinds.CORRECTLY_ROUNDED_DIVIDE_SQRT)
    assert singles(correct, True) == singles(correct, False) == (True, False)
    assert singles(all_but, True) == (True, True)
    assert singles(all_but, False) == singles(correct & ~int(kinds.DENORM), True) == (False, False)


def test_vectors_are_the_processors_unless_its_driver_is_older():
    def size(preferred, native, *, pocl=False, processor=True, exact_singles=True):
        widths = {"preferred_vector_width_double": preferred, "native_vector_width_double": native}
        fields = {"pocl": pocl, "processor": processor, "exact_singles": exact_singles}
        there = SimpleNamespace(device=SimpleNamespace(**widths), features="", **fields)
        return target.Target._vector_bytes(there)

    own = max(16, _native.cpu()[1])
    assert size(1, 8) == own
    assert size(8, 8, pocl=True) == min(own, 32)
    assert size(2, 2) == 16
    assert size(4, 4, processor=False) == size(4, 4, exact_singles=False) == 0


def test_columns_on_other_devices(device):
    pool = Pool()
    sums = Leaf(False, (Reduce(0, Fold.SUM, pool.load("f8", 0)),))
    store = Leaf(True, (Store(1, pool.row("f8", 0)),))
    arrays = [param("f8"), param("f8", out=True, band_only=True)]
    made = kernel(arrays, [sums, store], band_rank=1, vector_band=True, rows=(RowParam("f8"),))
    data = np.random.default_rng(0).standard_normal((40, 600)).T
    out = np.lib.stride_tricks.as_strided(np.zeros(600), (600, 40), (8, 0))
    check(device, made, (600, 40), [data, out])


def _store_sum(pool, **fields):
    arrays = [param("f8"), param("f8", Z, out=True, band_only=True)]
    leaves = [
        Leaf(False, (Reduce(0, Fold.SUM, pool.load("f8", 0)),)),
        Leaf(True, (Store(1, pool.row("f8", 0)),)),
    ]
    return kernel(arrays, leaves, rows=(RowParam("f8"),), **fields)


def test_items_of_a_group_keep_the_order_of_sums(groups):
    """Lanes, blocks, teams that have less or nothing, chunks, and parts beyond the group's size."""
    made = _store_sum(Pool(), split=True)
    compiled = compile_kernel(made, groups)
    rng = np.random.default_rng(0)
    for n in (1, 33, 513, 5 * 512 + 7, 37 * 512, 32769, 100_003, 131 * 32768 + 5):
        out = np.lib.stride_tricks.as_strided(np.zeros(1), (n,), (0,))
        check(groups, made, (n,), [1 + rng.standard_normal(n) / 8, out], compiled=compiled)


def test_items_of_a_group_wait_for_each_other_between_leaves(groups):
    """A row's sum, overwritten where it is read; what all items left in scratch memory; rows."""
    pool = Pool()
    x, total, old = pool.load("f8", 0), pool.row("f8", 0), pool.row("f8", 1)
    leaves = [
        Leaf(False, (StoreScratch(0, x * 3.0),)),
        Leaf(False, (Reduce(0, Fold.SUM, pool.scratch("f8", 0)),)),
        Leaf(True, (StoreRow(1, pool.load("f8", 1) + total), Store(1, total))),
        Leaf(False, (Store(2, pool.scratch("f8", 0) * old),)),
    ]
    arrays = [param("f8"), param("f8", S, read=True, out=True, band_only=True)]
    arrays.append(param("f8", out=True))
    rows = (RowParam("f8"),) * 2
    made = kernel(arrays, leaves, band_rank=1, rows=rows, scratch=("f8",))
    data = np.random.default_rng(0).standard_normal((20, 700))
    once = np.lib.stride_tricks.as_strided(np.arange(20.0), (20, 700), (8, 0))
    check(groups, made, (20, 700), [data, once, np.zeros((20, 700))])
    # PoCL waits before loops that hold a barrier, whether it is told to or not.
    maps = kernel(arrays, [leaves[0], Leaf(False, (Store(2, x),))], band_rank=1, scratch=("f8",))
    assert write_source(maps, Device(0, group_size=64)).count("barrier(CLK") == len(maps.leaves)


@pytest.mark.parametrize("shape", [(7, 5, 3), (3, 2, 300)])
@pytest.mark.parametrize("band_rank", [0, 2])
def test_groups_take_several_short_rows(groups, shape, band_rank):
    pool = Pool()
    values = pool.load("i4", 0) + pool.index(0).convert("i4") * 7 + pool.index(1).convert("i4")
    arrays = [param("i4"), param("i4", out=True)]
    leaves = [Leaf(False, (Store(1, values),))]
    made = kernel(arrays, leaves, band_rank=band_rank, inner_rank=3 - band_rank)
    data = edge_values("i4", int(np.prod(shape))).reshape(shape)
    check(groups, made, shape, [data[:, ::-1], np.zeros(shape, "i4")])


def _columns(fold, dtype, *, split):
    """Two folds of each column, one under a mask; and a copy of it."""
    pool = Pool()
    x = pool.load(dtype, 0)
    result = "i8" if fold is Fold.ARGMAX else dtype
    mask = None if fold is Fold.ARGMAX else pool.load("b1", 1)
    effects = [Reduce(0, fold, x), Reduce(1, fold, x, mask), Store(4, x)]
    rows = [Store(2, pool.row(result, 0)), Store(3, pool.row(result, 1))]
    arrays = [param(dtype), param("b1"), param(result, out=True, band_only=True)]
    arrays += [param(result, out=True, band_only=True), param(dtype, out=True)]
    fields = {"band_rank": 1, "vector_band": True, "split": split, "rows": (RowParam(result),) * 2}
    return kernel(arrays, [Leaf(False, tuple(effects)), Leaf(True, tuple(rows))], **fields)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize(
    ("fold", "dtype"),
    [
        (Fold.SUM, "f4"),
        (Fold.PRODUCT, "c16"),
        (Fold.MAX, "f8"),
        (Fold.FMIN, "f4"),
        (Fold.ARGMAX, "f8"),
        (Fold.SUM, "i4"),
    ],
)
def test_teams_of_a_group_share_columns(groups, fold, dtype, split):
    """Columns fewer than a team has, more, not a multiple; rows fewer than a block, blocks that
    are no power of two, teams without any, chunks; all of it with NaNs."""
    made = _columns(fold, dtype, split=split)
    compiled = compile_kernel(made, groups)
    rng = np.random.default_rng(0)
    for m, n in ((1, 7), (1, 600), (3, 33), (9, 16), (21, 1000), (130, 17), (2, 32768 + 40)):
        data = edge_values(dtype, m * n, n)
        if fold in (Fold.SUM, Fold.PRODUCT) and dtype[0] in "fc":
            data = (1 + rng.standard_normal(m * n) / 8).astype(dtype)
        elif dtype[0] == "f":
            data = np.where(data == 0, np.asarray(1, dtype), data)  # which zero is no promise
        result = "i8" if fold is Fold.ARGMAX else dtype
        outs = [np.zeros(m, result) for _ in range(2)]
        outs = [np.lib.stride_tricks.as_strided(o, (m, n), (o.itemsize, 0)) for o in outs]
        own = [np.zeros((n, m), dtype).T]
        arrays = [data.reshape(n, m).T, rng.random((n, m)).T < 0.7, *outs, *own]
        grid = Grid(m, 8, n, 32768) if m > 8 else None
        check(groups, made, (m, n), arrays, compiled=compiled, grid=grid)


def test_groups_are_of_what_the_device_allows():
    def size(items, local_bytes=1 << 15):
        limits = {"max_work_group_size": items, "max_work_item_sizes": [items, 1, 1]}
        device = SimpleNamespace(local_mem_size=local_bytes, **limits)
        return target.Target._group_size(SimpleNamespace(device=device))

    assert [size(n) for n in (1, 31, 32, 100, 1024)] == [1, 1, 32, 64, 128]
    assert size(1024, 1024) == 1
    made = _store_sum(Pool())
    assert "barrier(" not in write_source(made, Device(0)) + write_source(made, Device(32))
    assert "reqd_work_group_size(64, 1, 1)" in write_source(made, Device(0, group_size=64))


def test_code_for_other_devices_has_no_processors_instructions():
    made, _ = _floats("f8")
    text = write_source(made, Device(0))
    assert "__builtin_ia32" not in text and "noinline" not in text
    assert "WIDE" not in write_source(made, Device(32)).splitlines()[0]
    assert 'WIDE "avx512f"' in write_source(made, Device(64, "avx512f"))


def test_what_a_device_rounds_otherwise_is_refused():
    machine = Opencl()
    machine._backend.target.exact_singles = False
    with pytest.raises(Unsupported, match="rounds single precision otherwise"):
        machine.compile(_floats("f4")[0])
    machine._backend.target.fp64 = False
    with pytest.raises(Unsupported, match="no double precision"):
        machine.compile(_floats("f8")[0])


def test_options_are_tried_in_turn_and_the_last_ones_errors_told():
    there = target.Target()
    needs = "#ifndef GOOD\n#error not this way\n#endif\nkernel void run() {}\n"
    header = {"device": there.found.place, "symbols": (), "words": 0, "host_memory": False}
    try:
        assert there.builder.build(header | {"options": ["-DBAD", "-DGOOD"]}, needs)
        with pytest.raises(CompileError, match="not this way"):
            there.builder.build(header | {"options": ["-DGOOD -DOTHER(", "-DBAD"]}, needs)
    finally:
        there.builder.stop()


def test_a_device_has_one_context_for_all_builds(monkeypatch):
    made = []

    class Driver:
        def get_platforms(self):
            return [self]

        def get_devices(self):
            return ["device"]

        def Context(self, devices):  # noqa: N802
            made.append(devices)
            return object()

    monkeypatch.setattr(helper, "_contexts", {})
    assert helper._context(Driver(), (0, 0)) is helper._context(Driver(), (0, 0))
    assert made == [["device"]]
