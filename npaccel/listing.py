"""A run's operations and kernels, read back from what `npaccel.explain(x).ir` shows.

Knows the text and the interpreters of the IR; what is run on a backend is recorded anew.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from npaccel import api
from npaccel.errors import VerifyError
from npaccel.ir.nodes import BufferInfo, Kernel, Trace
from npaccel.ir.parse import parse_kernel, parse_trace
from npaccel.ir.reference.requests import kept, run_requests, show
from npaccel.ir.text import body_text, kernel_name
from npaccel.ir.verify import verify_kernel, verify_trace

__all__ = ["Listing"]

Array = np.ndarray[Any, Any]


class Listing:
    """What `npaccel.parse_ir` returns.

    Attributes
    ----------
    text : as it was given.
    trace : buffers, and requests on views of them, in program order.
    kernels : those that the plan runs, in the text's order.
    """

    trace: Trace
    kernels: tuple[Kernel, ...]

    def __init__(self, text: str) -> None:
        lines = text.strip("\n").splitlines()
        trace = [line for line in lines if line[:1] in ("b", "r") and line[1:2].isdigit()]
        starts = [at for at, line in enumerate(lines) if line.startswith("k_")]
        ends = [*starts[1:], len(lines)]
        if not trace:
            raise VerifyError("text: no line of a trace; explain(x).ir has one")
        self.text = text
        self.trace = parse_trace("\n".join(trace))
        self.kernels = tuple(
            parse_kernel("\n".join(lines[start:end]))
            for start, end in zip(starts, ends, strict=True)
        )

    def __repr__(self) -> str:
        named = ", ".join(kernel.name for kernel in self.kernels) or "no kernel"
        return f"Listing({len(self.trace.requests)} operations, {named})"

    @property
    def inputs(self) -> tuple[BufferInfo, ...]:
        """Buffers that hold something before the first operation, in the order of `run`."""
        return tuple(buffer for buffer in self.trace.buffers if not buffer.fresh)

    def verify(self) -> None:
        """Check that each view lies in its buffer, and each kernel is well formed.

        Raises
        ------
        VerifyError : what is wrong, and in which line.
        """
        verify_trace(self.trace)
        for kernel in self.kernels:
            verify_kernel(kernel)
            found = kernel_name(body_text(kernel))
            if kernel.name != found:
                raise VerifyError(f"text: kernel {kernel.name} is another one now: {found}")

    def run(self, *arrays: Any, backend: str | None = None) -> Any:
        """Run the operations on other data.

        Parameters
        ----------
        arrays : one per buffer of `inputs`, C-contiguous, of the buffer's size in bytes. They are
            copied.
        backend : ``"llvm"``, ``"opencl:0"`` ...: the operations are recorded again and run there;
            None: NumPy computes one after the other.

        Returns
        -------
        ndarray or tuple of ndarray
            What each buffer holds that is seen afterwards and was written, as its last operation
            wrote it.

        Raises
        ------
        VerifyError : there are more arrays or fewer, or one has another size.
        """
        self.verify()
        if len(arrays) != len(self.inputs):
            given = f"{len(arrays)} arrays were given"
            raise VerifyError(f"run: {len(self.inputs)} buffers hold inputs, {given}")
        with np.errstate(all="ignore"):
            if backend is None:
                return self._run(arrays)
            with api.accelerate(min_size=0, backend=backend):
                return self._run(arrays)

    def _run(self, arrays: tuple[Any, ...]) -> Any:
        memory = {buffer.index: np.zeros(buffer.size_bytes, "u1") for buffer in self.trace.buffers}
        for buffer, array in zip(self.inputs, arrays, strict=True):
            given = np.asarray(array)
            if not given.flags.c_contiguous or given.nbytes != buffer.size_bytes:
                raise VerifyError(
                    f"run: buffer b{buffer.index} has {buffer.size_bytes} bytes in C order, "
                    f"the array has {given.nbytes} and strides {given.strides}"
                )
            memory[buffer.index][...] = np.ndarray(given.nbytes, "u1", given)
        run_requests(self.trace.requests, memory)
        found = [self._result(buffer, memory) for buffer in self.trace.buffers if not buffer.dead]
        results = tuple(result for result in found if result is not None)
        return results[0] if len(results) == 1 else results

    def _result(self, buffer: BufferInfo, memory: dict[int, Array]) -> Array | None:
        for request in reversed(self.trace.requests):
            for view in request.outputs:
                if view.buffer == buffer.index:
                    part, shape = kept(request, view)
                    return np.array(show(part, shape, memory[buffer.index]))
        return None
