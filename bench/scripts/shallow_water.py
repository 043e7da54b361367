"""Shallow water in a basin: a dam breaks, finite volumes with Lax-Friedrichs fluxes."""

import sys

import numpy as np

G = 9.81


def fluxes(h, hu, hv):
    u = hu / h
    v = hv / h
    pressure = 0.5 * G * h**2
    return (hu, hu * u + pressure, hu * v), (hv, hu * v, hv * v + pressure)


def reflect(h, hu, hv):
    for q, sx, sy in ((h, 1, 1), (hu, -1, 1), (hv, 1, -1)):
        q[0, :], q[-1, :] = sx * q[1, :], sx * q[-2, :]
        q[:, 0], q[:, -1] = sy * q[:, 1], sy * q[:, -2]


def main():
    size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    n = int(400 * size**0.5)
    dx = 100.0 / n
    x, y = np.meshgrid(*[(np.arange(n + 2) - 0.5) * dx] * 2, indexing="ij")
    h = np.where((x - 40) ** 2 + (y - 55) ** 2 < 15**2, 3.0, 1.0)
    hu, hv = np.zeros_like(h), np.zeros_like(h)
    volume = h[1:-1, 1:-1].sum() * dx**2
    t = 0.0
    for step in range(160):
        reflect(h, hu, hv)
        c = np.sqrt(G * h)
        fastest = max(np.max(np.abs(hu / h) + c), np.max(np.abs(hv / h) + c))
        dt = 0.45 * dx / fastest
        fx, fy = fluxes(h, hu, hv)
        new = []
        for q, f, g in zip((h, hu, hv), fx, fy, strict=True):
            average = 0.25 * (q[2:, 1:-1] + q[:-2, 1:-1] + q[1:-1, 2:] + q[1:-1, :-2])
            change = (f[2:, 1:-1] - f[:-2, 1:-1]) + (g[1:-1, 2:] - g[1:-1, :-2])
            new.append(average - dt / (2 * dx) * change)
        for q, value in zip((h, hu, hv), new, strict=True):
            q[1:-1, 1:-1] = value
        t += dt
        if step % 40 == 0:
            print("step", step, "t", t, "highest", h.max())
    inner = h[1:-1, 1:-1]
    print("volume kept", abs(inner.sum() * dx**2 / volume - 1) < 1e-9)
    print("time", t, "height", inner.min(), inner.max(), inner.std())
    speed = np.hypot(hu, hv)[1:-1, 1:-1] / inner
    print("speed", speed.mean(), speed.max(), "froude", (speed / np.sqrt(G * inner)).max())


main()
