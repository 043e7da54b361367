"""Smoke by stable fluids: relaxed in place, edges and corners one by one, advected by indices."""

import sys

import numpy as np

size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
N, steps, dt = int(220 * size**0.5), int(60 * size**0.5), 0.05


def set_edges(kind, x):
    x[0, :] = -x[1, :] if kind == 1 else x[1, :]
    x[-1, :] = -x[-2, :] if kind == 1 else x[-2, :]
    x[:, 0] = -x[:, 1] if kind == 2 else x[:, 1]
    x[:, -1] = -x[:, -2] if kind == 2 else x[:, -2]
    x[0, 0] = 0.5 * (x[1, 0] + x[0, 1])
    x[0, -1] = 0.5 * (x[1, -1] + x[0, -2])
    x[-1, 0] = 0.5 * (x[-2, 0] + x[-1, 1])
    x[-1, -1] = 0.5 * (x[-2, -1] + x[-1, -2])


def relax(kind, x, x0, a, c):
    for _ in range(12):
        around = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
        x[1:-1, 1:-1] = (x0[1:-1, 1:-1] + a * around) / c
        set_edges(kind, x)


def advect(kind, d, d0, u, v):
    i, j = np.meshgrid(np.arange(1, N + 1), np.arange(1, N + 1), indexing="ij")
    x = np.clip(i - dt * N * u[1:-1, 1:-1], 0.5, N + 0.5)
    y = np.clip(j - dt * N * v[1:-1, 1:-1], 0.5, N + 0.5)
    i0, j0 = x.astype(int), y.astype(int)
    s1, t1 = x - i0, y - j0
    left = (1 - t1) * d0[i0, j0] + t1 * d0[i0, j0 + 1]
    right = (1 - t1) * d0[i0 + 1, j0] + t1 * d0[i0 + 1, j0 + 1]
    d[1:-1, 1:-1] = (1 - s1) * left + s1 * right
    set_edges(kind, d)


def project(u, v, p, div):
    div[1:-1, 1:-1] = -0.5 * (u[2:, 1:-1] - u[:-2, 1:-1] + v[1:-1, 2:] - v[1:-1, :-2]) / N
    p[:] = 0
    set_edges(0, div)
    set_edges(0, p)
    relax(0, p, div, 1, 4)
    u[1:-1, 1:-1] -= 0.5 * N * (p[2:, 1:-1] - p[:-2, 1:-1])
    v[1:-1, 1:-1] -= 0.5 * N * (p[1:-1, 2:] - p[1:-1, :-2])
    set_edges(1, u)
    set_edges(2, v)


u, v, u0, v0, smoke, smoke0, p, div = (np.zeros((N + 2, N + 2)) for _ in range(8))
rng = np.random.default_rng(5)
source = slice(N // 2 - 10, N // 2 + 10), slice(5, 20)
for step in range(steps):
    smoke[source] += 1.0
    v[source] += 0.4
    u[:] += 0.02 * rng.standard_normal(u.shape)
    u0[:], v0[:] = u, v
    relax(1, u, u0, 0.01, 1.04)
    relax(2, v, v0, 0.01, 1.04)
    project(u, v, p, div)
    u0[:], v0[:] = u, v
    advect(1, u, u0, u0, v0)
    advect(2, v, v0, u0, v0)
    project(u, v, p, div)
    smoke0[:] = smoke
    relax(0, smoke, smoke0, 0.002, 1.008)
    smoke0[:] = smoke
    advect(0, smoke, smoke0, u, v)
    smoke *= 0.995
    if step % 15 == 14:
        print(step, "smoke", smoke.sum(), "fastest", np.abs(u).max(), "behind", v[N // 2, 30])
print("end", smoke.sum(), p.min())
