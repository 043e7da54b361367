"""`npaccel profile`: a program as under `npaccel run`, a file, and what is made of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import npaccel
from npaccel.errors import ConfigError
from npaccel.launch import parse
from npaccel.observe.profile import read

PROGRAM = """\
import sys
import numpy as np

a = np.linspace(0.0, 1.0, 200_000)
for i in range(5):
    a = np.sqrt(a + i)
print(round(float(a.sum()), 3), sys.argv[1:], __name__)
if sys.argv[1:2] == ["fail"]:
    raise ValueError("as asked")
sys.exit(len(sys.argv) - 1)
"""
HERE = str(Path(npaccel.__file__).parent.parent)
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"} | {"PYTHONPATH": HERE}


def run(*words: str, where: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "npaccel", *words]
    return subprocess.run(
        command, cwd=where, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )


@pytest.fixture
def where(tmp_path: Path) -> Path:
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


@pytest.mark.pending
@pytest.mark.parametrize("named", [["program.py"], ["-m", "program"], ["-c", PROGRAM]])
def test_the_program_runs_as_ever_and_the_file_says_where_its_time_went(where, named) -> None:
    plain = run("run", *named, "one", where=where)
    done = run("profile", "--out=a", *named, "one", where=where)
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout) == (1, plain.stdout)
    assert done.stderr == f"npaccel: the profile is in {where / 'a'}; " + (
        f"npaccel profile show {where / 'a'}\n"
    )
    profile = read(where / "a")
    assert profile.about["arguments"] == ["one"]
    assert any(line.line == 6 and line.calls for line in profile.lines)
    assert sum(profile.totals().values()) == pytest.approx(profile.wall_s, rel=0.03)


def test_a_program_that_fails_is_told_of_all_the_same(where) -> None:
    done = run("profile", "program.py", "fail", where=where)
    assert done.returncode == 1
    trace, last = done.stderr.splitlines()[:-1], done.stderr.splitlines()[-1]
    assert trace[-1] == "ValueError: as asked" and len(trace) == 4
    assert last.startswith("npaccel: the profile is in ")
    assert read(where / "npaccel.profile").lines
    shown, named = (
        run("profile", "show", where=where),
        run("profile", "show", last.split()[-1], where=where),
    )
    assert (shown.returncode, shown.stdout) == (0, named.stdout)  # as the tutorial has it


@pytest.mark.pending
def test_plans_from_disk_are_made_again_where_they_are_shown(where, monkeypatch) -> None:
    monkeypatch.setitem(ENVIRONMENT, "NPACCEL_TIERING", "eager")
    monkeypatch.setitem(ENVIRONMENT, "NPACCEL_CACHE", "on")
    monkeypatch.setitem(ENVIRONMENT, "NPACCEL_CACHE_DIR", str(where / "cache"))
    for _ in range(2):
        assert run("profile", "--out=a", "program.py", where=where).returncode == 0
    assert '"again":"' in (where / "a").read_text()
    (kernel,) = [k for k in read(where / "a").kernels if "sqrt" in k.operations]
    assert kernel.operations == "add (5x), sqrt (5x), add.reduce" and kernel.bytes > 0
    rows = (where / "a").read_text().splitlines()
    head = json.loads(rows[0])
    head["about"]["npaccel"] = "0.0"  # another version might plan otherwise
    (where / "b").write_text("\n".join([json.dumps(head), *rows[1:]]) + "\n")
    other = read(where / "b")
    assert other.kernels == []
    assert other.totals()["kernels"] == pytest.approx(read(where / "a").totals()["kernels"])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["missing.py"], "can't open file 'missing.py': [Errno 2] No such file"),
        (["--out=none/a", "program.py"], "there is no folder"),
        (["--report", "program.py"], "npaccel profile has no option --report"),
        (["--out"], "--out needs a value"),
        ([], "npaccel profile needs a program"),
        (["show", "none"], "can't read a profile there: No such file"),
        (["show", "program.py"], "this is no profile of npaccel"),
        (["compare", "none", "none"], "can't read a profile there"),
    ],
)
def test_what_is_wrong_is_one_line(where, words: list[str], told: str) -> None:
    done = run("profile", *words, where=where)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("npaccel: ") and done.stderr.count("\n") == 1
    assert told in done.stderr
    assert not (where / "npaccel.profile").exists()


@pytest.mark.pending
def test_shown_compared_and_written_in_other_forms(where) -> None:
    run("profile", "--out", "a", "program.py", where=where)
    done = run("profile", "show", "a", where=where)
    assert done.returncode == 0 and "np.sqrt(a + i)" in done.stdout
    told = json.loads(run("profile", "show", "--json", "a", where=where).stdout)
    assert told["wall_s"] == read(where / "a").wall_s
    done = run("profile", "show", "--html", "a.html", "--trace", "a.json", "a", where=where)
    assert done.stdout == "written to a.json\nwritten to a.html\n"
    assert "np.sqrt(a + i)" in (where / "a.html").read_text()
    assert json.loads((where / "a.json").read_text())["traceEvents"]
    done = run("profile", "compare", "a", "a", where=where)
    assert done.returncode == 0 and "+0.0" in done.stdout
    done = run("profile", "show", "--html", "none/a.html", "a", where=where)
    assert done.returncode == 2 and "none/a.html" in done.stderr


def test_help_names_it(where) -> None:
    assert "npaccel profile compare" in run("profile", "--help", where=where).stdout
    assert "profile" in run("--help", where=where).stdout
    assert "--trace" in run("profile", "show", "--help", where=where).stdout


def test_options_of_both_commands() -> None:
    options = parse(["--min-size=8", "a.py", "--out", "b"], command="npaccel profile")
    assert options is not None
    assert (options.out, options.min_size, options.report) == ("npaccel.profile", "8", "")
    assert options.arguments == ["--out", "b"]
    with pytest.raises(ConfigError, match="npaccel run has no option --out"):
        parse(["--out=a", "a.py"])


@pytest.mark.pending
def test_names_that_are_no_text(where: Path) -> None:
    """Of the folder and of the program: bytes that no encoding makes letters of."""
    odd = Path(os.fsdecode(os.fsencode(where) + b"/\xe9"))
    odd.mkdir()
    name = os.fsdecode(b"p\xe9.py")
    (odd / name).write_text(PROGRAM)
    plain = subprocess.run([sys.executable, name], cwd=odd, capture_output=True, check=False)
    done = run("profile", "--out=a", name, where=odd)
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout.decode())
    for form in ("--html", "--trace"):
        shown = run("profile", "show", form, "page", "a", where=odd)
        assert shown.returncode == 0, shown.stderr
        assert r"p\udce9.py:6" in (odd / "page").read_text() or form == "--trace"
