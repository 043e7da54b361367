"""A drop of dye in a stream: upwind finite differences over slices, with diffusion."""

import numpy as np

SIZE = 1000


def inputs(size=SIZE):
    y, x = np.mgrid[0:size, 0:size] / size
    dye = np.exp(-((x - 0.3) ** 2 + (y - 0.5) ** 2) * 200.0)
    return {"dye": dye, "u": np.sin(np.pi * y), "v": 0.3 * np.cos(np.pi * x)}


def main(dye, u, v, steps=10):
    dye = dye.copy()
    size = len(dye)
    h, dt, diffusion = 1.0 / size, 0.2 / size, 0.05 / size
    for _ in range(steps):
        inner = dye[1:-1, 1:-1]
        west, east = inner - dye[1:-1, :-2], dye[1:-1, 2:] - inner
        north, south = inner - dye[:-2, 1:-1], dye[2:, 1:-1] - inner
        along = np.where(u[1:-1, 1:-1] > 0, west, east) * u[1:-1, 1:-1]
        across = np.where(v[1:-1, 1:-1] > 0, north, south) * v[1:-1, 1:-1]
        spread = (east - west + south - north) * diffusion / h**2
        dye[1:-1, 1:-1] = inner + dt * (spread - (along + across) / h)
        dye[0], dye[-1] = dye[1], dye[-2]
        dye[:, 0], dye[:, -1] = dye[:, 1], dye[:, -2]
    return dye, dye.sum()
