"""Figures by matplotlib, drawn into memory."""

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

mpl.rcParams["font.family"] = "DejaVu Sans"


def _pixels(figure):
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.array(canvas.buffer_rgba())


def lines(rng, size):
    figure = Figure()
    axes = figure.subplots(2)
    x = np.linspace(0.0, 10.0, size)
    axes[0].plot(x, np.sin(x) + 0.1 * rng.standard_normal(size))
    axes[0].fill_between(x, -1.0, np.cos(x), alpha=0.3)
    axes[1].hist(rng.standard_normal(size), bins=40)
    return _pixels(figure)


def pictures(rng, size):
    side = int(size**0.5)
    figure = Figure()
    axes = figure.subplots(1, 2)
    y, x = np.mgrid[-2 : 2 : side * 1j, -2 : 2 : side * 1j]
    height = np.exp(-(x**2) - y**2) * np.cos(3 * x)
    axes[0].imshow(height + 0.01 * rng.random(height.shape), cmap="viridis")
    axes[1].contourf(x, y, height, levels=10)
    return _pixels(figure)


def points(rng, size):
    figure = Figure()
    axes = figure.subplots()
    a, b = rng.standard_normal((2, size // 50))
    axes.scatter(a, b, c=np.hypot(a, b), s=20 * rng.random(a.size))
    axes.set_xscale("symlog")
    axes.errorbar(np.arange(10), np.arange(10) ** 0.5, yerr=rng.random(10))
    return _pixels(figure)
