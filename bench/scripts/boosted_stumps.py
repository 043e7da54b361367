"""Gradient boosting of stumps: the best split of each feature by cumulative sums."""

import sys

import numpy as np


def best_stump(x, order, residual):
    n = len(residual)
    best = (np.inf, 0, 0.0, 0.0, 0.0)
    left_count = np.arange(1, n)
    for j in range(x.shape[1]):
        r = residual[order[:, j]]
        left = np.cumsum(r)[:-1]
        right = r.sum() - left
        gain = left**2 / left_count + right**2 / (n - left_count)
        i = np.argmax(gain)
        if -gain[i] < best[0]:
            split = 0.5 * (x[order[i, j], j] + x[order[i + 1, j], j])
            best = (-gain[i], j, split, left[i] / left_count[i], right[i] / (n - left_count[i]))
    return best[1:]


size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
rng = np.random.default_rng(79)
n, columns = int(60_000 * size), 10
x = rng.uniform(-1, 1, (n, columns))
y = np.sin(3 * x[:, 0]) + x[:, 1] ** 2 - 0.5 * (x[:, 2] > 0.2) + rng.normal(0, 0.1, n)
order = np.argsort(x, axis=0)
prediction = np.full(n, y.mean())
used = np.zeros(columns, dtype=int)
for k in range(120):
    residual = y - prediction
    j, split, low, high = best_stump(x, order, residual)
    prediction += 0.2 * np.where(x[:, j] <= split, low, high)
    used[j] += 1
    if k % 20 == 0:
        print("stump", k, "feature", j, "error", np.mean((y - prediction) ** 2))
print("error", np.mean((y - prediction) ** 2), np.abs(y - prediction).max())
print("used", *used)
