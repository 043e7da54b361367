"""Plans are reused, compile failures do not matter, and results do not depend on threads."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import npaccel
from npaccel import _native, this_process
from npaccel.caches.trace import TraceCache
from npaccel.errors import BackendUnavailable, CompileError, NpaccelWarning
from npaccel.ir.passes import plan
from npaccel.runtime.programs.trace import decode

pytestmark = pytest.mark.usefixtures("deferred")
N = 30_000


def wrapped(*shape: int, seed: int = 1, dtype: str = "f8") -> npaccel.Array:
    return npaccel.asarray(np.random.default_rng(seed).standard_normal(shape).astype(dtype))


def counts_of(program, *arrays):
    """Counters of one run of `program`, its results evaluated."""
    npaccel.evaluate()
    npaccel.stats(reset=True)
    npaccel.evaluate(program(*arrays))
    return npaccel.stats()


# ------------------------------------------------------------------------------- plans are reused


def test_the_same_body_is_planned_once() -> None:
    a, b = wrapped(N), wrapped(N, seed=2)
    _native.plans().clear()
    npaccel.stats(reset=True)
    for _ in range(5):
        b = npaccel.evaluate(a * 0.25 + b * 0.5)
    counts = npaccel.stats()
    # b is wrapped memory in the first round and npaccel's own from then on.
    assert counts["plan_misses"] <= 2 and counts["plan_hits"] >= 3


def test_new_values_of_scalars_need_no_new_plan() -> None:
    a = wrapped(N)
    npaccel.evaluate(a * 0.75 + 2.5)
    npaccel.stats(reset=True)
    for scalar in (0.1, 1.25, -7.0, 1e300):
        y = npaccel.evaluate(a * scalar + scalar)
        with np.errstate(over="ignore"):
            assert np.array_equal(y, np.asarray(a) * scalar + scalar)
    counts = npaccel.stats()
    assert (counts["plan_misses"], counts["compiles"]) == (0, 0)


def test_another_shape_needs_neither_a_plan_nor_a_new_kernel(setting) -> None:
    setting("cache", "off")  # nor a plan from there
    a, b = wrapped(N), wrapped(N + 17)
    npaccel.evaluate(a * 0.75 + 2.5)
    _native.plans().clear()
    npaccel.stats(reset=True)
    npaccel.evaluate(a * 0.75 + 2.5)
    npaccel.evaluate(b * 0.75 + 2.5)
    counts = npaccel.stats()
    assert (counts["plan_misses"], counts["plans_moved"], counts["compiles"]) == (1, 2, 0)


def test_values_that_a_rewrite_used_are_part_of_the_plan() -> None:
    a = wrapped(N)
    for exponent in (2, 3, 0.5, 2, 3, 0.5):
        with np.errstate(invalid="ignore"):
            want = np.asarray(a) ** exponent
            np.testing.assert_allclose(npaccel.evaluate(a**exponent), want, rtol=1e-14)


def test_a_scalar_without_a_rewrite_does_not_stand_in_the_way_of_one_with() -> None:
    """`power` by 2.5 needs logarithms; by 3.0 later, on the same operands, it must not."""
    a = wrapped(N)
    positive = npaccel.evaluate(np.abs(a))
    for exponents in ((2.5, 3.0), (3.0, 2.5), (-0.5, 2.0, 1.0)):
        _native.plans().clear()
        for exponent in exponents:
            result = npaccel.evaluate(np.power(positive, exponent))
            short = len(str(npaccel.explain(result).ir).splitlines()) < 100
            assert short is exponent.is_integer()
            want = np.power(np.asarray(positive), exponent)
            np.testing.assert_allclose(np.asarray(result), want, rtol=1e-14)


def test_dividing_by_many_numbers_takes_one_plan() -> None:
    a = wrapped(N)
    npaccel.evaluate(a / 9.5)
    npaccel.stats(reset=True)
    for i in range(9, 60):
        if i & (i - 1):  # a power of two is another kernel each
            found = np.asarray(npaccel.evaluate(a / float(i)))
            assert np.array_equal(found, np.asarray(a) / float(i))
    assert npaccel.stats()["plan_misses"] == 0


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_every_value_that_a_rewrite_uses_is_in_the_key(dtype) -> None:
    """The core decides which values are, the passes which they use: found by trying them all."""
    a = wrapped(100, dtype=dtype)
    numbers = [2.0**k for k in range(-20, 20)] + [float(n) for n in range(-3, 20)]
    numbers += [-(2.0**k) for k in range(-4, 4)] + [2.5, 0.3, -0.0, np.inf, np.nan]
    known, used = dict[bytes, list[float]](), 0
    for divide in (np.divide, np.power, np.float_power):
        for number in numbers:
            with np.errstate(all="ignore"):
                kept = divide(a, npaccel_scalar(number, dtype))
            pending = _native.pending()
            trace = decode(pending)
            consumed = plan(trace).consumed
            values = [trace.requests[request].inputs[place].value for request, place in consumed]
            used += len(values)
            assert known.setdefault(pending.key, values) == values, number
            npaccel.evaluate(kept)
    assert used > 50


def npaccel_scalar(number: float, dtype: str) -> object:
    return np.dtype(dtype).type(number)


# ------------------------------------------------------------------------------ one kernel is one


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("program", "shapes", "reads", "writes"),
    [
        (lambda a, b, c: (a * 2 + b) * c - a / 3, [(N,)] * 3, 3, 1),
        # The square is written too: the interpreter's stack holds it while its mean is taken.
        (lambda a, b: ((a - b) ** 2).mean(), [(N,)] * 2, 2, 1),
        (softmax, [(200, 150)], 1, 1),
        (lambda a, b: np.sin(a) ** 2 + np.cos(b) ** 2, [(N,)] * 2, 2, 1),
        (lambda a: (a - a.mean(axis=0)) / a.std(axis=0), [(300, 100)], None, None),
    ],
    ids=["chain", "distance", "softmax", "sines", "columns"],
)
def test_number_of_kernels_and_traffic(program, shapes, reads, writes) -> None:
    arrays = [wrapped(*shape, seed=i) for i, shape in enumerate(shapes)]
    counts = counts_of(program, *arrays)
    assert counts["native_requests"] == counts["fallbacks"] == 0
    if reads is None:
        return
    assert counts["kernels"] == 1
    assert counts["bytes_read"] == reads * arrays[0].nbytes
    assert counts["bytes_written"] <= writes * arrays[0].nbytes + 4096


def test_jacobi_sweep_is_one_kernel() -> None:
    x = npaccel.asarray(np.random.default_rng(0).random((120, 130), dtype="f4"))
    y = npaccel.evaluate(x * 1)

    def sweep(x, y):
        y[1:-1, 1:-1] = 0.25 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])
        return y

    counts = counts_of(sweep, x, y)
    assert (counts["kernels"], counts["native_requests"]) == (1, 0)
    assert x.nbytes - 5 * 4 < counts["bytes_read"] <= x.nbytes  # all but the corners
    assert counts["bytes_written"] == 118 * 128 * 4
    assert np.array_equal(y, sweep(np.asarray(x), np.asarray(x).copy()))


# --------------------------------------------------------------------------------- compile errors


class Refusing:
    """A backend that compiles nothing."""

    identity, vector_bytes = "refusing", 16

    def __init__(self, error: Exception) -> None:
        self.error = error

    def symbols(self, kernel) -> tuple[str, ...]:
        return ("main",)

    def emit_object(self, kernel) -> bytes:
        raise self.error

    def load(self, *code) -> None:
        raise self.error


@pytest.mark.parametrize("kind", [CompileError, BackendUnavailable])
def test_what_cannot_be_compiled_runs_in_numpy_with_one_warning(kind, monkeypatch) -> None:
    engine = this_process.engine
    _native.evaluate()
    _native.plans().clear()
    engine.kernels.clear()
    monkeypatch.setattr(
        engine.machines, "_open", {"llvm": Refusing(kind(f"llvm: no {kind.__name__}"))}
    )
    monkeypatch.setattr(engine.telling, "told", set())
    a = wrapped(N)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(3):
            y = a * 3 + 1
            z = np.sqrt(np.abs(y))
            npaccel.evaluate(z)  # here
            total = z.sum()
    try:
        (warning,) = seen
        assert warning.category is NpaccelWarning and warning.filename == __file__
        assert "# here" in Path(__file__).read_text().splitlines()[warning.lineno - 1]
        assert f"no {kind.__name__}" in str(warning.message)
        (dump,) = re.findall(r"their IR is in (\S+)$", str(warning.message))
        text = Path(dump).read_text()
        assert "map sqrt.f8.f8" in text and "run k_" in text
        Path(dump).unlink()
        plain = np.sqrt(np.abs(np.asarray(a) * 3 + 1))
        assert np.array_equal(z, plain) and np.isclose(total, plain.sum(), rtol=1e-14)
        assert f"not compiled: llvm: no {kind.__name__}" in str(npaccel.explain(z))
    finally:
        _native.plans().clear()


# ---------------------------------------------------------------------------------------- threads


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(
    "reduce",
    [
        lambda x: x.sum(),
        lambda x: x.mean(axis=0),
        lambda x: x.sum(axis=1),
        lambda x: x.prod(),
        lambda x: ((x - 0.25) ** 2).mean(),
        lambda x: x.std(),
    ],
    ids=["sum", "columns", "rows", "product", "squares", "deviation"],
)
def test_bits_do_not_depend_on_threads(reduce, dtype, setting) -> None:
    data = np.random.default_rng(5).uniform(0.99, 1.01, (700, 401)).astype(dtype)
    results = []
    for threads in (1, 2, 3, 1):
        setting("threads", threads)
        results.append(np.asarray(reduce(npaccel.asarray(data))).tobytes())
    assert len(set(results)) == 1
    np.testing.assert_allclose(
        np.frombuffer(results[0], dtype), np.ravel(reduce(data.astype("f8"))), rtol=1e-3
    )


def test_new_number_of_threads_cuts_new_tasks(launches, setting) -> None:
    a = wrapped(1 << 20)
    tasks = {}
    for threads in (1, 4):
        setting("threads", threads)
        launches.tasks.clear()
        npaccel.evaluate(a + 1)
        tasks[threads] = len(launches.tasks)
    assert tasks[4] > tasks[1]


# -------------------------------------------------------------- one plan for many sizes and offsets


def chain(x, y):
    return np.sqrt(np.abs(x * y + 1.0)) - x * 0.5


def test_growing_arrays_share_one_plan() -> None:
    x, y = (np.random.default_rng(seed).standard_normal(N + 200) for seed in (1, 2))
    npaccel.evaluate(chain(*map(npaccel.asarray, (x, y))))
    npaccel.stats(reset=True)
    for n in range(N, N + 200, 2):
        a, b = npaccel.asarray(x[:n]), npaccel.asarray(y[:n])
        assert np.array_equal(npaccel.evaluate(chain(a, b)), chain(x[:n], y[:n]))
    counts = npaccel.stats()
    # The structure of the first call, whose views were whole arrays, may be another one.
    assert counts["plan_misses"] - counts["plans_moved"] <= 1
    assert (counts["compiles"], counts["native_requests"]) == (0, 0)


def test_moving_windows_share_one_plan() -> None:
    x = np.random.default_rng(3).standard_normal((300, 200))
    a = npaccel.asarray(x)

    def window(x, i):
        return (x[i : i + 150, i : i + 120] - x[i + 1 : i + 151, i : i + 120]).sum(axis=0)

    npaccel.evaluate(window(a, 3))
    npaccel.stats(reset=True)
    for i in range(4, 60):
        found = np.asarray(npaccel.evaluate(window(a, i)))
        np.testing.assert_allclose(found, window(x, i), atol=1e-12)
    counts = npaccel.stats()
    assert counts["plan_misses"] - counts["plans_moved"] == counts["compiles"] == 0


def test_views_that_begin_to_overlap_are_planned_anew() -> None:
    x = np.arange(4.0 * N)
    for shift in (2 * N, N, N // 2, 1, 0):
        plain = x.copy()
        plain[shift : shift + N] += plain[:N] * 2.0
        a = npaccel.evaluate(npaccel.asarray(x) * 1.0)
        a[shift : shift + N] += a[:N] * 2.0
        assert np.array_equal(npaccel.evaluate(a), plain)


def test_few_traces_are_kept(setting) -> None:
    setting("trace_cache", 8)
    x = wrapped(N)

    def times(n: int) -> None:
        y = x
        for _ in range(n):
            y = y * 3.0
        npaccel.evaluate(y)

    for n in range(1, 20):
        times(n)
        assert 0 < npaccel.stats()["traces"] <= 8
    npaccel.stats(reset=True)
    times(19)  # the last one is still there
    times(5)
    assert (npaccel.stats()["plan_hits"], npaccel.stats()["plan_misses"]) == (1, 1)


def test_a_change_of_another_setting_looks_through_no_traces(setting, monkeypatch) -> None:
    this_process.make_engine()
    looks = []
    monkeypatch.setattr(TraceCache, "shrink", lambda cache: looks.append(cache.entries))
    setting("queue_limit", 777)
    assert looks == []
    setting("trace_cache", 8)
    assert looks == [8]


def test_the_core_reads_limits_only_for_settings_that_need_them(setting, monkeypatch) -> None:
    this_process.make_engine()
    told = []
    configure = _native.configure
    monkeypatch.setattr(_native, "configure", lambda **all: told.append(all) or configure(**all))
    for name, value in (("queue_limit", 777), ("threads", 3), ("nursery", 1 << 20)):
        setting(name, value)
    assert [("threads" in some, "nursery_bytes" in some) for some in told] == [
        (False, False),
        (True, True),
        (True, True),
    ]
    assert (told[1]["threads"], _native.threads(), told[2]["nursery_bytes"]) == (3, 3, 1 << 20)


def test_sizes_need_no_traces(setting) -> None:
    setting("trace_cache", 8)
    x = np.ones(N + 40)
    npaccel.stats(reset=True)
    for n in range(N, N + 40):
        assert np.array_equal(npaccel.evaluate(npaccel.asarray(x[:n]) * 3.0), x[:n] * 3.0)
    counts = npaccel.stats()
    assert counts["plan_misses"] <= 2 and counts["plans_moved"] >= 38


@pytest.mark.parametrize("dtype", ["?", "b", "f", "d", "F", "q"])
def test_numpy_s_loops_search_for_extremes_in_any_layout(dtype: str, setting) -> None:
    """Rows that lie as NumPy's function wants them are searched where they are, others packed."""
    setting("tiering", "off")
    values = np.random.default_rng(8).integers(-9, 9, (40, 12, 50)).astype(dtype)
    values[3, 4, 20:30] = values.max() if dtype in "?bq" else np.nan
    views = (
        lambda x: x,
        lambda x: x[:, :, ::-1],
        lambda x: x[..., ::2],
        lambda x: x[..., 3:40],
        lambda x: x.T,
        lambda x: np.broadcast_to(x[:, :, :1], x.shape),
        lambda x: x[..., 5:6],
    )
    for view in views:
        for axis in (None, 0, 1, 2):
            for name in ("argmin", "argmax"):
                # What is pending is recorded on, not NumPy's at once.
                found = getattr(view(npaccel.asarray(values).copy()), name)(axis=axis)
                np.testing.assert_array_equal(found, getattr(view(values), name)(axis=axis))
