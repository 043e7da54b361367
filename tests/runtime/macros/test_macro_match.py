"""Blocks that come again: their requests are matched against those of earlier times."""

from __future__ import annotations

import random
import threading
import weakref

import numpy as np
import pytest

import npaccel
from npaccel import _native

pytestmark = pytest.mark.usefixtures("deferred")


@pytest.fixture(autouse=True)
def matching(setting):
    """Nothing else is deferred, nothing is compiled but where asked for, and all matched keys are
    checked."""
    setting("threshold", 1 << 18)
    setting("tiering", "off")
    npaccel.macro.clear()
    before = _native.verify_matches(True)
    yield
    assert _native.verify_matches(False) == before


def rand(n, seed=0):
    return np.random.default_rng(seed).random(n)


def own(n, seed=0):
    """An array in memory of npaccel's own."""
    with npaccel.macro("own"):
        return npaccel.asarray(rand(n, seed)) + 0.0


def matched(name):
    return npaccel.macro.stats()[name]["matched"]


@pytest.fixture
def compiled(setting):
    setting("tiering", "eager")


def chain(x, y, f):
    for _ in range(10):
        x = (x * y + f) * 0.5 - x
    return x


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("make", [own, lambda *a: npaccel.asarray(rand(*a))], ids=["own", "plain"])
def test_all_but_the_first_request_are_matched(make):
    x, y = make(1000), make(1000, 1)
    for i in range(4):
        with npaccel.macro("chain", x, y):
            z = chain(x, y, 0.1 + i)
        assert np.allclose(z, chain(rand(1000), rand(1000, 1), 0.1 + i), rtol=1e-14)
    assert matched("chain") == 3 * 39
    assert npaccel.macro.stats()["chain"]["replays"] == 3


@pytest.mark.usefixtures("compiled")
def test_the_plan_is_found_without_planning():
    x = own(50)
    for i in range(5):
        if i == 2:
            npaccel.stats(reset=True)
        with npaccel.macro("found", x):
            y = np.sqrt(x * 2) + x
    assert np.array_equal(y, np.sqrt(rand(50) * 2) + rand(50))
    assert npaccel.stats()["plan_misses"] == 0 and npaccel.stats()["plan_hits"] == 3


@pytest.mark.usefixtures("compiled")
def test_a_loop_on_its_own_results():
    u, v = npaccel.asarray(rand(100)), npaccel.asarray(rand(100, 1))
    e, f = rand(100), rand(100, 1)
    for _ in range(10):
        with npaccel.macro("loop", u, v):
            u, v = u * 0.5 + v, np.sqrt(abs(v)) - u * 0.1
        e, f = e * 0.5 + f, np.sqrt(abs(f)) - e * 0.1
    assert np.array_equal(u, e) and np.array_equal(v, f)
    assert matched("loop") >= 8 * 5


# Each body differs from time to time in one thing that a match must notice.
def _extent(i, x):
    return (x[: 3 + i] * 2) + 1


def _offset(i, x):
    return (x * 1.5)[i:8] + 1


def _stride(i, x):
    return (x * 1.5)[:: 1 + i] + 1


def _operation(i, x):
    y = x * 3
    return np.maximum(y, 1) if i % 2 else np.minimum(y, 1)


def _operand(i, x):
    y, z = x * 3, x + 1
    return (y if i % 2 else z) - 0.5


def _order(i, x):
    y, z = x * 3, x + 1
    return y - z if i % 2 else z - y


def _value(i, x):
    return ((x + 1) / (2.0, 3.0, 4.0, 0.5)[i]) ** (2, 1, 2, -1)[i]


def _type(i, x):
    return (x * 3) + (1, 1.0, np.float32(1), True)[i]


def _shape(i, x):
    y, one = x * 2, (x[:1] * 2)
    return y + one if i % 2 else one + np.broadcast_to(one, (len(x),)) if i else one + one


def _axes(i, x):
    y = x.reshape(2, -1) * 2
    return (y + 1) + (y if i % 2 else y[0])


def _target(i, x):
    y, z = x * 2, x * 3
    out = y if i % 2 else z
    out += 1
    return y - z


def _overlap(i, x):
    y = x * 2
    y[1:] = y[:-1] if i % 2 else y[1:]
    return y + 1


def _layout(i, x):
    y = (x.reshape(2, -1) * 2).T
    return np.add(y, y, order="CFKA"[i]) * 2


def _error_state(i, x):
    y = x * 0
    with np.errstate(all="ignore" if i % 2 else "warn"):
        return (y + 1) / (y + 3)


def _source(i, x):
    return (x * 2) + np.arange(10.0 + i)[i:]


VARIED = [_extent, _offset, _stride, _operation, _operand, _order, _value, _type, _shape, _axes,
          _target, _overlap, _layout, _error_state, _source]  # fmt: skip


@pytest.mark.parametrize("body", VARIED, ids=lambda body: body.__name__)
def test_what_differs_is_noticed(body):
    x = own(10)
    for i in (0, 0, 1, 0, 1, 2, 3, 3, 1, 2, 0):
        with npaccel.macro("varied", x):
            y = body(i, x)
        wanted = body(i, rand(10))
        assert y.dtype == wanted.dtype and y.strides == wanted.strides
        assert np.array_equal(y, wanted), i
    assert matched("varied") > 0


@pytest.mark.usefixtures("compiled")
def test_a_result_that_somebody_has_is_never_used_again():
    x, kept, refs = own(20), [], []
    for i in range(6):
        with npaccel.macro("kept", x):
            a = x + i
            b = a * 2
            c = b - 1
        if i % 2:
            kept.append((i, a, b[3:]))
        else:
            refs.append(weakref.ref(b))
        del a, b
        assert np.array_equal(c, (rand(20) + i) * 2 - 1)
    for i, a, tail in kept:
        assert np.array_equal(a, rand(20) + i) and np.array_equal(tail, ((rand(20) + i) * 2)[3:])
    assert all(ref() is None for ref in refs)


def test_a_weak_reference_keeps_its_array_apart():
    x = own(20)
    for i in range(4):
        with npaccel.macro("weak", x):
            a = x + i
            b = a * 2
            ref = weakref.ref(b)
            c = b - 1
            del b
        found = ref()
        assert found is None or np.array_equal(found, (rand(20) + i) * 2)
        assert np.array_equal(c, (rand(20) + i) * 2 - 1)


@pytest.mark.filterwarnings("ignore:Setting the shape:DeprecationWarning")  # from NumPy 2.5 on
def test_a_header_that_was_changed_is_not_used_again():
    x = own(12)
    for i in range(5):
        with npaccel.macro("header", x):
            a = x + i
            b = a * 2
            if i == 2:
                b.shape = 3, 4
            c = b - 1
        assert c.shape == ((3, 4) if i == 2 else (12,))
        assert np.array_equal(c.ravel(), (rand(12) + i) * 2 - 1)


@pytest.mark.usefixtures("compiled")
def test_results_are_not_kept_in_memory():
    x = own(5000)
    for _ in range(4):
        with npaccel.macro("memory", x):
            y = (x + 1) * 2 - 1
        ref = weakref.ref(y)
        del y
        assert ref() is None


def test_writes_between_two_reads_of_a_small_array():
    for make in (own, lambda n: npaccel.asarray(rand(n))):
        for _ in range(3):
            x = make(30)
            plain = x.view(np.ndarray)
            with npaccel.macro("written", x):
                y = x * 2
                plain[:] = 7.0  # not through us
                z = x * 2
                x += 1
            assert np.array_equal(y, rand(30) * 2) and np.array_equal(z, np.full(30, 14.0))
            assert np.array_equal(x, np.full(30, 8.0))


def test_a_touch_in_the_middle():
    x = own(100)
    for i in range(6):
        with npaccel.macro("touch", x):
            y = (x + 1) * 2
            if i % 3 == 2:
                assert y.view(np.ndarray)[5] == (rand(100)[5] + 1) * 2
            z = (y - 3) * x
        assert np.array_equal(z, ((rand(100) + 1) * 2 - 3) * rand(100))


def test_an_exception_in_the_middle():
    x = own(100)
    for i in range(6):
        try:
            with npaccel.macro("raises", x):
                y = (x + 1) * 2
                if i % 3 == 2:
                    raise KeyError
                z = (y - 3) * x
        except KeyError:
            z = (y - 3) * x
        assert np.array_equal(z, ((rand(100) + 1) * 2 - 3) * rand(100))


def test_other_threads_record_and_match_meanwhile():
    x, wrong = own(200), []

    def work(seed):
        mine = npaccel.asarray(rand(200, seed))
        for i in range(60):
            with npaccel.macro("threads", mine):
                y = chain(mine, mine + i, 0.5)
            if not np.allclose(y, chain(rand(200, seed), rand(200, seed) + i, 0.5), rtol=1e-13):
                wrong.append((seed, i))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for i in range(60):
        with npaccel.macro("threads", x):
            y = chain(x, x + i, 0.5)
        assert np.allclose(y, chain(rand(200), rand(200) + i, 0.5), rtol=1e-13)
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.room
def test_another_thread_runs_what_a_block_has_recorded():
    """The block goes on with fewer requests than it had before, which are counted anew."""
    x = own(8)
    for _ in range(4):
        with npaccel.macro("run by another", x):
            results = [x + i for i in range(3000)]
            other = threading.Thread(target=npaccel.evaluate)
            other.start()
            other.join()
            y = results[-1] * 2 - 1
        del results
        assert np.array_equal(y, (rand(8) + 2999) * 2 - 1)
    npaccel.macro.clear()


def test_another_thread_records_in_between():
    x, found = own(8), []
    for i in range(6):
        with npaccel.macro("recorded in between", x):
            y = (x + i) * 2
            other = threading.Thread(target=lambda: found.append(x - 1))
            other.start()
            other.join()
            z = (y - 3) * x
        assert np.array_equal(z, ((rand(8) + i) * 2 - 3) * rand(8))
        assert np.array_equal(found[i], rand(8) - 1)


def test_what_dies_when_a_block_is_left_may_enter_another():
    x, seen = own(8), []

    def again(reference):
        with npaccel.macro("in a callback", x):
            seen.append(np.asarray((x + 1) * 2 - x))

    for i in range(4):
        with npaccel.macro("leaves", x):
            a = x + i
            kept = weakref.ref(a, again)
            b = (a * 2 - 1) * a
            del a
        assert kept() is None
        assert np.array_equal(b, ((rand(8) + i) * 2 - 1) * (rand(8) + i))
    assert len(seen) == 4 and all(np.array_equal(s, (rand(8) + 1) * 2 - rand(8)) for s in seen)


def test_recordings_are_bounded(setting):
    setting("macro_cache", 4)
    x = own(10)
    for i in range(40):
        with npaccel.macro("many", x, control=i):
            y = x * 2 + 1
        with npaccel.macro("paths", x):
            for _ in range(i):
                y = y * 0.5
    assert npaccel.macro.stats()["many"]["variants"] <= 4
    setting("macro_cache", 256)
    for i in range(40):
        with npaccel.macro("paths", x):
            for _ in range(i):
                y = y * 0.5
    assert npaccel.macro.stats()["paths"]["variants"] <= 16
    assert np.array_equal(x, rand(10))


def test_clearing_inside_a_block():
    x = own(10)
    for i in range(4):
        with npaccel.macro("cleared", x):
            y = x * 2
            if i == 2:
                npaccel.macro.clear()
            z = (y + 1) * 3
        assert np.array_equal(z, (rand(10) * 2 + 1) * 3)


def test_check_mode_matches_nothing(setting):
    setting("check", "compute")
    x = own(10)
    for _ in range(3):
        with npaccel.macro("checked", x):
            y = x * 2 + 1
        assert np.array_equal(y, rand(10) * 2 + 1)
    assert matched("checked") == 0


def _random_body(seed, values, number):
    choose, values, results = random.Random(seed), list(values), []
    for _ in range(choose.randint(1, 12)):
        a, b, kind = choose.choice(values), choose.choice(values), choose.randrange(12)
        if kind == 0:
            a += 0.125
            c = a
        elif kind == 1:
            a[1:] *= 0.5
            c = a
        elif kind == 2:
            a[:-1] = b[1:]
            c = a
        elif kind == 3:
            c = np.multiply(a, 0.75, out=b)
        elif kind == 4:
            c = a.sum(keepdims=True) * 0.01 + b
        elif kind == 5:
            c = np.where(a > b, a, b)
        elif kind == 6:
            c = a[::-1] + b
        elif kind == 7:
            c = np.sqrt(abs(a)) / choose.choice([2.0, 3.0, number])
        elif kind == 8:
            c = a**2
        else:
            c = choose.choice([np.add, np.subtract, np.maximum])(a, b)
        if choose.random() < 0.3:
            results.append(c)
        values = [*values, c][-6:]
    return [*results, values[-1]]


def test_random_bodies_again_and_again():
    choose = random.Random(5)
    for trial in range(120):
        seed, n = choose.randrange(10), choose.choice([5, 40, 3000])
        plain = [rand(n, trial + k) for k in range(3)]
        arrays = [npaccel.asarray(a.copy()) if choose.random() < 0.5 else own(n, trial + k)
                  for k, a in enumerate(plain)]  # fmt: skip
        number = choose.random() + 0.5
        wanted = _random_body(seed, plain, number)
        with npaccel.macro(f"random {seed} {n}", *arrays):
            found = _random_body(seed, arrays, number)
        for a, b in zip([*found, *arrays], [*wanted, *plain], strict=True):
            assert a.strides == b.strides and np.allclose(a, b, rtol=1e-12, atol=0)
    blocks = (stats for name, stats in npaccel.macro.stats().items() if name.startswith("random "))
    assert sum(stats["matched"] for stats in blocks) > 300
