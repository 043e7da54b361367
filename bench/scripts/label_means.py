"""K-means of colours, with centers by bincount, and spreads by add.at."""

import sys

import numpy as np

size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
n, k = int(400_000 * size), 16
rng = np.random.default_rng(107)
palette = rng.uniform(0, 255, (k, 3))
pixels = palette[rng.integers(0, k, n)] + rng.normal(0, 12, (n, 3))
pixels = np.clip(pixels, 0, 255)
centers = pixels[rng.choice(n, k, replace=False)]
for iteration in range(15):
    distance = (pixels**2).sum(1)[:, None] - 2 * pixels @ centers.T + (centers**2).sum(1)
    label = distance.argmin(axis=1)
    count = np.bincount(label, minlength=k)
    sums = np.stack([np.bincount(label, pixels[:, c], k) for c in range(3)], axis=1)
    moved = np.where(count[:, None] > 0, sums / np.maximum(count, 1)[:, None], centers)
    shift = np.sqrt(((moved - centers) ** 2).sum(axis=1)).max()
    centers = moved
    spread = np.zeros((k, 3))
    np.add.at(spread, label, (pixels - centers[label]) ** 2)
    print("iteration", iteration, "spread", np.sqrt(spread.sum() / n), "moves", shift > 0.5)
quantised = centers[label].round().astype(np.uint8)
grey = np.zeros(k)
np.add.at(grey, label, pixels.mean(axis=1))
print("sizes", count.min(), count.max(), "grey", (grey / np.maximum(count, 1)).mean())
print("change", np.abs(quantised - pixels).mean(), np.maximum.reduce(np.abs(quantised - pixels)))
