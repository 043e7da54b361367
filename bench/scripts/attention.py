"""A small transformer's forward pass: heads of attention with a mask, layer norms, GELU."""

import sys

import numpy as np


def layer_norm(x, gain, bias):
    mean = x.mean(axis=-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
    return gain * (x - mean) / np.sqrt(variance + 1e-5) + bias


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def attend(x, w, heads, mask):
    length, width = x.shape
    q, k, v = ((x @ w[name]).reshape(length, heads, -1).transpose(1, 0, 2) for name in "qkv")
    scores = q @ k.transpose(0, 2, 1) / np.sqrt(width / heads)
    scores = np.where(mask, scores, -1e9)
    return (softmax(scores) @ v).transpose(1, 0, 2).reshape(length, width) @ w["o"]


size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
length, width, heads, layers = int(384 * size**0.5), 192, 6, 4
rng = np.random.default_rng(101)
weights = []
for _ in range(layers):
    w = {name: rng.normal(0, width**-0.5, (width, width)) for name in "qkvo"}
    w["in"] = rng.normal(0, width**-0.5, (width, 4 * width))
    w["out"] = rng.normal(0, (4 * width) ** -0.5, (4 * width, width))
    weights.append(w)
gain, bias = np.ones(width), np.zeros(width)
table = rng.normal(0, 1, (1000, width))
place = np.arange(length)[:, None] / 10000 ** (np.arange(width) / width)
mask = np.tril(np.ones((length, length), dtype=bool))
surprise = []
for _sentence in range(8):
    tokens = rng.integers(0, 1000, length)
    x = table[tokens] + np.sin(place)
    for w in weights:
        x = x + attend(layer_norm(x, gain, bias), w, heads, mask)
        x = x + gelu(layer_norm(x, gain, bias) @ w["in"]) @ w["out"]
    p = softmax(layer_norm(x, gain, bias) @ table.T)
    surprise.append(-np.log(p[np.arange(length - 1), tokens[1:]]).mean())
print("surprise", np.mean(surprise), np.std(surprise))
print("last", np.abs(x).mean(), p.max(axis=1).mean())
