"""Structure functions of a turbulent signal: moments of its increments over many lags."""

import sys

import numpy as np

size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
n = max(4_000, int(2_000_000 * size))
rng = np.random.default_rng(0)
k = np.arange(1, n // 2 + 1)
spectrum = k ** (-5 / 6) * np.exp(2j * np.pi * rng.random(n // 2))
u = np.fft.irfft(np.concatenate([[0], spectrum]), n)
u = (u - u.mean()) / u.std()
lags = np.unique(np.geomspace(1, n // 8, 240).astype(int))
second, third, fourth, longest = [], [], [], []
for lag in lags:
    d = u[lag:] - u[:-lag]
    square = d * d
    second.append(square.mean())
    third.append((square * np.abs(d)).mean())
    fourth.append((square * square).mean())
    longest.append(np.abs(d).max())
second, third, fourth = map(np.array, (second, third, fourth))
slope = np.polyfit(np.log(lags[20:120]), np.log(second[20:120]), 1)[0]
print(f"{slope:.6f} {(fourth / second**2).mean():.6f} {third[-1]:.6f} {max(longest):.6f}")
