"""Programs of `peers.py`: functions of arrays in plain NumPy, and the arrays.

Each peer gets the same text; `np` in it is what that peer calls NumPy. `moved` are the bytes that
must be read and written at the least. In what is computed nothing overflows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["ROWS", "SEEDS", "Row"]

Arrays = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """A program. peers: that can run its text; tolerance: relative to the largest value."""

    name: str
    function: Callable[..., Any]
    inputs: Callable[[], Arrays]
    moved: int
    peers: tuple[str, ...]
    quiet: bool = False
    tolerance: float = 1e-12
    text: str = ""


FLAT = ("numba", "jax", "torch", "drjit")
LONG = ("numba", "jax", "drjit")  # torch.compile takes minutes for them
MANY = FLAT[:3]
MILLION, MIB = 1_000_000, 2**20


def random(seed: int, low: float, high: float, *shape: int, dtype: str = "f8") -> Any:
    return np.random.default_rng(seed).uniform(low, high, shape).astype(dtype)


def mandelbrot_ten(x, y):
    real, imaginary, count = x * 0.0, x * 0.0, x * 0.0
    for _ in range(10):
        squares = real * real, imaginary * imaginary
        inside = squares[0] + squares[1] <= 4.0
        moved = 2.0 * real * imaginary + y
        real = np.where(inside, squares[0] - squares[1] + x, real)
        imaginary = np.where(inside, moved, imaginary)
        count = np.where(inside, count + 1.0, count)
    return count


def plane() -> Arrays:
    return {"x": random(1, -2.0, 0.6, MILLION), "y": random(2, -1.2, 1.2, MILLION)}


def polynomial(x, coefficients):
    total = coefficients[0]
    for c in coefficients[1:]:
        total = total * x + c
    return total


# The international equation of state of sea water (UNESCO 1981): polynomials of temperature, which
# are factors of powers of salinity; density at the surface, and the secant bulk modulus.
SURFACE = (
    (6.536332e-9, -1.120083e-6, 1.001685e-4, -9.095290e-3, 6.793952e-2, 999.842594),
    (5.3875e-9, -8.2467e-7, 7.6438e-5, -4.0899e-3, 8.24493e-1),
    (-1.6546e-6, 1.0227e-4, -5.72466e-3),
)
MODULUS = (
    (-5.155288e-5, 1.360477e-2, -2.327105, 148.4206, 19652.21),
    (-6.1670e-5, 1.09987e-2, -0.603459, 54.6746),
    (-5.3009e-4, 1.6483e-2, 7.944e-2),
)
BY_PRESSURE = (-5.77905e-7, 1.16092e-4, 1.43713e-3, 3.239908)
BY_BOTH = (-1.6078e-6, -1.0981e-5, 2.2838e-3)
BY_SQUARE = (5.2787e-8, -6.12293e-6, 8.50935e-5)
BY_SQUARE_AND_SALT = (9.1697e-10, 2.0816e-8, -9.9348e-7)


def slope(coefficients):
    """Coefficients of the derivative."""
    n = len(coefficients) - 1
    return tuple([c * (n - k) for k, c in enumerate(coefficients[:-1])])


def salty(t, s, root, parts):
    """A polynomial of temperature, and those that belong to s and to s**1.5."""
    fresh, by_salt, by_root = [polynomial(t, part) for part in parts]
    return fresh + s * (by_salt + root * by_root)


def density_at(s, t, p, root, surface, modulus, extra):
    rho, k = salty(t, s, root, surface), salty(t, s, root, modulus)
    by_pressure = polynomial(t, extra[0]) + s * (polynomial(t, extra[1]) + 1.91075e-4 * root)
    by_square = polynomial(t, extra[2]) + s * polynomial(t, extra[3])
    return rho, k + p * (by_pressure + p * by_square)


def equation_of_state(s, t, p):
    """Density, its slopes along temperature and salinity, and the layer's buoyancy."""
    root = np.sqrt(s)
    terms = (BY_PRESSURE, BY_BOTH, BY_SQUARE, BY_SQUARE_AND_SALT)
    surface = (*SURFACE[:2], SURFACE[2])
    rho, k = density_at(s, t, p, root, surface, MODULUS, terms)
    rho = rho + 4.8314e-4 * s * s
    sloped = [[slope(part) for part in parts] for parts in (surface, MODULUS, terms)]
    rho_t, k_t = density_at(s, t, p, root, sloped[0], sloped[1], sloped[2])
    parts = [polynomial(t, part) for part in (*SURFACE[1:], *MODULUS[1:], BY_BOTH)]
    rho_s = parts[0] + 1.5 * root * parts[1] + 2.0 * 4.8314e-4 * s
    salt = p * (parts[4] + 1.5 * 1.91075e-4 * root + p * polynomial(t, BY_SQUARE_AND_SALT))
    k_s = parts[2] + 1.5 * root * parts[3] + salt
    squeezed = 1.0 - p / k
    density = rho / squeezed
    share = density * p / (k * k) / squeezed
    alpha = (rho_t / squeezed - share * k_t) / density
    beta = (rho_s / squeezed - share * k_s) / density
    return density, alpha, beta, 9.81 * (beta * s - alpha * t)


def ocean() -> Arrays:
    shapes = {"s": (1, 30.0, 38.0), "t": (2, 0.0, 25.0), "p": (3, 0.0, 500.0)}
    return {name: random(*of, MIB) for name, of in shapes.items()}


def horner(x):
    total = x * 0.0 + 1.0
    for k in range(60):
        total = total * x + 1.0 / (k + 1.0)
    return total


def sines(a, b):
    return np.sin(a) ** 2 + np.cos(b) ** 2


def normal_cdf(x):
    k = 1.0 / (1.0 + 0.2316419 * np.abs(x))
    sum_ = k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))
    sum_ = k * (0.319381530 + k * (-0.356563782 + sum_))
    tail = np.exp(-0.5 * x * x) * sum_ / 2.5066282746310002
    return np.where(x >= 0.0, 1.0 - tail, tail)


def black_scholes(spot, strike, years):
    spread = 0.3 * np.sqrt(years)
    first = (np.log(spot / strike) + 0.065 * years) / spread
    discounted = strike * np.exp(-0.02 * years)
    call = spot * normal_cdf(first) - discounted * normal_cdf(first - spread)
    return call, call - spot + discounted


def options() -> Arrays:
    of = {"spot": (1, 80.0, 120.0), "strike": (2, 90.0, 110.0), "years": (3, 0.1, 2.0)}
    return {name: random(*bounds, 2 * MILLION) for name, bounds in of.items()}


def stream(a, b, c):
    return (a * 2.0 + b) * c - a / 3.0


def jacobi(plate):
    plate = plate.copy()
    for _ in range(4):
        around = plate[:-2, 1:-1] + plate[2:, 1:-1] + plate[1:-1, :-2] + plate[1:-1, 2:]
        plate[1:-1, 1:-1] = around * np.float32(0.25)
    return plate


def plate() -> Arrays:
    return {"plate": random(1, 0.0, 1.0, 1500, 1500, dtype="f4")}


def mean_square(a, b):
    return ((a - b) ** 2).mean()


def gravity(x, y, mass):
    dx, dy = x - x.reshape(-1, 1), y - y.reshape(-1, 1)
    square = dx * dx + dy * dy + 0.0025
    pull = mass / (square * np.sqrt(square))
    return (dx * pull).sum(-1), (dy * pull).sum(-1)


def bodies() -> Arrays:
    return {name: random(seed, 0.5, 1.5, 1200) for seed, name in enumerate(("x", "y", "mass"))}


def softmax(x):
    e = np.exp(x - x.max(-1).reshape(-1, 1))
    return e / e.sum(-1).reshape(-1, 1)


def leaky(x):
    return np.clip(np.where(x > 0.0, x, 0.1 * x), -1.0, 1.0) * 2.0


def named(names: str, n: int, low: float = -10.0, high: float = 10.0) -> Callable[[], Arrays]:
    return lambda: {name: random(seed, low, high, n) for seed, name in enumerate(names)}


ROWS = (
    Row("mandelbrot, 10 steps", mandelbrot_ten, plane, 24 * MILLION, LONG),
    Row("the same, warnings ignored", mandelbrot_ten, plane, 24 * MILLION, LONG, quiet=True),
    Row("equation of state", equation_of_state, ocean, 56 * MIB, LONG[1:]),
    Row("horner, 60 steps", horner, named("x", MIB, -0.9, 0.9), 16 * MIB, LONG),
    Row("the same, ignored", horner, named("x", MIB, -0.9, 0.9), 16 * MIB, LONG, quiet=True),
    Row("sin**2 + cos**2", sines, named("ab", 8 * MILLION), 192 * MILLION, FLAT),
    Row("black-scholes", black_scholes, options, 80 * MILLION, FLAT),
    Row("stream", stream, named("abc", 8 * MILLION), 256 * MILLION, FLAT,
        text="(a * 2.0 + b) * c - a / 3.0"),
    Row("jacobi, 4 sweeps", jacobi, plate, 10 * 4 * 1500 * 1500, ("numba", "torch"),
        tolerance=1e-6),
    Row("mean square", mean_square, named("ab", 8 * MILLION), 128 * MILLION, MANY),
    Row("n-body", gravity, bodies, 5 * 9600, MANY, tolerance=1e-9),
    Row("softmax", softmax, lambda: {"x": random(1, -9.0, 9.0, 8000, 1000, dtype="f4")},
        2 * 32 * MILLION, ("jax",), tolerance=1e-5),
    Row("where, clip", leaky, named("x", 8 * MILLION), 128 * MILLION, MANY),
)  # fmt: skip


# The programs that the documents which this project began with measure.


def matrix_add(a, b):
    return a + b


def matrix_product(a, b):
    return a @ b


def smooth(u):
    u = u.copy()
    for _ in range(10):
        u[1:-1, 1:-1] = 0.2 * (
            u[1:-1, 1:-1] + u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        )
    return u


def closure(a):
    """Which can be reached from which, by squaring."""
    reached = a
    for _ in range(8):
        reached = ((reached @ reached + reached) > 0.5).astype(np.float64)
    return reached


def links() -> Arrays:
    return {"a": (random(5, 0.0, 1.0, 400, 400) < 0.004).astype(np.float64)}


def square(names: str, n: int) -> Callable[[], Arrays]:
    return lambda: {name: random(seed, -1.0, 1.0, n, n) for seed, name in enumerate(names)}


SEEDS = (
    Row("matrixadd", matrix_add, square("ab", 1500), 3 * 8 * 1500 * 1500, MANY),
    Row("matrixmul", matrix_product, square("ab", 600), 3 * 8 * 600 * 600, MANY,
        tolerance=1e-10),
    Row("stencil", smooth, square("u", 1000), 22 * 8 * 1000 * 1000, ("numba", "torch")),
    Row("mandelbrot", mandelbrot_ten, plane, 24 * MILLION, LONG),
    Row("closure", closure, links, 16 * 8 * 400 * 400, ("jax", "torch")),
)  # fmt: skip
