"""What npaccel costs where it has nothing to gain: small wrapped arrays, short chains.

Per case, microseconds of NumPy and of npaccel in the same rounds: operations on a wrapped small
array, the operations that follow, forty in a row, and recorded chains of five on growing arrays.
Then plain arrays in an open block: thirty operations, and single calls, with their ratio.
"""

import contextlib
import operator
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


def thirty(x, y):
    for _ in range(6):
        x = np.sqrt((x + y) * 0.5) - y * 0.25
    return x


IN_BLOCK = {
    "a + b": lambda a, b: a + b,
    "a * 2.0": lambda a, b: a * 2.0,
    "np.sin(a)": lambda a, b: np.sin(a),
    "a < b": lambda a, b: a < b,
    "-a": lambda a, b: -a,
    "a += b": operator.iadd,
    "a**2": lambda a, b: a**2,
}


def in_block_cases():
    """(name, call, repeats), of plain arrays."""
    for size in (10, 100, 1000, 10_000, 30_000):
        x, y = (np.random.default_rng(seed).random(size) + 0.5 for seed in (0, 1))
        repeats = max(5, 100_000 // (size + 500))
        yield f"thirty, {size}", lambda x=x, y=y: thirty(x, y), max(3, repeats // 10)
        if size <= 10_000:
            for name, function in IN_BLOCK.items():
                zeros = np.zeros(size)  # what is added in place stays small
                b = zeros if name == "a += b" else y
                yield f"{name}, {size}", lambda f=function, a=x, b=b: f(a, b), repeats


def in_block(na, rounds):
    """(name, microseconds per call as quartiles), outside and in a block in turns."""
    for name, call, repeats in in_block_cases():
        samples = {"numpy": [], "npaccel": []}
        for number in range(-2, rounds):
            for who, place in (("numpy", contextlib.nullcontext()), ("npaccel", na.accelerate())):
                with place:
                    call()
                    begin = time.perf_counter()
                    for _ in range(repeats):
                        call()
                    took = (time.perf_counter() - begin) / repeats * 1e6
                if number >= 0:
                    samples[who].append(took)
        yield f"{name}, in a block", {who: quartiles(times) for who, times in samples.items()}


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
    na.config.threshold = 1 << 18
    print(f"\n{'':24} {'numpy':>9} {'npaccel':>9} {'ratio':>8}   microseconds")
    for name, found in in_block(na, options.rounds):
        rows[name] = found
        times = [found[who]["median_s"] for who in ("numpy", "npaccel")]
        print(f"{name:24} {times[0]:9.3f} {times[1]:9.3f} {times[1] / times[0]:8.2f}", flush=True)
    report = {"question": "small_arrays", "unit": "us", "machine": machine(), "results": rows}
    write(report, options.json or ROOT / ".bench" / "small_arrays.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
