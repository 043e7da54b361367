"""Rounds of a loop that wait together run by the kernels of one; nothing else changes."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from loops import random_loop
from tiering import until

import npaccel
from npaccel import _native
from npaccel.runtime.programs.trace import END_WORDS, HALF

pytestmark = pytest.mark.usefixtures("deferred")
N = 300


def heat(u, source, n: int):
    for _ in range(n):
        u = u.copy()
        u[1:-1] += 0.25 * (u[2:] - 2 * u[1:-1] + u[:-2]) + source[1:-1]
    return u


def arrays(wrap=np.asarray):
    rng = np.random.default_rng(5)
    return wrap(rng.random(N)), wrap(0.01 * rng.random(N))


@pytest.fixture
def eager(setting):
    setting("tiering", "eager")
    _native.plans().clear()
    npaccel.stats(reset=True)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("n", [40, 300, 1500])
def test_a_loop_of_any_length_has_the_kernels_of_one_round(n) -> None:
    npaccel.evaluate(heat(*arrays(npaccel.asarray), 1))
    npaccel.stats(reset=True)
    found = np.array(npaccel.evaluate(heat(*arrays(npaccel.asarray), n)))
    counts = npaccel.stats()
    assert np.array_equal(found, heat(*arrays(), n))
    assert n // 8 <= counts["flushes"] <= n // 8 + 4 and counts["plan_misses"] <= 5
    assert counts["kernel_requests"] == counts["requests"]
    assert counts["kernels"] == 3 * n and counts["compiles"] <= 3


@pytest.mark.usefixtures("eager")
def test_however_often_it_is_read_there_are_few_programs() -> None:
    u, source = arrays(npaccel.asarray)
    plain, wanted = arrays()[0], []
    seen = []
    for every in (50, 31, 77, 50, 64):
        u, plain = heat(u, source, every), heat(plain, arrays()[1], every)
        seen.append(float(u.max())), wanted.append(float(plain.max()))
    assert seen == wanted
    assert npaccel.stats()["plan_misses"] <= 8


ROUNDS = 4  # of `spread` that run together


def spread(u, v, n: int, stop: int = -1):
    """Two arrays go from round to round; `stop`: where the first one is looked at, so that what is
    recorded begins behind that place."""
    for i in range(n):
        seen = stop if i == 0 else -1
        flow = u[1:] - u[:-1]
        if seen == 0:
            npaccel.evaluate(flow)
        change = np.zeros_like(u)
        change[1:] -= flow
        change[:-1] += flow
        if seen == 1:
            npaccel.evaluate(change)
        wave = np.sqrt(v * v + 1.0)
        if seen == 2:
            npaccel.evaluate(wave)
        u = u + 0.1 * change / wave
        if seen == 3:
            npaccel.evaluate(u)
        v = v + 0.01 * (u - v) * wave
    return u, v


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("order", [(0, 1, 2, 3, -1), (-1, 2, 0, 3, 1)])
def test_rounds_begin_at_the_head_wherever_a_loop_is_met(order: tuple[int, ...]) -> None:
    for stop in order:
        found = npaccel.evaluate(*spread(*arrays(npaccel.asarray), 60, stop))
        for got, wanted in zip(found, spread(*arrays(), 60), strict=True):
            assert np.array_equal(np.array(got), wanted)
    often = [program for program in programs() if program.timing[0] > 10]
    assert len(often) == 1 and often[0].timing[0] >= len(order) * (60 // ROUNDS - 3)


@pytest.mark.usefixtures("eager")
def test_two_loops_are_programs_of_their_rounds() -> None:
    """Also where the second one is met first, as more of its rounds wait."""
    lines = [f"    x = x + {k}.25" for k in range(40)]
    lines += ["    for _ in range(12):", "        x[1:] = (x[1:] + x[:-1]) * 0.5", "        x = -x"]
    lines += ["    for _ in range(20):", "        y[1:] = (y[:-1] + x[1:]) * 0.5", "        y = -y"]
    scope: dict[str, object] = {}
    exec(
        compile("\n".join(["def run(x, y):", *lines, "    return x, y"]), "<lines>", "exec"), scope
    )
    found = npaccel.evaluate(*scope["run"](*arrays(npaccel.asarray)))
    for got, wanted in zip(found, scope["run"](*arrays()), strict=True):
        assert np.array_equal(np.array(got), wanted)
    requests = [memoryview(key).cast("Q")[-END_WORDS] & HALF for key in _native.plans()]
    assert sum(requests) >= 128 and max(requests) <= 64


@pytest.mark.usefixtures("eager")
def test_few_requests_stay_one_program() -> None:
    u, source = arrays(npaccel.asarray)
    for _ in range(3):
        u = heat(u, source, 5)
        npaccel.evaluate(u)
    assert npaccel.stats()["flushes"] == 3


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("before", [56, 60, 61])
def test_a_few_requests_alike_cut_nothing(before) -> None:
    """As four copies of a loop in a function of NumPy's: they are no loop of the program's."""
    lines = [f"    x = x + {k}.25" for k in range(before)]
    lines += ["    for _ in range(4):", "        x = x * 0.5"]
    lines += [f"    x = x - {k}.25" for k in range(30)]
    scope: dict[str, object] = {}
    exec(compile("\n".join(["def run(x):", *lines, "    return x"]), "<lines>", "exec"), scope)
    x = arrays()[0]
    found = npaccel.evaluate(scope["run"](npaccel.asarray(x)))
    assert npaccel.stats()["flushes"] == 1
    assert np.array_equal(found, scope["run"](x))


def test_rounds_without_code_run_in_one(setting) -> None:
    setting("tiering", "off")
    npaccel.stats(reset=True)
    found = npaccel.evaluate(heat(*arrays(npaccel.asarray), 40))
    assert npaccel.stats()["flushes"] <= 2
    assert np.array_equal(found, heat(*arrays(), 40))


def lags(x, y, n: int):
    for k in range(1, n + 1):
        d = x[k:] - x[:-k]
        y[: len(d)] += d * d
    return y


def test_rounds_of_other_sizes_are_looked_up_though_the_first_has_no_code(setting) -> None:
    setting("tiering", "off")
    npaccel.stats(reset=True)
    found = npaccel.evaluate(lags(*arrays(npaccel.asarray), 60))
    assert 4 <= npaccel.stats()["flushes"] <= 8  # of 180 requests
    assert np.array_equal(found, lags(*arrays(), 60))


@pytest.mark.usefixtures("adaptive")
def test_code_for_some_sizes_serves_them_among_others() -> None:
    """From the sizes on that are planned alike."""

    def halving(x):
        found = []
        for _ in range(3):
            y = x
            while len(y) > 2:
                y = y[::2] * 0.5 + y[1::2]
                found.append(y)
        return found

    x = np.random.default_rng(1).random(1 << 14)
    wanted = halving(x)

    def ran_compiled() -> bool:
        npaccel.stats(reset=True)
        found = npaccel.evaluate(*halving(npaccel.asarray(x)))
        assert all(map(np.array_equal, found, wanted))
        counts = npaccel.stats()
        return counts["kernel_requests"] > counts["requests"] // 2

    until(ran_compiled)


def pulse(u, v, w, n: int):
    """Light on a grid: three kernels a round, which is too much for one."""
    for _ in range(n):
        u[1:] -= 0.5 * (w[1:] - w[:-1])
        v[:, 1:] -= 0.5 * (w[:, 1:] - w[:, :-1])
        w[:-1, :-1] -= 0.7 * (v[:-1, 1:] - v[:-1, :-1] + u[1:, :-1] - u[:-1, :-1])
    return u, v, w


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("n", [4, 13, 30])
def test_kernels_of_several_rounds_follow_each_other_through_memory(n) -> None:
    given = np.random.default_rng(9).random((3, 600, 600))
    wanted = pulse(*given.copy(), n)
    with npaccel.config(threads=2):
        found = npaccel.evaluate(*pulse(*(npaccel.asarray(x.copy()) for x in given), n))
    assert all(map(np.array_equal, found, wanted))
    counts = npaccel.stats()
    assert counts["flushes"] <= n // 4 + 4
    assert counts["chained_kernels"] >= 4 * 3 * (n // 4 - 1)


def programs() -> list[_native.Program]:
    return [program for program in _native.plans().values() if not program.single]


@pytest.mark.usefixtures("eager")
def test_code_from_disk_is_compared_once_with_blocks() -> None:
    u, source = arrays(npaccel.asarray)
    npaccel.evaluate(heat(u, source, 60))
    used = max(programs(), key=lambda program: program.timing[0])
    assert used.baseline == 0 and not used.compares
    used.compares = True
    before = used.timing[0]
    found = npaccel.evaluate(heat(u, source, 60))
    assert not used.compares and used.baseline > 0
    assert 0 < used.timing[0] - before < 60
    assert np.array_equal(found, heat(*arrays(), 60))


@pytest.mark.usefixtures("eager")
def test_rounds_whose_code_loses_run_in_one() -> None:
    u, source = arrays(npaccel.asarray)
    npaccel.evaluate(heat(u, source, 60))
    used = max(programs(), key=lambda program: program.timing[0])
    used.baseline = 1e-9
    npaccel.evaluate(heat(u, source, 60))
    assert used.single and used.lost > 0
    npaccel.stats(reset=True)
    found = npaccel.evaluate(heat(u, source, 60))
    assert npaccel.stats()["flushes"] < 10
    assert np.array_equal(found, heat(*arrays(), 60))


@pytest.mark.usefixtures("eager")
def test_what_rounds_left_is_kept_apart() -> None:
    """Each round's result is alive: none may be given another round's memory."""
    u, source = arrays(npaccel.asarray)
    plain, plain_source = arrays()
    kept, wanted = [], []
    for _ in range(60):
        u, plain = heat(u, source, 1), heat(plain, plain_source, 1)
        kept.append(u), wanted.append(plain)
    for a, b in zip(reversed(kept), reversed(wanted), strict=True):
        assert np.array_equal(np.array(a), b)


@pytest.mark.usefixtures("eager")
def test_warnings_come_once_a_round_at_their_line() -> None:
    x, zero = npaccel.asarray(np.ones(N)), npaccel.asarray(np.zeros(N))
    with pytest.warns(RuntimeWarning) as seen:
        import warnings

        warnings.simplefilter("always")
        for _ in range(30):
            x = x * 1.0
            y = x / zero
            x = np.where(np.isfinite(y), y, x)
        npaccel.evaluate(x)
    assert len([w for w in seen if "divide" in str(w.message)]) == 30
    assert {w.filename for w in seen} == {__file__}


def same(found, wanted) -> bool:
    return all(
        np.array_equal(np.asarray(a), np.asarray(b), equal_nan=True)
        for a, b in zip(found, wanted, strict=True)
    )


def check(seed: int, n: int = N) -> None:
    """Values, and warnings with their lines, whether or not something overflows."""
    scope: dict[str, object] = {"np": np}
    exec(compile(random_loop(seed), f"<loop {seed}>", "exec"), scope)
    rng = np.random.default_rng(seed)
    given = [rng.random(n) for _ in range(4)] + [rng.random((6, n))]
    results, told = [], []
    for wrap, plain in ((np.asarray, np.asarray), (npaccel.asarray, _native.view_plain)):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            results.append(scope["run"](*(wrap(x.copy()) for x in given), plain))
            npaccel.evaluate()
        # NumPy tells those of `x.sum()` at a line of its own module.
        lines = [(str(w.message), w.lineno if "reduce" not in str(w.message) else 0) for w in seen]
        told.append(sorted(lines))
    assert same(results[1], results[0]), random_loop(seed)
    assert told[1] == told[0], random_loop(seed)


@pytest.mark.parametrize("tiering", ["eager", "adaptive", "off"])
@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(n, marks=pytest.mark.slow) for n in range(4, 12))]
)
def test_random_loops(seed, tiering, setting) -> None:
    setting("tiering", tiering)
    check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 2100, 100))
def test_more_random_loops(first, setting) -> None:
    for seed in range(first, first + 100):
        setting("tiering", ("eager", "adaptive", "off")[seed % 3])
        check(seed)


def polynomial(x, total, n: int):
    for _ in range(n):
        total = total * x + 0.5
    return total


UNMET: list[object] = []  # loops are told apart by where their code lies: it stays


def unmet():
    """`polynomial`, of lines that have met no other n."""
    UNMET.append(type(polynomial)(polynomial.__code__.replace(), {}))
    return UNMET[-1]


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("n", [40, 60, 201, 1000])
def test_rounds_that_make_one_kernel_run_several_together(n) -> None:
    x = np.random.default_rng(6).random(200_000) - 0.5
    known = unmet()
    for _ in range(4):
        npaccel.stats(reset=True)
        found = npaccel.evaluate(known(npaccel.asarray(x), npaccel.asarray(x) + 1.0, n))
    counts = npaccel.stats()
    assert np.array_equal(found, polynomial(x, x + 1.0, n))
    assert counts["kernel_requests"] == counts["requests"] == 2 * n + 1
    assert counts["kernels"] <= 1 + n // 100 and counts["plan_misses"] == 0


@pytest.mark.usefixtures("eager")
def test_a_loop_that_has_settled_is_one_kernel_again() -> None:
    x = np.random.default_rng(8).random(200_000) - 0.5
    known, kernels = unmet(), []
    for n in [60, 60, 60, 61, *[62] * 7]:
        npaccel.stats(reset=True)
        found = npaccel.evaluate(known(npaccel.asarray(x), npaccel.asarray(x) + 1.0, n))
        kernels.append(npaccel.stats()["kernels"])
        assert np.array_equal(found, polynomial(x, x + 1.0, n))
    assert kernels[2] == kernels[-1] == 1 < min(kernels[0], kernels[3], kernels[4])


@pytest.mark.usefixtures("eager")
def test_their_numbers_make_few_programs() -> None:
    x = np.random.default_rng(7).random(200_000) - 0.5
    for n in range(64, 164):
        found = npaccel.evaluate(polynomial(npaccel.asarray(x), npaccel.asarray(x) + 1.0, n))
        assert np.array_equal(found, polynomial(x, x + 1.0, n))
    assert npaccel.stats()["plan_misses"] <= 24


@pytest.mark.usefixtures("eager")
def test_rounds_with_a_function_of_many_operations_run_alone() -> None:
    x = np.linspace(0.0, 1.0, 200_000)

    def waves(a, n):
        for _ in range(n):
            a = np.cos(a * a + 1.0625) - a * 0.5
        return a

    for n in (40, 57):
        found = npaccel.evaluate(waves(npaccel.asarray(x), n))
        np.testing.assert_allclose(found, waves(x, n), rtol=1e-9)
    npaccel.stats(reset=True)
    found = npaccel.evaluate(waves(npaccel.asarray(x), 101))
    np.testing.assert_allclose(found, waves(x, 101), rtol=1e-9)
    counts = npaccel.stats()
    assert counts["kernels"] >= 101 and counts["compiles"] == 0
