"""Compile the C core for systems that are not at hand, and link nothing.

    python tools/portable_check.py [--work build/portable-check] [TARGET ...]

Clang of PyPI's `ziglang` has the C libraries' headers of these systems. Python's and NumPy's
headers are copies of this interpreter's, with the sizes of the target's types; what they have of
Linux is taken out. So this shows that the core's own lines ask for nothing that the target's C
library, C11 and POSIX threads do not declare, and that types have the sizes that they are taken
for. It does not show that anything links, loads or runs, nor what the target's own Python declares
otherwise.

The interpreter needs what the build needs: two headers are made by the build's tools.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "npaccel"
NATIVE = PACKAGE / "native"
FLAGS = "-std=gnu11 -O1 -ffp-contract=off -fexceptions -pthread -Wall -Wextra -Werror"
# What GCC, which builds the wheels, does not warn of either; and pragmas that are for GCC.
FLAGS += " -Wno-missing-field-initializers -Wno-unknown-pragmas"
# Settings of this interpreter that hold for others, too.
KEPT = re.compile(
    r"#define (SIZEOF_|ALIGNOF_|WITH_|Py_|PY_|STDC_|HAVE_(LONG_LONG|SSIZE_T|STD|UINTPTR|WCHAR_H))"
)
STAT = ("HAVE_SYS_TYPES_H", "HAVE_SYS_STAT_H")
POSIX = (*STAT, "HAVE_PTHREAD_H", "HAVE_SYS_TIME_H", "HAVE_UNISTD_H")
WINDOWS = (*STAT, "MS_WINDOWS", "MS_WIN64", "NT_THREADS")
LLP64 = {"LONG": 4, "WCHAR_T": 2, "PID_T": 4, "OFF_T": 4}


class Target(NamedTuple):
    """folders: of system/ and of processor/, loops/. sizes: of types, where Linux has others."""

    portable: bool
    processor: str
    loops: str
    settings: tuple[str, ...]
    sizes: dict[str, int]


TARGETS = {
    "aarch64-linux-gnu": Target(False, "aarch64", "plain", (), {}),
    "x86_64-linux-gnu": Target(True, "plain", "plain", (), {}),
    "x86_64-macos": Target(True, "plain", "plain", POSIX, {"PTHREAD_KEY_T": 8}),
    "aarch64-macos": Target(True, "plain", "plain", POSIX, {"LONG_DOUBLE": 8, "PTHREAD_KEY_T": 8}),
    "x86_64-windows-gnu": Target(True, "plain", "plain", WINDOWS, LLP64),
}


def sources(target: Target) -> list[Path]:
    """As npaccel/meson.build has them."""
    system = "portable" if target.portable else "linux"
    found = [*NATIVE.glob("*/*.c"), *(NATIVE / "system" / system).glob("*.c")]
    found += (NATIVE / "loops" / target.loops).glob("*.c")
    return sorted([*found, NATIVE / "system" / "processor" / f"{target.processor}.c"])


def _resized(text: str, target: Target, prefix: str) -> str:
    for name, size in target.sizes.items():
        text = re.sub(rf"(#define {prefix}SIZEOF_{name}) \d+", rf"\1 {size}", text)
    return text


def headers(target: Target, folder: Path) -> None:
    """Python's and NumPy's, as the target might have them."""
    import numpy as np

    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(sysconfig.get_path("include"), folder)
    shutil.copytree(Path(np.get_include()) / "numpy", folder / "numpy")
    if not target.settings:
        return
    text = Path(sysconfig.get_config_h_filename()).read_text(encoding="utf-8")
    kept = "\n".join(line for line in text.splitlines() if KEPT.match(line))
    added = "\n".join(f"#define {name} 1" for name in target.settings)
    made = f"#ifndef Py_PYCONFIG_H\n#define Py_PYCONFIG_H\n{_resized(kept, target, '')}\n{added}\n"
    (folder / "pyconfig.h").write_text(f"{made}#endif\n", encoding="utf-8")
    sizes = folder / "numpy" / "_numpyconfig.h"
    text = sizes.read_text(encoding="utf-8").replace("#define NPY_HAVE_ENDIAN_H 1", "")
    sizes.write_text(_resized(text, target, "NPY_"), encoding="utf-8")


def made_headers(folder: Path) -> None:
    """Those that the build makes."""
    folder.mkdir(parents=True, exist_ok=True)
    words = {"drawing_tables": PACKAGE, "operation_names": PACKAGE}
    words["native_docs"] = PACKAGE / "_native.pyi"
    for name, given in words.items():
        tool = ROOT / "tools" / f"{name}.py"
        subprocess.run([sys.executable, tool, given, folder / f"{name}.h"], check=True, cwd=ROOT)


def compiled(name: str, work: Path, zig: Path) -> Iterator[str]:
    """Compile each file for that target; yields what the compiler says of those it rejects."""
    target, cache = TARGETS[name], str(work / "cache")
    headers(target, work / name / "include")
    words = [zig, "-m", "ziglang", "cc", "-target", name, *FLAGS.split(), f"-I{NATIVE}"]
    words += [f"-I{work / 'made'}", "-isystem", work / name / "include"]
    words += ["-DNPA_PORTABLE"] if target.portable else []
    (work / name / "objects").mkdir(exist_ok=True)

    def one(path: Path) -> str:
        out = work / name / "objects" / "-".join(path.relative_to(NATIVE).with_suffix(".o").parts)
        found = subprocess.run(
            [*words, "-c", path, "-o", out],
            env=os.environ | {"ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache},
            capture_output=True,
            text=True,
            check=False,
        )
        return found.stderr if found.returncode else ""

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield from filter(None, pool.map(one, sources(target)))


def main() -> None:
    """What `make portable-check` calls."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "portable-check")
    parser.add_argument("target", nargs="*", help=f"of {', '.join(TARGETS)}; default: all")
    given = parser.parse_args()
    work = given.work.resolve()
    zig = work / "zig" / "bin" / "python"
    if not zig.exists():
        subprocess.run([sys.executable, "-m", "venv", work / "zig"], check=True)
        words = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "ziglang")
        subprocess.run([zig, *words], check=True)
    made_headers(work / "made")
    failed = False
    for name in given.target or TARGETS:
        rejected = list(compiled(name, work, zig))
        failed |= bool(rejected)
        print(*rejected, sep="\n", end="" if not rejected else "\n")
        print(f"{name}: {len(sources(TARGETS[name]))} files, {len(rejected)} rejected", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
