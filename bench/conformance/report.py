"""What the judge's notes say: per module passed and newly failing, each with its reason."""

from __future__ import annotations

import argparse
import datetime
import fnmatch
import json
import os
import platform
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from judge import BAD, HERE, files, outcomes

SLOW = (
    "not judged: passed the run's limit of seconds for one test, since each of very many small "
    "arrays is deferred"
)


def newly_failing(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str]:
    """Tests that are bad after and were not before, to their outcome."""
    return {
        test: outcome
        for test, outcome in sorted(after.items())
        if outcome in BAD and before.get(test) not in BAD
    }


def reason_for(test: str, known: Iterable[Mapping[str, object]]) -> str:
    """The known reason of a test id, or ""."""
    name = test.removeprefix("numpy/").replace("[", "?")
    for entry in known:
        patterns = entry["tests"]
        assert isinstance(patterns, list)
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns):
            return str(entry["reason"])
    return ""


def load_known() -> list[Mapping[str, object]]:
    known = tomllib.loads((HERE / "known.toml").read_text())["known"]
    assert isinstance(known, list)
    return known


def ended(notes: Path) -> list[dict[str, Any]]:
    """What the runs of one file noted at their ends."""
    lines = notes.read_text().splitlines() if notes.exists() else []
    return [json.loads(line) for line in lines if '"ended": ' in line]


def failures(folder: Path, mode: str) -> tuple[list[str], list[tuple[str, str, str]]]:
    """Rows of the table of files; test, outcome and reason of what newly fails."""
    rows, failing, known = [], [], load_known()
    for notes in sorted((folder / mode).glob("*.jsonl")):
        before = outcomes(folder / "plain" / notes.name)
        after = outcomes(notes)
        floor = outcomes(folder / "subclass" / notes.name)
        new = newly_failing(before, after) if before else {}
        # Of a run that was stopped, only what it reached; it says so.
        cut = "" if ended(notes) and len(after) >= len(before) else ", stopped early"
        passed = Counter(after.values())["passed"]
        least = len(newly_failing(before, floor)) if floor else "not run"
        name = notes.stem.removesuffix(".py").replace(".tests.", "/")
        rows.append(f"| {name}{cut} | {passed} | {least} | {len(new)} |")
        failing += [
            (test, outcome, SLOW if outcome == "slow" else reason_for(test, known))
            for test, outcome in new.items()
        ]
    return rows, failing


def by_reason(failing: Iterable[tuple[str, str, str]]) -> list[str]:
    """Failing tests under their reasons; parameters of one test on one line."""
    lines = []
    grouped: dict[str, Counter[str]] = {}
    for test, outcome, reason in failing:
        name = test.removeprefix("numpy/").partition("[")[0]
        name = f"`{name}`" + (f" {outcome}" if outcome == "crashed" else "")
        grouped.setdefault(reason or "NO REASON", Counter())[name] += 1
    for reason, tests in sorted(grouped.items()):
        lines += ["", f"**{reason}**", ""]
        lines += [f"- {name}" + (f" ({n} times)" if n > 1 else "") for name, n in tests.items()]
    return lines


# Why a plan leaves requests to NumPy's loops though the operation has kernels for other dtypes.
NO_KERNEL = ("has no scalar form for", "has no fold for", "complex iota")


def shares(folder: Path, mode: str) -> list[str]:
    """Per operation and dtypes that were not all run by kernels: how many requests, and why."""
    counts: dict[tuple[str, str], list[int]] = {}
    why: dict[tuple[str, str], Counter[str]] = {}
    for notes in (folder / mode).glob("*.jsonl"):
        for end in ended(notes):
            for name, types, *numbers in end["operations"]:
                sums = counts.setdefault((name, types), [0, 0, 0])
                sums[:] = [a + b for a, b in zip(sums, numbers, strict=True)]
            for name, types, reason, _ in end["loops"]:
                why.setdefault((name, types), Counter())[reason] += 1
    total, planned, unplanned = (sum(sums[k] for sums in counts.values()) for k in range(3))
    if not total:
        return []
    lines = [
        f"Of {total} requests NumPy's loops ran {planned} because a plan said so and {unplanned}",
        "because a value was read through its pointer before anything was planned; kernels ran the",
        f"other {100 * (1 - (planned + unplanned) / total):.2f} %, but for dead ones. "
        f"Of {len(counts)} operations, dtypes counted, kernels ran all requests of",
        f"{sum(not any(sums[1:]) for sums in counts.values())}.",
        "",
        "Left to loops by plans (several rows of one operation and reason are one):",
        "",
        "| operation | dtypes | requests | by loops | why |",
        "|---|---|---|---|---|",
    ]
    rows: dict[tuple[str, str], list[Any]] = {}
    for (name, types), (requests, looped, _) in sorted(counts.items()):
        if looped:
            reasons = why.get((name, types), Counter({"found compiled on disk": 1}))
            reason = "; ".join(sorted({_short(reason) for reason in reasons}))
            row = rows.setdefault((name, reason), [[], 0, 0])
            row[0].append(types.replace(" ", "."))
            row[1] += requests
            row[2] += looped
    for (name, reason), (types, requests, looped) in rows.items():
        lines.append(f"| {name} | {', '.join(types)} | {requests} | {looped} | {reason} |")
    return lines


def _short(reason: str) -> str:
    return "no kernel for these dtypes" if any(text in reason for text in NO_KERNEL) else reason


def report(folder: Path, mode: str) -> tuple[str, int]:
    """The page in Markdown for what was run in `mode`, and how many failures have no reason."""
    rows, failing = failures(folder, mode)
    ends = [end for notes in (folder / mode).glob("*.jsonl") for end in ended(notes)]
    versions = {f"{k} {v}" for end in ends for k, v in end["ended"].items()}
    settings = {f"{k} {v}" for end in ends for k, v in end.get("settings", {}).items()}
    names = {notes.name for notes in (folder / mode).glob("*.jsonl")}
    left = [name for name in files([]) if name.replace("/", ".") + ".jsonl" not in names]
    text = (HERE / "page.md").read_text()
    text = text.replace(
        "@run@",
        f"{datetime.date.today()}; {', '.join(sorted(versions))}; {', '.join(sorted(settings))}; "
        f"{os.cpu_count()} cores, {platform.machine()}.",
    )
    text = text.replace("@files@", "\n".join(rows))
    numbers = [
        [int(cell) for cell in row.split("|")[2:-1] if cell.strip().isdigit()] for row in rows
    ]
    text = text.replace("@passed@", str(sum(row[0] for row in numbers)))
    text = text.replace("@floor@", str(sum(row[1] for row in numbers if len(row) > 2)))
    text = text.replace("@new@", str(len(failing)))
    text = text.replace("@left@", ", ".join(f"`{name}`" for name in left) or "none")
    text = text.replace("@failures@", "\n".join(by_reason(failing)).strip() or "None.")
    text = text.replace("@shares@", "\n".join(shares(folder, mode)) or "Not counted.")
    return text, sum(not reason for *_, reason in failing)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(".conformance"))
    parser.add_argument("--mode", default="npaccel")
    parser.add_argument("--page", type=Path, help="write it there; else it is printed")
    options = parser.parse_args()
    text, unexplained = report(options.out, options.mode)
    if options.page is None:
        print(text)
    else:
        options.page.write_text(text)
    print(f"{unexplained} without a reason")
    return 1 if unexplained else 0


if __name__ == "__main__":
    raise SystemExit(main())
