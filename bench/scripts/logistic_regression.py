"""Logistic regression by gradient descent with momentum; the loss decides when to stop."""

import sys

import numpy as np


def sigmoid(t):
    return 1.0 / (1.0 + np.exp(-t))


def loss(p, y, w, penalty):
    eps = 1e-12
    entropy = -np.mean(y * np.log(p + eps) + (1 - y) * np.log(1 - p + eps))
    return entropy + penalty * np.sum(w**2)


size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
rng = np.random.default_rng(19)
n, columns, penalty = int(100_000 * size), 25, 1e-4
x = rng.normal(size=(n, columns))
x[:, 0] = 1.0
w_true = rng.normal(size=columns)
y = (rng.random(n) < sigmoid(x @ w_true)).astype(float)
w = np.zeros(columns)
momentum = np.zeros(columns)
last = np.inf
for iteration in range(250):
    p = sigmoid(x @ w)
    gradient = x.T @ (p - y) / n + 2 * penalty * w
    momentum = 0.9 * momentum - 0.5 * gradient
    w += momentum
    now = loss(p, y, w, penalty)
    if iteration % 50 == 0:
        print("iteration", iteration, "loss", now)
    if abs(last - now) < 1e-9:
        break
    last = now
p = sigmoid(x @ w)
order = np.argsort(-p)
hits = np.cumsum(y[order])
auc = np.sum(hits * (1 - y[order])) / hits[-1] / (n - hits[-1])
print("loss", loss(p, y, w, penalty), "accuracy", ((p > 0.5) == y).mean(), "auc", auc)
print("weights", np.abs(w).sum(), np.sqrt(((w - w_true) ** 2).mean()))
