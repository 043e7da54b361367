"""Kernels made wrong in one operation: which does check mode find, and does it name the operation?

    python bench/mutants.py [--mutants 500] [--seed 0] [--backend llvm] [--show]

Each mutant is a short random program and a row of the operation table that is wrong in everything
that compiles it: off by a little, everywhere or where an operand is large; negated; with operands
exchanged; folded by something else. Check mode compares each run. tests/runtime/campaign.py says
how programs and mutants are made, and by which rule one is equivalent, and left out.

The last line is JSON: mutants, equivalent ones, those that were found, and those whose operation
and line were named. Exits with 1 where less than 99 % of those that are not equivalent were found.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections import Counter
from itertools import islice
from pathlib import Path

os.environ.setdefault("NPACCEL_CACHE", "off")
os.environ.setdefault("NPACCEL_TIERING", "eager")

import npaccel

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "runtime"))
import campaign

LEAST = 0.99


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mutants", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--backend", default="llvm")
    parser.add_argument("--show", action="store_true", help="print those that were not found")
    options = parser.parse_args()
    npaccel.config.backend = options.backend
    npaccel.config.threshold = 0
    npaccel.config.check = "compute"
    counts: Counter[str] = Counter()
    folder = tempfile.mkdtemp(prefix="npaccel-mutants-")
    tempfile.tempdir = folder  # for what is written about each difference
    for mutant in islice(campaign.mutants(options.seed), options.mutants):
        verdict = campaign.judge(mutant)
        counts["mutants"] += 1
        counts["equivalent"] += verdict.equivalent
        counts["found"] += verdict.found
        counts["named"] += verdict.named
        if options.show and not (verdict.equivalent or verdict.named):
            what = "named otherwise" if verdict.found else "not found"
            print(f"{mutant.name} {mutant.kind}: {mutant.how}: {what} {verdict.text}", flush=True)
            print(mutant.source, flush=True)
    shutil.rmtree(folder)
    wrong = counts["mutants"] - counts["equivalent"]
    print(
        json.dumps({"bench": "mutants", "backend": options.backend, "seed": options.seed, **counts})
    )
    return 0 if counts["found"] >= LEAST * wrong else 1


if __name__ == "__main__":
    sys.exit(main())
