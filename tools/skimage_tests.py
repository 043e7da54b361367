"""Puts scikit-image's own tests into the installed package, whose wheel has none.

Its sdist has them. pip builds an sdist that it downloads, which takes minutes."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path


def main() -> int:
    spec = importlib.util.find_spec("skimage")
    assert spec is not None and spec.origin is not None
    package = Path(spec.origin).parent
    if (package / "tests").exists():
        return 0
    version = importlib.metadata.version("scikit-image")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    with tempfile.TemporaryDirectory() as folder:
        wanted = ["--no-binary", "scikit-image", f"scikit-image=={version}"]
        subprocess.run([*pip, *wanted], cwd=folder, check=True)
        (sdist,) = Path(folder).glob("*.tar.gz")
        with tarfile.open(sdist) as archive:
            archive.extractall(folder, filter="data")
        (tests,) = Path(folder).glob("*/tests/skimage")
        shutil.copytree(tests, package / "tests")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
