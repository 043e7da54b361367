"""A real photograph, sharpened, toned, and searched for edges with Sobel's filter.

The picture is china.jpg (427 x 640) from scikit-learn's wheel, by danielbuechele (CC BY 2.0);
`size` copies of it are laid side by side to make a picture of today's size.
"""

import numpy as np

SIZE = 9


def inputs(size=SIZE):
    from sklearn.datasets import load_sample_image  # only this example needs it

    rows = max(1, int(size**0.5))
    return {"picture": np.tile(load_sample_image("china.jpg"), (rows, max(1, size // rows), 1))}


def sharpen(grey, amount=0.6):
    blurred = 0.2 * (
        grey[1:-1, 1:-1] + grey[:-2, 1:-1] + grey[2:, 1:-1] + grey[1:-1, :-2] + grey[1:-1, 2:]
    )
    return grey[1:-1, 1:-1] + amount * (grey[1:-1, 1:-1] - blurred)


def sobel(g):
    dx = g[:-2, 2:] + 2 * g[1:-1, 2:] + g[2:, 2:] - g[:-2, :-2] - 2 * g[1:-1, :-2] - g[2:, :-2]
    dy = g[2:, :-2] + 2 * g[2:, 1:-1] + g[2:, 2:] - g[:-2, :-2] - 2 * g[:-2, 1:-1] - g[:-2, 2:]
    return np.sqrt(dx * dx + dy * dy)


def main(picture):
    rgb = picture.astype(np.float32) / 255
    grey = 0.299 * rgb[..., 0] + 0.587 * rgb[..., 1] + 0.114 * rgb[..., 2]
    toned = np.clip(sharpen(grey), 0, 1) ** 0.8
    edges = np.minimum(sobel(toned), 1)
    return (toned * 255).astype(np.uint8), edges > 0.35
