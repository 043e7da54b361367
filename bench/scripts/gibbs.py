"""Gibbs sampling of a hierarchical model of 2,000 groups with 40 observations each."""

import sys

import numpy as np

size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
rng = np.random.default_rng(17)
groups, per_group, draws = 2_000, 40, int(6_000 * size)
true_mean = rng.normal(3.0, 1.5, groups)
y = true_mean[:, None] + rng.normal(0, 2.0, (groups, per_group))

mu, tau2, sigma2 = 0.0, 1.0, 1.0
theta = np.zeros(groups)
trace = np.zeros((draws, 3))
group_mean = y.mean(axis=1)
total = np.zeros(groups)
burn_in = draws // 5
for i in range(draws):
    precision = per_group / sigma2 + 1 / tau2
    center = (per_group * group_mean / sigma2 + mu / tau2) / precision
    theta = center + rng.normal(size=groups) / np.sqrt(precision)
    mu = rng.normal(theta.mean(), np.sqrt(tau2 / groups))
    tau2 = ((theta - mu) ** 2).sum() / 2 / rng.gamma(groups / 2)
    residual = y - theta[:, None]
    sigma2 = (residual**2).sum() / 2 / rng.gamma(groups * per_group / 2)
    trace[i] = mu, tau2, sigma2
    if i >= burn_in:
        total += theta
    if i % 1000 == 0:
        print("draw", i, "mu", mu)
kept = trace[burn_in:]
print("means", *kept.mean(axis=0))
print("deviations", *kept.std(axis=0))
theta_mean = total / len(kept)
print("shrinkage", np.polyfit(group_mean, theta_mean, 1)[0])
print("error", np.sqrt(((theta_mean - true_mean) ** 2).mean()))
