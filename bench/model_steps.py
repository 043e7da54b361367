"""Steps of models, called cold: calls until they are within 1.2 of what they take in the end.

Each model runs in processes of its own, with NumPy, and in a block with an empty cache folder and
with the one that process left. A call is one step on the state that the step before has left.
reached: the first call from which on three in a row take at most 1.2 times the steady time, which
is the median of the last third; and the seconds until then. Speeds are NumPy's time over ours.
The states after a few steps must be NumPy's, but for the last bits of functions.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

SECONDS = 3.0  # of a process's calls
RESTART = 150  # calls after which the model begins anew, as some would grow without bound
COMPARED = 8  # the call whose state is
NEAR = 1.2


def _noise(*shape, seed=0, dtype="d"):
    return np.random.default_rng(seed).random(shape).astype(dtype)


# ------------------------------------------------------------------------------------- models


def tke():
    """Turbulent kinetic energy, mixed vertically (tridiagonal), advected by upwind fluxes."""
    nx, ny, nz = 100, 100, 40
    u, v, w = (_noise(nx, ny, nz, seed=s) - 0.5 for s in (1, 2, 3))
    energy, kappa = _noise(nx, ny, nz, seed=4) + 0.1, _noise(nx, ny, nz, seed=5) + 0.01
    forcing, mask = _noise(nx, ny, seed=6), _noise(nx, ny, nz, seed=7) > 0.1
    dz, dt = np.linspace(1.0, 2.0, nz), 0.01

    def step():
        nonlocal energy
        root = np.sqrt(np.maximum(0.0, energy))
        length = np.minimum(np.maximum(root / np.maximum(1e-6, np.abs(w) * 5), 0.1), 10.0)
        delta = np.zeros_like(energy)
        delta[:, :, :-1] = dt / dz[1:] * 0.5 * (kappa[:, :, :-1] + kappa[:, :, 1:])
        a, b, c = np.zeros_like(energy), np.zeros_like(energy), np.zeros_like(energy)
        a[:, :, 1:-1] = -delta[:, :, :-2] / dz[1:-1]
        a[:, :, -1] = -delta[:, :, -2] / (0.5 * dz[-1])
        b[:, :, 1:-1] = 1 + (delta[:, :, 1:-1] + delta[:, :, :-2]) / dz[1:-1]
        b[:, :, 1:-1] += dt * 0.7 * root[:, :, 1:-1] / length[:, :, 1:-1]
        b[:, :, -1] = 1 + delta[:, :, -2] / (0.5 * dz[-1]) + dt * 0.7 / length[:, :, -1]
        b[:, :, 0] = 1 + delta[:, :, 0] / dz[0]
        c[:, :, :-1] = -delta[:, :, :-1] / dz[:-1]
        d = energy + dt * forcing[:, :, None] * mask
        d[:, :, -1] += dt * forcing / (0.5 * dz[-1])
        for k in range(1, nz):
            m = a[:, :, k] / b[:, :, k - 1]
            b[:, :, k] = b[:, :, k] - m * c[:, :, k - 1]
            d[:, :, k] = d[:, :, k] - m * d[:, :, k - 1]
        new = np.zeros_like(energy)
        new[:, :, -1] = d[:, :, -1] / b[:, :, -1]
        for k in range(nz - 2, -1, -1):
            new[:, :, k] = (d[:, :, k] - c[:, :, k] * new[:, :, k + 1]) / b[:, :, k]
        new = np.where(mask, new, 0.0)
        for axis, speed in enumerate((u, v, w)):
            after = np.roll(new, -1, axis)
            flux = np.maximum(speed, 0.0) * new + np.minimum(speed, 0.0) * after
            new = new - dt * (flux - np.roll(flux, 1, axis))
        energy = np.maximum(new, 1e-6)
        return energy

    return step


def isoneutral():
    """Slopes of density and fluxes along them, from a list of neighbours."""
    n = 80
    salt, temperature = _noise(n, n, 30, seed=1), _noise(n, n, 30, seed=2) * 10
    dx = np.linspace(1.0, 1.3, n)

    def step():
        nonlocal salt, temperature
        drdt, drds = -0.2 + 0.01 * temperature, 0.78 + 0.001 * salt
        flux = np.zeros_like(temperature)
        for up in (0, 1):
            for east in (0, 1):
                dtdx = (temperature[1:, :, :] - temperature[:-1, :, :]) / dx[1:, None, None]
                dsdx = (salt[1:, :, :] - salt[:-1, :, :]) / dx[1:, None, None]
                dtdz = temperature[:, :, 1:] - temperature[:, :, :-1]
                dsdz = salt[:, :, 1:] - salt[:, :, :-1]
                at = slice(east, east + n - 1)
                drdx = drdt[at] * dtdx + drds[at] * dsdx
                drdz = drdt[at, :, up : up + 29] * dtdz[at] + drds[at, :, up : up + 29] * dsdz[at]
                slope = -drdx[:, :, :-1] / np.minimum(-1e-3, drdz)
                taper = 0.5 * (1 + np.tanh((-np.abs(slope) + 0.002) / 0.001))
                flux[:-1, :, :-1] += taper * slope * dtdz[at] * 0.25
        temperature = temperature + 0.001 * flux
        salt = salt + 0.0005 * (np.roll(salt, 1, 0) - salt)
        return temperature, salt

    return step


def constrained_transport():
    """Ideal magnetohydrodynamics in two dimensions, with a divergence-free field."""
    n = 256
    x, y = np.meshgrid((np.arange(n) + 0.5) / n, (np.arange(n) + 0.5) / n, indexing="ij")
    az = np.cos(4 * np.pi * x) / (4 * np.pi * np.sqrt(4 * np.pi))
    az = az + np.cos(2 * np.pi * y) / (2 * np.pi * np.sqrt(4 * np.pi))
    dx, gamma, left, right = 1.0 / n, 5 / 3, 1, -1
    bx = (az - np.roll(az, 1, 1)) / dx
    by = -(az - np.roll(az, 1, 0)) / dx
    rho, p = gamma**2 / (4 * np.pi) * np.ones_like(x), 2 * gamma / np.pi * np.ones_like(x)
    vx, vy = -np.sin(2 * np.pi * y), np.sin(2 * np.pi * x)

    def gradient(f):
        return (
            (np.roll(f, right, 0) - np.roll(f, left, 0)) / (2 * dx),
            (np.roll(f, right, 1) - np.roll(f, left, 1)) / (2 * dx),
        )

    def faces(f, fx, fy):
        low_x, high_x = f - fx * dx / 2, f + fx * dx / 2
        low_y, high_y = f - fy * dx / 2, f + fy * dx / 2
        return np.roll(low_x, right, 0), high_x, np.roll(low_y, right, 1), high_y

    def fluxes(r_l, r_r, vx_l, vx_r, vy_l, vy_r, p_l, p_r, bx_l, bx_r, by_l, by_r):
        e_l = p_l / (gamma - 1) + 0.5 * r_l * (vx_l**2 + vy_l**2) + 0.5 * (bx_l**2 + by_l**2)
        e_r = p_r / (gamma - 1) + 0.5 * r_r * (vx_r**2 + vy_r**2) + 0.5 * (bx_r**2 + by_r**2)
        r, mx, my, e = (
            0.5 * (r_l + r_r),
            0.5 * (r_l * vx_l + r_r * vx_r),
            0.5 * (r_l * vy_l + r_r * vy_r),
            0.5 * (e_l + e_r),
        )
        bxs, bys = 0.5 * (bx_l + bx_r), 0.5 * (by_l + by_r)
        ps = (gamma - 1) * (e - 0.5 * (mx**2 + my**2) / r - 0.5 * (bxs**2 + bys**2))
        ps = ps + 0.5 * (bxs**2 + bys**2)
        f_r, f_mx = mx, mx**2 / r + ps - bxs * bxs
        f_my, f_e = mx * my / r - bxs * bys, (e + ps) * mx / r - bxs * (bxs * mx + bys * my) / r
        f_by = (bys * mx - bxs * my) / r
        c_l = np.sqrt((gamma * p_l + bx_l**2 + by_l**2) / r_l) + np.abs(vx_l)
        c_r = np.sqrt((gamma * p_r + bx_r**2 + by_r**2) / r_r) + np.abs(vx_r)
        c = np.maximum(c_l, c_r)
        return (
            f_r - c * 0.5 * (r_l - r_r),
            f_mx - c * 0.5 * (r_l * vx_l - r_r * vx_r),
            f_my - c * 0.5 * (r_l * vy_l - r_r * vy_r),
            f_e - c * 0.5 * (e_l - e_r),
            f_by - c * 0.5 * (by_l - by_r),
        )

    def step():
        nonlocal rho, vx, vy, p, bx, by
        bxc, byc = 0.5 * (bx + np.roll(bx, left, 0)), 0.5 * (by + np.roll(by, left, 1))
        mass, mom_x, mom_y = rho * dx**2, rho * vx * dx**2, rho * vy * dx**2
        energy = (p / (gamma - 1) + 0.5 * rho * (vx**2 + vy**2) + 0.5 * (bxc**2 + byc**2)) * dx**2
        c0 = np.sqrt(gamma * p / rho + (bxc**2 + byc**2) / rho)
        dt = 0.4 * np.min(dx / (c0 + np.sqrt(vx**2 + vy**2)))
        grads = [gradient(f) for f in (rho, vx, vy, p, bxc, byc)]
        parts = [faces(f, *g) for f, g in zip((rho, vx, vy, p, bxc, byc), grads, strict=True)]
        r, u, v, q, b, d = parts
        fx = fluxes(r[0], r[1], u[0], u[1], v[0], v[1], q[0], q[1], b[0], b[1], d[0], d[1])
        fy = fluxes(r[2], r[3], v[2], v[3], u[2], u[3], q[2], q[3], d[2], d[3], b[2], b[3])
        change = dt * dx
        mass = mass + change * (np.roll(fx[0], left, 0) - fx[0] + np.roll(fy[0], left, 1) - fy[0])
        mom_x = mom_x + change * (np.roll(fx[1], left, 0) - fx[1] + np.roll(fy[2], left, 1) - fy[2])
        mom_y = mom_y + change * (np.roll(fx[2], left, 0) - fx[2] + np.roll(fy[1], left, 1) - fy[1])
        energy = energy + change * (
            np.roll(fx[3], left, 0) - fx[3] + np.roll(fy[3], left, 1) - fy[3]
        )
        ez = 0.25 * (-fx[4] - np.roll(fx[4], right, 1) + fy[4] + np.roll(fy[4], right, 0))
        bx = bx - dt * (ez - np.roll(ez, 1, 1)) / dx
        by = by + dt * (ez - np.roll(ez, 1, 0)) / dx
        bxc, byc = 0.5 * (bx + np.roll(bx, left, 0)), 0.5 * (by + np.roll(by, left, 1))
        rho = mass / dx**2
        vx, vy = mom_x / rho / dx**2, mom_y / rho / dx**2
        p = (energy / dx**2 - 0.5 * rho * (vx**2 + vy**2) - 0.5 * (bxc**2 + byc**2)) * (gamma - 1)
        return rho, vx, vy, p, bx, by

    return step


def lattice_boltzmann():
    """Nine speeds, a cylinder as a mask."""
    ny, nx = 200, 400
    cxs, cys = np.array([0, 0, 1, 1, 1, 0, -1, -1, -1]), np.array([0, 1, 1, 0, -1, -1, -1, 0, 1])
    weights = np.array([4 / 9, 1 / 9, 1 / 36, 1 / 9, 1 / 36, 1 / 9, 1 / 36, 1 / 9, 1 / 36])
    f = np.ones((ny, nx, 9)) + 0.01 * _noise(ny, nx, 9, seed=1)
    x, y = np.meshgrid(range(nx), range(ny))
    f[:, :, 3] += 2 * (1 + 0.2 * np.cos(2 * np.pi * x / nx * 4))
    total = np.sum(f, 2)
    for i in range(9):
        f[:, :, i] *= 100 / total
    cylinder = (x - nx / 4) ** 2 + (y - ny / 2) ** 2 < (ny / 4) ** 2

    def step():
        nonlocal f
        for i, cx, cy in zip(range(9), cxs, cys, strict=True):
            f[:, :, i] = np.roll(f[:, :, i], cx, axis=1)
            f[:, :, i] = np.roll(f[:, :, i], cy, axis=0)
        wall = f[cylinder, :]
        wall = wall[:, [0, 5, 6, 7, 8, 1, 2, 3, 4]]
        rho = np.sum(f, 2)
        ux, uy = np.sum(f * cxs, 2) / rho, np.sum(f * cys, 2) / rho
        feq = np.zeros(f.shape)
        for i, cx, cy, w in zip(range(9), cxs, cys, weights, strict=True):
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
        f += -(1.0 / 0.6) * (f - feq)
        f[cylinder, :] = wall
        return f

    return step


def cavity():
    """A lid-driven cavity: pressure by twenty sweeps, then both velocities, in place."""
    n = 241
    u, v, p = np.zeros((n, n)), np.zeros((n, n)), np.zeros((n, n))
    dx, dt, rho, nu = 2 / (n - 1), 0.0001, 1.0, 0.1

    def step():
        b = np.zeros((n, n))
        b[1:-1, 1:-1] = rho * (
            1 / dt * ((u[1:-1, 2:] - u[1:-1, :-2]) + (v[2:, 1:-1] - v[:-2, 1:-1])) / (2 * dx)
            - ((u[1:-1, 2:] - u[1:-1, :-2]) / (2 * dx)) ** 2
            - 2
            * ((u[2:, 1:-1] - u[:-2, 1:-1]) / (2 * dx) * (v[1:-1, 2:] - v[1:-1, :-2]) / (2 * dx))
            - ((v[2:, 1:-1] - v[:-2, 1:-1]) / (2 * dx)) ** 2
        )
        for _ in range(20):
            pn = p.copy()
            p[1:-1, 1:-1] = (
                (pn[1:-1, 2:] + pn[1:-1, :-2]) + (pn[2:, 1:-1] + pn[:-2, 1:-1])
            ) / 4 - dx**2 / 4 * b[1:-1, 1:-1]
            p[:, -1], p[0, :], p[:, 0], p[-1, :] = p[:, -2], p[1, :], p[:, 1], 0
        un, vn = u.copy(), v.copy()
        for out, own, gradient in (
            (u, un, p[1:-1, 2:] - p[1:-1, :-2]),
            (v, vn, p[2:, 1:-1] - p[:-2, 1:-1]),
        ):
            here = own[1:-1, 1:-1]
            out[1:-1, 1:-1] = (
                here
                - un[1:-1, 1:-1] * dt / dx * (here - own[1:-1, :-2])
                - vn[1:-1, 1:-1] * dt / dx * (here - own[:-2, 1:-1])
                - dt / (2 * rho * dx) * gradient
                + nu
                * dt
                / dx**2
                * (own[1:-1, 2:] + own[1:-1, :-2] + own[2:, 1:-1] + own[:-2, 1:-1] - 4 * here)
            )
        u[0, :], u[:, 0], u[:, -1], u[-1, :] = 0, 0, 0, 1
        v[0, :], v[-1, :], v[:, 0], v[:, -1] = 0, 0, 0, 0
        return u, v, p

    return step


def fdtd():
    """Electromagnetic fields on a Yee grid in three dimensions, a dielectric sphere, a source."""
    n = 70
    e, h = np.zeros((3, n, n, n)), np.zeros((3, n, n, n))
    at = np.arange(n) - n / 2
    far = at[:, None, None] ** 2 + at[:, None] ** 2 + at**2
    inverse = np.where(far < 200, 0.25, 1.0)
    time_ = 0

    def curl_e():
        c = np.zeros(e.shape)
        c[0, :, :-1, :] += e[2, :, 1:, :] - e[2, :, :-1, :]
        c[0, :, :, :-1] -= e[1, :, :, 1:] - e[1, :, :, :-1]
        c[1, :, :, :-1] += e[0, :, :, 1:] - e[0, :, :, :-1]
        c[1, :-1, :, :] -= e[2, 1:, :, :] - e[2, :-1, :, :]
        c[2, :-1, :, :] += e[1, 1:, :, :] - e[1, :-1, :, :]
        c[2, :, :-1, :] -= e[0, :, 1:, :] - e[0, :, :-1, :]
        return c

    def curl_h():
        c = np.zeros(h.shape)
        c[0, :, 1:, :] += h[2, :, 1:, :] - h[2, :, :-1, :]
        c[0, :, :, 1:] -= h[1, :, :, 1:] - h[1, :, :, :-1]
        c[1, :, :, 1:] += h[0, :, :, 1:] - h[0, :, :, :-1]
        c[1, 1:, :, :] -= h[2, 1:, :, :] - h[2, :-1, :, :]
        c[2, 1:, :, :] += h[1, 1:, :, :] - h[1, :-1, :, :]
        c[2, :, 1:, :] -= h[0, :, 1:, :] - h[0, :, :-1, :]
        return c

    def step():
        nonlocal time_
        e[...] += 0.5 * inverse * curl_h()
        e[2, n // 4, n // 2, n // 2] += np.sin(0.1 * time_)
        h[...] -= 0.5 * curl_e()
        time_ += 1
        return e, h

    return step


def ocean():
    """A shallow water ocean: momentum, continuity, friction, a free surface, boundaries."""
    nx, ny = 300, 200
    h, u, v = 100 + _noise(nx, ny, seed=1), np.zeros((nx, ny)), np.zeros((nx, ny))
    coriolis = 1e-4 + 2e-11 * np.arange(ny) * 5e3
    dh, du, dv = np.zeros((nx, ny)), np.zeros((nx, ny)), np.zeros((nx, ny))
    dx, g, dt = 5e3, 9.81, 0.5

    def step():
        hc = np.pad(h[1:-1, 1:-1], 1, "edge")
        fe, fn = np.zeros_like(h), np.zeros_like(h)
        fe[1:-1, 1:-1] = 0.5 * (hc[1:-1, 1:-1] + hc[2:, 1:-1]) * u[1:-1, 1:-1]
        fn[1:-1, 1:-1] = 0.5 * (hc[1:-1, 1:-1] + hc[1:-1, 2:]) * v[1:-1, 1:-1]
        dh[1:-1, 1:-1] = -(fe[1:-1, 1:-1] - fe[:-2, 1:-1] + fn[1:-1, 1:-1] - fn[1:-1, :-2]) / dx
        curl = (v[2:, 1:-1] - v[1:-1, 1:-1] - u[1:-1, 2:] + u[1:-1, 1:-1]) / dx
        q = np.zeros_like(h)
        q[1:-1, 1:-1] = coriolis[1:-1] + curl
        q[1:-1, 1:-1] *= 1.0 / (0.25 * (hc[1:-1, 1:-1] + hc[2:, 1:-1] + hc[1:-1, 2:] + hc[2:, 2:]))
        energy = np.zeros_like(h)
        energy[1:-1, 1:-1] = 0.25 * (
            u[1:-1, 1:-1] ** 2 + u[:-2, 1:-1] ** 2 + v[1:-1, 1:-1] ** 2 + v[1:-1, :-2] ** 2
        )
        du[1:-1, 1:-1] = -g * (h[2:, 1:-1] - h[1:-1, 1:-1]) / dx + 0.5 * (
            q[1:-1, 1:-1] * 0.5 * (fn[1:-1, 1:-1] + fn[2:, 1:-1])
            + q[1:-1, :-2] * 0.5 * (fn[1:-1, :-2] + fn[2:, :-2])
        )
        du[1:-1, 1:-1] += -(energy[2:, 1:-1] - energy[1:-1, 1:-1]) / dx
        dv[1:-1, 1:-1] = -g * (h[1:-1, 2:] - h[1:-1, 1:-1]) / dx - 0.5 * (
            q[1:-1, 1:-1] * 0.5 * (fe[1:-1, 1:-1] + fe[1:-1, 2:])
            + q[:-2, 1:-1] * 0.5 * (fe[:-2, 1:-1] + fe[:-2, 2:])
        )
        dv[1:-1, 1:-1] += -(energy[1:-1, 2:] - energy[1:-1, 1:-1]) / dx
        h[...] += dt * dh
        u[...] += dt * du
        v[...] += dt * dv
        u[-2, :] = 0
        v[:, -2] = 0
        for field in (u, v):
            across = np.zeros_like(field)
            across[:-1, :] = 50 * (field[1:, :] - field[:-1, :]) / dx
            field[1:-1, 1:-1] += dt * (across[1:-1, 1:-1] - across[:-2, 1:-1]) / dx
        return h, u, v

    return step


MODELS = {
    model.__name__: model
    for model in (tke, isoneutral, constrained_transport, lattice_boltzmann, cavity, fdtd, ocean)
}


# ------------------------------------------------------------------------------------- processes


def child(name, engine, place):
    """Milliseconds of each call; the state is saved."""
    times = []

    def calls():
        began = time.perf_counter()
        while time.perf_counter() - began < SECONDS or len(times) <= COMPARED:
            if len(times) % RESTART == 0:
                step = MODELS[name]()
            start = time.perf_counter()
            state = step()
            state = state if isinstance(state, tuple) else (state,)
            float(state[0][(0,) * state[0].ndim])
            times.append((time.perf_counter() - start) * 1e3)
            if len(times) == COMPARED:
                np.savez(place, *map(np.array, state))

    if engine == "numpy":
        calls()
    else:
        import npaccel

        with npaccel.accelerate():
            calls()
    print(*(f"{t:.4f}" for t in times))


def run(name, engine, cache, states):
    """The times of a process, and its state."""
    place = states / f"{name}.npz"
    done = subprocess.run(
        [sys.executable, "-P", __file__, "--child", name, engine, str(place)],
        env=dict(os.environ, NPACCEL_CACHE_DIR=str(cache)),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    with np.load(place) as saved:
        state = [saved[key] for key in saved]
    return [float(t) for t in done.stdout.split()], state


def alike(one, other):
    return all(np.allclose(a, b, 1e-12, 1e-12) for a, b in zip(one, other, strict=True))


def reached(times):
    """The call from which on three in a row are near the steady time, the seconds before it, and
    that time."""
    steady = statistics.median(times[-len(times) // 3 :])
    near = [t <= NEAR * steady for t in times] + [True] * 3
    k = next(k for k in range(len(times)) if all(near[k : k + 3]))
    return k + 1, sum(times[:k]) / 1e3, steady


def main():
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:])
        return 0
    names = sys.argv[1:] or list(MODELS)
    unknown = [name for name in names if name not in MODELS]
    if unknown:
        print(f"unknown models: {', '.join(unknown)}; known: {', '.join(MODELS)}")
        return 2
    print(
        "model                 NumPy ms | first process: ms  speed  first  reached     s | second"
    )
    wrong = 0
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            numpys, expected = run(name, "numpy", place, place)
            (cold, one), (second, two) = (run(name, "block", place, place) for _ in range(2))
        good = alike(expected, one) and alike(expected, two)
        wrong += not good
        base = statistics.median(numpys[-len(numpys) // 3 :])
        line = f"{name:21} {base:8.2f}"
        for times in (cold, second):
            at, seconds, steady = reached(times)
            line += f" | {steady:8.2f} {base / steady:6.2f} {numpys[0] / times[0]:6.2f}"
            line += f" {at:6d} {seconds:8.2f}"
        print(line + ("" if good else "  WRONG"), flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
