"""z[mask] = f(z[mask], c[mask]) in a block: as maps under the mask, if nobody can tell."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npaccel

from .at_once import same, seen

Array = np.ndarray[Any, Any]
ROUNDS = 6  # the first ones find out that picks of a line are put back


def data(shape: tuple[int, ...] = (300, 230), dtype: str = "d") -> tuple[Array, Array, Array]:
    """Values, others, and a mask of about half of them: of less than 64 KiB what waits has a copy,
    and there are no twins."""
    rng = np.random.default_rng(5)
    z = rng.integers(-40, 40, shape).astype(dtype)
    c = rng.integers(1, 9, shape).astype(dtype)
    if dtype in "FD":
        z = z + 1j * rng.integers(-40, 40, shape).astype(dtype)
    return z, c, rng.random(shape) < 0.5


def check(program: Callable[[Array, Array, Array], Any], *given_: Array) -> None:
    """With NumPy, and in a block, from copies."""

    def run(*arrays: Array) -> Any:
        return program(*(array.copy() for array in arrays))

    same(run, *(given_ or data()))


def flushes() -> int:
    return int(npaccel.stats()["flushes"])


# ------------------------------------------------------------------------------- programs


def escape(z: Array, c: Array, m: Array) -> Any:
    """The mask is computed anew in each round, and has fewer in."""
    count = np.zeros(z.shape, int)
    for k in range(ROUNDS):
        m = np.abs(z) < 300
        count[m] = k
        z[m] = z[m] * z[m] / 64 + c[m]
    return z, count


def in_place(z: Array, c: Array, m: Array) -> Any:
    for _ in range(ROUNDS):
        z[m] += c[m]
        z[m] *= 2
        picked = z[m]
        picked -= 3
        picked *= picked
        z[m] = picked
        m = z < 5000
    return z


def kept(z: Array, c: Array, m: Array) -> Any:
    """Somebody keeps what is put, or picked."""
    seen_ = []
    for k in range(ROUNDS):
        picked = z[m]
        value = picked + c[m]
        z[m] = value
        seen_.append(value if k % 2 else picked)
    return z, seen_


def kept_late(z: Array, c: Array, m: Array) -> Any:
    """The same, when its line is trusted already."""
    last: Any = None
    for k in range(2 * ROUNDS):
        value = z[m] - c[m]
        z[m] = value
        last = value if k % 5 == 4 else last
    return z, last


def written_between(z: Array, c: Array, m: Array) -> Any:
    for k in range(ROUNDS):
        value = z[m] * 2
        z[k] = 7
        z[m] = value
        value = c[m] + 1
        c += 1
        z[m] = value
    return z, c


def mask_written_between(z: Array, c: Array, m: Array) -> Any:
    results = []
    for k in range(ROUNDS):
        value = z[m] - c[m]
        m[0, k], m[0, -1 - k] = m[0, -1 - k], m[0, k]  # as many are in
        z[m] = value
        results.append(m.sum())
    return z, results


def mask_inverted_between(z: Array, c: Array, m: Array) -> Any:
    m = m.reshape(-1).copy()
    m[: m.size // 2], m[m.size // 2 :] = True, False
    z, c = z.reshape(-1), c.reshape(-1)
    for _ in range(ROUNDS):
        value = z[m] - c[m]
        np.logical_not(m, m)
        z[m] = value
    return z


def overlapping(z: Array, c: Array, m: Array) -> Any:
    flat = np.concatenate([z.ravel(), c.ravel()])
    n = z.size
    first, second = flat[:n], flat[3 : n + 3]
    m = m.ravel()
    for _ in range(ROUNDS):
        second[m] = first[m] + 1
        first[m] = second[m] - first[m]
        second[m] = first[m]
    return flat


def other_masks(z: Array, c: Array, m: Array) -> Any:
    other = np.roll(m, 1)
    other = other.copy()
    for _ in range(ROUNDS):
        value = z[m] + 1
        if other.sum() == value.size:
            z[other] = value
        z[other] = z[other] + 1
        z[m] = z[m][::-1].copy()
        m, other = other, m
    return z


def of_two_masks(z: Array, c: Array, m: Array) -> Any:
    """Picks by masks with as many in, added."""
    other = m.ravel()[::-1].reshape(m.shape).copy()
    for _ in range(ROUNDS):
        z[m] = z[m] + c[other]
    return z


def of_masks_of_one_array(z: Array, c: Array, m: Array) -> Any:
    """As many are in, elsewhere in the same memory, or this way and that."""
    n = min(m.shape)
    both, square, w = np.concatenate([m, m[::-1]]), m[:n, :n].copy(), z[:n, :n].copy()
    first, second = both[: len(m)], both[len(m) :]
    for _ in range(ROUNDS):
        z[first] = z[second] * 0.5 + c[first]
        w[square] = w[square.T] - 1
    return z, w


def not_contiguous(z: Array, c: Array, m: Array) -> Any:
    for _ in range(ROUNDS):
        z[:, ::2][m[:, ::2]] = z[:, ::2][m[:, ::2]] + c[:, ::2][m[:, ::2]]
        z.T[m.T] += 1
    return z


def only_read(z: Array, c: Array, m: Array) -> Any:
    found = []
    for k in range(ROUNDS):
        found.append((z[m].sum(), c[m].max(), (z[m] * c[m])[:5].copy()))
        z[m] = z[m] + k
    return z, found


def pieces(z: Array, c: Array, m: Array) -> Any:
    """Chains that end in something else, or are more than maps."""
    for _ in range(ROUNDS):
        z[m] = np.cumsum(z[m])
        z[m] = z[m] - z[m].mean()
        z[m] = np.where(z[m] > 3, c[m], z[m])
        z[m] = np.minimum(z[m], 99)
        z[m] = 3.5 - c[m]
        z[m] = c[m]
    return z


def picked_twice(z: Array, c: Array, m: Array) -> Any:
    for _ in range(ROUNDS):
        part = z[m]
        part[part > 0] = -1
        inner = part < -3
        part[inner] = part[inner] * 2
        z[m] = part
    return z


def of_parts_of_a_row(z: Array, c: Array, m: Array) -> Any:
    """Written from one place on, and put from another."""
    for k in range(ROUNDS):
        picked = z[m]
        row = np.empty(picked.size + 1)
        row[0] = k
        row[1:] = picked * 0.5
        z[m] = row[:-1] + 1
    return z


def of_views(z: Array, c: Array, m: Array) -> Any:
    """Rows that lie apart, by masks that do or do not."""
    inner, others, mask = z[1:-1, 1:-1], c[1:-1, 2:], m[1:-1, 1:-1].copy()
    for _ in range(ROUNDS):
        z[1:-1, 1:-1][mask] += 2 * others[mask]
        inner[m[1:-1, 1:-1]] = inner[m[1:-1, 1:-1]] - 1
        z.T[::-1][m.T] = z.T[::-1][m.T] * 0.5
        z[1:, 1:][mask[0, 0] | m[1:, 1:]] = z[:-1, :-1][mask[0, 0] | m[1:, 1:]]
        inner[m[1:-1, 1:-1]] = inner[m[2:, 1:-1]][: m[1:-1, 1:-1].sum()].max()
    return z


def masks_that_die(z: Array, c: Array, m: Array) -> Any:
    """Memory of others, that nobody but what waits has when it runs."""
    raw = m.tobytes()
    for k in range(ROUNDS):
        by = np.frombuffer(bytearray(raw), bool).reshape(m.shape)
        z[by] = z[by] * 0.5 + c[by]
        del by
        c[0, k] = sum(len(bytearray(len(raw))) for _ in range(9))
    return z


PROGRAMS = [
    escape, in_place, kept, kept_late, written_between, mask_written_between, mask_inverted_between,
    overlapping, other_masks, of_two_masks, of_masks_of_one_array, not_contiguous, only_read,
    pieces, picked_twice, of_parts_of_a_row, of_views, masks_that_die,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("threshold", [0, 1 << 14])
@pytest.mark.parametrize("tiering", ["eager", "off"])
def test_programs(program: Callable[..., Any], threshold: int, tiering: str) -> None:
    with npaccel.config(threshold=threshold, tiering=tiering):
        check(program)


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_of_small_masks(program: Callable[..., Any]) -> None:
    with npaccel.config(tiering="off"):
        check(program, *data((60, 70)))


@pytest.mark.parametrize("program", [escape, in_place, kept, overlapping, pieces])
@pytest.mark.parametrize("dtype", ["f", "D", "F", "i", "h"])
def test_programs_of_other_types(program: Callable[..., Any], dtype: str) -> None:
    if dtype in "FD" and program is not escape:
        return
    with np.errstate(all="ignore"):
        check(program, *data(dtype=dtype))


def test_large_masks_that_die() -> None:
    with npaccel.config(threshold=1 << 14):
        check(masks_that_die, *data((600, 700)))


def test_programs_that_check() -> None:
    with npaccel.config(check="compute"):
        for program in PROGRAMS:
            check(program)


def test_values_of_other_types() -> None:
    def program(z: Array, c: Array, m: Array) -> Any:
        whole = z.astype("i4")
        for _ in range(ROUNDS):
            whole[m] = whole[m] * 1.5
            z[m] = whole[m] + np.float32(1.5)
            z[m] = whole[m]
        return z, whole

    check(program)


@pytest.mark.parametrize("inside", ["none", "one", "all", "few"])
def test_of_few_and_all(inside: str) -> None:
    z, c, m = data()
    m[...] = inside == "all"
    m[3, 4:5] |= inside == "one"
    m[3:5] |= inside == "few"
    check(in_place, z, c, m)
    check(kept, z, c, m)


def test_a_mask_of_fewer_axes() -> None:
    def program(z: Array, c: Array, m: Array) -> Any:
        for k in range(ROUNDS):
            z[m] = z[m] * 2 - c[m]
            z[m] += k
            z[m] = z[m] + c[0]
            z[m] = z[m].max(1, keepdims=True) + c[m]
        return z

    z, c, m = data()
    check(program, z, c, m[:, 0].copy())
    z, c, m = data((20, 30, 4))
    check(in_place_rows, z, c, m[..., 0].copy())


def in_place_rows(z: Array, c: Array, m: Array) -> Any:
    for _ in range(ROUNDS):
        z[m] = z[m] - c[m]
        z[m] = -z[m]
    return z


# ------------------------------------------------------------------------------- errors, warnings


@pytest.mark.parametrize("cut", [1, -1])
def test_wrong_shapes(cut: int) -> None:
    def program(z: Array, c: Array, m: Array) -> Any:
        for k in range(ROUNDS):
            value = z[m] + 1
            z[m] = (value[cut:] if cut > 0 else value[:cut]) if k == ROUNDS - 1 else value
        return z

    def other(z: Array, c: Array, m: Array) -> Any:
        for k in range(ROUNDS):
            z[m] = z[m] + 1
            if k == ROUNDS - 1:
                z[m[:-cut] if cut > 0 else m[-cut:]] = z[m]
        return z

    check(program)
    check(other)


@pytest.fixture(params=["eager", "off"])
def tiering(request: pytest.FixtureRequest) -> Iterator[str]:
    with npaccel.config(tiering=request.param):
        yield request.param


@pytest.mark.usefixtures("tiering")
def test_only_what_is_picked_warns() -> None:
    def program(z: Array, c: Array, m: Array) -> Any:
        m = z != 0
        for _ in range(ROUNDS):
            z[m] = c[m] / z[m]
            z[m] = np.sqrt(np.abs(z[m]))
        return z

    z, c, m = data()
    z[5] = 0
    check(program, z, c, m)
    npaccel_warnings = seen(lambda: program(z.copy(), c, m))[1]
    assert npaccel_warnings == []


@pytest.mark.usefixtures("tiering")
@pytest.mark.parametrize("dtype", ["d", "f", "D", "i"])
def test_maps_under_a_mask(dtype: str) -> None:
    """Whose other elements would warn; some of the elements under it do."""

    def program(z: Array, c: Array, m: Array) -> Any:
        z[m[:, ::-1]] = 0
        quotient, other = np.ones_like(z), np.ones_like(z)
        np.floor_divide(c, z, out=other, where=z != 0) if z.dtype.kind != "c" else None
        whole = z.astype(np.result_type(z, np.float32))
        quotient = np.ones_like(whole)
        np.divide(c, whole, out=quotient, where=whole != 0)
        quotient *= 2
        np.multiply(quotient, c, out=quotient, where=m)
        np.add(quotient[:, ::2], 3, out=quotient[:, ::2], where=m[:, ::2])
        np.divide(c, whole, out=quotient, where=m)
        return quotient, other

    check(program, *data(dtype=dtype))


@pytest.mark.usefixtures("tiering")
@pytest.mark.parametrize(("first", "threshold"), [(ROUNDS, 0), (3, 0), (3, 1 << 14), (0, 0)])
def test_what_is_picked_warns_once_at_its_line(first: int, threshold: int) -> None:
    def program(z: Array, c: Array, m: Array) -> Any:
        kept_: list[Array] = []
        for k in range(ROUNDS):
            z[3, 3:60] = k % 2
            root = np.sqrt(c[m] - 5)
            value = root / z[m]
            z[m] = value
            kept_ += [value] * (k >= first)
            z[m] = 1.0
        return z, kept_

    with npaccel.config(threshold=threshold):
        check(program)


def test_errors_of_errstate() -> None:
    def program(z: Array, c: Array, m: Array) -> Any:
        for k in range(ROUNDS):
            z[3, 3:60] = 1 if k < ROUNDS - 1 else 0
            with np.errstate(divide="raise", invalid="raise"):
                z[m] = c[m] / z[m]
        return z

    z, c, m = data()
    z[z == 0] = 1
    check(program, z, c, m)


# --------------------------------------------------------------------- others look, or write


@pytest.mark.parametrize("what", ["values", "mask"])
def test_writes_through_pointers(what: str) -> None:
    """Between the pick and the put, unseen."""

    def program(z: Array, c: Array, m: Array) -> Any:
        found = []
        for k in range(ROUNDS):
            value = z[m] + 1
            target = z if what == "values" else m
            at = target.ctypes.data + target.strides[0] * k
            low = bytes((ctypes.c_char * 64).from_address(at))
            ctypes.memmove(at, low[32:] + low[:32], 64)  # of the mask: as many are in
            z[m] = value
            found.append(z[0].copy())
        return z, found

    check(program)


def test_a_buffer_that_is_written() -> None:
    def program(z: Array, c: Array, m: Array) -> Any:
        bytes_ = memoryview(z).cast("B")
        for k in range(ROUNDS):
            value = z[m] + 1
            bytes_[:80] = bytes(range(k, k + 80))
            z[m] = value
        del bytes_
        return z

    check(program)


def test_a_buffer_on_what_is_picked() -> None:
    """A pick that was to wait runs at once, since others may write unseen."""

    def program(z: Array, c: Array, m: Array) -> Any:
        views = []
        for k in range(3 * ROUNDS):
            z[m] = 0.5 * z[m] + c[m]
            if k == ROUNDS:
                views = [memoryview(z), memoryview(m)]
        del views
        return z

    check(program)


def test_another_thread_reads() -> None:
    def program(z: Array, c: Array, m: Array) -> Any:
        sums: list[float] = []
        for _ in range(ROUNDS):
            value = z[m] - c[m]
            z[m] = value
            thread = threading.Thread(target=lambda: sums.append(float(z[0, :9].sum())))
            thread.start()
            thread.join()
            sums.append(float(value[0]))
        return z, sums

    check(program)


def test_a_source_that_is_gone() -> None:
    def program(z: Array, c: Array, m: Array) -> Any:
        for _ in range(ROUNDS):
            z[m] = (z * 2)[m] - (c + 1)[m]
        return z

    check(program)


def test_what_is_never_put() -> None:
    def program(z: Array, c: Array, m: Array) -> Any:
        found = []
        for k in range(3 * ROUNDS):
            value = z[m] * 2
            if k % ROUNDS:
                z[m] = value
            else:
                found.append(value)
        return z, found

    check(program)


# ------------------------------------------------------------------------------- structure


@pytest.mark.pending
@pytest.mark.parametrize("part", [np.s_[:], np.s_[1:-1, 2:]], ids=["whole", "inner"])
def test_a_round_is_one_run(part: Any) -> None:
    """When it is learned what the picks are for, and no run of an earlier round is on its way."""
    z, c, _ = data((300, 300))
    with npaccel.config(threshold=1 << 16), npaccel.accelerate():
        z, c = z.copy()[part], c.copy()[part]
        alone = 0  # rounds of one run, one after the other
        for _ in range(200):
            before = flushes()
            m = np.abs(z) < 1e9
            z[m] = z[m] * 0.5 + c[m]  # what came before, when the mask is counted
            alone = alone + 1 if flushes() - before == 1 else 0
            if alone == 9:
                break
        assert alone == 9
        assert npaccel.stats()["requests"] > 0


@pytest.mark.pending
def test_no_size_is_new() -> None:
    """Masks with other numbers in are one program, when it is known."""
    z, c, _ = data((300, 300))
    with npaccel.config(threshold=1 << 16), npaccel.accelerate():
        z, c = z.copy(), c.copy()
        misses = []
        for k in range(20):
            m = c * 1e6 / (k + 1) > np.abs(z)
            z[m] = z[m] * 0.5 + c[m]
            misses.append(npaccel.stats()["plan_misses"])
        assert misses[-1] - misses[8] <= 2


# ------------------------------------------------------------------------------- random programs

STEPS = (
    "z[m] = z[m] * 2 - c[m]",
    "z[m] += c[m]",
    "z[m] = c[m]",
    "z[m] = t",
    "t = z[m]",
    "t = t + c[m]",
    "t *= 2",
    "u = t",
    "z[n] = z[n] + 1",
    "z[n] = t",
    "c[m] = z[m] - t",
    "m = np.roll(m, 1).copy()",
    "m[3], m[4] = m[4].copy(), m[3].copy()",
    "m, n = n, m",
    "np.logical_or(m, n, m)",
    "z[2] = c[3]",
    "s = z[m].sum()",
    "s = t[0] if t.size else 0",
    "z %= 97",
    "z[m] = -1",
)


RANDOM = given(st.lists(st.sampled_from(STEPS), min_size=2, max_size=7), st.integers(0, 3))


@pytest.mark.usefixtures("uncompiled")
@settings(max_examples=60, deadline=None)
@RANDOM
def test_random_programs(steps: list[str], masks: int) -> None:
    run_steps(steps, masks)


@settings(max_examples=20, deadline=None)
@RANDOM
def test_random_programs_compiled(steps: list[str], masks: int) -> None:
    run_steps(steps, masks)


def run_steps(steps: list[str], masks: int) -> None:
    def program(z: Array, c: Array, m: Array) -> Any:
        names = {"np": np, "z": z, "c": c, "m": m, "n": np.roll(m, masks, 1).copy(), "t": c[m]}
        outcome: list[Any] = []
        code = [compile(step, "<steps>", "exec") for step in steps]
        for _ in range(4):
            for step, text in zip(code, steps, strict=True):
                try:
                    exec(step, names)
                except (ValueError, IndexError) as error:
                    outcome.append((text, str(error)))
        return [names[name] for name in ("z", "c", "m", "n", "t")], names.get("u"), outcome

    check(program)
