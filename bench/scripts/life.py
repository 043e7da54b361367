"""The game of life on a torus of bytes, with counts of births and deaths."""

import sys

import numpy as np


def neighbours(board):
    total = np.zeros_like(board)
    for dy in (-1, 0, 1):
        for dx in (-1, 0, 1):
            if dx or dy:
                total += np.roll(np.roll(board, dy, axis=0), dx, axis=1)
    return total


size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
n = int(1024 * size**0.5)
rng = np.random.default_rng(61)
board = (rng.random((n, n)) < 0.35).astype(np.uint8)
age = np.zeros((n, n), dtype=np.int32)
births = deaths = 0
for generation in range(250):
    count = neighbours(board)
    new = ((count == 3) | ((board == 1) & (count == 2))).astype(np.uint8)
    births += int(((new == 1) & (board == 0)).sum())
    deaths += int(((new == 0) & (board == 1)).sum())
    age = np.where((new == 1) & (board == 1), age + 1, 0)
    board = new
    if generation % 50 == 0:
        print("generation", generation, "alive", board.sum())
print("births", births, "deaths", deaths)
print("alive", board.sum(), "oldest", age.max(), "still", (age > 20).sum())
