"""Pair counts of a catalogue in bins of separation, with masks, and the correlation function."""

import sys

import numpy as np


def counts(a, b, edges, box):
    found = np.zeros(len(edges) - 1)
    inner = 0.0
    for start in range(0, len(a), 250):
        d = a[start : start + 250, None, :] - b[None, :, :]
        d[d > box / 2] -= box
        d[d < -box / 2] += box
        r2 = (d**2).sum(axis=2)
        near = (r2 > 0) & (r2 < edges[-1] ** 2)
        r = np.sqrt(r2[near])
        inner += r[r < edges[1]].sum()
        for k in range(len(edges) - 1):
            found[k] += np.count_nonzero((r >= edges[k]) & (r < edges[k + 1]))
    return found, inner


size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
n, box = int(3000 * size**0.5), 100.0
rng = np.random.default_rng(73)
centers = rng.uniform(0, box, (60, 3))
galaxies = (centers[rng.integers(0, 60, n)] + rng.normal(0, 4, (n, 3))) % box
randoms = rng.uniform(0, box, (n, 3))
edges = np.linspace(0, 30, 13)
dd, inner = counts(galaxies, galaxies, edges, box)
dr, _ = counts(galaxies, randoms, edges, box)
rr, _ = counts(randoms, randoms, edges, box)
xi = (dd - 2 * dr + rr) / rr
print("pairs", int(dd.sum()), int(dr.sum()), int(rr.sum()))
print("correlation", xi)
print("within the first bin", inner)
