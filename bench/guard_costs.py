"""What the guard costs: a touch against the evaluation it triggers, protection, a write to it.

Sizes are of one float64 array. Every operation runs with NumPy's loops here, as a touch does, so
that the difference is the touch alone. Microseconds, medians of many interleaved rounds.
"""

import argparse
import json
import sys
import time

import numpy as np
from harness import ROOT, Skip, machine, quartiles

SIZES_KIB = (256, 1024, 8192, 65536)


def clock(call):
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


class Costs:
    """One size: what each round measures, in seconds."""

    def __init__(self, na, kib):
        self.na = na
        self.source = np.ones(kib << 7)
        self.wrapped = na.asarray(self.source)
        self.samples = {}

    def note(self, what, seconds):
        self.samples.setdefault(what, []).append(seconds)

    def touch_and_call(self):
        """The same evaluation, begun by a touch of a plain alias, and by a call."""
        x = self.wrapped * 2.0
        plain = np.asarray(x)
        self.note("evaluated by a touch", clock(lambda: plain[5]))
        x = self.wrapped * 2.0
        self.note("evaluated by a call", clock(self.na.evaluate))
        self.note("the same in NumPy", clock(lambda: self.source * 2.0))

    def protection(self):
        fresh = np.ones(len(self.source))
        wrapped = self.na.asarray(fresh)
        self.note("recorded, protecting the input", clock(lambda: wrapped * 2.0))
        self.na.evaluate()
        self.note("recorded, it is protected", clock(lambda: wrapped * 2.0))
        self.na.evaluate()
        self.note("a write that opens it", clock(lambda: fresh.__setitem__(len(fresh) // 2, 1.0)))
        self.note("a write when it is open", clock(lambda: fresh.__setitem__(7, 1.0)))


def measure(kib, rounds):
    try:
        import npaccel as na
    except ImportError as reason:
        raise Skip(str(reason)) from None
    na.config.backend = "numpy"
    na.config.threshold = 0
    costs = Costs(na, kib)
    for _ in range(rounds):
        costs.touch_and_call()
        costs.protection()
    return {what: quartiles(samples[2:]) for what, samples in costs.samples.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--only", help="ignored: there is one contender")
    parser.add_argument("--json", help="where the results go")
    options = parser.parse_args()
    print(f"guard_costs: {__doc__.splitlines()[0]}", flush=True)
    found = {}
    for kib in SIZES_KIB:
        try:
            found[kib] = measure(kib, max(5, options.rounds * 256 // max(kib, 256)))
        except Skip as reason:
            print(f"  left out: {reason}")
            return 0
    for what in found[SIZES_KIB[0]]:
        cells = "".join(f"{found[kib][what]['median_s'] * 1e6:12.1f}" for kib in SIZES_KIB)
        print(f"  {what:32}{cells}")
    target = options.json or ROOT / ".bench" / "guard_costs.json"
    report = {"machine": machine(), "results": {str(k): v for k, v in found.items()}}
    with open(target, "w") as file:
        json.dump(report, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
