"""`npaccel run`: programs behave as under `python`, with their arrays recorded."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import npaccel
from npaccel.errors import ConfigError
from npaccel.launch import Options, parse
from npaccel.observe.usage import ACTIVITIES, Usage

PROGRAM = """
import sys
import numpy as np

def work():
    a = np.arange(100_000.0)
    return (a * 2 + 1).sum(), "ndarray" if type(a + a) is np.ndarray else "Array"

if __name__ == "__main__":
    print(*work(), sys.argv[1:])
"""


# Programs run in folders of their own: a source tree named by a relative path must be found there.
HERE = str(Path(npaccel.__file__).parent.parent)
# As a user's: the folder of the program, or the working directory, is on the path.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"} | {"PYTHONPATH": HERE}


def python(
    *words: str, where: Path, variables: dict[str, str] | None = None, **options: object
) -> subprocess.CompletedProcess[str]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.run(
        [sys.executable, *words],
        cwd=where,
        env=ENVIRONMENT | (variables or {}),
        text=True,
        timeout=120,
        check=False,
        **pipes | options,  # type: ignore[call-overload]
    )


def run(*words: str, where: Path, **options: object) -> subprocess.CompletedProcess[str]:
    return python("-m", "npaccel", "run", *words, where=where, **options)


@pytest.fixture
def write(tmp_path: Path):
    def written(source: str, name: str = "program.py") -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(textwrap.dedent(source))
        return tmp_path

    return written


@pytest.mark.pending
def test_arrays_are_recorded_and_arguments_are_the_programs(write) -> None:
    done = run("program.py", "--report", "-m", "x", where=write(PROGRAM))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "10000000000.0 Array ['--report', '-m', 'x']\n"


def test_everything_a_program_can_see_is_as_under_python(write) -> None:
    source = """
    import os, sys
    spec = __spec__ and __spec__.name
    print(__name__, __file__, __package__, spec, __doc__, type(__loader__).__name__, __builtins__)
    print(sys.argv, sys.path[0], sys.modules["__main__"].__dict__ is globals())
    print([name for name in sorted(globals()) if not name.startswith("__npaccel")])
    import helper
    print(helper.__file__)
    """
    where = write(source, "folder/program.py")
    write("", "folder/helper.py")
    for words in (["folder/program.py", "a b"], [str(where / "folder/program.py")]):
        assert run(*words, where=where).stdout == python(*words, where=where).stdout != ""


def test_modules_and_relative_imports(write) -> None:
    write("", "package/__init__.py")
    write("VALUE = 3", "package/other.py")
    source = """
    import sys
    from .other import VALUE
    print(VALUE, __name__, __package__, __spec__.name, sys.argv, sys.path[0])
    """
    where = write(source, "package/module.py")
    write("from .module import VALUE\nprint(__name__)", "package/__main__.py")
    for words in (["-m", "package.module", "--option", "x"], ["-m", "package"]):
        assert run(*words, where=where).stdout == python(*words, where=where).stdout != ""


@pytest.mark.parametrize("safe", ["", "1"])
def test_folders_and_archives(write, safe: str) -> None:
    """Also where the working directory is not on the path: they themselves are."""
    where = write("import sys, other\nprint(__name__, sys.argv, sys.path)", "app/__main__.py")
    write("", "app/other.py")
    python("-m", "zipapp", "app", where=where)
    variables = {"PYTHONSAFEPATH": safe}
    for name in ("app", "app.pyz"):
        expected = python(name, "x", where=where, variables=variables).stdout
        assert run(name, "x", where=where, variables=variables).stdout == expected != ""


ABOUT = """
import sys
import other
spec = __spec__ and __spec__.name
loader = getattr(__loader__, "__name__", type(__loader__).__name__)
print(__name__, globals().get("__file__"), __package__, spec, __doc__, loader, __builtins__)
print(sys.argv, sys.path, sys.stdin.read())
print([name for name in sorted(globals()) if not name.startswith("__npaccel")])
def fail():
    1 / 0
fail()
"""


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (["-c", ABOUT, "--report", "x"], "text"),
        (["-c" + ABOUT, "-m"], "text"),
        (["-c", "def f(:"], ""),
        (["-", "-c", "x"], ABOUT),
        (["-"], "x = 1\ndef f(:\n    pass"),
        (["-"], "print('\xe4')\n1 / 0"),
        (["-m", "package.module", "-c"], ""),
        (["-mpackage", "-", "x"], ""),
    ],
)
def test_the_ways_to_name_a_program(write, words: list[str], given: str) -> None:
    """What the program sees, and what it says when it fails, are as under `python`."""
    where = write("", "package/__init__.py")
    write("", "other.py")
    for name in ("module", "__main__"):
        write(ABOUT, f"package/{name}.py")
    for variables in ({}, {"PYTHONSAFEPATH": "1"}):
        expected = python(*words, where=where, input=given, variables=variables)
        done = run(*words, where=where, input=given, variables=variables)
        assert (done.returncode, done.stdout) == (expected.returncode, expected.stdout)
        assert done.stderr == expected.stderr


def test_a_working_directory_that_was_removed(write) -> None:
    program = str(write(PROGRAM + "    print(sys.path[0], __file__)\n    1 / 0") / "program.py")
    gone = Path(program).parent / "gone"
    for words in ([program], ["-c", PROGRAM], ["-m", "program"], ["program.py"], ["-"]):
        ends = []
        for start in (run, python):
            gone.mkdir()
            paths = {"PYTHONPATH": os.pathsep.join([str(gone.parent), HERE])}
            options = {"preexec_fn": gone.rmdir, "input": PROGRAM, "variables": paths}
            ends.append(start(*words, where=gone, **options))
        assert ends[0].returncode == ends[1].returncode, ends[0].stderr
        assert ends[0].stdout.replace("Array", "ndarray") == ends[1].stdout
        if ends[0].returncode != 2:
            assert ends[0].stderr == ends[1].stderr


def test_a_terminal_as_the_program_is_a_conversation(write) -> None:
    ours, theirs = pty.openpty()
    os.write(ours, b"import sys\nprint(6 * 7, sys.argv)\n1 / 0\nexit(3)\n")
    done = subprocess.run(
        [sys.executable, "-m", "npaccel", "run", "-", "x"],
        cwd=write(""),
        env=ENVIRONMENT,
        stdin=theirs,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    os.close(ours)
    os.close(theirs)
    assert done.returncode == 3
    assert "42 ['-', 'x']" in done.stdout
    assert "ZeroDivisionError" in done.stderr and "npaccel" not in done.stderr


ENDINGS = {
    "error": "def f():\n    raise ValueError('no')\nf()",
    "chained": "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise KeyError(1) from e",
    "syntax": "x = 1\ndef f(:\n    pass",
    "exit": "raise SystemExit(7)",
    "exit text": "import sys\nsys.exit('goodbye')",
    "exit none": "raise SystemExit",
    "own hook": "import sys\nsys.excepthook = lambda *a: print('mine', a[0])\n1 / 0",
    "exit function": "import atexit\natexit.register(print, 'last')\n1 / 0",
    "interrupt": "import atexit\natexit.register(print, 'last')\nraise KeyboardInterrupt",
    "thread": "import threading\nthreading.Timer(.2, print, ['late']).start()\nprint('main')",
    "error in numpy": "import numpy as np\nnp.zeros(1 << 17) + np.zeros(3)",
    "warning": "import numpy as np\nprint((np.ones(1 << 17) / 0)[3])",
    "warning as error": (
        "import warnings\nwarnings.simplefilter('error')\n"
        "import numpy as np\nx = np.ones(1 << 17)\nx / 0"
    ),
}


@pytest.mark.parametrize("name", ENDINGS)
def test_programs_end_as_under_python(write, name: str) -> None:
    """The same output, the same traceback with the program's lines, the same exit status."""
    where = write(ENDINGS[name])
    expected, result = python("program.py", where=where), run("program.py", where=where)
    assert (result.returncode, result.stdout) == (expected.returncode, expected.stdout)
    assert result.stderr == expected.stderr


def test_a_script_that_is_not_there(write) -> None:
    done = run("nowhere.py", where=write(""))
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("npaccel: can't open file 'nowhere.py'")
    assert done.stderr.count("\n") == 1
    done = run("-m", "nowhere", where=write(""))
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "No module named nowhere" in done.stderr


@pytest.mark.pending
def test_threads_of_the_program_are_in_it_too(write) -> None:
    source = """
    import asyncio
    from concurrent.futures import ThreadPoolExecutor
    import numpy as np

    def kind():
        return "ndarray" if type(np.ones(100_000) + 1) is np.ndarray else "Array"

    async def main():
        return await asyncio.to_thread(kind), kind()

    with ThreadPoolExecutor(2) as pool:
        print(pool.submit(kind).result(), *asyncio.run(main()))
    """
    assert run("program.py", where=write(source)).stdout == "Array Array Array\n"


@pytest.mark.pending
def test_options(write) -> None:
    where = write("import numpy as np\nprint(type(np.ones(10) + 1) is np.ndarray)")
    assert run("program.py", where=where).stdout == "True\n"
    assert run("--min-size", "8", "program.py", where=where).stdout == "False\n"


@pytest.mark.parametrize(
    "wrong",
    [
        "--min-size=many",
        "--backend=opencl:77",
        "--backend=nonsense",
        "--report=yaml",
        "--what",
        "-v",
    ],
)
def test_a_wrong_option_is_one_line(write, wrong: str) -> None:
    done = run(wrong, "program.py", where=write("print('ran')"))
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("npaccel: ") and done.stderr.count("\n") == 1
    value = wrong.partition("=")[2]  # of a device only its kind, where there is no driver
    assert value.partition(":")[0] in done.stderr


@pytest.mark.pending
def test_threads_and_exit_functions_are_in_it_after_the_programs_end(write) -> None:
    source = """
    import atexit, threading, time
    import numpy as np

    def kind():
        made = np.ones(100_000) + 1
        print("ndarray" if type(made) is np.ndarray else "Array")

    def late():
        time.sleep(0.3)
        kind()

    atexit.register(kind)
    threading.Thread(target=late).start()
    """
    assert run("--min-size=8", "program.py", where=write(source)).stdout == "Array\nArray\n"


@pytest.mark.pending
def test_report(write) -> None:
    source = """
    import numpy as np
    a = np.random.default_rng(1).random(300_000)
    b = np.argsort(a)
    print((a * 2 + b).sum() > 0)
    """
    done = run("--report", "program.py", where=write(source))
    assert done.stdout == "True\n"
    assert "in kernels" in done.stderr and "unaccounted for" in done.stderr
    assert "ndarray.argsort: sorting, " in done.stderr and "program.py:4" in done.stderr


@pytest.mark.pending
def test_report_of_what_is_computed_at_exit(write) -> None:
    """Its time is the program's, too: no part is more than the whole."""
    source = """
    import numpy as np
    x = np.arange(4e6)
    for i in range(8):
        x = np.sin(x) + 1
    """
    done = run("--report", "program.py", where=write(source))
    shares = [int(word) for word in re.findall(r"(\d+) %  ", done.stderr)]
    assert len(shares) == 7 and sum(shares) in range(96, 105), done.stderr
    assert int(re.findall(r"of the time on arrays, (\d+) %", done.stderr)[0]) <= 100


def test_report_of_a_program_without_arrays(write) -> None:
    done = run("--report", "program.py", where=write(""))
    assert "no time was spent on arrays" in done.stderr and "100 % was in" not in done.stderr


@pytest.mark.pending
def test_report_for_programs(write) -> None:
    source = """
    import sys
    import numpy as np
    a = np.random.default_rng(1).random(300_000)
    print((a * 2 + np.argsort(a)).sum() > 0)
    print("the program's own", file=sys.stderr)
    """
    done = run("--report=json", "program.py", where=write(source))
    assert done.stdout == "True\n"
    own, line = done.stderr.splitlines()
    assert own == "the program's own"
    found = json.loads(line)
    assert list(found) == ["wall_s", "activities_s", "kernel_share", "calls"]
    parts = found["activities_s"]
    assert list(parts) == list(ACTIVITIES) and all(value >= 0 for value in parts.values())
    assert sum(parts.values()) == pytest.approx(found["wall_s"])
    assert 0 <= found["kernel_share"] <= 1
    (call,) = (call for call in found["calls"] if call["function"] == "ndarray.argsort")
    assert call["reason"] == "sorting" and call["calls"] == 1 and call["seconds"] > 0
    assert call["line"].endswith("program.py:5")
    empty = run("--report=json", "-c", "", where=write(""))
    assert json.loads(empty.stderr)["kernel_share"] is None


def test_report_of_what_was_counted() -> None:
    entry, other = ("dot", "matrix product", "a.py:3"), ("sort", "sorting", "a.py:4")
    times = {"kernels": 1.0, "numpy": 0.4, "loops": 0.1, "recording": 0.1}
    usage = Usage(2.0, times, {entry: 3, other: 1}, {entry: 0.1, other: 0.4})
    lines = usage.text().splitlines()
    assert "1.000 s   50 %  in kernels" in lines[1]
    assert "0.400 s   20 %  unaccounted for" in lines[7]
    assert "67 % was in kernels" in lines[8]
    assert lines[-2].split() == ["0.400", "1", "sort:", "sorting,", "a.py:4"]
    assert lines[-1].split() == ["0.100", "3", "dot:", "matrix", "product,", "a.py:3"]
    many = {("f", "r", f"a.py:{i}"): 1 for i in range(100)}
    assert "and 70 more" in Usage(1.0, {}, many, {}).text()
    assert json.loads(usage.json())["calls"][0]["function"] == "sort"
    # Two threads at once.
    assert "3.000 s   75 %  in kernels" in Usage(2.0, {"kernels": 3.0, "numpy": 1.0}, {}, {}).text()


SLOW = """
import sys, time
import numpy as np
def work(u):
    end = time.perf_counter() + float(sys.argv[1])
    while time.perf_counter() < end:
        for i in range(2000):
            u = u * 0.5
work(np.ones(256))
"""


def on_terminal(*words: str, where: Path) -> str:
    """What `npaccel run` writes to a stderr that is a terminal."""
    person, program = pty.openpty()
    try:
        run(*words, where=where, stderr=program)
        ready, _, _ = select.select([person], [], [], 0.1)
        return os.read(person, 10_000).decode().replace("\r\n", "\n") if ready else ""
    finally:
        os.close(person)
        os.close(program)


@pytest.mark.pending
def test_a_person_is_told_why_little_was_gained(write) -> None:
    where = write(SLOW)
    words = "program.py:8 works on arrays of 2.0 KiB; from 256.0 KiB on they are accelerated ("
    (line,) = on_terminal("program.py", "0.6", where=where).splitlines()
    # Which of the two is said on a machine that does other things too is a matter of time.
    assert line.startswith("npaccel gained little: ")
    assert words in line or line.endswith("into Python itself and other libraries, not into array "
                                          "operations")  # fmt: skip
    assert run("program.py", "0.6", where=where).stderr == ""  # nobody looks at it
    assert on_terminal("program.py", "0", where=where) == ""  # over before anybody waits
    report = on_terminal("--report", "program.py", "0.6", where=where)
    assert "gained little" not in report and "longest without a gain: program.py:8 works" in report


@pytest.mark.parametrize("end", ["raise ValueError", "raise SystemExit(3)", "sys.stderr.close()"])
def test_who_reads_an_error_is_told_nothing_else(write, end: str) -> None:
    told = on_terminal("program.py", "0.6", where=write(SLOW + end))
    assert "gained" not in told and ("ValueError" in told) == (end == "raise ValueError")


def test_programs_that_end_themselves_are_told_of(write) -> None:
    told = on_terminal("program.py", "0.6", where=write(SLOW + "raise SystemExit"))
    assert "npaccel gained little: " in told


@pytest.mark.parametrize("inherited", [signal.SIG_IGN, signal.SIG_DFL])
def test_ctrl_c_is_handled_as_under_python(write, inherited: signal.Handlers) -> None:
    """A program that a shell started in the background ignores it."""
    where = write("import signal\nprint(signal.getsignal(signal.SIGINT))")

    def prepare() -> None:
        signal.signal(signal.SIGINT, inherited)

    expected = python("program.py", where=where, preexec_fn=prepare).stdout
    assert run("program.py", where=where, preexec_fn=prepare).stdout == expected != ""


def test_ctrl_c_stops_at_once(write) -> None:
    source = """
    import numpy as np
    print("ready", flush=True)
    x = np.ones(1 << 20)
    while True:
        x = np.sin(x) + 1
        if x[5] > 9:
            break
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "npaccel", "run", "program.py"],
        cwd=write(source),
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert errors.rstrip().endswith("KeyboardInterrupt") and "launch.py" not in errors


@pytest.mark.pending
@pytest.mark.parametrize(("end", "runs"), [("KeyboardInterrupt", 0), ("SystemExit", 1)])
def test_what_is_pending_is_computed_at_exit_but_for_ctrl_c(write, end: str, runs: int) -> None:
    source = f"""
    import atexit
    atexit.register(lambda: print(npaccel.stats()["flushes"]))  # runs after npaccel's own
    import numpy as np
    import npaccel
    npaccel.stats()  # loads it: where code runs from a string, Python forgets how it is ending
    x = npaccel.asarray(np.zeros(1 << 17)) + 1
    raise {end}
    """
    done = python("program.py", where=write(source))
    assert done.stdout.split() == [str(runs)]
    assert done.returncode == (-signal.SIGINT if end == "KeyboardInterrupt" else 0)


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (["a.py"], Options("a.py", [])),
        (["a.py", "-m", "--report"], Options("a.py", ["-m", "--report"])),
        (["-m", "a.b", "-x"], Options("a.b", ["-x"], kind="module")),
        (["-ma.b", "-x"], Options("a.b", ["-x"], kind="module")),
        (["-c", "pass", "-m"], Options("pass", ["-m"], kind="code")),
        (["-cpass", "-m"], Options("pass", ["-m"], kind="code")),
        (["-", "-c"], Options("-", ["-c"], kind="stdin")),
        (["--report", "--", "-a.py"], Options("-a.py", [], report="text")),
        (["--report=json", "a.py"], Options("a.py", [], report="json")),
        (["--backend=numpy", "a"], Options("a", [], backend="numpy")),
        (["--backend", "numpy", "a"], Options("a", [], backend="numpy")),
        (["--help", "a"], None),
    ],
)
def test_command_lines(words: list[str], options: Options | None) -> None:
    assert parse(words) == options


WRONG = ["", "-m", "-c", "--", "-x", "--nonsense a", "--report", "--min-size"]


@pytest.mark.parametrize("words", [line.split() for line in WRONG])
def test_wrong_command_lines(words: list[str]) -> None:
    with pytest.raises(ConfigError):
        parse(words)


def commands(where: Path, variables: dict[str, str]) -> list[subprocess.CompletedProcess[str]]:
    """`npaccel` in two ways, while the environment has these variables."""
    script = where / "npaccel"  # as it is installed
    script.write_text("from npaccel.cli import main\nraise SystemExit(main())\n")
    ways = (["-m", "npaccel", "devices"], [str(script), "run", "program.py"])
    return [python(*words, where=where, variables=variables) for words in ways]


def test_a_wrong_variable_is_a_line_of_the_command_and_an_exception_of_programs(write) -> None:
    where, wrong = write("import npaccel"), {"NPACCEL_THRESHOLD": "few"}
    for done in commands(where, wrong):
        assert done.returncode == 2
        (line,) = done.stderr.splitlines()
        assert line.startswith("npaccel: ") and "NPACCEL_THRESHOLD" in line
    done = python("program.py", where=where, variables=wrong)
    assert done.returncode == 1 and "Traceback" in done.stderr
    assert "ConfigError" in done.stderr.splitlines()[-1] and "NPACCEL_THRESHOLD" in done.stderr


def test_an_unknown_variable_is_a_line_of_the_command_and_a_warning_of_programs(write) -> None:
    where, wrong = write("x = 1\nimport npaccel\nprint('done')"), {"NPACCEL_TIERS": "off"}
    said = "unknown environment variable NPACCEL_TIERS; did you mean NPACCEL_TIERING?"
    for done in commands(where, wrong):
        assert done.returncode == 0 and done.stdout.endswith("\n")
        assert done.stderr == f"npaccel: {said}\n"
    for line in ("import npaccel", "from npaccel.errors import CheckError"):
        write(f"x = 1\n{line}\nprint('done')")
        done = python("program.py", where=where, variables=wrong)
        assert (done.returncode, done.stdout) == (0, "done\n")
        place = f"{where / 'program.py'}:2: NpaccelWarning: {said}"
        assert done.stderr == f"{place}\n  {line}\n"
    done = python("-W", "error", "program.py", where=where, variables=wrong)
    assert done.returncode == 1 and said in done.stderr


def test_help(write) -> None:
    done = run("--help", where=write(""))
    assert done.returncode == 0 and done.stdout.startswith("usage: npaccel run")
    assert os.linesep in done.stdout
