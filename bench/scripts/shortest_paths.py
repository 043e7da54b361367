"""Shortest paths between all of 700 places (Floyd and Warshall), and where each goes on."""

import sys

import numpy as np

size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
n = max(30, int(700 * size ** (1 / 3)))
rng = np.random.default_rng(0)
d = np.where(rng.random((n, n)) < 0.05, rng.uniform(1, 10, (n, n)), np.inf)
np.fill_diagonal(d, 0)
next_place = np.tile(np.arange(n), (n, 1))
for k in range(n):
    via = d[:, k, None] + d[None, k, :]
    next_place = np.where(via < d, next_place[:, k, None], next_place)
    d = np.minimum(d, via)
print(np.isinf(d).sum(), f"{d[np.isfinite(d)].mean():.8f}", next_place.sum())
