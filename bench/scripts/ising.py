"""The Ising model on a lattice by checkerboard updates, through three temperatures."""

import sys

import numpy as np

size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
n = 2 * int(180 * size**0.5)
rng = np.random.default_rng(41)
spins = rng.choice(np.array([-1, 1], dtype=np.int8), (n, n))
row, column = np.indices((n, n))
black = (row + column) % 2 == 0
for temperature in (3.5, 2.27, 1.5):
    beta = 1 / temperature
    magnetisation, energy = [], []
    for sweep in range(80):
        for color in (black, ~black):
            neighbours = (
                np.roll(spins, 1, axis=0)
                + np.roll(spins, -1, axis=0)
                + np.roll(spins, 1, axis=1)
                + np.roll(spins, -1, axis=1)
            )
            cost = 2 * spins * neighbours
            flip = color & (rng.random((n, n)) < np.exp(-beta * cost))
            spins[flip] *= -1
        if sweep >= 40:
            magnetisation.append(abs(spins.mean()))
            bonds = spins * (np.roll(spins, 1, axis=0) + np.roll(spins, 1, axis=1))
            energy.append(-bonds.sum() / n**2)
    m, e = np.array(magnetisation), np.array(energy)
    print("T", temperature, "m", m.mean(), "e", e.mean(), "c", e.var() * n**2 * beta**2)
print("up", (spins == 1).sum())
