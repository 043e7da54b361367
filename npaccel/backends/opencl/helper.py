"""Builds OpenCL programs in a process of its own, which can be killed.

A driver's compiler may hang or crash; then only this process does. It is run as a file, without
npaccel: ``python -P helper.py`` reads requests from its standard input and answers on its output,
until the input ends. Each message is a JSON header with its length before it, then raw bytes.

To have machine code in the result, not something to be compiled at the first launch, each
function is launched once with nothing to do.
"""

from __future__ import annotations

import json
import os
import re
import struct
import sys
from typing import IO, Any

import numpy as np

__all__ = ["read_message", "write_message"]

# EXTRA_WORDS of emit/devices.py, which is not imported here: no tasks.
NOTHING = (0, 1, 1, 1, 0, 0, 0)


def write_message(stream: IO[bytes], header: dict[str, Any], body: bytes = b"") -> None:
    """Send one message."""
    text = json.dumps(header | {"bytes": len(body)}).encode()
    stream.write(struct.pack("<I", len(text)) + text + body)
    stream.flush()


def read_message(stream: IO[bytes]) -> tuple[dict[str, Any], bytes]:
    """Receive one message; raises EOFError at the end."""
    head = stream.read(4)
    if len(head) < 4:
        raise EOFError
    header: dict[str, Any] = json.loads(stream.read(struct.unpack("<I", head)[0]))
    return header, stream.read(header["bytes"])


def _context(cl: Any, place: tuple[int, int]) -> tuple[Any, Any]:
    """A device and a context of it, kept: PoCL reads its library of functions anew for each."""
    if place not in _contexts:
        platform, device = place
        chosen = cl.get_platforms()[platform].get_devices()[device]
        _contexts[place] = chosen, cl.Context([chosen])
    return _contexts[place]


_contexts: dict[tuple[int, int], tuple[Any, Any]] = {}


def _build(cl: Any, request: dict[str, Any], source: str) -> bytes:
    chosen, context = _context(cl, tuple(request["device"]))
    for options in request["options"]:
        program = cl.Program(context, source)
        try:
            program.build(options=options, devices=[chosen])
            break
        except cl.Error as error:
            if options == request["options"][-1]:
                log = str(program.get_build_info(chosen, cl.program_build_info.LOG))
                raise RuntimeError("\n".join(re.findall(".*error.*", log)) or str(error)) from error
    if request["host_memory"]:
        queue = cl.CommandQueue(context)
        words = np.zeros(request["words"] + len(NOTHING), "i8")
        words[request["words"] :] = NOTHING
        for name in request["symbols"]:
            kernel = cl.Kernel(program, name)
            for k in range(kernel.num_args):
                kernel.set_arg(k, cl.SVM(words))
            group = (request["group_size"],)
            cl.enqueue_nd_range_kernel(queue, kernel, group, group).wait()
    return bytes(program.get_info(cl.program_info.BINARIES)[0])


def main() -> None:
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a driver prints is no answer
    try:
        import pyopencl as cl

        while True:
            request, source = read_message(requests)
            try:
                write_message(answers, {"ok": True}, _build(cl, request, source.decode()))
            except (cl.Error, RuntimeError) as error:
                write_message(answers, {"ok": False, "error": str(error)})
    except (EOFError, BrokenPipeError):
        return


if __name__ == "__main__":
    main()
