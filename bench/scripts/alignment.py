"""Alignment of two sequences by anti-diagonals: small integer arrays, thousands of steps."""

import sys

import numpy as np


def align(a, b, match=2, mismatch=-1, gap=-2):
    n, m = len(a), len(b)
    previous = np.zeros(1, dtype=np.int64)
    current = np.full(2, gap, dtype=np.int64)
    best = 0
    for d in range(2, n + m + 1):
        low, high = max(0, d - m), min(n, d)
        i = np.arange(low, high + 1)
        old_low = max(0, d - 1 - m)
        older_low = max(0, d - 2 - m)
        new = np.full(len(i), gap * d, dtype=np.int64)
        inner = (i > 0) & (i < d)
        k = i[inner]
        same = a[k - 1] == b[d - k - 1]
        diagonal = previous[k - 1 - older_low] + np.where(same, match, mismatch)
        up = current[k - 1 - old_low] + gap
        left = current[k - old_low] + gap
        new[inner] = np.maximum(diagonal, np.maximum(up, left))
        best = max(best, int(new.max()))
        previous, current = current, new
    return int(current[-1]), best


size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
rng = np.random.default_rng(137)
n = int(7_000 * size)
a = rng.integers(0, 4, n)
keep = rng.random(n) > 0.05
b = np.where(rng.random(n) < 0.1, rng.integers(0, 4, n), a)[keep]
score, best = align(a, b)
random_score, _ = align(a[: n // 2], rng.permutation(b)[: n // 2])
print("score", score, "best", best)
print("random", random_score, "lengths", len(a), len(b))
