"""A cloth of springs hung at two corners: forces by differences and np.add.at."""

import sys

import numpy as np

size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
n = max(int(100 * size**0.5), 6)
steps = 200
grid = np.arange(n * n).reshape(n, n)
pairs = np.concatenate(
    [
        np.stack([grid[:, :-1].ravel(), grid[:, 1:].ravel()], axis=1),
        np.stack([grid[:-1, :].ravel(), grid[1:, :].ravel()], axis=1),
        np.stack([grid[:-1, :-1].ravel(), grid[1:, 1:].ravel()], axis=1),
        np.stack([grid[:-1, 1:].ravel(), grid[1:, :-1].ravel()], axis=1),
    ]
)
i, j = pairs.T
side = np.linspace(0, 1, n)
pos = np.zeros((n * n, 3))
pos[:, 0], pos[:, 1] = np.tile(side, n), np.repeat(side, n)
vel = np.zeros_like(pos)
rest = np.sqrt(((pos[i] - pos[j]) ** 2).sum(axis=1))
fixed = [grid[-1, 0], grid[-1, -1]]
k, damping, dt, mass = 40.0, 0.4, 0.002, 1.0 / n**2
gravity = np.array([0.0, 0.0, -9.81])
for step in range(steps):
    d = pos[j] - pos[i]
    length = np.sqrt((d**2).sum(axis=1))
    force = (k * (length - rest) / length)[:, None] * d
    total = np.tile(gravity * mass, (n * n, 1)) - damping * mass * vel
    np.add.at(total, i, force)
    np.add.at(total, j, -force)
    acc = total / mass * (1.0 / n)
    acc[fixed] = 0.0
    vel += acc * dt
    pos += vel * dt
    if step % 50 == 0:
        kinetic = 0.5 * mass * (vel**2).sum()
        print("step", step, "kinetic", kinetic, "stretch", (length / rest).max())
print("lowest", pos[:, 2].min(), "center", *pos[grid[n // 2, n // 2]])
print("stretch", (length / rest).mean(), (length / rest).std())
