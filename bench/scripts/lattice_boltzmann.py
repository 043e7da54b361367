"""Flow past a cylinder by the lattice Boltzmann method (nine velocities, BGK)."""

import sys

import numpy as np


def main():
    size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    nx, ny = int(320 * size**0.5), int(100 * size**0.5)
    rho0, tau, steps = 100, 0.6, 150
    directions = np.arange(9)
    cxs = np.array([0, 0, 1, 1, 1, 0, -1, -1, -1])
    cys = np.array([0, 1, 1, 0, -1, -1, -1, 0, 1])
    weights = np.array([4 / 9, 1 / 9, 1 / 36, 1 / 9, 1 / 36, 1 / 9, 1 / 36, 1 / 9, 1 / 36])
    rng = np.random.default_rng(42)
    f = np.ones((ny, nx, 9)) + 0.01 * rng.normal(size=(ny, nx, 9))
    x, y = np.meshgrid(range(nx), range(ny))
    f[:, :, 3] += 2 * (1 + 0.2 * np.cos(2 * np.pi * x / nx * 4))
    rho = np.sum(f, 2)
    for i in directions:
        f[:, :, i] *= rho0 / rho
    cylinder = (x - nx / 4) ** 2 + (y - ny / 2) ** 2 < (ny / 4) ** 2

    for it in range(steps):
        for i, cx, cy in zip(directions, cxs, cys, strict=True):
            f[:, :, i] = np.roll(f[:, :, i], cx, axis=1)
            f[:, :, i] = np.roll(f[:, :, i], cy, axis=0)
        bounced = f[cylinder, :]
        bounced = bounced[:, [0, 5, 6, 7, 8, 1, 2, 3, 4]]
        rho = np.sum(f, 2)
        ux = np.sum(f * cxs, 2) / rho
        uy = np.sum(f * cys, 2) / rho
        feq = np.zeros(f.shape)
        for i, cx, cy, w in zip(directions, cxs, cys, weights, strict=True):
            feq[:, :, i] = (
                rho
                * w
                * (
                    1
                    + 3 * (cx * ux + cy * uy)
                    + 9 * (cx * ux + cy * uy) ** 2 / 2
                    - 3 * (ux**2 + uy**2) / 2
                )
            )
        f += -(1.0 / tau) * (f - feq)
        f[cylinder, :] = bounced
        if it % 50 == 0:
            print("step", it, "speed", np.sqrt(ux**2 + uy**2).max())
    ux[cylinder] = 0
    uy[cylinder] = 0
    vorticity = (np.roll(ux, -1, axis=0) - np.roll(ux, 1, axis=0)) - (
        np.roll(uy, -1, axis=1) - np.roll(uy, 1, axis=1)
    )
    print("density", rho.mean(), rho.std())
    print("vorticity", np.abs(vorticity).mean(), np.sqrt((vorticity**2).mean()))


main()
