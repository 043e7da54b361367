"""Copies by NumPy whose target begins a few bytes behind their source, modulo a page."""

from __future__ import annotations

import numpy as np
import pytest

import npaccel

PAGE = 4096


def on_a_page(data: np.ndarray) -> np.ndarray:
    """Its bytes, at the beginning of a page."""
    room = np.zeros(data.nbytes + 2 * PAGE, np.uint8)
    start = -room.ctypes.data % PAGE
    room[start : start + data.nbytes] = data
    return room[start : start + data.nbytes + PAGE]


@pytest.mark.parametrize("size", [2000, 2048, 2049, 5000, 1 << 16, (1 << 20) - 7, (1 << 20) + 1])
def test_shifted_copies(size: int) -> None:
    source = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)
    x = on_a_page(source)
    for shift in (0, 1, 7, 8, 16, 31, 32, 63, PAGE - 8, PAGE - 1):
        y = on_a_page(np.zeros(size, np.uint8))
        with npaccel.accelerate():
            y[shift : shift + size] = x[:size]
        assert (y[shift : shift + size] == source).all()
        assert not y[:shift].any() and not y[shift + size :].any()


@pytest.mark.parametrize("size", [2048, 5000, 300_000])
def test_shifted_copies_within_one_array(size: int) -> None:
    source = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)
    for shift in (1, 8, 31, PAGE - 8, PAGE - 1):
        for to, start in ((shift, 0), (0, shift)):
            x = on_a_page(source)
            want = x[start : start + size].copy()
            with npaccel.accelerate():
                x[to : to + size] = x[start : start + size]
            assert (x[to : to + size] == want).all()


def test_functions_that_copy_by_parts() -> None:
    x = np.random.default_rng(1).random(60_000)
    calls = (
        lambda: np.insert(x, 5, 1.0),
        lambda: np.concatenate([[0.0], x[:-1]]),
        lambda: np.pad(x, (1, 0)),
        lambda: np.roll(x, 1),
    )
    for call in calls:
        want = call()
        with npaccel.accelerate():
            assert (call() == want).all()
