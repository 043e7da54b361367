"""Ufuncs of scipy.special: SciPy's results, dtypes, shapes and silence, computed by us."""

from __future__ import annotations

import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest
from scipy import special

import npaccel
from npaccel import _native
from npaccel.dispatch.fallback import FALLBACKS
from npaccel.dispatch.special import LOOPS, SPECIAL
from npaccel.ir.names import SCIPYS

N = 40_000
NAMES = sorted(SCIPYS | LOOPS)
pytestmark = pytest.mark.usefixtures("usual_threshold")


@pytest.fixture
def usual_threshold():
    before = npaccel.config.threshold
    npaccel.config.threshold = 1 << 16
    yield
    npaccel.evaluate()
    npaccel.config.threshold = before


def operands(name: str, dtype: str = "f8", n: int = N) -> list[np.ndarray]:
    rng = np.random.default_rng(len(name))
    x = rng.uniform(0.01, 0.99, n).astype(dtype)
    return [x, rng.uniform(0.1, 5, n).astype(dtype)][: getattr(special, name).nin]


def close(name: str, got: Any, want: Any) -> None:
    assert np.asarray(got).dtype == np.asarray(want).dtype
    if name in LOOPS:
        np.testing.assert_array_equal(got, want)
    else:
        np.testing.assert_allclose(got, want, 3e-7 if want.itemsize == 4 else 3e-15)


def reasons() -> list[str]:
    return [reason for _, reason, _ in FALLBACKS.counts()]


@pytest.mark.one_in(2)
@pytest.mark.pending
@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("name", NAMES)
def test_values_and_dtypes(name: str, dtype: str) -> None:
    function, plain = getattr(special, name), operands(name, dtype)
    want = function(*plain)
    wrapped = [npaccel.asarray(x) for x in plain]
    result = function(*wrapped)
    assert type(result) is npaccel.Array
    close(name, result, want)
    with npaccel.accelerate:
        inside = function(*plain)
    assert type(inside) is npaccel.Array
    close(name, inside, want)
    np.testing.assert_array_equal(inside, result)


@pytest.mark.pending
@pytest.mark.parametrize("name", NAMES)
def test_what_waits(name: str) -> None:
    """What has a kernel waits, and is fused; else SciPy's loop has run."""
    wrapped = [npaccel.asarray(x) * 1.0 for x in operands(name)]
    assert all(map(_native.is_pending, wrapped))
    result = getattr(special, name)(*wrapped)
    assert _native.is_pending(result) == (name in SCIPYS)
    if name in SCIPYS and npaccel.config.backend == "auto" and npaccel.config.tiering == "eager":
        npaccel.evaluate(result + 1.0)
        assert npaccel.explain(result).steps[0].backend == "llvm"


@pytest.mark.parametrize("tiering", ["off", "eager"])
@pytest.mark.parametrize("name", sorted(SCIPYS))
def test_the_same_bits_in_each_tier(name: str, tiering: str) -> None:
    before = npaccel.config.tiering
    want = plain = None
    try:
        for npaccel.config.tiering in ("eager", tiering):
            plain = operands(name, n=N + 7)
            got = np.array(getattr(special, name)(*map(npaccel.asarray, plain)) * 1.0)
            want = got if want is None else want
            np.testing.assert_array_equal(got, want)
    finally:
        npaccel.config.tiering = before


def forms(x: Any) -> list[Any]:
    return [
        lambda: special.erf(x[::3]),
        lambda: special.erf(x.reshape(4, -1).T),
        lambda: special.xlogy(x.reshape(40, -1), x[:1000]),
        lambda: special.xlogy(2, x),
        lambda: special.xlogy(x, np.float32(2)),
        lambda: special.erf(x.astype("f2")),
        lambda: special.erfc(np.arange(N) - N // 2),
        lambda: special.erf(x, out=np.empty(N)),
        lambda: special.erf(x.astype("f4"), dtype="f8"),
        lambda: special.gammaln(x[::-1]),
        lambda: special.j0(x, out=np.empty(N)),
        lambda: special.ndtri(x.reshape(4, -1)).sum(axis=0),
        lambda: special.erf(x).sum(),
        lambda: special.erf(x[:10]),
        lambda: special.erf(x[3]),
        lambda: special.erf(x + 1j),
        lambda: special.xlogy.outer(x[:300], x[:200]),
        lambda: special.erf([1.0, 2.0]),
    ]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("which", range(len(forms(np.ones(N)))))
def test_forms_of_calls(which: int) -> None:
    x = operands("erf")[0]
    want = forms(x)[which]()
    for got in (forms(npaccel.asarray(x))[which](), npaccel.accelerate(forms(x)[which])()):
        assert np.asarray(got).dtype == want.dtype and np.shape(got) == want.shape
        np.testing.assert_allclose(got, want, 1e-6 if want.itemsize == 4 else 1e-13, 1e-300)
        if isinstance(want, np.ndarray):
            assert got.strides == want.strides or got.size < want.size


@pytest.mark.pending
@pytest.mark.parametrize("name", ["erf", "gammaln"])
def test_where(name: str) -> None:
    """Not compared with SciPy's own: its loops move the addresses that NumPy gives them, and with
    a mask SciPy 1.17 crashes."""
    x, out = operands(name)[0], np.zeros(N)
    mask, function = x > 0.3, getattr(special, name)
    assert function(npaccel.asarray(x), out=out, where=mask) is out
    want = np.where(mask, function(x), 0)
    np.testing.assert_allclose(out, want, 1e-14)


@pytest.mark.parametrize("name", NAMES)
def test_silence(name: str) -> None:
    """SciPy tells NumPy of nothing, whatever the values and the error state."""
    odd = np.array([0.0, -1.0, np.inf, -np.inf, np.nan, 1e300, -1e300, 5e-324, 2.0, -0.0, 1.0, 40])
    x = np.resize(odd, N)
    arrays = [x, np.repeat(x, 11)[:N]][: getattr(special, name).nin]
    want = getattr(special, name)(*arrays)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for state in ("warn", "ignore"):
            with np.errstate(all=state, under="ignore"):
                got = getattr(special, name)(*map(npaccel.asarray, arrays))
                npaccel.evaluate(got)
            np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
            np.testing.assert_array_equal(np.isposinf(got), np.isposinf(want))


def test_scipys_error_state_is_heard() -> None:
    x = np.zeros(N)
    wrapped = npaccel.asarray(x)
    for function in (special.gammaln, special.logit):
        with special.errstate(all="raise"), pytest.raises(special.SpecialFunctionError):
            function(wrapped)
        with special.errstate(all="warn"), pytest.warns(special.SpecialFunctionWarning):
            function(wrapped)
        with npaccel.accelerate, special.errstate(all="raise"):
            with pytest.raises(special.SpecialFunctionError):
                function(x)
            with pytest.raises(special.SpecialFunctionError):
                function(x[:3])
        assert np.isinf(function(wrapped)).all()
    assert not _native.guarded() or any("special.errstate" in reason for reason in reasons())


@pytest.mark.pending
def test_what_waits_does_not_raise_later() -> None:
    pending = special.logit(npaccel.asarray(np.zeros(N)))
    with special.errstate(all="raise"):
        assert np.isneginf(np.asarray(pending)).all()
        again = special.logit(npaccel.asarray(np.full(N, 0.5)))
        assert not _native.is_pending(again)


@pytest.mark.pending
def test_of_scipy_only_what_is_known() -> None:
    x = npaccel.asarray(operands("erf")[0])
    np.testing.assert_array_equal(special.erfinv(x), special.erfinv(np.asarray(x)))
    assert any("another library" in reason for reason in reasons())
    assert special.erf in SPECIAL.ufuncs and special.erfinv not in SPECIAL.ufuncs


def test_small_results_are_scipys() -> None:
    x = np.linspace(-30, 30, 1000)
    want = special.ndtr(x)
    with npaccel.accelerate:
        got = special.ndtr(x)
    assert type(got) is np.ndarray
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(special.ndtr(npaccel.asarray(x)), want)


def test_check_mode_allows_for_what_scipy_is_off() -> None:
    before = npaccel.config.check
    tails = np.linspace(-38.0, 27.0, N)
    try:
        npaccel.config.check = "compute"
        for name in ("erfc", "ndtr", "expit", "erf", "gammaln"):
            x = npaccel.asarray(tails * (20 if name == "expit" else 1))
            npaccel.evaluate(getattr(special, name)(x))
            assert np.isfinite(special.logit(npaccel.asarray(operands("logit")[0]))).all()
    finally:
        npaccel.config.check = before


PROGRAM = """
import sys
{first}
import numpy as np
import npaccel
assert ("scipy" in sys.modules) == {loaded}
x = np.linspace(0.0, 3.0, 100_000)
with npaccel.accelerate:
    np.sqrt(x)
    assert ("scipy" in sys.modules) == {loaded}
    from scipy import special
    y = special.erf(x)
assert type(y) is npaccel.Array, type(y)
assert type(special.erf(npaccel.asarray(x))) is npaccel.Array
assert "library" not in str(npaccel.explain())
"""


@pytest.mark.pending
@pytest.mark.parametrize("first", ["", "import scipy.special"])
def test_scipy_is_seen_whenever_it_is_imported(first: str) -> None:
    code = PROGRAM.format(first=first, loaded=bool(first))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
