"""Bayesian logistic regression by Hamiltonian Monte Carlo, 40,000 observations."""

import sys

import numpy as np

size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
n, d, samples = max(500, int(40_000 * size)), 12, 60
rng = np.random.default_rng(3)
features = rng.normal(size=(n, d))
true = rng.normal(size=d)
label = (rng.random(n) < 1 / (1 + np.exp(-features @ true))).astype(float)


def energy(beta):
    z = features @ beta
    return np.sum(np.logaddexp(0, z) - label * z) + 0.05 * beta @ beta


def gradient(beta):
    return features.T @ (1 / (1 + np.exp(-(features @ beta))) - label) + beta / 10


beta, taken, trace, step = np.zeros(d), 0, [], 0.006 / size**0.5
for _ in range(samples):
    p, q = rng.normal(size=d), beta.copy()
    before = energy(q) + 0.5 * p @ p
    p = p - 0.5 * step * gradient(q)
    for leap in range(12):
        q = q + step * p
        p = p - (step if leap < 11 else 0.5 * step) * gradient(q)
    if np.log(rng.random()) < before - energy(q) - 0.5 * p @ p:
        beta, taken = q, taken + 1
    trace.append(beta)
print(taken, np.round(np.mean(trace[samples // 3 :], axis=0)[:4], 3))
