"""Softmax and layer normalisation over the rows of a matrix, float32, as in a neural network."""

import numpy as np

SIZE = 4000


def inputs(size=SIZE, width=1000):
    rng = np.random.default_rng(11)
    return {
        "scores": rng.normal(0.0, 3.0, (size, width)).astype(np.float32),
        "gain": rng.uniform(0.5, 1.5, width).astype(np.float32),
        "bias": rng.uniform(-0.5, 0.5, width).astype(np.float32),
    }


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def layer_norm(x, gain, bias, epsilon=1e-5):
    centred = x - x.mean(axis=1, keepdims=True)
    variance = (centred * centred).mean(axis=1, keepdims=True)
    return centred / np.sqrt(variance + epsilon) * gain + bias


def main(scores, gain, bias):
    return softmax(layer_norm(scores, gain, bias))
