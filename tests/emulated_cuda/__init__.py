"""A stand-in for NVIDIA's driver, so that its backend is tested where there is no such device.

LLVM's IR of a kernel is what both have: the real driver gets PTX that LLVM makes of it, the
emulator the IR itself, for this processor. So what the printer, the core and the driver's callers
do is seen; what PTX does on a device is not.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from npaccel.backends.cuda import target as cuda
from npaccel.backends.cuda.driver import Driver
from npaccel.backends.llvm.target import Host
from npaccel.errors import CompileError

FOLDER = Path(__file__).parent
# An instruction that may round twice as one: PTX that does not say how it rounds.
CONTRACTED = re.compile(r"\b(add|sub|mul)\.(f16|f32|f64)\b|\bfma\.(?!rn)|\.approx|\.ftz|div\.full")
# NVIDIA's assembler, in PyPI's nvidia-cuda-nvcc-cu12; with it, all that is compiled is assembled.
PTXAS = os.environ.get("TEST_PTXAS", "")


class Emulator:
    """The library, and what its kernels were compiled to.

    texts : PTX of all that was compiled
    """

    def __init__(self, folder: Path) -> None:
        path = folder / "libcuda_emulated.so"
        command = [shutil.which("cc") or "cc", "-O1", "-g", "-shared", "-fPIC", "-pthread"]
        subprocess.run([*command, "-o", path, FOLDER / "emulator.c"], check=True)
        self.path = str(path)
        self.library = ctypes.CDLL(self.path, mode=ctypes.RTLD_GLOBAL)
        self._host, self.texts = Host(), list[str]()
        self._modules: dict[int, tuple[object, dict[str, int], bool]] = {}
        load = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_size_t)
        number = ctypes.POINTER(ctypes.c_int)
        find = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64, ctypes.c_char_p, number, number)
        self._kept = load(self._load), find(self._find)
        self.library.emulator_set(*self._kept)
        self.library.emulator_launches.restype = ctypes.c_int64
        self.library.emulator_used.restype = ctypes.c_size_t
        self.library.emulator_limit.argtypes = [ctypes.c_size_t]

    def driver(self, path: str = "") -> Driver:
        return Driver(self.path)

    def _load(self, at: int, size: int) -> int:
        text = ctypes.string_at(at, size).decode()
        arguments = {
            name: given.count("ptr")
            for name, given in re.findall(r"define ptx_kernel void @(\w+)\((.*?)\)", text)
        }
        try:
            image = self._host.emit_object(_for_host(text, arguments))
        except CompileError:
            return 0
        library = self._host.link(image, tuple(f"{name}_given" for name in arguments))
        self._modules[len(self._modules) + 1] = library, arguments, "barrier0" in text
        return len(self._modules)

    def _find(self, module: int, name: bytes, arguments: object, waits: object) -> int:
        library, symbols, has_barrier = self._modules[module]
        arguments[0], waits[0] = symbols[name.decode()], has_barrier
        return library[f"{name.decode()}_given"]


class Compiler:
    """LLVM for a device, whose code is kept; what the emulator runs is the IR."""

    def __init__(self, emulator: Emulator, real: Host) -> None:
        self._emulator, self._real = emulator, real

    def emit_assembly(self, source: str) -> str:
        text = self._real.emit_assembly(source)
        assert not CONTRACTED.search(text), CONTRACTED.search(text)
        if PTXAS:
            command = [PTXAS, "-arch=sm_80", "-o", "/dev/null", "-"]
            subprocess.run(command, input=text, text=True, check=True)
        self._emulator.texts.append(text)
        return source


def install(emulator: Emulator, replace: Callable[[object, str, object], None] = setattr) -> None:
    """The backend `cuda` uses the emulator; `replace` sets an attribute."""
    driver = emulator.driver()
    real = Host("sm_80", 16, cuda.TRIPLE)
    replace(cuda, "open_driver", lambda path="": driver)
    replace(cuda.Target, "compiler", property(lambda self: Compiler(emulator, real)))


def _for_host(text: str, arguments: dict[str, int]) -> str:
    """The module for this processor."""
    text = re.sub(r"target datalayout.*\n", "", text)
    text = text.replace("define ptx_kernel void", "define internal void")
    text = text.replace("internal addrspace(3) global", "internal global")
    text = re.sub(
        r"addrspacecast ptr addrspace\(3\) (@\w+) to ptr", r"getelementptr i8, ptr \1, i64 0", text
    )
    text = re.sub(r"@llvm\.nvvm\.read\.ptx\.sreg\.(\w+)\.x", r"@emulated_\1", text)
    text = text.replace("@llvm.nvvm.barrier0", "@emulated_barrier")
    text = re.sub(r'asm "mov\.b\d+ \$0, \$1;", "=\w,\w"', 'asm "", "=r,0"', text)
    return text + "".join(_given(name, count) for name, count in arguments.items())


def _given(name: str, count: int) -> str:
    """A function that calls a kernel function with arguments from memory."""
    lines = [f"define void @{name}_given(ptr %given) {{"]
    for k in range(count):
        lines.append(f"%at{k} = getelementptr ptr, ptr %given, i64 {k}")
        lines.append(f"%a{k} = load ptr, ptr %at{k}")
    passed = ", ".join(f"ptr %a{k}" for k in range(count))
    return "\n".join([*lines, f"call void @{name}({passed})", "ret void", "}", ""])
