"""Trials of the program cache: processes that are killed, and very many kernels.

`soak_cache.py kills [ROUNDS]` lets eight processes compile and load kernels in one folder, cold in
every tenth round, and kills them at random moments; it fails on a wrong value, on a process that
ends by itself other than well, and on a damaged entry. `soak_cache.py kernels [NUMBER]` compiles
distinct kernels in one process; it fails when machine code outgrows its bound. `soak_cache.py
flushes [NUMBER]` runs flushes of which no two are alike; it fails on a wrong value, and when memory
grows with their number.
"""

import itertools
import os
import random
import shutil
import signal
import sys
import tempfile
import time

import numpy as np
from fresh import own_peak_bytes

import npaccel
from npaccel import this_process
from npaccel.caches.store import Store

PROCESSES = 8

STEPS = (
    lambda v, x: v * x,
    lambda v, x: v + x,
    lambda v, x: v - x,
    lambda v, x: x - v,
    lambda v, x: v / (x + 9.0),
    lambda v, x: np.sqrt(v * v + x),
    lambda v, x: np.minimum(v, 3.0 - x),
    lambda v, x: np.maximum(x, 1.0 - v),
    lambda v, x: v * 0.25 + 1.5,
    lambda v, x: np.where(v > x, v, -x),
)
# Cheap to compile: nothing that may warn. Six in a row are 46,000 different kernels.
SIMPLE = (
    lambda v, x: v * x,
    lambda v, x: v + x,
    lambda v, x: x - v,
    lambda v, x: v & x,
    lambda v, x: v | x,
    lambda v, x: v ^ x,
)
WORK_S = 3.0


def right(chosen, x, data):
    """Whether npaccel's result of these steps is NumPy's."""
    y, want = x, data
    for step in chosen:
        y, want = step(y, x), step(want, data)
    return np.array_equal(npaccel.evaluate(y), want)


def child(seed, ready):
    """Compile and load in the shared folder until killed: 7 after a wrong value."""
    data = np.linspace(0.5, 2.0, 3000)
    x = npaccel.asarray(data)
    rng = np.random.default_rng(seed)
    end = time.monotonic() + WORK_S
    os.write(ready, b".")
    while time.monotonic() < end:
        if not right([STEPS[k] for k in rng.integers(0, len(STEPS), 2)], x, data):
            return 7
    return 0


def fork(call, *args):
    """The id of a child process that runs `call` and ends with what it returns."""
    pid = os.fork()
    if pid == 0:
        try:
            status = call(*args)
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            status = 8
        os._exit(status)
    return pid


def kills(rounds):
    chance = random.Random(3)
    outer = tempfile.mkdtemp(prefix="npaccel-soak-")
    folder = os.path.join(outer, "cache")
    # Children begin as copies of this process, which has imported npaccel and loaded LLVM but
    # computed nothing: a new one would spend its short life on imports.
    npaccel.config.cache_dir, npaccel.config.tiering = folder, "eager"
    npaccel.config.threshold = 0
    this_process.engine.backend("llvm").device  # noqa: B018
    killed = bad = good = 0
    for number in range(rounds):
        if number % 10 == 0:
            shutil.rmtree(folder, ignore_errors=True)
        ready, theirs = os.pipe()
        running = [fork(child, number * PROCESSES + k, theirs) for k in range(PROCESSES)]
        os.read(ready, 1)
        for pid in chance.sample(running, PROCESSES):
            time.sleep(chance.uniform(0.0, 0.15))
            os.kill(pid, signal.SIGKILL)
        os.close(ready)
        os.close(theirs)
        for pid in running:
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            killed += status == -signal.SIGKILL
            if status not in (0, -signal.SIGKILL):
                sys.exit(f"round {number}: a process ended with {status}")
        found = Store(folder, 1 << 30, print).verify()
        good, bad = good + found[0], bad + found[1]
    shutil.rmtree(outer)
    print(
        f"{rounds} rounds, {killed} processes killed; entries found afterwards: {good} good, "
        f"{bad} damaged"
    )
    return bad > 0 or good == 0


def kernels(number):
    npaccel.config.cache, npaccel.config.tiering = "off", "eager"
    npaccel.config.threshold, npaccel.config.code_limit = 0, 4 << 20
    npaccel.config.trace_cache = 64
    data = np.arange(200)
    x = npaccel.asarray(data)
    most = 0
    start = time.perf_counter()
    orders = itertools.chain.from_iterable(
        itertools.product(SIMPLE, repeat=length) for length in itertools.count(1)
    )
    while npaccel.stats()["compiles"] < number:
        if not right(next(orders), x, data):
            sys.exit("a wrong value")
        most = max(most, npaccel.stats()["code_bytes"])
    seconds = time.perf_counter() - start
    print(
        f"{npaccel.stats()['compiles']} kernels in {seconds:.0f} s; machine code took at most "
        f"{most / 2**20:.2f} MiB, bound {npaccel.config.code_limit / 2**20:.0f} MiB; "
        f"peak memory {own_peak_bytes() / 2**20:.0f} MiB"
    )
    # Programs of the trace cache, and the last runs, keep theirs besides.
    return most > npaccel.config.code_limit + 80 * 8192


def folder_bytes(folder):
    return sum(
        os.path.getsize(os.path.join(place, name))
        for place, _, names in os.walk(folder)
        for name in names
    )


def flushes(number):
    """Eight of ten steps in a row: 10^8 of them."""
    folder = tempfile.mkdtemp(prefix="npaccel-soak-")
    npaccel.config.cache_dir, npaccel.config.tiering = folder, "adaptive"
    data = np.arange(40_000) % 1013
    steps = [*SIMPLE, *[lambda v, x, k=k: v * k - x for k in (3, 5, 7, 11)]]
    chance = random.Random(5)
    x = npaccel.asarray(data)
    seen, grown = set(), []
    start = time.perf_counter()
    while len(seen) < number:
        chosen = tuple(chance.choices(range(len(steps)), k=8))
        if chosen in seen:
            continue
        seen.add(chosen)
        y = x
        for k in chosen:
            y = steps[k](y, x)
        npaccel.evaluate(y)
        if len(seen) % max(1, number // 50) == 0:
            grown.append(own_peak_bytes() - sys.getsizeof(seen) - 150 * len(seen))
            if not right([steps[k] for k in chosen], x, data):
                sys.exit("a wrong value")
    seconds, facts = time.perf_counter() - start, npaccel.stats()
    print(
        f"{number} different flushes in {seconds:.0f} s: {facts['traces']} of them kept, "
        f"{facts['compiles']} kernels compiled, {facts['code_bytes'] / 2**20:.2f} MiB of code; on "
        f"disk {folder_bytes(folder) / 2**20:.1f} MiB; peak memory at a tenth of them "
        f"{grown[len(grown) // 10] / 2**20:.0f} MiB, at the end {grown[-1] / 2**20:.0f} MiB"
    )
    shutil.rmtree(folder, ignore_errors=True)
    return grown[-1] > 1.2 * grown[len(grown) // 10] + (16 << 20)


if __name__ == "__main__":
    trials = {"kills": (kills, 200), "kernels": (kernels, 10_000), "flushes": (flushes, 1_000_000)}
    trial = trials[sys.argv[1]]
    sys.exit(trial[0](int(sys.argv[2]) if len(sys.argv) > 2 else trial[1]))
