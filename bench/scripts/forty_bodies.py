"""Forty bodies under gravity by leapfrog steps: small arrays, many steps."""

import sys

import numpy as np


def acceleration(pos, mass, g, softening):
    dx = pos[:, 0:1].T - pos[:, 0:1]
    dy = pos[:, 1:2].T - pos[:, 1:2]
    dz = pos[:, 2:3].T - pos[:, 2:3]
    inv_r3 = dx**2 + dy**2 + dz**2 + softening**2
    inv_r3[inv_r3 > 0] = inv_r3[inv_r3 > 0] ** (-1.5)
    ax = g * (dx * inv_r3) @ mass
    ay = g * (dy * inv_r3) @ mass
    az = g * (dz * inv_r3) @ mass
    return np.hstack((ax, ay, az))


def energy(pos, vel, mass, g):
    kinetic = 0.5 * np.sum(mass * vel**2)
    d = pos[:, None, :] - pos[None, :, :]
    r = np.sqrt((d**2).sum(axis=-1))
    upper = np.triu_indices(len(mass), 1)
    return kinetic, -g * np.sum((mass * mass.T)[upper] / r[upper])


size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
steps = int(30_000 * size)
n, dt, softening, g = 40, 0.0002, 0.1, 1.0
rng = np.random.default_rng(17)
mass = 20.0 * np.ones((n, 1)) / n
pos = rng.normal(size=(n, 3))
vel = rng.normal(size=(n, 3))
vel -= np.mean(mass * vel, axis=0) / np.mean(mass)
acc = acceleration(pos, mass, g, softening)
for i in range(steps):
    vel += acc * dt / 2.0
    pos += vel * dt
    acc = acceleration(pos, mass, g, softening)
    vel += acc * dt / 2.0
    if i % 5000 == 0:
        print("step", i, "energy", *energy(pos, vel, mass, g))
print("radius", np.sqrt((pos**2).sum(axis=1)).mean())
print("momentum", np.abs((mass * vel).sum(axis=0)).max() < 1e-10)
print("energy", sum(energy(pos, vel, mass, g)))
