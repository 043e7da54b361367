"""Fitting a curve with Adam: moving averages and weights, all updated in place."""

import numpy as np

SIZE = 1_000_000


def inputs(size=SIZE):
    rng = np.random.default_rng(1)
    return {"target": rng.standard_normal(size), "scale": rng.uniform(0.5, 2.0, size)}


def main(target, scale, steps=10, rate=0.05):
    weights = np.zeros_like(target)
    mean = np.zeros_like(target)
    square = np.zeros_like(target)
    for step in range(1, steps + 1):
        gradient = 2.0 * scale * (weights - target)
        mean *= 0.9
        mean += 0.1 * gradient
        square *= 0.999
        square += 0.001 * gradient**2
        update = mean / (1.0 - 0.9**step)
        update /= np.sqrt(square / (1.0 - 0.999**step)) + 1e-8
        weights -= rate * update
    return weights, np.mean(scale * (weights - target) ** 2)
