"""Terrain in single precision: fractal heights, slope, aspect, shade, erosion, watersheds."""

import sys

import numpy as np


def fractal(n, rng):
    k = np.fft.fftfreq(n)
    radius = np.sqrt(k[:, None] ** 2 + k[None, :] ** 2)
    radius[0, 0] = 1
    spectrum = np.fft.fft2(rng.normal(size=(n, n))) / radius**1.6
    z = np.real(np.fft.ifft2(spectrum))
    z -= z.min()
    return (1500 * z / z.max()).astype(np.float32)


def hillshade(z, cell, azimuth=315.0, altitude=45.0):
    dy, dx = np.gradient(z, cell)
    slope = np.pi / 2 - np.arctan(np.sqrt(dx * dx + dy * dy))
    aspect = np.arctan2(-dx, dy)
    az, alt = np.radians(azimuth), np.radians(altitude)
    shade = np.sin(alt) * np.sin(slope) + np.cos(alt) * np.cos(slope) * np.cos(az - aspect)
    return np.clip(255 * (shade + 1) / 2, 0, 255), slope, aspect


size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
n = int(1600 * size**0.5)
z = fractal(n, np.random.default_rng(107))
cell = 30.0
for _ in range(25):
    dn = z[:-2, 1:-1] - z[1:-1, 1:-1]
    ds = z[2:, 1:-1] - z[1:-1, 1:-1]
    de = z[1:-1, 2:] - z[1:-1, 1:-1]
    dw = z[1:-1, :-2] - z[1:-1, 1:-1]
    lowest = np.minimum(np.minimum(dn, ds), np.minimum(de, dw))
    talus = np.where(lowest < -8.0, 0.1 * (lowest + 8.0), 0.0)
    z[1:-1, 1:-1] += talus + 0.02 * (dn + ds + de + dw)
shade, slope, aspect = hillshade(z, cell)
steep = slope < np.radians(60)
classes = np.digitize(z, np.array([200, 500, 900, 1200], dtype=np.float32))
area = np.bincount(classes.ravel(), minlength=5) * cell**2 / 1e6
print("height", round(float(z.mean()), 2), round(float(z.std()), 2))
print("shade", round(float(shade.mean()), 2), "steep", round(float(steep.mean()), 3))
print("aspect", round(float(np.cos(aspect).mean()), 3))
print("area", *area.round(1))
print("rough", round(float(np.abs(np.diff(z, 2, axis=0)).mean()), 3))
