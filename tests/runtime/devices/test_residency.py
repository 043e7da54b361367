"""Data that lives on a device with memory of its own: what moves, when, and what is never lost.

PoCL shares the host's memory; the setting `device_memory` has it treated as if it did not.
"""

import ctypes
import os
import subprocess
import sys

import numpy as np
import pytest

import npaccel
from npaccel import _native
from npaccel.errors import BackendUnavailable, ConfigError
from npaccel.this_process import engine

pytestmark = [pytest.mark.pending, pytest.mark.usefixtures("opencl")]
N = 1 << 14
LIMIT = 1 << 20
ROOM = LIMIT // (8 * N)  # arrays


@pytest.fixture(autouse=True)
def own_memory():
    """A device with memory of its own, few bytes of it, that runs whatever is asked of it."""
    names = ("tiering", "threshold", "device_memory", "backend", "check")
    before = {name: getattr(npaccel.config, name) for name in names}
    npaccel.evaluate()
    npaccel.config.tiering, npaccel.config.threshold = "eager", 0
    npaccel.config.backend, npaccel.config.check = "auto", "off"
    npaccel.config.device_memory = LIMIT
    npaccel.stats(reset=True)
    yield
    npaccel.evaluate()
    for name, value in before.items():
        setattr(npaccel.config, name, value)


def _source(seed=0, n=N):
    return np.random.default_rng(seed).random(n)


def _there(source):
    return npaccel.asarray(source, device="opencl:0")


def _moved():
    counts = npaccel.stats()
    names = ("uploads", "uploaded_bytes", "downloads", "downloaded_bytes")
    return tuple(counts[name] for name in names)


def _launches():
    return npaccel.stats()["kernels_by_backend"].get("opencl", 0)


def _step(x, y):
    return x * 0.5 + y


def test_a_chain_of_programs_moves_its_inputs_once_and_its_result_once():
    a, b = _source(0), _source(1)
    x, y, expected = _there(a), _there(b), a
    for _ in range(20):
        x, expected = npaccel.evaluate(_step(x, y)), _step(expected, b)
    assert _launches() == 20
    assert _moved() == (2, 2 * a.nbytes, 0, 0)
    np.testing.assert_array_equal(np.asarray(x), expected)
    assert _moved() == (2, 2 * a.nbytes, 1, a.nbytes)


def test_transfers_are_timed():
    a = _source()
    x = npaccel.evaluate(_step(_there(a), 1.0))
    told = npaccel.explain(x)
    assert told.moved == (a.nbytes, 0) and told.moving_s[0] > 0 == told.moving_s[1]
    assert "to devices, 0 B back" in str(told) and " ms to devices" in str(told)
    before = npaccel.stats()
    assert before["uploading_ns"] > 0 == before["downloading_ns"]
    np.testing.assert_array_equal(np.asarray(x), _step(a, 1.0))
    after = npaccel.stats()
    assert after["uploading_ns"] == before["uploading_ns"] and after["downloading_ns"] > 0
    assert npaccel.stats(reset=True)["downloading_ns"] > 0 == npaccel.stats()["downloading_ns"]


def test_of_a_view_that_was_written_there_only_the_written_range_moves():
    a = _source()
    x = _there(a)
    part = x[1000:2000]
    part *= 2.0
    npaccel.evaluate()
    assert _launches() == 1
    assert _moved() == (1, 8000, 0, 0)
    a[1000:2000] *= 2.0
    np.testing.assert_array_equal(np.asarray(x), a)
    assert _moved() == (1, 8000, 1, 8000)


def test_what_the_next_kernel_reads_moves_while_one_runs():
    a, b, c = _source(0), _source(1), _source(2, N // 2)
    with npaccel.backend("opencl"):
        x, y = npaccel.asarray(a) * 2.0, npaccel.asarray(b)
        z = _step(npaccel.asarray(c), y[: N // 2])  # of another shape: a kernel of its own
        npaccel.evaluate(x, z)
    assert _launches() == 2
    assert npaccel.stats()["uploads_ahead"] == 2 and npaccel.stats()["uploads"] == 3
    np.testing.assert_array_equal(np.asarray(z), _step(c, b[: N // 2]))
    np.testing.assert_array_equal(np.asarray(x), a * 2.0)


def test_what_does_not_fit_moves_out_and_in_again():
    sources = [_source(k) for k in range(2 * ROOM)]
    arrays = [_there(source) for source in sources]
    for _ in range(2):
        arrays = [npaccel.evaluate(_step(x, arrays[0])) for x in arrays]
        sources = [_step(x, sources[0]) for x in sources]
        assert engine.backend("opencl").memory.used <= LIMIT
    assert _launches() == 4 * ROOM
    assert npaccel.stats()["evictions"] > 2 * ROOM
    for x, source in zip(arrays, sources, strict=True):
        np.testing.assert_array_equal(np.asarray(x), source)


def test_a_kernel_whose_operands_do_not_fit_runs_in_parts():
    a = _source(0, 4 * N * ROOM)
    expected = _step(a, a[::-1])
    x = _there(a)
    y = npaccel.evaluate(_step(x, x[::-1]))
    (step,) = npaccel.explain().steps
    assert step.backend == "opencl:0" and "in parts" in step.reason
    np.testing.assert_array_equal(np.asarray(y), expected)
    x += y  # over what it reads
    npaccel.evaluate()
    assert _launches() == 2
    assert engine.backend("opencl").memory.used <= LIMIT
    np.testing.assert_array_equal(np.asarray(x), a + expected)


def test_parts_move_what_they_use_once():
    a, row = _source(0, 4 * N * ROOM).reshape(-1, 256), _source(1, 256)
    x = _there(a)
    y = npaccel.evaluate(_step(x, npaccel.asarray(row)))
    assert _moved()[1::2] == (a.nbytes + row.nbytes, a.nbytes)
    z = npaccel.evaluate(_step(x[::4, 3:], row[3:]))  # of 2 MiB, a quarter of which is read
    assert _launches() == 2
    np.testing.assert_array_equal(np.asarray(y), _step(a, row))
    np.testing.assert_array_equal(np.asarray(z), _step(a[::4, 3:], row[3:]))


def _scaled(x):
    x[:, 1::2] = x[:, ::2] - x.max(axis=1, keepdims=True)
    return x


def test_rows_and_strides_in_parts():
    """Elements that a part does not write lie between those that it does, and go to and fro."""
    a = _source(0, 4 * N * ROOM)
    for source in (a.reshape(-1, 256), a.reshape(256, -1).T):
        x = _there(source)
        found = npaccel.evaluate(_scaled(x))
        np.testing.assert_array_equal(np.asarray(found), _scaled(source.copy()))
    assert _launches() > 0


def _large(*shape, dtype="f8"):
    """More than the device's memory, neither all of a sign nor without ties."""
    n = np.prod(shape)
    return (
        np.resize(np.random.default_rng(3).integers(-50, 50, 9973) / 8, n)
        .astype(dtype)
        .reshape(shape)
    )


def _in_parts(work, *sources, how="in parts"):
    """What the device makes of it, the same as the host does."""
    with npaccel.backend("llvm"):
        expected = npaccel.evaluate(work(*map(npaccel.asarray, sources)))
    before = _launches()
    found = npaccel.evaluate(work(*map(_there, sources)))
    steps = list(npaccel.explain().steps)
    there = [step for step in steps if step.backend == "opencl:0"]
    assert any(how in step.reason for step in steps) and _launches() == before + len(there)
    assert all("in parts" in step.reason for step in there) and (how == "no room" or there == steps)
    assert engine.backend("opencl").memory.used <= npaccel.config.device_memory
    np.testing.assert_array_equal(np.asarray(found), np.asarray(expected), strict=True)


def _mostly_slow(first, *more):
    """A driver takes its time for each new kernel."""
    rest = (one if isinstance(one, tuple) else (one,) for one in more)
    return [first, *(pytest.param(*one, marks=pytest.mark.slow) for one in rest)]


@pytest.mark.parametrize("fold", _mostly_slow("sum", "prod", "max", "argmin", "any", "mean", "std"))
def test_reductions_of_everything_in_parts_have_the_hosts_bits(fold):
    a = _large(2 * N * ROOM + 1234)
    a[N * ROOM + 77] = -1000.0
    if fold == "prod":
        a = np.exp(a / 1e6)
    if fold == "std":  # two programs' worth of loops; both are in parts
        x = _there(a)
        with npaccel.backend("llvm"):
            expected = npaccel.asarray(a).std()
        assert x.std() == expected and _launches() > 0
        return
    _in_parts(lambda x: getattr(x * 0.5, fold)(), a)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["f2", "f4", "i2", "u8", "c16"])
def test_partial_results_of_all_kinds_come_home(dtype):
    npaccel.config.device_memory = 2 * LIMIT  # of what is summed each element is stored, too
    a = _large(4 * LIMIT // np.dtype(dtype).itemsize, dtype=dtype)
    if dtype[0] != "c":
        _in_parts(lambda x: (x + x).max(), a)
        _in_parts(lambda x: (x + x).argmax(), a)
    with np.errstate(over="ignore"):
        _in_parts(lambda x: ((x + x) * x).sum(), a)
    _in_parts(lambda x: ((x + x) != 1).all(), a)


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
    npaccel.config.device_memory = 3 * LIMIT
    _in_parts(work, _large(*shape))


@pytest.mark.slow
def test_however_many_columns_there_are():
    npaccel.config.device_memory = 40 * LIMIT
    _in_parts(lambda x: (x * 0.5).sum(axis=0), _large(1 << 17, 80))
    _in_parts(lambda x: (x * 0.5).sum(axis=1), _large(80, 1 << 17))


def test_what_a_reduction_stores_on_its_way_comes_home():
    def work(x):
        y = x * 0.5
        return y, y.sum(), y.max()

    a = _large(2 * N * ROOM)
    with npaccel.backend("llvm"):
        expected = npaccel.evaluate(*(np.asarray(v) for v in work(npaccel.asarray(a))))
    found = work(_there(a))
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_array_equal(np.asarray(x), y)
    assert _launches() > 0


def test_an_index_is_a_value_in_parts_too():
    a = _large(2 * N * ROOM).reshape(-1, 64)
    with npaccel.accelerate():
        _in_parts(lambda x: x + np.arange(float(a.size)).reshape(a.shape), a)
        _in_parts(lambda x: x.T + np.arange(a.size).reshape(a.shape).T, a)
        _in_parts(lambda x: (x.ravel() * np.arange(float(a.size))).sum(), a)


def test_flags_of_parts_come_together():
    a = _large(2 * N * ROOM)
    x = _there(a)
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        found = npaccel.evaluate((1.0 / np.abs(x + 1000.0 * (x == a[0]))).max())
        a[-1] = 0
        found = npaccel.evaluate((1.0 / np.abs(_there(a))).max())
    assert found == np.inf


def test_what_can_not_be_cut_runs_on_the_host():
    _in_parts(lambda x: np.cumsum(x * 0.5, axis=0), _large(8 * N, ROOM), how="no room")
    _in_parts(lambda x: (x * 0.5).sum(axis=0), _large(ROOM, 8 * N), how="no room")
    _in_parts(lambda x: x - x.max(axis=0), _large(8 * N, ROOM), how="no room")


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
    a = _large(*shape)
    found = np.asarray(npaccel.evaluate(work(_there(a.copy()))))
    assert _launches() > 0 and npaccel.stats()["uploads"] > 16
    assert engine.backend("opencl").memory.used <= 64 * MIB
    expected = work(a)
    if exact:
        assert np.array_equal(found, expected)
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-9)


def test_what_a_large_launch_left_of_its_own_makes_room():
    """Its scratch memory, which the next launch would use if that were as large."""
    npaccel.config.device_memory = 16 * MIB
    rows = _there(_large(8, MIB // 16))
    npaccel.evaluate((rows * 2.0).sum(axis=0))
    npaccel.evaluate(rows / (rows * rows).sum(axis=1, keepdims=True))
    del rows
    npaccel.config.device_memory = LIMIT
    npaccel.stats(reset=True)
    npaccel.evaluate(_there(_source()) * 2.0)
    assert _launches() == 1


@pytest.fixture
def scarce():
    """A function that leaves the driver so many bytes, besides what launches need."""
    memory = engine.backend("opencl").memory

    def leave(room):
        before, memory.limit = memory.limit, 0  # all else leaves
        memory.limit = before
        _native.device_inject(0, 0, 0, 0, memory.used + room)

    yield leave
    _native.device_inject(0)


@pytest.mark.parametrize("share", [2, 8])
def test_a_driver_without_room_gets_smaller_parts(scarce, share):
    """Though the limit says that all fits."""
    a = _large(N)
    kept = npaccel.evaluate(_there(a) * 2.0)
    scarce(a.nbytes // share)
    _in_parts(_step, a, a[::-1])
    np.testing.assert_array_equal(np.asarray(kept), a * 2.0)  # it has left
    scarce(5 * a.nbytes)
    _in_parts(lambda x: (x * 0.25).max(), np.resize(a, 6 * N))  # in chunks of twice its size
    scarce(4096)
    _in_parts(_step, a, a[::-1], how="no room")


def test_what_lies_there_leaves_before_parts_get_smaller(scarce):
    a, b = _large(N), _large(N)
    kept = npaccel.evaluate(_there(a) * 2.0)
    scarce(3 * a.nbytes + (1 << 14))
    found = npaccel.evaluate(_step(_there(a), _there(b)))
    (step,) = npaccel.explain().steps
    assert step.backend == "opencl:0" and "in parts" not in step.reason
    assert npaccel.stats()["evictions"] > 0
    np.testing.assert_array_equal(np.asarray(found), _step(a, b))
    np.testing.assert_array_equal(np.asarray(kept), a * 2.0)


def test_no_piece_is_larger_than_the_device_allows(monkeypatch):
    memory = engine.backend("opencl").memory
    assert memory.largest == engine.backend("opencl").target.device.max_mem_alloc_size
    before, memory.largest = memory.largest, 4 * N
    try:
        a = _large(N)
        _in_parts(_step, a, a[::-1])
        _in_parts(lambda x: (x * 0.5).sum(), a, how="no room")  # its chunk is larger
    finally:
        memory.largest = before


@pytest.mark.parametrize("failed", [(1, 0, 0, 2), (0, 1), (0, 0, 1)])
@pytest.mark.filterwarnings("ignore::npaccel.errors.NpaccelWarning")
def test_parts_that_a_device_does_not_do_are_the_hosts(failing, failed):
    a = _source(0, 4 * N * ROOM)
    x = _there(a)
    _native.device_inject(*failed)
    y = npaccel.evaluate(_step(x, x))
    np.testing.assert_array_equal(np.asarray(y), _step(a, a))
    (step,) = npaccel.explain().steps
    assert step.backend == "llvm" and "a launch failed" in step.reason


@pytest.mark.filterwarnings("ignore::npaccel.errors.NpaccelWarning")
def test_parts_over_what_they_read_go_on_where_the_device_failed(failing):
    a = _source(0, 4 * N * ROOM)
    x = npaccel.evaluate(_there(a) * 2.0)
    _native.device_inject(1, 0, 0, 2)
    x *= 0.25
    npaccel.evaluate()
    np.testing.assert_array_equal(np.asarray(x), a * 2.0 * 0.25)
    _native.device_inject(0, 1)
    engine.traces.clear()
    x *= 0.25  # a part's result came home in part
    with pytest.raises(RuntimeError, match="opencl:0"):
        npaccel.evaluate(x)
        x.tolist()


@pytest.mark.parametrize("limit", [LIMIT, 0])
@pytest.mark.filterwarnings("ignore::npaccel.errors.NpaccelWarning")
def test_a_kernel_that_failed_when_it_had_begun_is_not_run_on_what_it_left(failing, limit):
    npaccel.config.device_memory = limit
    a, b = _source(0), _source(1)
    x, y = npaccel.evaluate(_step(_there(a), _there(b))), _there(b)
    _native.device_inject(0, 0, 1)
    z = npaccel.evaluate(_step(y, y))  # over nothing
    np.testing.assert_array_equal(np.asarray(z), _step(b, b))
    engine.traces.clear()
    _native.device_inject(0, 0, 1)
    x *= 0.5
    assert _lost(x)
    np.testing.assert_array_equal(np.asarray(_step(y, z)), _step(b, _step(b, b)))
    assert _lost(x)


def test_a_failed_launch_loses_nothing(monkeypatch):
    monkeypatch.setattr(engine.telling, "told", set())  # it is told once
    a, b = _source(0), _source(1)
    x = npaccel.evaluate(_step(_there(a), _there(b)))
    _native.device_inject(1)
    with pytest.warns(npaccel.errors.NpaccelWarning, match="launch failed"):
        y = npaccel.evaluate(_step(x, x))
    expected = _step(a, b)
    np.testing.assert_array_equal(np.asarray(y), _step(expected, expected))
    np.testing.assert_array_equal(np.asarray(x), expected)


@pytest.fixture
def failing(monkeypatch):
    """A function after which the device gives nothing back, nor launches anything."""
    monkeypatch.setattr(engine.machines, "_devices", {})
    monkeypatch.setattr(engine.telling, "told", set())
    yield lambda: _native.device_inject(1000, 1000)
    _native.device_inject(0)
    engine.traces.clear()


def _lost(x):
    with pytest.raises(RuntimeError, match=r"shape \(.*float64.* opencl:0 alone, which failed"):
        x.tolist()
    return True


@pytest.mark.filterwarnings("ignore::npaccel.errors.NpaccelWarning")
def test_what_needs_lost_data_fails_and_all_else_goes_on(failing):
    a, b = _source(0), _source(1)
    x = npaccel.evaluate(_step(_there(a), _there(b)))
    plain = npaccel.asarray(b)
    y, z, w = _step(x, x), plain * 2.0, plain + 3.0
    u, v = np.sqrt(y), w * z
    failing()
    np.testing.assert_array_equal(np.asarray(z), b * 2.0)
    np.testing.assert_array_equal(np.asarray(v), (b + 3.0) * (b * 2.0))
    assert _lost(y) and _lost(u) and _lost(u)
    with pytest.raises(RuntimeError, match="lies on opencl:0 alone, which does not give it back"):
        x.tolist()
    t = x * 3.0  # recorded as ever
    np.testing.assert_array_equal(np.asarray(plain - 1.0), b - 1.0)
    assert _lost(t) and _lost(t[1:5] + 1.0)
    with pytest.raises(RuntimeError, match="opencl:0"):
        float(y.sum())
    _native.device_inject(0, 0)
    np.testing.assert_array_equal(np.asarray(x), _step(a, b))  # it was not given up
    assert _lost(y)


@pytest.mark.filterwarnings("ignore::npaccel.errors.NpaccelWarning")
def test_of_requests_that_share_a_kernel_only_those_that_need_it_are_lost(failing):
    a, b = _source(0), _source(1)
    x = npaccel.evaluate(_step(_there(a), _there(b)))
    plain = npaccel.asarray(b)
    with npaccel.backend("llvm"):  # one kernel for both
        y, z = x * 2.0, plain * 2.0
        failing()
        npaccel.evaluate()
        np.testing.assert_array_equal(np.asarray(z), b * 2.0)
        assert _lost(y)


@pytest.mark.usefixtures("numpys_memory")
@pytest.mark.filterwarnings("ignore::npaccel.errors.NpaccelWarning")
def test_what_was_to_be_written_over_with_lost_data_is_not_shown(failing):
    a, b = _source(0), _source(1)
    x = npaccel.evaluate(_step(_there(a), _there(b)))
    out, mine, foreign = npaccel.evaluate(npaccel.asarray(b) * 1.0), np.zeros(N), np.zeros(N)
    np.asarray(out)
    out += x
    part = out[:10]
    failing()
    assert _lost(out) and _lost(part)
    with pytest.raises(RuntimeError, match=r"opencl:0|on a device alone"):
        np.add(x, b, out=foreign)
        np.asarray(foreign)
    with pytest.raises(RuntimeError, match=r"opencl:0|on a device alone"):
        npaccel.asarray(mine)[:] = x
    assert not mine.any()


def test_raw_readers_and_writers_find_it():
    a, b = _source(0), _source(1)
    expected = _step(a, b)
    for look in (
        lambda x: np.frombuffer(ctypes.string_at(x.ctypes.data, x.nbytes)),
        lambda x: np.frombuffer(x.tobytes()),
        lambda x: np.frombuffer(bytes(memoryview(x))),
        lambda x: np.sort(x)[np.argsort(np.argsort(x))],
        lambda x: np.array([float(value) for value in x[:100]] + x[100:].tolist()),
    ):
        x = npaccel.evaluate(_step(_there(a), _there(b)))
        np.testing.assert_array_equal(look(x), expected)
    x = npaccel.evaluate(_step(_there(a), _there(b)))
    ctypes.memset(x.ctypes.data, 0, 80)  # and what is computed from it afterwards sees that
    expected[:10] = 0
    np.testing.assert_array_equal(np.asarray(_step(x, x)), _step(expected, expected))


def test_requests_of_the_host_between_those_of_the_device():
    a, b = _source(0), _source(1)
    x, y = _there(a), _there(b)
    found = npaccel.evaluate(_step(np.cumsum(_step(x, y)), y))
    np.testing.assert_array_equal(np.asarray(found), _step(np.cumsum(_step(a, b)), b))


def test_memory_of_others_is_read_and_written():
    a, b, out = _source(0), _source(1), np.zeros(N)
    with npaccel.backend("opencl"):
        np.multiply(npaccel.asarray(a), b, out=out)
    np.testing.assert_array_equal(out, a * b)
    a[:] = 1.0  # what was read of it does not stay there
    with npaccel.backend("opencl"):
        np.multiply(npaccel.asarray(a), b, out=out)
    np.testing.assert_array_equal(out, b)
    assert _launches() == 2


def test_the_users_choice_of_a_backend_comes_before_where_data_lies():
    a, b = _source(0), _source(1)
    x = npaccel.evaluate(_step(_there(a), _there(b)))
    before = _launches()
    with npaccel.backend("llvm"):
        np.testing.assert_array_equal(np.asarray(_step(x, x)), _step(_step(a, b), _step(a, b)))
    assert _launches() == before


def test_a_macro_section_and_a_forked_process_find_it():
    section = npaccel.macro(_step)
    a, b = _source(0), _source(1)
    x = npaccel.evaluate(_step(_there(a), _there(b)))
    expected = _step(a, b)
    np.testing.assert_array_equal(np.asarray(section(x, x)), _step(expected, expected))
    x = npaccel.evaluate(_step(_there(a), _there(b)))
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(np.asarray(x), expected) else 1)
    assert os.waitpid(child, 0)[1] == 0
    np.testing.assert_array_equal(np.asarray(_step(x, x)), _step(expected, expected))


def test_where_memory_is_shared_it_is_computed_there_and_nothing_moves():
    npaccel.config.device_memory = 0
    if not engine.backend("opencl").shares_memory:
        pytest.skip("this device's memory is its own")
    a, b = _source(0), _source(1)
    x = _there(a)
    for _ in range(2):
        x, a = npaccel.evaluate(_step(x, b)), _step(a, b)
    assert _launches() == 2
    assert _moved() == (0, 0, 0, 0)
    np.testing.assert_array_equal(np.asarray(x), a)


def test_kernels_wait_for_what_a_driver_has_only_taken():
    """A blocking write may return before the bytes are there, where other queues see them."""
    program = """
import ctypes, numpy as np, npaccel
from npaccel.backends.opencl.target import Target
found, kept, late = Target._addresses, [], []
word, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32
MOVE = ctypes.CFUNCTYPE(ctypes.c_int32, word, word, number, size, size, word, number, word, word)
FINISH = ctypes.CFUNCTYPE(ctypes.c_int32, word)

def addresses(self, names):
    real = dict(zip(names, found(self, names)))
    if "clFinish" not in names:
        return tuple(real.values())
    read, write = (MOVE(real[f"clEnqueue{way}Buffer"]) for way in ("Read", "Write"))
    end = FINISH(real["clFinish"])

    def arrive(queue):
        if queue == self.transfers.int_ptr:
            for memory, at, data in late:
                assert write(queue, memory, 1, at, len(data), data, 0, None, None) == 0
            late.clear()

    def late_write(queue, memory, wait, at, n, host, *events):
        if queue != self.transfers.int_ptr:
            return write(queue, memory, wait, at, n, host, *events)
        late.append((memory, at, ctypes.string_at(host, n)))
        return 0

    def late_read(queue, *arguments):
        arrive(queue)
        return read(queue, *arguments)

    def late_end(queue):
        arrive(queue)
        return end(queue)

    changed = MOVE(late_read), MOVE(late_write), FINISH(late_end)
    kept.extend(changed)
    of = ("clEnqueueReadBuffer", "clEnqueueWriteBuffer", "clFinish")
    real |= {name: ctypes.cast(f, word).value for name, f in zip(of, changed)}
    return tuple(real.values())

Target._addresses = addresses
npaccel.config.tiering, npaccel.config.threshold = "eager", 0
npaccel.config.device_memory = 1 << 20
for n in (1 << 14, 1 << 18):  # as a whole, and in parts
    source = np.random.default_rng(0).random(n)
    x = npaccel.asarray(source, device="opencl:0")
    for _ in range(3):
        source, x = source * 0.5 + 1.0, npaccel.evaluate(x * 0.5 + 1.0)
    assert memoryview(x).tobytes() == source.tobytes(), n  # no fault: the driver is Python
    assert not late
counts = npaccel.stats()
assert counts["kernels_by_backend"]["opencl"] >= 6 and counts["uploads"] > 4, counts
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_names_of_devices():
    with pytest.raises(BackendUnavailable, match=r"no device opencl:7; there are: opencl:0"):
        npaccel.asarray(_source(), device="opencl:7")
    with pytest.raises(ConfigError, match="opencl"):
        npaccel.asarray(_source(), device="moon")


@pytest.mark.parametrize("fused", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_programs_of_random_views_are_numpys(fused):
    """A little of everything on few arrays with little room: all orders of moving in and out."""
    rng = np.random.default_rng(7)
    theirs = [_source(k) for k in range(2 * ROOM)]
    ours = [_there(source) for source in theirs]
    for _ in range(150):
        i, j = rng.integers(0, len(ours), 2)
        low, n = int(rng.integers(0, N // 2)), int(rng.integers(1, N // 2))
        what = rng.integers(0, 6)
        for arrays in (theirs, ours):
            if what < 2:
                part = arrays[i][low : low + n]
                part *= 0.5
            elif what == 2:
                arrays[i][low : low + n] = arrays[j][:n]
            elif what == 3:
                arrays[i] = _step(arrays[i], arrays[j])
            elif what == 4:
                arrays[i][::2] = arrays[j][1::2]
            else:
                arrays[i] = arrays[j][::-1] + 0.25
        if rng.integers(0, 3) == 0:
            k = rng.integers(0, len(ours))
            assert float(ours[k][low]) == theirs[k][low]
        elif not fused or rng.integers(0, 2) == 0:  # a driver takes its time for each new kernel
            npaccel.evaluate()
    for x, source in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(np.asarray(x), source)
    assert _launches() > 20 and npaccel.stats()["evictions"] > 0
