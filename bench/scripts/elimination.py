"""Gaussian elimination with row exchanges, as textbooks have it, of a system of 1,400 equations."""

import sys

import numpy as np

size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
n = max(30, int(1_400 * size ** (1 / 3)))
rng = np.random.default_rng(0)
matrix, wanted = rng.normal(size=(n, n)), rng.normal(size=n)
a, b = matrix.copy(), matrix @ wanted
for k in range(n - 1):
    p = k + np.argmax(np.abs(a[k:, k]))
    if p != k:
        a[[k, p]] = a[[p, k]]
        b[[k, p]] = b[[p, k]]
    factor = a[k + 1 :, k] / a[k, k]
    a[k + 1 :, k:] -= factor[:, None] * a[k, k:]
    b[k + 1 :] -= factor * b[k]
x = np.zeros(n)
for k in range(n - 1, -1, -1):
    x[k] = (b[k] - (a[k, k + 1 :] * x[k + 1 :]).sum()) / a[k, k]
print(f"{np.abs(x - wanted).max() < 1e-6} {np.log(np.abs(np.diag(a))).sum():.6f}")
