"""`npaccel.explain` tells what ran, and changes nothing."""

from __future__ import annotations

import numpy as np
import pytest
from lines import here

import npaccel
from npaccel import _native
from npaccel.observe import report
from npaccel.observe.explain import Explanation, Fallback, Operation, Step

pytestmark = pytest.mark.usefixtures("deferred")
N = 5000


def wrapped(*shape: int, dtype: str = "f8") -> npaccel.Array:
    rng = np.random.default_rng(sum(shape))
    return npaccel.asarray(rng.uniform(1.0, 2.0, shape).astype(dtype))


def test_kernels_are_shown_as_c() -> None:
    a = wrapped(N)
    told = npaccel.explain(npaccel.evaluate(np.sqrt(a) * 2.0, (a > 1.5).sum())[0])
    names = [step.kernel for step in told.steps]
    assert names and all(f"/*\n{name}: band" in told.c for name in names)
    assert told.c.count("void run(") == len(names)
    assert "SQRT_double" in told.c and "for (long" in told.c
    assert npaccel.explain(np.arange(3)).c == ""


def test_one_kernel_with_its_lines_arrays_and_bytes() -> None:
    a, b = wrapped(N), wrapped(N)
    line = here() + 1
    c = a * 2 + b
    d = np.sqrt(c)
    del c
    npaccel.evaluate()
    told = npaccel.explain(d)
    (step,) = told.steps
    assert [(o.name, o.line) for o in step.operations] == [
        ("multiply", line),
        ("add", line),
        ("sqrt", line + 1),
    ]
    assert {o.file for o in step.operations} == {__file__}
    assert [o.dtypes for o in step.operations] == [("f8",) * 3, ("f8",) * 3, ("f8",) * 2]
    assert (step.backend, step.band, step.inner) == ("llvm", (), (N,))
    assert [(x.dtype, x.how) for x in step.loads] == [("f8", "contiguous")] * 2
    assert [(x.dtype, x.how) for x in step.stores] == [("f8", "contiguous")]
    assert (step.bytes_read, step.bytes_written) == (16 * N, 8 * N)
    assert (told.fused_away, told.dropped, told.pending) == (2, (), False)
    assert f"test_explain.py:{line} " in str(told) and "sqrt f8" in str(told)


def test_softmax_is_one_kernel_with_reductions_and_scratch() -> None:
    x = wrapped(40, 300, dtype="f4")
    e = np.exp(x - x.max(axis=1, keepdims=True))
    s = e / e.sum(axis=1, keepdims=True)
    del e
    npaccel.evaluate(s)
    (step,) = npaccel.explain(s).steps
    assert (step.band, step.inner) == ((40,), (300,))
    assert {("max", "f4"), ("sum", "f4")} <= {(r.fold, r.dtype) for r in step.reductions}
    assert step.scratch == ("f4",)
    assert step.bytes_read == step.bytes_written == 40 * 300 * 4
    assert [o.name for o in step.operations if "." in o.name] == ["maximum.reduce", "add.reduce"]


def test_pending_is_described_and_stays_pending() -> None:
    a = wrapped(N)
    y = a + 1
    z = y * y
    before = npaccel.stats()
    told = npaccel.explain(z)
    after = npaccel.stats()
    assert _native.is_pending(z) and _native.is_pending(y)
    assert before == after
    assert told.pending and told.plan_known is None
    assert [o.name for step in told.steps for o in step.operations] == ["add", "multiply"]
    assert str(told).startswith("Not computed yet: 2 operations pending, to run as 1 kernel")
    npaccel.evaluate(z)
    ran = npaccel.explain(z)
    assert np.array_equal(z, (np.asarray(a) + 1) ** 2)
    assert not ran.pending and ran.steps == told.steps


def test_dead_results_are_named() -> None:
    a = wrapped(N)
    line = here() + 1
    gone = np.negative(a)
    warns = a * 1e300  # might: so it is looked at, though nobody sees the result
    kept = a + 1
    del gone, warns
    npaccel.evaluate(kept)
    told = npaccel.explain(kept)
    assert [(o.name, o.line) for o in told.dropped] == [("negative", line)]
    assert [o.name for s in told.steps for o in s.operations] == ["multiply", "add"]
    assert told.fused_away == 1
    assert "Never computed" in str(told)


def test_whether_the_plan_was_known() -> None:
    _native.plans().clear()
    a = wrapped(N)
    known = []
    for _ in range(3):
        y = npaccel.evaluate(np.hypot(a, a))
        known.append(npaccel.explain(y).plan_known)
    assert known == [False, True, True]


def test_last_run_and_scalars() -> None:
    a = wrapped(N)
    total = (a - 1).sum()
    told = npaccel.explain(total)
    assert [o.name for s in told.steps for o in s.operations] == ["subtract", "add.reduce"]
    assert told == npaccel.explain()
    assert told.run == _native.serial(None) - 1


def test_numpy_backend_says_why(setting) -> None:
    setting("backend", "numpy")
    a = wrapped(N)
    y = a + 1
    assert npaccel.explain(y).steps[0].reason == "the setting backend is 'numpy'"
    npaccel.evaluate(y)
    told = npaccel.explain(y)
    (step,) = told.steps
    assert (step.kernel, step.backend, step.inner) == ("", "numpy", (N,))
    assert (step.bytes_read, step.bytes_written) == (8 * N, 8 * N)
    assert "1 single request by NumPy's loops" in str(told)
    assert "the setting backend is 'numpy'" in str(told)


def test_raw_reading_is_named() -> None:
    a = wrapped(1 << 17)
    y = a + 1
    raw = _native.view_plain(y)
    assert raw[5] == np.asarray(a)[5] + 1
    told = npaccel.explain(y)
    assert [step.operations[0].name for step in told.steps] == ["add"]
    assert "read directly" in told.steps[0].reason


def test_memory_that_is_not_ours() -> None:
    for x in (np.ones(3), wrapped(3)):
        told = npaccel.explain(x)
        assert told.steps == () and told.run is None
        assert "not computed by npaccel" in str(told)
    with pytest.raises(TypeError, match="an array or nothing, not list"):
        npaccel.explain([1])


def test_reading_does_not_make_it_and_nothing_makes_an_empty_array() -> None:
    a = wrapped(N)
    y = npaccel.evaluate(a + 1)
    made = npaccel.explain(y).run
    npaccel.evaluate(y * 2)
    assert npaccel.explain(y).run == made
    assert npaccel.explain(_native.empty((N,), np.dtype("f8"))).run is None


def test_forgotten_runs() -> None:
    a = wrapped(N)
    old = npaccel.evaluate(a + 1)
    for i in range(20):
        npaccel.evaluate(a + i)
    told = npaccel.explain(old)
    assert told.steps == () and told.run == _native.serial(old)
    assert "nothing is known any more" in str(told)


def test_the_reason_is_the_true_one() -> None:
    special = pytest.importorskip("scipy.special")
    x = npaccel.asarray(np.linspace(0.0, 3.0, 1000))
    n = npaccel.asarray(np.arange(5000))
    calls = {
        "erfinv": (lambda: special.erfinv(x), "a ufunc of another library"),
        "power": (lambda: np.power(n, n), "powers of integers may raise"),
        "sin": (lambda: np.sin(x.astype("g")), f"dtype {np.dtype('g')} has no kernel"),
    }
    npaccel.stats(reset=True)
    for call, _ in calls.values():
        call()
    told = {f.function: f.reason for f in npaccel.explain().fallbacks}
    for name, (_, reason) in calls.items():
        assert reason in told[name] and "no loop" not in told[name]


def test_fallbacks_are_listed_the_most_frequent_first() -> None:
    npaccel.stats(reset=True)
    a = wrapped(N)
    for _ in range(3):
        line = here() + 1
        np.fft.fft(a)
    np.linalg.norm(wrapped(8, 8), ord=2)
    told = npaccel.explain()
    counts = [f.calls for f in told.fallbacks]
    assert counts == sorted(counts, reverse=True) and sum(counts) == npaccel.stats()["fallbacks"]
    assert (told.fallbacks[0].function, told.fallbacks[0].calls) == ("fft.fft", 3)
    assert told.fallbacks[0].site == f"{__file__}:{line}"
    assert told.fallbacks[0].reason in str(told)
    npaccel.stats(reset=True)
    assert "No call was handed to NumPy" in str(npaccel.explain())


def test_ir_is_the_trace_and_the_plan() -> None:
    a = wrapped(N)
    y = npaccel.evaluate(np.cbrt(a))
    told = npaccel.explain(y)
    assert "map cbrt.f8.f8" in told.ir
    assert f"run {told.steps[0].kernel} over ({N})" in told.ir


def test_text_fits_into_100_columns_however_long_the_program() -> None:
    a = wrapped(300)
    values = [a]
    for i in range(200):
        values.append(np.where(values[-1] > 1.5, values[-1] * 0.5, values[-1] + i))
    deep = Operation("add", ("f8",) * 3, 2, "/" + "/".join(["folder"] * 30) + "/file.py", 12)
    steps = tuple(
        Step("", "numpy", (deep,) * 500, reason=f"{i} " + "because " * 60) for i in range(100)
    )
    fallen = tuple(Fallback("f" * 20, "reason " * 30, f"/x/{i}/y.py:1", i) for i in range(100))
    long = Explanation("A heading of some length in", fallen, steps=steps + steps[:3])
    for told in (npaccel.explain(values[-1]), long):
        lines = str(told).splitlines()
        assert max(map(len, lines)) <= 100
        assert not any(line != line.rstrip() for line in lines)
        assert len(lines) < 1500
    assert "...folder" not in str(long) and "file.py:12" in str(long)
    assert "add f8 (500 times)" in str(long)
    assert str(long).count("By NumPy's loop, 2 times; each time") == 3
    assert "and 60 more steps" in str(long) and "and 80 more" in str(long)


def test_byte_units() -> None:
    sizes = [0, 1023, 1024, 1536, 1 << 20, 5 << 30, 3 << 40, 2000 << 40]
    texts = ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 MiB", "5.0 GiB", "3.0 TiB", "2000.0 TiB"]
    assert [report.bytes_text(size) for size in sizes] == texts
