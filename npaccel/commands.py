"""The commands demo, devices, cluster and cache, and what --help and --version say."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import numpy as np

import npaccel
from npaccel import __version__
from npaccel.caches.store import Store
from npaccel.errors import NpaccelError
from npaccel.later import later
from npaccel.system import processors

if TYPE_CHECKING:
    from rich import console as consoles
    from rich.console import Console

    from npaccel import demo
    from npaccel.cluster import dask_local
    from npaccel.observe import profile, profile_page, profile_text, profile_trace
else:
    consoles = later("rich.console")
    dask_local = later("npaccel.cluster.dask_local")
    demo = later("npaccel.demo")
    profile = later("npaccel.observe.profile")
    profile_page = later("npaccel.observe.profile_page")
    profile_text = later("npaccel.observe.profile_text")
    profile_trace = later("npaccel.observe.profile_trace")

__all__ = ["main"]

PIPED_WIDTH = 100
SAMPLE_ROWS = 20_000
ADDRESS = "127.0.0.1:8786"  # of a cluster's scheduler; the port is dask's
PROFILE = "npaccel.profile"  # what `npaccel profile` writes


def main(words: Sequence[str]) -> int:
    """Run a command line but for its first word, `npaccel`; return the exit status."""
    options = make_parser().parse_args(words)
    width = None if sys.stdout.isatty() else PIPED_WIDTH
    console = consoles.Console(width=width, highlight=False)
    try:
        return int(options.command(options, console))
    except BrokenPipeError:
        return 1
    except (NpaccelError, OSError) as error:
        print(f"npaccel: {error}", file=sys.stderr)
        return 2


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="npaccel", description="NumPy programs, faster.")
    parser.add_argument("--version", action="version", version=f"npaccel {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    run = add_command(commands, "demo", "run the example programs with and without npaccel")
    run.add_argument("names", nargs="*", metavar="EXAMPLE", help="which ones (default: all)")
    run.add_argument("--file", type=Path, help="your own table: .csv, .txt or .npy")
    run.add_argument("--repeats", type=positive, default=5, help="timed calls (default: 5)")
    run.add_argument(
        "--accelerate", action="store_true", help="in an accelerate() block, with plain arrays"
    )
    run.set_defaults(command=run_demo)
    add_command(commands, "run", "run a script or module with its arrays computed by npaccel")
    add_profile_actions(
        add_command(commands, "profile", "run a program and say where its time goes, by line")
    )
    add_command(commands, "bisect", "find the operation that makes a program print something else")
    devices = add_command(commands, "devices", "what npaccel finds here, and its settings")
    devices.set_defaults(command=show_devices)
    add_cluster_actions(add_command(commands, "cluster", "workers on which arrays can live"))
    cache = add_command(commands, "cache", "what is kept on disk; or clear, prune, verify it")
    cache.add_argument(
        "action",
        nargs="?",
        choices=("show", "clear", "prune", "verify"),
        help="show (the default): where it is and what it holds; clear: delete all; prune: delete "
        "the least recently used beyond the limit; verify: read all, delete what is damaged",
    )
    cache.set_defaults(command=manage_cache)
    return parser


def add_command(commands: Any, name: str, purpose: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=purpose, description=f"{purpose[0].upper()}{purpose[1:]}."
    )
    return parser


def add_cluster_actions(command: argparse.ArgumentParser) -> None:
    actions = command.add_subparsers(required=True, metavar="ACTION")
    start = add_command(
        actions, "start", "have a scheduler and workers of dask on this machine, until Ctrl-C"
    )
    start.add_argument(
        "--workers", type=positive, metavar="N", help="processes (default: one per processor)"
    )
    start.add_argument(
        "--address",
        default=ADDRESS,
        metavar="HOST:PORT",
        help=f"where the scheduler listens (default: {ADDRESS}); port 0: any that is free",
    )
    start.add_argument(
        "--threads",
        type=positive,
        default=1,
        metavar="K",
        help="that dask's tasks and BLAS may use in a worker (default: 1); npaccel's kernels run "
        "on one",
    )
    start.set_defaults(command=start_cluster)


def start_cluster(options: argparse.Namespace, console: Console) -> int:
    def tell(address: str, workers: int) -> None:
        print(
            f"{count(workers, 'worker', 'workers')} at {address}; end them with Ctrl-C\n"
            f"  npaccel run --cluster {address} script.py\n"
            f'  cluster = npaccel.Cluster("{address}")',
            flush=True,
        )
        host = urlsplit(address).hostname
        if host not in ("127.0.0.1", "::1"):
            print(
                f"npaccel: who can reach {host} can run programs as you; TLS is `dask scheduler`'s",
                file=sys.stderr,
            )

    number = options.workers if options.workers is not None else processors()
    dask_local.serve(number, options.address, options.threads, tell)
    return 0


def add_profile_actions(command: argparse.ArgumentParser) -> None:
    """To run a program is not among them: cli.py does that."""
    actions = command.add_subparsers(required=True, metavar="ACTION")
    show = add_command(actions, "show", "what a profile says: what to do, lines, kernels")
    show.add_argument("--trace", metavar="FILE", help="write it for Chrome's or Perfetto's viewer")
    show.add_argument("--html", metavar="FILE", help="write it as a page")
    compare = add_command(actions, "compare", "how two profiles differ, by line")
    for action in (show, compare):
        action.add_argument("--json", action="store_true", help="for programs, in one line")
    show.add_argument(
        "profile", metavar="PROFILE", nargs="?", default=PROFILE, help=f"default: {PROFILE}"
    )
    for name in ("before", "after"):
        compare.add_argument(name, metavar="PROFILE")
    show.set_defaults(command=show_profile)
    compare.set_defaults(command=compare_profiles)


def show_profile(options: argparse.Namespace, console: Console) -> int:
    found = profile.read(options.profile)
    written = {options.trace: profile_trace.trace, options.html: profile_page.page}
    for path, make in written.items():
        if path is not None:
            Path(path).write_text(make(found), encoding="utf-8", errors="backslashreplace")
            print(f"written to {path}")
    if options.json:
        print(profile_text.show_json(found))
    elif options.trace is None and options.html is None:
        print(profile_text.show(found))
    return 0


def compare_profiles(options: argparse.Namespace, console: Console) -> int:
    before, after = profile.read(options.before), profile.read(options.after)
    compare = profile_text.compare_json if options.json else profile_text.compare
    print(compare(before, after))
    return 0


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {text}")
    return number


def run_demo(options: argparse.Namespace, console: Console) -> int:
    # The table tells what compiled code does; a few calls would be over before it is there.
    npaccel.config.tiering = "eager"
    names = list(options.names)
    if options.file is not None and names and "table" not in names:
        names.append("table")
    programs = demo.find_programs(names)
    console.print(f"npaccel {__version__}, {describe_machine()}")
    arguments: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="npaccel-demo-") as folder:
        if any(program.name == "table" for program in programs):
            path = options.file or write_sample(Path(folder), programs, console)
            arguments["table"] = {"path": path}
        engine = cast(demo.Engine, npaccel)
        outcomes, left_out = demo.run_all(
            programs, engine, console, arguments, options.repeats, unchanged=options.accelerate
        )
    demo.show(outcomes, left_out, console)
    return 0 if all(outcome.comparison.ok for outcome in outcomes) else 1


def write_sample(folder: Path, programs: Sequence[demo.Program], console: Console) -> Path:
    """A small table for the example that reads a file, when the user named none."""
    path = folder / "sample.csv"
    table = next(program for program in programs if program.name == "table")
    columns = table.inputs(SAMPLE_ROWS)["table"]
    names = ",".join(f"column{i}" for i in range(columns.shape[1]))
    np.savetxt(path, columns, fmt="%.6f", delimiter=",", header=names, comments="")
    console.print(
        f"The example 'table' reads a file; none was named with --file, so it gets a sample of "
        f"{SAMPLE_ROWS} rows.",
        markup=False,
        soft_wrap=True,
    )
    return path


def describe_machine() -> str:
    cores = processors()
    return f"NumPy {np.__version__}, Python {platform.python_version()}, {cores} cores"


def show_devices(options: argparse.Namespace, console: Console) -> int:
    print(f"npaccel {__version__}", npaccel.devices(), sep="\n")
    return 0


def manage_cache(options: argparse.Namespace, console: Console) -> int:
    """Show or mend the cache folder that the settings name, also while they switch it off."""
    config, problems = npaccel.config, list[str]()
    store = Store(config.cache_dir, config.cache_limit, problems.append)
    why = store.problem() if os.path.exists(store.folder) else None
    if why is not None:
        print(f"npaccel: the folder {store.folder} {why}", file=sys.stderr)
        return 2
    bad = 0
    if options.action == "clear":
        print(f"{count(store.clear(), 'entry', 'entries')} deleted")
    elif options.action == "prune":
        print(f"{count(store.prune(), 'entry', 'entries')} deleted")
    elif options.action == "verify":
        good, bad = store.verify()
        print(f"{count(good, 'entry', 'entries')} good, {bad} damaged and deleted")
    else:
        entries = store.entries()
        total = sum(entry.size for entry in entries)
        state = "" if config.cache == "on" else " (switched off by config.cache)"
        print(f"folder   {store.folder}{state}")
        print(f"entries  {len(entries)}")
        print(f"bytes    {total:,} of at most {store.limit:,}")
        print(f"hits     {store.hits()}")
    return 1 if bad else 0


def count(number: int, singular: str, plural: str) -> str:
    """ "1 entry", "2 entries"."""
    return f"{number} {singular if number == 1 else plural}"
