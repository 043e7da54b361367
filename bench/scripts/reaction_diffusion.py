"""FitzHugh-Nagumo waves on a periodic field; the Laplacian by np.roll."""

import sys

import numpy as np


def laplacian(z):
    return (
        np.roll(z, 1, axis=0)
        + np.roll(z, -1, axis=0)
        + np.roll(z, 1, axis=1)
        + np.roll(z, -1, axis=1)
        - 4 * z
    )


size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
n = int(400 * size**0.5)
rng = np.random.default_rng(1)
u = rng.random((n, n))
v = rng.random((n, n))
a, b, tau, k, dt = 2.8e-4, 5e-3, 0.1, -0.005, 0.001
dx = 2.0 / 100
for step in range(700):
    du = a * laplacian(u) / dx**2
    dv = b * laplacian(v) / dx**2
    u, v = u + dt * (du + u - u**3 - v + k), v + dt * (dv + u - v) / tau
    if step % 100 == 0:
        print(step, u.min(), u.max())
print("u", u.mean(), u.std())
print("v", v.mean(), v.std())
print("spots", (u > 0).mean(), np.abs(np.diff(np.sign(u), axis=0)).sum())
