"""Random walks with drift: cumulative sums, running records, the deepest falls."""

import numpy as np

SIZE = 1000


def inputs(size=SIZE):
    rng = np.random.default_rng(5)
    return {"steps": rng.standard_normal((size, 1000)), "drift": rng.normal(0.0, 0.02, size)}


def main(steps, drift):
    paths = np.cumsum(0.01 * steps + 0.001 * drift[:, None], axis=1)
    prices = 100.0 * np.exp(paths)
    peaks = np.maximum.accumulate(prices, axis=1)
    falls = (peaks - prices) / peaks
    returns = np.diff(np.log(prices), axis=1)
    crossings = np.sum(np.sign(paths[:, 1:]) != np.sign(paths[:, :-1]), axis=1)
    volatility = returns.std(axis=1, ddof=1) * np.sqrt(252.0)
    return prices[:, -1], falls.max(axis=1), volatility, crossings
