"""What the judge's notes say: per module passed and newly failing, each with its reason."""

from __future__ import annotations

import argparse
import datetime
import fnmatch
import importlib.metadata
import json
import os
import platform
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from judge import BAD, HERE, SUITES, files, outcomes, texts

SLOW = (
    "not judged: passed the run's limit of seconds for one test, since each of very many small "
    "arrays is deferred"
)
NO_REASON = "NO REASON"
# Where a page speaks of another mode: of NumPy's own tests, and of libraries around it.
OTHERS = {
    "users": "\n## At the size that users have\n",
    "opencl": "\n## With OpenCL\n",
    "eager": "\n## With everything compiled before its first run\n",
}
NOT_RUN = "not run"
PASSED, SUBCLASS, FAILING = 0, 1, 2  # columns
ROW = r"^\| (\w+(?:/\w+)+) \|((?: [\w ]+ \|){3})(.*)\|$"
DISTRIBUTIONS = {"sklearn": "scikit-learn", "skimage": "scikit-image"}  # of packages of other names
TABLE_HEAD = "| file | passed | subclass | newly failing | judged |\n|---|---|---|---|---|"


def newly_failing(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str]:
    """Tests that are bad after and were not before, to their outcome."""
    return {
        test: outcome
        for test, outcome in sorted(after.items())
        if outcome in BAD and before.get(test) not in BAD
    }


def reason_for(test: str, known: Iterable[Mapping[str, object]], text: str = "") -> str:
    """The known reason of a test id, or of what its failure says (its last lines); or ""."""
    said = "\n".join(line[1:].strip() for line in text.splitlines() if line.startswith("E  "))
    name = test.removeprefix("numpy/").replace("[", "?")
    for entry in known:
        patterns, words = entry.get("tests", []), entry.get("says", [])
        assert isinstance(patterns, list) and isinstance(words, list)
        by_name = any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
        if by_name or (said and any(re.search(word, said) for word in words)):
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


class Findings:
    """What the page says of files and of their failures, of this run and of the page before it.

    rows : cells of the table, by the file's name on the page.
    failing : reason to the tests that newly fail for it, as they are shown, with how often.
    """

    def __init__(self) -> None:
        self.rows: dict[str, list[str]] = {}
        self.failing: dict[str, Counter[str]] = {}

    def add(self, name: str, cells: Iterable[object], mark: str) -> None:
        self.rows[name] = [*map(str, cells), mark]

    def fail(self, reason: str, shown: str, times: int = 1) -> None:
        self.failing.setdefault(reason or NO_REASON, Counter())[shown] += times

    def column(self, number: int) -> int:
        """The sum of a column's numbers."""
        return sum(int(row[number]) for row in self.rows.values() if row[number].isdigit())

    def table(self) -> str:
        rows = ([name, *cells] for name, cells in sorted(self.rows.items()))
        return "\n".join(f"| {' | '.join(row)} |" for row in rows)

    def failures(self) -> list[str]:
        """Failing tests under their reasons; parameters of one test on one line."""
        lines = []
        for reason, tests in sorted(self.failing.items()):
            lines += ["", f"**{reason}**", ""]
            lines += [f"- {t}" + (f" ({n} times)" if n > 1 else "") for t, n in tests.items()]
        return lines


def shown_name(file: str) -> str:
    """`_core/test_umath` of "_core/tests/test_umath.py", "_core.tests.test_umath.py.jsonl"."""
    return file.removesuffix(".jsonl").removesuffix(".py").replace(".", "/").replace("/tests/", "/")


def kept(folders: Iterable[Path], mode: str) -> dict[str, Path]:
    """The notes of each file by their name; the last complete ones, if there are any."""
    found: dict[str, Path] = {}
    for folder in folders:
        for notes in sorted((folder / mode).glob("*.jsonl")):
            old = found.get(notes.name)
            if old is None or _age(old) < _age(notes):
                found[notes.name] = notes
    return found


def _age(notes: Path) -> tuple[bool, float]:
    return bool(ended(notes)), notes.stat().st_mtime


def judge(folders: Iterable[Path], mode: str) -> Findings:
    """The findings of a run's notes, which may be in several folders."""
    findings, known = Findings(), load_known()
    for notes in sorted(kept(folders, mode).values(), key=lambda path: path.name):
        before = outcomes(notes.parents[1] / "plain" / notes.name)
        after, said = outcomes(notes), texts(notes)
        floor = outcomes(notes.parents[1] / "subclass" / notes.name)
        judged = bool(before) or not BAD.intersection(after.values())
        new = newly_failing(before, after) if judged else {}
        # Of a run that was stopped, only what it reached; it says so.
        cut = "" if ended(notes) and len(after) >= len(before) else ", stopped early"
        day = datetime.date.fromtimestamp(notes.stat().st_mtime)
        passed = Counter(after.values())["passed"]
        least = len(newly_failing(before, floor)) if floor else NOT_RUN
        count = len(new) if judged else NOT_RUN
        findings.add(shown_name(notes.name), (passed, least, count), f"{day}{cut}")
        for test, outcome in new.items():
            name = test.removeprefix("numpy/").partition("[")[0]
            crashed = " crashed" if outcome == "crashed" else ""
            reason = SLOW if outcome == "slow" else reason_for(test, known, said.get(test, ""))
            findings.fail(reason, f"`{name}`{crashed}")
    return findings


def add_earlier(findings: Findings, page: str) -> None:
    """What an earlier page said of files that `findings` has nothing of, marked as earlier."""
    new = set(findings.rows)
    for name, cells, mark in re.findall(ROW, page, re.M):
        numbers = [cell.strip() for cell in cells.split("|")[:-1]]
        if name in new and findings.rows[name][SUBCLASS] == NOT_RUN:
            findings.rows[name][SUBCLASS] = numbers[SUBCLASS]  # it does not depend on npaccel
        if name not in new:
            findings.add(name, numbers, f"earlier, {mark.strip().removeprefix('earlier, ')}")
    reason = ""
    for line in page.splitlines():
        if line.startswith("**") and line.endswith("**"):
            reason = line.strip("*")
        test = re.fullmatch(r"- (`(.+?)::.+`(?: crashed)?)(?: \((\d+) times\))?", line)
        if test and shown_name(test[2]) not in new:
            findings.fail(reason, test[1], int(test[3] or 1))


# Why a plan leaves requests to NumPy's loops though the operation has kernels for other dtypes.
NO_KERNEL = ("has no scalar form for", "has no fold for", "complex iota")


def shares(notes: Iterable[Path]) -> list[str]:
    """Per operation and dtypes that were not all run by kernels: how many requests, and why."""
    counts: dict[tuple[str, str], list[int]] = {}
    why: dict[tuple[str, str], Counter[str]] = {}
    for end in (end for path in notes for end in ended(path)):
        for name, types, *numbers in end["operations"]:
            sums = counts.setdefault((name, types), [0, 0, 0])
            sums[:] = [a + b for a, b in zip(sums, numbers[:3], strict=True)]
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


def libraries(findings: Findings, eager: Findings) -> str:
    """A table of the libraries around NumPy: what was run of each, and what came out.

    eager : of runs with everything compiled before its first run.
    """
    lines = [
        "| library | files | run | stopped early | in an earlier run | not run | tests passed "
        "| newly failing | compiled: run | stopped early | tests passed | newly failing |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    sums = [0] * 11
    for library in SUITES:
        named = {shown_name(name) for name in files([], library)}
        version = importlib.metadata.version(DISTRIBUTIONS.get(library, library))
        run, cut, earlier, *tests = _sums(findings, library)
        left = len(named - findings.rows.keys() - eager.rows.keys())
        compiled, stopped, _, *compiled_tests = _sums(eager, library)
        counts = [len(named), run, cut, earlier, left, *tests, compiled, stopped, *compiled_tests]
        sums = [a + b for a, b in zip(sums, counts, strict=True)]
        lines.append(f"| {library} {version} | {' | '.join(map(str, counts))} |")
    return "\n".join([*lines, f"| all | {' | '.join(map(str, sums))} |"])


def _sums(findings: Findings, library: str) -> list[int]:
    """Files run, stopped early, and of an earlier run; tests passed, and newly failing."""
    rows = [row for name, row in findings.rows.items() if name.startswith(f"{library}/")]
    words = [sum(word in row[-1] for row in rows) for word in ("stopped", "earlier")]
    tests = [sum(int(row[k]) for row in rows if row[k].isdigit()) for k in (PASSED, FAILING)]
    return [len(rows), *words, *tests]


def sections(page: str, modes: Sequence[str]) -> list[str]:
    """What a page says at first, and of each of these modes, in the order in which they follow."""
    parts: list[str] = []
    for mode in reversed(modes):
        page, _, part = page.partition(OTHERS[mode])
        parts.insert(0, part)
    return [page, *parts]


def report(
    folders: list[Path], mode: str, before: str = "", of: Sequence[str] = ("numpy",)
) -> tuple[str, int]:
    """The page in Markdown for what was run in `mode`, and how many failures have no reason.

    before: the earlier page, which speaks for files that were not run this time.
    of: NumPy, or all libraries around it.
    """
    alone = tuple(of) == ("numpy",)
    modes = (mode, *(("users", "opencl") if alone else ("eager",)))
    found = {}
    for other, words in zip(modes, sections(before, modes[1:]), strict=True):
        found[other] = judge(folders, other)
        add_earlier(found[other], words)
    findings = found[mode]
    notes = kept(folders, mode).values()
    noted = notes if alone else (*notes, *kept(folders, "eager").values())
    ends = [end for path in noted for end in ended(path)]
    versions = {f"{k} {v}" for end in ends for k, v in end["ended"].items()}
    settings = {f"{k} {v}" for end in ends for k, v in end.get("settings", {}).items()}
    named = [name for library in of for name in files([], library)]
    left = [name for name in named if shown_name(name) not in findings.rows]
    texts = {
        "run": f"{datetime.date.today()}; {', '.join(sorted(versions))}; "
        f"{', '.join(sorted(settings))}; {os.cpu_count()} cores, {platform.machine()}.",
        "files": f"{TABLE_HEAD}\n{findings.table()}",
        "passed": str(findings.column(PASSED)),
        "floor": str(findings.column(SUBCLASS)),
        "new": str(sum(sum(tests.values()) for tests in findings.failing.values())),
        "left": ", ".join(f"`{name}`" for name in left) or "none",
        "failures": "\n".join(findings.failures()).strip() or "None.",
        "shares": "\n".join(shares(notes)) or "Not counted.",
    }
    for other in modes[1:]:
        lines = (*found[other].failures(), "", TABLE_HEAD, found[other].table())
        texts[other] = "\n".join(lines).strip()
        texts[f"{other} passed"] = str(found[other].column(PASSED))
        texts[f"{other} new"] = str(found[other].column(FAILING))
    if not alone:
        texts["libraries"] = libraries(findings, found["eager"])
        texts["compiled"] = "\n".join(shares(kept(folders, "eager").values())) or "Not counted."
    text = (HERE / ("page.md" if alone else "around.md")).read_text()
    for name, words in texts.items():
        text = text.replace(f"@{name}@", words)
    return text, sum(sum(f.failing.get(NO_REASON, Counter()).values()) for f in found.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, nargs="+", default=[Path(".conformance")])
    parser.add_argument("--mode", default="npaccel")
    parser.add_argument("--around", action="store_true", help="of the libraries around NumPy")
    parser.add_argument(
        "--page", type=Path, help="write it there, keeping what it says of other files; else print"
    )
    options = parser.parse_args()
    before = options.page.read_text() if options.page and options.page.exists() else ""
    of = tuple(SUITES) if options.around else ("numpy",)
    text, unexplained = report(options.out, options.mode, before, of)
    if options.page is None:
        print(text)
    else:
        options.page.write_text(text)
    print(f"{unexplained} without a reason")
    return 1 if unexplained else 0


if __name__ == "__main__":
    raise SystemExit(main())
