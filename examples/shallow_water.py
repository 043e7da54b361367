"""Shallow water in a square basin: a drop spreads; two-step Lax-Friedrichs with slices.

Conserved per cell: height h and momenta hu, hv. The walls reflect.
"""

import numpy as np

SIZE = 700
GRAVITY = 9.81


def inputs(size=SIZE):
    x = np.linspace(-1.0, 1.0, size)
    bump = np.exp(-20.0 * ((x + 0.3) ** 2 + (x[:, np.newaxis] - 0.2) ** 2))
    return {"h": 1.0 + 0.4 * bump, "hu": np.zeros((size, size)), "hv": np.zeros((size, size))}


def neighbours(a):
    return a[1:-1, :-2], a[1:-1, 2:], a[:-2, 1:-1], a[2:, 1:-1]


def reflect(h, hu, hv):
    for a in (h, hu, hv):
        a[0, :], a[-1, :] = a[1, :], a[-2, :]
        a[:, 0], a[:, -1] = a[:, 1], a[:, -2]
    hv[0, :], hv[-1, :] = -hv[0, :], -hv[-1, :]
    hu[:, 0], hu[:, -1] = -hu[:, 0], -hu[:, -1]


def advance(a, flux_x, flux_y, ratio):
    west, east, north, south = neighbours(a)
    left, right = flux_x[1:-1, :-2], flux_x[1:-1, 2:]
    above, below = flux_y[:-2, 1:-1], flux_y[2:, 1:-1]
    return 0.25 * (west + east + north + south) - 0.5 * ratio * (right - left + below - above)


def main(h, hu, hv, steps=10, ratio=0.1):
    h, hu, hv = h.copy(), hu.copy(), hv.copy()
    for _ in range(steps):
        reflect(h, hu, hv)
        u, v = hu / h, hv / h
        pressure = 0.5 * GRAVITY * h * h
        new_h = advance(h, hu, hv, ratio)
        new_hu = advance(hu, hu * u + pressure, hu * v, ratio)
        new_hv = advance(hv, hv * u, hv * v + pressure, ratio)
        h[1:-1, 1:-1], hu[1:-1, 1:-1], hv[1:-1, 1:-1] = new_h, new_hu, new_hv
    return h, hu, hv
