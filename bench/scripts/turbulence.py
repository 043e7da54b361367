"""Two-dimensional turbulence by a pseudo-spectral method: transforms of real planes."""

import sys

import numpy as np

size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
n, steps, dt, viscosity = 192, int(120 * size), 0.01, 1e-4
k = np.fft.fftfreq(n, 1 / n)
KY, KX = np.meshgrid(k, np.fft.rfftfreq(n, 1 / n), indexing="ij")
squares = KX**2 + KY**2
inverse = np.divide(1.0, squares, out=np.zeros_like(squares), where=squares > 0)
kept = (np.abs(KX) < n / 3) & (np.abs(KY) < n / 3)
rng = np.random.default_rng(2)
w = np.fft.rfft2(rng.normal(size=(n, n))) * np.exp(-squares / 400) * kept


def plane(spectrum):
    return np.fft.irfft2(spectrum, s=(n, n))


def slope(w):
    stream = w * inverse
    u, v = plane(1j * KY * stream), plane(-1j * KX * stream)
    flux = u * plane(1j * KX * w) + v * plane(1j * KY * w)
    return -np.fft.rfft2(flux) * kept - viscosity * squares * w


for step in range(steps):
    k1 = slope(w)
    k2 = slope(w + 0.5 * dt * k1)
    k3 = slope(w + 0.5 * dt * k2)
    k4 = slope(w + dt * k3)
    w = w + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    if step % 30 == 29:
        energy = np.sum(np.abs(w) ** 2 * inverse).real / n**4
        print(step, "energy", energy, "vorticity", np.abs(plane(w)).max())
print("end", np.abs(plane(w)).mean())
