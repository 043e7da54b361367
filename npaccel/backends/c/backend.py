"""The system's C compiler as a backend: what registry.py opens under the name ``c``."""

from __future__ import annotations

from npaccel.backends.base import Capabilities, Compiled, Loaded
from npaccel.backends.c.compile import bind, compile_kernel, emit_image, symbols_of
from npaccel.backends.c.printer import write_source
from npaccel.backends.c.target import Compiler
from npaccel.backends.launch import measure
from npaccel.backends.loaded import load_image
from npaccel.backends.speeds import Speeds
from npaccel.ir.nodes import Kernel

__all__ = ["CBackend"]


class CBackend:
    """Compiles kernels with the system's C compiler for the machine this process runs on.

    Raises
    ------
    BackendUnavailable : there is no compiler.
    """

    name = "c"
    capabilities = Capabilities()

    def __init__(self) -> None:
        self.compiler = Compiler()
        self.identity = self.fingerprint = self.compiler.identity
        self.vector_bytes = self.compiler.vector_bytes

    @property
    def device(self) -> str:
        """The compiler, as it names itself."""
        return self.compiler.version

    def source(self, kernel: Kernel) -> str:
        """What is compiled, for reading."""
        return write_source(kernel, self.vector_bytes)

    def compile(self, kernel: Kernel) -> Compiled:
        """Compile and load; raises CompileError."""
        return compile_kernel(kernel, self.compiler)

    def emit_object(self, kernel: Kernel) -> bytes:
        """Object code for `link`, here or where the fingerprint is the same."""
        return emit_image(kernel, self.compiler)[0]

    def link(self, kernel: Kernel, image: bytes) -> Compiled:
        """Load object code that `emit_object` made of the same kernel."""
        return self.bind(kernel, self.load(image, self.symbols(kernel), self.vector_bytes))

    def load(self, image: bytes, symbols: tuple[str, ...], vector_bytes: int) -> Loaded:
        """Load object code; needs no compiler."""
        return load_image(image, symbols, vector_bytes, "c")

    def symbols(self, kernel: Kernel) -> tuple[str, ...]:
        """Functions that the object code of `kernel` defines."""
        return symbols_of(kernel)

    def bind(self, kernel: Kernel, loaded: Loaded) -> Compiled:
        """What `loaded`, made of this very kernel, needs to know to be launched."""
        return bind(kernel, loaded)

    def measure(self, threads: int) -> Speeds:
        """How fast kernels run on so many threads."""
        return measure(self, threads)
