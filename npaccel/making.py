"""`zeros`, `ones`, `empty`, `full` and `arange` of arrays that live on a cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from npaccel import api

__all__ = ["arange", "empty", "full", "ones", "zeros"]


def _made(device: Any, map: Any, make: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """What NumPy makes; on a cluster it is recorded, and computed there."""
    if not api.is_cluster(device):
        return api.asarray(make(*args, **options), device=device, map=map)
    with api.accelerate(min_size=0, device=device):
        made = make(*args, **options)
    return api.asarray(made, device=device, map=map)


def zeros(
    shape: Any, dtype: Any = None, order: Any = "C", *, device: Any = None, map: Any = None
) -> Any:
    """As `numpy.zeros`; an Array, which lives on `device`.

    Parameters
    ----------
    device, map : as in `npaccel.asarray`.
    """
    return _made(device, map, np.zeros, shape, dtype, order)


def ones(
    shape: Any, dtype: Any = None, order: Any = "C", *, device: Any = None, map: Any = None
) -> Any:
    """As `numpy.ones`; see `zeros`."""
    return _made(device, map, np.ones, shape, dtype, order)


def empty(
    shape: Any, dtype: Any = None, order: Any = "C", *, device: Any = None, map: Any = None
) -> Any:
    """As `numpy.empty`; see `zeros`. What is in it on a cluster are zeros."""
    make = np.zeros if api.is_cluster(device) else np.empty
    return _made(device, map, make, shape, dtype, order)


def full(
    shape: Any,
    fill_value: Any,
    dtype: Any = None,
    order: Any = "C",
    *,
    device: Any = None,
    map: Any = None,
) -> Any:
    """As `numpy.full`; see `zeros`."""
    return _made(device, map, np.full, shape, fill_value, dtype, order)


def arange(*limits: Any, dtype: Any = None, device: Any = None, map: Any = None) -> Any:
    """As `numpy.arange`; see `zeros`."""
    return _made(device, map, np.arange, *limits, dtype=dtype)
