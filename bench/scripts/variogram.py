"""Ordinary kriging of soil samples: a variogram of all pairs, a fit, a map."""

import itertools
import sys

import numpy as np


def model(h, nugget, sill, reach):
    inside = nugget + sill * (1.5 * h / reach - 0.5 * (h / reach) ** 3)
    return np.where(h == 0, 0.0, np.where(h < reach, inside, nugget + sill))


size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
rng = np.random.default_rng(139)
n = max(int(1_200 * size**0.5), 60)
x, y = rng.random(n), rng.random(n)
value = np.sin(5 * x) * np.cos(4 * y) + 0.2 * rng.normal(size=n)
h = np.hypot(x[:, None] - x[None, :], y[:, None] - y[None, :])
square = 0.5 * (value[:, None] - value[None, :]) ** 2
lags = np.linspace(0, 0.6, 16)
gamma, center = [], []
for low, high in itertools.pairwise(lags):
    pick = (h > low) & (h <= high)
    gamma.append(square[pick].mean())
    center.append(h[pick].mean())
gamma, center = np.array(gamma), np.array(center)
best = min(
    (((model(center, a, s, r) - gamma) ** 2).sum(), a, s, r)
    for a in np.linspace(0, 0.1, 6)
    for s in np.linspace(0.1, 0.8, 15)
    for r in np.linspace(0.2, 1.0, 17)
)
print("fit", *best)
_, nugget, sill, reach = best
system = np.ones((n + 1, n + 1))
system[:n, :n] = model(h, nugget, sill, reach)
system[n, n] = 0.0
inverse = np.linalg.inv(system)
grid = np.linspace(0, 1, max(int(50 * size**0.5), 8))
estimate = np.zeros((len(grid), len(grid)))
variance = np.zeros_like(estimate)
for i, gy in enumerate(grid):
    target = np.ones((n + 1, len(grid)))
    target[:n] = model(np.hypot(x[:, None] - grid, y[:, None] - gy), nugget, sill, reach)
    weights = inverse @ target
    estimate[i] = value @ weights[:n]
    variance[i] = (weights * target).sum(axis=0)
truth = np.sin(5 * grid[None, :]) * np.cos(4 * grid[:, None])
print("error", np.sqrt(((estimate - truth) ** 2).mean()).round(8))
print("deviation", np.sqrt(np.maximum(variance, 0)).mean().round(8), estimate.std().round(8))
