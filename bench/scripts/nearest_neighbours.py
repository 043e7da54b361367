"""Nearest neighbours by brute force in chunks; a vote of the ten nearest."""

import sys

import numpy as np


def nearest(queries, points, k, chunk=200):
    square = (points**2).sum(axis=1)
    index = np.empty((len(queries), k), dtype=np.int64)
    distance = np.empty((len(queries), k))
    for start in range(0, len(queries), chunk):
        q = queries[start : start + chunk]
        d2 = (q**2).sum(axis=1)[:, None] + square - 2 * q @ points.T
        np.maximum(d2, 0, out=d2)
        near = np.argpartition(d2, k, axis=1)[:, :k]
        d = np.take_along_axis(d2, near, axis=1)
        order = np.argsort(d, axis=1)
        index[start : start + chunk] = np.take_along_axis(near, order, axis=1)
        distance[start : start + chunk] = np.sqrt(np.take_along_axis(d, order, axis=1))
    return index, distance


size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
rng = np.random.default_rng(23)
centers = rng.normal(0, 3, (8, 16))
label = rng.integers(0, 8, max(int(20_000 * size), 500))
points = centers[label] + rng.normal(0, 2.2, (len(label), 16))
answer = rng.integers(0, 8, max(int(4_000 * size), 50))
queries = centers[answer] + rng.normal(0, 2.2, (len(answer), 16))

index, distance = nearest(queries, points, 10)
votes = label[index]
counts = (votes[:, :, None] == np.arange(8)).sum(axis=1)
guess = counts.argmax(axis=1)
weights = 1 / (distance + 1e-9)
weighted = (weights[:, :, None] * (votes[:, :, None] == np.arange(8))).sum(axis=1)
print("right", (guess == answer).mean(), (weighted.argmax(axis=1) == answer).mean())
print("distance", distance[:, 0].mean(), distance[:, -1].mean())
print("most", counts.max(axis=1).mean())
