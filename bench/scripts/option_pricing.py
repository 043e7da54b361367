"""Monte-Carlo prices of four options on 500,000 paths of a share, step by step."""

import sys

import numpy as np

size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
paths, steps = int(500_000 * size), 150
spot, strike, rate, sigma, years = 100.0, 105.0, 0.03, 0.25, 1.0
barrier = 130.0
dt = years / steps
rng = np.random.default_rng(7)

s = np.full(paths, spot)
total = np.zeros(paths)
highest = s.copy()
alive = np.ones(paths, dtype=bool)
for _ in range(steps):
    z = rng.standard_normal(paths)
    s = s * np.exp((rate - 0.5 * sigma**2) * dt + sigma * np.sqrt(dt) * z)
    total += s
    highest = np.maximum(highest, s)
    alive &= s < barrier

discount = np.exp(-rate * years)
payoffs = {
    "european": np.maximum(s - strike, 0),
    "asian": np.maximum(total / steps - strike, 0),
    "knock-out": np.where(alive, np.maximum(s - strike, 0), 0.0),
    "lookback": highest - s,
}
for name, payoff in payoffs.items():
    value = discount * payoff
    print(f"{name:10}", value.mean(), "+-", value.std(ddof=1) / np.sqrt(paths))
print("knocked out", 1 - alive.mean())
print("quantiles", *np.quantile(s, [0.05, 0.5, 0.95]))
