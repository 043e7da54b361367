"""Install a wheel where there is no compiler, run the demo and chosen tests there.

    python tools/wheel_check.py WHEEL PYTHON              in an empty virtual environment
    python tools/wheel_check.py WHEEL bookworm            in a root that debootstrap makes (as root)

The root has Debian's smallest system and its Python, whose version the wheel must be for. Packages
are downloaded outside, as wheels only, and installed from that folder.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "wheels"
NEEDED = ("pytest>=8", "pytest-timeout>=2", "hypothesis>=6.100")
DEMO = ("heat", "returns", "softmax", "black_scholes")
# What would differ first: code of the block tier, last bits, touches, children, the command line.
TESTS = (
    "runtime/engine/test_block_tier.py",
    "runtime/engine/test_fold_order.py",
    "dispatch/test_nan_signs.py",
    "dispatch/test_draws.py",
    "safety/test_life_cycle.py",
    "safety/test_calls_through_addresses.py",
    "test_children.py",
    "test_array_programs.py",
)
COMPILERS = ("cc", "gcc", "clang", "c99", "tcc")


def run(*words: str | Path, folder: Path = WORK, path: str | None = None) -> None:
    """Run a command; with `path`, where nothing else of this environment is known."""
    print("+", *words, flush=True)
    home = {"HOME": "/tmp", "LANG": "C.UTF-8", "TERM": "dumb"}
    environment = None if path is None else {"PATH": path, **home}
    subprocess.run([str(w) for w in words], check=True, cwd=folder, env=environment)


def download(python: str | Path, wheel: Path, folder: Path) -> None:
    """All packages that the wheel and the tests need, as wheels."""
    folder.mkdir(parents=True, exist_ok=True)
    words = ("--quiet", "--only-binary", ":all:", "--dest", folder)
    run(python, "-m", "pip", "download", *words, wheel, *NEEDED)


def tests_in(folder: Path) -> list[str]:
    """A copy of the tests, without the package's source beside it; those to run."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "tests", folder / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    shutil.copytree(ROOT / "bench", folder / "bench", ignore=shutil.ignore_patterns("__pycache__"))
    return [f"tests/{name}" for name in TESTS]


def in_environment(wheel: Path, python: str) -> None:
    """What was downloaded for this interpreter, in an environment that has nothing else."""
    place = WORK / "check" / wheel.stem
    download(python, wheel, place / "packages")
    shutil.rmtree(place / "venv", ignore_errors=True)
    run(python, "-m", "venv", place / "venv")
    made = place / "venv" / "bin"
    chosen = tests_in(place / "source")
    if any(shutil.which(name, path=str(made)) for name in COMPILERS):
        raise SystemExit("there is a compiler")
    offline = ("--quiet", "--no-index", "--find-links", place / "packages")
    run(made / "python", "-m", "pip", "install", *offline, wheel, *NEEDED, path=str(made))
    run(made / "npaccel", "demo", *DEMO, path=str(made))
    words = ("-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen)
    run(made / "python", *words, folder=place / "source", path=str(made))


def in_root(wheel: Path, suite: str) -> None:
    """The same in a root of Debian's, which has no compiler either."""
    root = WORK / "roots" / suite
    if not (root / "usr").exists():
        run("debootstrap", "--variant=minbase", "--include=python3,python3-venv", suite, root)
    if any(shutil.which(name, path=str(root / "usr" / "bin")) for name in COMPILERS):
        raise SystemExit(f"{root} has a compiler")
    version = wheel.name.split("-")[2].removeprefix("cp")
    python = shutil.which(f"python{version[0]}.{version[1:]}") or sys.executable
    shutil.rmtree(root / "check", ignore_errors=True)
    download(python, wheel, root / "check" / "packages")
    chosen = tests_in(root / "check" / "source")
    shutil.copy(wheel, root / "check" / "packages")
    offline = "pip install --quiet --no-index --find-links packages npaccel " + " ".join(
        f"'{name}'" for name in NEEDED
    )
    (root / "check" / "run").write_text(
        "set -e; cd /check; python3 -m venv venv; . venv/bin/activate\n"
        f"{offline}\n"
        f"npaccel demo {' '.join(DEMO)}\n"
        f"cd source; python -m pytest -q -p no:cacheprovider {' '.join(chosen)}\n",
        encoding="utf-8",
    )
    with ExitStack() as mounted:
        for kind in ("proc", "dev"):
            run("mount", "--rbind", f"/{kind}", root / kind)
            mounted.callback(run, "umount", "--lazy", root / kind)
        words = ("chroot", root, "sh", "/check/run")
        run(*words, path="/usr/sbin:/usr/bin:/sbin:/bin")


def main() -> None:
    """What `make wheel-check` calls."""
    wheel, where = Path(sys.argv[1]).resolve(), sys.argv[2]
    (in_environment if os.sep in where or where.startswith("python") else in_root)(wheel, where)


if __name__ == "__main__":
    main()
