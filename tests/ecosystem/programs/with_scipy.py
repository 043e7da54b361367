"""Signals, pictures, equations and statistics by SciPy."""

import numpy as np
from scipy import (
    fft,
    integrate,
    interpolate,
    linalg,
    ndimage,
    optimize,
    signal,
    sparse,
    spatial,
    special,
    stats,
)
from scipy.sparse import linalg as sparse_linalg


def filtered_signal(rng, size):
    time = np.arange(size) / 1000.0
    noisy = np.sin(2 * np.pi * 5.0 * time) + 0.3 * rng.standard_normal(size)
    sections = signal.butter(4, 20.0, fs=1000.0, output="sos")
    smooth = signal.sosfiltfilt(sections, noisy)
    frequencies, power = signal.welch(smooth - smooth.mean(), fs=1000.0, nperseg=256)
    peaks, _ = signal.find_peaks(smooth, height=0.5, distance=50)
    return smooth, frequencies, power, peaks, signal.hilbert(smooth[:512])


def filtered_picture(rng, size):
    side = int(size**0.5)
    picture = rng.random((side, side)) ** 2
    blurred = ndimage.gaussian_filter(picture, 2.0)
    edges = np.hypot(ndimage.sobel(blurred, 0), ndimage.sobel(blurred, 1))
    labels, count = ndimage.label(blurred > blurred.mean())
    sums = ndimage.sum_labels(picture, labels, np.arange(1, count + 1))
    return edges, labels, sums, ndimage.zoom(blurred, 0.5), ndimage.median_filter(picture, 3)


def minimum(rng, size):
    del size
    x = np.linspace(0.0, 4.0, 400)
    y = 2.5 * np.exp(-1.3 * x) + 0.5 + 0.02 * rng.standard_normal(x.size)
    fitted, covariance = optimize.curve_fit(lambda t, a, b, c: a * np.exp(-b * t) + c, x, y)
    rosen = optimize.minimize(
        optimize.rosen, np.full(8, 1.2), jac=optimize.rosen_der, method="L-BFGS-B"
    )
    root = optimize.root(lambda v: v + 0.5 * np.sin(v) - 1.0, np.zeros(50))
    return fitted, np.diag(covariance), rosen.x, root.x


def diffusion(rng, size):
    count = min(size, 400)
    start = np.exp(-((np.linspace(-1, 1, count)) ** 2) * 30) + 0.01 * rng.random(count)

    def slope(_, heat):
        change = np.zeros_like(heat)
        change[1:-1] = heat[2:] - 2 * heat[1:-1] + heat[:-2]
        return change * 20.0

    solution = integrate.solve_ivp(slope, (0.0, 1.0), start, t_eval=np.linspace(0, 1, 5))
    return solution.y, solution.t, integrate.simpson(solution.y, axis=0)


def poisson(rng, size):
    side = int(size**0.5)
    line = sparse.diags_array([-np.ones(side - 1), 2 * np.ones(side)], offsets=[-1, 0])
    line = line + sparse.diags_array([-np.ones(side - 1)], offsets=[1])
    matrix = sparse.csr_array(sparse.kronsum(line, line) + sparse.eye_array(side * side))
    right = rng.standard_normal(side * side)
    solution, information = sparse_linalg.cg(matrix, right, rtol=1e-10)
    return solution, information, abs(matrix @ solution - right).max() < 1e-6, matrix.sum(axis=0)


def dense_algebra(rng, size):
    side = min(int(size**0.5), 200)
    matrix = rng.standard_normal((side, side))
    matrix = matrix @ matrix.T + side * np.eye(side)
    right = rng.standard_normal((side, 3))
    factor = linalg.cho_factor(matrix)
    values = linalg.eigvalsh(matrix)
    return linalg.cho_solve(factor, right), values, linalg.det(matrix / side), linalg.expm(-matrix)


def statistics(rng, size):
    a, b = rng.standard_normal(size), rng.gamma(2.0, 1.0, size)
    line = stats.linregress(a, 2 * a + b)
    density = stats.gaussian_kde(a[:500])(np.linspace(-3, 3, 50))
    ranks = stats.spearmanr(a[:2000], (a + b)[:2000])
    test = stats.ks_2samp(a[:1000], b[:1000])
    return line.slope, line.rvalue, density, ranks.statistic, test.statistic, stats.skew(b)


def neighbours(rng, size):
    points = rng.random((size // 20, 2))
    tree = spatial.cKDTree(points)
    distances, places = tree.query(points + 0.001, k=3)
    hull = spatial.ConvexHull(points)
    return distances, places, hull.volume, spatial.distance.cdist(points[:50], points[50:150])


def functions(rng, size):
    x = rng.uniform(0.1, 5.0, size)
    curve = interpolate.CubicSpline(np.arange(20.0), rng.random(20))
    spectrum = fft.rfft(special.j0(x))
    return special.gammaln(x), special.erf(x - 2), curve(x), fft.irfft(spectrum, size)
