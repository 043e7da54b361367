"""Which programs are better left to NumPy's loops, and does `adaptive` leave them?

Each program of array_programs.py three times in `npaccel.accelerate()`: with NumPy's loops alone
(tiering "off"), with kernels throughout ("eager"), and as npaccel chooses ("adaptive").
Medians of calls in turn, each setting a process of its own; milliseconds, and the choice's time
as a multiple of the better of the other two.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

SETTINGS = ("off", "eager", "adaptive")
ROUNDS = 2
CALLS = 7


def child(path: Path) -> None:
    import numpy as np
    from array_programs import accelerated, warm_up

    from npaccel.demo import load

    np.seterr(all="ignore")
    module = load(path)
    arrays = module.inputs()
    accelerated(module.main, arrays)
    if os.environ["NPACCEL_TIERING"] == "adaptive":
        warm_up(module.main, arrays)
    for _ in range(10):  # kernels that lose are given up after eight runs
        accelerated(module.main, arrays)
    times = []
    for _ in range(CALLS):
        start = time.perf_counter()
        accelerated(module.main, arrays)
        times.append(time.perf_counter() - start)
    print(json.dumps(statistics.median(times) * 1e3))


def main() -> int:
    if sys.argv[1:2] == ["--child"]:
        child(Path(sys.argv[2]))
        return 0
    from array_programs import PROGRAMS

    for path in (path for folder in PROGRAMS for path in sorted(folder.glob("*.py"))):
        if sys.argv[1:] and path.stem not in sys.argv[1:]:
            continue
        found: dict[str, list[float]] = {setting: [] for setting in SETTINGS}
        for _ in range(ROUNDS):
            for setting in SETTINGS:
                done = subprocess.run(
                    [sys.executable, __file__, "--child", str(path)],
                    env=os.environ | {"NPACCEL_TIERING": setting},
                    capture_output=True,
                    text=True,
                    check=False,
                    timeout=300,
                )
                if done.returncode == 0:
                    found[setting].append(json.loads(done.stdout.splitlines()[-1]))
        if all(found.values()):
            loops, kernels, chosen = (min(found[setting]) for setting in SETTINGS)
            print(
                f"{path.stem:16} loops {loops:8.1f}  kernels {kernels:8.1f}  "
                f"chosen {chosen:8.1f}  {chosen / min(loops, kernels):5.2f}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
