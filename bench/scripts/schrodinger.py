"""A wave packet through a double slit: split steps with FFTs, its norm in each step."""

import sys

import numpy as np

size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
n = 1 << int(np.log2(512 * max(size, 1e-3) ** 0.5))
steps, dt, width = 100, 0.002, 10.0
x = (np.arange(n) - n / 2) * width / n
k = 2 * np.pi * np.fft.fftfreq(n, width / n)
xx, yy = np.meshgrid(x, x, indexing="ij")
kx, ky = np.meshgrid(k, k, indexing="ij")
wall = (np.abs(xx) < 0.15) & ~(np.abs(np.abs(yy) - 0.8) < 0.3)
potential = np.where(wall, 2e3, 0.0)
psi = np.exp(-((xx + 2.5) ** 2 + yy**2) / 0.8 + 1j * 18 * xx)
psi /= np.sqrt((np.abs(psi) ** 2).sum())
half = np.exp(-0.5j * dt * potential)
kinetic = np.exp(-0.5j * dt * (kx**2 + ky**2))
passed = []
for step in range(steps):
    psi = half * psi
    psi = np.fft.ifft2(kinetic * np.fft.fft2(psi))
    psi = half * psi
    density = np.abs(psi) ** 2
    passed.append(density[xx > 0.2].sum())
    if step % 25 == 0:
        print("step", step, "norm", density.sum(), "passed", round(passed[-1], 9))
screen = density[int(0.7 * n)]
peaks = (screen[1:-1] > screen[:-2]) & (screen[1:-1] > screen[2:]) & (screen[1:-1] > 1e-7)
print("passed", passed[-1], "x", (density * xx).sum(), "peaks", peaks.sum())
print("phase", np.angle(psi[n // 4, n // 2]), np.abs(np.gradient(screen)).max())
