"""Value at risk by GARCH(1, 1) with jumps: many paths, shocks of standardised residuals."""

import sys

import numpy as np


def fit_variance(returns, omega, alpha, beta):
    variance = np.empty_like(returns)
    variance[0] = returns.var()
    for t in range(1, len(returns)):
        variance[t] = omega + alpha * returns[t - 1] ** 2 + beta * variance[t - 1]
    return variance


size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
paths, days = int(250_000 * size), 250
omega, alpha, beta, leverage = 2e-6, 0.07, 0.88, 0.05
rng = np.random.default_rng(97)
history = rng.standard_t(5, 2000) * 0.01
variance = fit_variance(history, omega, alpha, beta)
residuals = (history - history.mean()) / np.sqrt(variance)

h = np.full(paths, variance[-1])
price = np.full(paths, 100.0)
lowest = price.copy()
stopped = np.zeros(paths, dtype=bool)
for day in range(days):
    shock = residuals[rng.integers(0, len(residuals), paths)]
    jump = rng.random(paths) < 0.01
    r = np.sqrt(h) * shock
    r[jump] += rng.normal(-0.02, 0.01, jump.sum())
    h = omega + alpha * r**2 + leverage * r**2 * (r < 0) + beta * h
    h = np.clip(h, 1e-8, 0.01)
    price = np.where(stopped, price, price * np.exp(r - h / 2))
    lowest = np.minimum(lowest, price)
    stopped |= price < 60
    if day % 50 == 49:
        print("day", day + 1, "mean", price.mean(), "stopped", stopped.mean())
loss = np.sort(100 - price)
at = int(0.99 * paths)
print("value at risk", loss[at], "expected shortfall", loss[at:].mean())
print("drawdown", (100 - lowest).mean(), np.percentile(lowest, [1, 5, 50]))
