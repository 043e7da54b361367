"""A mixture of Gaussians fitted by expectation and maximisation, until the likelihood rests."""

import sys

import numpy as np


def log_density(x, mean, cov):
    d = x.shape[1]
    chol = np.linalg.cholesky(cov)
    white = np.linalg.solve(chol, (x - mean).T)
    half_log_det = np.log(np.diag(chol)).sum()
    return -0.5 * (white**2).sum(axis=0) - half_log_det - 0.5 * d * np.log(2 * np.pi)


size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
rng = np.random.default_rng(167)
n, d, k = int(100_000 * size), 3, 5
true_means = rng.normal(0, 4, (k, d))
x = true_means[rng.integers(0, k, n)] + rng.normal(size=(n, d)) * np.array([1.0, 0.6, 1.4])
means = x[rng.choice(n, k, replace=False)]
covs = np.array([np.cov(x.T)] * k)
weights = np.full(k, 1 / k)
last = -np.inf
for iteration in range(40):
    logs = np.array([log_density(x, means[j], covs[j]) for j in range(k)]).T + np.log(weights)
    top = logs.max(axis=1, keepdims=True)
    total = top[:, 0] + np.log(np.exp(logs - top).sum(axis=1))
    resp = np.exp(logs - total[:, None])
    likelihood = total.mean()
    count = resp.sum(axis=0)
    weights = count / n
    means = resp.T @ x / count[:, None]
    for j in range(k):
        centered = x - means[j]
        covs[j] = (resp[:, j, None] * centered).T @ centered / count[j] + 1e-6 * np.eye(d)
    if iteration % 10 == 0:
        print("iteration", iteration, "likelihood", likelihood)
    if abs(likelihood - last) < 1e-7:
        break
    last = likelihood
order = np.argsort(means[:, 0])
print("likelihood", round(float(likelihood), 7))
print("weights", *weights[order].round(6))
entropy = -(resp * np.log(resp + 1e-300)).sum(axis=1)
print("entropy", entropy.mean().round(6), "sure", (resp.max(axis=1) > 0.95).mean().round(4))
