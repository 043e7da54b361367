"""A wave on a string of 50,000 points, all of whose states are kept, and when it comes by where."""

import sys

import numpy as np

size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
n, steps = max(500, int(50_000 * size)), 900
x = np.linspace(0, 1, n)
u = np.zeros((steps + 1, n))
u[0] = np.exp(-(((x - 0.3) / 0.01) ** 2))
u[1] = u[0]
for t in range(1, steps):
    u[t + 1, 1:-1] = 2 * u[t, 1:-1] - u[t - 1, 1:-1]
    u[t + 1, 1:-1] += 0.9 * (u[t, 2:] - 2 * u[t, 1:-1] + u[t, :-2])
arrival = np.abs(u[:, :: n // 20]).argmax(axis=0)
print(arrival, f"{np.square(u[-1]).sum():.8f} {np.abs(u).max():.6f}")
