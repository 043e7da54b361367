"""Conjugate gradients for Poisson's equation on 500 x 500 points, without a matrix."""

import sys

import numpy as np


def apply(p, out):
    out[:] = 4 * p
    out[1:] -= p[:-1]
    out[:-1] -= p[1:]
    out[:, 1:] -= p[:, :-1]
    out[:, :-1] -= p[:, 1:]
    return out


size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
n, rounds = max(40, int(500 * size**0.5)), max(20, int(900 * size))
b = np.zeros((n, n))
b[n // 4, n // 4], b[3 * n // 4, n // 2] = 1, -1
x, r = np.zeros_like(b), b.copy()
p, q = r.copy(), np.empty_like(b)
rr = np.vdot(r, r)
for _ in range(rounds):
    apply(p, q)
    alpha = rr / np.vdot(p, q)
    x += alpha * p
    r -= alpha * q
    new = np.vdot(r, r)
    if np.sqrt(new) < 1e-10:
        break
    p *= new / rr
    p += r
    rr = new
print(f"{x.max():.6f} {x.min():.6f} {np.abs(r).max():.1e}")
