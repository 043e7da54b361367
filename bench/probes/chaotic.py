"""A chaotic map, where one other bit changes all that follows: `chaotic.py n rounds every`."""

import hashlib
import sys

import numpy as np

n, rounds, every = map(int, sys.argv[1:])
a = np.linspace(0.1, 0.9, n)
for i in range(rounds):
    a = 0.99 * np.sin(np.pi * a)
    if (i + 1) % every == 0:
        float(a[n // 2])
print(hashlib.sha256(np.asarray(a).tobytes()).hexdigest()[:16])
