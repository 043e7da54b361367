"""k-means clustering: squared distances by broadcasting, nearest centre, new centres."""

import numpy as np

SIZE = 150_000


def inputs(size=SIZE, clusters=8, columns=4):
    rng = np.random.default_rng(23)
    truth = rng.uniform(-5.0, 5.0, (clusters, columns))
    points = truth[rng.integers(0, clusters, size)] + rng.normal(0.0, 0.7, (size, columns))
    return {"points": points, "centres": points[:: max(1, size // clusters)][:clusters].copy()}


def main(points, centres, rounds=3):
    for _ in range(rounds):
        distance = ((points[:, np.newaxis, :] - centres) ** 2).sum(axis=-1)
        nearest = distance.argmin(axis=1)
        centres = np.stack(
            [
                points[nearest == k].mean(axis=0) if (nearest == k).any() else centres[k]
                for k in range(len(centres))
            ]
        )
    return centres, nearest
