"""What tests of a device with memory of its own share: arrays there, and what moved."""

import os

import numpy as np

import npaccel

N = 1 << 14
LIMIT = 1 << 20
ROOM = LIMIT // (8 * N)  # arrays
# The backend under test, see the fixture `device`, and its first device.
DEVICE = {"emulated": "cuda"}.get(name := os.environ.get("TEST_DEVICE", "opencl"), name)
NUMBERED = f"{DEVICE}:0"


def numbers(seed=0, n=N):
    return np.random.default_rng(seed).random(n)


def on_device(source):
    return npaccel.asarray(source, device=NUMBERED)


def moved():
    counts = npaccel.stats()
    names = ("uploads", "uploaded_bytes", "downloads", "downloaded_bytes")
    return tuple(counts[name] for name in names)


def launched():
    return npaccel.stats()["kernels_by_backend"].get(DEVICE, 0)


def halved_sum(x, y):
    return x * 0.5 + y


def large(*shape, dtype="f8"):
    """More than the device's memory, neither all of a sign nor without ties."""
    n = np.prod(shape)
    return (
        np.resize(np.random.default_rng(3).integers(-50, 50, 9973) / 8, n)
        .astype(dtype)
        .reshape(shape)
    )
