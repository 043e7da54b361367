"""A program's first seconds: import, first call, later calls, in a fresh process.

The expression is (a*2 + b)*c - a/3 over a million doubles. npaccel runs twice: with an empty cache
folder, and with the one that the first run left.
"""

import os
import statistics
import sys
import tempfile
import time

import numpy as np
from fresh import each, report, say
from fused_expression import expression

N = 1_000_000
NAMES = ("numpy", "npaccel", "numexpr", "numba", "jax")


def child(name):
    # contenders.py imports each package when its call is made, so that is part of the time.
    from contenders import with_jax, with_npaccel, with_numba, with_numexpr, with_numpy

    rng = np.random.default_rng(8)
    arrays = {key: rng.normal(size=N) for key in "abc"}
    make = {
        "numpy": lambda: with_numpy(expression, arrays),
        "npaccel": lambda: with_npaccel(expression, arrays),
        "numexpr": lambda: with_numexpr("(a*2 + b)*c - a/3", arrays),
        "numba": lambda: with_numba(expression, arrays),
        "jax": lambda: with_jax(lambda jax: expression, arrays),
    }[name]()
    start = time.perf_counter()
    call = make()
    ready = time.perf_counter()
    call()
    first = time.perf_counter()
    later = []
    for _ in range(30):
        begin = time.perf_counter()
        call()
        later.append(time.perf_counter() - begin)
    say(
        import_ms=(ready - start) * 1e3,
        first_ms=(first - ready) * 1e3,
        second_ms=later[0] * 1e3,
        steady_ms=statistics.median(later[10:]) * 1e3,
    )
    return 0


def main():
    if sys.argv[1:2] == ["--child"]:
        return child(sys.argv[2])
    with tempfile.TemporaryDirectory(prefix="npaccel-bench-") as folder:
        cache = {"XDG_CACHE_HOME": os.path.join(folder, "cache")}
        results, skipped = each(__file__, NAMES, cache)
        again, _ = each(__file__, ["npaccel"], cache)
    results |= {f"{name} (again)": facts for name, facts in again.items()}
    report("first_call", __doc__, results, skipped)
    return 0


if __name__ == "__main__":
    sys.exit(main())
