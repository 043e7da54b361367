"""Threads, tasks, forks and pools while something is pending."""

from __future__ import annotations

import pytest

from .fresh import succeed

PROGRAMS = {
    "thread pool": """
import concurrent.futures
def work(i):
    x, want = pending(1 << 15 | 1, seed=i)
    return bool((np.asarray(x + i) == want + i).all())
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    assert all(pool.map(work, range(60)))
""",
    "asyncio": """
async def work(i):
    x, want = pending(1 << 15 | 1, seed=i)
    await asyncio.sleep(0)
    y = x * 2.0
    await asyncio.sleep(0)
    plain = await asyncio.to_thread(lambda: np.asarray(y).copy())
    assert (plain == want * 2.0).all()
async def main():
    await asyncio.gather(*(work(i) for i in range(20)))
asyncio.run(main())
""",
    "threads that read and replace each other's arrays": """
import random
shared = [pending(1 << 15 | 1, seed=i) for i in range(8)]
wrong = []
def work(seed):
    choice = random.Random(seed)
    for step in range(80):
        i = choice.randrange(8)
        x, want = shared[i]
        match choice.randrange(5):
            case 0:
                if not (np.asarray(x) == want).all(): wrong.append((seed, step))
            case 1:
                if float(x.max()) != want.max(): wrong.append((seed, step))
            case 2:
                shared[i] = x * 0.5 + 1.0, want * 0.5 + 1.0
            case 3:
                shared[i] = np.maximum(x, 0.25), np.maximum(want, 0.25)
            case 4:
                y, other = shared[choice.randrange(8)]
                shared[i] = x - y, want - other
threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert not wrong, wrong[:5]
for x, want in shared: assert (np.asarray(x) == want).all()
""",
    "threads that pick and put by masks in a block": """
STEPS = 80
def work(seed):
    r = np.random.default_rng(seed)
    xs = [r.random(40000) for _ in range(4)]
    for _ in range(STEPS):
        i, j = (int(v) for v in r.integers(4, size=2))
        f = float(r.random())
        match int(r.integers(8)):
            case 0: xs[i] = xs[i] + xs[j] * f
            case 1: xs[i] += xs[j]
            case 2: xs[i][1:-1] = (xs[j][2:] + xs[j][:-2]) * f
            case 3: xs[i] = np.where(xs[j] > f, xs[i], xs[j])
            case 4: xs[i] = np.sqrt(np.abs(xs[j]))
            case 5: xs[j][int(r.integers(40000))] = f
            case 6: np.multiply(xs[i], f, out=xs[j])
            case 7:
                m = xs[j] > f
                xs[i][m] = xs[j][m]
        if r.random() < 0.1: xs[i] = xs[i] / (1 + np.abs(xs[i]))
    return b"".join(x.tobytes() for x in xs)
def in_block(seed):
    with npaccel.accelerate():
        got[seed] = work(seed)
got = {}
for first in (0, 50):
    threads = [threading.Thread(target=in_block, args=(first + k,)) for k in range(4)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
assert len(got) == 8 and all(got[seed] == work(seed) for seed in got)
""",
    "a thread that ended leaves its work": """
left = []
def work(i):
    x, want = pending(1 << 15 | 1, seed=i)
    left.append((x * 2.0, want * 2.0))
threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
for thread in threads: thread.start()
for thread in threads: thread.join()
del threads, thread
gc.collect()
for y, want in left: assert (np.asarray(y) == want).all()
""",
    "an asynchronous generator that is abandoned": """
async def generate(seen):
    x, want = pending(1 << 15 | 1)
    try:
        for i in range(9):
            x = x + 1.0
            yield x
    finally:
        await asyncio.sleep(0)
        seen.append((np.asarray(x) == want + 2.0).all())
async def abandon():
    seen, generator = [], None
    generator = generate(seen)
    await anext(generator)
    await anext(generator)
    await generator.aclose()
    return seen
assert asyncio.run(abandon()) == [True]
""",
    "a task that is cancelled": """
async def forever(x, made):
    while True:
        x = x * 1.0
        made[:] = [x]
        await asyncio.sleep(0)
async def cancel():
    x, want = pending(1 << 15 | 1)
    made = []
    task = asyncio.create_task(forever(x, made))
    for _ in range(5): await asyncio.sleep(0)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        pass
    assert (np.asarray(made[0]) == want).all()
asyncio.run(cancel())
""",
    "programs of their own, recorded into one queue": """
def steps(x, n):
    for i in range(n): x = np.sqrt(x * x + float(i)) - 0.5
    return x
sources = [np.random.default_rng(i).standard_normal(1 << 16 | i) for i in range(4)]
wants = [steps(source, 5 + i) for i, source in enumerate(sources)]
wrong, go = [], threading.Barrier(4)
def work(i):
    go.wait()
    for turn in range(12):
        y = steps(npaccel.asarray(sources[i]), 5 + i)
        if turn % 2: npaccel.evaluate(y)
        if not np.array_equal(np.asarray(y), wants[i]): wrong.append((i, turn))
threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert not wrong, wrong
""",
    "small work while another thread evaluates": """
source = np.linspace(0.0, 1.0, 1 << 18)
def evaluate():
    x = npaccel.asarray(source)
    for _ in range(3): x = np.sin(x)
    npaccel.evaluate(x)
thread = threading.Thread(target=evaluate)
thread.start()
small = npaccel.asarray(np.arange(9.0))
while True:
    assert (small * 2.0 + 1.0)[4] == 9.0
    if not thread.is_alive(): break
thread.join()
""",
    "one touch by many threads": """
for seed in range(10):
    x, want = pending(seed=seed)
    plain, go, got = np.asarray(x), threading.Barrier(6), []
    def read(i):
        go.wait()
        got.append(plain[i::6].sum() == want[i::6].sum())
    threads = [threading.Thread(target=read, args=(i,)) for i in range(6)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert got == [True] * 6
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_threads_and_tasks(name: str) -> None:
    succeed("import asyncio\n" + PROGRAMS[name])


@pytest.mark.slow
def test_many_steps_by_masks_in_threads() -> None:
    program = PROGRAMS["threads that pick and put by masks in a block"]
    succeed(program.replace("STEPS = 80", "STEPS = 250"))


@pytest.mark.parametrize("faulthandler", ["never", "after"])
def test_fork_with_pending_arrays(faulthandler: str) -> None:
    """Both processes read what was pending, and record and fault on their own."""
    succeed(
        """
warnings.simplefilter("ignore", DeprecationWarning)  # of forks with threads
x, want = pending()
y, want_y = pending(seed=3)
plain = np.asarray(x)
child = os.fork()
good = (plain == want).all() and (y == want_y).all()
z, want_z = pending(seed=5)
good &= (np.asarray(z) == want_z).all() and (np.asarray(x * y) == want * want_y).all()
if child == 0:
    grandchild = os.fork()
    if grandchild == 0:
        os._exit(0 if (np.asarray(x + z) == want + want_z).all() else 1)
    good &= os.waitpid(grandchild, 0)[1] == 0
    os._exit(0 if good else 1)
assert good
assert os.waitpid(child, 0)[1] == 0
""",
        env={"TEST_FAULTHANDLER": faulthandler},
    )


def test_fork_while_another_thread_evaluates() -> None:
    succeed(
        """
warnings.simplefilter("ignore", DeprecationWarning)
source = np.random.default_rng(0).standard_normal(1 << 20)
stop = threading.Event()
def work():
    while not stop.is_set():
        x = npaccel.asarray(source)
        for _ in range(8): x = np.sin(x)
        x.sum()
thread = threading.Thread(target=work)
thread.start()
time.sleep(0.3)
for seed in range(8):
    x, want = pending(seed=seed)
    child = os.fork()
    if child == 0:
        y, want_y = pending(seed=seed + 1)
        good = (x == want).all() and (np.asarray(y) == want_y).all()
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0
    time.sleep(0.01)
stop.set()
thread.join()
"""
    )


@pytest.mark.pending
def test_locks_are_taken_when_nothing_is_pending_any_more() -> None:
    """Who plans in another thread may need one, and would wait for the fork that waits for it."""
    succeed(
        """
from npaccel import system
x, want = pending()
seen = []
class Lock:
    def __enter__(self): seen.append(_native.is_pending(x))
    def __exit__(self, *why): seen.append(os.getpid())
system.hold(Lock())
child = os.fork()
if child == 0:
    os._exit(0 if seen == [False, os.getpid()] else 1)
assert seen == [False, os.getpid()], seen
assert os.waitpid(child, 0)[1] == 0
from npaccel.backends.llvm.backend import LlvmBackend
LlvmBackend().fingerprint  # loads LLVM
import llvmlite.binding as llvm
assert llvm.ffi.lib._lock in system._locks
"""
    )


def test_fork_by_a_thread_that_is_not_the_main_one() -> None:
    succeed(
        """
warnings.simplefilter("ignore", DeprecationWarning)
x, want = pending()
status = []
def work():
    child = os.fork()
    if child == 0:
        y, want_y = pending(seed=9)
        os._exit(0 if (np.asarray(x) == want).all() and (np.asarray(y) == want_y).all() else 1)
    status.append(os.waitpid(child, 0)[1])
thread = threading.Thread(target=work)
thread.start()
thread.join()
assert status == [0] and (np.asarray(x) == want).all()
"""
    )


def test_pool_of_eight_forked_processes() -> None:
    succeed(
        """
import multiprocessing
x, want = pending()
def work(i):
    return float(np.asarray(x)[i]), float((x * 2.0).max())
with multiprocessing.get_context("fork").Pool(8) as pool:
    assert pool.map(work, range(32)) == [(want[i], want.max() * 2.0) for i in range(32)]
"""
    )


def test_pool_of_spawned_processes_takes_pending_arrays() -> None:
    succeed(
        """
import concurrent.futures, multiprocessing, operator
x, want = pending()
context = multiprocessing.get_context("spawn")
with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
    for result in pool.map(operator.neg, [x, x + 1.0]):
        assert type(result) is (npaccel.Array if GUARDED else np.ndarray)
        assert (result == -want).all() or (result == -(want + 1.0)).all()
"""
    )


def test_subprocess_with_pending_work() -> None:
    succeed(
        """
import subprocess
x, want = pending()
assert subprocess.run(["true"], check=True, preexec_fn=lambda: None).returncode == 0
assert (np.asarray(x) == want).all()
"""
    )


def test_exit_while_daemon_threads_record_and_fault() -> None:
    out = succeed(
        """
def work():
    i = 0
    while True:
        i += 1
        x, want = pending(1 << 15 | 1, seed=i % 5)
        assert np.asarray(x)[3] == want[3]
        (x + 1.0).sum()
for _ in range(3): threading.Thread(target=work, daemon=True).start()
time.sleep(0.5)
print("end")
"""
    )
    assert out.strip() == "end"
