"""The system's C compiler."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from npaccel import _native
from npaccel.config import c_compiler
from npaccel.errors import BackendUnavailable, CompileError

__all__ = ["Compiler"]

BUILD_SECONDS = 60.0
# As IEEE has it: no contraction, rounding to nearest; flags and errno are nobody's concern.
OPTIONS = (
    "-std=gnu11",
    "-O2",
    "-fPIC",
    "-march=native",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-stack-protector",
    "-fno-asynchronous-unwind-tables",
    "-w",
)
# Vectors as wide as registers, which compilers hold to be slower.
WIDE = {64: ["-mprefer-vector-width=512"], 32: ["-mprefer-vector-width=256"]}


class Compiler:
    """Made once and kept.

    Attributes
    ----------
    identity : text that changes whenever code made here would not do any more
    """

    def __init__(self) -> None:
        command = shlex.split(c_compiler())
        path = shutil.which(command[0]) if command else None
        if path is None:
            name = command[0] if command else c_compiler()
            raise BackendUnavailable(f"c: there is no compiler {name!r}; CC names another")
        self._command = [path, *command[1:], *OPTIONS]
        processor, self.vector_bytes = _native.cpu()
        if platform.machine().lower() in ("x86_64", "amd64"):
            self._command += WIDE.get(self.vector_bytes, [])
        self.version = self._run(["--version"]).splitlines()[0]
        self.identity = f"c {processor} {self.version} {' '.join(self._command)}"

    def _run(self, arguments: list[str], text: str = "") -> str:
        try:
            done = subprocess.run(
                [*self._command, *arguments],
                input=text,
                capture_output=True,
                text=True,
                timeout=BUILD_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CompileError(f"c: the compiler did not end well: {error}") from error
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if "error" in line]
            why = " ".join(lines[:2]) or f"it ended with {done.returncode}"
            raise CompileError(f"c: a kernel was rejected: {why}")
        return done.stdout

    def build(self, source: str) -> bytes:
        """Object code of a file; raises CompileError."""
        with tempfile.TemporaryDirectory(prefix="npaccel-c-") as folder:
            target = os.path.join(folder, "kernel.o")
            self._run(["-c", "-x", "c", "-", "-o", target], source)
            return Path(target).read_bytes()
