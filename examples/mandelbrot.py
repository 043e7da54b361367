"""The Mandelbrot set on a grid: how many steps each point takes to escape, with masks."""

import numpy as np

SIZE = 1000


def inputs(size=SIZE):
    return {
        "re": np.linspace(-2.2, 0.8, size),
        "im": np.linspace(-1.2, 1.2, size * 4 // 5)[:, np.newaxis],
    }


def main(re, im, steps=30):
    x = np.zeros(np.broadcast_shapes(re.shape, im.shape))
    y = np.zeros_like(x)
    count = np.zeros(x.shape, np.int32)
    for _ in range(steps):
        xx, yy = x * x, y * y
        inside = xx + yy <= 4.0
        y = np.where(inside, 2.0 * x * y + im, y)
        x = np.where(inside, xx - yy + re, x)
        count += inside
    return count
