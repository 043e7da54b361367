"""Orbit determination: Kepler's equation by Newton's method, elements by least squares."""

import sys

import numpy as np


def eccentric_anomaly(mean, e):
    big_e = mean + e * np.sin(mean)
    for _ in range(20):
        step = (big_e - e * np.sin(big_e) - mean) / (1 - e * np.cos(big_e))
        big_e = big_e - step
        if np.max(np.abs(step)) < 1e-11:
            break
    return big_e


def position(t, elements):
    a, e, omega, phase = elements
    mean = np.mod(2 * np.pi * t / a**1.5 + phase, 2 * np.pi)
    big_e = eccentric_anomaly(mean, e)
    x = a * (np.cos(big_e) - e)
    y = a * np.sqrt(1 - e**2) * np.sin(big_e)
    c, s = np.cos(omega), np.sin(omega)
    return np.concatenate([c * x - s * y, s * x + c * y])


size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
rng = np.random.default_rng(83)
t = np.sort(rng.uniform(0, 8, int(200_000 * size)))
truth = np.array([1.524, 0.2934, 0.7, 1.1])
observed = position(t, truth) + rng.normal(0, 0.01, 2 * len(t))
elements = np.array([1.50, 0.25, 0.75, 1.05])
for iteration in range(8):
    model = position(t, elements)
    residual = observed - model
    jacobian = np.empty((len(model), 4))
    for k in range(4):
        step = np.zeros(4)
        step[k] = 1e-6
        jacobian[:, k] = (position(t, elements + step) - position(t, elements - step)) / 2e-6
    correction, *_ = np.linalg.lstsq(jacobian, residual, rcond=None)
    elements = elements + correction
    print("iteration", iteration, "rms", np.sqrt((residual**2).mean()).round(8))
    if np.abs(correction).max() < 1e-8:
        break
print("elements", *elements.round(7))
print("error", *np.abs(elements - truth).round(5))
