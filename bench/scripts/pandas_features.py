"""Features of a table of sales with pandas: returns, rolling windows, groups, flags."""

import sys

import numpy as np
import pandas as pd

size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
rng = np.random.default_rng(3)
n = int(1_600_000 * size)
df = pd.DataFrame(
    {
        "store": rng.integers(0, 50, n),
        "item": rng.integers(0, 300, n),
        "price": rng.lognormal(2, 0.4, n),
        "sold": rng.poisson(6, n),
    }
)
df["revenue"] = df["price"] * df["sold"]
df["log_price"] = np.log(df["price"])
df["change"] = df["revenue"].pct_change().replace([np.inf, -np.inf], np.nan).fillna(0)
df["mean7"] = df["revenue"].rolling(7, min_periods=1).mean()
df["std28"] = df["revenue"].rolling(28, min_periods=2).std().fillna(0)
df["z"] = (df["revenue"] - df["mean7"]) / (df["std28"] + 1)
df["busy"] = (df["sold"] > 8) & (df["price"] < df["price"].median())
df["store_mean"] = df.groupby("store")["revenue"].transform("mean")
df["relative"] = df["revenue"] / df["store_mean"]
df["bucket"] = pd.cut(df["price"], [0, 4, 7, 10, 20, np.inf], labels=False)

x = df[["log_price", "sold", "z", "relative"]].to_numpy()
x = (x - x.mean(axis=0)) / x.std(axis=0)
score = np.tanh(x @ np.array([0.5, -0.2, 0.3, 0.1]))
df["score"] = score
by_store = df.groupby("store").agg({"revenue": "sum", "score": "mean", "busy": "mean"})
by_bucket = df.groupby("bucket")["score"].mean()
print("revenue", by_store["revenue"].sum(), by_store["revenue"].max())
print("score", by_store["score"].min(), by_store["score"].max(), score.std())
print("busy", by_store["busy"].mean())
print("buckets", *by_bucket.to_numpy())
