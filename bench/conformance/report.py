"""What the judge's notes say: per module passed and newly failing, each with its reason."""

from __future__ import annotations

import argparse
import fnmatch
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from judge import HERE, outcomes

BAD = ("failed", "crashed")


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


def report(folder: Path, mode: str) -> tuple[str, int]:
    """A page in Markdown for what was run in `mode` and plainly, and how many have no reason."""
    rows, failing, known = [], [], load_known()
    for notes in sorted((folder / mode).glob("*.jsonl")):
        before = outcomes(folder / "plain" / notes.name)
        after = outcomes(notes)
        # Of a run that was stopped, only what it reached.
        new = newly_failing(before, after) if before else {}
        counts = Counter(after.values())
        rows.append(f"| {notes.stem.removesuffix('.py')} | {counts['passed']} | {len(new)} |")
        failing += [(test, outcome, reason_for(test, known)) for test, outcome in new.items()]
    lines = ["| File | passed | newly failing |", "|---|---|---|", *rows, ""]
    for test, outcome, reason in failing:
        lines.append(f"- `{test.removeprefix('numpy/')}` {outcome}: {reason or 'NO REASON'}")
    return "\n".join(lines) + "\n", sum(not reason for *_, reason in failing)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(".conformance"))
    parser.add_argument("--mode", default="npaccel")
    options = parser.parse_args()
    text, unexplained = report(options.out, options.mode)
    print(text)
    print(f"{unexplained} without a reason")
    return 1 if unexplained else 0


if __name__ == "__main__":
    raise SystemExit(main())
