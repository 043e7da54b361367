"""The Mandelbrot set by escape times; only the points that are still inside go on."""

import sys

import numpy as np


def escape_times(width, height, limit):
    x = np.linspace(-2.2, 0.8, width)
    y = np.linspace(-1.2, 1.2, height)
    c = x[None, :] + 1j * y[:, None]
    z = np.zeros_like(c)
    times = np.full(c.shape, limit, dtype=np.int32)
    inside = np.ones(c.shape, dtype=bool)
    for n in range(limit):
        z[inside] = z[inside] ** 2 + c[inside]
        gone = inside & (np.abs(z) > 2)
        times[gone] = n
        inside[gone] = False
        if n % 20 == 0:
            print("round", n, "inside", inside.sum())
    return times


size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
edge = size**0.5
times = escape_times(int(1800 * edge), int(1440 * edge), 100)
shade = np.log1p(times) / np.log1p(times.max())
print("area", (times == times.max()).mean() * 3.0 * 2.4)
print("mean time", times.mean())
print("shade", shade.mean(), shade.std())
