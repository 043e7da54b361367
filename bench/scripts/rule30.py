"""A cellular automaton in one dimension: rule 30 on a wide ring, and how random it is."""

import sys

import numpy as np


def table(rule):
    return np.array([(rule >> k) & 1 for k in range(8)], dtype=np.uint8)


size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
width, steps = int(200_000 * size), 1_500
lookup = table(30)
row = (np.random.default_rng(30).random(width) < 0.1).astype(np.uint8)
center = np.empty(steps, dtype=np.uint8)
density = np.empty(steps)
for step in range(steps):
    center[step] = row[width // 2]
    density[step] = row.mean()
    pattern = 4 * np.roll(row, 1) + 2 * row + np.roll(row, -1)
    row = lookup[pattern]
words = np.packbits(row)
p = np.bincount(words, minlength=256) / len(words)
p = p[p > 0]
print("density", density[-1], density.mean())
print("entropy", -(p * np.log2(p)).sum())
print("center", center.sum(), "changes", np.count_nonzero(np.diff(center)))
print("longest run", np.diff(np.flatnonzero(np.diff(row.astype(np.int8)))).max())
