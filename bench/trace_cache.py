"""What the second time costs: recording and running what is known, new sizes, scalars, loops.

Every row is a loop after its first round; `planned` and `compiled` count what the loop had to plan
and compile, and must stay near nothing however long it is.
"""

import sys
import time

import numpy as np
from harness import ROOT, machine, parse, write

N = 40_000
ROUNDS = 1000


def chain(x, k):
    for _ in range(k):
        x = x + 1
    return x


def five(x, y):
    return np.sqrt(x * y + 1.0) - x * 0.5


def step(period):
    """A loop's body of `period` operations, each on a line of its own."""
    lines = ["def body(x, y):"]
    lines += [f"    {'xy'[i % 2]} = {'xy'[i % 3 == 0]} * {1 + i / 1000}" for i in range(period)]
    scope = {}
    exec("\n".join([*lines, "    return x, y"]), scope)
    return scope["body"]


class Table:
    """Times loops and counts what they planned."""

    def __init__(self, na):
        self.na = na
        self.rows = {}

    def row(self, name, body, rounds, operations=1, numpy=None):
        """`body(i)` for each round; per operation if a round has several."""
        na = self.na
        for i in range(-3, 0):
            body(i)
        na.stats(reset=True)
        mine, theirs = [], []
        for i in range(rounds):
            begin = time.perf_counter()
            body(i)
            mine.append(time.perf_counter() - begin)
            if numpy is not None:
                begin = time.perf_counter()
                numpy(i)
                theirs.append(time.perf_counter() - begin)
        counts = na.stats()
        self.rows[name] = found = {
            "us": float(np.median(mine)) / operations * 1e6,
            "numpy_us": float(np.median(theirs)) / operations * 1e6 if theirs else None,
            "planned": counts["plan_misses"],
            "moved": counts["plans_moved"],
            "compiled": counts["compiles"],
        }
        beside = f"numpy {found['numpy_us']:8.2f}" if theirs else " " * 14
        print(
            f"{name:38} {found['us']:9.2f} us   {beside}   planned {found['planned']:4}"
            f"   moved {found['moved']:5}   compiled {found['compiled']}",
            flush=True,
        )


def main():
    options = parse(None, 1)
    import npaccel as na

    table = Table(na)
    # Bytes, so that 65536 elements are little work: what is left is ours.
    na.config.threshold = 1 << 16
    small = na.asarray(np.zeros(1 << 16, "u1"))
    for k in (1, 10, 40, 400):
        table.row(f"known chain of {k}, per operation", lambda i, k=k: na.evaluate(chain(small, k)),
                  200, k)  # fmt: skip
    na.config.threshold = 1 << 18
    x, y = (np.random.default_rng(seed).random(N + 3 * ROUNDS) for seed in (0, 1))
    a, b = na.asarray(x), na.asarray(y)
    plain = (x, y)

    def windows(arrays, n, at):
        return [array[at : at + n] for array in arrays]

    for name, size, at in (
        ("five on the same size", lambda i: N, lambda i: 0),
        ("five on growing arrays", lambda i: N + i, lambda i: 0),
        ("five on moving windows", lambda i: N, lambda i: i + 3),
    ):
        table.row(
            name,
            lambda i, size=size, at=at: na.evaluate(five(*windows((a, b), size(i), at(i)))),
            ROUNDS,
            numpy=lambda i, size=size, at=at: five(*windows(plain, size(i), at(i))),
        )
    table.row("new scalars", lambda i: na.evaluate(a * (i + 0.5) / (i + 7.25)), ROUNDS,
              numpy=lambda i: x * (i + 0.5) / (i + 7.25))  # fmt: skip
    na.config.queue_limit = 1000
    for period in (37, 369):
        body = step(period)
        state = [a, b]

        def rounds(i, body=body, state=state):
            state[:] = body(*state)

        table.row(f"loop of {period}, limit 1000, per operation", rounds, 5000 // period, period)
        na.evaluate()
    report = {"question": "trace_cache", "machine": machine(), "results": table.rows}
    write(report, options.json or ROOT / ".bench" / "trace_cache.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
