"""Where nothing or little can be guarded: no more mappings, little address space, system calls that
are forbidden, the guard switched off."""

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


# Address space (KiB) that NumPy and npaccel can be imported in, of which an eighth is too little to
# defer into; and enough for that.
TOO_LITTLE, LITTLE = 1 << 20, 4 << 20
# OpenBLAS's buffers for threads take more of it than all else.
ALONE = {"OPENBLAS_NUM_THREADS": "1", "NPACCEL_GUARD": "on"}

# Nothing is recorded, so operations on large arrays are as small ones: NumPy's, on plain results.
PASSED = """
warnings.simplefilter("error")
source = np.arange(1 << 17, dtype=float)
with npaccel.accelerate():
    for made in (source * 2.0, np.sin(source), source[source > 3], np.zeros(1 << 17), source.copy(),
                 np.where(source > 3, source, 0), source.astype("f4"), source[::-1].reshape(2, -1)):
        assert type(made) is np.ndarray
    source += 1.0
x = npaccel.asarray(source)
assert type(x) is npaccel.Array and type(x[3:]) is npaccel.Array
for made in (x * 2.0, 1.0 + x, np.sin(x), x[x > 3], x.copy(), np.where(x > 3, x, 0), x.sum(),
             np.add(x, 1.0, out=source), np.concatenate([x, x]), x[np.arange(9)], x.mean()):
    assert type(made) in (np.ndarray, np.float64)
x *= 2.0
x[3:9] = x[9:15]
counts = npaccel.stats()
assert counts["requests"] == counts["fallbacks"] == counts["not_deferred"] == 0, counts

@npaccel.macro
def step(u):
    return u + 1.0
assert (step(x) == x + 1.0).all() and "the guard is off" in step.stats()["reasons"]
with npaccel.macro("block", x) as m:
    assert type(m.arrays[0] + 1.0) is np.ndarray
told = str(npaccel.explain())
assert "NumPy computes everything" in " ".join(told.split()) and WHY in told, told
found = npaccel.devices()
assert not found.guarded and WHY in found.guard, found.guard
print("passed")
"""

# Forbids a system call from here on, as sandboxes do.
FORBID = """
import ctypes, platform, struct
def forbid(x86_64, aarch64):
    number = {"x86_64": x86_64, "aarch64": aarch64}[platform.machine()]
    EPERM = 1
    rows = [(0x20, 0, 0, 0), (0x15, 0, 1, number)]
    rows += [(0x06, 0, 0, 0x50000 | EPERM), (0x06, 0, 0, 0x7FFF0000)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *row) for row in rows))
    program = struct.pack("HxxxxxxP", len(rows), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    NO_NEW_PRIVILEGES, SECCOMP, FILTER = 38, 22, 2
    assert libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0
    if libc.prctl(SECCOMP, FILTER, ctypes.c_char_p(program), 0, 0) != 0:
        print("no filters here")
        raise SystemExit
"""


# A limit that a program sets itself, when arrays of all kinds are there.
LATER = """
import mmap, resource
hard = resource.getrlimit(resource.RLIMIT_AS)[1]
most = min(GIB << 30, hard) if hard > 0 else GIB << 30
source = np.arange(1 << 17, dtype=float)
shown, hidden = npaccel.asarray(source) * 2.0, npaccel.asarray(source) * 3.0
assert shown[5] == 10.0 and hidden.sum() > 0
small, waits = npaccel.asarray(source)[:9000] * 2.0, npaccel.asarray(source) * 4.0
SET
with npaccel.accelerate():
    made = [np.zeros(1 << 18) + i for i in range(40)]
    assert [m[7] for m in made] == list(range(40))
waits += 1.0
shown[3] = hidden[4]
assert (np.asarray(waits) == source * 4.0 + 1.0).all() and np.asarray(shown)[3] == 12.0
assert (np.asarray(hidden) == source * 3.0).all() and np.asarray(small)[8000] == 16000.0
mmap.mmap(-1, 1 << 28)
try:
    bytes(9 << 30)
except MemoryError:
    print("limited", _native.guarded(), flush=True)
    os._exit(0)
"""
IN_A_CHILD = """child = os.fork()
if child:
    assert os.waitpid(child, 0)[1] == 0
    os._exit(0)
resource.setrlimit(resource.RLIMIT_AS, (most, hard))"""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("gib", [1, 4])
@pytest.mark.parametrize(
    "how",
    [
        "resource.setrlimit(resource.RLIMIT_AS, (most, hard))",
        "resource.prlimit(0, resource.RLIMIT_AS, (most, hard))",
        "import ctypes; ctypes.CDLL(None).setrlimit(9, (ctypes.c_ulong * 2)(most, most))",
        IN_A_CHILD,
    ],
)
def test_a_limit_that_the_program_sets(how: str, gib: int) -> None:
    program = LATER.replace("SET", how).replace("GIB", str(gib))
    assert succeed(program, env=ALONE).strip() == f"limited {gib > 1}"


def test_guard_off() -> None:
    assert succeed(VALUES, env={"NPACCEL_GUARD": "off"}).strip() == "right"


def test_without_the_guard_everything_is_numpys() -> None:
    passed = f"WHY = 'as set'\n{PASSED}"
    assert succeed(passed, env={"NPACCEL_GUARD": "off"}).strip() == "passed"


def test_without_the_interpreters_lock_everything_is_numpys() -> None:
    """As a free-threaded Python says it that was told not to take the lock up."""
    without = f"import sys\nsys._is_gil_enabled = lambda: False\n{PRELUDE}"
    passed = f"WHY = 'PYTHON_GIL=1'\n{PASSED}"
    assert succeed(passed, prelude=without, env={"NPACCEL_GUARD": "on"}).strip() == "passed"


def test_with_an_allocator_that_takes_the_interpreters_lock_everything_is_numpys() -> None:
    """Scalene's, which it loads before all else; its threads and ours would wait for each other."""
    loaded = f"import os\nos.environ['LD_PRELOAD'] = 'libscalene.so'\n{PRELUDE}"
    passed = f"WHY = '--cpu-only'\n{PASSED}\nassert npaccel._native.threads() == 1"
    assert succeed(passed, prelude=loaded, env={"NPACCEL_GUARD": "on"}).strip() == "passed"


def test_too_little_address_space() -> None:
    """`ulimit -v`: too little to defer into; even warnings that are errors stop nothing."""
    out = succeed(f"WHY = 'ulimit -v'\n{PASSED}", limit_kib=TOO_LITTLE, env=ALONE)
    assert out.strip() == "passed"


@pytest.mark.pending
def test_little_address_space() -> None:
    """An eighth of what is left is reserved, and results are deferred."""
    out = succeed(
        """
def size():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) << 12
x, want = pending()
assert npaccel.stats()["not_deferred"] == 0 and GUARDED
assert (np.asarray(x) == want).all()
print(size())
""",
        limit_kib=LITTLE,
        env=ALONE,
    )
    assert int(out) < 1 << 30


@pytest.mark.pending
def test_where_space_runs_out_the_rest_is_numpys() -> None:
    """And asking for more costs little: it is asked less and less often."""
    succeed(
        """
source = np.arange(1 << 17, dtype=float)
with npaccel.accelerate():
    kept = [source * float(i) for i in range(400)]
    for i in range(1000): source + float(i)
assert all((made == source * float(i)).all() for i, made in enumerate(kept[:400]))
counts = npaccel.stats()
assert counts["live_ranges"] > 8 and 0 < counts["not_deferred"] < 40, counts
reasons = {fallback.reason for fallback in npaccel.explain().fallbacks}
assert reasons == {"no room to defer into (address space or mappings are limited)"}, reasons
del kept
with npaccel.accelerate():
    for i in range(2000): last = source * float(i)
assert type(last) is npaccel.Array and (last == source * 1999.0).all()
""",
        limit_kib=LITTLE,
        env=ALONE | {"NPACCEL_TIERING": "off"},
        prelude=PRELUDE + "_native.trials(False)\n",
    )


def test_a_sandbox_that_forbids_to_move_pages() -> None:
    prelude, rest = PRELUDE.split("import npaccel\n")
    prelude = f"{prelude}{FORBID}forbid(25, 216)  # mremap\nimport npaccel\n{rest}"
    out = succeed(f"WHY = 'a sandbox'\n{PASSED}", prelude=prelude, env=ALONE)
    assert out.strip() in ("passed", "no filters here")


@pytest.mark.pending
def test_a_sandbox_that_forbids_handlers_later_on() -> None:
    """What was pending is computed, and from then on everything is NumPy's."""
    program = f"""{FORBID}
x, want = pending()
forbid(13, 134)  # rt_sigaction
assert (np.asarray(x) == want).all()
y = x + 1.0
assert (np.asarray(y) == want + 1.0).all() and not _native.guarded()
WHY = "handler of SIGSEGV"
npaccel.stats(reset=True)
{PASSED}"""
    assert succeed(program).strip() in ("passed", "no filters here")


TOLD = """
x = np.ones(1 << 17)
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    for _ in range(3):
        with npaccel.accelerate(): x + 1.0
        npaccel.asarray(x) * 2.0
        npaccel.macro(np.negative)(x)
for warning in found:
    print(warning.category.__name__, warning.filename, warning.lineno)
"""


def test_who_did_not_ask_for_it_is_told_once_at_his_line() -> None:
    told = succeed(TOLD, limit_kib=TOO_LITTLE, env=ALONE).split()
    line = 1 + (PRELUDE + TOLD).splitlines().index("        with npaccel.accelerate(): x + 1.0")
    assert told == ["NpaccelWarning", "<string>", str(line)]


def test_neither_an_import_nor_who_asked_for_it_is_told() -> None:
    assert succeed(TOLD, env={"NPACCEL_GUARD": "off"}) == ""
    done = run("", limit_kib=TOO_LITTLE, env=ALONE)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_without_the_guard_a_decorated_function_opens_no_block() -> None:
    program = """
npaccel.blocks.Accelerate.__enter__ = None
double = npaccel.accelerate(lambda x: x * 2.0)
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    for _ in range(3):
        assert type(double(np.ones(1 << 17))) is np.ndarray
print(*(w.lineno for w in found))
"""
    line = 1 + (PRELUDE + program).splitlines().index(
        "        assert type(double(np.ones(1 << 17))) is np.ndarray"
    )
    assert succeed(program, limit_kib=TOO_LITTLE, env=ALONE).split() == [str(line)]
    assert succeed(program, env={"NPACCEL_GUARD": "off"}).strip() == ""


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


@pytest.mark.room
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
