"""Out of memory half-way: an exception, and what was done is not done again.

The limit is on writable memory (RLIMIT_DATA), which the kernel refuses as it would at the end of a
machine's own: at a moment that the program chooses, with the guard at work.
"""

from __future__ import annotations

import re
import resource

import pytest

from . import foreign
from .fresh import run, succeed

BACKENDS = ["numpy", "llvm"]


@pytest.fixture(autouse=True)
def skip_where_addresses_are_limited(request: pytest.FixtureRequest) -> None:
    """There is little room to defer into then, and NumPy's memory runs out at the call."""
    limited = resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
    if limited and request.node.get_closest_marker("pending"):
        pytest.skip("needs room to defer into")


# `scarce()`: from now on at most a few MiB more; `plenty()`: as before.
LIMIT = """
import resource
before = resource.getrlimit(resource.RLIMIT_DATA)
def scarce(mib=8):
    gc.collect()
    status = open("/proc/self/status").read()
    used = int(status.split("VmData:")[1].split()[0]) << 10
    resource.setrlimit(resource.RLIMIT_DATA, (used + (mib << 20), before[1]))
def plenty():
    resource.setrlimit(resource.RLIMIT_DATA, before)
def fails(action):
    try:
        action()
    except MemoryError:
        return True
    return False
npaccel.config.nursery = 0
N = 1 << 20
x = npaccel.asarray(np.arange(float(N))) + 0.0
small = npaccel.asarray(np.arange(1000.0)) + 0.0
npaccel.evaluate()
def in_place():
    global x
    x += 1.0
    x *= 2.0
    return x
def large_base(n):
    return npaccel.asarray(np.arange(n * N, dtype="i4")[::2])
npaccel.evaluate(in_place(), large_base(20)[::-1] + 1.0, np.cumsum(large_base(20), dtype=float))
# From here on everything is planned, compiled and loaded.
want = np.asarray(x).copy()
def go_on(): return (want + 1.0) * 2.0
"""


@pytest.mark.pending
@pytest.mark.parametrize("backend", BACKENDS)
def test_what_was_overwritten_is_not_overwritten_again(backend: str) -> None:
    out = succeed(
        LIMIT
        + """
base = large_base(20)
in_place()
y = np.cumsum(base, dtype=float)  # packed first, for which there is no room
scarce()
print(fails(npaccel.evaluate), fails(npaccel.evaluate), _native.is_pending(x))
plenty()
npaccel.evaluate()
assert (np.asarray(x) == go_on()).all()
assert y[1] == base[1] and y[-1] == base.sum()
z = x + 1.0
assert (np.asarray(z) == go_on() + 1.0).all()
""",
        env={"NPACCEL_BACKEND": backend},
    )
    assert out.split() == ["True", "True", "True"]


@pytest.mark.pending
@pytest.mark.parametrize("backend", BACKENDS)
def test_recording_behind_a_run_that_stopped(backend: str) -> None:
    """The run is over before anything else is recorded; until then recording raises."""
    out = succeed(
        LIMIT
        + """
base = large_base(20)
in_place()
y = np.cumsum(base, dtype=float)  # packed first, for which there is no room
scarce()
print(fails(npaccel.evaluate))
print(fails(lambda: x * 3.0))
plenty()
x += 5.0
assert (np.asarray(npaccel.evaluate(x)) == go_on() + 5.0).all()
assert y[2] == base[1] + base[2]
""",
        env={"NPACCEL_BACKEND": backend},
    )
    assert out.split() == ["True", "True"]


@pytest.mark.pending
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_run_in_flight_that_stops_is_gone_on_with_by_who_needs_it(backend: str) -> None:
    """It says so where its result, or what it makes, is read; nothing else notices."""
    out = succeed(
        LIMIT
        + """
base = large_base(20)
y = np.cumsum(base, dtype=float)  # 80 MiB
in_place()
scarce(32)  # a thread has its stack
future = npaccel.evaluate(y, wait=False)
print(type(future.exception()).__name__, future.done())
print(fails(future.result), fails(lambda: float(y[3])), fails(lambda: y + 1.0 if y[2] else 0))
assert float((small + 1.0)[5]) == 6.0
more = npaccel.evaluate(small * 2.0, wait=False).result()
assert float(more[7]) == 14.0
plenty()
z = y - 1.0
assert y[1] == base[1] and y[-1] == base.sum()
assert z[2] == y[2] - 1.0
assert (np.asarray(x) == go_on()).all()
""",
        env={"NPACCEL_BACKEND": backend},
    )
    assert out.split() == ["MemoryError", "True", "True", "True", "True"]


LIFTED_LATER = """
import ctypes, subprocess, tempfile
source = '''
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>
static void *lift(void *unused)
{
    struct rlimit limit;
    getrlimit(RLIMIT_DATA, &limit);
    limit.rlim_cur = limit.rlim_max;
    usleep(100000);
    setrlimit(RLIMIT_DATA, &limit);
    return unused;
}
int later(void)
{
    pthread_t id;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    return pthread_create(&id, &small, lift, 0);
}
'''
with tempfile.TemporaryDirectory() as folder:
    command = ["gcc", "-shared", "-fPIC", "-pthread", "-x", "c", "-", "-o", folder + "/later.so"]
    subprocess.run(command, input=source, text=True, check=True)
    library = ctypes.CDLL(folder + "/later.so")
"""


@pytest.mark.pending
@pytest.mark.skipif(foreign.unmet("gcc"), reason="no gcc")
def test_a_read_without_memory_goes_on_when_there_is_some() -> None:
    """A touch can't raise; it is repeated for a second, here with the GIL held."""
    succeed(
        LIMIT
        + LIFTED_LATER
        + """
base = large_base(20)
in_place()
y = np.cumsum(base, dtype=float)
plain = np.asarray(x)
scarce()
assert library.later() == 0
assert plain[3] == go_on()[3]
plenty()
assert (plain == go_on()).all() and y[1] == base[1]
"""
    )


@pytest.mark.pending
def test_a_result_that_can_not_be_shown() -> None:
    """It was computed, but not even its pages can be moved: what needs them raises until they can.
    What does not, as a look at one element, goes on."""
    out = succeed(
        LIMIT
        + """
base = large_base(20)
y = base[::-1] + 1.0
scarce()
print(fails(npaccel.evaluate), fails(lambda: y[5]), fails(lambda: y.tobytes()))
assert y[0] == base[-1] + 1.0
plenty()
assert y.tobytes() == (np.asarray(base)[::-1] + 1.0).tobytes()
"""
    )
    assert out.split() == ["False", "False", "True"]


@pytest.mark.pending
def test_a_read_without_memory_ends_in_a_crash_that_says_so() -> None:
    done = run(
        LIMIT
        + """
base = large_base(20)
y = base[::-1] + 1.0
plain = np.asarray(y)
scarce()
plain[3]
"""
    )
    assert done.returncode == -11
    assert "npaccel: out of memory" in done.stderr


@pytest.mark.pending
def test_a_write_without_memory_ends_in_a_crash_that_says_so() -> None:
    """What was recorded reads the old values, and can't be computed before they are gone."""
    done = run(
        LIMIT
        + """
plain = np.arange(20 * N, dtype="i4")
y = np.cumsum(npaccel.asarray(plain)[::2], dtype=float)
assert _native.is_pending(y)
scarce()
plain[len(plain) // 2] = 1
"""
    )
    assert done.returncode == -11
    assert "npaccel: out of memory" in done.stderr


@pytest.mark.pending
def test_a_system_call_without_memory_fails_and_says_so() -> None:
    """It needs no crash: the call has an error to return. Later it finds all that was pending."""
    done = run(
        LIMIT
        + """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
base = large_base(20)
y = base[::-1] + 1.0
at = ctypes.c_void_p(np.asarray(y).ctypes.data)
def write():
    reading, writing = os.pipe()
    done = libc.write(writing, at, ctypes.c_size_t(80)), ctypes.get_errno()
    os.close(writing)
    return done[0], os.strerror(done[1]) if done[0] < 0 else os.read(reading, 80)
assert _native.is_pending(y)
scarce()
assert write() == (-1, "Bad address")
plenty()
assert write() == (80, (base[::-1][:10] + 1.0).tobytes())
"""
    )
    assert done.returncode == 0, done.stderr
    assert "npaccel: out of memory" in done.stderr


@pytest.mark.one_in(2)
@pytest.mark.parametrize("guard", ["on", "off"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_an_operation_that_raised_did_nothing(guard: str, backend: str) -> None:
    """One that runs at its call, into plain memory: tried again, it is done once."""
    out = succeed(
        LIMIT
        + """
base = large_base(20)
plain = np.arange(10.0 * N)
total = npaccel.asarray(plain)
npaccel.evaluate(np.cumsum(base, dtype=float, out=total.copy()))
def step(): np.cumsum(base, dtype=float, out=total)
plain[:] = 7.0
scarce()
print(fails(step), fails(step))
plenty()
npaccel.evaluate()
assert (plain == 7.0).all()
step()
assert plain[2] == base[1] + base[2]
""",
        env={"NPACCEL_BACKEND": backend, "NPACCEL_GUARD": guard},
    )
    assert out.split() == ["True", "True"]


# `said(action)`: what the MemoryError says; lines count from here.
SAID = """
def said(action):
    try:
        action()
    except MemoryError as error:
        return str(error)
@npaccel.macro
def step(u, v):
    return np.cumsum(u) * v + 1.0
"""


SHORT_OF_MEMORY = """
base, w = large_base(20), npaccel.asarray(np.ones(4 * N))
for _ in range(3): step(w, w)
y = base[::-1] + 1.0
scarce()
npaccel.evaluate()
print(said(y.tobytes))
plenty()
npaccel.evaluate(in_place())
z = np.cumsum(base, dtype=float)  # the first
in_place()
scarce()
print(said(npaccel.evaluate))
plenty()
npaccel.evaluate()
z = np.cumsum(base, dtype=float)  # the second
in_place()
scarce()
print(said(npaccel.evaluate))
plenty()
npaccel.evaluate()
scarce()
print(said(lambda: step(w, w)))
plenty()
assert step(w, w)[3] == 5.0
"""


@pytest.mark.pending
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_error_says_for_what_memory_did_not_suffice(backend: str) -> None:
    """The operation, the user's line and the size, wherever evaluation stops."""
    program = LIMIT + SAID + SHORT_OF_MEMORY
    lines = program.splitlines()
    earlier, later = (
        next(i for i, text in enumerate(lines) if words in text)
        for words in ("# the first", "# the second")
    )
    out = succeed(program, env={"NPACCEL_BACKEND": backend}).splitlines()
    mib, shape = "an array of 80.00 MiB with shape (10485760,) and data type float64", r"(\d+)"
    wanted = [
        rf"Unable to allocate memory to show {re.escape(mib)}, which is computed",
        rf"Unable to allocate memory for add\.accumulate at .*:{shape}: its .* 80\.00 MiB.*",
        rf"Unable to allocate memory for add\.accumulate at .*:{shape}: its .* 80\.00 MiB.*",
        rf"Unable to allocate memory for add at .*:{shape}: its result is an array of 32\.00 MiB.*",
    ]
    places = [re.fullmatch(pattern, text) for pattern, text in zip(wanted, out, strict=True)]
    assert all(places), out
    assert int(places[2][1]) - int(places[1][1]) == later - earlier  # type: ignore[index]


def test_more_than_the_machine_has_is_refused_as_numpy_refuses_it() -> None:
    """At the call, in NumPy's words; nothing is promised that can't be kept."""
    succeed(
        LIMIT
        + SAID
        + """
rows = 8 * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE") // (8 << 18)
a, b = np.ones((rows, 1)), np.ones(1 << 18)
expected = said(lambda: a * b)
if expected is None:  # a machine that promises anything
    raise SystemExit
assert "Unable to allocate" in expected
x, y = npaccel.asarray(a), npaccel.asarray(b)
assert said(lambda: x * y) == expected
with npaccel.accelerate(min_size=8):
    assert said(lambda: a * b) == expected
    assert said(lambda: np.broadcast_to(y, (rows, 1 << 18)).copy()) == expected
assert said(lambda: npaccel.evaluate(x + 1)) is None
"""
    )
