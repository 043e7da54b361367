"""Chains of ten element-wise operations, no two alike and each run once: `chains.py n kind count`.

Prints the seconds that they took together, as JSON, and then one number of each.
"""

import json
import random
import sys
import time

import numpy as np

LENGTH = 10
PLAIN = (
    lambda x, other, c: x + other,
    lambda x, other, c: x - other * c,
    lambda x, other, c: x * other,
    lambda x, other, c: x * c + 1.0,
    lambda x, other, c: (x + c) * 0.5,
    lambda x, other, c: np.minimum(x, other),
    lambda x, other, c: np.maximum(x, c),
    lambda x, other, c: np.abs(x) - c,
    lambda x, other, c: np.sqrt(x * x + 1.0),
    lambda x, other, c: other / (1.0 + x * x),
    lambda x, other, c: np.where(x > c, x, other),
)
FUNCTIONS = (
    lambda x, other, c: np.sin(x),
    lambda x, other, c: np.cos(x + c),
    lambda x, other, c: np.exp(-np.abs(x)),
)


def chain(number, kind):
    """The operations of a chain, each with the operand and the constant that it takes."""
    choice = random.Random(number)
    steps = [choice.choice(PLAIN) for _ in range(LENGTH)]
    if kind == "functions":
        for place in (2, 5, 8):
            steps[place] = choice.choice(FUNCTIONS)
    return [(step, choice.randrange(3), round(choice.random(), 3)) for step in steps]


n, kind, count = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
arrays = [np.random.default_rng(seed).random(n) for seed in range(3)]
elapsed, values = 0.0, []
for number in range(count):
    steps = chain(number, kind)
    start = time.perf_counter()
    x = arrays[number % 3]
    for step, operand, constant in steps:
        x = step(x, arrays[operand], constant)
    values.append(float(x[n // 2]))
    elapsed += time.perf_counter() - start
    del x
print(json.dumps({"elapsed_s": elapsed}))
print(*values)
