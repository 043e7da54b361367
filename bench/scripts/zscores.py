"""Robust z-scores of sensors with gaps: medians, nan statistics, outliers clipped in rounds."""

import sys

import numpy as np

size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
sensors, hours = 60, int(24 * 365 * 4 * size)
rng = np.random.default_rng(103)
t = np.arange(hours)
data = 15 + 8 * np.sin(2 * np.pi * t / 24) + rng.normal(0, 2, (sensors, hours))
data += rng.normal(0, 3, (sensors, 1))
data[rng.random(data.shape) < 0.03] = np.nan
data[rng.random(data.shape) < 0.002] += 80

center = np.nanmedian(data, axis=1, keepdims=True)
spread = 1.4826 * np.nanmedian(np.abs(data - center), axis=1, keepdims=True)
robust = (data - center) / spread
for pass_number in range(12):
    bad = np.abs(robust) > 4.0 - 0.2 * pass_number
    data[bad] = np.nan
    mean = np.nanmean(data, axis=1, keepdims=True)
    deviation = np.nanstd(data, axis=1, keepdims=True)
    robust = (data - mean) / deviation
    print("pass", pass_number, "outliers", int(bad.sum()), "missing", int(np.isnan(data).sum()))
filled = np.where(np.isnan(data), mean, data)
z = (filled - filled.mean(axis=1, keepdims=True)) / filled.std(axis=1, keepdims=True)
days = z[:, : hours // 24 * 24].reshape(sensors, -1, 24)
profile = days.mean(axis=1)
print("range", np.nanmin(data), np.nanmax(data), "largest hour", np.bincount(profile.argmax(1)))
correlation = z @ z.T / hours
print("correlation", correlation.mean(), np.median(correlation))
print("percentiles", np.nanpercentile(robust, [1, 25, 75, 99]))
