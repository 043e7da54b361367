"""Monte-Carlo integrals in ten dimensions, batch by batch, until the error is small enough."""

import sys

import numpy as np


def integrand(x):
    r2 = (x**2).sum(axis=1)
    return np.exp(-r2) * np.cos(x.sum(axis=1)) + np.prod(1 + 0.1 * np.sin(3 * x), axis=1)


size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
dimensions, batch = 10, int(50_000 * size)
rng = np.random.default_rng(101)
n, mean, m2 = 0, 0.0, 0.0
for number in range(40):
    u = rng.random((batch, dimensions))
    values = 0.5 * (integrand(u) + integrand(1 - u))
    delta = values.mean() - mean
    n += batch
    mean += delta * batch / n
    m2 += values.var() * batch + delta**2 * batch * (n - batch) / n
    error = np.sqrt(m2) / n
    if number % 10 == 0:
        print("batch", number, "value", mean, "+-", error)
    if error < 1e-6:
        break
radius = np.sqrt((u**2).sum(axis=1))
inside = (radius < 1.0).mean()
print("value", mean, "+-", error)
print("points", n, "inside", inside)
