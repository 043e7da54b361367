"""Black-Scholes prices and greeks over a surface of strikes and years; implied volatilities."""

import sys

import numpy as np


def norm_cdf(x):
    t = 1 / (1 + 0.2316419 * np.abs(x))
    poly = t * (
        0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429)))
    )
    tail = norm_pdf(x) * poly
    return np.where(x >= 0, 1 - tail, tail)


def norm_pdf(x):
    return np.exp(-0.5 * x**2) / np.sqrt(2 * np.pi)


def call(s, k, t, r, sigma):
    d1 = (np.log(s / k) + (r + 0.5 * sigma**2) * t) / (sigma * np.sqrt(t))
    d2 = d1 - sigma * np.sqrt(t)
    return s * norm_cdf(d1) - k * np.exp(-r * t) * norm_cdf(d2), d1, d2


def greeks(s, k, t, r, sigma):
    price, d1, d2 = call(s, k, t, r, sigma)
    root = np.sqrt(t)
    return {
        "price": price,
        "delta": norm_cdf(d1),
        "gamma": norm_pdf(d1) / (s * sigma * root),
        "vega": s * norm_pdf(d1) * root,
        "theta": -s * norm_pdf(d1) * sigma / (2 * root) - r * k * np.exp(-r * t) * norm_cdf(d2),
        "vanna": -norm_pdf(d1) * d2 / sigma,
    }


size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
spot, rate = 100.0, 0.02
strikes = np.linspace(60, 160, int(1200 * size**0.5))
years = np.linspace(0.05, 3, int(1000 * size**0.5))
k, t = np.meshgrid(strikes, years)
smile = 0.2 + 0.1 * np.log(k / spot) ** 2 / np.sqrt(t) + 0.02 * np.exp(-t)
for s in (90.0, 100.0, 110.0):
    surface = greeks(s, k, t, rate, smile)
    print("spot", s, *[f"{name} {values.mean()}" for name, values in surface.items()])
market = call(spot, k, t, rate, smile)[0]
sigma = np.full_like(k, 0.3)
for iteration in range(12):
    price, d1, _ = call(spot, k, t, rate, sigma)
    vega = spot * norm_pdf(d1) * np.sqrt(t)
    step = np.where(vega > 1e-6, (price - market) / np.maximum(vega, 1e-6), 0.0)
    sigma = np.clip(sigma - step, 0.01, 2.0)
    worst = np.abs(price - market).max()
    print("iteration", iteration, "converged", worst < 1e-5)
    if worst < 1e-5:
        break
print("error", np.abs(sigma - smile).max() < 1e-2, sigma.mean())
