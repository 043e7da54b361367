"""A flock of birds: separation, alignment and cohesion with those who are near."""

import sys

import numpy as np


def limit(vectors, most):
    length = np.sqrt((vectors**2).sum(axis=1))
    fast = length > most
    vectors[fast] *= most / length[fast][:, None]
    return vectors


def towards(wanted, velocity, some, most_speed, most_force):
    length = np.sqrt((wanted**2).sum(axis=1))
    move = some & (length > 0)
    steer = np.zeros_like(wanted)
    steer[move] = wanted[move] / length[move][:, None] * most_speed - velocity[move]
    return limit(steer, most_force)


size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
n, steps, width, height = int(500 * size**0.5), 150, 640.0, 360.0
rng = np.random.default_rng(83)
position = rng.uniform(0, 1, (n, 2)) * [width, height]
angle = rng.uniform(0, 2 * np.pi, n)
velocity = np.stack([np.cos(angle), np.sin(angle)], axis=1)
for step in range(steps):
    dx = np.subtract.outer(position[:, 0], position[:, 0])
    dy = np.subtract.outer(position[:, 1], position[:, 1])
    distance = np.hypot(dx, dy)
    others = distance > 0
    close, near = others & (distance < 25), others & (distance < 50)
    close_count = np.maximum(close.sum(axis=1), 1)
    near_count = np.maximum(near.sum(axis=1), 1)

    mean = near @ velocity / near_count[:, None]
    align = towards(mean, velocity, near.any(axis=1), 2.0, 0.03)

    center = near @ position / near_count[:, None] - position
    join = towards(center, velocity, near.any(axis=1), 2.0, 0.03)

    apart = np.zeros((n, 2))
    weight = np.divide(close, distance**2, out=np.zeros_like(distance), where=others)
    apart[:, 0] = (dx * weight).sum(axis=1) / close_count
    apart[:, 1] = (dy * weight).sum(axis=1) / close_count
    avoid = towards(apart, velocity, close.any(axis=1), 2.0, 0.03)

    velocity = limit(velocity + 1.5 * avoid + align + join, 2.0)
    position += velocity
    position %= [width, height]
    if step % 50 == 49:
        speed = np.sqrt((velocity**2).sum(axis=1))
        print("step", step + 1, "neighbours", near.sum() / n > 1, "speed", speed.mean() > 0.5)
order = np.sqrt((velocity.mean(axis=0) ** 2).sum())
print("in order", 0 < order < 2.01, position.shape, np.isfinite(position).all())
