"""A million charged particles in a magnetic bottle: Boris pushes in place, losses counted."""

import sys

import numpy as np

size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
n = int(1_000_000 * size)
rng = np.random.default_rng(163)
x, y, z = rng.normal(0, 0.1, (3, n))
vx, vy, vz = rng.normal(0, 1.0, (3, n))
dt, steps = 0.05, 20
alive = np.ones(n, dtype=bool)
for step in range(steps):
    bz = 1 + 0.5 * z**2
    bx = -0.5 * z * x
    by = -0.5 * z * y
    tx, ty, tz = 0.5 * dt * bx, 0.5 * dt * by, 0.5 * dt * bz
    s = 2 / (1 + tx**2 + ty**2 + tz**2)
    px = vx + vy * tz - vz * ty
    py = vy + vz * tx - vx * tz
    pz = vz + vx * ty - vy * tx
    vx += s * (py * tz - pz * ty)
    vy += s * (pz * tx - px * tz)
    vz += s * (px * ty - py * tx)
    x += dt * vx
    y += dt * vy
    z += dt * vz
    lost = alive & (np.abs(z) > 1.5)
    alive[lost] = False
    if step % 5 == 0:
        energy = 0.5 * (vx**2 + vy**2 + vz**2).mean()
        print("step", step, "energy", energy, "alive", alive.sum())
radius = np.sqrt(x**2 + y**2)
print("radius", radius[alive].mean(), radius.max())
pitch = np.arctan2(np.sqrt(vx**2 + vy**2), vz)
print("pitch", pitch[alive].mean(), np.histogram(pitch, bins=4, range=(0, np.pi))[0])
