"""Primes to 120 million by a sieve; gaps, twins, Goldbach, totients, last digits."""

import sys

import numpy as np


def sieve(limit):
    flags = np.ones(limit + 1, dtype=bool)
    flags[:2] = False
    flags[4::2] = False
    for i in range(3, int(limit**0.5) + 1, 2):
        if flags[i]:
            flags[i * i :: 2 * i] = False
    return np.flatnonzero(flags), flags


size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
limit = int(120_000_000 * size)
primes, flags = sieve(limit)
gaps = np.diff(primes)
print("primes", len(primes), "last", primes[-1])
print("gap", gaps.max(), primes[gaps.argmax()], "twins", (gaps == 2).sum())
digits, counts = np.unique(primes % 10, return_counts=True)
print("digits", *digits, *counts)
estimate = limit / np.log(limit)
print("ratio", len(primes) / estimate, "sum of 1/p", (1.0 / primes).sum())
phi = np.arange(limit // 20 + 1)
for p in primes[primes <= limit // 20]:
    if p > 2_000:
        break
    phi[p::p] -= phi[p::p] // p
print("totients", phi[1:].sum())
even = np.arange(4, 4_000, 2)
ways = [flags[primes[:600][primes[:600] <= e - 2] * -1 + e].sum() for e in even]
print("ways", max(ways), min(ways))
