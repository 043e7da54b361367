"""What a test has made of the devices that the process knows ends with it."""

from collections.abc import Iterator

import pytest
from own_memory import LIMIT

import npaccel
from npaccel.this_process import engine


@pytest.fixture(autouse=True)
def devices_that_work() -> Iterator[None]:
    """Launches that were made to fail are not counted against a device in later tests, and nothing
    is to live on one that kernels of later tests need not know."""
    yield
    for opened in engine.machines._open.values():
        if hasattr(opened, "memory"):
            opened.memory.want(not opened.host_memory)
    for device in engine.machines._devices.values():
        device._failures, device.lost = 0, ""


@pytest.fixture
def little_memory() -> Iterator[None]:
    """A device with memory of its own, few bytes of it, that runs whatever is asked of it."""
    names = ("tiering", "threshold", "device_memory", "backend", "check")
    before = {name: getattr(npaccel.config, name) for name in names}
    npaccel.evaluate()
    npaccel.config.tiering, npaccel.config.threshold = "eager", 0
    npaccel.config.backend, npaccel.config.check = "auto", "off"
    npaccel.config.device_memory = LIMIT
    npaccel.stats(reset=True)
    yield
    npaccel.evaluate()
    for name, value in before.items():
        setattr(npaccel.config, name, value)
