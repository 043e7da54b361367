"""Kernels that follow each other through memory give what they give one after the other."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import npaccel

pytestmark = [pytest.mark.usefixtures("deferred"), pytest.mark.room]
# So that a few arrays are more than caches of the second level hold.
SHAPES = [(700, 640), (5, 300, 310), (450_000,), (450_000, 2), (1, 700, 640), (40, 30, 400)]


@pytest.fixture(autouse=True)
def counted(setting):
    setting("tiering", "eager")
    npaccel.stats(reset=True)


def chained() -> int:
    return int(npaccel.stats()["chained_kernels"])


def jacobi(u):
    inside = (slice(1, -1),) * u.ndim
    for _ in range(3):
        total = u[inside] * 0.5
        for axis in range(u.ndim):
            for way in (slice(None, -2), slice(2, None)):
                place = list(inside)
                place[axis] = way
                total = total + u[tuple(place)]
        u[inside] = total * 0.2
    return u


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize("shape", [(700, 640), (30, 200, 90), (900_000,)])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_stencil_in_place_has_numpys_bits(shape, dtype, threads) -> None:
    u = np.random.default_rng(1).random(shape).astype(dtype)
    with npaccel.config(threads=threads):
        found = npaccel.evaluate(jacobi(npaccel.asarray(u.copy())))
    assert np.array(found).tobytes() == jacobi(u).tobytes()
    assert chained() >= 4


def slopes(u, v):
    """What is made last is as large as what died before it."""
    for _ in range(3):
        u[1:-1] += 0.25 * (u[:-2] - 2 * u[1:-1] + u[2:])
    return u, u[2:] - u[:-2]


def apart(u, v):
    """What two arrays take by turns is the only thing that they have to do with each other."""
    for _ in range(4):
        u[1:-1] += 0.25 * (u[:-2] - 2 * u[1:-1] + u[2:])
        v[1:-1] -= 0.5 * (v[2:] - v[:-2])
    return u, v


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("shape", [(900, 640), (900_000,)])
@pytest.mark.parametrize(("program", "kernels"), [(slopes, 7), (apart, 16)])
def test_what_dies_leaves_its_memory_to_what_is_made_next(program, kernels, shape, threads) -> None:
    """So that all kernels are one chain."""
    fields = np.random.default_rng(3).random((2, *shape))
    for _ in range(3):
        with npaccel.config(threads=threads):
            found = program(*[npaccel.asarray(x.copy()) for x in fields])
            found = [np.array(x) for x in npaccel.evaluate(*found)]
        for mine, numpys in zip(found, program(*fields.copy()), strict=True):
            assert mine.tobytes() == numpys.tobytes()
    assert chained() == npaccel.stats()["kernels"] == 3 * kernels


def scanned(x, y):
    """Two arrays that no kernel makes, but kernels read last."""
    total, other = np.cumsum(x), np.cumsum(y)
    made = total[10:] - total[:-10]
    made[1:] += made[:-1]
    made[1:] -= other[1:-10]
    return made


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_what_was_there_before_stays_where_it_is(threads) -> None:
    x, y = np.random.default_rng(4).integers(0, 9, (2, 1_000_000)).astype("f8")
    with npaccel.config(threads=threads):
        found = np.array(npaccel.evaluate(scanned(npaccel.asarray(x), npaccel.asarray(y))))
    assert found.tobytes() == scanned(x, y).tobytes()
    assert chained() >= 2


def waves(ex, ey, hz):
    """As the steps of a field: sources along an edge, three sweeps, edges of their own."""
    for k in range(4):
        ey[0, :] = float(k)
        ey[1:, :] -= 0.5 * (hz[1:, :] - hz[:-1, :])
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])
        hz[:, 0] = hz[:, 1]
        hz[-1, :] = hz[-2, :]
    return ex, ey, hz


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_sweeps_that_read_each_other_have_numpys_bits(threads) -> None:
    rng = np.random.default_rng(2)
    fields = [rng.random((700, 640)) for _ in range(3)]
    with npaccel.config(threads=threads):
        found = waves(*[npaccel.asarray(x.copy()) for x in fields])
        found = [np.array(x) for x in npaccel.evaluate(*found)]
    for mine, numpys in zip(found, waves(*fields), strict=True):
        assert mine.tobytes() == numpys.tobytes()
    assert chained() >= 8


def bodies(position):
    """Pulling each other: three planes behind one another, run row by row in all of them."""
    for _ in range(2):
        delta = position[:, np.newaxis, :] - position[:, :, np.newaxis]
        squared = (delta**2).sum(axis=0) + 0.01
        pull = 1.0 / (squared * np.sqrt(squared))
        position = position + 1e-6 * (delta * pull).sum(axis=-1)
    return position


def test_planes_behind_one_another_do_not_follow_each_other() -> None:
    position = np.random.default_rng(8).random((3, 1000))
    with npaccel.config(threads=2):
        found = npaccel.evaluate(bodies(npaccel.asarray(position.copy())))
    np.testing.assert_allclose(np.array(found), bodies(position), rtol=1e-11)
    assert npaccel.stats()["kernels"] > 2
    assert chained() == 0


def test_what_is_warned_of_is_the_same() -> None:
    def program(u, v):
        for _ in range(3):
            u[1:-1] = (u[:-2] + u[2:]) / v[1:-1]
            v[1:-1] = v[:-2] * v[2:] + u[1:-1]
        return u, v

    rng = np.random.default_rng(3)
    u, v = rng.random((900, 500)), rng.random((900, 500))
    u[700, 20], v[444, 7] = 1e300, 0.0
    with warnings.catch_warnings(record=True) as wanted:
        warnings.simplefilter("always")
        expected = program(u.copy(), v.copy())
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = npaccel.evaluate(*program(npaccel.asarray(u.copy()), npaccel.asarray(v.copy())))
    assert sorted(str(w.message) for w in told) == sorted(str(w.message) for w in wanted) != []
    assert [np.array(x).tobytes() for x in found] == [x.tobytes() for x in expected]
    assert chained() > 0


def window(rng, shape):
    """A view's slices: all but a few at both ends of each axis that is long."""
    return tuple(
        slice(int(rng.integers(0, 3)), n - int(rng.integers(0, 3))) if n > 9 else slice(0, n)
        for n in shape
    )


def shifted(rng, place, shape):
    """The same extents elsewhere."""
    moved = []
    for part, n in zip(place, shape, strict=True):
        extent = part.stop - part.start
        low = int(np.clip(part.start + rng.integers(-2, 3), 0, n - extent))
        moved.append(slice(low, low + extent))
    return tuple(moved)


def random_program(rng, shape):
    """Statements on three arrays, as functions of a list of them."""
    steps = []
    for _ in range(int(rng.integers(4, 14))):
        to, one, other = (int(k) for k in rng.integers(0, 3, 3))
        place = window(rng, shape)
        a, b = shifted(rng, place, shape), shifted(rng, place, shape)
        kind = int(rng.integers(0, 13))
        factor = float(rng.random())
        steps.append((kind, to, one, other, place, a, b, factor))
    return steps


def run(steps, arrays):
    arrays = list(arrays)
    for kind, to, one, other, place, a, b, factor in steps:
        x, y = arrays[one], arrays[other]
        if kind <= 3:
            arrays[to][place] = factor * (x[a] - y[b])
        elif kind == 4:
            arrays[to][place] += (factor * x[a]).astype(arrays[to].dtype)
        elif kind == 5:
            arrays[to] = x * factor + y
        elif kind == 6:
            arrays[to][..., 0] = arrays[one][..., -1]
        elif kind == 7:
            arrays[to][0] = arrays[one][-1]
        elif kind == 11:  # read by kernels, and made by none
            total = np.cumsum(x, axis=-1)
            arrays[to][place] = (total[a] * factor).astype(arrays[to].dtype)
        elif kind == 12:  # as large as others that die
            flow = factor * (x[a] - y[b])
            arrays[to][place] -= flow.astype(arrays[to].dtype)
        elif kind >= 9:  # each half of a new array by a kernel of its own, and read as a whole
            half = len(x) // 2
            both = np.concatenate([x[half:] * factor, y[:half] - factor])
            arrays[to] = (both - both[::-1] if kind == 9 else both) * 0.5
        else:
            arrays[to][place] = x[a][::-1] * factor
    return arrays


@pytest.mark.parametrize(
    "seed", [*range(10), *(pytest.param(n, marks=pytest.mark.slow) for n in range(10, 40))]
)
def test_random_programs_have_numpys_bits(seed) -> None:
    rng = np.random.default_rng(seed)
    shape = SHAPES[seed % len(SHAPES)]
    dtypes = [str(rng.choice(["f4", "f8", "f8", "i4"])) for _ in range(3)]
    plain = [(100 * rng.random(shape)).astype(dtype) for dtype in dtypes]
    wrapped = [npaccel.asarray(x.copy()) for x in plain]
    steps = random_program(rng, shape)
    with np.errstate(all="ignore"), npaccel.config(threads=int(rng.integers(1, 6))):
        found = npaccel.evaluate(*run(steps, wrapped))
        expected = run(steps, plain)
    for mine, numpys in zip(found, expected, strict=True):
        assert np.array(mine).tobytes() == numpys.tobytes()


def test_random_programs_are_chains_as_a_rule() -> None:
    for seed in range(0, 24, 6):
        test_random_programs_have_numpys_bits(seed)
    assert chained() > 8


def test_differences_of_two_curves_of_two_halves_have_numpys_values() -> None:
    def curve(t, phase):
        mean = np.mod(t / 1.8 + phase, 6.28)
        big = mean + 0.25 * np.sin(mean)
        for _ in range(4):
            big = big - (big - 0.25 * np.sin(big) - mean) / (1 - 0.25 * np.cos(big))
        x, y = np.cos(big) - 0.25, 0.9 * np.sin(big)
        return np.concatenate([0.7 * x - 0.6 * y, 0.6 * x + 0.7 * y])

    def columns(t):
        found = np.empty((2 * len(t), 4))
        for k in range(4):
            found[:, k] = (curve(t, k + 1e-6) - curve(t, k - 1e-6)) / 2e-6
        return found

    t = np.sort(np.random.default_rng(83).uniform(0, 8, 200_000))
    with npaccel.config(threads=2), npaccel.accelerate():
        found = [np.array(columns(t)) for _ in range(3)]
    want = columns(t)
    for one in found:
        np.testing.assert_allclose(one, want, atol=1e-7)


def half_before(a, c, x):
    """What is stored last waits for a read of rows that begin within those stored before, and not
    at the same column."""
    n, half = len(a) - 1, a.shape[1] // 2
    doubled = a * 2
    x[:-1, :half] = doubled[1:, :half]
    read = x[:-1, half // 2 : half + half // 2] + 1
    x[:-1, : half // 2] = c[:n, : half // 2]
    return x, doubled, read


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_who_waits_for_a_later_use_waits_for_an_earlier_one_of_other_columns(threads) -> None:
    fields = np.random.default_rng(5).random((3, 1400, 800))
    with npaccel.config(threads=threads):
        found = half_before(*[npaccel.asarray(x.copy()) for x in fields])
        found = [np.array(x) for x in npaccel.evaluate(*found)]
    for mine, numpys in zip(found, half_before(*fields), strict=True):
        assert mine.tobytes() == numpys.tobytes()
    assert chained() == 4


def crossed(x):
    """Two axes change places: what the first rows are made of lies all over the other array."""
    y = x * 2.0 + 1
    z = y.transpose(1, 0, 2) * 0.5 + x
    return y, z, z.transpose(1, 0, 2) - z


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("shape", [(200, 200, 30), (90, 90, 200)])
def test_axes_that_change_places(shape, threads) -> None:
    x = np.random.default_rng(8).random(shape)
    with npaccel.config(threads=threads), npaccel.accelerate:
        found = npaccel.evaluate(*crossed(npaccel.asarray(x)))
    for mine, numpys in zip(found, crossed(x), strict=True):
        assert np.array(mine).tobytes() == numpys.tobytes()
    assert threads > 1 or chained() == 3
    npaccel.stats(reset=True)


def three_parts(q, p, s):
    """An array of three parts. The first thread makes the first part, and begins with the last one,
    while another makes the second, since what that is made of lies there in its array."""
    made = np.empty((10 + len(s), s.shape[1]))
    made[10:] = s * 2
    others = q * 2, p * 3
    made[:2] = q[:2] * 3
    first = q[0] + made[0] + made[1]
    made[2:10] = q[32:40] * 5
    second = p[36:43] + made[2:9] + made[3:10]
    return *others, first, second, s[1:] + made[10:-1] + made[11:]


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_no_part_of_an_array_is_kept_where_another_part_lies(setting, threads) -> None:
    setting("threshold", 0)
    setting("threads", threads)
    fields = [np.random.default_rng(6).random((n, 800)) for n in (64, 64, 2000)]
    for _ in range(12):
        with npaccel.accelerate:
            found = npaccel.evaluate(*three_parts(*map(npaccel.asarray, fields)))
        for mine, numpys in zip(found, three_parts(*fields), strict=True):
            assert np.array(mine).tobytes() == numpys.tobytes()
    assert chained() == 12 * 8
