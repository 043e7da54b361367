"""((a - b)**2).mean() over 2**23 doubles: speed, accuracy, and the same bits with any threads.

Errors are against math.fsum, which rounds once. The bits are those of fresh processes with one and
with two threads.
"""

import json
import math
import os
import subprocess
import sys

import numpy as np
from contenders import with_jax, with_npaccel, with_numba, with_numexpr, with_numpy
from harness import ROOT, Bench

N = 2**23
CHUNK = 2**16


def expression(a, b):
    return ((a - b) ** 2).mean()


def make_arrays():
    rng = np.random.default_rng(6)
    return {"a": rng.normal(100.0, 1.0, N), "b": rng.normal(100.0, 1.0, N)}


def exact(a, b):
    """The mean of NumPy's rounded squares, summed without any further rounding."""
    squares = (a - b) ** 2
    parts = (squares[i : i + CHUNK].tolist() for i in range(0, N, CHUNK))
    return math.fsum(value for part in parts for value in part) / N


def makers(arrays):
    return {
        "numpy": with_numpy(expression, arrays),
        "npaccel": with_npaccel(expression, arrays),
        "numexpr": for_numexpr(arrays),
        "numba": with_numba(expression, arrays),
        "jax": with_jax(lambda jax: expression, arrays),
    }


def for_numexpr(arrays):
    def make():
        total = with_numexpr("sum((a - b)**2)", arrays)()
        return lambda: total() / N

    return make


def bits(name, threads):
    """The result as hexadecimal digits, from a fresh process with so many threads."""
    variables = ("NPACCEL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "NUMBA_NUM_THREADS")
    environment = os.environ | dict.fromkeys(variables, str(threads))
    command = [sys.executable, __file__, "--bits", name]
    if name == "jax" and hasattr(os, "sched_setaffinity"):
        command = ["taskset", "-c", ",".join(str(i) for i in range(threads)), *command]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True, timeout=300
    )
    return done.stdout.split()[-1]


def check_bits(names):
    """Results by name and number of threads; False when npaccel's differ."""
    found = {name: {threads: bits(name, threads) for threads in (1, 2)} for name in names}
    for name, by_threads in found.items():
        same = len(set(by_threads.values())) == 1
        print(f"  {name:18} {'the same bits' if same else 'other bits'} with 1 and 2 threads")
    path = ROOT / ".bench" / "rms_bits.json"
    path.write_text(json.dumps(found, indent=1) + "\n")
    return len(set(found.get("npaccel", {1: ""}).values())) == 1


def main():
    arrays = make_arrays()
    if sys.argv[1:2] == ["--bits"]:
        print(float(makers(arrays)[sys.argv[2]]()()).hex())
        return 0
    bench = Bench("rms", __doc__, 2 * arrays["a"].nbytes)
    bench.reference = lambda: exact(**arrays)
    for name, make in makers(arrays).items():
        bench.add(name, make, tolerance=1e-15 if name == "npaccel" else 1e-9)
    status = bench.main()
    ran = [c.name for c in bench.contenders if c.samples_s]
    return status if check_bits(ran) else 1


if __name__ == "__main__":
    sys.exit(main())
