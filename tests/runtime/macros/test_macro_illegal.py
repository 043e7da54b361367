"""What a macro section may not do, and what runs without being recorded; warnings."""

from __future__ import annotations

import gc
import math
import warnings
from contextlib import nullcontext

import numpy as np
import pytest
from sections import plain_sizes, rand, same

import npaccel
from npaccel import _native
from npaccel.errors import ConfigError, NpaccelWarning, SectionError

__all__ = ["plain_sizes"]

pytestmark = pytest.mark.usefixtures("deferred")


# --------------------------------------------------------------------------------- what is illegal

READS = {
    "float": lambda x: float(x.sum()),
    "int": lambda x: int(x.sum()),
    "if": lambda x: 1 if x.sum() > 0 else 2,
    "item": lambda x: x[0].item(),
    "tolist": lambda x: x.tolist(),
    "str": lambda x: f"{x}",
    "iteration": lambda x: [*x],
    "buffer": lambda x: bytes(memoryview(x)),
    "raw": lambda x: np.asarray(x)[0] + 1,
    "index": lambda x: range(9)[x.argmax()],
    "evaluate": lambda x: npaccel.evaluate(x * 2),
}


@pytest.mark.parametrize("name", READS)
def test_reading_a_value_is_illegal(name):
    read = READS[name]

    @npaccel.macro
    def step(x):
        y = x * 2
        return read(y) and y

    before = npaccel.asarray(rand(100_000)) * 2
    with pytest.raises(SectionError) as caught:
        step(rand(5))
    text = str(caught.value)
    assert f"{__file__}:{step.__wrapped__.__code__.co_firstlineno}" in text
    assert f"at {__file__}:{read.__code__.co_firstlineno}" in text
    assert np.array_equal(np.asarray(before), rand(100_000) * 2)  # nothing pending is lost
    same(npaccel.macro(lambda x: x + 1)(rand(3)), rand(3) + 1)


@pytest.mark.parametrize("name", READS)
def test_on_illegal_warn_runs_the_body(name):
    read = READS[name]

    def body(x):
        y = x * 2
        read(y)
        return y

    step = npaccel.macro(on_illegal="warn")(body)
    with pytest.warns(NpaccelWarning, match="runs without recording"):
        same(step(rand(5)), rand(5) * 2)
    same(step(rand(5, seed=1)), rand(5, seed=1) * 2)  # no second warning
    assert step.stats()["bodies"] == 2


def test_recursion_is_illegal():
    @npaccel.macro
    def step(x, n):
        return step(x * 2, n - 1) if n else x

    with pytest.raises(SectionError, match=r"enters .*step.* again"):
        step(rand(3), 2)


def test_a_write_to_another_array_is_illegal():
    log = np.zeros(3)

    @npaccel.macro
    def step(x):
        np.add(x, 1, out=log)
        return x

    with pytest.raises(SectionError, match="neither an argument nor"):
        step(rand(3))
    assert not log.any()


LOG = np.zeros(5)

WRITES = {
    "all of it": "LOG[:] = y",
    "an element": "LOG[3] = y[3]",
    "a part": "LOG[1:][...] = y[:-1]",
    "a list": "LOG[:2] = [y[0], 2.0]",
    "added": "global LOG; LOG += y",
    "in place": "np.multiply(LOG, y, out=LOG)",
    "a copy": "np.copyto(LOG, y)",
}


@pytest.mark.parametrize("block", [False, True])
def test_a_write_to_a_global_array_is_told_as_one_with_its_line(block):
    @npaccel.macro
    def step(u):
        y = u + 1
        LOG[:] = y * 2
        return y

    line = step.__wrapped__.__code__.co_firstlineno + 3
    told = rf"writes to an array that is neither .* at {__file__}:{line};"
    with npaccel.accelerate() if block else nullcontext():
        for _ in range(2):
            with pytest.raises(SectionError, match=told):
                step(rand(5))
    assert not LOG.any()


@pytest.mark.parametrize("name", WRITES)
def test_writes_to_a_global_array_are_illegal(name):
    names = {"np": np, "LOG": np.zeros(5)}
    text = f"def step(u):\n    y = u + 1\n    {WRITES[name]}\n    return y\n"
    exec(compile(text, "body.py", "exec"), names)
    step = npaccel.macro(names["step"])
    with pytest.raises(SectionError, match=r"writes to an array that is neither .* at body.py:3;"):
        step(rand(5))
    assert not names["LOG"].any()


def test_on_illegal_warn_writes_the_global_array():
    @npaccel.macro(on_illegal="warn")
    def step(u):
        LOG[:] = u * 2
        return u + 1

    try:
        with pytest.warns(NpaccelWarning, match="writes to an array"):
            same(step(rand(5)), rand(5) + 1)
        same(LOG, rand(5) * 2)
    finally:
        LOG[:] = 0


def test_subscripts_of_plain_arrays_are_numpys_after_a_section():
    slots = _native.redirected()

    @npaccel.macro
    def step(u):
        return u + 1

    step(rand(5))
    with pytest.raises(SectionError):
        npaccel.macro(lambda u: float(u[0]))(rand(5))
    assert _native.redirected() == slots


def test_a_raw_write_to_an_array_that_was_read_is_illegal():
    log = np.zeros(3)

    @npaccel.macro
    def step(x):
        y = x + log
        log[0] = 5
        return y

    with pytest.raises(SectionError, match="neither an argument nor"):
        step(rand(3))


def test_an_array_kept_outside_is_illegal(monkeypatch):
    monkeypatch.setattr(math, "kept", None, raising=False)

    @npaccel.macro
    def step(x):
        y = x * 2
        math.kept = y
        return y + 1

    with pytest.raises(SectionError, match="keeps an array outside"):
        step(rand(3))
    with pytest.raises(RuntimeError, match="has no values"):
        float(math.kept.sum())
    math.kept = None
    gc.collect()


def test_a_body_that_changes_a_list_runs():
    kept = []

    @npaccel.macro
    def step(x):
        y = x * 2
        kept.append(y)
        return y + 1

    for i in range(3):
        same(step(rand(3, seed=i)), rand(3, seed=i) * 2 + 1)
    same(kept, [rand(3, seed=i) * 2 for i in range(3)])
    assert step.stats()["reasons"] == ["it changes 'kept'"]


def test_the_decorator_rejects():
    with pytest.raises(ConfigError, match="'raise' or 'warn'"):
        npaccel.macro(on_illegal="ignore")
    with pytest.raises(ConfigError, match="function"):
        npaccel.macro(3)
    with pytest.raises(ConfigError, match="generator"):

        @npaccel.macro
        def body(x):
            yield x


# ------------------------------------------------------------------- what runs without recording

UNRECORDED = {
    "matrix product": (lambda x: x.reshape(2, 3) @ x.reshape(3, 2), rand(6)),
    "sorting": (lambda x: np.sort(x) * 2, rand(6)),
    "an index array": (lambda x: x[np.argsort(x)] + x[np.array([1, 0, 2, 3, 4, 5])], rand(6)),
    "an array of NumPy's written": (lambda x: np.add(np.zeros(3), x, out=np.ones(3)), rand(3)),
    "an object array": (lambda x: x * 2, np.array([1, 2.5, 3], object)),
    "a subclass": (lambda x: x * 2, np.ma.masked_array([1.0, 2.0], [True, False])),
    "another byte order": (lambda x: x * 2, np.arange(4).astype(">f8")),
    "a result of another class": (lambda x: slice(0, 3), rand(3)),
    "a list without hash": (lambda s: len(s) * 2, {1, 2}),
}


@pytest.mark.parametrize("name", UNRECORDED)
def test_what_cannot_be_recorded_runs(name):
    body, argument = UNRECORDED[name]
    section = npaccel.macro(body)
    for _ in range(2):
        np.testing.assert_array_equal(section(argument), body(argument))
    stats = section.stats()
    assert stats["bodies"] == 2 and stats["reasons"] and not stats["recordings"]


def test_errors_of_numpy_are_numpys():
    @npaccel.macro
    def step(x, y):
        return x + y

    for _ in range(2):
        with pytest.raises(ValueError, match="could not be broadcast"):
            step(rand(3), rand(4))
    same(step(rand(3), rand(3)), rand(3) * 2)


def test_an_exception_of_the_body():
    @npaccel.macro
    def step(x, n):
        x += 1
        y = x * 2
        if n > 2:
            raise KeyError("mine")
        return y

    x = rand(5)
    with pytest.raises(KeyError, match="mine"):
        step(x, 3)
    assert np.array_equal(x, rand(5) + 1)  # as NumPy would have left it
    same(step(x, 1), (rand(5) + 2) * 2)


def test_generators_advance():
    rng = np.random.default_rng(3)

    @npaccel.macro
    def by_closure(x):
        return x + rng.random(4)

    @npaccel.macro
    def by_module(x):
        return x + np.random.random(4)

    np.random.seed(5)
    twin, first = np.random.default_rng(3), np.random.RandomState(5)
    for _ in range(3):
        same(by_closure(np.zeros(4)), twin.random(4))
        same(by_module(np.zeros(4)), first.random(4))
    for section in (by_closure, by_module):
        assert section.stats()["reasons"] == ["it draws random numbers"]


def test_a_section_whose_recordings_are_never_used_gives_up():
    @npaccel.macro
    def step(x, n):
        return x * n

    for n in range(100):
        same(step(rand(3), n), rand(3) * n)
    assert step.stats()["recordings"] < 30
    assert "its recordings are never used again" in step.stats()["reasons"]


# -------------------------------------------------------------------------------------- warnings


def test_warnings_name_the_line_in_the_body():
    @npaccel.macro
    def step(x):
        y = x + 1
        return 1 / y

    line = step.__wrapped__.__code__.co_firstlineno + 3
    for _ in range(2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert np.isinf(step(np.array([-1.0, 1.0]))[0])
        assert [(w.filename, w.lineno, str(w.message)) for w in caught] == [
            (__file__, line, "divide by zero encountered in divide")
        ]


def test_warnings_as_errors_are_raised_in_the_body():
    @npaccel.macro
    def step(x):
        return 1 / x

    same(step(np.ones(2)), np.ones(2))
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(RuntimeWarning, match="divide by zero") as caught:
                step(np.zeros(2))
        assert caught.traceback[-1].name == "step"


def test_errstate_is_part_of_the_signature():
    @npaccel.macro
    def step(x):
        return 1 / x

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with np.errstate(all="ignore"):
            assert np.isinf(step(np.zeros(2))).all()
            assert np.isinf(step(np.zeros(2))).all()
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        step(np.zeros(2))
    with np.errstate(all="ignore"):
        assert np.isinf(step(np.zeros(2))).all()


def test_errstate_inside():
    @npaccel.macro
    def step(x):
        with np.errstate(divide="ignore"):
            return 1 / x

    for _ in range(2):
        assert np.isinf(step(np.zeros(2))).all()
