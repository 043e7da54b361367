"""Histogram equalisation of a stack of grey pictures: whole, and tile by tile."""

import sys

import numpy as np


def equalise(img):
    hist = np.bincount(img.ravel(), minlength=256)
    cdf = hist.cumsum()
    low = cdf[cdf > 0][0]
    table = np.clip((cdf - low) / max(img.size - low, 1) * 255, 0, 255).round().astype(np.uint8)
    return table[img]


def entropy(img):
    p = np.bincount(img.ravel(), minlength=256) / img.size
    p = p[p > 0]
    return -(p * np.log2(p)).sum()


def picture(n, number, rng):
    y, x = np.mgrid[0:n, 0:n] / n
    img = 80 + 30 * np.sin(9 * x * (number + 1)) * np.cos(7 * y) + 25 * x * y
    img += rng.normal(0, 8, (n, n))
    return np.clip(img, 0, 255).astype(np.uint8)


size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
n, tile = 128 * max(int(8 * size**0.5), 1), 128
rng = np.random.default_rng(59)
before, after, local = [], [], []
for number in range(18):
    img = picture(n, number, rng)
    flat = equalise(img)
    tiles = np.empty_like(img)
    for i in range(0, n, tile):
        for j in range(0, n, tile):
            tiles[i : i + tile, j : j + tile] = equalise(img[i : i + tile, j : j + tile])
    mixed = (0.5 * flat + 0.5 * tiles).astype(np.uint8)
    before.append(img.std())
    after.append(flat.std())
    local.append((entropy(img), entropy(mixed), np.abs(mixed.astype(int) - img).mean()))
print("contrast", np.mean(before), np.mean(after))
print("entropy and change", *np.mean(local, axis=0))
