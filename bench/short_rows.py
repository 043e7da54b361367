"""Rows of three and four elements: directions of half a million vectors, and the nearest of eight
centres for 150000 points. No row fills a vector of the processor."""

import sys

import numpy as np
from contenders import with_jax, with_npaccel, with_numba, with_numpy
from harness import Bench

VECTORS, POINTS, CENTRES = 500_000, 150_000, 8
numba_range = range  # numba.prange takes its place


def work(vectors, points, centres):
    lengths = np.sqrt((vectors * vectors).sum(axis=1))
    distances = ((points[:, np.newaxis, :] - centres) ** 2).sum(axis=-1)
    return vectors / lengths[:, np.newaxis], distances.argmin(axis=1)


def for_jax(jax):
    def function(vectors, points, centres):
        lengths = jax.numpy.sqrt((vectors * vectors).sum(axis=1))
        distances = ((points[:, None, :] - centres) ** 2).sum(axis=-1)
        return vectors / lengths[:, None], distances.argmin(axis=1)

    return function


def for_numba(vectors, points, centres):
    directions = np.empty_like(vectors)
    for i in numba_range(vectors.shape[0]):
        total = 0.0
        for k in range(vectors.shape[1]):
            total += vectors[i, k] * vectors[i, k]
        for k in range(vectors.shape[1]):
            directions[i, k] = vectors[i, k] / np.sqrt(total)
    nearest = np.empty(points.shape[0], np.intp)
    for i in numba_range(points.shape[0]):
        best = np.inf
        for j in range(centres.shape[0]):
            distance = 0.0
            for k in range(points.shape[1]):
                distance += (points[i, k] - centres[j, k]) ** 2
            if distance < best:
                best = distance
                nearest[i] = j
    return directions, nearest


def with_numba_loop(arrays):
    def make():
        import numba

        function = type(for_numba)(
            for_numba.__code__, {"np": np, "numba_range": numba.prange}, "short_rows"
        )
        return with_numba(function, arrays)()

    return make


def main():
    rng = np.random.default_rng(6)
    arrays = {
        "vectors": rng.normal(0.0, 3.0, (VECTORS, 3)),
        "points": rng.normal(0.0, 3.0, (POINTS, 4)),
        "centres": rng.normal(0.0, 3.0, (CENTRES, 4)),
    }
    moved = 2 * arrays["vectors"].nbytes + arrays["points"].nbytes + POINTS * 8
    bench = Bench("short_rows", __doc__, moved, rounds=15)
    bench.reference = lambda: work(**arrays)
    bench.add("numpy", with_numpy(work, arrays), tolerance=0.0)
    bench.add("npaccel", with_npaccel(work, arrays), tolerance=1e-12)
    bench.add("numba (loops)", with_numba_loop(arrays), tolerance=1e-12)
    bench.add("jax", with_jax(for_jax, arrays), tolerance=1e-12)
    bench.skipped["numexpr"] = "reduces whole expressions only"
    return bench.main()


if __name__ == "__main__":
    sys.exit(main())
