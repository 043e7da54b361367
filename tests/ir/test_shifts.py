"""What is only shifted around an axis is read where it came from."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest
from traces import Recorder, compare, kernels

from npaccel.ir.nodes import KernelStep, Plan
from npaccel.ir.passes import plan

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(5)


def roll(r: Recorder, a: Array, *shifts: tuple[int, int]) -> Array:
    """`np.roll` with (by, axis) pairs, as the copies that it is recorded as."""
    out = r.empty(a.shape, a.dtype)
    pieces: list[list[tuple[slice, slice]]] = [[(slice(None), slice(None))] for _ in a.shape]
    for by, axis in shifts:
        left = -by % a.shape[axis]
        if left:
            pieces[axis] = [
                (slice(None, left), slice(-left, None)),
                (slice(left, None), slice(None, -left)),
            ]
    for box in itertools.product(*pieces):
        source, target = zip(*box, strict=True)
        r.map("copy", a[source], out=out[target])
    return out


def planned(r: Recorder, **options: Any) -> Plan:
    result = plan(r.trace(), check=True, **options)
    compare(r, result)
    return result


def wraps(result: Plan) -> int:
    steps = [step for step in result.steps if isinstance(step, KernelStep)]
    return sum(len(binding.wraps) for step in steps for binding in step.arrays)


def laplacian(r: Recorder, u: Array) -> Array:
    total = r.map("multiply", u, -2.0 * u.ndim)
    for axis in range(u.ndim):
        for by in (1, -1):
            total = r.map("add", total, roll(r, u, (by, axis)))
    return total


@pytest.mark.parametrize("shape", [(7,), (6, 5), (5, 4, 3), (1, 6), (6, 1)])
def test_neighbours_all_around_are_one_kernel(shape: tuple[int, ...]) -> None:
    r = Recorder()
    u = r.array(RNG.normal(size=shape))
    r.keep(laplacian(r, u))
    result = planned(r)
    assert len(kernels(result)) == 1 and len(result.buffers) == 2
    assert wraps(result) == 2 * sum(n > 1 for n in shape)
    assert wraps(planned(r, wraps=False)) == 0


@pytest.mark.parametrize("shape", [(2,), (2, 2), (3, 2), (3, 3, 3, 3)])
def test_neighbours_that_are_not_one_kernel(shape: tuple[int, ...]) -> None:
    """Pieces of one element show no stride; in four dimensions there are too many boxes."""
    r = Recorder()
    u = r.array(RNG.normal(size=shape))
    r.keep(laplacian(r, u))
    assert len(kernels(planned(r))) > 1


def test_rows_that_go_around_still_collapse() -> None:
    r = Recorder()
    u = r.array(RNG.normal(size=(6, 5)))
    r.keep(r.map("subtract", roll(r, u, (1, 0)), u))
    (step,) = planned(r).steps
    assert isinstance(step, KernelStep) and step.extents == (30,)
    assert [w for b in step.arrays for w in b.wraps] == [(0, 5, -30)]


def test_shifts_of_shifts() -> None:
    r = Recorder()
    u = r.array(RNG.normal(size=(6, 5)))
    corner = roll(r, roll(r, u, (1, 0)), (-2, 1))
    r.keep(r.map("add", corner, roll(r, u, (1, 0), (3, 1))))
    result = planned(r)
    assert len(kernels(result)) == 1 and len(result.buffers) == 2


def test_a_shift_twice_along_one_axis_needs_the_first_one() -> None:
    r = Recorder()
    u = r.array(RNG.normal(size=(6, 5)))
    r.keep(r.map("add", roll(r, roll(r, u, (1, 0)), (2, 0)), u))
    assert len(planned(r).buffers) == 3


def test_parts_and_masks() -> None:
    r = Recorder()
    u = r.array(RNG.normal(size=(6, 5)))
    m = r.array(RNG.normal(size=(6, 5)) > 0)
    v = roll(r, u, (2, 0), (-1, 1))
    out = r.empty((6, 5))
    r.map("add", v, 1.0, out=out, where=roll(r, m, (1, 1)))
    r.keep(r.map("add", v[1:-1, 2:], u[1:-1, 2:]), r.map("negative", v[3:4]), out)
    result = planned(r)
    assert all(len(kernel.arrays) > 1 for kernel in kernels(result))
    assert len(result.buffers) == 5


@pytest.mark.parametrize("case", ["seen", "changed", "reduced", "transposed", "written", "half"])
def test_what_needs_the_copy_gets_it(case: str) -> None:
    r = Recorder()
    u = r.array(RNG.normal(size=(6, 6)))
    v = roll(r, u, (1, 0))
    if case == "seen":
        r.keep(v)
    elif case == "changed":
        r.map("multiply", u, 2.0, out=u)
    elif case == "written":
        r.map("multiply", v[2], 2.0, out=v[2])
    elif case == "half":
        v = r.empty((6, 6))
        r.map("copy", u[:3], out=v[:3])
        r.map("copy", u[2:5], out=v[3:])
    out = (
        r.reduce("add", v, 0)
        if case == "reduced"
        else r.map("add", v.T if case == "transposed" else v, u)
    )
    r.keep(out)
    found = wraps(planned(r))
    assert (found > 0) == (case == "half")  # a piece may come from anywhere in the source


def test_in_place_on_what_is_shifted() -> None:
    """u += roll(u): all elements are read before one is written."""
    r = Recorder()
    u = r.array(RNG.normal(size=(6, 5)))
    for axis in (0, 1, 0):
        r.map("add", u, roll(r, u, (1, axis)), out=u)
    assert wraps(planned(r)) == 0
    r = Recorder()
    u = r.array(RNG.normal(size=(6, 5)))
    r.map("copy", laplacian(r, u), out=u)
    assert len(planned(r).buffers) == 2


def program(r: Recorder, rng: random.Random) -> None:
    shape = tuple(rng.randint(1, 5) for _ in range(rng.randint(1, 3)))
    arrays = [r.array(RNG.normal(size=shape)) for _ in range(2)]
    for _ in range(rng.randint(3, 12)):
        a, b = rng.choice(arrays), rng.choice(arrays)
        kind = rng.random()
        if kind < 0.5:
            axes = rng.sample(range(len(shape)), rng.randint(1, len(shape)))
            arrays.append(roll(r, a, *((rng.randint(-4, 4), axis) for axis in axes)))
        elif kind < 0.75:
            arrays.append(r.map(rng.choice(["add", "subtract", "maximum"]), a, b))
        elif kind < 0.82:
            r.map("multiply", a, 0.5, out=a)
        elif kind < 0.9:
            part = tuple(slice(rng.randint(0, 1), None) for _ in shape)
            if a[part].size:
                r.map("add", b[part], 1.0, out=a[part])
        elif kind < 0.95:
            arrays.append(r.map("add", r.reduce("add", a, rng.randrange(len(shape))), b))
        else:
            r.keep(a)
    r.keep(arrays[-1])


@pytest.mark.parametrize("seed", range(150))
def test_random_programs(seed: int) -> None:
    r = Recorder()
    program(r, random.Random(seed))
    planned(r)


def test_what_goes_around_twice_over() -> None:
    """Both halves go around at the same place of theirs."""
    r = Recorder()
    u = r.array(RNG.normal(size=(6, 5)))
    v, w = roll(r, u, (1, 0)), r.empty((12, 5))
    r.map("copy", v, out=w[:6])
    r.map("copy", v, out=w[6:])
    r.keep(r.map("negative", w))
    planned(r)


def cuts(rng: random.Random, n: int) -> list[int]:
    """Where boxes begin along an axis, and where the last one ends."""
    inside = sorted(rng.sample(range(1, n), min(n - 1, rng.choice([0, 1, 1, 2]))))
    return [0, *inside, n if not inside or rng.random() < 0.7 else rng.randint(inside[-1] + 1, n)]


def boxes(r: Recorder, rng: random.Random, sources: list[Array], target: Array) -> None:
    """Fill the target, or what is before the last cuts, by boxes of a source: as a shift does, but
    for one box here and there. In between the source may change."""
    shape, a = target.shape, rng.choice(sources)
    edges = [cuts(rng, n) for n in shape]
    by = [rng.randrange(n) for n in shape]
    places = list(itertools.product(*(range(len(edge) - 1) for edge in edges)))
    rng.shuffle(places)
    for place in places[: len(places) - (rng.random() < 0.3)]:
        to, source = [], []
        for k, edge, n, shift in zip(place, edges, shape, by, strict=True):
            length = edge[k + 1] - edge[k]
            at = (edge[k] + shift) % n if rng.random() < 0.95 else rng.randrange(n)
            at = min(at, n - length)
            to.append(slice(edge[k], edge[k + 1]))
            source.append(slice(at, at + length))
        r.map("copy", a[tuple(source)], out=target[tuple(to)])
        if rng.random() < 0.15:
            row = rng.randrange(len(a))
            r.map("multiply", a[row : row + 1], 0.5, out=a[row : row + 1])


def box_program(r: Recorder, rng: random.Random) -> None:
    shape = tuple(rng.randint(2, 6) for _ in range(rng.randint(1, 2)))
    arrays = [r.array(RNG.normal(size=shape)) for _ in range(2)]
    for _ in range(rng.randint(1, 3)):
        made = r.array(RNG.normal(size=shape))  # of which some places may keep what they have
        boxes(r, rng, arrays, made)
        if rng.random() < 0.3:
            a = rng.choice(arrays)
            row = rng.randrange(len(a))
            r.map("add", a[row:], 1.0, out=a[row:])
        start = tuple(rng.randint(0, n - 1) for n in shape)
        part = tuple(slice(k, rng.randint(k + 1, n)) for k, n in zip(start, shape, strict=True))
        r.keep(r.map("negative", made[part]))
        r.alive.discard(r.view(made, made.shape).buffer)
        arrays.append(made)
    r.keep(r.map("add", arrays[-1], arrays[0]))


@pytest.mark.parametrize("seed", range(400))
def test_random_arrays_of_boxes(seed: int) -> None:
    r = Recorder()
    box_program(r, random.Random(seed))
    planned(r)
