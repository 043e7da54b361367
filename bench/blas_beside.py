"""What a product of a matrix and a vector takes alone, and beside a busy process.

    python bench/blas_beside.py [--seconds 2]

The process has the priority of the helper that compiles. Mean and median, ms: where BLAS's threads
wait for one that has no processor, few calls take some milliseconds.
"""

import argparse
import statistics
import subprocess
import sys
import time

import numpy as np

from npaccel.runtime.helper.worker import LENT_PRIORITY

BUSY = f"import os\nos.nice({LENT_PRIORITY})\nwhile True: pass"
BETWEEN_S = 1e-4


def times(product, seconds):
    found, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        begin = time.perf_counter()
        product()
        found.append(time.perf_counter() - begin)
        again = time.perf_counter() + BETWEEN_S
        while time.perf_counter() < again:
            pass
    return 1e3 * statistics.mean(found), 1e3 * statistics.median(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=2)
    options = parser.parse_args()
    matrix = np.random.default_rng(0).normal(size=(40_000, 12))
    column, row = np.ones(12), np.ones(40_000)
    for name, product in (
        ("40,000 x 12 by a column", lambda: matrix @ column),
        ("its transpose by a column", lambda: matrix.T @ row),
    ):
        alone = times(product, options.seconds)
        busy = subprocess.Popen([sys.executable, "-c", BUSY])
        time.sleep(0.3)
        beside = times(product, options.seconds)
        busy.kill()
        busy.wait()
        print(
            f"{name:26} alone {alone[0]:.3f} ({alone[1]:.3f})   beside {beside[0]:.3f} "
            f"({beside[1]:.3f})   {beside[0] / alone[0]:.1f} times"
        )


if __name__ == "__main__":
    main()
