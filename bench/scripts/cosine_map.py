"""An iterated map of a million points, read once at the end."""

import sys

import numpy as np

size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0

a = np.linspace(0, 1, int(1_000_000 * size))
for _ in range(300):
    a = np.cos(a * a + 1.0625) - a * 0.5

print("mean", a.mean())
print("spread", a.std())
print("ends", a[0], a[-1])
