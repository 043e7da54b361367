"""Random programs, recorded for several sizes."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import npaccel

__all__ = ["Author"]

Array = np.ndarray[Any, Any]
BINARY = (np.add, np.subtract, np.multiply, np.divide, np.maximum)


class Author:
    """Records one program for given sizes; the same `seed` makes the same choices."""

    def __init__(self, seed: int, sizes: tuple[int, int, int]) -> None:
        self.random, self.sizes = random.Random(seed), sizes
        n, m, k = sizes
        shapes = ((n,), (m, n), (m, 1), (1, n), (k, m, n), (n, 3), (n, 1))
        self.pool: list[Array] = []
        for _ in range(self.random.randint(1, 3)):
            shape = self.random.choice(shapes)
            self.pool.append(npaccel.asarray(np.ones(shape, self.random.choice(("f8", "f4")))))
        for _ in range(self.random.randint(1, 8)):
            self.step()

    def window(self, array: Array) -> Array:
        key = []
        for n in array.shape:
            few = [slice(None), slice(None), slice(None, None, -1), slice(0, max(1, n - 1))]
            key.append(self.random.choice([*few, slice(min(1, n - 1), n), slice(0, n, 2)]))
        part = array[tuple(key)]
        return part.T if self.random.random() < 0.2 else part

    def pick(self) -> Array:
        array = self.random.choice(self.pool[-5:])
        return self.window(array) if self.random.random() < 0.5 else array

    def step(self) -> None:
        x, y, choose = self.pick(), self.pick(), self.random.choice
        kind, op = (
            choose(("fold", "scan", "power", "gather", *3 * ("binary", "into"))),
            choose(BINARY),
        )
        axis, number = self.random.randint(0, 2), choose((2.0, 2.5, 4.0))
        if kind == "fold":
            self.pool.append(np.max(x, axis=axis if axis < x.ndim else None))
        elif kind == "scan":
            self.pool.append(np.cumsum(x, axis=axis % max(1, x.ndim)) if x.ndim else x + 1)
        elif kind == "power":
            self.pool.append(x**number)
        elif kind == "gather" and x.ndim:
            along = axis % x.ndim
            index = npaccel.asarray(np.arange(self.sizes[1]) * 5 % x.shape[along])
            self.pool.append(np.take(x, index, axis=along))
        else:
            try:
                shape = np.broadcast_shapes(x.shape, y.shape)
            except ValueError:
                shape, y = x.shape, np.float64(number)
            if kind == "binary":
                self.pool.append(op(x, y))
            elif isinstance(x, np.ndarray) and shape == x.shape:
                op(x, y, out=x, casting="same_kind")
