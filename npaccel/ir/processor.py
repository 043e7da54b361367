"""The kind of processor that code is made for, where NumPy's results hang on it."""

import platform

__all__ = ["is_aarch64", "make_for"]

_MADE_FOR = [platform.machine()]


def is_aarch64() -> bool:
    return _MADE_FOR[0] == "aarch64"


def make_for(machine: str) -> None:
    """Of what is shipped for another one, before any module that asks is imported."""
    _MADE_FOR[:] = [machine]
