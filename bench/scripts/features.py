"""Features of a million trades: returns, rolling means, ranks, groups, flags."""

import sys

import numpy as np


def rolling_mean(x, width):
    total = np.cumsum(x)
    total[width:] = total[width:] - total[:-width]
    out = np.full(len(x), np.nan)
    out[width - 1 :] = total[width - 1 :] / width
    return out


def zscore(x):
    return (x - np.nanmean(x)) / np.nanstd(x)


def make_trades(n, rng):
    symbol = rng.integers(0, 400, n)
    price = 100 * np.exp(np.cumsum(rng.normal(0, 1e-4, n)))
    volume = rng.lognormal(4, 1.2, n)
    side = rng.choice(np.array([-1, 1]), n)
    return symbol, price, volume, side


size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
n = int(1_500_000 * size)
symbol, price, volume, side = make_trades(n, np.random.default_rng(11))

ret = np.zeros(n)
ret[1:] = np.diff(np.log(price))
features = {"ret": ret, "flow": side * volume * price}
for width in (5, 20, 60):
    mean = rolling_mean(price, width)
    features[f"gap{width}"] = price / mean - 1
    square = rolling_mean(ret**2, width)
    features[f"vol{width}"] = np.sqrt(np.maximum(square, 0)) * np.sqrt(252)
features["signed"] = np.where(ret > 0, volume, np.where(ret < 0, -volume, 0.0))
features["logvol"] = np.log1p(volume)

count = np.bincount(symbol, minlength=400)
mean_volume = np.bincount(symbol, weights=volume, minlength=400) / np.maximum(count, 1)
features["relvol"] = volume / mean_volume[symbol]
edges = np.quantile(volume, np.linspace(0, 1, 11)[1:-1])
decile = np.digitize(volume, edges)
features["decile"] = decile.astype(float)

table = np.column_stack([zscore(f) for f in features.values()])
table = np.clip(table, -5, 5)
table[np.isnan(table)] = 0.0
corr = np.corrcoef(table, rowvar=False)
flags = (np.abs(table) > 3).sum(axis=1)
for name, column in zip(features, table.T, strict=True):
    print(f"{name:8}", np.abs(column).mean(), column.max())
print("corr", corr[0, 2], corr[3, 4], corr.sum())
print("flags", flags.max(), np.bincount(flags)[:4])
print("by decile", np.bincount(decile, weights=features["flow"]))
