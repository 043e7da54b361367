"""Envelopes of modulated signals: rectified and smoothed, by Hilbert's transform; peaks."""

import sys

import numpy as np


def moving_average(x, width):
    return np.convolve(x, np.ones(width) / width, mode="same")


def hilbert(x):
    n = len(x)
    weights = np.zeros(n)
    weights[0] = 1
    weights[1 : (n + 1) // 2] = 2
    if n % 2 == 0:
        weights[n // 2] = 1
    return np.fft.ifft(np.fft.fft(x) * weights)


def peaks(x, threshold):
    middle = x[1:-1]
    return np.flatnonzero((middle > x[:-2]) & (middle >= x[2:]) & (middle > threshold)) + 1


size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
n, rate = 1 << int(np.log2(524_288 * max(size, 1e-3))), 48_000
rng = np.random.default_rng(73)
t = np.arange(n) / rate
for carrier in (450.0, 700.0, 1900.0, 2500.0, 5200.0, 7000.0, 9100.0, 12000.0):
    message = 1 + 0.6 * np.sin(2 * np.pi * 7 * t) + 0.2 * np.sin(2 * np.pi * 31 * t)
    x = message * np.cos(2 * np.pi * carrier * t) + 0.05 * rng.normal(size=n)
    rough = moving_average(np.abs(x), 101) * np.pi / 2
    analytic = hilbert(x)
    fine = np.abs(analytic)
    phase = np.unwrap(np.angle(analytic))
    speed = np.diff(phase) * rate / (2 * np.pi)
    found = peaks(moving_average(fine, 201), 1.2)
    error = np.sqrt(np.mean((fine - message) ** 2))
    print("carrier", carrier, "frequency", np.median(speed), "error", error)
    print("  rough", np.sqrt(np.mean((rough - message) ** 2)), "level", 20 * np.log10(fine.max()))
    print("  peaks", len(found), "crossings", np.count_nonzero(np.diff(np.signbit(x))))
