"""Test a wheel for aarch64 under QEMU's user mode, with Debian's Python 3.11 for that machine.

    python tools/emulated.py dist/npaccel-*-cp311-*_aarch64.whl [ARGUMENTS OF PYTEST]

Needs Debian's `qemu-user-static` and its package lists; packages of that machine are unpacked
beside them, not installed. Without arguments it runs the chosen tests. What it does not show is in
docs/devices.md.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from wheel_check import NEEDED

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "emulated"
# Without vectors of any length: QEMU 7.2 refuses their loads from pages that have moved.
PROCESSOR = "neoverse-n1"
# An eighth of it is the guard's; all of 4 TiB would take the emulator 24 GB.
ADDRESS_SPACE = 32 << 30
LIBRARIES = """libc6 libgcc-s1 libstdc++6 libgfortran5 libexpat1 zlib1g libssl3 libffi8 liblzma5
    libbz2-1.0 libsqlite3-0 libuuid1 libncursesw6 libtinfo6 libreadline8 libcrypt1 libdb5.3"""
PYTHON = "python3.11-minimal libpython3.11-minimal libpython3.11-stdlib python3.11"
PLATFORMS = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_17", "manylinux2014")
TESTS = ("backends/test_kernel_maps.py", "backends/test_kernel_reductions.py")
TESTS += ("backends/test_masks_apart.py", "dispatch/test_indexing.py", "dispatch/small")


def run(*words: str | Path, folder: Path = ROOT) -> None:
    print("+", *words, flush=True)
    subprocess.run([str(w) for w in words], cwd=folder, check=True)


def unpack_debian(root: Path) -> None:
    """The C library and Python of Debian's arm64, below `root`."""
    lists, packages = WORK / "lists", WORK / "packages"
    for folder in (lists / "partial", packages):
        folder.mkdir(parents=True, exist_ok=True)
    options = ["APT::Architecture=arm64", "APT::Architectures=arm64"]
    options += [f"Dir::State::Lists={lists}", "Dir::State::status=/dev/null"]
    apt = ["apt-get", *(f"-o{option}" for option in options)]
    run(*apt, "update")
    run(*apt, "download", *PYTHON.split(), *LIBRARIES.split(), folder=packages)
    for package in packages.glob("*.deb"):
        run("dpkg", "-x", package, root)


def unpack_wheels(site: Path, wheel: Path) -> None:
    """The wheel and what it needs."""
    wheels = WORK / "wheels"
    words = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:"]
    words += ["--python-version", "3.11", "--implementation", "cp", "--dest", str(wheels)]
    words += [f"--platform={platform}_aarch64" for platform in PLATFORMS]
    run(*words, wheel, *NEEDED)
    shutil.rmtree(site, ignore_errors=True)
    for found in wheels.glob("*.whl"):
        if not found.name.startswith("npaccel-"):
            zipfile.ZipFile(found).extractall(site)
    zipfile.ZipFile(wheel).extractall(site)


def main() -> int:
    wheel, *arguments = sys.argv[1:]
    root, site = WORK / "root", WORK / "site"
    if not (root / "usr/bin/python3.11").exists():
        unpack_debian(root)
    unpack_wheels(site, Path(wheel).resolve())
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    words = ["qemu-aarch64-static", "-cpu", PROCESSOR, "-L", str(root)]
    words += [str(root / "usr/bin/python3.11"), "-s", "-P", "-m", "pytest", "-q", "--timeout=200"]
    words += arguments or [f"tests/{name}" for name in TESTS]
    more = {"PYTHONPATH": str(site), "TEST_BACKENDS": os.environ.get("TEST_BACKENDS", "llvm")}
    return subprocess.run(words, cwd=ROOT, env=os.environ | more, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
