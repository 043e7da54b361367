"""What npaccel costs where it has nothing to gain: small wrapped arrays, short chains.

Per case, microseconds of NumPy and of npaccel in the same rounds: operations on a wrapped small
array, the operations that follow, forty in a row, and recorded chains of five on growing arrays.
"""

import sys
import time

import numpy as np
from harness import ROOT, machine, parse, quartiles, write

SINGLE = {
    "x + 1": lambda x: x + 1.0,
    "x * x": lambda x: x * x,
    "x > 0.5": lambda x: x > 0.5,
    "sqrt(x)": np.sqrt,
    "x.sum()": lambda x: x.sum(),
    "np.sum(x)": np.sum,
    "concatenate": lambda x: np.concatenate((x, x)),
    "x[3]": lambda x: x[3],
    "x[1:]": lambda x: x[1:],
}


def forty(x):
    for _ in range(10):
        x = np.sqrt(x * 1.01 + 0.5) - 0.1
    return x


def five(x, y):
    return np.sqrt(x * y + 1.0) - x * 0.5


def interleaved(calls, rounds, repeats):
    """Microseconds per call: the quartiles of `rounds`, in which all calls take turns."""
    samples = {name: [] for name in calls}
    for number in range(-2, rounds):
        for name, call in calls.items():
            begin = time.perf_counter()
            for _ in range(repeats):
                call()
            if number >= 0:
                samples[name].append((time.perf_counter() - begin) / repeats * 1e6)
    return {name: quartiles(values) for name, values in samples.items()}


def cases(na):
    """(name, NumPy's call, npaccel's call, repeats)"""
    for size in (10, 100, 1000, 10_000):
        x = np.random.default_rng(0).random(size) + 0.5
        wrapped = na.asarray(x)
        for name, function in SINGLE.items():
            calls = [lambda f=function, a=a: f(a) for a in (x, wrapped)]
            yield f"{name}, first, {size}", *calls, max(20, 200_000 // (size + 1000))
        follows = wrapped + 0.0  # plain: what follows is NumPy's own
        yield f"x + 1, following, {size}", lambda a=x: a + 1.0, lambda a=follows: a + 1.0, 100
    x = np.random.default_rng(0).random(1000) + 1.0
    yield "forty, 1000", lambda: forty(x), lambda: forty(na.asarray(x)), 20
    for power in range(12, 20):
        size = 1 << power
        x, y = (np.random.default_rng(seed).random(size) for seed in (0, 1))
        a, b = na.asarray(x), na.asarray(y)
        repeats = max(3, (1 << 17) // size)

        def recorded(a=a, b=b):
            na.evaluate(five(a, b))

        yield f"chain of five, {size}", lambda x=x, y=y: five(x, y), recorded, repeats


def main():
    options = parse(None, 15)
    import npaccel as na

    rows = {}
    na.config.threshold = 1 << 15  # or the shorter chains would be NumPy's
    print(f"{'':24} {'numpy':>9} {'npaccel':>9} {'more':>8}   microseconds")
    for name, plain, wrapped, repeats in cases(na):
        short = "chain" not in name
        na.config.threshold = 1 << 18 if short else 1 << 15
        found = interleaved({"numpy": plain, "npaccel": wrapped}, options.rounds, repeats)
        rows[name] = found
        times = [found[who]["median_s"] for who in ("numpy", "npaccel")]
        print(f"{name:24} {times[0]:9.3f} {times[1]:9.3f} {times[1] - times[0]:8.3f}", flush=True)
    report = {"question": "small_arrays", "unit": "us", "machine": machine(), "results": rows}
    write(report, options.json or ROOT / ".bench" / "small_arrays.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
