"""pandas' engines, joblib, dask, xarray and SciPy's transforms take our arrays as NumPy's."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npaccel
from npaccel import _native
from npaccel.dispatch import EXACT
from npaccel.dispatch.exact_classes import WATCHED

N = 40_000
PLAIN = np.linspace(0.0, 1.0, N)


# ---------------------------------------------------------------------------------------- pandas


def _first_word(column: Any) -> Any:
    return "large" if column[0] > 0 else "a"


def _add(column: Any, more: float, *, factor: float = 1.0) -> Any:
    return column * factor + more


APPLIED: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = {
    "as long": (lambda x: np.exp(-x) * x + 1, (), {}),
    "a number": (lambda x: (x * x).sum() - x.max(), (), {}),
    "another length": (lambda x: x[:7] * 2, (), {}),
    "texts": (_first_word, (), {}),
    "arguments": (_add, (2.5,), {"factor": 3.0}),
    "what it is given": (lambda x: x, (), {}),
    "a truth": (lambda x: bool((x > 0).all()), (), {}),
}


@pytest.fixture
def frame() -> Any:
    pandas = pytest.importorskip("pandas", "3.0")
    rng = np.random.default_rng(3)
    values = {name: rng.normal(size=N // 40) for name in "abc"}
    return pandas.DataFrame(values, index=np.arange(N // 40) * 2)


def _outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("axis", [0, 1, "index", "columns"])
@pytest.mark.parametrize("raw", [True, False])
@pytest.mark.parametrize("how", APPLIED)
def test_apply_gives_what_pandas_gives(frame: Any, how: str, raw: bool, axis: Any) -> None:
    function, args, kwargs = APPLIED[how]
    few = frame.iloc[:50] if axis in (1, "columns") else frame
    options = {"axis": axis, "raw": raw, "args": args, **kwargs}
    engine = npaccel.accelerate(min_size=16)
    want = _outcome(lambda: few.apply(function, **options))
    have = _outcome(lambda: few.apply(function, engine=engine, **options))
    assert type(have) is type(want)
    if isinstance(want, tuple):
        assert have == want
        return
    kind = "frame" if want.ndim == 2 else "series"
    compare = getattr(pytest.importorskip("pandas.testing"), f"assert_{kind}_equal")
    compare(have, want, rtol=1e-13)


@pytest.mark.pending
def test_columns_are_recorded_in_the_engine(frame: Any) -> None:
    before = npaccel.stats()["requests"]
    frame.apply(APPLIED["as long"][0], raw=True, engine=npaccel.accelerate(min_size=0))
    assert npaccel.stats()["requests"] >= before + 3 * 4
    assert not _native.in_block()


@pytest.mark.parametrize("na_action", [None, "ignore"])
def test_map_gives_what_pandas_gives(frame: Any, na_action: Any) -> None:
    series = frame["a"].iloc[:20].copy()
    series.iloc[3] = np.nan
    for function in (lambda x: -1.0 if np.isnan(x) else x * 2, str):
        want = series.map(function, na_action=na_action)
        have = series.map(function, na_action=na_action, engine=npaccel.accelerate)
        assert have.dtype == want.dtype and have.equals(want)


def test_an_error_in_the_function_is_pandas_own_and_ends_the_block(frame: Any) -> None:
    with pytest.raises(ZeroDivisionError):
        frame.apply(lambda x: 1 // 0, raw=True, engine=npaccel.accelerate)
    assert not _native.in_block()


# ---------------------------------------------------------------------------------------- joblib


def test_all_that_is_waited_for_is_seen() -> None:
    assert tuple(WATCHED) == EXACT


def test_a_hash_does_not_depend_on_the_class() -> None:
    joblib = pytest.importorskip("joblib")
    made = [npaccel.asarray(PLAIN) * 2, npaccel.asarray(PLAIN[::3]) * 2, npaccel.asarray(3.0)]
    for x in made:
        assert joblib.hash(x) == joblib.hash(np.array(x, copy=None))
        assert joblib.hash({"a": [x, x]}) == joblib.hash({"a": [np.asarray(x)] * 2})
    assert joblib.hash(made[0]) != joblib.hash(made[1])


def test_what_is_remembered_is_found_in_a_block(tmp_path: Path) -> None:
    joblib = pytest.importorskip("joblib")
    calls = []

    def double(x: Any) -> Any:
        calls.append(x)
        return x * 2

    double.__module__ = __name__
    remembered = joblib.Memory(tmp_path, verbose=0).cache(double)
    first = remembered(PLAIN + 1)
    with npaccel.accelerate(min_size=0):
        again = remembered(PLAIN + 1)
    assert len(calls) == 1
    np.testing.assert_array_equal(np.asarray(again), first)


@pytest.mark.parametrize("compress", [0, 3])
def test_files_of_a_block_are_those_of_numpy(tmp_path: Path, compress: int) -> None:
    joblib = pytest.importorskip("joblib")
    kept = {"x": PLAIN * 2, "few": PLAIN[:3] * 2}
    joblib.dump(kept, tmp_path / "plain", compress=compress)
    with npaccel.accelerate(min_size=0):
        joblib.dump({"x": PLAIN * 2, "few": PLAIN[:3] * 2}, tmp_path / "ours", compress=compress)
    assert (tmp_path / "plain").read_bytes() == (tmp_path / "ours").read_bytes()
    joblib.dump(npaccel.asarray(PLAIN) * 2, tmp_path / "array", compress=compress)
    back = joblib.load(tmp_path / "array")
    assert type(back) is npaccel.Array
    np.testing.assert_array_equal(np.asarray(back), PLAIN * 2)


@pytest.mark.parametrize(("library", "name"), [("orjson", "dumps"), ("ormsgpack", "packb")])
def test_writers_that_ask_for_the_class_itself_write_arrays(library: str, name: str) -> None:
    module = pytest.importorskip(library)
    write, numpys = getattr(module, name), module.OPT_SERIALIZE_NUMPY

    def texts(x: Any) -> list[Any]:
        given: list[tuple[Any, ...]] = [(str,), (lambda a: a.tolist(), numpys), (lambda a: [], 0)]
        made = [write({"x": [x, 1.5]}, option=numpys), *(write(x, *rest) for rest in given)]
        for wrong in ((object(),), ([x, object()],), (x[::2],), (x, None), ()):
            with pytest.raises(TypeError) as caught:
                write(*wrong, option=numpys) if len(wrong) < 2 else write(*wrong)
            made.append(str(caught.value))
        return made[:-1] if library == "orjson" else made[:-2]  # what Python says of our function

    assert texts(npaccel.asarray(PLAIN) * 2) == texts(PLAIN * 2)
    want = write(PLAIN[:5] * 2, option=numpys)
    with npaccel.accelerate(min_size=0):
        assert write(PLAIN[:5] * 2, option=numpys) == want


def test_bars_are_drawn() -> None:
    """matplotlib asserts that their places are exactly an ndarray."""
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib import pyplot

    def edges() -> list[tuple[float, ...]]:
        figure, axes = pyplot.subplots()
        x = np.arange(6.0) + 1
        bars = [*axes.bar(x, x * 2), *axes.barh(x, x * 2, height=x / 9)]
        pyplot.close(figure)
        return [(b.get_x(), b.get_y(), b.get_width(), b.get_height()) for b in bars]

    with npaccel.accelerate(min_size=0):
        drawn = edges()
    assert drawn == edges()


SENT = """
import joblib
import numpy as np

def kind(x):
    return type(x).__name__, float(x[-1])

if __name__ == "__main__":
    x = np.arange(300_000.0) * 2
    for backend in ("loky", "multiprocessing"):
        tasks = (joblib.delayed(kind)(x) for _ in range(3))
        print("ndarray" if type(x) is np.ndarray else "Array", *joblib.Parallel(2, backend)(tasks))
"""


@pytest.mark.pending
def test_workers_map_large_arrays(tmp_path: Path) -> None:
    pytest.importorskip("joblib")
    (tmp_path / "program.py").write_text(SENT)
    here = str(Path(npaccel.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-m", "npaccel", "run", "--min-size=16", "program.py"],
        cwd=tmp_path,
        env={k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"} | {"PYTHONPATH": here},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == 2 * ("Array" + 3 * " ('memmap', 599998.0)" + "\n")


# ------------------------------------------------------------------------------- dask and xarray


def test_chunks_of_dask_stay_arrays() -> None:
    dask_array = pytest.importorskip("dask.array")
    plain = np.arange(8.0 * N).reshape(4, -1)
    x = dask_array.from_array(npaccel.asarray(plain), chunks=(2, -1))
    assert type(x._meta) is npaccel.Array
    have = (x * 2 + 1).compute()
    assert type(have) is npaccel.Array
    np.testing.assert_array_equal(np.asarray(have), plain * 2 + 1)
    np.testing.assert_allclose(x.sum(0).compute(), plain.sum(0), rtol=1e-13)


def test_dask_computes_in_blocks_of_all_threads() -> None:
    dask_array = pytest.importorskip("dask.array")
    x = dask_array.from_array(PLAIN.reshape(4, -1), chunks=(2, -1))
    npaccel.enable(min_size=0)
    try:
        kinds = x.map_blocks(lambda b: np.array([[type(b * 2) is not np.ndarray]])).compute()
    finally:
        npaccel.disable()
    assert kinds.all() or not _native.guarded()


def test_xarray_keeps_arrays() -> None:
    xarray = pytest.importorskip("xarray")
    plain = PLAIN.reshape(200, -1)
    for values in (npaccel.asarray(plain), plain):
        with npaccel.accelerate(min_size=0):
            x = xarray.DataArray(values, dims=("time", "place"))
            have = (x - x.mean("time")) / x.std("time")
        y = xarray.DataArray(plain, dims=("time", "place"))
        xarray.testing.assert_allclose(have, (y - y.mean("time")) / y.std("time"), rtol=1e-12)
        assert type(have.data) is npaccel.Array or not _native.guarded()


# ----------------------------------------------------------------------------------------- SciPy


@pytest.mark.parametrize("name", ["dct", "idst", "dctn", "fft", "rfft", "irfft", "ifftn", "hfft"])
@pytest.mark.parametrize("overwrite", [True, False])
def test_transforms_write_to_our_arrays(name: str, overwrite: bool) -> None:
    fft = pytest.importorskip("scipy.fft")
    transform = getattr(fft, name)
    whole = np.arange(1000).reshape(20, 50)
    for make in (lambda: whole, lambda: whole * 0.5, lambda: whole * 0.5j, lambda: whole * 1.0 + 2):
        if name in ("rfft", "dct") and make().dtype.kind == "c":
            continue
        want = transform(make(), overwrite_x=overwrite)
        with npaccel.accelerate(min_size=0):
            have = transform(make(), overwrite_x=overwrite)
        np.testing.assert_array_equal(np.asarray(have), want)


# --------------------------------------------------------------------------------------- classes


class _Finalized(np.ndarray):
    """Like astropy's Quantity: what is no ndarray has the attributes of its own class."""

    seen: str

    def __array_finalize__(self, obj: Any) -> None:
        self.seen = type(obj).__name__
        if obj is not None and obj.__class__ is not np.ndarray:
            assert obj.__dict__ is not None


@pytest.mark.parametrize("arguments", [(_Finalized,), (np.int64, _Finalized)])
def test_a_class_of_others_is_given_an_ndarray(arguments: tuple[Any, ...]) -> None:
    x = npaccel.asarray(PLAIN) * 2
    for view in (x.view(*arguments), x[::2].view(arguments[-1]), x.view(type=_Finalized)):
        assert type(view) is _Finalized and view.seen == "ndarray"
        assert np.shares_memory(view, np.asarray(x))
        np.testing.assert_array_equal(view.view(np.ndarray).ravel()[:1], [0])
    with npaccel.accelerate(min_size=0):
        made = (PLAIN * 2).view(_Finalized) + 1
    assert type(made) is _Finalized
    np.testing.assert_array_equal(np.asarray(made), PLAIN * 2 + 1)


class _Scaled(np.ndarray):
    """Computes like astropy's quantities: on its data in another unit, by ndarray's own method."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        known = (np.ndarray, float)
        data = [np.asarray(x).view(np.ndarray) * 0.5 if isinstance(x, known) else x for x in inputs]
        if "out" in kwargs:
            kwargs["out"] = tuple(x.view(np.ndarray) for x in kwargs["out"])
        made = super().__array_ufunc__(ufunc, method, *data, **kwargs)
        return made if made is NotImplemented else np.asarray(made).view(_Scaled)


class _Refused:
    def __array_ufunc__(self, *_: Any, **__: Any) -> Any:
        return NotImplemented


def test_a_class_of_others_computes_by_ndarrays_own_method() -> None:
    def compute(x: Any) -> list[Any]:
        out = x.copy()
        np.add(x, x, out=out)
        return [
            np.cos(x),
            x + x,
            np.add.reduce(x),
            out,
            np.divide(x, 3.0),
            np.hypot.outer(x, x[:2]),
        ]

    want = compute(PLAIN[:500].view(_Scaled))
    with npaccel.accelerate(min_size=0):
        have = compute(PLAIN[:500].view(_Scaled))
        with pytest.raises(TypeError, match="NotImplemented"):
            np.add(PLAIN[:500].view(_Scaled), _Refused())
        with pytest.raises(ValueError, match="broadcast"):
            PLAIN[:500].view(_Scaled) + PLAIN[:3]
    for one, other in zip(have, want, strict=True):
        assert type(one) is type(other)
        np.testing.assert_allclose(one.view(np.ndarray), other.view(np.ndarray), rtol=1e-14)
