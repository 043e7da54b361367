"""Someone's own script, whole processes: `npaccel run script` against `python script`.

bench/scripts/ are programs as NumPy users write them. Each runs as `python script`, and under
`npaccel run` in a first process with an empty cache folder, a second and a third with what it
left, by turns. Speeds are NumPy's median wall time over npaccel's, beside them the lowest and
highest of the single rounds; cpu: npaccel's user and system time over NumPy's. What is
printed must agree. The other parts: the start; chains of operations that nobody knows, in a first
process; a loop read now and then; and how many different results a chaotic map has.

    first_script.py --scripts life ising --repeats 5 --processes 2
    first_script.py --parts chains --env NPACCEL_NUM_THREADS=1 --baseline before.json

Beside other programs, `--env OPENBLAS_NUM_THREADS=1` keeps the threads of NumPy's matrix products
from waiting for each other, on both sides.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from pathlib import Path
from typing import Any

from digests import Agreement, compare
from harness import ROOT, machine, write
from whole import PYTHON, Process, accelerated, busy, empty_cache, geometric, process

SCRIPTS = Path(__file__).parent / "scripts"
PROBES = Path(__file__).parent / "probes"
ORDINALS = ("first", "second", "third", "fourth", "fifth")
LOWEST = 0.95
# Elements, and how many chains: about a second of NumPy each.
CHAINS = {
    "plain": ((100_000, 600), (1_000_000, 60), (10_000_000, 6)),
    "functions": ((100_000, 240), (1_000_000, 24), (10_000_000, 4)),
}
# glibc keeps what is freed: half of NumPy's time on large arrays may be pages that it gets anew.
KEPT = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 34)}
COSINE = (1_000_000, 300)
READ_EVERY = (300, 50, 10, 1)
CHAOS = ("300000", "400", "2")
TIERINGS = ("adaptive", "off", "eager")

Row = dict[str, Any]


class Failed(Exception):
    """A process ended with an error; the text is the last that it said."""


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = sorted(path.stem for path in SCRIPTS.glob("*.py"))
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), help="default: all")
    parser.add_argument("--scripts", nargs="+", choices=names, metavar="NAME", default=[])
    parser.add_argument(
        "--only", type=lambda text: text.split(","), help="as --scripts: life,ising"
    )
    parser.add_argument("--repeats", "--rounds", type=int, default=3)
    parser.add_argument("--processes", type=int, default=3, choices=range(1, len(ORDINALS) + 1))
    parser.add_argument("--chaos", type=int, default=20, help="processes of the chaotic map each")
    parser.add_argument("--tiering", choices=TIERINGS, default="adaptive")
    parser.add_argument("--size", type=float, default=1.0, help="of the scripts' work (default 1)")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--baseline", type=Path, help="JSON of an earlier run to compare with")
    parser.add_argument("--json", type=Path, default=ROOT / ".bench" / "first_script.json")
    chosen = parser.parse_args()
    chosen.scripts = [name for name in chosen.scripts + (chosen.only or []) if name in names]
    chosen.parts = chosen.parts or (["scripts"] if chosen.scripts or chosen.only else list(PARTS))
    if not chosen.only:
        chosen.scripts = chosen.scripts or names
    if wrong := [text for text in chosen.env if "=" not in text]:
        parser.error(f"--env: {wrong[0]!r} is not NAME=VALUE")
    return chosen


def environment(chosen: argparse.Namespace) -> dict[str, str]:
    """This process's, without npaccel's settings but for those that were asked for."""
    plain = {k: v for k, v in os.environ.items() if not k.startswith("NPACCEL_")}
    extra = dict(text.split("=", 1) for text in chosen.env)
    return plain | {"NPACCEL_TIERING": chosen.tiering} | extra


def turns(
    script: Path, arguments: list[str], chosen: argparse.Namespace, processes: int
) -> dict[str, list[Process]]:
    """Run python, and npaccel `processes` times with one cache; python's turn moves on."""
    kinds = ORDINALS[:processes]
    found: dict[str, list[Process]] = {"python": [], **{kind: [] for kind in kinds}}
    for number in range(chosen.repeats):
        order = list(kinds)
        order.insert(number % (processes + 1), "python")
        with empty_cache(environment(chosen)) as settings:
            for kind in order:
                start = list(PYTHON) if kind == "python" else accelerated()
                done = process([*start, str(script), *arguments], settings)
                if done.status:
                    raise Failed(f"{kind}: {done.last_error}")
                found[kind].append(done)
    return found


def judged(name: str, found: dict[str, list[Process]]) -> Row:
    """Medians, speeds and processor time against python's, and whether all said the same."""
    plain = found["python"]
    row: Row = {"python_s": median(plain), "python_cpu_s": median(plain, "cpu_s")}
    worst: Agreement | None = None
    for kind, runs in found.items():
        if kind == "python":
            continue
        single = [a.wall_s / b.wall_s for a, b in zip(plain, runs, strict=True)]
        row[kind] = {
            "wall_s": median(runs),
            "walls_s": [run.wall_s for run in runs],
            "speed": median(plain) / median(runs),
            "lowest": min(single),
            "highest": max(single),
            "cpu": median(runs, "cpu_s") / median(plain, "cpu_s"),
        }
        for run in runs:
            agreement = compare(name, plain[0].output, run.output)
            if worst is None or agreement.gap > worst.gap:
                worst = agreement
    row["walls_s"] = [run.wall_s for run in plain]
    row["output"] = str(worst)
    row["ok"] = worst is not None and worst.ok
    row["same_errors"] = all(
        run.errors == plain[0].errors for runs in found.values() for run in runs
    )
    return row


def median(runs: list[Process], what: str = "wall_s") -> float:
    return statistics.median(getattr(run, what) for run in runs)


def told(name: str, row: Row, width: int = 24) -> str:
    if "failed" in row:
        return f"  {name:{width}} {row['failed']}"
    kinds = [kind for kind in ORDINALS if kind in row]
    speeds = "  ".join(
        f"{row[k]['speed']:5.2f} ({row[k]['lowest']:.2f}-{row[k]['highest']:.2f})" for k in kinds
    )
    cpu = " ".join(f"{row[kind]['cpu']:4.2f}" for kind in kinds)
    errors = "" if row.get("same_errors", True) else "  other warnings"
    return (
        f"  {name:{width}} {row['python_s']:5.2f} s  {speeds}  cpu {cpu}  {row['output']}{errors}"
    )


def heading(title: str, chosen: argparse.Namespace, processes: int) -> None:
    kinds = "  ".join(f"{kind:^17}" for kind in ORDINALS[:processes])
    print(f"\n{title:27} python  {kinds}", flush=True)


def measured(
    name: str, script: Path, arguments: list[str], chosen: argparse.Namespace, processes: int
) -> Row:
    try:
        row = judged(name, turns(script, arguments, chosen, processes))
    except Failed as reason:
        # A package that the script needs and is not here is no failure of npaccel's.
        row = {"failed": str(reason), "ok": str(reason).startswith("python")}
    print(told(name, row), flush=True)
    return row


def scripts(chosen: argparse.Namespace) -> Row:
    heading("scripts", chosen, chosen.processes)
    arguments = [] if chosen.size == 1 else [str(chosen.size)]
    return {
        name: measured(name, SCRIPTS / f"{name}.py", arguments, chosen, chosen.processes)
        for name in chosen.scripts
    }


def cosine(chosen: argparse.Namespace) -> Row:
    heading("a loop read every", chosen, min(2, chosen.processes))
    rows = {}
    for every in READ_EVERY:
        arguments = [*map(str, COSINE), str(every)]
        probe = PROBES / "cosine_read.py"
        rows[f"{every} rounds"] = measured(
            f"{every} rounds", probe, arguments, chosen, min(2, chosen.processes)
        )
    return rows


def chains(chosen: argparse.Namespace) -> Row:
    """First processes only. The time is the chains' own, without the start; also NumPy's with
    memory that it keeps, and npaccel's speed against that."""
    print("\nunknown chains, first process: NumPy, npaccel, speed; NumPy with kept memory, speed")
    rows = {}
    for kind, sizes in CHAINS.items():
        for n, count in sizes:
            name = f"{kind} 10^{len(str(n)) - 1}"
            try:
                rows[name] = row = chain_row(name, [str(n), kind, str(count)], chosen)
            except Failed as reason:
                rows[name] = {"failed": str(reason), "ok": False}
                print(f"  {name:24} {reason}", flush=True)
                continue
            print(
                f"  {name:24} {row['python_s']:5.2f} s  {row['first']['wall_s']:5.2f} s  "
                f"{row['first']['speed']:5.2f}  {row['kept_s']:5.2f} s  "
                f"{row['first']['speed_kept']:5.2f}  {row['output']}",
                flush=True,
            )
    return rows


def chain_row(name: str, arguments: list[str], chosen: argparse.Namespace) -> Row:
    found = turns(PROBES / "chains.py", arguments, chosen, 1)
    kept = environment(chosen) | KEPT
    command = [*PYTHON, str(PROBES / "chains.py"), *arguments]
    found["kept"] = [process(command, kept) for _ in range(chosen.repeats)]
    elapsed, said = {}, {}
    for kind, runs in found.items():
        heads, texts = zip(*(run.output.split("\n", 1) for run in runs), strict=True)
        elapsed[kind] = statistics.median(json.loads(head)["elapsed_s"] for head in heads)
        said[kind] = texts
    worst = max((compare(name, said["python"][0], text) for text in said["first"]), key=gap_of)
    first = {
        "wall_s": elapsed["first"],
        "speed": elapsed["python"] / elapsed["first"],
        "speed_kept": elapsed["kept"] / elapsed["first"],
    }
    times = {"python_s": elapsed["python"], "kept_s": elapsed["kept"], "first": first}
    return times | {"output": str(worst), "ok": worst.ok}


def gap_of(agreement: Agreement) -> float:
    return agreement.gap


def start(chosen: argparse.Namespace) -> Row:
    """`npaccel run empty.py` over `python -c 'import numpy'`, first process and later ones."""
    kinds: dict[str, list[float]] = {"numpy": [], "first": [], "later": []}
    for _ in range(max(10, chosen.repeats)):
        with empty_cache(environment(chosen)) as settings:
            for kind, walls in kinds.items():
                command = (
                    [*PYTHON, "-c", "import numpy"]
                    if kind == "numpy"
                    else [*accelerated(), str(PROBES / "empty.py")]
                )
                walls.append(checked(process(command, settings)).wall_s)
    row = {f"{kind}_s": statistics.median(all_s) for kind, all_s in kinds.items()}
    row["over_s"] = row["first_s"] - row["numpy_s"]
    print(
        f"\nstart: python with numpy {row['numpy_s']:.3f} s, npaccel run {row['first_s']:.3f} s "
        f"({row['over_s']:+.3f}), again {row['later_s']:.3f} s",
        flush=True,
    )
    return row | {"ok": True}


def checked(done: Process) -> Process:
    if done.status:
        raise SystemExit(f"start: {done.last_error}")
    return done


def chaos(chosen: argparse.Namespace) -> Row:
    """How many different results a chaotic map has: by tiering, load, and what is in the cache."""
    print(f"\na chaotic map, {chosen.chaos} processes each: different results", flush=True)
    probe = [str(PROBES / "chaotic.py"), *CHAOS]
    plain = process([*PYTHON, *probe], environment(chosen)).output.strip()
    row: Row = {}
    seen: set[str] = set()
    for load in ("idle", "loaded"):
        for tiering in TIERINGS:
            settings = environment(chosen) | {"NPACCEL_TIERING": tiering}
            with busy(len(os.sched_getaffinity(0)) if load == "loaded" else 0):
                cold = [cold_output(probe, settings) for _ in range(chosen.chaos)]
                with empty_cache(settings) as shared:
                    process([*accelerated(), *probe], shared)
                    warm = [output_of(probe, shared) for _ in range(chosen.chaos)]
            row[f"{load} {tiering}"] = {"cold": len(set(cold)), "warm": len(set(warm))}
            seen |= {*cold, *warm}
            print(
                f"  {load:7} {tiering:9} cold {len(set(cold)):3}  warm {len(set(warm)):3}",
                flush=True,
            )
    failed = sorted(text for text in seen if text.startswith("failed"))
    row |= {"all": len(seen), "numpy_among_them": plain in seen, "ok": not failed, "failed": failed}
    print(f"  together {len(seen)}; NumPy's is {'' if plain in seen else 'not '}one of them")
    for text in failed:
        print(f"  {text}")
    return row


def cold_output(probe: list[str], settings: dict[str, str]) -> str:
    with empty_cache(settings) as own:
        return output_of(probe, own)


def output_of(probe: list[str], settings: dict[str, str]) -> str:
    done = process([*accelerated(), *probe], settings)
    return done.output.strip() if done.status == 0 else f"failed: {done.last_error}"


def summary(rows: dict[str, Row], processes: int) -> Row:
    """Geometric means over all scripts, the slowest, and how many are slower than they may be."""
    found = {}
    for kind in ORDINALS[:processes]:
        speeds = {name: row[kind]["speed"] for name, row in rows.items() if kind in row}
        if not speeds:
            continue
        slow = sorted((name for name in speeds if speeds[name] < LOWEST), key=speeds.__getitem__)
        found[kind] = {
            "speed": geometric(list(speeds.values())),
            "cpu": geometric([row[kind]["cpu"] for row in rows.values() if kind in row]),
            "below": slow,
        }
        print(
            f"  {kind} process: geometric mean {found[kind]['speed']:.2f}, cpu "
            f"{found[kind]['cpu']:.2f}; below {LOWEST}: {len(slow)} of {len(speeds)}"
        )
        if slow:
            print("    " + ", ".join(f"{name} {speeds[name]:.2f}" for name in slow))
    return found


def changes(results: Row, earlier: Row) -> None:
    """Each speed now over the one before, where both runs have it."""
    print("\nspeed, before -> now (times)")
    if "start" in results and "start" in earlier:
        print(f"  start: {earlier['start']['over_s']:.3f} -> {results['start']['over_s']:.3f} s")
    for part, rows in results.items():
        before = earlier.get(part, {})
        ratios: dict[str, list[float]] = {}
        for name, row in rows.items():
            if not isinstance(row, dict) or not isinstance(before.get(name), dict):
                continue
            pairs = [
                (kind, before[name][kind]["speed"], row[kind]["speed"])
                for kind in ORDINALS
                if isinstance(row.get(kind), dict) and kind in before[name]
            ]
            for kind, old, new in pairs:
                ratios.setdefault(kind, []).append(new / old)
            text = "  ".join(
                f"{old:5.2f} -> {new:5.2f} ({new / old:4.2f})" for _, old, new in pairs
            )
            if text:
                print(f"  {name:24} {text}")
        for kind, values in ratios.items():
            print(f"  {part}, {kind} process: {geometric(values):.3f} times as fast as before")


PARTS = {"start": start, "scripts": scripts, "chains": chains, "cosine": cosine, "chaos": chaos}


def main() -> int:
    chosen = options()
    print(f"first_script: {__doc__.splitlines()[0]}")
    results: Row = {part: PARTS[part](chosen) for part in chosen.parts}
    report = {
        "question": "first_script",
        "description": __doc__.strip(),
        "machine": machine(),
        "options": {k: str(v) if isinstance(v, Path) else v for k, v in vars(chosen).items()},
        "results": results,
    }
    if "scripts" in results:
        print()
        report["summary"] = summary(results["scripts"], chosen.processes)
    if chosen.baseline:
        changes(results, json.loads(chosen.baseline.read_text())["results"])
    write(report, chosen.json)
    rows = {name: row for part in results.values() for name, row in part.items()}
    wrong = [
        name for name, row in rows.items() if isinstance(row, dict) and not row.get("ok", True)
    ]
    if wrong:
        print(f"WRONG: {', '.join(wrong)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
