"""Kernels whose operands do not fit into a device's memory run in parts, or on the host."""

import numpy as np
import pytest
from own_memory import (
    DEVICE,
    LIMIT,
    NUMBERED,
    ROOM,
    N,
    halved_sum,
    large,
    launched,
    moved,
    numbers,
    on_device,
)

import npaccel
from npaccel import _native
from npaccel.this_process import engine

pytestmark = [pytest.mark.pending, pytest.mark.usefixtures("device", "little_memory")]


def test_a_kernel_whose_operands_do_not_fit_runs_in_parts():
    a = numbers(0, 4 * N * ROOM)
    expected = halved_sum(a, a[::-1])
    x = on_device(a)
    y = npaccel.evaluate(halved_sum(x, x[::-1]))
    (step,) = npaccel.explain().steps
    assert step.backend == NUMBERED and "in parts" in step.reason
    np.testing.assert_array_equal(np.asarray(y), expected)
    x += y  # over what it reads
    npaccel.evaluate()
    assert launched() == 2
    assert engine.backend(DEVICE).memory.used <= LIMIT
    np.testing.assert_array_equal(np.asarray(x), a + expected)


def test_parts_move_what_they_use_once():
    a, row = numbers(0, 4 * N * ROOM).reshape(-1, 256), numbers(1, 256)
    x = on_device(a)
    y = npaccel.evaluate(halved_sum(x, npaccel.asarray(row)))
    assert moved()[1::2] == (a.nbytes + row.nbytes, a.nbytes)
    z = npaccel.evaluate(halved_sum(x[::4, 3:], row[3:]))  # of 2 MiB, a quarter of which is read
    assert launched() == 2
    np.testing.assert_array_equal(np.asarray(y), halved_sum(a, row))
    np.testing.assert_array_equal(np.asarray(z), halved_sum(a[::4, 3:], row[3:]))


def _scaled(x):
    x[:, 1::2] = x[:, ::2] - x.max(axis=1, keepdims=True)
    return x


def test_rows_and_strides_in_parts():
    """Elements that a part does not write lie between those that it does, and go to and fro."""
    a = numbers(0, 4 * N * ROOM)
    for source in (a.reshape(-1, 256), a.reshape(256, -1).T):
        x = on_device(source)
        found = npaccel.evaluate(_scaled(x))
        np.testing.assert_array_equal(np.asarray(found), _scaled(source.copy()))
    assert launched() > 0


def compare_in_parts(work, *sources, how="in parts"):
    """What the device makes of it, the same as the host does."""
    with npaccel.backend("llvm"):
        expected = npaccel.evaluate(work(*map(npaccel.asarray, sources)))
    before = launched()
    found = npaccel.evaluate(work(*map(on_device, sources)))
    steps = list(npaccel.explain().steps)
    there = [step for step in steps if step.backend == NUMBERED]
    assert any(how in step.reason for step in steps) and launched() == before + len(there)
    assert all("in parts" in step.reason for step in there) and (how == "no room" or there == steps)
    assert engine.backend(DEVICE).memory.used <= npaccel.config.device_memory
    np.testing.assert_array_equal(np.asarray(found), np.asarray(expected), strict=True)


def _mostly_slow(first, *more):
    """A driver takes its time for each new kernel."""
    rest = (one if isinstance(one, tuple) else (one,) for one in more)
    return [first, *(pytest.param(*one, marks=pytest.mark.slow) for one in rest)]


@pytest.mark.parametrize("fold", _mostly_slow("sum", "prod", "max", "argmin", "any", "mean", "std"))
def test_reductions_of_everything_in_parts_have_the_hosts_bits(fold):
    a = large(2 * N * ROOM + 1234)
    a[N * ROOM + 77] = -1000.0
    if fold == "prod":
        a = np.exp(a / 1e6)
    if fold == "std":  # two programs' worth of loops; both are in parts
        x = on_device(a)
        with npaccel.backend("llvm"):
            expected = npaccel.asarray(a).std()
        assert x.std() == expected and launched() > 0
        return
    compare_in_parts(lambda x: getattr(x * 0.5, fold)(), a)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["f2", "f4", "i2", "u8", "c16"])
def test_partial_results_of_all_kinds_come_home(dtype):
    npaccel.config.device_memory = 2 * LIMIT  # of what is summed each element is stored, too
    a = large(4 * LIMIT // np.dtype(dtype).itemsize, dtype=dtype)
    if dtype[0] != "c":
        compare_in_parts(lambda x: (x + x).max(), a)
        compare_in_parts(lambda x: (x + x).argmax(), a)
    with np.errstate(over="ignore"):
        compare_in_parts(lambda x: ((x + x) * x).sum(), a)
    compare_in_parts(lambda x: ((x + x) != 1).all(), a)


@pytest.mark.parametrize(
    ("work", "shape"),
    _mostly_slow(
        (lambda x: (x * 0.5).sum(axis=0), (4 << 15, 8)),
        (lambda x: np.sqrt((x * x).mean(axis=0)) + 1.0, ((3 << 15) + 5, 8)),
        (lambda x: (x * 0.5).argmax(axis=0), (4 << 15, 8)),
        (lambda x: (x * 0.5).sum(axis=1), (3, 4 << 15)),
        (lambda x: (x[:, ::2, :-1] * 0.5).sum(), (64, 128, 128)),
        (lambda x: (x[:, :-1] * 0.5).sum(axis=(0, 1)), (600, 128, 8)),
        (lambda x: (x[:, ::2, :-1] * 0.5).sum(axis=(1, 2)), (64, 128, 128)),
    ),
)
def test_reductions_of_columns_and_of_several_axes_in_parts(work, shape):
    npaccel.config.device_memory = 4 * LIMIT  # without AVX-512 a part takes more than three
    compare_in_parts(work, large(*shape))


@pytest.mark.slow
def test_however_many_columns_there_are():
    npaccel.config.device_memory = 40 * LIMIT
    compare_in_parts(lambda x: (x * 0.5).sum(axis=0), large(1 << 17, 80))
    compare_in_parts(lambda x: (x * 0.5).sum(axis=1), large(80, 1 << 17))


def test_what_a_reduction_stores_on_its_way_comes_home():
    def work(x):
        y = x * 0.5
        return y, y.sum(), y.max()

    a = large(2 * N * ROOM)
    with npaccel.backend("llvm"):
        expected = npaccel.evaluate(*(np.asarray(v) for v in work(npaccel.asarray(a))))
    found = work(on_device(a))
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_array_equal(np.asarray(x), y)
    assert launched() > 0


def test_an_index_is_a_value_in_parts_too():
    a = large(2 * N * ROOM).reshape(-1, 64)
    with npaccel.accelerate():
        compare_in_parts(lambda x: x + np.arange(float(a.size)).reshape(a.shape), a)
        compare_in_parts(lambda x: x.T + np.arange(a.size).reshape(a.shape).T, a)
        compare_in_parts(lambda x: (x.ravel() * np.arange(float(a.size))).sum(), a)


def test_flags_of_parts_come_together():
    a = large(2 * N * ROOM)
    x = on_device(a)
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        found = npaccel.evaluate((1.0 / np.abs(x + 1000.0 * (x == a[0]))).max())
        a[-1] = 0
        found = npaccel.evaluate((1.0 / np.abs(on_device(a))).max())
    assert found == np.inf


def test_what_can_not_be_cut_runs_on_the_host():
    compare_in_parts(lambda x: np.cumsum(x * 0.5, axis=0), large(8 * N, ROOM), how="no room")
    compare_in_parts(lambda x: (x * 0.5).sum(axis=0), large(ROOM, 8 * N), how="no room")
    compare_in_parts(lambda x: x - x.max(axis=0), large(8 * N, ROOM), how="no room")


MIB = 1 << 20


def _stencil(x):
    y = np.empty_like(x)
    y[1:-1] = (x[:-2] + x[1:-1] + x[2:]) / 3.0
    y[0], y[-1] = x[0], x[-1]
    return y


def _standardised(x):
    return (x - x.mean(axis=1, keepdims=True)) * 2.0


def _halved(x):
    x *= 0.5
    return x


@pytest.mark.slow
@pytest.mark.parametrize(
    ("work", "shape", "exact"),
    [
        (lambda x: np.sqrt(x * x + 1.0), (128 * MIB,), True),
        (_halved, (128 * MIB,), True),
        (_stencil, (128 * MIB,), True),
        (_standardised, (MIB // 2, 256), False),
        (lambda x: (x * 2.0).sum(axis=0), (4 * MIB, 32), False),
        (lambda x: np.array((x * 2.0).sum()), (128 * MIB,), False),
        (lambda x: np.array((x * 2.0).argmin()), (128 * MIB,), True),
    ],
    ids=["map", "in place", "stencil", "rows", "columns", "sum", "argmin"],
)
def test_a_gibibyte_with_room_for_a_sixteenth_of_it(work, shape, exact):
    npaccel.config.device_memory = 64 * MIB
    a = large(*shape)
    found = np.asarray(npaccel.evaluate(work(on_device(a.copy()))))
    assert launched() > 0 and npaccel.stats()["uploads"] > 16
    assert engine.backend(DEVICE).memory.used <= 64 * MIB
    expected = work(a)
    if exact:
        assert np.array_equal(found, expected)
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-9)


def test_what_a_large_launch_left_of_its_own_makes_room():
    """Its scratch memory, which the next launch would use if that were as large."""
    npaccel.config.device_memory = 16 * MIB
    rows = on_device(large(8, MIB // 16))
    npaccel.evaluate((rows * 2.0).sum(axis=0))
    npaccel.evaluate(rows / (rows * rows).sum(axis=1, keepdims=True))
    del rows
    npaccel.config.device_memory = LIMIT
    npaccel.stats(reset=True)
    npaccel.evaluate(on_device(numbers()) * 2.0)
    assert launched() == 1


@pytest.fixture
def scarce():
    """A function that leaves the driver so many bytes, besides what launches need."""
    memory = engine.backend(DEVICE).memory

    def leave(room):
        before, memory.limit = memory.limit, 0  # all else leaves
        memory.limit = before
        _native.device_inject(0, 0, 0, 0, memory.used + room)

    yield leave
    _native.device_inject(0)


@pytest.mark.parametrize("share", [2, 8])
def test_a_driver_without_room_gets_smaller_parts(scarce, share):
    """Though the limit says that all fits."""
    a = large(N)
    kept = npaccel.evaluate(on_device(a) * 2.0)
    scarce(a.nbytes // share)
    compare_in_parts(halved_sum, a, a[::-1])
    np.testing.assert_array_equal(np.asarray(kept), a * 2.0)  # it has left
    scarce(5 * a.nbytes)
    compare_in_parts(lambda x: (x * 0.25).max(), np.resize(a, 6 * N))  # in chunks of twice its size
    scarce(4096)
    compare_in_parts(halved_sum, a, a[::-1], how="no room")


def test_what_lies_there_leaves_before_parts_get_smaller(scarce):
    a, b = large(N), large(N)
    kept = npaccel.evaluate(on_device(a) * 2.0)
    scarce(3 * a.nbytes + (1 << 14))
    found = npaccel.evaluate(halved_sum(on_device(a), on_device(b)))
    (step,) = npaccel.explain().steps
    assert step.backend == NUMBERED and "in parts" not in step.reason
    assert npaccel.stats()["evictions"] > 0
    np.testing.assert_array_equal(np.asarray(found), halved_sum(a, b))
    np.testing.assert_array_equal(np.asarray(kept), a * 2.0)


def test_no_piece_is_larger_than_the_device_allows(monkeypatch):
    memory = engine.backend(DEVICE).memory
    assert memory.largest == engine.backend(DEVICE).target.largest_bytes
    before, memory.largest = memory.largest, 4 * N
    try:
        a = large(N)
        compare_in_parts(halved_sum, a, a[::-1])
        compare_in_parts(lambda x: (x * 0.5).sum(), a, how="no room")  # its chunk is larger
    finally:
        memory.largest = before
