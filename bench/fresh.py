"""Runs one contender in a fresh process and returns what that process says about itself."""

import json
import mmap
import os
import subprocess
import sys

from harness import ROOT, machine, parse

__all__ = ["each", "own_peak_bytes", "report", "say"]


PAGE_BYTES = 4096
READY_BYTES = 1 << 30


def fetch_memory():
    """Touch and free memory, so that the next process gets pages that the machine really has.

    A virtual machine's host takes memory back that is free for some seconds, and giving it again
    costs more than the first call of most programs. That is no property of the program.
    """
    with mmap.mmap(-1, READY_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        for place in range(0, READY_BYTES, PAGE_BYTES):
            memory[place] = 1


def each(script, names, environment=None):
    """What `python script --child name` said, by name; and the reasons where it failed."""
    answers, skipped = {}, {}
    only = parse(None, 1).only
    for name in names:
        if only and name not in only:
            continue
        fetch_memory()
        done = subprocess.run(
            [sys.executable, script, "--child", name],
            env=os.environ | (environment or {}),
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        if done.returncode == 0:
            answers[name] = json.loads(done.stdout.splitlines()[-1])
        else:
            skipped[name] = (done.stderr.strip() or "no output").splitlines()[-1]
    return answers, skipped


def say(**facts):
    """What a child process reports: one line of JSON, the last it prints."""
    print(json.dumps(facts))


def own_peak_bytes():
    """The most memory this process has had at once (VmHWM; Linux only)."""
    with open("/proc/self/status") as lines:
        fields = dict(line.split(":", 1) for line in lines)
    return int(fields["VmHWM"].split()[0]) * 1024


def report(question, description, results, skipped):
    """Print one row per contender and write .bench/<question>.json."""
    print(f"{question}: {description.strip().splitlines()[0]}")
    for name, facts in results.items():
        print(f"  {name:18} " + "  ".join(f"{key} {value:,.1f}" for key, value in facts.items()))
    for name, reason in skipped.items():
        print(f"  {name:18} left out: {reason}")
    path = ROOT / ".bench" / f"{question}.json"
    path.parent.mkdir(exist_ok=True)
    facts = {
        "question": question,
        "description": description.strip(),
        "machine": machine(),
        "results": results,
        "skipped": skipped,
    }
    path.write_text(json.dumps(facts, indent=1) + "\n")
