"""Indices out of bounds and integers divided by 0: told as NumPy does on each backend, or not."""

import numpy as np
import pytest

import npaccel

pytestmark = pytest.mark.pending
N = 1 << 14


@pytest.fixture(params=["llvm", "opencl"])
def backend(request, deferred, setting):
    setting("tiering", "eager")
    if request.param == "opencl":
        request.getfixturevalue("opencl")
    with npaccel.backend(request.param):
        yield request.param


def test_an_index_out_of_bounds_raises_at_the_call(backend):
    x = npaccel.asarray(np.arange(float(N)))
    index = npaccel.asarray(np.arange(N)) + 1
    with pytest.raises(IndexError, match=f"index {N} is out of bounds"):
        x[index]
    with pytest.raises(IndexError, match="is out of bounds for axis 0"):
        x[-index - 1]


def test_integers_divided_by_zero_warn_at_the_line(backend):
    x = npaccel.asarray(np.arange(N))
    with pytest.warns(RuntimeWarning, match="divide by zero") as seen:
        y = npaccel.evaluate(7 // x)
    assert [w.filename for w in seen] == [__file__] and y[1] == 7 and y[0] == 0
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        npaccel.evaluate(7 // x)


def test_off(backend, setting):
    setting("boundscheck", "off")
    source = np.arange(float(N))
    x, step = npaccel.asarray(source), npaccel.asarray(np.arange(N))
    y = x[step - 5] * 2.0
    assert npaccel.explain(y).pending, "nothing was looked through"
    np.testing.assert_array_equal(np.asarray(y), source[np.arange(N) - 5] * 2.0)
    z = npaccel.evaluate(x[step + 1])
    np.testing.assert_array_equal(np.asarray(z)[:-1], source[1:])
    assert z[-1] == source[0]
    w = npaccel.evaluate(7 // step)  # warnings are errors here
    assert w[0] == 0 and w[7] == 1
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        npaccel.evaluate(7.0 / step)


def _pick(x, index):
    return x[index + 1] * 2.0


def test_off_in_a_section(backend):
    x, step = npaccel.asarray(np.arange(float(N))), npaccel.asarray(np.arange(N))
    expected = np.append(np.arange(1.0, N), 0.0) * 2.0
    section = npaccel.macro(_pick, boundscheck="off")
    for _ in range(2):
        np.testing.assert_array_equal(np.asarray(section(x, step)), expected)
    with pytest.raises(IndexError, match=f"index {N} is out of bounds"):
        npaccel.macro(_pick)(x, step)
    with npaccel.macro("unchecked", boundscheck="off"):
        y = 7 // step  # warnings are errors here
        z = x[step + 1] * 2.0
    assert y[0] == 0 and y[7] == 1
    np.testing.assert_array_equal(np.asarray(z), expected)
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        npaccel.evaluate(7 // step)


def test_a_section_that_was_recorded_without_checks_is_recorded_again(deferred, setting):
    setting("tiering", "eager")
    x, step = npaccel.asarray(np.arange(float(N))), npaccel.asarray(np.arange(N))
    section = npaccel.macro(_pick)
    outer = npaccel.macro(section, boundscheck="off")
    with npaccel.macro("unchecked", boundscheck="off"):
        section(x, step)
    setting("boundscheck", "off")
    section(x, step)
    setting("boundscheck", "on")
    for _ in range(2):
        with pytest.raises(IndexError):
            section(x, step)
        assert outer(x, step)[-1] == 0.0
    inner = npaccel.macro(_pick, boundscheck="on")
    with npaccel.macro("unchecked", boundscheck="off"), pytest.raises(IndexError):
        inner(x, step)
    with pytest.raises(npaccel.errors.ConfigError, match="'on', 'off'"):
        npaccel.macro(_pick, boundscheck="no")
