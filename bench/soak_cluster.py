"""A worker of a cluster is killed at a random moment: is what comes right, or an error?

    python bench/soak_cluster.py [--runs 50] [--workers 3] [--checkpoints] [--disk] [--stop]

Each run is a process that computes on a cluster until a thread has killed one of the workers, and
goes on for some rounds. It ends with the right sum, with the error that says what is lost, or,
where lost memory is read through its address, with the line that says so. What else it may do is
wrong, or hangs. With `--checkpoints` it takes some, and should end with the right sum; with
`--disk` these are on disk. With `--stop` the worker is stopped and does not end. What a worker is
whose packets are all lost from a moment on:

    python bench/namespaces.py --cut 4 -- python bench/soak_cluster.py --one 1 --address {address}
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np

PATIENCE_S = 60
TICK_S = 0.5
ROUNDS = 6  # at least, and after the kill


def processes(parent: int) -> list[int]:
    """Worker processes below this one."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text().rpartition(")")[2].split()
            command = (folder / "cmdline").read_text()
        except OSError:
            continue
        if int(stat[1]) == parent:
            found += [int(folder.name)] if "spawn_main" in command else []
            found += processes(int(folder.name))
    return found


def steps(x: np.ndarray, rounds: int) -> np.ndarray:
    for _ in range(rounds):
        y = x * 0.5 + 0.25
        y[1:] += x[:-1] * 0.125
        x = y
    return x


def run(seed: int, where: int | str, checkpoints: bool, stop: bool, folder: str | None) -> None:
    """One process of it. where : an address is that of workers of which one is cut off."""
    import threading

    import npaccel

    faulthandler.register(signal.SIGUSR1)
    chosen = random.Random(seed)
    values = np.random.default_rng(seed).random((600, 400))
    killed = threading.Event()
    with npaccel.Cluster(where) as cluster:
        victim = 0
        if isinstance(where, int):
            victim = chosen.choice(processes(cluster._process.pid))
            moment = chosen.uniform(0.0, 2.5)

            def kill() -> None:
                os.kill(victim, signal.SIGSTOP if stop else signal.SIGKILL)
                killed.set()

            threading.Timer(moment, kill).start()
        rounds = after = kept = 0
        try:
            x = npaccel.asarray(values.copy(), device=cluster)
            if checkpoints:
                npaccel.evaluate(x * 1.0)  # it is there
            while rounds < ROUNDS or (victim and after < ROUNDS):
                if checkpoints and rounds % 2 == 0:
                    npaccel.checkpoint(x, to=folder)
                    kept += 1
                x = npaccel.evaluate(steps(x, 10))
                time.sleep(chosen.uniform(0.0, 0.05) if victim else 1.0)
                rounds, after = rounds + 1, after + killed.is_set()
            expected = steps(values, 10 * rounds)
            right = float(x[-1, -1]) == float(expected[-1, -1])
            right &= x.tobytes() == expected.tobytes()
            print("right" if right else "WRONG")
        except (RuntimeError, npaccel.BackendUnavailable) as error:
            told = "alone" in str(error) or "is gone with the worker" in str(error)
            early = " before the first checkpoint" if checkpoints and not kept else ""
            print(f"error{early}" if told else f"WRONG {error}")
        x = None
        if stop and victim:
            with suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--first", type=int, default=0, help="seed")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--one", type=int, help="this seed, in this process")
    parser.add_argument("--address", help="of workers of which the network takes one")
    parser.add_argument("--checkpoints", action="store_true")
    parser.add_argument("--disk", action="store_true", help="checkpoints on disk")
    parser.add_argument("--stop", action="store_true")
    options = parser.parse_args()
    if options.one is not None:
        where = options.address or options.workers
        with tempfile.TemporaryDirectory() as folder:
            to = f"{folder}/kept" if options.disk else None
            run(options.one, where, options.checkpoints or options.disk, options.stop, to)
        return
    ways = ["--checkpoints"] * options.checkpoints + ["--stop"] * options.stop
    ways += ["--disk"] * options.disk
    found: Counter[str] = Counter()
    for seed in range(options.first, options.first + options.runs):
        command = [sys.executable, __file__, "--one", str(seed), "--workers", str(options.workers)]
        command += ways
        code, said, errors = ended(command)
        told = said.strip() or ("lost" if "was lost" in errors else "WRONG")
        told = told if code is not None else "HUNG"
        found[told] += 1
        if not told.startswith(("right", "error", "lost")):
            print(f"seed {seed}: {told} {code}\n{errors[-4000:]}", flush=True)
    print(dict(found))


def ended(command: list[str]) -> tuple[int | None, str, str]:
    """Its code, and what it said. None: it does not end; counted in ticks, since others may stop
    all processes. Where it waits then is among what it says."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        for tick in range(int(PATIENCE_S / TICK_S) + 4):
            try:
                said, errors = process.communicate(timeout=TICK_S)
                return process.returncode, said, errors
            except subprocess.TimeoutExpired:
                if tick == int(PATIENCE_S / TICK_S):
                    process.send_signal(signal.SIGUSR1)
        process.kill()
        return None, *process.communicate()


if __name__ == "__main__":
    main()
