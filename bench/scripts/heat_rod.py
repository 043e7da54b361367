"""Heat in a rod with a burner in the middle, explicit steps in place until little changes."""

import sys

import numpy as np

size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
n = int(200_000 * size)
steps = 4_000
r = 0.4
x = np.linspace(0, 1, n)
u = 20 + 5 * np.sin(8 * np.pi * x)
source = 0.05 * np.exp(-(((x - 0.5) / 0.05) ** 2))
u[0], u[-1] = 20.0, 100.0
for step in range(steps):
    u[1:-1] += r * (u[2:] - 2 * u[1:-1] + u[:-2]) + source[1:-1]
    if step % 500 == 0:
        change = np.abs(np.diff(u)).max()
        print(step, "mean", u.mean(), "steepest", change)
        if change < 1e-6:
            break
flux = np.gradient(u, x)
print("mean", u.mean(), "max", u.max())
print("flux", flux[0], flux[-1], np.abs(flux).mean())
print("warm", (u > 60).sum())
