"""Gravity between bodies: every pair at once by broadcasting, then leapfrog steps."""

import numpy as np

SIZE = 1000


def inputs(size=SIZE):
    rng = np.random.default_rng(3)
    return {
        "position": rng.normal(0.0, 1.0, (3, size)),
        "velocity": rng.normal(0.0, 0.1, (3, size)),
        "mass": rng.uniform(0.5, 1.5, size) / size,
    }


def acceleration(position, mass, softening=0.05):
    delta = position[:, np.newaxis, :] - position[:, :, np.newaxis]
    distance2 = (delta**2).sum(axis=0) + softening**2
    pull = mass / (distance2 * np.sqrt(distance2))
    return (delta * pull).sum(axis=-1)


def main(position, velocity, mass, steps=3, dt=0.01):
    force = acceleration(position, mass)
    for _ in range(steps):
        velocity = velocity + 0.5 * dt * force
        position = position + dt * velocity
        force = acceleration(position, mass)
        velocity = velocity + 0.5 * dt * force
    return position, velocity
