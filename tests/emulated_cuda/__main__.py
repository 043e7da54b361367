"""Run a script whose backend `cuda` is emulated: python tests/emulated_cuda SCRIPT [ARGUMENTS]."""

from __future__ import annotations

import runpy
import sys
import tempfile
from pathlib import Path


def main() -> None:
    sys.path[0] = str(Path(__file__).parents[1])
    from emulated_cuda import Emulator, install

    with tempfile.TemporaryDirectory() as folder:
        install(Emulator(Path(folder)))
        del sys.argv[0]
        sys.path[0] = str(Path(sys.argv[0]).parent)
        runpy.run_path(sys.argv[0], run_name="__main__")


main()
