"""Cleaning a sensor's log: outliers, gaps and saturation, found and mended by boolean masks."""

import numpy as np

SIZE = 1_000_000


def inputs(size=SIZE):
    rng = np.random.default_rng(2)
    signal = np.sin(np.linspace(0.0, 300.0, size)) + 0.1 * rng.standard_normal(size)
    signal[rng.random(size) < 0.01] = np.nan
    signal[rng.random(size) < 0.01] *= 50.0
    return {"signal": signal}


def main(signal, limit=3.0):
    clean = signal.copy()
    missing = np.isnan(clean)
    clean[missing] = 0.0
    wild = np.abs(clean) > limit
    clean[wild] = 0.0
    clean[clean > 1.0] = 1.0
    clean[clean < -1.0] = -1.0
    good = ~(missing | wild)
    level = np.where(good, clean, 0.0).sum() / np.count_nonzero(good)
    clean[~good] = level
    rising = (clean[1:] > clean[:-1]) & good[1:] & good[:-1]
    power = clean[good]
    return clean, rising, (power * power).mean(), int(missing.sum()), int(wild.sum())
