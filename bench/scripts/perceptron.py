"""A network with one hidden layer, trained on mini-batches with Adam; two spirals of three arms."""

import sys

import numpy as np


def spirals(n, rng):
    label = rng.integers(0, 3, n)
    r = np.sqrt(rng.random(n))
    angle = 5 * r + label * 2 * np.pi / 3 + rng.normal(0, 0.12, n)
    return np.stack([r * np.cos(angle), r * np.sin(angle)], axis=1), label


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
rng = np.random.default_rng(103)
x, label = spirals(8_000, rng)
hidden, batch, steps = 128, 512, max(int(3_500 * size), 5)
params = {
    "w1": rng.normal(0, 1.0, (2, hidden)),
    "b1": np.zeros(hidden),
    "w2": rng.normal(0, 0.1, (hidden, 3)),
    "b2": np.zeros(3),
}
first = {name: np.zeros_like(p) for name, p in params.items()}
second = {name: np.zeros_like(p) for name, p in params.items()}
for step in range(1, steps + 1):
    pick = rng.integers(0, len(x), batch)
    xb, yb = x[pick], label[pick]
    pre = xb @ params["w1"] + params["b1"]
    h = np.maximum(pre, 0)
    p = softmax(h @ params["w2"] + params["b2"])
    loss = -np.log(p[np.arange(batch), yb] + 1e-12).mean()
    dz = p.copy()
    dz[np.arange(batch), yb] -= 1
    dz /= batch
    dh = (dz @ params["w2"].T) * (pre > 0)
    grads = {"w1": xb.T @ dh, "b1": dh.sum(axis=0), "w2": h.T @ dz, "b2": dz.sum(axis=0)}
    for name, g in grads.items():
        first[name] = 0.9 * first[name] + 0.1 * g
        second[name] = 0.999 * second[name] + 0.001 * g**2
        m = first[name] / (1 - 0.9**step)
        v = second[name] / (1 - 0.999**step)
        params[name] -= 0.01 * m / (np.sqrt(v) + 1e-8)
    if step % 500 == 0:
        print("step", step, "loss", round(float(loss), 5))
p = softmax(np.maximum(x @ params["w1"] + params["b1"], 0) @ params["w2"] + params["b2"])
print("accuracy", (p.argmax(axis=1) == label).mean().round(3))
print("confidence", p.max(axis=1).mean().round(4))
