"""Density of sea water from salinity, temperature and pressure: a long rational polynomial.

The International Equation of State of Seawater, EOS-80 (UNESCO technical papers in marine science
38 and 44): about a hundred binary operators and hardly a function.
"""

import numpy as np

SIZE = 1_000_000


def inputs(size=SIZE):
    rng = np.random.default_rng(19)
    return {
        "s": rng.uniform(30.0, 40.0, size),  # practical salinity
        "t": rng.uniform(-2.0, 30.0, size),  # degrees Celsius
        "p": rng.uniform(0.0, 500.0, size),  # bar above the atmosphere's
    }


def surface_density(s, t, root):
    fresh = 999.842594 + t * (
        6.793952e-2 + t * (-9.095290e-3 + t * (1.001685e-4 + t * (-1.120083e-6 + t * 6.536332e-9)))
    )
    linear = 0.824493 + t * (-4.0899e-3 + t * (7.6438e-5 + t * (-8.2467e-7 + t * 5.3875e-9)))
    curved = -5.72466e-3 + t * (1.0227e-4 - t * 1.6546e-6)
    return fresh + s * (linear + root * curved + s * 4.8314e-4)


def bulk_modulus(s, t, p, root):
    fresh = 19652.21 + t * (148.4206 + t * (-2.327105 + t * (1.360477e-2 - t * 5.155288e-5)))
    salty = 54.6746 + t * (-0.603459 + t * (1.09987e-2 - t * 6.1670e-5))
    salty_root = 7.944e-2 + t * (1.6483e-2 - t * 5.3009e-4)
    a = 3.239908 + t * (1.43713e-3 + t * (1.16092e-4 - t * 5.77905e-7))
    a_salty = 2.2838e-3 - t * (1.0981e-5 + t * 1.6078e-6) + root * 1.91075e-4
    b = 8.50935e-5 + t * (-6.12293e-6 + t * 5.2787e-8)
    b_salty = -9.9348e-7 + t * (2.0816e-8 + t * 9.1697e-10)
    at_surface = fresh + s * (salty + root * salty_root)
    return at_surface + p * (a + s * a_salty + p * (b + s * b_salty))


def main(s, t, p):
    root = np.sqrt(s)
    return surface_density(s, t, root) / (1.0 - p / bulk_modulus(s, t, p, root))
