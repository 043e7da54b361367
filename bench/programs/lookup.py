"""Colours by a palette and a warped picture: tables and pictures read at integer indices."""

import numpy as np

SIZE = 1000


def inputs(size=SIZE):
    rng = np.random.default_rng(3)
    return {"heights": rng.random((size, size)), "palette": rng.random((256, 3)).astype("f4")}


def main(heights, palette):
    levels = np.minimum((heights * 256.0).astype(np.int64), 255)
    red, green, blue = palette[:, 0][levels], palette[:, 1][levels], palette[:, 2][levels]
    grey = 0.299 * red + 0.587 * green + 0.114 * blue
    rows, columns = np.indices(heights.shape)
    size = len(heights)
    shift = (6.0 * np.sin(columns * (20.0 / size))).astype(np.int64)
    warped = heights[np.clip(rows + shift, 0, size - 1), columns]
    return grey, warped, np.abs(warped - heights).mean()
