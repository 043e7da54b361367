"""A Kalman filter for 3,000 sensors at once: position, speed and bias of each."""

import sys

import numpy as np

size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
sensors, steps = 3_000, max(int(1_000 * size), 3)
rng = np.random.default_rng(13)
dt = 0.1
f = np.array([[1, dt, 0.5 * dt**2], [0, 1, dt], [0, 0, 0.99]])
q = np.diag([1e-4, 1e-3, 1e-2])
h = np.array([1.0, 0.0, 0.0])
noise = rng.uniform(0.05, 0.5, sensors)

state = np.zeros((sensors, 3))
p = np.tile(np.eye(3), (sensors, 1, 1))
truth = rng.normal(size=(sensors, 3))
errors = []
rejected = 0
for step in range(steps):
    truth = truth @ f.T + rng.normal(size=(sensors, 3)) * np.sqrt(np.diag(q))
    z = truth[:, 0] + rng.normal(size=sensors) * noise
    outlier = rng.random(sensors) < 0.01
    z[outlier] += 20.0

    state = state @ f.T
    p = f @ p @ f.T + q
    innovation = z - state @ h
    s = p[:, 0, 0] + noise**2
    gain = p[:, :, 0] / s[:, None]
    good = innovation**2 < 25 * s
    gain[~good] = 0.0
    rejected += (~good).sum()
    state = state + gain * innovation[:, None]
    p = p - gain[:, :, None] * p[:, None, 0, :]
    p = 0.5 * (p + p.transpose(0, 2, 1))
    errors.append(np.sqrt(((state[:, 0] - truth[:, 0]) ** 2).mean()))
    if step % 250 == 0:
        print("step", step, "error", errors[-1])
print("rejected", rejected)
print("error", np.mean(errors[steps // 2 :]), errors[-1])
print("trace", np.trace(p, axis1=1, axis2=2).mean())
print("state", *np.abs(state).mean(axis=0))
