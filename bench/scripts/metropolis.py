"""Metropolis sampling with 120,000 walkers of a density with two curved ridges."""

import sys

import numpy as np


def log_density(x, y):
    first = -0.5 * ((x - 1) ** 2 + 10 * (y - x**2) ** 2)
    second = -0.5 * ((x + 2) ** 2 / 0.5 + (y + 1) ** 2 / 0.3)
    return np.logaddexp(first, second)


def main():
    size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    walkers = int(120_000 * size)
    rng = np.random.default_rng(29)
    x = rng.normal(size=walkers)
    y = rng.normal(size=walkers)
    now = log_density(x, y)
    accepted = 0
    sums = np.zeros(4)
    for step in range(200):
        nx = x + rng.normal(0, 0.6, walkers)
        ny = y + rng.normal(0, 0.6, walkers)
        new = log_density(nx, ny)
        accept = np.log(rng.random(walkers)) < new - now
        x = np.where(accept, nx, x)
        y = np.where(accept, ny, y)
        now = np.where(accept, new, now)
        accepted += accept.sum()
        if step >= 50:
            sums += x.mean(), y.mean(), (x * x).mean(), (x * y).mean()
        if step % 50 == 0:
            print("step", step, "accepted", accept.mean())
    print("rate", accepted / walkers / 200)
    print("moments", *(sums / 150))
    print("left", (x < 0).mean(), "log density", now.mean())


main()
