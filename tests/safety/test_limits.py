"""Where nothing can be guarded: no more mappings, little address space, the guard switched off."""

from __future__ import annotations

import pytest

from .fresh import PRELUDE, run, succeed

VALUES = """
source = np.arange(1 << 17, dtype=float)
x = npaccel.asarray(source) * 2.0 + 1.0
assert not _native.is_pending(x)
assert (np.asarray(x) == source * 2.0 + 1.0).all()
assert float(x.max()) == source.max() * 2.0 + 1.0
x += 1.0
x[3:9] = 0.0
want = source * 2.0 + 2.0
want[3:9] = 0.0
assert (np.asarray(x) == want).all()
assert npaccel.stats()["guard_faults"] == 0
print("right")
"""


def test_guard_off() -> None:
    assert succeed(VALUES, env={"NPACCEL_GUARD": "off"}).strip() == "right"


def test_little_address_space() -> None:
    """`ulimit -v`: the reservation fails, so nothing is deferred."""
    assert succeed(VALUES, limit_kib=4 << 20).strip() == "right"


def test_out_of_memory_is_an_exception_that_leaves_the_rest_valid() -> None:
    out = succeed(
        """
kept = []
try:
    for i in range(100):
        kept.append(npaccel.asarray(np.ones(1 << 23)) * float(i))
    npaccel.evaluate()
except MemoryError:
    print("no memory")
assert (np.asarray(kept[3])[::4096] == 3.0).all()
""",
        limit_kib=3 << 19,
        env={"OPENBLAS_NUM_THREADS": "1"},
    )
    assert out.strip() == "no memory"


MANY = """
npaccel.config.threshold = 0
sizes = [1, 100, 600, 5000, 40000]
sources = {n: np.random.default_rng(n).standard_normal(n) for n in sizes}
def size(i): return sizes[i // 50 % 5] if i % 50 == 0 else 1
kept = [npaccel.asarray(sources[size(i)]) + float(i) for i in range(COUNT)]
stats = npaccel.stats()
assert stats["not_deferred"] > 0 and stats["live_ranges"] > 1000
def mappings(): return len(open("/proc/self/maps").readlines())
limit = int(open("/proc/sys/vm/max_map_count").read())
assert mappings() < limit / 2
for i in (*range(0, COUNT, 997), *range(0, COUNT, 1000)):
    assert (np.asarray(kept[i]) == sources[size(i)] + float(i)).all(), i
import sqlite3, _decimal, scipy.linalg  # extension modules, each of several mappings
assert mappings() < limit / 2
before = len(kept)
del kept
gc.collect()
assert (np.asarray(npaccel.asarray(sources[5000]) * 2.0) == sources[5000] * 2.0).all()
print(before)
"""


@pytest.mark.pending
@pytest.mark.parametrize(
    "count", [20_000, pytest.param(200_000, marks=pytest.mark.slow, id="slow-200000")]
)
def test_many_live_arrays_then_new_extension_modules(count: int) -> None:
    pytest.importorskip("scipy", reason="SciPy is not installed")
    out = succeed(MANY.replace("COUNT", str(count)), watchdog_s=20.0 + count / 2000)
    assert out.strip() == str(count)


@pytest.mark.pending
def test_switching_the_guard_off_with_pending_work() -> None:
    succeed(
        """
x, want = pending()
plain = np.asarray(x)
npaccel.config.guard = "off"
assert not _native.is_pending(x) and (plain == want).all()
y = x * 2.0
assert not _native.is_pending(y) and (np.asarray(y) == want * 2.0).all()
npaccel.config.guard = "on"
z, want = pending(seed=4)
assert (np.asarray(z) == want).all()
"""
    )


def test_without_npaccel_the_crash_looks_the_same() -> None:
    """The trace that faulthandler prints is of the same frames as without npaccel."""
    plain = "import faulthandler, ctypes\nfaulthandler.enable()\n"
    crash = "def crash():\n    ctypes.string_at(8)\ncrash()\n"
    traces = []
    for prelude in (plain, PRELUDE.replace("import npaccel\n", "import npaccel\n" + plain)):
        done = run(crash, prelude=prelude)
        lines = done.stderr.splitlines()
        first = next(i for i, line in enumerate(lines) if line.startswith("Fatal Python error"))
        frames = [line.split(" in ")[-1] for line in lines[first:] if line.startswith("  File")]
        traces.append((done.returncode, lines[first], frames))
    assert traces[0] == traces[1]
