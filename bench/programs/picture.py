"""Developing a picture of bytes: grey levels, contrast, sharpening, a mask, a vignette; uint8."""

import numpy as np

SIZE = 1000


def inputs(size=SIZE):
    rng = np.random.default_rng(9)
    return {"picture": rng.integers(0, 256, (size, size, 3), dtype=np.uint8)}


def main(picture):
    grey = (picture @ np.array([77, 150, 29], np.uint16) >> 8).astype(np.uint8)
    low, high = int(grey.min()), int(grey.max())
    stretched = np.clip((grey.astype(np.int16) - low) * 255 // max(high - low, 1), 0, 255)
    wide = stretched.astype(np.int16)
    blurred = wide.copy()
    blurred[1:-1, 1:-1] = (
        wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:] + 4 * wide[1:-1, 1:-1]
    ) >> 3
    sharp = np.clip(2 * wide - blurred, 0, 255).astype(np.uint8)
    negative = 255 - picture
    mixed = ((picture.astype(np.uint16) + negative[::-1]) >> 1).astype(np.uint8)
    bright = sharp > 128
    mixed[bright] = 255
    rows, columns = np.ogrid[-1 : 1 : len(grey) * 1j, -1 : 1 : len(grey[0]) * 1j]
    vignette = (sharp * np.clip(1.2 - rows**2 - columns**2, 0.0, 1.0)).astype(np.uint8)
    return sharp, mixed, vignette, sharp ^ (grey & 0x0F)
