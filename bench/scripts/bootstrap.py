"""Bootstrap intervals of a correlation, a median and a trimmed mean; a permutation test."""

import sys

import numpy as np

size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
rng = np.random.default_rng(109)
n, repeats = 3_000, max(int(4_000 * size), 20)
x = rng.gamma(2.0, 3.0, n)
y = 0.3 * x + rng.normal(0, 2, n)
stats = np.zeros((repeats, 3))
for i in range(repeats):
    pick = rng.integers(0, n, n)
    a, b = x[pick], y[pick]
    stats[i, 0] = np.corrcoef(a, b)[0, 1]
    stats[i, 1] = np.median(a)
    ordered = np.sort(b)
    stats[i, 2] = ordered[n // 10 : -n // 10].mean()
low, high = np.percentile(stats, [2.5, 97.5], axis=0)
print("low", *low)
print("high", *high)

index = rng.integers(0, n, (repeats, n))
means = x[index].mean(axis=1)
print("mean", means.mean(), means.std(), "theory", x.std() / np.sqrt(n))
group = np.arange(n) < n // 2
difference = y[group].mean() - y[~group].mean()
count = 0
for _ in range(repeats):
    shuffled = rng.permutation(y)
    count += abs(shuffled[: n // 2].mean() - shuffled[n // 2 :].mean()) >= abs(difference)
print("p", count / repeats, "difference", difference)
