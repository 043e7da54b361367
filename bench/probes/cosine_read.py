"""An iterated map that is read every so many rounds: `cosine_read.py n rounds every`."""

import sys

import numpy as np

n, rounds, every = map(int, sys.argv[1:])
a = np.linspace(0, 1, n)
seen = []
for i in range(rounds):
    a = np.cos(a * a + 1.0625) - a * 0.5
    if (i + 1) % every == 0:
        seen.append(float(a[0]))
print(len(seen), sum(seen), a.mean())
