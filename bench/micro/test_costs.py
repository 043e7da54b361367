"""What npaccel itself costs around the loops, by pytest-benchmark: `make micro` runs this.

Arrays are small, or nothing of them is computed, so that what is timed is npaccel's own work. Each
of the five has its own way through the core: an operation becomes a request (record), a request
in a macro block is found in a recording (follow), pending requests become a run of a known program
(flush), a macro function runs again without its body (replay), and a program runs one more kernel
(launch). A baseline is of one machine; see bench/README.md.
"""

import numpy as np
import pytest

import npaccel

OPERATIONS = 50  # of a chain, and kernels of a program
SMALL = 1000  # elements
ROUNDS = 2000


@pytest.fixture(autouse=True)
def settings():
    """Kernels before the first run, and every array is recorded."""
    before = {name: getattr(npaccel.config, name) for name in ("tiering", "threshold")}
    npaccel.config.tiering, npaccel.config.threshold = "eager", 0
    yield
    npaccel.evaluate()
    for name, value in before.items():
        setattr(npaccel.config, name, value)


def integers(size):
    """Sums of integers can't warn, so what nobody sees of them is not computed."""
    return npaccel.asarray(np.ones(size, int))


def chain(x, y):
    for _ in range(OPERATIONS):
        y = y + x
    return y


def compiled():
    return npaccel.stats()["compiles"]


def test_record(benchmark):
    """A chain of 50 operations is recorded, and dropped before anything of it is computed."""
    x, y = integers(1 << 20), integers(1 << 20)

    def call():
        chain(x, y)

    before = npaccel.stats()
    benchmark.pedantic(call, setup=npaccel.evaluate, rounds=ROUNDS, warmup_rounds=50)
    after = npaccel.stats()
    assert after["requests"] - before["requests"] >= ROUNDS * OPERATIONS
    assert all(after[name] == before[name] for name in ("kernel_requests", "native_requests"))


def test_follow(benchmark):
    """A macro block of 50 operations: each is found in the recording of the block."""
    x, y = integers(SMALL), integers(SMALL)

    def block():
        with npaccel.macro("follow", x, y):
            return chain(x, y)

    for _ in range(10):
        block()
    before = npaccel.macro.stats()["follow"]["matched"]
    benchmark.pedantic(block, rounds=ROUNDS, warmup_rounds=50)
    assert npaccel.macro.stats()["follow"]["matched"] - before >= ROUNDS


def test_flush(benchmark):
    """Five operations become one run of a program that is known."""
    x, y = integers(SMALL), integers(SMALL)

    def call():
        return npaccel.evaluate((x * y + x) * 3 - y - x)

    for _ in range(10):
        call()
    before = compiled()
    benchmark.pedantic(call, rounds=ROUNDS, warmup_rounds=50)
    assert compiled() == before


def test_replay(benchmark):
    """A macro function of five operations runs again without its body."""
    x, y = np.random.default_rng(1).random((2, SMALL))
    section = npaccel.macro(lambda a, b: (a * b + 0.1) * a - b)
    for _ in range(10):
        section(x, y)
    before = compiled()
    benchmark.pedantic(section, (x, y), rounds=ROUNDS, warmup_rounds=50)
    assert compiled() == before


def test_launch(benchmark):
    """One evaluation of 50 kernels: no two operations have one index space."""
    arrays = [integers(SMALL + k) for k in range(OPERATIONS)]

    def call():
        return npaccel.evaluate(*[x + 1 for x in arrays])

    for _ in range(10):
        call()
    before = npaccel.stats()["kernels"]
    benchmark.pedantic(call, rounds=ROUNDS, warmup_rounds=50)
    assert npaccel.stats()["kernels"] - before >= ROUNDS * OPERATIONS
