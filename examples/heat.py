"""Heat in a square plate with fixed edges: Jacobi steps over shifted slices, in place, float32."""

import numpy as np

SIZE = 1500


def inputs(size=SIZE):
    plate = np.zeros((size, size), np.float32)
    plate[0, :] = 100.0
    plate[:, -1] = 50.0
    return {"plate": plate}


def main(plate, steps=20):
    plate = plate.copy()
    centre = plate[1:-1, 1:-1]
    north, south = plate[:-2, 1:-1], plate[2:, 1:-1]
    west, east = plate[1:-1, :-2], plate[1:-1, 2:]
    for _ in range(steps):
        centre[...] = 0.25 * (north + south + west + east)
    return plate
