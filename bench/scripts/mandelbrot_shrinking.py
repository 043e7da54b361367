"""Mandelbrot and Julia sets; points that have left are dropped from the arrays in each round."""

import sys

import numpy as np


def escape_times(z, c, most, horizon):
    times = np.zeros(z.size, dtype=np.int64)
    where = np.arange(z.size)
    z, c = z.ravel().copy(), c.ravel().copy()
    for i in range(most):
        if not len(z):
            break
        np.multiply(z, z, z)
        np.add(z, c, z)
        left = abs(z) > horizon
        times[where[left]] = i + 1
        stays = ~left
        z, c, where = z[stays], c[stays], where[stays]
    return times


size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
n, most = int(1000 * size**0.5), 80
x = np.linspace(-2.0, 0.5, n)[:, None]
y = np.linspace(-1.25, 1.25, n)[None, :]
plane = x + 1j * y
times = escape_times(np.zeros(plane.shape, complex), plane, most, 2.0)
print("mandelbrot", (times == 0).sum(), times.mean(), np.bincount(times)[1:8])
for k in range(24):
    c = 0.7885 * np.exp(1j * (2.2 + 0.1 * k))
    times = escape_times(1.6 * plane, np.full(plane.shape, c), most, 2.0)
    print("julia", k, (times == 0).sum(), times.mean())
