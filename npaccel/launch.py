"""`npaccel run`: a script or module, run as `python` runs it, with every plain array recorded.

Knows how Python starts a program and how it ends one. Must not know what is recorded.
"""

from __future__ import annotations

import atexit
import builtins
import functools
import importlib.machinery
import io
import os
import runpy
import signal
import sys
import time
import types
import zipfile
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, NoReturn

from npaccel import api
from npaccel.errors import ConfigError

__all__ = ["HELP", "Options", "launch", "parse"]

HELP: Final = """\
usage: npaccel run [--report] [--min-size BYTES] [--backend NAME] SCRIPT [ARGUMENT ...]
       npaccel run [...] -m MODULE [ARGUMENT ...]

Run a program unchanged, with large NumPy arrays computed by npaccel.

  --report          afterwards, say on stderr where the time went and what NumPy computed
  --min-size BYTES  record operations on arrays of at least so many bytes
  --backend NAME    what runs them
"""


FOLDER: Final = os.path.dirname(__file__) + os.sep


class Options(NamedTuple):
    """What the command line of `npaccel run` says."""

    program: str
    arguments: Sequence[str]
    is_module: bool = False
    report: bool = False
    min_size: int | None = None
    backend: str | None = None


def parse(words: Sequence[str]) -> Options | None:
    """Read the words after ``npaccel run``; what follows the program is the program's own.

    None: help was asked for.

    Raises
    ------
    ConfigError : an option that there is not, or no program.
    """
    options: dict[str, Any] = {}
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] not in ("-m", "--"):
        word, _, value = rest.pop(0).partition("=")
        if word in ("-h", "--help"):
            return None
        if word == "--report":
            options["report"] = True
        elif word in ("--min-size", "--backend"):
            if not value and not rest:
                raise ConfigError(f"{word} needs a value")
            options[word[2:].replace("-", "_")] = value or rest.pop(0)
        else:
            raise ConfigError(f"npaccel run has no option {word}; see npaccel run --help")
    is_module = rest[:1] == ["-m"]
    rest = rest[1:] if rest[:1] in (["-m"], ["--"]) else rest
    if not rest:
        raise ConfigError("npaccel run needs a script or -m and a module; see npaccel run --help")
    return Options(rest[0], rest[1:], is_module, **options)


def launch(options: Options) -> None:
    """Run the program; returns at its end, or raises what it raised."""
    try:
        block = api.accelerate_everywhere(options.min_size, options.backend)
    except ConfigError as error:
        _stop(f"npaccel: {error}")
    path = _absolute(options.program)
    code = None if options.is_module else _read(path, options.program)
    _take_place(options, path)
    if options.report:
        report = functools.partial(_report, time.perf_counter(), api.watch_usage())
        atexit.register(report)  # after the program's own functions that were registered so
    signal.signal(signal.SIGINT, signal.default_int_handler)
    block.__enter__()
    # It is never left: threads and exit functions of the program go on in it.
    try:
        _start(options, code)
    except BaseException:
        sys.excepthook = functools.partial(_show, sys.excepthook)
        raise


def _start(options: Options, code: types.CodeType | None) -> None:
    if code is not None:
        exec(code, vars(sys.modules["__main__"]))
    elif options.is_module:
        runpy._run_module_as_main(options.program)  # type: ignore[attr-defined]
    else:  # a folder or an archive that holds __main__.py
        runpy._run_module_as_main("__main__", False)  # type: ignore[attr-defined]


def _absolute(path: str) -> str:
    """As `python` shows it in tracebacks: not resolved, not tidied."""
    return os.path.join(os.getcwd(), path.removeprefix("./"))


def _read(path: str, given: str) -> types.CodeType | None:
    """The script's code; None for a folder or archive.

    Exits with one line, as `python` does, when there is nothing to read.
    """
    if _is_collection(path):
        return None
    try:
        with io.open_code(path) as file:
            source = file.read()
    except OSError as error:
        _stop(f"npaccel: can't open file {given!r}: [Errno {error.errno}] {error.strerror}")
    try:
        return compile(source, path, "exec", dont_inherit=True)
    except SyntaxError:
        sys.excepthook = functools.partial(_show, sys.excepthook)
        raise


def _is_collection(path: str) -> bool:
    return os.path.isdir(path) or zipfile.is_zipfile(path)


def _stop(message: str) -> NoReturn:
    print(message, file=sys.stderr)
    raise SystemExit(2)


def _take_place(options: Options, path: str) -> None:
    """Make `sys` look as when `python` had been given the program."""
    main = types.ModuleType("__main__")
    vars(main).update(__builtins__=builtins, __annotations__={})
    sys.argv[:] = ["-m" if options.is_module else options.program, *options.arguments]
    first = os.getcwd()
    if not options.is_module:
        main.__file__ = path
        main.__loader__ = importlib.machinery.SourceFileLoader("__main__", path)
        vars(main)["__cached__"] = None
        first = path if _is_collection(path) else os.path.dirname(os.path.realpath(path))
    if not getattr(sys.flags, "safe_path", False):
        sys.path[:1] = [first]  # in the place of the command's own folder
    # The module that was there is what runs this function: it must not die.
    vars(main)["__npaccel_command__"] = sys.modules["__main__"]
    sys.modules["__main__"] = main


def _show(hook: Callable[..., Any], kind: Any, error: Any, trace: Any) -> None:
    """Pass a traceback on without the frames that only `npaccel run` has."""
    frames: list[Any] = []
    while trace is not None:
        own = trace.tb_frame.f_code.co_filename.startswith(FOLDER)
        # What ran before this file did: the command, or `python -m`.
        frames = [] if trace.tb_frame.f_code is launch.__code__ else frames
        frames += [] if own else [trace]
        trace = trace.tb_next
    for entry in reversed(frames):
        trace = types.TracebackType(trace, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    error.__traceback__ = trace
    hook(kind, error, trace)


def _report(start: float, usage: Callable[[float], str]) -> None:
    sys.stdout.flush()
    print(usage(time.perf_counter() - start), file=sys.stderr)
