"""A photograph: exposure, white balance, blur, sharpening, edges, a vignette, back to bytes."""

import sys

import numpy as np


def photograph(height, width, rng):
    y, x = np.mgrid[0:height, 0:width]
    scene = 110 + 60 * np.sin(x / 97.0) * np.cos(y / 61.0)
    scene += 40 * ((x // 80 + y // 80) % 2)
    rgb = np.stack([scene, scene * 0.8 + 20, scene * 0.6 + 35], axis=-1)
    rgb += rng.normal(0, 6, rgb.shape)
    return np.clip(rgb, 0, 255).astype(np.uint8)


def blur(img, radius):
    kernel = np.exp(-0.5 * (np.arange(-radius, radius + 1) / (radius / 2)) ** 2)
    kernel /= kernel.sum()
    padded = np.pad(img, radius, mode="edge")
    out = np.zeros_like(img)
    rows = np.zeros((img.shape[0], padded.shape[1]), dtype=img.dtype)
    for i, k in enumerate(kernel):
        rows += k * padded[i : i + img.shape[0]]
    for i, k in enumerate(kernel):
        out += k * rows[:, i : i + img.shape[1]]
    return out


def edges(gray):
    gx = gray[1:-1, 2:] - gray[1:-1, :-2]
    gy = gray[2:, 1:-1] - gray[:-2, 1:-1]
    return np.hypot(gx, gy)


size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
height, width = int(1600 * size**0.5), int(2400 * size**0.5)
picture = photograph(height, width, np.random.default_rng(2))
img = picture.astype(np.float32) / 255
img = img ** np.float32(2.2)
img = img * (0.5 / img.mean(axis=(0, 1)))
gray = img @ np.array([0.299, 0.587, 0.114], dtype=np.float32)
soft = blur(gray, 4)
sharp = gray + 1.5 * (gray - soft)
strength = edges(soft)
mask = strength > strength.mean() + 2 * strength.std()
yy, xx = np.ogrid[-1 : 1 : height * 1j, -1 : 1 : width * 1j]
vignette = 1 - 0.35 * (xx**2 + yy**2)
final = img * (sharp / np.maximum(gray, 1e-4))[..., None] * vignette[..., None]
final = np.clip(final, 0, 1) ** (1 / 2.2)
saturation = final.max(axis=2) - final.min(axis=2)
out = (final * 255 + 0.5).astype(np.uint8)
print("mean", *final.mean(axis=(0, 1)))
print("edges", mask.mean(), "saturation", saturation.mean())
print("contrast", out[..., 1].std())
print("histogram", *(np.histogram(final, bins=8, range=(0, 1))[0] / final.size).round(4))
