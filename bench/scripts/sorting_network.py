"""A bitonic network that sorts 2**21 numbers: rounds of comparisons over ever other distances."""

import math
import sys

import numpy as np

size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
n = 1 << max(8, round(math.log2(2**21 * size)))
x = np.random.default_rng(0).random(n)
place = np.arange(n)
length = 2
while length <= n:
    distance = length // 2
    while distance:
        pairs = x.reshape(-1, 2, distance)
        upwards = (place.reshape(-1, 2, distance)[:, 0] & length) == 0
        low, high = np.minimum(pairs[:, 0], pairs[:, 1]), np.maximum(pairs[:, 0], pairs[:, 1])
        pairs[:, 0], pairs[:, 1] = np.where(upwards, low, high), np.where(upwards, high, low)
        distance //= 2
    length *= 2
print((np.diff(x) >= 0).all(), f"{x[:: n // 7].sum():.8f}")
