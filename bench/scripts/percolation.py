"""Percolation: clusters of a random grid, labelled by spreading the largest label."""

import sys

import numpy as np


def clusters(open_sites):
    label = np.where(open_sites, np.arange(1, open_sites.size + 1).reshape(open_sites.shape), 0)
    rounds = 0
    while True:
        new = label.copy()
        new[1:] = np.maximum(new[1:], label[:-1])
        new[:-1] = np.maximum(new[:-1], label[1:])
        new[:, 1:] = np.maximum(new[:, 1:], label[:, :-1])
        new[:, :-1] = np.maximum(new[:, :-1], label[:, 1:])
        new[~open_sites] = 0
        rounds += 1
        if (new == label).all():
            return label, rounds
        label = new


size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
n = max(int(350 * size**0.5), 10)
rng = np.random.default_rng(89)
for p in (0.40, 0.50, 0.56, 0.64):
    open_sites = rng.random((n, n)) < p
    label, rounds = clusters(open_sites)
    sizes = np.bincount(label.ravel())[1:]
    sizes = sizes[sizes > 0]
    spans = np.intersect1d(label[0][label[0] > 0], label[-1][label[-1] > 0]).size > 0
    print("p", p, "clusters", len(sizes), "largest", sizes.max(), "spans", spans, "in", rounds)
    print("  mean size", (sizes**2).sum() / sizes.sum())
