"""Kernels that programs need, their code, and how the code of two versions differs.

    python tools/kernels.py collect KERNELS COMMAND...    texts of all kernels that COMMAND plans
    python tools/kernels.py write KERNELS CODE [COUNT]    the code of some of them
    python tools/kernels.py compare CODE OTHER            what differs between two such folders

Run `write` with each version's interpreter. It writes LLVM's IR and the machine code made of it,
for three kinds of vectors, and OpenCL C for processors and for other devices. Which COUNT kernels
are taken depends on their names alone, which are digests.
"""

from __future__ import annotations

import collections
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from npaccel.backends.llvm.printer import write_source as write_llvm
from npaccel.backends.llvm.target import Host
from npaccel.backends.opencl.printer import Device
from npaccel.backends.opencl.printer import write_source as write_opencl
from npaccel.errors import CompileError
from npaccel.ir.nodes import Kernel
from npaccel.ir.parse import parse_kernel

# Runs in every process that COMMAND starts, so also where kernels are compiled.
HOOK = """\
import os, npaccel.ir.text as text
folder, body_text = os.environ["KERNELS_FOLDER"], text.body_text
def kept(kernel):
    made = body_text(kernel)
    path = os.path.join(folder, text.kernel_name(made))
    if not os.path.exists(path):
        with open(f"{path}.{os.getpid()}", "w") as file:
            file.write(made)
        os.replace(file.name, path)
    return made
text.body_text = kept
"""
HOSTS = (("", 0), ("x86-64-v3", 32), ("x86-64-v2", 16))
DEVICES = {"cl64": Device(64), "cl32": Device(32), "cl0": Device(0), "groups": Device(0, "", 128)}
# What names stand for, if anything: in IR, in OpenCL C, and labels.
NAMES = re.compile(r"[%@][\w.]+|\b[a-z]+\d+\b|\.L\w+")
MOST = 10  # rows that are shown


def collect(folder: Path, command: list[str]) -> None:
    """Run `command`; the texts of its kernels lie in `folder` afterwards."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        Path(place, "sitecustomize.py").write_text(HOOK)
        paths = [place, *filter(None, [os.environ.get("PYTHONPATH")])]
        settings = {"PYTHONPATH": os.pathsep.join(paths), "KERNELS_FOLDER": str(folder.resolve())}
        subprocess.run(command, env=os.environ | settings, check=True)
    print(f"{len(os.listdir(folder))} kernels")


def write(folder: Path, code: Path, count: int) -> None:
    """Code of `count` kernels of `folder`: a file per kernel and form."""
    code.mkdir(parents=True, exist_ok=True)
    hosts = [Host(*which) for which in HOSTS]
    for name in sorted(os.listdir(folder))[:count]:
        kernel = parse_kernel((folder / name).read_text())
        for form, make in _forms(kernel, hosts):
            try:
                text = make()
            except CompileError as error:
                text = f"rejected: {error}\n"
            (code / f"{name}.{form}").write_text(text)


def _forms(kernel: Kernel, hosts: list[Host]) -> Iterator[tuple[str, Callable[[], str]]]:
    for host in hosts:
        text = write_llvm(kernel, host.vector_bytes, fence=host.fence)
        yield f"ll{host.vector_bytes}", lambda text=text: text
        yield f"s{host.vector_bytes}", lambda host=host, text=text: host.emit_assembly(text)
    for form, device in DEVICES.items():
        yield form, lambda device=device: write_opencl(kernel, device)


def compare(code: Path, other: Path) -> None:
    """Per form: how many are the same but for names, and how many lines those have that differ."""
    found: dict[str, list[tuple[float, str]]] = collections.defaultdict(list)
    same: collections.Counter[str] = collections.Counter()
    for path in sorted(code.iterdir()):
        form, theirs = path.suffix, other / path.name
        if not theirs.exists():
            continue
        before, after = path.read_text(), theirs.read_text()
        if _plain(before) == _plain(after):
            same[form] += 1
        else:
            found[form].append((len(after.splitlines()) / len(before.splitlines()), path.stem))
    for form in sorted({*found, *same}):
        rows = sorted(found[form])
        print(f"{form[1:]:8} same {same[form]}, different {len(rows)}")
        if rows:
            print(f"         lines: median {statistics.median(r for r, _ in rows):.3f} of before")
            ends = rows if len(rows) <= MOST else [*rows[: MOST // 2], *rows[-MOST // 2 :]]
            print("        ", ", ".join(f"{name} {ratio:.3f}" for ratio, name in ends))


def _plain(text: str) -> str:
    """`text` with names by the order in which they appear."""
    known: dict[str, str] = {}
    return NAMES.sub(lambda found: known.setdefault(found[0], f"n{len(known)}"), text)


def main(what: str, first: str, *others: str) -> None:
    """The command line."""
    if what == "collect":
        collect(Path(first), list(others))
    elif what == "write":
        write(Path(first), Path(others[0]), int(others[1]) if others[1:] else sys.maxsize)
    else:
        compare(Path(first), Path(others[0]))


if __name__ == "__main__":
    main(*sys.argv[1:])
