"""Risk of a portfolio: correlated scenarios with fat tails, value at risk, contributions."""

import sys

import numpy as np

size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
rng = np.random.default_rng(127)
assets, scenarios = 30, int(500_000 * size)
loadings = rng.normal(0, 0.01, (assets, 4))
cov = loadings @ loadings.T + np.diag(rng.uniform(0.005, 0.02, assets) ** 2)
chol = np.linalg.cholesky(cov)
weights = rng.dirichlet(np.ones(assets))
spot = rng.uniform(20, 200, assets)

shocks = rng.standard_normal((scenarios, assets)) @ chol.T
tails = np.sqrt(5 / rng.chisquare(5, scenarios))
returns = np.exp(shocks * tails[:, None] - 0.5 * np.diag(cov)) - 1
gain = returns @ weights
options = np.maximum(spot * (1 + returns) - spot * 1.02, 0) / spot
gain = gain + 0.1 * (options - options.mean(axis=0)) @ weights
loss = -gain
for level in (0.95, 0.99, 0.995):
    var = np.quantile(loss, level)
    beyond = loss >= var
    print("level", level, "VaR", var, "ES", loss[beyond].mean(), "count", beyond.sum())
contribution = -(returns[beyond] * weights).mean(axis=0)
order = np.argsort(-contribution)
print("largest", *order[:3], *contribution[order[:3]])
centered = (gain - gain.mean()) / gain.std()
print("moments", gain.std(), (centered**3).mean(), (centered**4).mean())
volatility = np.zeros(scenarios)
volatility[0] = gain.var()
for start in range(0, scenarios - 1, 5_000):
    block = gain[start : start + 5_000]
    decay = 0.97 ** np.arange(len(block))[::-1]
    volatility[start : start + 5_000] = (decay * block**2).sum() / decay.sum()
print("volatility", np.sqrt(volatility).mean())
