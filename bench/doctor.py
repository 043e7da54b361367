"""Programs slow for one planted cause: does a profile name it, and what does its remedy gain?

    python bench/doctor.py [--only NAME,...]

Each program has a line `# here`, which one of the doctor's first three sentences has to be about,
with the cause's words; and a second form, as the remedy has it. `about` is the part of the
program's time that the sentence is about, `says` what it says that its remedy saves (-: that it
can't be told), `gained` what that did, all in percent of the first form's time; `sum` what all
lines have of the wall time. Whole processes, less what an empty program takes, the shortest of
some, profiles too; with caches of their own that a run of each form has filled, but where the cause
is compiling. The programs are in planted.py and
planted_programs.py.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from npaccel.observe.doctor import advice
from npaccel.observe.profile import read

sys.path.insert(0, str(Path(__file__).parent))
from planted import CASES, START, Case
from planted_programs import PROGRAMS

SHOWN = 3
WITHIN = 25  # percent of the program's time


def run(words: list[str], folder: Path, environment: dict[str, str]) -> float:
    """Seconds of a process."""
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "npaccel", *words],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return time.perf_counter() - begin


class Found(NamedTuple):
    """place : of the sentence that names it; 0: none. first : what the first one says. Percent."""

    place: int
    first: str
    about: float
    says: float | None
    sum: float
    gained: float = 0.0


def measure(own: Case, rounds: int) -> Found:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:  # the helper may write
        folder = Path(name)
        (folder / "slow.py").write_text(own.slow)
        (folder / "mended.py").write_text(own.mended)
        (folder / "empty.py").write_text(START)
        usual = {key: text for key, text in os.environ.items() if not key.startswith("NPACCEL_")}
        caches = [usual | {"NPACCEL_CACHE_DIR": str(folder / f"cache{k}")} for k in range(2)]
        # At once: on a busy machine a short program ends before the helper has compiled anything.
        for words, cache in [("slow.py", caches[0]), ("mended.py", caches[1])]:
            if not (own.cold and words == "slow.py"):
                run(["run", words], folder, cache | {"NPACCEL_TIERING": "eager"})
        slow, mended, empty, profiles = [], [], [], []
        for number in range(rounds):
            new = [usual | {"NPACCEL_CACHE_DIR": str(folder / f"{w}{number}")} for w in ("n", "m")]
            slow.append(run(["run", "slow.py"], folder, new[0] if own.cold else caches[0]))
            words = ["profile", "--out", f"p{number}", "slow.py"]
            run(words, folder, new[1] if own.cold else caches[0])
            profiles.append(read(folder / f"p{number}"))
            mended.append(run(["run", "mended.py"], folder, caches[1]))
            empty.append(run(["run", "empty.py"], folder, caches[1]))
        profile = min(profiles, key=lambda one: one.wall_s)
        found = advice(profile)
        line = own.slow.splitlines().index(*[r for r in own.slow.splitlines() if "# here" in r]) + 1
        before, after = min(slow) - min(empty), min(mended) - min(empty)
        total = 100 * sum(one.total_s for one in profile.lines) / profile.wall_s
        told = Found(0, found[0].sentence() if found else "nothing", 0.0, None, total)
        for number, one in enumerate(found[:SHOWN], 1):
            if one.site.endswith(f"slow.py:{line}") and own.words in one.sentence():
                says = None if one.gain_s is None else 100 * one.gain_s / profile.wall_s
                told = told._replace(
                    place=number, about=100 * one.seconds / profile.wall_s, says=says
                )
                break
        return told._replace(gained=100 * (1 - after / before))


def main() -> int:
    parser = argparse.ArgumentParser(description="the doctor's sentences, and what they gain")
    parser.add_argument("--only", default="", help="names of cases, with commas")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    named, said, kept, total = 0, 0, 0, 0
    print(f"{'':22}{'place':>6}{'about %':>8}{'says %':>8}{'gained %':>9}{'sum %':>7}")
    for name, own in {**CASES, **PROGRAMS}.items():
        if options.only and name not in options.only.split(","):
            continue
        found = measure(own, options.rounds)
        says = "-" if found.says is None else f"{found.says:.0f}"
        told = "" if found.place else f"  {found.first[:90]}"
        numbers = f"{found.place:6d}{found.about:8.0f}{says:>8}{found.gained:9.0f}{found.sum:7.1f}"
        print(f"{name:22}{numbers}{told}", flush=True)
        total += 1
        named += found.place > 0
        said += found.says is not None
        kept += found.says is not None and abs(found.says - found.gained) <= WITHIN
    print(f"named {named} of {total}; {said} say what is saved, {kept} of them within {WITHIN} %")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
