"""A satellite's scene of nine million pixels: reflectance, clouds, vegetation, water, classes."""

import sys

import numpy as np

size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
n = int(3000 * size**0.5)
rng = np.random.default_rng(157)
coarse = rng.random((5, n // 20 + 1, n // 20 + 1)).astype(np.float32)
bands = {}
for name, base, layer in zip(
    ("blue", "green", "red", "nir", "swir"), (9, 10, 11, 25, 18), coarse, strict=True
):
    scene = np.kron(layer, np.ones((20, 20), dtype=np.float32))[:n, :n]
    noise = rng.integers(0, 400, (n, n), dtype=np.uint16)
    bands[name] = (scene * 100 * base + 300 * base).astype(np.uint16) + noise

blue, green, red, nir, swir = (band.astype(np.float32) * 1e-4 for band in bands.values())
ndvi = (nir - red) / (nir + red)
ndwi = (green - nir) / (green + nir)
evi = 2.5 * (nir - red) / (nir + 6 * red - 7.5 * blue + 1)
brightness = (blue + green + red) / 3
cloud = (brightness > 0.42) & (swir > 0.5)
water = (ndwi > -0.2) & ~cloud
classes = np.zeros((n, n), dtype=np.uint8)
classes[ndvi > 0.15] = 1
classes[ndvi > 0.35] = 2
classes[ndvi > 0.50] = 3
classes[water] = 4
classes[cloud] = 5
valid = ~cloud
print("ndvi", round(float(ndvi[valid].mean(dtype=np.float64)), 5))
print("evi", round(float(np.clip(evi, -1, 1).mean(dtype=np.float64)), 5))
print("cloud", cloud.mean(), "water", water.mean())
counts = np.bincount(classes.ravel(), minlength=6)
for number, count in enumerate(counts):
    print("class", number, count / classes.size)
blocks = ndvi[: n // 10 * 10, : n // 10 * 10].reshape(n // 10, 10, n // 10, 10).mean(axis=(1, 3))
print("blocks", round(float(blocks.std()), 4), round(float(blocks.max()), 4))
