"""PageRank of a random graph of 500,000 pages by power iteration."""

import sys

import numpy as np

size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
pages = int(500_000 * size)
links = 10 * pages
rng = np.random.default_rng(67)
source = rng.integers(0, pages, links)
target = (pages * rng.random(links) ** 2.5).astype(np.int64)
keep = source != target
source, target = source[keep], target[keep]
degree = np.bincount(source, minlength=pages)
dangling = degree == 0
weight = 1.0 / degree[source]

damping = 0.85
rank = np.full(pages, 1.0 / pages)
for iteration in range(100):
    flow = np.bincount(target, weights=rank[source] * weight, minlength=pages)
    new = damping * (flow + rank[dangling].sum() / pages) + (1 - damping) / pages
    change = np.abs(new - rank).sum()
    rank = new
    if iteration % 10 == 0:
        print("iteration", iteration, "change", f"{change:.6e}")
    if change < 1e-12:
        break
order = np.argsort(-rank)
print("iterations", iteration, "sum", rank.sum())
print("top", *order[:5], *rank[order[:5]])
print("half of the rank", np.searchsorted(np.cumsum(rank[order]), 0.5))
