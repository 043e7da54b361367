"""Outliers in a table of measurements: standardise columns, clip, score rows, correlate columns.

The table is a file that you name (`npaccel demo --file data.csv`; .csv, .txt or .npy), or a small
one of made-up measurements.
"""

import numpy as np

SIZE = 200_000


def sample(size, columns=8):
    rng = np.random.default_rng(13)
    common = rng.normal(size=(size, 1))
    return 20.0 + rng.uniform(1.0, 4.0, columns) * (common + rng.normal(size=(size, columns)))


def read(path):
    """The numbers in a file as a 2-d float64 array; lines of names at its top are skipped."""
    if str(path).endswith(".npy"):
        table = np.asarray(np.load(path), dtype=np.float64)
        return table.reshape(len(table), -1) if table.ndim else table.reshape(1, 1)
    delimiter = "," if str(path).endswith(".csv") else None
    with open(path) as lines:
        first = lines.readline().split(delimiter)
    return np.loadtxt(path, delimiter=delimiter, skiprows=0 if is_numeric(first) else 1, ndmin=2)


def is_numeric(words):
    try:
        [float(word) for word in words]
    except ValueError:
        return False
    return True


def inputs(size=SIZE, path=None):
    return {"table": sample(size) if path is None else read(path)}


def main(table):
    spread = table.std(axis=0)
    z = (table - table.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    clipped = np.clip(z, -3.0, 3.0)
    score = np.sqrt((clipped**2).mean(axis=1))
    correlation = clipped.T @ clipped / len(table)
    return score, correlation, np.count_nonzero(np.abs(z) > 3.0)
