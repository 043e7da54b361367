"""A Lennard-Jones fluid of 216 atoms: all pairs, velocity Verlet, pressure and temperature."""

import sys

import numpy as np


def forces(pos, box):
    d = pos[:, None, :] - pos[None, :, :]
    d -= box * np.round(d / box)
    r2 = (d**2).sum(axis=-1)
    np.fill_diagonal(r2, np.inf)
    near = r2 < 6.25
    inv6 = np.where(near, 1.0 / r2**3, 0.0)
    strength = 24 * inv6 * (2 * inv6 - 1) / r2
    f = (strength[:, :, None] * d).sum(axis=1)
    potential = 2 * (inv6 * (inv6 - 1)).sum()
    virial = 0.5 * (strength * np.where(near, r2, 0.0)).sum()
    return f, potential, virial


size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
side, dt = 6, 0.002
n, box = side**3, side * 1.15
steps = int(250 * size)
rng = np.random.default_rng(151)
axis = (np.arange(side) + 0.5) * box / side
pos = np.stack(np.meshgrid(axis, axis, axis), axis=-1).reshape(-1, 3)
vel = rng.normal(0, 1, (n, 3))
vel -= vel.mean(axis=0)
f, potential, virial = forces(pos, box)
total, pressures = [], []
for step in range(steps):
    vel += 0.5 * dt * f
    pos = (pos + dt * vel) % box
    f, potential, virial = forces(pos, box)
    vel += 0.5 * dt * f
    kinetic = 0.5 * (vel**2).sum()
    total.append((kinetic + potential) / n)
    pressures.append((2 * kinetic + virial) / 3 / box**3)
    if step % 50 == 0:
        print("step", step, "energy", round(total[-1], 6), "T", round(2 * kinetic / 3 / n, 6))
print("drift", abs(total[-1] - total[0]) < 1e-2, np.mean(total).round(6))
print("pressure", np.mean(pressures).round(5))
