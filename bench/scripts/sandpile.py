"""The sandpile: a heap of grains topples until it is stable."""

import sys

import numpy as np

size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
n = max(int(151 * size**0.5), 11)
grains = int(40_000 * size)
pile = np.zeros((n, n), dtype=np.int64)
pile[n // 2, n // 2] = grains
fallen = 0
rounds = 0
while True:
    high = pile >= 4
    if not high.any():
        break
    share = pile // 4
    pile = pile % 4
    pile[1:, :] += share[:-1, :]
    pile[:-1, :] += share[1:, :]
    pile[:, 1:] += share[:, :-1]
    pile[:, :-1] += share[:, 1:]
    fallen += int(share[0].sum() + share[-1].sum() + share[:, 0].sum() + share[:, -1].sum())
    rounds += 1
print("rounds", rounds, "fallen", fallen, "left", pile.sum())
print("heights", *np.bincount(pile.ravel(), minlength=4))
touched = np.argwhere(pile > 0)
print("extent", touched.min(axis=0), touched.max(axis=0))
print("symmetric", np.array_equal(pile, pile[::-1]), np.array_equal(pile, pile.T))
