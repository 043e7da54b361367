"""Tomography: projections of a phantom, filtered by FFT, and projected back."""

import sys

import numpy as np


def phantom(n):
    y, x = np.mgrid[-1 : 1 : n * 1j, -1 : 1 : n * 1j]
    img = np.zeros((n, n))
    for value, cx, cy, a, b in (
        (1.0, 0, 0, 0.7, 0.9),
        (-0.8, 0, 0, 0.65, 0.85),
        (-0.2, 0.22, 0, 0.11, 0.31),
        (0.3, -0.1, 0.35, 0.2, 0.25),
        (0.5, 0.05, -0.4, 0.06, 0.06),
    ):
        img[((x - cx) / a) ** 2 + ((y - cy) / b) ** 2 <= 1] += value
    return img


def ramp(sinogram):
    n = sinogram.shape[1]
    frequency = np.fft.fftfreq(2 * n)
    spectrum = np.fft.fft(sinogram, 2 * n, axis=1)
    window = 0.54 + 0.46 * np.cos(2 * np.pi * frequency)
    return np.real(np.fft.ifft(spectrum * np.abs(frequency) * window, axis=1))[:, :n]


size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
n, views = int(512 * size**0.5), 180
img = phantom(n)
half = n / 2
y, x = np.mgrid[0:n, 0:n] - half + 0.5
angles = np.arange(views) * np.pi / views
bins = int(1.5 * n)
sinogram = np.zeros((views, bins))
for i, angle in enumerate(angles):
    t = x * np.cos(angle) + y * np.sin(angle) + bins / 2
    low = np.floor(t).astype(int)
    part = t - low
    sinogram[i] += np.bincount(low.ravel(), ((1 - part) * img).ravel(), bins)[:bins]
    sinogram[i] += np.bincount(low.ravel() + 1, (part * img).ravel(), bins)[:bins]
filtered = ramp(sinogram)
back = np.zeros((n, n))
for i, angle in enumerate(angles):
    t = x * np.cos(angle) + y * np.sin(angle) + bins / 2
    back += np.interp(t.ravel(), np.arange(bins), filtered[i]).reshape(n, n)
back *= np.pi / views
inside = x**2 + y**2 < (0.9 * half) ** 2
scale = (back[inside] * img[inside]).sum() / (back[inside] ** 2).sum()
error = np.sqrt(((scale * back - img)[inside] ** 2).mean())
print("sinogram", sinogram.sum(), sinogram.max())
print("scale", scale, "error", error)
print("correlation", np.corrcoef(back[inside], img[inside])[0, 1])
