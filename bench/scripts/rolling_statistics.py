"""Rolling statistics of long series: means, deviations, extremes, correlation, draw-down."""

import sys

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view


def rolling_sum(x, w):
    c = np.cumsum(np.concatenate([[0.0], x]))
    return c[w:] - c[:-w]


def rolling_std(x, w):
    mean = rolling_sum(x, w) / w
    return np.sqrt(np.maximum(rolling_sum(x * x, w) / w - mean * mean, 0))


def rolling_corr(x, y, w):
    mx, my = rolling_sum(x, w) / w, rolling_sum(y, w) / w
    cov = rolling_sum(x * y, w) / w - mx * my
    return cov / (rolling_std(x, w) * rolling_std(y, w))


size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
n = int(2_000_000 * size)
rng = np.random.default_rng(31)
common = rng.normal(size=n)
x = common + rng.normal(size=n)
y = 0.5 * common + rng.normal(size=n)
level = np.cumsum(x) * 0.01

for w in (10, 50, 250):
    mean = rolling_sum(level, w) / w
    std = rolling_std(x, w)
    band = np.abs(level[w - 1 :] - mean) > 2 * std * 0.1
    corr = rolling_corr(x, y, w)
    print("window", w, std.mean(), corr.mean(), corr.std(), band.sum())
windows = sliding_window_view(x, 16)
print("extremes", windows.max(axis=1).mean(), windows.min(axis=1).mean())
median = np.median(sliding_window_view(x[: n // 10], 9), axis=1)
print("median", median.std())
peak = np.maximum.accumulate(level)
drawdown = peak - level
print("draw-down", drawdown.max(), drawdown.mean(), (drawdown == 0).sum())
