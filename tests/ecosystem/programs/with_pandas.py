"""Tables by pandas."""

import io

import numpy as np
import pandas as pd


def _table(rng, size):
    return pd.DataFrame(
        {
            "key": rng.integers(0, 50, size),
            "price": np.round(np.exp(0.1 * rng.standard_normal(size)), 6),
            "count": rng.integers(1, 9, size),
            "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(size), unit="min"),
        }
    )


def groups(rng, size):
    frame = _table(rng, size)
    frame["value"] = frame["price"] * frame["count"]
    by_key = frame.groupby("key")["value"].agg(["sum", "mean", "max", "std"])
    frame["share"] = frame["value"] / frame.groupby("key")["value"].transform("sum")
    best = frame.sort_values("value", ascending=False).head(10)
    return by_key, frame["share"], best.index


def time_series(rng, size):
    prices = _table(rng, size).set_index("when")["price"].cumprod() ** 0.01
    hourly = prices.resample("1h").ohlc()
    rolling = prices.rolling(30).mean()
    smooth = prices.ewm(span=20).mean()
    returns = np.log(prices).diff().dropna()
    return hourly, rolling, smooth, returns.std(), returns.autocorr()


def gaps(rng, size):
    frame = _table(rng, size)
    frame.loc[frame["price"] < 0.9, "price"] = np.nan
    filled = frame["price"].interpolate()
    clipped = frame["price"].fillna(0.0).clip(0.5, 1.2)
    wide = frame.pivot_table(index="key", columns="count", values="price")
    return filled, clipped, wide, frame["price"].isna().sum(), frame["price"].describe()


def merged(rng, size):
    left, right = _table(rng, size), _table(rng, 50).drop_duplicates("key")
    both = left.merge(right, on="key", suffixes=("", "_other"))
    both["ratio"] = both["price"] / both["price_other"]
    text = both.head(100).to_csv(index=False)
    again = pd.read_csv(io.StringIO(text))
    codes, labels = pd.factorize(both["key"].astype(str))
    return both["ratio"], text, again["ratio"], codes, labels, pd.qcut(both["price"], 5).cat.codes


def expressions(rng, size):
    frame = _table(rng, size)
    chosen = frame.query("price > 1.0 and count < 5")
    frame["level"] = np.where(frame["price"] > 1.0, "high", "low")
    correlation = frame[["price", "count"]].corr()
    arrays = frame["price"].to_numpy() * 2.0 + frame["count"].to_numpy()
    return chosen, frame["level"], correlation, pd.Series(arrays).rank(), frame.describe()
