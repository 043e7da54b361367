"""Traffic jams after Nagel and Schreckenberg: cars on rings of 200 lanes, all lanes at once."""

import sys

import numpy as np

size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
lanes, cells, steps, fastest = max(int(200 * size), 2), 1_000, 600, 5
rng = np.random.default_rng(149)
for density in (0.1, 0.25):
    cars = int(cells * density)
    place = np.sort(np.argsort(rng.random((lanes, cells)), axis=1)[:, :cars], axis=1)
    speed = np.zeros((lanes, cars), dtype=np.int64)
    flow = []
    for _ in range(steps):
        gap = (np.roll(place, -1, axis=1) - place - 1) % cells
        speed = np.minimum(speed + 1, fastest)
        speed = np.minimum(speed, gap)
        lazy = rng.random((lanes, cars)) < 0.2
        speed[lazy] = np.maximum(speed[lazy] - 1, 0)
        place = (place + speed) % cells
        flow.append(speed.mean() * density)
    stopped = (speed == 0).mean()
    print("density", density, "flow", np.mean(flow[100:]), "stopped", stopped)
    print("  longest gap", gap.max(), "between lanes", speed.mean(axis=1).std())
