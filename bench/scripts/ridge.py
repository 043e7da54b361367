"""Ridge regression of 80,000 rows: the penalty by cross-validation, then the errors."""

import sys

import numpy as np


def fit(x, y, penalty):
    gram = x.T @ x
    gram[np.diag_indices_from(gram)] += penalty
    return np.linalg.solve(gram, x.T @ y)


def score(x, y, w):
    residual = y - x @ w
    return 1 - (residual**2).sum() / ((y - y.mean()) ** 2).sum()


size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
rng = np.random.default_rng(5)
rows, columns = max(int(80_000 * size), 500), 60
x = rng.normal(size=(rows, columns))
x[:, 1::3] = 0.7 * x[:, 0::3] + 0.3 * x[:, 1::3]
truth = rng.normal(size=columns) * (rng.random(columns) < 0.5)
y = np.sin(x[:, 0]) + x @ truth + rng.normal(0, 2, rows)

x = np.hstack([x, x[:, :20] ** 2])
x = (x - x.mean(axis=0)) / x.std(axis=0)
y = y - y.mean()
fold = np.arange(rows) % 5
results = []
for penalty in np.logspace(-2, 4, 7):
    scores = []
    for k in range(5):
        train = fold != k
        w = fit(x[train], y[train], penalty)
        scores.append(score(x[~train], y[~train], w))
    results.append((np.mean(scores), penalty))
    print(f"penalty {penalty:g}", np.mean(scores))
best = max(results)[1]
w = fit(x, y, best)
residual = y - x @ w
print("best", best)
print("norm", np.sqrt((w**2).sum()), "r2", score(x, y, w))
print("residual", residual.std(), np.abs(residual).mean(), np.percentile(residual, 90))
