"""`npaccel run`: programs behave as under `python`, with their arrays recorded."""

from __future__ import annotations

import os
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
from npaccel.observe.usage import usage_text

PROGRAM = """
import sys
import numpy as np

def work():
    a = np.arange(100_000.0)
    return (a * 2 + 1).sum(), type(a + a).__name__

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
    return subprocess.run(
        [sys.executable, *words],
        cwd=where,
        env=ENVIRONMENT | (variables or {}),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **options,  # type: ignore[call-overload]
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


def test_folders_and_archives(write) -> None:
    where = write("import sys, other\nprint(__name__, sys.argv, sys.path[0])", "app/__main__.py")
    write("", "app/other.py")
    python("-m", "zipapp", "app", where=where)
    for name in ("app", "app.pyz"):
        assert run(name, "x", where=where).stdout == python(name, "x", where=where).stdout != ""


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
        return type(np.ones(100_000) + 1).__name__

    async def main():
        return await asyncio.to_thread(kind), kind()

    with ThreadPoolExecutor(2) as pool:
        print(pool.submit(kind).result(), *asyncio.run(main()))
    """
    assert run("program.py", where=write(source)).stdout == "Array Array Array\n"


@pytest.mark.pending
def test_options(write) -> None:
    where = write("import numpy as np\nprint(type(np.ones(10) + 1).__name__)")
    assert run("program.py", where=where).stdout == "ndarray\n"
    assert run("--min-size", "8", "program.py", where=where).stdout == "Array\n"
    done = run("--min-size=many", "program.py", where=where)
    assert done.returncode == 2 and "many" in done.stderr and "Traceback" not in done.stderr


def test_report(write) -> None:
    source = """
    import numpy as np
    a = np.random.default_rng(1).random(300_000)
    b = np.sort(a)
    print((a * 2 + b).sum() > 0)
    """
    done = run("--report", "program.py", where=write(source))
    assert done.stdout == "True\n"
    assert "in kernels" in done.stderr and "unaccounted for" in done.stderr
    assert "ndarray.sort: sorting, " in done.stderr and "program.py:4" in done.stderr


def test_report_of_what_was_counted() -> None:
    entry, other = ("dot", "matrix product", "a.py:3"), ("sort", "sorting", "a.py:4")
    text = usage_text(
        2.0,
        {"kernels": 1.0, "numpy": 0.4, "loops": 0.1, "recording": 0.1},
        {entry: 3, other: 1},
        {entry: 0.1, other: 0.4},
    )
    lines = text.splitlines()
    assert "1.000 s   50 %  in kernels" in lines[1]
    assert "0.400 s   20 %  unaccounted for" in lines[7]
    assert "67 % was in kernels" in lines[8]
    assert lines[-2].split() == ["0.400", "1", "sort:", "sorting,", "a.py:4"]
    assert lines[-1].split() == ["0.100", "3", "dot:", "matrix", "product,", "a.py:3"]
    many = {("f", "r", f"a.py:{i}"): 1 for i in range(100)}
    assert "and 70 more" in usage_text(1.0, {}, many, {})


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
        (["-m", "a.b", "-x"], Options("a.b", ["-x"], is_module=True)),
        (["--report", "--", "-a.py"], Options("-a.py", [], report=True)),
        (["--backend=numpy", "a"], Options("a", [], backend="numpy")),
        (["--backend", "numpy", "a"], Options("a", [], backend="numpy")),
        (["--help", "a"], None),
    ],
)
def test_command_lines(words: list[str], options: Options | None) -> None:
    assert parse(words) == options


@pytest.mark.parametrize("words", [[], ["-m"], ["--nonsense", "a"], ["--report"], ["--min-size"]])
def test_wrong_command_lines(words: list[str]) -> None:
    with pytest.raises(ConfigError):
        parse(words)


@pytest.mark.parametrize("variable", ["NPACCEL_FOO", "NPACCEL_THRESHOLD"])
def test_a_wrong_variable_is_a_line_of_the_command_and_an_exception_of_programs(
    write, variable: str
) -> None:
    where, wrong = write("import npaccel"), {variable: "few"}
    script = where / "npaccel"  # as it is installed
    script.write_text("from npaccel.cli import main\nraise SystemExit(main())\n")
    for words in (["-m", "npaccel", "devices"], [str(script), "run", "program.py"]):
        done = python(*words, where=where, variables=wrong)
        assert done.returncode == 2
        (line,) = done.stderr.splitlines()
        assert line.startswith("npaccel: ") and variable in line
    done = python("program.py", where=where, variables=wrong)
    assert done.returncode == 1 and "Traceback" in done.stderr
    assert "ConfigError" in done.stderr.splitlines()[-1] and variable in done.stderr


def test_help(write) -> None:
    done = run("--help", where=write(""))
    assert done.returncode == 0 and done.stdout.startswith("usage: npaccel run")
    assert os.linesep in done.stdout
