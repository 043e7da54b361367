"""Does `auto` choose the best backend? Each program with each fixed one, and then with `auto`.

The programs of array_programs.py in `npaccel.accelerate()`, in a process each: on `llvm`, on
`opencl` and with NumPy's loops, some calls each, so that all of them are measured; then calls in
turn with `auto` among them. Medians in milliseconds, the choice's as a multiple of the best, and
what ran its kernels.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

BACKENDS = ("numpy", "llvm", "opencl", "auto")
WARM, CALLS = 10, 7


def child(path: Path) -> None:
    import numpy as np
    from array_programs import accelerated, warm_up

    import npaccel
    from npaccel.demo import load

    np.seterr(all="ignore")
    module = load(path)
    arrays = module.inputs()
    for backend in BACKENDS:
        with npaccel.backend(backend):
            accelerated(module.main, arrays)
            warm_up(module.main, arrays)
            # `auto` looks at a program after a quarter of a second.
            end = time.perf_counter() + (4.0 if backend == "auto" else 0.0)
            for _ in range(WARM):
                accelerated(module.main, arrays)
            while time.perf_counter() < end:
                accelerated(module.main, arrays)
    times: dict[str, list[float]] = {backend: [] for backend in BACKENDS}
    ran: Counter[str] = Counter()
    for turn in range(CALLS):
        for backend in np.roll(BACKENDS, turn):
            with npaccel.backend(str(backend)):
                npaccel.stats(reset=True)
                start = time.perf_counter()
                accelerated(module.main, arrays)
                times[backend].append(time.perf_counter() - start)
                if backend == "auto":
                    ran.update(npaccel.stats()["kernels_by_backend"])
    medians = {name: 1e3 * statistics.median(taken) for name, taken in times.items()}
    print(json.dumps(medians | {"ran": {k: v // CALLS for k, v in ran.items()}}))


def main() -> int:
    if sys.argv[1:2] == ["--child"]:
        child(Path(sys.argv[2]))
        return 0
    from array_programs import PROGRAMS

    print(f"{'program':16}" + "".join(f"{name:>9}" for name in BACKENDS) + "  auto / best")
    for path in (path for folder in PROGRAMS for path in sorted(folder.glob("*.py"))):
        if sys.argv[1:] and path.stem not in sys.argv[1:]:
            continue
        done = subprocess.run(
            [sys.executable, __file__, "--child", str(path)],
            env=os.environ | {"NPACCEL_TIERING": "adaptive"},
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        if done.returncode != 0:
            print(f"{path.stem:16} {done.stderr.strip().splitlines()[-1:]}", flush=True)
            continue
        found = json.loads(done.stdout.splitlines()[-1])
        best = min(found[name] for name in BACKENDS[:-1])
        cells = "".join(f"{found[name]:9.1f}" for name in BACKENDS)
        print(f"{path.stem:16}{cells}{found['auto'] / best:13.2f}  {found['ran']}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
