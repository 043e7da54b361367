"""A backend of another package: the host as a machine with AVX2 and vectors of 16 bytes.

All that a backend for the host needs: a name, two texts that identify its code, and something that
compiles. Registered by the entry point in this folder.
"""

from npaccel.backends.base import Capabilities
from npaccel.backends.llvm.compile import bind, emit_image, link_kernel, symbols_of
from npaccel.backends.llvm.target import Host
from npaccel.backends.loaded import load_image


class NarrowBackend:
    name = "narrow"
    device = "x86-64-v3"
    vector_bytes = 16
    capabilities = Capabilities()

    def __init__(self):
        self._host = Host(self.device, self.vector_bytes)
        self.identity = self.fingerprint = f"narrow 1.0 {self._host.fingerprint}"

    def compile(self, kernel):
        return self.link(kernel, self.emit_object(kernel))

    def emit_object(self, kernel):
        return emit_image(kernel, self._host)[0]

    def link(self, kernel, image):
        return link_kernel(kernel, image, self._host)

    def load(self, image, symbols, vector_bytes):
        return load_image(image, symbols, vector_bytes)

    def symbols(self, kernel):
        return symbols_of(kernel)

    def bind(self, kernel, loaded):
        return bind(kernel, loaded)
