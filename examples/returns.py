"""A price series: log returns, their z-scores, how many are extreme, and the worst drawdown."""

import numpy as np

SIZE = 4_000_000


def inputs(size=SIZE):
    rng = np.random.default_rng(5)
    steps = rng.standard_t(4, size) * 1e-4
    return {"price": 100.0 * np.exp(np.cumsum(steps))}


def main(price):
    y = np.log(price[1:] / price[:-1])
    z = (y - y.mean()) / y.std()
    extreme = np.count_nonzero(np.abs(z) > 3.0)
    peak = np.maximum.accumulate(price)
    drawdown = (1.0 - price / peak).max()
    return z, extreme, drawdown
