"""An ensemble of 20,000 Lorenz systems by Runge-Kutta steps; spread and switches of wing."""

import sys

import numpy as np


def lorenz(state, sigma=10.0, rho=28.0, beta=8.0 / 3.0):
    x, y, z = state
    return np.array([sigma * (y - x), x * (rho - z) - y, x * y - beta * z])


def rk4(state, dt):
    k1 = lorenz(state)
    k2 = lorenz(state + 0.5 * dt * k1)
    k3 = lorenz(state + 0.5 * dt * k2)
    k4 = lorenz(state + dt * k3)
    return state + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
members, steps, dt = int(20_000 * size), 1_000, 0.01
rng = np.random.default_rng(71)
state = np.array([[1.0], [1.0], [25.0]]) + rng.normal(0, 0.5, (3, members))
wing = np.sign(state[0])
switches = np.zeros(members, dtype=int)
spread = []
for step in range(steps):
    state = rk4(state, dt)
    side = np.sign(state[0])
    switches += side != wing
    wing = side
    spread.append(state.std(axis=1).mean())
    if step % 250 == 0:
        print("step", step, "mean", *state.mean(axis=1))
print("spread", spread[0], spread[-1], np.mean(spread))
print("switches", switches.mean(), switches.max())
print("z", state[2].min(), state[2].max())
