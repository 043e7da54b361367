"""Trials of the program cache: processes that are killed, and very many kernels.

`soak_cache.py kills [ROUNDS]` lets eight processes compile and load kernels in one folder, cold in
every tenth round, and kills them at random moments; it fails on a wrong value, on a process that
ends by itself other than well, and on a damaged entry. `soak_cache.py kernels [NUMBER]` compiles
distinct kernels in one process; it fails when machine code outgrows its bound.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PROCESSES = 8

CHILD = """
import sys, time
import numpy as np
import npaccel
npaccel.config.threshold = 0
data = np.linspace(0.5, 2.0, 3000)
x = npaccel.asarray(data)
rng = np.random.default_rng(int(sys.argv[1]))
steps = [lambda v: v * 2.0, lambda v: v + 1.5, lambda v: v - v * v, lambda v: 1.0 / (v + 9.0)]
end = time.monotonic() + 3
print("ready", flush=True)
while time.monotonic() < end:
    y, want = x, data
    for k in rng.integers(0, len(steps), rng.integers(1, 5)):
        y, want = steps[k](y), steps[k](want)
    if not np.array_equal(npaccel.evaluate(y), want):
        sys.exit(7)
    npaccel.stats()
"""


def kills(rounds):
    from npaccel.caches.store import Store

    chance = random.Random(3)
    outer = tempfile.mkdtemp(prefix="npaccel-soak-")
    folder = os.path.join(outer, "cache")
    killed = bad = 0
    for number in range(rounds):
        if number % 10 == 0:
            shutil.rmtree(folder, ignore_errors=True)
        setting = {"NPACCEL_CACHE_DIR": folder, "NPACCEL_TIERING": "eager"}
        running = [
            subprocess.Popen(
                [sys.executable, "-c", CHILD, str(number * PROCESSES + k)],
                env=os.environ | setting,
                stdout=subprocess.PIPE,
            )
            for k in range(PROCESSES)
        ]
        running[-1].stdout.readline()
        for child in running:
            time.sleep(chance.uniform(0.0, 0.15))
            child.kill()
        for child in running:
            status = child.wait()
            child.stdout.close()
            killed += status == -signal.SIGKILL
            if status not in (0, -signal.SIGKILL):
                sys.exit(f"round {number}: a process ended with {status}")
        bad += Store(folder, 1 << 30, print).verify()[1]
    shutil.rmtree(outer)
    print(f"{rounds} rounds, {killed} processes killed, {bad} damaged entries found afterwards")
    return bad > 0


def kernels(number):
    os.environ |= {"NPACCEL_TIERING": "eager", "NPACCEL_CACHE": "off", "NPACCEL_THRESHOLD": "0"}
    os.environ |= {"NPACCEL_CODE_LIMIT": str(4 << 20), "NPACCEL_TRACE_CACHE": "64"}
    import numpy as np

    import npaccel

    data = np.linspace(0.5, 2.0, 200)
    x = npaccel.asarray(data)
    most = 0
    start = time.perf_counter()
    for i in range(number):
        y, want = x, data
        for bit in range(number.bit_length()):
            y, want = (y * 2.0, want * 2.0) if i >> bit & 1 else (y + 1.0, want + 1.0)
        if not np.array_equal(npaccel.evaluate(y), want):
            sys.exit("a wrong value")
        most = max(most, npaccel.stats()["code_bytes"])
    counts = npaccel.stats()
    seconds = time.perf_counter() - start
    print(
        f"{counts['compiles']} kernels in {seconds:.0f} s; machine code took at most "
        f"{most / 2**20:.2f} MiB, bound {npaccel.config.code_limit / 2**20:.0f} MiB"
    )
    # Programs of the trace cache, and the last runs, keep theirs besides.
    return counts["compiles"] < number or most > npaccel.config.code_limit + 80 * 8192


if __name__ == "__main__":
    trial = {"kills": (kills, 200), "kernels": (kernels, 10_000)}[sys.argv[1]]
    sys.exit(trial[0](int(sys.argv[2]) if len(sys.argv) > 2 else trial[1]))
