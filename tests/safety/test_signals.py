"""Signals: other owners of SIGSEGV, real crashes, Ctrl-C, handlers that compute."""

from __future__ import annotations

import signal

import pytest

from .fresh import run, succeed

FAULTHANDLER = ["never", "before", "after"]

# What other people do to the handler of SIGSEGV while something is pending; then a touch.
TAKEN = {
    "enabled": "faulthandler.enable()",
    "disabled": "faulthandler.disable()",
    "cycled": """
for _ in range(50):
    faulthandler.enable()
    y, held = pending(1 << 15 | 1)
    assert (np.asarray(y) == held).all()
    faulthandler.disable()
""",
    "default": "signal.signal(signal.SIGSEGV, signal.SIG_DFL)",
    "replaced": "signal.signal(signal.SIGSEGV, lambda number, frame: None)",
    "bound before": "enable(); disable(); enable()",
}


@pytest.mark.parametrize("faulthandler", FAULTHANDLER)
def test_handlers_taken_while_something_is_pending(faulthandler: str) -> None:
    program = "from faulthandler import enable, disable\n"
    for name, deed in TAKEN.items():
        program += f"x, want = pending()\n{deed}\n"
        program += f"assert (np.asarray(x) == want).all(); print({name!r}, flush=True)\n"
    out = succeed(program, env={"TEST_FAULTHANDLER": faulthandler})
    assert out.splitlines() == list(TAKEN)


CRASH = """
import ctypes
x, want = pending()
assert (np.asarray(x) == want).all()
y, want = pending()
ctypes.string_at(8)
"""


@pytest.mark.parametrize("faulthandler", FAULTHANDLER)
def test_a_crash_stays_a_crash(faulthandler: str) -> None:
    done = run(CRASH, env={"TEST_FAULTHANDLER": faulthandler})
    assert done.returncode == -signal.SIGSEGV
    traced = "Segmentation fault" in done.stderr and "string_at" in done.stderr
    assert traced == (faulthandler != "never"), done.stderr


def test_a_crash_by_kill() -> None:
    done = run("x, want = pending(); os.kill(os.getpid(), signal.SIGSEGV); time.sleep(5)")
    assert done.returncode == -signal.SIGSEGV


# One evaluation that takes long enough to be interrupted, however fast the machine, and what it
# must give.
LONG = """
import ctypes
source = np.random.default_rng(0).standard_normal(1 << 21)
def chain(x):
    for _ in range(10): x = np.sin(x)
    return x
def interrupt_after(seconds):
    # Ctrl-C once this process has worked so long: other processes make no difference.
    PROCESS_CPU_TIME, libc, timer = 2, ctypes.CDLL(None), ctypes.c_void_p()
    event = (ctypes.c_int * 16)(0, 0, signal.SIGINT)
    assert libc.timer_create(PROCESS_CPU_TIME, event, ctypes.byref(timer)) == 0
    when = (ctypes.c_long * 4)(0, 0, int(seconds), int(seconds % 1 * 1e9))
    assert libc.timer_settime(timer, 0, when, None) == 0
def seconds():
    began = time.process_time()  # of at most two threads; other processes cannot lengthen it
    npaccel.evaluate(chain(npaccel.asarray(source)))
    return (time.process_time() - began) / 2
seconds()  # compiles
size = int(source.size * 0.1 / seconds())
source = np.resize(source, min(max(size, source.size), 1 << 25))
result = np.asarray(npaccel.evaluate(chain(npaccel.asarray(source))))
def overwritten():
    x = npaccel.asarray(source) * 1.0
    npaccel.evaluate()
    for _ in range(10): np.sin(x, out=x)
    return x
npaccel.evaluate(overwritten())  # compiled: from here on evaluations only compute
def computed(): return sum(npaccel.stats()[f"{by}_requests"] for by in ("kernel", "native"))
def check(x): assert np.abs(np.asarray(x) - result).max() < 1e-12
"""


@pytest.mark.pending
def test_interrupt_of_an_evaluation() -> None:
    out = succeed(
        LONG
        + """
x = chain(npaccel.asarray(source))
y, want = pending()
interrupt_after(0.03)
try:
    npaccel.evaluate()
    while True: pass
except KeyboardInterrupt:
    print("interrupted", _native.is_pending(x))
time.sleep(0.1)
assert (np.asarray(y) == want).all()
check(x)
""",
        env={"NPACCEL_NUM_THREADS": "2"},
    )
    assert out.splitlines() == ["interrupted True"]


@pytest.mark.pending
def test_interrupt_of_an_evaluation_that_overwrites() -> None:
    """What was there is gone, so it is carried to its end, once; then the exception comes."""
    out = succeed(
        LONG
        + """
x = overwritten()
interrupt_after(0.03)
try:
    npaccel.evaluate()
    while True: pass
except KeyboardInterrupt:
    print("interrupted", _native.is_pending(x))
check(x)
"""
    )
    assert out.splitlines() == ["interrupted False"]


@pytest.mark.pending
def test_interrupts_between_what_overwrites_and_what_does_not() -> None:
    """Wherever one comes: what was done is not done again, and the rest is done later."""
    succeed(
        LONG
        + """
def work():
    x = npaccel.asarray(source) * 1.0
    y = npaccel.asarray(source[::-1]) * 1.0
    npaccel.evaluate()
    for _ in range(5): np.sin(x, out=x)  # over its own input
    z = chain(y[5:])                     # of another length: a kernel of its own
    for _ in range(5): np.sin(x, out=x)
    return x, z
npaccel.evaluate(work())
began = time.process_time()
npaccel.evaluate(work())
duration = time.process_time() - began
for part in range(1, 8, 2):
    x, z = work()
    interrupt_after(duration * part / 10)
    try:
        npaccel.evaluate()
        while True: pass
    except KeyboardInterrupt:
        pass
    check(x)
    assert np.abs(np.asarray(z) - result[::-1][5:]).max() < 1e-12
""",
        watchdog_s=180.0,
    )


@pytest.mark.pending
def test_interrupt_of_a_fault() -> None:
    out = succeed(
        LONG
        + """
x = chain(npaccel.asarray(source))
plain = np.asarray(x)
before = computed()
interrupt_after(0.03)
try:
    plain[5]
    while True: pass
except KeyboardInterrupt:
    print("interrupted", _native.is_pending(x))
assert computed() - before == 10
check(x)
"""
    )
    assert out.splitlines() == ["interrupted False"]


@pytest.mark.pending
def test_a_handler_of_sigint_that_raises_nothing() -> None:
    out = succeed(
        LONG
        + """
signal.signal(signal.SIGINT, lambda number, frame: print("noticed"))
x = chain(npaccel.asarray(source))
interrupt_after(0.03)
npaccel.evaluate()
assert not _native.is_pending(x)
check(x)
"""
    )
    assert out.splitlines() == ["noticed"]


@pytest.mark.pending
def test_a_handler_that_computes() -> None:
    out = succeed(
        LONG
        + """
count = 0
def handler(number, frame):
    global count
    y, want = pending()
    assert (y == want).all() and (np.asarray(y) == want).all()
    count += 1
    signal.setitimer(signal.ITIMER_REAL, 0.03)
signal.signal(signal.SIGALRM, handler)
def total(): return float(np.asarray(npaccel.evaluate(chain(npaccel.asarray(source)))).sum())
want = total()
signal.setitimer(signal.ITIMER_REAL, 0.03)
for _ in range(5):
    assert total() == want
signal.setitimer(signal.ITIMER_REAL, 0)
print(count > 0)
"""
    )
    assert out.splitlines() == ["True"]


# Signals come while Python code of ours runs: handlers do, too, but behind it.
WITHIN = """
from npaccel.ir import passes
npaccel.config.tiering, npaccel.config.cache = "eager", "off"
original = passes.plan
def plan(*args, **kwargs):
    signal.raise_signal(signal.SIGUSR1)
    inside.append(True)
    try:
        return original(*args, **kwargs)
    finally:
        inside.pop()
passes.plan = plan
inside = []
"""


@pytest.mark.pending
@pytest.mark.parametrize("error", ["TimeoutError", "ImportError", "ValueError", "SystemExit"])
def test_what_a_handler_raises_is_not_taken_for_an_error_of_ours(error: str) -> None:
    out = succeed(
        WITHIN
        + f"""
def handler(number, frame):
    assert not inside
    raise {error}(frame.f_globals["__name__"].partition(".")[0])
signal.signal(signal.SIGUSR1, handler)
x, want = pending()
try:
    value = float(x[::7].sum())
    print("not raised")
except {error} as caught:
    print(caught)
assert (np.asarray(x) == want).all()
"""
    )
    assert out.splitlines()[0] in ("__main__", "numpy")


@pytest.mark.pending
def test_a_handler_that_plans_within_a_plan() -> None:
    out = succeed(
        WITHIN
        + """
def handler(number, frame):
    assert not inside
    if not sums:
        y, want = pending(1 << 16, 2)
        sums.append((float(np.asarray(y[::5] * 3).sum()), float((want[::5] * 3).sum())))
sums = []
signal.signal(signal.SIGUSR1, handler)
x, want = pending()
assert np.array_equal(np.asarray(npaccel.evaluate(x * 2)), want * 2)
assert abs(sums[0][0] - sums[0][1]) < 1e-6
assert signal.getsignal(signal.SIGUSR1) is handler
print(len(sums))
"""
    )
    assert out.splitlines() == ["1"]


@pytest.mark.pending
def test_signals_without_handlers_act_within_a_plan() -> None:
    program = WITHIN + "signal.signal(signal.SIGUSR1, signal.SIG_IGN)\n"
    program += "x, want = pending(); assert (np.asarray(npaccel.evaluate(x)) == want).all()\n"
    program += "signal.signal(signal.SIGUSR1, signal.SIG_DFL)\n"
    done = run(program + "y, want = pending(1 << 16); npaccel.evaluate(y - 1)")
    assert done.returncode == -signal.SIGUSR1, done.stderr


@pytest.mark.pending
def test_a_reader_with_the_gil_during_an_evaluation_elsewhere() -> None:
    """The evaluation must not want the GIL, which waits for it in the fault."""
    succeed(
        LONG
        + """
for seed in range(3):
    x = chain(npaccel.asarray(source))
    y, want = pending(seed=seed)
    plain = np.asarray(y)
    thread = threading.Thread(target=npaccel.evaluate)
    thread.start()
    time.sleep(0.02)
    assert plain[5] == want[5]
    thread.join()
"""
    )


@pytest.mark.pending
def test_long_kernels_that_overwrite_run_on_the_main_thread_and_on_others() -> None:
    succeed(
        LONG
        + """
def go():
    check(npaccel.evaluate(overwritten()))
go()
thread = threading.Thread(target=go)
thread.start()
thread.join()
""",
        env={"NPACCEL_NUM_THREADS": "1"},
    )
