"""Waves in a box by finite differences in time: a plane with absorbing edges, then a cube."""

import sys

import numpy as np

size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0


def flat(n, steps):
    ez, hx, hy = np.zeros((n, n)), np.zeros((n, n - 1)), np.zeros((n - 1, n))
    r = np.arange(n)
    depth = np.maximum(0, np.maximum(12 - r, r - (n - 13))) / 12.0
    loss = 0.3 * (depth[:, None] ** 3 + depth[None, :] ** 3)
    ca, cb = (1 - loss) / (1 + loss), 0.5 / (1 + loss)
    cb[n // 3 : n // 3 + 20, n // 2 :] /= 4
    inner = slice(1, -1), slice(1, -1)
    probe = []
    for t in range(steps):
        hx -= 0.5 * (ez[:, 1:] - ez[:, :-1])
        hy += 0.5 * (ez[1:, :] - ez[:-1, :])
        curl = hy[1:, 1:-1] - hy[:-1, 1:-1] - hx[1:-1, 1:] + hx[1:-1, :-1]
        ez[inner] = ca[inner] * ez[inner] + cb[inner] * curl
        ez[n // 2, n // 4] += np.exp(-(((t - 30.0) / 10) ** 2))
        probe.append(ez[n // 2, 3 * n // 4])
    print("plane", np.argmax(probe), max(probe), (ez**2).sum())


def cube(n, steps):
    ex, ey, ez, hx, hy, hz = (np.zeros((n, n, n)) for _ in range(6))
    for t in range(steps):
        ex[:, 1:, 1:] += 0.3 * (hz[:, 1:, 1:] - hz[:, :-1, 1:] - hy[:, 1:, 1:] + hy[:, 1:, :-1])
        ey[1:, :, 1:] += 0.3 * (hx[1:, :, 1:] - hx[1:, :, :-1] - hz[1:, :, 1:] + hz[:-1, :, 1:])
        ez[1:, 1:, :] += 0.3 * (hy[1:, 1:, :] - hy[:-1, 1:, :] - hx[1:, 1:, :] + hx[1:, :-1, :])
        ez[n // 2, n // 2, n // 2] += np.sin(0.2 * t)
        hx[:, :-1, :-1] -= 0.3 * (
            ez[:, 1:, :-1] - ez[:, :-1, :-1] - ey[:, :-1, 1:] + ey[:, :-1, :-1]
        )
        hy[:-1, :, :-1] -= 0.3 * (
            ex[:-1, :, 1:] - ex[:-1, :, :-1] - ez[1:, :, :-1] + ez[:-1, :, :-1]
        )
        hz[:-1, :-1, :] -= 0.3 * (
            ey[1:, :-1, :] - ey[:-1, :-1, :] - ex[:-1, 1:, :] + ex[:-1, :-1, :]
        )
    print("cube", sum((e**2).sum() for e in (ex, ey, ez)), np.abs(hx).max(), np.abs(hy).max())


flat(400, int(900 * size))
cube(56, int(90 * size))
