"""Runs the example programs with NumPy and with npaccel and tabulates what that changed.

Knows: the examples' two functions, `inputs` and `main`, and npaccel's public names.
Must not know: anything behind those names.
"""

from __future__ import annotations

import importlib.util
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from npaccel.errors import ConfigError

__all__ = ["Comparison", "Engine", "Outcome", "Program", "compare", "find_programs", "run", "show"]

# What an example may differ by, relative to its largest value, before we call it different.
TOLERANCE = {"f2": 1e-2, "f4": 1e-5, "f8": 1e-11, "c8": 1e-5, "c16": 1e-11}
# Beyond this many units in the last place a relative error says more.
MANY_ULP = 100
# The share of integers or truth values that may fall on the other side of a rounding or a limit.
FEW = 1e-3

Arrays = dict[str, np.ndarray[Any, Any]]


class Engine(Protocol):
    """What the demo needs of npaccel; the module `npaccel` itself, or a test's substitute."""

    def asarray(self, x: Any, /) -> Any: ...
    def accelerate(self) -> AbstractContextManager[Any]: ...
    def evaluate(self, *values: Any) -> Any: ...
    def stats(self, reset: bool = False) -> Mapping[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Program:
    """An example: its name and its two functions."""

    name: str
    inputs: Callable[..., Arrays]
    main: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Whether two results are the same, in words; `ok` is false only for a real difference."""

    ok: bool
    words: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """One program's row. Times in seconds; counts are those of one call, None if not counted."""

    name: str
    comparison: Comparison
    numpy_s: float = math.nan
    first_s: float = math.nan
    steady_s: float = math.nan
    kernels: int | None = None
    fallbacks: int | None = None

    @property
    def speedup(self) -> float:
        return self.numpy_s / self.steady_s


def find_programs(names: Sequence[str] = ()) -> list[Program]:
    """The example programs called `names`, or all of them by name.

    Raises
    ------
    ConfigError : there is no example of that name; the text lists those that exist.
    """
    here = Path(__file__).parent
    folder = here / "_examples" if (here / "_examples").is_dir() else here.parent / "examples"
    files = {path.stem: path for path in sorted(folder.glob("*.py"))}
    unknown = [name for name in names if name not in files]
    if unknown:
        raise ConfigError(f"no example {', '.join(unknown)}; there are: {', '.join(files)}")
    modules = {name: load(files[name]) for name in (names or files)}
    return [Program(name, module.inputs, module.main) for name, module in modules.items()]


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"npaccel_example_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(
    program: Program,
    engine: Engine,
    arrays: Arrays,
    repeats: int = 5,
    *,
    unchanged: bool = False,
) -> Outcome:
    """Time `program` with NumPy and with `engine`, turn and turn about.

    unchanged : the engine gets the arrays as they are, in an `accelerate` block; else wrapped.
    """
    wrapped = arrays
    if not unchanged:
        wrapped = {name: engine.asarray(value) for name, value in arrays.items()}

    def with_numpy() -> tuple[Any, ...]:
        return as_tuple(program.main(**arrays))

    def with_engine() -> tuple[Any, ...]:
        with engine.accelerate() if unchanged else nullcontext():
            results = as_tuple(program.main(**wrapped))
        engine.evaluate(*results)
        return results

    expected = with_numpy()
    first_s, results = timed(with_engine)
    comparison = compare(expected, results)
    # What is compiled in the background arrives during these calls.
    for _ in range(2):
        with_engine()
    del expected, results
    engine.stats(reset=True)
    pairs = [(timed(with_numpy)[0], timed(with_engine)[0]) for _ in range(repeats)]
    counts = engine.stats(reset=True)
    return Outcome(
        program.name,
        comparison,
        numpy_s=statistics.median(pair[0] for pair in pairs),
        first_s=first_s,
        steady_s=statistics.median(pair[1] for pair in pairs),
        kernels=per_call(counts.get("kernels"), repeats),
        fallbacks=per_call(counts.get("fallbacks"), repeats),
    )


def per_call(count: int | None, calls: int) -> int | None:
    return None if count is None else round(count / calls)


def as_tuple(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def timed(call: Callable[[], tuple[Any, ...]]) -> tuple[float, tuple[Any, ...]]:
    start = time.perf_counter()
    results = call()
    return time.perf_counter() - start, results


def compare(expected: Sequence[Any], results: Sequence[Any]) -> Comparison:
    """How far `results` are from `expected`: the worst of all pairs, in words."""
    if len(expected) != len(results):
        return Comparison(False, f"DIFFERS: {len(results)} results, not {len(expected)}")
    worst, words = 0.0, "identical"
    for want, have in zip(expected, results, strict=True):
        badness, text = difference(np.asarray(want), np.asarray(have))
        if badness > worst:
            worst, words = badness, text
    return Comparison(worst <= 1.0, words if worst <= 1.0 else f"DIFFERS: {words}")


def difference(want: np.ndarray[Any, Any], have: np.ndarray[Any, Any]) -> tuple[float, str]:
    """(0 for identical, at most 1 for as good as identical, else more; the same in words)."""
    if want.dtype != have.dtype:
        return math.inf, f"{have.dtype}, not {want.dtype}"
    if want.shape != have.shape:
        return math.inf, f"shape {have.shape}"
    if want.tobytes() == have.tobytes():
        return 0.0, "identical"
    if want.dtype.kind not in "fc":
        wrong = int(np.count_nonzero(want != have))
        return wrong / want.size / FEW, f"{wrong} of {want.size}"
    if not np.array_equal(np.isfinite(want), np.isfinite(have)):
        return math.inf, "inf or nan"
    finite = np.isfinite(want)
    error = np.abs(want[finite] - have[finite])
    relative = float(error.max(initial=0.0) / (np.abs(want[finite]).max(initial=0.0) or 1.0))
    badness = max(relative / TOLERANCE.get(want.dtype.str[1:], 1e-11), 1e-300)
    ulp = largest_ulp(want[finite], have[finite])
    return badness, f"{ulp} ULP" if ulp <= MANY_ULP else f"rel {relative:.0e}"


def largest_ulp(want: np.ndarray[Any, Any], have: np.ndarray[Any, Any]) -> int:
    """The largest distance in units in the last place; complex numbers by their parts."""
    if want.dtype.kind == "c":
        want, have = want.view(want.real.dtype), have.view(have.real.dtype)
    if want.dtype.itemsize > 8:
        return MANY_ULP + 1
    signed = np.dtype(f"i{want.dtype.itemsize}")
    a, b = (ordered(np.ascontiguousarray(x).view(signed)) for x in (want, have))
    gap = np.where(a > b, a - b, b - a).astype(np.uint64)
    return int(gap.max(initial=0))


def ordered(bits: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Integers that count floats upwards through zero, from the floats' own bits."""
    return np.where(bits < 0, np.iinfo(bits.dtype).min - bits, bits)


def run_all(
    programs: Sequence[Program],
    engine: Engine,
    console: Console,
    arguments: Mapping[str, Mapping[str, Any]],
    repeats: int,
    *,
    unchanged: bool = False,
) -> tuple[list[Outcome], list[str]]:
    """Outcomes, and the reasons why programs were left out. `arguments`: of `inputs`, by name."""
    outcomes, left_out = [], []
    columns = (TextColumn("{task.description:24}"), BarColumn(), TextColumn("{task.completed}"))
    # No refreshing thread: it would run during the timed calls.
    quiet = not console.is_terminal
    with Progress(
        *columns, console=console, transient=True, auto_refresh=False, disable=quiet
    ) as progress:
        task = progress.add_task("", total=len(programs))
        for program in programs:
            progress.update(task, description=program.name, refresh=True)
            try:
                arrays = program.inputs(**arguments.get(program.name, {}))
            except ModuleNotFoundError as missing:
                left_out.append(f"{program.name}: needs {missing.name} (pip install npaccel[demo])")
            except ValueError as error:
                raise ConfigError(f"{program.name}: {error}") from error
            else:
                outcomes.append(run(program, engine, arrays, repeats, unchanged=unchanged))
            progress.advance(task)
    return outcomes, left_out


def show(outcomes: Sequence[Outcome], left_out: Sequence[str], console: Console) -> None:
    """Print the table, and the sum of it in a line."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("program", no_wrap=True)
    table.add_column("same result?", no_wrap=True)
    for heading in ("NumPy", "first call", "steady", "speed-up", "kernels", "fallbacks"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in outcomes:
        style = "green" if row.comparison.ok else "bold red"
        table.add_row(
            row.name,
            f"[{style}]{row.comparison.words}[/]",
            *(in_units(seconds) for seconds in (row.numpy_s, row.first_s, row.steady_s)),
            f"[bold]{row.speedup:.1f}x[/]",
            *("-" if count is None else str(count) for count in (row.kernels, row.fallbacks)),
        )
    console.print(table)
    for line in left_out:
        console.print(f"left out {line}", markup=False)
    if outcomes:
        mean = math.exp(statistics.fmean(math.log(row.speedup) for row in outcomes))
        same = sum(row.comparison.words == "identical" for row in outcomes)
        console.print(
            f"{len(outcomes)} programs: {mean:.1f} times as fast in the geometric mean; "
            f"{same} identical to the last bit.",
            highlight=False,
        )


def in_units(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} us"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.2f} s "
