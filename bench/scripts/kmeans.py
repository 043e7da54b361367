"""K-means of 80,000 points with k-means++ seeds, until the centers rest."""

import sys

import numpy as np


def seeds(points, k, rng):
    centers = [points[rng.integers(len(points))]]
    nearest = ((points - centers[0]) ** 2).sum(axis=1)
    for _ in range(k - 1):
        centers.append(points[rng.choice(len(points), p=nearest / nearest.sum())])
        nearest = np.minimum(nearest, ((points - centers[-1]) ** 2).sum(axis=1))
    return np.array(centers)


size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
n, k, dimensions = int(80_000 * size), 12, 4
rng = np.random.default_rng(37)
true_centers = rng.uniform(-10, 10, (k, dimensions))
points = true_centers[rng.integers(0, k, n)] + rng.normal(0, 1.5, (n, dimensions))
centers = seeds(points, k, rng)
for iteration in range(40):
    distance = np.sqrt(((points[:, None, :] - centers[None, :, :]) ** 2).sum(axis=2))
    label = distance.argmin(axis=1)
    new_centers = np.array(
        [points[label == j].mean(axis=0) if (label == j).any() else centers[j] for j in range(k)]
    )
    shift = np.abs(new_centers - centers).max()
    centers = new_centers
    inertia = (distance.min(axis=1) ** 2).sum()
    print("iteration", iteration, "inertia", inertia, "shift", shift > 1e-3)
    if shift < 1e-3:
        break
counts = np.bincount(label, minlength=k)
print("counts", counts.min(), counts.max())
print("spread", distance.min(axis=1).mean(), centers.std())
