"""Steps of an ocean model: leapfrog, upwind tracers, mixing where it is unstable, masks."""

import sys

import numpy as np


class Ocean:
    def __init__(self, ny, nx, nz, seed=1):
        rng = np.random.default_rng(seed)
        self.h = 1000 + 200 * rng.random((ny, nx))
        self.mask = (rng.random((ny, nx)) > 0.02).astype(float)
        self.eta = np.zeros((ny, nx))
        self.u = np.zeros((nz, ny, nx))
        self.v = np.zeros((nz, ny, nx))
        self.T = 10 + rng.random((nz, ny, nx))
        self.S = 35 + 0.1 * rng.random((nz, ny, nx))
        self.eta_old = self.eta.copy()
        self.f = 1e-4 * np.ones((ny, nx)) + 1e-9 * np.arange(ny)[:, None]
        self.dx = self.dy = 5e3
        self.dt = 20.0
        self.g = 9.81
        self.nz = nz
        self.tau = 0.1 * np.cos(np.pi * np.arange(ny) / ny)[:, None] * np.ones((ny, nx))
        self.w = np.zeros((nz + 1, ny, nx))

    def ddx(self, a):
        out = np.zeros_like(a)
        out[..., 1:-1] = (a[..., 2:] - a[..., :-2]) / (2 * self.dx)
        return out

    def ddy(self, a):
        out = np.zeros_like(a)
        out[..., 1:-1, :] = (a[..., 2:, :] - a[..., :-2, :]) / (2 * self.dy)
        return out

    def lap(self, a):
        out = np.zeros_like(a)
        out[..., 1:-1, 1:-1] = (
            a[..., 1:-1, 2:]
            + a[..., 1:-1, :-2]
            + a[..., 2:, 1:-1]
            + a[..., :-2, 1:-1]
            - 4 * a[..., 1:-1, 1:-1]
        ) / self.dx**2
        return out

    def density(self):
        t, s = self.T, self.S
        return (
            999.8
            + 6.8e-2 * t
            - 9.1e-3 * t**2
            + 1e-4 * t**3
            + (0.824 - 4.1e-3 * t + 7.6e-5 * t**2) * s
            + (-5.7e-3 + 1.0e-4 * t) * np.abs(s) ** 1.5
        )

    def upwind(self, c):
        up = np.where(self.u > 0, c - np.roll(c, 1, axis=2), np.roll(c, -1, axis=2) - c) / self.dx
        vp = np.where(self.v > 0, c - np.roll(c, 1, axis=1), np.roll(c, -1, axis=1) - c) / self.dy
        return self.u * up + self.v * vp

    def step(self):
        rho = self.density()
        p = np.cumsum(rho[::-1], axis=0)[::-1] * self.g * 100
        px, py = self.ddx(p) / 1025, self.ddy(p) / 1025
        du = self.f * self.v - px * 1e-3 - self.g * self.ddx(self.eta) + 50 * self.lap(self.u)
        dv = -self.f * self.u - py * 1e-3 - self.g * self.ddy(self.eta) + 50 * self.lap(self.v)
        du[-1] += self.tau / (1025 * 100)
        self.u += self.dt * du
        self.v += self.dt * dv
        self.u *= self.mask
        self.v *= self.mask
        div = self.ddx(self.u) + self.ddy(self.v)
        self.w[1:] = -np.cumsum(div, axis=0) * 100
        mean_u, mean_v = self.u.mean(axis=0), self.v.mean(axis=0)
        new = self.eta_old - 2 * self.dt * (self.ddx(self.h * mean_u) + self.ddy(self.h * mean_v))
        filt = self.eta + 0.1 * (new - 2 * self.eta + self.eta_old)
        self.eta_old, self.eta = filt, new * self.mask
        for tracer in (self.T, self.S):
            tend = -self.upwind(tracer) + 20 * self.lap(tracer)
            tend[1:-1] -= 0.5 * (self.w[1:-2] + self.w[2:-1]) * (tracer[2:] - tracer[:-2]) / 200
            tracer[:] += self.dt * tend * self.mask
        unstable = rho[1:] > rho[:-1] + 0.5
        mix = np.where(unstable, 0.5 * (self.T[1:] - self.T[:-1]), 0)
        self.T[1:] -= mix
        self.T[:-1] += mix
        return unstable.sum()


size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
ocean = Ocean(90, 120, 12)
for n in range(int(80 * size)):
    mixed = ocean.step()
    if n % 20 == 19:
        print(n, int(mixed), ocean.eta.std(), ocean.u.max(), ocean.T.mean(), np.abs(ocean.w).max())
print("end", ocean.eta.sum(), ocean.u.max(), ocean.T.mean())
