"""`npaccel run`: a program, run as `python` runs it, with every plain array recorded.

Knows how Python starts a program and how it ends one. Must not know what is recorded.
"""

from __future__ import annotations

import builtins
import functools
import importlib.machinery
import io
import linecache
import os
import sys
import types
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, NoReturn

from npaccel import api, children, reports, this_process
from npaccel.errors import ConfigError, NpaccelError
from npaccel.later import later
from npaccel.runtime.process import shadowed

if TYPE_CHECKING:
    from npaccel import cluster
    from npaccel.observe import until
else:
    cluster = later("npaccel.cluster")
    until = later("npaccel.observe.until")
runpy = later("runpy")

__all__ = ["HELP", "PROFILE_HELP", "Options", "launch", "parse"]

HELP: Final = """\
usage: npaccel run [OPTION ...] SCRIPT [ARGUMENT ...]
       npaccel run [OPTION ...] -m MODULE [ARGUMENT ...]
       npaccel run [OPTION ...] -c CODE [ARGUMENT ...]
       npaccel run [OPTION ...] - [ARGUMENT ...]

Run a program unchanged, with large NumPy arrays computed by npaccel. SCRIPT is a file, a folder or
an archive that holds __main__.py; - reads the program from standard input.

  --report          afterwards, say on stderr where the time went and what NumPy computed
  --report=json     the same as one line of JSON
  --min-size BYTES  record operations on arrays of at least so many bytes
  --backend NAME    what runs them
  --cluster WHERE   have arrays live on workers of dask: so many new ones, or those of a scheduler
                    (tcp://host:8786, or tls:// with certificates by dask's configuration)
  --until N         record the first N operations only, and say which is the last of them; NumPy
                    computes the others, each at its line (npaccel bisect finds an N)
"""

Kind = Literal["file", "module", "code", "stdin"]
PROFILE_HELP: Final = """\
usage: npaccel profile [OPTION ...] SCRIPT [ARGUMENT ...]    and -m, -c, - as with npaccel run
       npaccel profile show [--json | --trace FILE | --html FILE] [PROFILE]
       npaccel profile compare [--json] PROFILE PROFILE

Run a program as npaccel run does, and write where its time went to a file; show that file: what to
do about it, lines, kernels, what NumPy ran instead; show how two differ.

  --out FILE        the file (default: npaccel.profile)
  --min-size BYTES  record operations on arrays of at least so many bytes
  --backend NAME    what runs them
"""
DEFAULT_OUT: Final = "npaccel.profile"
# How the program is named on the command line, as `python` has it.
KINDS: Final[dict[str, Kind]] = {"-m": "module", "-c": "code"}
REPORTS: Final = ("text", "json")


class Options(NamedTuple):
    """What the command line of `npaccel run` says; `report`: "", or in which form; `out`: the file
    of a profile, or ""; `until`: how many operations are npaccel's; `cluster`: where arrays
    live."""

    program: str
    arguments: Sequence[str]
    kind: Kind = "file"
    report: str = ""
    out: str = ""
    min_size: int | None = None
    backend: str | None = None
    until: until.Until | None = None
    cluster: str | None = None


def parse(words: Sequence[str], *, command: str = "npaccel run") -> Options | None:
    """Read the words after that command; what follows the program is its own.

    None: help was asked for.

    Raises
    ------
    ConfigError : an option that there is not, a value that it can't have, or no program.
    """
    valued = ["--min-size", "--backend"]
    options: dict[str, Any] = {}
    if command == "npaccel profile":
        options["out"] = DEFAULT_OUT
        valued.append("--out")
    elif command == "npaccel run":
        valued += ["--until", "--cluster"]
    rest = list(words)
    while rest and rest[0].startswith("--") and rest[0] != "--":
        word, _, value = rest.pop(0).partition("=")
        if word == "--help":
            return None
        if word == "--report" and command == "npaccel run":
            options["report"] = _report_form(value)
        elif word in valued:
            if not value and not rest:
                raise ConfigError(f"{word} needs a value")
            options[word[2:].replace("-", "_")] = value or rest.pop(0)
        else:
            raise ConfigError(f"{command} has no option {word}; see {command} --help")
    if rest[:1] == ["-h"]:
        return None
    if "until" in options:
        options["until"] = until.parse_until(options["until"])
    kind, program, arguments = _program(rest, command)
    return Options(program, arguments, kind, **options)


def _report_form(value: str) -> str:
    if value and value not in REPORTS:
        allowed = " or ".join(map(repr, REPORTS))
        raise ConfigError(f"--report={value} is not allowed; it must be {allowed}")
    return value or REPORTS[0]


def _program(rest: Sequence[str], command: str) -> tuple[Kind, str, Sequence[str]]:
    """What is to be run, and its arguments; -mpackage and -cCODE are allowed, as with `python`."""
    word, *arguments = rest or [""]
    if word == "-":
        return "stdin", word, arguments
    kind = KINDS.get(word[:2])
    if kind is not None:
        if not word[2:] and not arguments:
            raise ConfigError(f"{command} {word} needs a value; see {command} --help")
        return (kind, word[2:], arguments) if word[2:] else (kind, arguments[0], arguments[1:])
    if word == "--":
        word, *arguments = arguments or [""]
    elif word.startswith("-"):
        raise ConfigError(f"{command} has no option {word}; see {command} --help")
    if not word:
        raise ConfigError(f"{command} needs a program; see {command} --help")
    return "file", word, arguments


def launch(options: Options) -> None:
    """Run the program; returns at its end, or raises what it raised."""
    taken = None
    try:
        device = None if options.cluster is None else cluster.Cluster(options.cluster)
        block = api.accelerate_everywhere(options.min_size, options.backend, device)
        if options.out:  # loaded before the program's folder is on the path
            taken = reports.profile(options.out)
            taken.of(options.program, options.arguments)
    except NpaccelError as error:
        _stop(f"npaccel: {error}")
    path = _path(options)
    code = _code(options, path)
    main = _take_place(options, path)
    if options.report:
        reports.watch_usage(functools.partial(_report, options.report))
    if taken is not None:
        reports.watch_profile(taken, _tell)
    if options.until is not None:
        this_process.at_end(options.until.begin())
    silence = _watch_gain() if not (options.report or options.out or options.until) else None
    # It is never left: threads and exit functions of the program go on in it.
    children.keep(block, options.min_size, options.backend)
    try:
        _start(options, code, main)
    except BaseException as error:
        if silence is not None and not (isinstance(error, SystemExit) and not error.code):
            silence()  # who has an error to read is told of that only
        sys.excepthook = functools.partial(_show, sys.excepthook)
        raise


def _watch_gain() -> Callable[[], None] | None:
    """Where somebody looks at stderr, he is told in one line why the program gained little."""
    stream = sys.stderr
    if stream is None or not stream.isatty():
        return None

    def tell(words: str) -> None:
        sys.stdout.flush()
        with suppress(OSError, ValueError):  # the terminal is gone, or the program has closed it
            print(words, file=stream)

    return reports.watch_gain(tell)


def _tell(words: str) -> None:
    with suppress(OSError, ValueError):  # stderr is closed
        print(words, file=sys.stderr)


def _start(options: Options, code: types.CodeType | None, main: types.ModuleType) -> None:
    if code is not None:
        exec(code, vars(main))
    elif options.kind == "module":
        runpy._run_module_as_main(options.program)
    elif options.kind == "stdin":
        _converse(main)
    else:  # a folder or an archive that holds __main__.py
        runpy._run_module_as_main("__main__", False)


def _converse(main: types.ModuleType) -> None:
    """What `python -` does at a terminal."""
    from code import interact

    interact(local=vars(main), exitmsg="")


def _folder() -> str:
    """The working directory; '' where it was removed."""
    with suppress(OSError):
        return os.getcwd()
    return ""


def _path(options: Options) -> str:
    """The program's file as `python` shows it in tracebacks: not resolved, not tidied."""
    if options.kind == "file":
        return os.path.join(_folder(), options.program.removeprefix("./"))
    return {"code": "<string>", "stdin": "<stdin>"}.get(options.kind, "")


def _code(options: Options, path: str) -> types.CodeType | None:
    """The program's code; None for what is not compiled here.

    Exits with one line, as `python` does, when there is nothing to read.
    """
    source: str | bytes
    if options.kind == "module" or _is_collection(options, path):
        return None
    if options.kind == "stdin":
        if sys.stdin is None or sys.stdin.isatty():
            return None
        source = sys.stdin.buffer.read()
    elif options.kind == "code":
        source = options.program + "\n"
        if sys.version_info >= (3, 13):  # whose tracebacks show the line
            lines = source.splitlines(keepends=True)
            linecache.cache[path] = (len(source), None, lines, path)
    else:
        source = _read(path, options.program)
    try:
        return compile(source, path, "exec", dont_inherit=True)
    except SyntaxError:
        sys.excepthook = functools.partial(_show, sys.excepthook)
        raise


def _read(path: str, given: str) -> bytes:
    try:
        with io.open_code(path) as file:
            return file.read()
    except OSError as error:
        _stop(f"npaccel: can't open file {given!r}: [Errno {error.errno}] {error.strerror}")


def _is_collection(options: Options, path: str) -> bool:
    """Whether `python` would look for a __main__ in it, as it finds that out: what is a folder or
    an archive for imports."""
    if options.kind != "file":
        return False
    for hook in sys.path_hooks:
        with suppress(ImportError):
            hook(path)
            return True
    return False


def _stop(message: str) -> NoReturn:
    print(message, file=sys.stderr)
    raise SystemExit(2)


def _take_place(options: Options, path: str) -> types.ModuleType:
    """Make `sys` look as when `python` had been given the program; the new `__main__`."""
    main = types.ModuleType("__main__")
    vars(main)["__builtins__"] = builtins
    if sys.version_info < (3, 14):  # which makes it of a program that has some
        vars(main)["__annotations__"] = {}
    main.__loader__ = importlib.machinery.BuiltinImporter
    first = _folder() if options.kind == "module" else ""
    if options.kind == "file":
        main.__loader__ = importlib.machinery.SourceFileLoader("__main__", path)
        first = os.path.dirname(os.path.realpath(path))
    if options.kind in ("file", "stdin"):
        main.__file__ = path
        vars(main)["__cached__"] = None
    letters = {kind: word for word, kind in KINDS.items()}
    sys.argv[:] = [letters.get(options.kind, options.program), *options.arguments]
    # In the place of the command's own folder, if it has one; collections are found in any case.
    module = getattr(sys.modules["__main__"], "__spec__", None) is not None  # `python -m npaccel`
    place = slice(0, 0 if sys.flags.safe_path or (module and not _folder()) else 1)
    collection = _is_collection(options, path)
    if collection or not sys.flags.safe_path:
        first = path if collection else first
        shadowed.load_before(first)
        sys.path[place] = [first] if first or options.kind != "module" else []
    # The module that was there is what runs this function: it must not die.
    vars(main)["__npaccel_command__"] = sys.modules["__main__"]
    sys.modules["__main__"] = main
    return main


OWN: Final = frozenset(f.__code__ for f in (launch, _start, _code, _converse))


def _show(hook: Callable[..., Any], kind: Any, error: Any, trace: Any) -> None:
    """Pass a traceback on without what ran before the program: the command, and this file."""
    entry, last = trace, None
    while entry is not None:
        last = entry if entry.tb_frame.f_code in OWN else last
        entry = entry.tb_next
    if last is not None:
        error.__traceback__ = trace = last.tb_next
    hook(kind, error, trace)


def _report(form: str, usage: Any) -> None:
    sys.stdout.flush()
    print(usage.json() if form == "json" else usage.text(), file=sys.stderr)
