"""The host as a backend: what registry.py opens under the name ``llvm``.

LLVM itself is loaded when something has to be compiled: it takes 80 MB and a tenth of a second.
"""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from npaccel import _native, system
from npaccel.backends.base import Capabilities, Compiled, Loaded
from npaccel.backends.loaded import load_image
from npaccel.backends.speeds import Speeds
from npaccel.errors import BackendUnavailable, CompileError

if TYPE_CHECKING:
    from npaccel.ir.nodes import Kernel

__all__ = ["LlvmBackend"]


class LlvmBackend:
    """Compiles kernels with LLVM for the machine this process runs on.

    Raises
    ------
    BackendUnavailable : llvmlite is not installed.
    """

    name = "llvm"
    capabilities = Capabilities()

    def __init__(self) -> None:
        if find_spec("llvmlite") is None:
            raise BackendUnavailable("llvm: there is no module llvmlite; install it")
        self.identity, self.vector_bytes = _native.cpu()
        self._compiler: Any = None
        self._host: Any = None

    @property
    def fingerprint(self) -> str:
        """Text that changes whenever stored object code would not do any more."""
        return str(self._loaded().fingerprint)

    @property
    def device(self) -> str:
        """The processor, as LLVM names it."""
        return str(self._loaded().cpu)

    def compile(self, kernel: Kernel) -> Compiled:
        """Compile and load; raises CompileError."""
        host = self._loaded()
        compiled: Compiled = self._compiler.compile_kernel(kernel, host)
        return compiled

    def emit_object(self, kernel: Kernel) -> bytes:
        """Object code for `link`, here or where the fingerprint is the same."""
        host = self._loaded()
        image: bytes = self._compiler.emit_image(kernel, host)[0]
        return image

    def source(self, kernel: Kernel) -> str:
        """The LLVM IR of `kernel`, as LLVM gets it."""
        host = self._loaded()
        return str(self._compiler.write_source(kernel, host.vector_bytes, fence=host.fence))

    def link(self, kernel: Kernel, image: bytes) -> Compiled:
        """Load object code that `emit_object` made of the same kernel."""
        return self.bind(kernel, self.load(image, self.symbols(kernel), self.vector_bytes))

    def load(self, image: bytes, symbols: tuple[str, ...], vector_bytes: int) -> Loaded:
        """Load object code; what the core's loader does not take, with LLVM's linker."""
        try:
            return load_image(image, symbols, vector_bytes)
        except CompileError:
            host = self._loaded()
            linked: Loaded = self._compiler.link_image(image, symbols, host, vector_bytes)
            return linked

    def symbols(self, kernel: Kernel) -> tuple[str, ...]:
        """Functions that the object code of `kernel` defines."""
        symbols: tuple[str, ...] = self._kernels().symbols_of(kernel)
        return symbols

    def bind(self, kernel: Kernel, loaded: Loaded) -> Compiled:
        """What `loaded`, made of this very kernel, needs to know to be launched."""
        compiled: Compiled = self._kernels().bind(kernel, loaded)
        return compiled

    def measure(self, threads: int) -> Speeds:
        """How fast kernels run on so many threads."""
        measured: Speeds = importlib.import_module("npaccel.backends.launch").measure(self, threads)
        return measured

    @staticmethod
    def _kernels() -> Any:
        # The emitter's modules, which a process that only runs stored programs never needs.
        return importlib.import_module("npaccel.backends.llvm.compiled")

    def _loaded(self) -> Any:
        if self._host is None:
            try:
                self._compiler = importlib.import_module("npaccel.backends.llvm.compile")
                target = importlib.import_module("npaccel.backends.llvm.target")
            except ImportError as error:
                raise BackendUnavailable(f"llvm: {error}; install llvmlite") from error
            self._host = target.Host(vector_bytes=self.vector_bytes)
            system.hold(target.ffi.lib._lock)  # LLVM's
        return self._host
