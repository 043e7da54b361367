"""Hodgkin-Huxley neurons, 16,000 at once with different currents; spikes are counted."""

import sys

import numpy as np


def rates(v):
    am = 0.1 * (v + 40.0) / (1 - np.exp(-(v + 40.0) / 10))
    bm = 4.0 * np.exp(-(v + 65.0) / 18)
    ah = 0.07 * np.exp(-(v + 65.0) / 20)
    bh = 1 / (1 + np.exp(-(v + 35.0) / 10))
    an = 0.01 * (v + 55.0) / (1 - np.exp(-(v + 55.0) / 10))
    bn = 0.125 * np.exp(-(v + 65) / 80)
    return am, bm, ah, bh, an, bn


size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
neurons, steps, dt = int(16_000 * size), 2_500, 0.02
current = np.linspace(0.05, 20.05, neurons)
v = np.full(neurons, -65.1)
am, bm, ah, bh, an, bn = rates(v)
m, h, n = am / (am + bm), ah / (ah + bh), an / (an + bn)
spikes = np.zeros(neurons, dtype=int)
above = np.zeros(neurons, dtype=bool)
mean = []
for step in range(steps):
    am, bm, ah, bh, an, bn = rates(v)
    m += dt * (am * (1 - m) - bm * m)
    h += dt * (ah * (1 - h) - bh * h)
    n += dt * (an * (1 - n) - bn * n)
    sodium = 120.0 * m**3 * h * (v - 50.0)
    potassium = 36.0 * n**4 * (v + 77.0)
    leak = 0.3 * (v + 54.4)
    v = v + dt * (current - sodium - potassium - leak)
    now = v > 0
    spikes += now & ~above
    above = now
    mean.append(v.mean())
    if step % 500 == 0:
        print("step", step, "v", mean[-1])
print("spikes", spikes.sum(), spikes.max(), "silent", (spikes == 0).sum())
print("v", np.mean(mean), v.min(), v.max())
