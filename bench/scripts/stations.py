"""Weather stations from a text file: gaps, daily means, anomalies, trends, heat waves."""

import os
import sys
import tempfile

import numpy as np


def write_readings(path, stations, hours, rng):
    hour = np.arange(hours)
    season = 10 + 8 * np.sin(2 * np.pi * hour / (24 * 90)) + 4 * np.sin(2 * np.pi * hour / 24)
    values = season[:, None] + rng.normal(0, 1.5, (hours, stations)) + 0.0008 * hour[:, None]
    values[rng.random(values.shape) < 0.02] = -999.0
    np.savetxt(path, values, fmt="%.2f", delimiter=",")


size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
stations, days = 48, max(int(720 * size), 12)
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "readings.csv")
    write_readings(path, stations, 24 * days, np.random.default_rng(97))
    data = np.loadtxt(path, delimiter=",")
data[data == -999.0] = np.nan
print("missing", np.isnan(data).sum())
daily = data.reshape(days, 24, stations)
mean, high, low = np.nanmean(daily, axis=1), np.nanmax(daily, axis=1), np.nanmin(daily, axis=1)
by_hour = np.nanmean(daily, axis=0)
anomaly = daily - by_hour
filled = np.where(np.isnan(anomaly), 0.0, anomaly)
day = np.arange(days) - (days - 1) / 2
trend = (day[:, None] * mean).sum(axis=0) / (day**2).sum()
hot = high > np.nanpercentile(high, 90, axis=0)
run = np.zeros(stations, dtype=int)
longest = np.zeros(stations, dtype=int)
for row in hot:
    run = np.where(row, run + 1, 0)
    longest = np.maximum(longest, run)
corr = np.corrcoef(mean, rowvar=False)
print("daily", mean.mean(), (high - low).mean())
print("by hour", by_hour.mean(axis=1).argmax(), by_hour.mean(axis=1).argmin())
print("anomaly", filled.std(), np.abs(filled).max())
print("trend", trend.mean(), trend.std(), "longest", longest.max(), "corr", corr.mean())
