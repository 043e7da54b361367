"""Labelled grids by xarray."""

import numpy as np
import pandas as pd
import xarray as xr


def _climate(rng, size):
    days = max(size // 400, 60)
    return xr.DataArray(
        15 + rng.standard_normal((days, 20, 20)).cumsum(axis=0) * 0.1,
        dims=("time", "lat", "lon"),
        coords={
            "time": pd.date_range("2023-01-01", periods=days),
            "lat": np.linspace(-60, 60, 20),
            "lon": np.linspace(0, 342, 20),
        },
    )


def anomalies(rng, size):
    field = _climate(rng, size)
    monthly = field.groupby("time.month").mean()
    anomaly = field.groupby("time.month") - monthly
    weights = np.cos(np.deg2rad(field.lat))
    mean = anomaly.weighted(weights).mean(("lat", "lon"))
    return monthly, anomaly, mean, anomaly.std("time")


def selections(rng, size):
    field = _climate(rng, size)
    near = field.sel(lat=10.0, lon=100.0, method="nearest")
    warm = field.where(field > 15.0)
    finer = field.isel(time=0).interp(lat=np.linspace(-50, 50, 31))
    smooth = field.rolling(time=5, center=True).mean()
    return near, warm, warm.count(), finer, smooth, field.argmax("time")


def arithmetic(rng, size):
    field = _climate(rng, size)
    data = xr.Dataset({"t": field, "p": xr.ones_like(field) * 1000.0 + field})
    data["theta"] = data.t * (1000.0 / data.p) ** 0.286
    change = data.theta.diff("time") / data.theta.shift(time=1)
    wide = xr.apply_ufunc(np.tanh, data.theta - data.theta.mean("time"))
    frame = data.isel(lat=0, lon=0).to_dataframe()
    return (
        data.theta,
        change,
        wide,
        frame,
        # One call of NumPy per point: of few, or this takes minutes without npaccel too.
        xr.concat([field, field + 1], "run").isel(time=slice(10)).quantile(0.3, "run"),
    )
