"""Every peer on the same programs: each in a process of its own, by turns; and the roofline.

    python bench/peers.py [--peers PYTHON] [--seeds] [--rounds N] [--calls N] [--rows ROW,...]

In its turn each calls the program `--calls` times and one more, which is not counted: it had slept.

`--peers` is an interpreter with Numba, JAX, PyTorch and Dr.Jit (which finds LLVM by
DRJIT_LIBLLVM_PATH); what is missing is left out with the reason. `--seeds` runs the other programs,
with one and two threads, warnings on and off. *roofline* is the share of the nearer limit: bytes
that must move against a copy's speed, operations of npaccel's kernels (a function counts as those
that it is made of) against additions in registers, both measured in this run.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from bandwidth import make_additions, make_copy
from harness import ROOT, Skip, machine, quartiles, relative_error
from rows import ROWS, SEEDS, Row

PEERS = ("numba", "jax", "torch", "drjit", "numexpr")
OURS = ("numpy", "npaccel", "npaccel macro")
SEED_OURS = ("numpy", "npaccel", "npaccel ignore", "npaccel 1", "npaccel 1 ignore")
MOST_S = 40  # that a peer may take for one call, compiling included
Make = Callable[[Row, dict[str, Any]], Callable[[], Any]]


def with_namespace(function: Callable[..., Any], np_of_peer: Any) -> Callable[..., Any]:
    """The same text where `np` is something else, in the functions that it calls, too."""
    known: dict[str, Any] = dict(function.__globals__)
    for name, value in function.__globals__.items():
        if callable(value) and getattr(value, "__globals__", None) is function.__globals__:
            known[name] = type(value)(value.__code__, known, name, value.__defaults__)
    known["np"] = np_of_peer
    made: Callable[..., Any] = known[function.__name__]
    return made


def run_numpy(row: Row, arrays: dict[str, Any]) -> Callable[[], Any]:
    return lambda: row.function(**arrays)


def run_npaccel(row: Row, arrays: dict[str, Any]) -> Callable[[], Any]:
    import npaccel

    def call() -> Any:
        with npaccel.accelerate():
            result = row.function(**arrays)
            npaccel.evaluate(*(result if isinstance(result, tuple) else (result,)))
        return result

    return call


def run_macro(row: Row, arrays: dict[str, Any]) -> Callable[[], Any]:
    import npaccel

    section = npaccel.macro(row.function)
    given = [npaccel.asarray(value) for value in arrays.values()]

    def call() -> Any:
        result = section(*given)
        npaccel.evaluate(*(result if isinstance(result, tuple) else (result,)))
        return result

    return call


def run_numexpr(row: Row, arrays: dict[str, Any]) -> Callable[[], Any]:
    import numexpr

    if not row.text:
        raise Skip("no expression of NumExpr's")
    return lambda: numexpr.evaluate(row.text, arrays)


def run_numba(row: Row, arrays: dict[str, Any]) -> Callable[[], Any]:
    import numba

    function = with_namespace(row.function, np)
    known: dict[str, Any] = function.__globals__
    for name, value in list(known.items()):
        if value is not function and getattr(value, "__globals__", None) is known:
            known[name] = numba.njit(inline="always")(value)
    compiled = numba.njit(parallel=True)(function)
    return lambda: compiled(*arrays.values())


def run_jax(row: Row, arrays: dict[str, Any]) -> Callable[[], Any]:
    import jax

    jax.config.update("jax_enable_x64", True)
    there = {name: jax.numpy.asarray(value) for name, value in arrays.items()}
    compiled = jax.jit(with_namespace(row.function, jax.numpy))
    return lambda: jax.block_until_ready(compiled(**there))


def run_torch(row: Row, arrays: dict[str, Any]) -> Callable[[], Any]:
    import torch

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    compiled = torch.compile(row.function)
    return lambda: compiled(**arrays)


def run_drjit(row: Row, arrays: dict[str, Any]) -> Callable[[], Any]:
    import drjit
    from drjit.llvm import Float64

    names = {name: getattr(drjit, name) for name in ("sin", "cos", "exp", "log", "sqrt", "abs")}
    function = with_namespace(row.function, SimpleNamespace(where=drjit.select, **names))
    there = {name: Float64(value) for name, value in arrays.items()}
    drjit.eval(*there.values())

    def call() -> Any:
        result = function(**there)
        drjit.eval(result)
        drjit.sync_thread()
        return result

    return call


MAKES: dict[str, Make] = {
    "numpy": run_numpy, "npaccel": run_npaccel, "numexpr": run_numexpr, "numba": run_numba,
    "jax": run_jax, "torch": run_torch, "drjit": run_drjit,
}  # fmt: skip


# ---------------------------------------------------------------------------- one peer's process


def operations(row: Row, arrays: dict[str, Any]) -> int:
    """Of npaccel's kernels for the row, without warnings; loads and constants are none."""
    import npaccel
    from npaccel.ir.scalar import Core, usual

    none = {Core.CONST, Core.LOAD, Core.SCALAR, Core.INDEX, Core.ROW, Core.SCRATCH}
    with np.errstate(all="ignore"):
        section = npaccel.macro(row.function)
        section(*[npaccel.asarray(value) for value in arrays.values()])
        told = npaccel.explain(section)
    kernels, total = iter(told.kernels), 0
    for step in told.steps:
        if step.kernel:
            nodes = [usual(leaf.roots) for leaf in next(kernels).leaves if not leaf.row]
            points = int(np.prod(step.band + step.inner, dtype=np.int64))
            total += points * sum(node.op not in none for each in nodes for node in each)
    return total


def serve(name: str, rows: tuple[Row, ...]) -> None:
    """Answer a line of JSON for each that comes: the row, and the seconds of its next calls."""
    peer, *more = name.split()
    if peer == "npaccel":
        import npaccel

        npaccel.config.tiering = "eager"
    found = {row.name: row for row in rows}
    calls: dict[str, Callable[[], Any]] = {}
    for line in sys.stdin:
        asked = json.loads(line)
        row = found[asked["row"]]
        ignored = row.quiet or "ignore" in more
        with np.errstate(all="ignore") if ignored else contextlib.nullcontext():
            if asked.get("first"):
                answer = first(row, peer, more, calls, asked["save"])
            else:
                answer = {"s": [seconds(calls[row.name]) for _ in range(asked["calls"] + 1)][1:]}
        print(json.dumps(answer), flush=True)


def seconds(call: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    result = call()
    took = time.perf_counter() - begin
    del result
    return took


def first(
    row: Row, peer: str, more: list[str], calls: dict[str, Callable[[], Any]], save: str
) -> dict[str, Any]:
    """The first call, whose result is kept in a file; or why there is none."""
    arrays = row.inputs()
    make = run_macro if "macro" in more else MAKES[peer]
    try:
        if peer in PEERS and peer not in (*row.peers, "numexpr"):
            raise Skip("its text is not NumPy's here")
        calls.clear()
        calls[row.name] = make(row, arrays)
        begin = time.perf_counter()
        result = calls[row.name]()
        took = time.perf_counter() - begin
        results = result if isinstance(result, tuple | list) else (result,)
        np.savez(save, *[np.array(x, dtype=np.float64) for x in results])
        for _ in range(3):
            calls[row.name]()
        count = operations(row, arrays) if peer == "npaccel" and not more else 0
    except Exception as reason:  # of many packages; the table says which
        return {"skipped": f"{type(reason).__name__}: {reason}".splitlines()[0][:120]}
    return {"first_s": took, "operations": count}


class Peer:
    """A process that runs rows; another one where it has ended."""

    def __init__(self, name: str, python: str, *, seeds: bool) -> None:
        self.name, self.python, self.seeds = name, python, seeds
        self.start()

    def start(self) -> None:
        name, python, seeds = self.name, self.python, self.seeds
        command = [python, __file__, "--serve", name, *(["--seeds"] if seeds else [])]
        settings = dict(os.environ)
        if "1" in name.split():
            settings |= {"NPACCEL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True, env=settings,
        )  # fmt: skip

    def ask(self, **what: Any) -> dict[str, Any]:
        assert self.process.stdin is not None and self.process.stdout is not None
        if self.process.poll() is not None:
            return {"skipped": "its process has ended"}
        print(json.dumps(what), file=self.process.stdin, flush=True)
        if not select.select([self.process.stdout], [], [], MOST_S)[0]:
            self.process.kill()
            return {"skipped": f"{what['row']}: no answer in {MOST_S} s"}
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"skipped": "its process has ended"}


# ------------------------------------------------------------------------------------ the table


def measure(
    row: Row, peers: list[Peer], rounds: int, calls: int, limits: tuple[float, float]
) -> dict[str, Any]:
    """Medians of a row, and what share of the roofline; limits: bytes, operations a second."""
    results: dict[str, Any] = {}
    skipped, wanted = {}, None
    with tempfile.TemporaryDirectory() as folder:
        for peer in peers:
            save = f"{folder}/result.npz"
            if peer.process.poll() is not None:
                peer.start()
            answer = peer.ask(row=row.name, first=True, save=save)
            if "skipped" in answer:
                skipped[peer.name] = answer["skipped"]
                continue
            with np.load(save) as kept:
                found = [kept[name] for name in kept.files]
            wanted = found if wanted is None else wanted
            shaped = [x.reshape(y.shape) for x, y in zip(found, wanted, strict=True)]
            error = relative_error(wanted, shaped)
            results[peer.name] = answer | {"error": error, "wrong": error > row.tolerance}
    ready = [peer for peer in peers if peer.name in results]
    samples: dict[str, list[float]] = {peer.name: [] for peer in ready}
    for number in range(rounds):
        at = number % len(ready)
        for peer in ready[at:] + ready[:at]:
            samples[peer.name] += peer.ask(row=row.name, calls=calls)["s"]
    count = results.get("npaccel", {}).get("operations", 0)
    narrow = 2 if any(x.dtype == np.float32 for x in row.inputs().values()) else 1
    least = max(row.moved / limits[0], count / (limits[1] * narrow))
    bound = "memory" if least == row.moved / limits[0] else "arithmetic"
    for name, times in samples.items():
        results[name] |= quartiles(times)
        results[name]["roofline"] = least / results[name]["median_s"]
    return {"results": results, "skipped": skipped, "operations": count, "bound": bound}


def show(row: Row, found: dict[str, Any], names: list[str]) -> None:
    results = found["results"]
    cells = [f"{results[n]['median_s'] * 1e3:.2f}" + "!" * results[n]["wrong"] if n in results
             else "-" for n in names]  # fmt: skip
    ours = results.get("npaccel", {}).get("roofline", 0.0)
    print(f"| {row.name} | {' | '.join(cells)} | {ours:.0%} {found['bound']} |", flush=True)


def speed(call: Callable[[], Any], amount: float) -> float:
    """The best of some calls: a limit."""
    times = []
    for _ in range(9):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return amount / min(times)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", default=sys.executable, help="the interpreter that has them")
    parser.add_argument("--seeds", action="store_true", help="the other programs")
    parser.add_argument("--rounds", type=int, default=11, help="turns of each")
    parser.add_argument("--calls", type=int, default=5, help="in a turn")
    parser.add_argument("--rows", help="names of rows, or their beginnings")
    parser.add_argument("--only", help="contenders, separated by commas")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    rows = SEEDS if options.seeds else ROWS
    if options.serve:
        serve(options.serve, rows)
        return 0
    names = list((SEED_OURS if options.seeds else OURS) + PEERS)
    names = [n for n in names if not options.only or n in options.only.split(",")]
    peers = [
        Peer(name, options.peers if name in PEERS else sys.executable, seeds=options.seeds)
        for name in names
    ]
    limits = speed(make_copy(1 << 26), 2 << 26), speed(*make_additions())
    print(f"copy {limits[0] / 1e9:.1f} GB/s; additions {limits[1] / 1e9:.0f} G/s (f8); ms:")
    print(f"| program | {' | '.join(names)} | roofline |\n|{'---|' * (len(names) + 2)}")
    report: dict[str, Any] = {"machine": machine(), "copy": limits[0], "additions": limits[1]}
    for row in rows:
        if not options.rows or any(row.name.startswith(n) for n in options.rows.split(",")):
            report[row.name] = measure(row, peers, options.rounds, options.calls, limits)
            show(row, report[row.name], names)
    for peer in peers:
        assert peer.process.stdin is not None
        peer.process.stdin.close()
        peer.process.wait()
    done = [row for name, row in report.items() if isinstance(row, dict) and "results" in row]
    shares = [row["results"]["npaccel"]["roofline"] for row in done if "npaccel" in row["results"]]
    if shares:
        print(f"median share of the roofline {statistics.median(shares):.0%}")
    reasons = {f"{n}: {why}" for row in done for n, why in row["skipped"].items()}
    print("left out:", "; ".join(sorted(reasons)) or "nothing")
    path = options.json or ROOT / ".bench" / ("seeds.json" if options.seeds else "peers.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n")
    return int(any(r["wrong"] for row in done for r in row["results"].values()))


if __name__ == "__main__":
    sys.exit(main())
