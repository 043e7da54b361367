"""Runs every benchmark, each in a process of its own; arguments are passed on to each.

Results are in .bench/, one JSON file per question. The exit status is 1 when a result was wrong.
"""

import subprocess
import sys
from pathlib import Path

QUESTIONS = (
    "fused_expression",
    "sincos",
    "black_scholes",
    "gather",
    "jacobi_sweep",
    "jacobi",
    "softmax",
    "column_sums",
    "transposed",
    "asymmetry",
    "short_rows",
    "rms",
    "record_cost",
    "small_arrays",
    "macro",
    "trace_cache",
    "accelerate",
    "two_threads",
    "guard_costs",
    "touched",
    "peak_memory",
    "first_call",
    "opencl",
    "both_sides",
    "peers",
    "first_calls",
    "first_script",
)


def main():
    folder = Path(__file__).parent
    failed = []
    for question in QUESTIONS:
        command = [sys.executable, str(folder / f"{question}.py"), *sys.argv[1:]]
        if subprocess.run(command, check=False).returncode:
            failed.append(question)
        print(flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
