"""What a test has made of the devices that the process knows ends with it."""

from collections.abc import Iterator

import pytest

from npaccel.this_process import engine


@pytest.fixture(autouse=True)
def devices_that_work() -> Iterator[None]:
    """Launches that were made to fail are not counted against a device in later tests."""
    yield
    for device in engine.machines._devices.values():
        device._failures, device.lost = 0, ""
