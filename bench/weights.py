"""Does a line cost what a profile says? Kernels of a few lines, whole and with one line left out.

    python bench/weights.py [--size 100000] [--threads 1] [--only NAME;...] [--passes 6]
    python bench/weights.py --operations

A line is left out by giving its result's name to an array that is there anyway, as a rule one that
other lines read. `says` is its part of the kernel's time in a profile, `is` by how much the kernel
takes less without it, both in percent of the kernel's time; `off` is their difference. Parts add up
to the kernel's time, and what lines save when they are left out does not: processors do several
things at once, and what lines share stays. So the last line says, too, of how many lines any parts
could be that near. Shortest times of several passes over all kernels are compared.

`--operations` compares the costs that are counted in the bodies of the operation table with what
an operation more takes in a kernel, both in what `exp` takes.
"""

from __future__ import annotations

import argparse
import itertools
import linecache
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import npaccel
from npaccel.ir.kinds import Kind
from npaccel.observe.hindrances import limits
from npaccel.observe.weights import Machine, Rule

# By name: lines, as the result, what computes it, and what stands in its place ("": it stays).
# x, y, z are doubles, f, g singles, i, j integers, c, d complex ones. A sum keeps its dimension, so
# that it waits as everything else: `b.sum()` would be computed while `a` is held, and store that.
KERNELS: dict[str, list[tuple[str, str, str]]] = {
    "exp, then products": [("a", "np.exp(x)", "y"), ("r", "a * y * z + a", "a")],
    "sine and root": [("a", "np.sin(x)", "y"), ("r", "np.sqrt(a * a + y)", "a")],
    "logarithm and quotient": [("a", "np.log(x)", "y"), ("r", "a / (y + z)", "a")],
    "two functions": [("a", "np.exp(x)", "y"), ("b", "np.log(y)", "x"), ("r", "a + b", "")],
    "power and tanh": [("a", "x ** 2.5", "x"), ("r", "np.tanh(a)", "a")],
    "arctan2 and cosine": [("a", "np.arctan2(x, y)", "z"), ("r", "np.cos(a) * z", "a")],
    "hypot and log1p": [("a", "np.hypot(x, y)", "x"), ("r", "np.log1p(a)", "a")],
    "polynomial and exp": [
        ("a", "((((x * y + z) * x + y) * x + z) * x + y) * x + z", "x"), ("r", "np.exp(a)", "a")],
    "two polynomials": [
        ("a", "((((x * y + z) * x + y) * x + z) * x + y) * x + z", "y"),
        ("r", "((((a * y - z) * a + y) * a - z) * a + y) * a - z", "a")],
    "roots": [("a", "np.sqrt(x + y)", "z"), ("b", "np.sqrt(a + z)", "a"), ("r", "a / b", "b")],
    "Black-Scholes' inside": [
        ("a", "(np.log(x / y) + z) / np.sqrt(z)", "x"), ("b", "np.exp(-z * y)", "z"),
        ("r", "a * b + x", "a")],
    "sum of squares": [
        ("a", "(x - y) ** 2", "x"), ("b", "np.exp(-a)", "a"),
        ("r", "b.sum(keepdims=True)", "b")],
    "softmax's inside": [("a", "np.exp(x - y)", "z"), ("b", "a / z", "a"), ("r", "b + a", "b")],
    "cube roots": [("a", "np.cbrt(x)", "y"), ("r", "np.cbrt(a * y)", "a")],
    "sinh and arctan": [("a", "np.sinh(x - y)", "z"), ("r", "np.arctan(a) * z", "a")],
    "choice": [("a", "np.exp(x)", "y"), ("r", "np.where(y > z, a, a * 0.5)", "a")],
    "distances": [
        ("a", "np.sqrt(x * x + y * y + z * z)", "x"), ("b", "1.0 / (a * a * a)", "a"),
        ("r", "b * x", "b")],
    "singles": [("a", "np.exp(f)", "g"), ("r", "np.sqrt(a * g + f)", "a")],
    "integers": [("a", "i // j", "j"), ("r", "a * j + i", "a")],
    "complex": [("a", "c * c + d", "c"), ("b", "a / d", "a"), ("r", "b * c", "b")],
}  # fmt: skip


def inputs(size: int) -> dict[str, Any]:
    """Arrays by name, wrapped."""
    rng = np.random.default_rng(1)
    made: dict[str, Any] = {name: rng.random(size) + 0.5 for name in "xyz"}
    made |= {name: (rng.random(size) + 0.5).astype("f4") for name in "fg"}
    made |= {name: rng.integers(1, 1000, size) for name in "ij"}
    made |= {name: rng.random(size) + 1j * rng.random(size) for name in "cd"}
    return {name: npaccel.asarray(array) for name, array in made.items()}


def function(name: str, lines: list[tuple[str, str, str]], skip: int) -> Callable[..., Any]:
    """The program, a line each, without line `skip`."""
    rows = ["def run(x, y, z, f, g, i, j, c, d):"]
    for number, (result, text, instead) in enumerate(lines):
        rows.append(f"    {result} = {instead if number == skip else text}")
    rows.append("    return r")
    file = f"<{name} without {skip}>"
    linecache.cache[file] = (1, None, [row + "\n" for row in rows], file)
    scope: dict[str, Any] = {"np": np}
    exec(compile("\n".join(rows), file, "exec"), scope)
    return scope["run"]


def profiled(run: Callable[..., Any], arrays: dict[str, Any], times: int) -> dict[int, float]:
    """Seconds in kernels of a call, by line; line 0: of the whole."""
    with tempfile.TemporaryDirectory() as folder, npaccel.profile(Path(folder) / "a") as taken:
        for _ in range(times):
            npaccel.evaluate(run(**arrays))
    found = {line.line: line.seconds.get("kernels", 0.0) / times for line in taken.profile.lines
             if line.file.startswith("<")}  # fmt: skip
    return found | {0: sum(found.values())}


class Measured:
    """A kernel as it is, and without each of its lines."""

    def __init__(self, name: str) -> None:
        self.lines = KERNELS[name]
        self.skipped = [-1, *(number for number, line in enumerate(self.lines) if line[2])]
        self.variants = [function(name, self.lines, skip) for skip in self.skipped]
        self.found: list[list[dict[int, float]]] = [[] for _ in self.variants]

    def run(self, arrays: dict[str, Any], rounds: int, times: int) -> None:
        for run in self.variants:
            profiled(run, arrays, 3)
        for _ in range(rounds):
            for own, run in zip(self.found, self.variants, strict=True):
                own.append(profiled(run, arrays, times))

    def rows(self) -> Iterator[tuple[str, float, float]]:
        """Of each line its text, what a profile says and what it is, in parts of the kernel."""
        whole = min(one[0] for one in self.found[0])
        for place, number in enumerate(self.skipped[1:], 1):
            result, text, _ = self.lines[number]
            says = statistics.median(one.get(number + 2, 0.0) / one[0] for one in self.found[0])
            without = min(one[0] for one in self.found[place])
            yield f"{result} = {text}", 100 * says, 100 * (1 - without / whole)


def reachable(took: Sequence[float], *, more: bool, of_kernel: bool) -> int:
    """Of how many lines of a kernel parts that add up to 100 can be within 25 %.

    more : there are lines besides these, which may have any part.
    of_kernel : 25 % of the kernel's time; else of the line's.
    """

    def bounds(is_: float) -> tuple[float, float]:
        return (max(is_ - 25, 0), is_ + 25) if of_kernel else (0.75 * is_, is_ / 0.75)

    fits = [0]
    for number in range(1, len(took) + 1):
        for chosen in itertools.combinations(took, number):
            low, high = (sum(ends) for ends in zip(*map(bounds, chosen), strict=True))
            free = more or number < len(took)
            if (of_kernel or min(chosen) > 0) and low <= 100 and (free or high >= 100):
                fits.append(number)
    return max(fits)


FUNCTIONS = (
    "exp expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh cbrt "
    "sqrt reciprocal arctan2 hypot power divide maximum fmod remainder floor_divide"
)


def operations(dtype: str) -> None:
    """What each takes in a kernel that has four more of them, less the additions among these."""
    npaccel.config.threads = 1
    rows, size = 32, 8192
    rng = np.random.default_rng(1)
    x, y = (npaccel.asarray((rng.random(size) * 0.4 + 0.5).astype(dtype)) for _ in "xy")

    def seconds(function: Callable[..., Any], times: int) -> float:
        taken = []
        for _ in range(25):
            begin = time.perf_counter()
            wide = np.broadcast_to(x, (rows, size))
            total = function(wide * 0.9, y)
            for number in range(1, times):
                total = total + function(wide * (0.9 - 0.02 * number), y)
            float(total.max())
            taken.append(time.perf_counter() - begin)
        return min(taken) / (rows * size)

    def more(function: Callable[..., Any]) -> float:
        return (seconds(function, 5) - seconds(function, 1)) / 4

    added, unit = more(lambda a, b: a) / 2, 0.0  # a product and a sum
    machine = Machine.of(limits(1))
    for name in FUNCTIONS.split():
        ufunc = getattr(np, name)
        cost = machine.cost(Rule(name, Kind.MAP, (dtype,) * (ufunc.nin + 1)))
        took = more(lambda a, b, f=ufunc: f(*(a, b)[: f.nin])) - 2 * added
        unit = unit or took / cost
        print(f"{name:14}{1e9 * took:8.3f} ns {took / unit:6.0f}{cost:6.0f} counted")


def main() -> int:
    parser = argparse.ArgumentParser(description="a profile's shares against measured ones")
    parser.add_argument("--size", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--passes", type=int, default=6, help="over all kernels")
    parser.add_argument("--times", type=int, default=4)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--operations", default="", nargs="?", const="f8", help="their dtype")
    parser.add_argument("--only", default="", help="names of kernels, with semicolons")
    options = parser.parse_args()
    npaccel.config.tiering, npaccel.config.threshold = "eager", 0
    if options.operations:
        operations(options.operations)
        return 0
    npaccel.config.threads = options.threads
    names = options.only.split(";") if options.only else KERNELS
    measured, arrays = {name: Measured(name) for name in names}, inputs(options.size)
    for _ in range(options.passes):
        for one in measured.values():
            one.run(arrays, options.rounds, options.times)
    near, close, could, could_own, total = 0, 0, 0, 0, 0
    for name, one in measured.items():
        print(f"{name}\n{'':50}{'says':>7}{'is':>7}{'off':>7}")
        rows = list(one.rows())
        took_all, more = [row[2] for row in rows], len(rows) < len(one.lines)
        could += reachable(took_all, more=more, of_kernel=True)
        could_own += reachable(took_all, more=more, of_kernel=False)
        for text, says, took in rows:
            print(f"  {text[:46]:48}{says:7.0f}{took:7.0f}{says - took:+7.0f}", flush=True)
            total += 1
            near += abs(says - took) <= 25
            close += abs(says - took) <= 0.25 * max(says, took)
    print(f"of {total} lines, {near} within 25 % of the kernel's time ({could} can be)")
    print(f"and {close} within 25 % of the line's own ({could_own} can be)")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
