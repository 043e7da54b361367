"""Floating-point warnings and errors: NumPy's text and class, at the user's line, in its scope."""

from __future__ import annotations

import contextlib
import io
import operator
import sys
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npaccel
from npaccel import _native

N = 3000
AROUND_ZERO = np.linspace(-2.0, 2.0, N + 1)  # its middle is 0
HUGE = np.full(N, 1e300)
KINDS = ["ignore", "warn", "raise", "call", "print", "log"]


def reciprocal(x: Any) -> Any:
    return np.where(x != 0, 1 / x, 0)


def logarithm(x: Any) -> Any:
    return np.log(x)


def overflow(x: Any) -> Any:
    y = x * 1e10
    return y


def several(x: Any) -> Any:
    a = np.sqrt(x)
    b = x / 0.0
    return a + b


def to_integer(x: Any) -> Any:
    return (x * np.inf).astype("i4")


def to_single(x: Any) -> Any:
    return x.astype("f4")


def exponential(x: Any) -> Any:
    return np.exp(x * 1000)


def summed(x: Any) -> Any:
    return np.add.reduce(x.reshape(3, -1) * 1e7, axis=1)


def in_place(x: Any) -> Any:
    y = x * 2
    y /= 0.0
    y -= y
    return y


PROGRAMS = [
    (reciprocal, AROUND_ZERO),
    (logarithm, AROUND_ZERO),
    (logarithm, np.zeros(N)),
    (overflow, HUGE),
    (several, AROUND_ZERO),
    (to_integer, AROUND_ZERO),
    (to_single, HUGE),
    (exponential, AROUND_ZERO),
    (summed, HUGE),
    (in_place, AROUND_ZERO),
    (overflow, AROUND_ZERO),  # none
]
NAMES = [f"{program.__name__}-{i}" for i, (program, _) in enumerate(PROGRAMS)]


class Heard:
    """What an errstate of kind call or log told."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def __call__(self, kind: str, flag: int) -> None:
        self.events.append((kind, flag))

    def write(self, text: str) -> None:
        self.events.append(text)


def outcome(run: Callable[[], Any], kind: str) -> tuple[Any, ...]:
    """Values, warnings, exception and calls of `run` under an errstate of one kind."""
    heard, error, values = Heard(), None, None
    call = heard if kind in ("call", "log") else None
    printed = io.StringIO()
    with warnings.catch_warnings(record=True) as seen, contextlib.redirect_stderr(printed):
        warnings.simplefilter("always")
        with np.errstate(all=kind, under="ignore", call=call):
            try:
                values = run()
            except FloatingPointError as raised:
                error = (str(raised), raised.__traceback__.tb_next.tb_next.tb_lineno)
        npaccel.evaluate()
    told = [(str(w.message), w.category, w.filename, w.lineno) for w in seen]
    return values, told, error, heard.events, printed.getvalue()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("program", "data"), PROGRAMS, ids=NAMES)
def test_as_numpy(program: Callable[..., Any], data: Any, kind: str) -> None:
    want = outcome(lambda: program(data), kind)
    npaccel.stats(reset=True)
    have = outcome(lambda: program(npaccel.asarray(data)), kind)
    if kind in ("warn", "ignore") and npaccel.devices().guarded:
        assert npaccel.stats()["requests"] > 0
    assert have[1:] == want[1:]
    if want[0] is not None:
        np.testing.assert_allclose(have[0], want[0], rtol=1e-14)


@pytest.mark.parametrize(("program", "data"), PROGRAMS, ids=NAMES)
def test_dead_results_warn_too(program: Callable[..., Any], data: Any) -> None:
    want = outcome(lambda: program(data), "warn")[1]
    x = npaccel.asarray(data)

    def run() -> None:
        y = program(x)
        del y

    assert outcome(run, "warn")[1] == want
    assert want or program is overflow


@pytest.mark.parametrize(("program", "data"), PROGRAMS[:-1], ids=NAMES[:-1])
def test_warnings_as_errors_raise_at_the_call(program: Callable[..., Any], data: Any) -> None:
    def line(x: Any) -> tuple[str, int]:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(RuntimeWarning) as raised:
                program(x)  # not evaluated
        return str(raised.value), raised.traceback[1].lineno

    assert line(npaccel.asarray(data)) == line(data)


def test_errstate_is_that_of_the_call_not_of_the_evaluation() -> None:
    x = npaccel.asarray(np.zeros(N))
    with np.errstate(divide="ignore"):
        quiet = np.log(x)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        npaccel.evaluate(quiet)
        loud = np.log(x)
        with np.errstate(all="ignore"):
            npaccel.evaluate(loud)
    assert [str(w.message) for w in seen] == ["divide by zero encountered in log"]


def test_once_per_location_as_with_numpy() -> None:
    def count(x: Any) -> int:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("default")
            for _ in range(4):
                npaccel.evaluate(np.log(x))
        return len(seen)

    globals().pop("__warningregistry__", None)
    ours = count(npaccel.asarray(np.zeros(N)))
    globals().pop("__warningregistry__", None)
    assert ours == count(np.zeros(N)) == 1


def test_warning_of_a_raw_read_comes_at_the_next_safe_point() -> None:
    x = npaccel.asarray(np.zeros(1 << 16))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        y = np.log(x)
        raw = _native.view_plain(y)
        assert raw[0] == -np.inf
        npaccel.evaluate()
    assert [(str(w.message), w.filename) for w in seen] == [
        ("divide by zero encountered in log", __file__)
    ]


@pytest.mark.pending
@pytest.mark.parametrize("hook", ["geterr", "runtime_warnings"])
def test_an_interrupt_in_what_the_core_asks_is_not_lost(hook: str) -> None:
    """NumPy's errstate and the filters are asked for in Python, and there Ctrl-C may come."""
    x = npaccel.asarray(np.full(1000, 8.0))
    npaccel.evaluate(x / 2.0)

    def interrupt(frame: types.FrameType, event: str, arg: object) -> None:
        if event == "call" and frame.f_code.co_name == hook:
            sys.setprofile(None)
            raise KeyboardInterrupt

    with np.errstate(divide="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for interrupted in (lambda: x / 2.0, lambda: operator.itruediv(x, 2.0), x.sum):
            before = npaccel.stats()["requests"]
            sys.setprofile(interrupt)
            try:
                with pytest.raises(KeyboardInterrupt):
                    interrupted()
            finally:
                sys.setprofile(None)
            assert npaccel.stats()["requests"] == before
        x /= 2.0  # and nothing is left of the interrupted ones
        assert np.array_equal(x, np.full(1000, 4.0))


@pytest.mark.pending
@pytest.mark.parametrize("dtype", ["i2", "f2", "f4", "f8"])
def test_functions_of_a_few_elements_of_what_is_pending_warn_as_numpys(setting, dtype) -> None:
    setting("threshold", 1 << 18)
    setting("tiering", "off")
    largest = {"i2": 30000, "f2": 6e4, "f4": 3e38, "f8": 1e308}[dtype]
    for fill in (largest, -largest, 0):
        whole = np.full(300_000, fill, dtype)
        for name in ("exp", "exp2", "expm1", "sinh", "cosh", "log", "log1p", "arctanh", "sqrt"):
            heard = []
            for x in (whole, npaccel.asarray(whole)):
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    np.array(getattr(np, name)((x + x.dtype.type(0))[:30:2]))
                heard.append([str(one.message) for one in caught])
            assert heard[0] == heard[1], (name, fill)
