"""Gradients by autograd, which looks up what it knows by the types of values."""

import autograd.numpy as np
from autograd import grad, hessian, jacobian


def _data(rng, size):
    rows = max(size // 10, 50)
    return rng.standard_normal((rows, 5)), rng.integers(0, 2, rows) * 1.0


def logistic(rng, size):
    x, y = _data(rng, size)

    def loss(w):
        p = 0.5 * (np.tanh(np.dot(x, w)) + 1)
        return -np.mean(np.log(p * y + (1 - p) * (1 - y)))

    w, slope = np.zeros(5) + 0.01, grad(loss)
    for _ in range(5):
        w = w - 0.1 * slope(w)
    return w, hessian(loss)(w)


def layers(rng, size):
    x, y = _data(rng, size)

    def loss(weights):
        hidden = np.maximum(np.dot(x, weights[0]) + weights[1], 0)
        out = np.dot(hidden, weights[2]) - np.max(hidden, axis=1)
        return np.sum(np.where(y > 0, out**2, np.abs(out)))

    weights = [rng.standard_normal((5, 8)), rng.standard_normal(8), rng.standard_normal(8)]
    return tuple(grad(loss)(weights))


def elements(rng, size):
    x = rng.standard_normal(max(size, 100))
    slope = grad(lambda z: np.sum(np.sin(z[1:]) * np.exp(-(z[:-1] ** 2)) / (1 + z[::-1][1:] ** 2)))
    return slope(x), jacobian(lambda z: np.cumsum(z) / np.sqrt(1 + z**2))(x[:20])
