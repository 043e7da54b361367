"""What moves between the host and a device goes through memory that the driver has pinned."""

import subprocess
import sys

import pytest

pytestmark = [pytest.mark.pending, pytest.mark.usefixtures("opencl")]

# In a process of its own: a device's pinned memory stays.
MOVED = """
import ctypes, numpy as np, npaccel
from npaccel.backends.opencl.target import Target
refused = {refused}
if refused:
    found = Target._addresses
    kept = ctypes.CFUNCTYPE(ctypes.c_void_p, *[ctypes.c_void_p] * 9, ctypes.POINTER(ctypes.c_int32))

    @kept
    def refuse(*arguments):
        arguments[-1][0] = -5
        return None

    def addresses(self, names):
        real = dict(zip(names, found(self, names)))
        if "clEnqueueMapBuffer" in names:
            real["clEnqueueMapBuffer"] = ctypes.cast(refuse, ctypes.c_void_p).value
        return tuple(real.values())

    Target._addresses = addresses
npaccel.config.threads = {threads}
npaccel.config.tiering, npaccel.config.backend = "eager", "opencl"
npaccel.config.device_memory = 1 << 30
source = np.random.default_rng(0).random((1 << 20) + 5)  # two chunks and 40 bytes
for k in range(14):
    x = npaccel.asarray(source, device="opencl:0")
    part = npaccel.evaluate(x[k:] * 2.0 + 1.0)
    assert memoryview(np.ascontiguousarray(part)).tobytes() == (source[k:] * 2.0 + 1.0).tobytes(), k
counts = npaccel.stats()
assert counts["uploads"] >= 14 and counts["downloads"] >= 14, counts
print(counts["pinned_bytes"] // source.nbytes)
"""


@pytest.mark.parametrize(
    ("threads", "refused", "expected"),
    [
        pytest.param(4, False, range(12, 28), id="by threads"),
        pytest.param(1, False, [0], id="alone the driver does it as well"),
        pytest.param(4, True, [0], id="refused"),
    ],
)
def test_large_arrays_move_through_pinned_memory(threads, refused, expected):
    script = MOVED.format(threads=threads, refused=refused)
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) in expected, done.stdout
