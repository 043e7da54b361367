"""A wave on a membrane with absorbing edges; both energies are read in each step."""

import sys

import numpy as np

size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
n = int(500 * size**0.5)
x = np.linspace(-1, 1, n)
h = x[1] - x[0]
xx, yy = np.meshgrid(x, x, indexing="ij")
speed = np.where(xx > 0.3, 0.6, 1.0)
dt = 0.5 * h
courant = (speed * dt / h) ** 2
edge = np.minimum(1 - np.abs(xx), 1 - np.abs(yy))
damping = np.exp(-40 * dt * np.clip(0.15 - edge, 0, None))
u = np.exp(-(xx**2 + yy**2) / 0.01)
previous = u.copy()
energies = []
for step in range(250):
    new = np.zeros_like(u)
    new[1:-1, 1:-1] = (
        2 * u[1:-1, 1:-1]
        - previous[1:-1, 1:-1]
        + courant[1:-1, 1:-1]
        * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1])
    )
    new *= damping
    kinetic = 0.5 * np.sum(((new - u) / dt) ** 2) * h**2
    potential = 0.5 * np.sum(np.diff(u, axis=0) ** 2) + 0.5 * np.sum(np.diff(u, axis=1) ** 2)
    energies.append((kinetic, potential))
    previous, u = u, new
    if step % 50 == 0:
        print("step", step, "energy", kinetic + potential)
energies = np.array(energies)
print("kinetic", energies[:, 0].mean(), "potential", energies[:, 1].mean())
print("lost", 1 - energies[-1].sum() / energies[1].sum())
print("amplitude", np.abs(u).max(), u[n // 2, n // 2])
