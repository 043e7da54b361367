"""What other tools ask of arrays and of the package: pickles, DLPack, the array API, threadpoolctl,
type checkers."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest

import npaccel
from npaccel import _native
from npaccel.config import SETTINGS, Config

N = 100_000
PLAIN = np.linspace(0.0, 1.0, N)


# --------------------------------------------------------------------------------------- pickles


@pytest.mark.pending
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_stays_an_array_that_defers(protocol: int) -> None:
    x = npaccel.asarray(PLAIN) * 3
    back = pickle.loads(pickle.dumps([x, x], protocol))
    assert back[0] is back[1]
    assert type(back[0]) is npaccel.Array and back[0].flags.writeable
    np.testing.assert_array_equal(np.asarray(back[0]), PLAIN * 3)
    if _native.guarded():
        assert _native.is_pending(back[0] * 2.5 + 1)


def test_buffers_out_of_band_are_not_copied() -> None:
    x = npaccel.asarray(PLAIN) * 3
    buffers: list[pickle.PickleBuffer] = []
    text = pickle.dumps(x, protocol=5, buffer_callback=buffers.append)
    assert len(text) < 1000 and len(buffers) == 1
    back = pickle.loads(text, buffers=buffers)
    assert np.shares_memory(np.asarray(back), np.asarray(x))


def test_in_a_block_a_pickle_has_numpys_bytes() -> None:
    with npaccel.accelerate(min_size=0):
        x = PLAIN * 3
        texts = [pickle.dumps(x, protocol) for protocol in (2, 5)]
    assert texts == [pickle.dumps(PLAIN * 3, protocol) for protocol in (2, 5)]
    assert type(pickle.loads(texts[0])) is np.ndarray


@pytest.mark.pending
@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy])
def test_copies_are_as_before(make: Any) -> None:
    x = npaccel.asarray(PLAIN.copy())
    y = make(x)
    y[0] = 5.0
    assert type(y) is npaccel.Array and x[0] == 0.0


# ---------------------------------------------------------------------------------------- DLPack


class Foreign:
    """An array of another library: nothing but DLPack."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()


def test_what_comes_by_dlpack_shares_its_memory_and_defers() -> None:
    own = PLAIN.copy()
    x = npaccel.from_dlpack(Foreign(own))
    assert type(x) is npaccel.Array and np.shares_memory(np.asarray(x), own)
    np.testing.assert_array_equal(np.asarray(x * 2 + 1), own * 2 + 1)
    own[3] = 77.0
    assert x[3] == 77.0
    y = npaccel.from_dlpack(Foreign(own), copy=True)
    own[3] = 0.0
    assert y[3] == 77.0


def test_what_goes_by_dlpack_is_computed_and_shared() -> None:
    x = npaccel.asarray(PLAIN) * 3
    taken = np.from_dlpack(x)
    assert type(taken) is np.ndarray
    np.testing.assert_array_equal(taken, PLAIN * 3)
    again = npaccel.from_dlpack(x)
    x[0] = 9.0
    npaccel.evaluate(x)
    assert (again[0], taken[0]) == (9.0, 9.0)
    assert x.__dlpack_device__() == PLAIN.__dlpack_device__()


def test_what_has_no_dlpack_is_numpys_error() -> None:
    with pytest.raises(Exception) as wanted:
        np.from_dlpack([1.0])
    with pytest.raises(type(wanted.value)) as got:
        npaccel.from_dlpack([1.0])
    assert str(got.value) == str(wanted.value)


# ------------------------------------------------------------------------------------- array API


def test_inspection_answers_as_numpy_and_names_the_devices() -> None:
    if not hasattr(np, "__array_namespace_info__"):
        pytest.skip("NumPy has it from 2.1 on")
    found, numpy = npaccel.__array_namespace_info__(), np.__array_namespace_info__()
    assert found.capabilities() == numpy.capabilities()
    assert found.default_device() == "cpu" == found.devices()[0]
    listed = {d.backend for d in npaccel.devices().devices if d.backend.startswith("opencl:")}
    assert set(found.devices()[1:]) >= listed
    for device in (None, *found.devices()):
        assert found.dtypes(device=device, kind="integral") == numpy.dtypes(kind="integral")
        assert found.default_dtypes(device=device) == numpy.default_dtypes()
    for ask in (found.dtypes, found.default_dtypes):
        with pytest.raises(ValueError, match="fpga"):
            ask(device="fpga")
    assert npaccel.asarray(PLAIN).__array_namespace__() is np


# --------------------------------------------------------------------------------- threadpoolctl


@pytest.fixture
def pool() -> Any:
    """How threadpoolctl describes our pool, asked anew; the setting is put back."""
    threadpoolctl = pytest.importorskip("threadpoolctl")
    before = npaccel.config.threads

    def described() -> dict[str, Any]:
        found = threadpoolctl.threadpool_info()
        (own,) = (entry for entry in found if entry["user_api"] == "npaccel")
        return dict(own)

    yield described
    npaccel.config.threads = before


def test_threadpoolctl_shows_the_pool(pool: Any) -> None:
    npaccel.config.threads = 2
    about = pool()
    assert about["num_threads"] == 2 and about["version"] == npaccel.__version__
    assert Path(about["filepath"]).samefile(_native.__file__)


@pytest.mark.parametrize("options", [{}, {"user_api": "npaccel"}, {"user_api": "blas"}])
def test_threadpoolctl_limits_it(pool: Any, options: dict[str, str]) -> None:
    threadpoolctl = pytest.importorskip("threadpoolctl")
    npaccel.config.threads = 2
    with threadpoolctl.threadpool_limits(1, **options):
        assert pool()["num_threads"] == (2 if options.get("user_api") == "blas" else 1)
        assert (np.asarray(npaccel.asarray(PLAIN) * 2) == PLAIN * 2).all()
    assert pool()["num_threads"] == 2
    with threadpoolctl.threadpool_limits({"npaccel": 10_000}):
        assert pool()["num_threads"] == Config.setting("threads").maximum


# ----------------------------------------------------------------------------------------- types

USER = """
import numpy as np
import npaccel as na

x: na.Array = na.asarray([1.0, 2.0], dtype=float)
y: na.Array = na.from_dlpack(x)
with na.accelerate:
    pass
with na.accelerate(min_size=0, backend="llvm"):
    pass

@na.accelerate
def double(a: int) -> int:
    return 2 * a

four: int = double(2)
na.enable(min_size=10)
na.disable()
na.evaluate(x, y)
text: str = str(na.explain(x)) + na.explain().ir
kernels: int = na.stats()["kernels"]
na.config.threads = 4
na.config.tiering = "eager"
with na.config(threads=2) as settings:
    limit: int = settings.memory_limit
na.config.load("npaccel.toml")
with na.backend("llvm"), na.step(), na.profile("file") as taken:
    print(taken.path)
names: list[str] = na.__array_namespace_info__().devices()
rng: np.random.Generator = na.random.default_rng(1)
step = na.macro(double)
try:
    na.peek(x, at=0)
except na.NpaccelError as error:
    print(error, na.devices())
"""
WRONG = """
import npaccel as na
na.config.thredas = 4
na.config.threads = "four"
na.config.tiering = "lazy"
na.enable(min_size="big")
na.asarry([1])
double: str = na.accelerate(len)([1])
"""


def test_a_users_file_passes_mypy_and_mistakes_do_not(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "user.py").write_text(USER)
    (tmp_path / "wrong.py").write_text(WRONG)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "user.py", "wrong.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [int(line.split(":")[1]) for line in done.stdout.splitlines()[:-1]]
    assert "user.py" not in done.stdout, done.stdout
    assert lines == [3, 4, 5, 6, 7, 8], done.stdout


def test_each_setting_has_the_type_of_its_default() -> None:
    hints = get_type_hints(Config)
    for setting in SETTINGS:
        if setting.choices is None or setting.group:
            assert hints[setting.name] is type(setting.default), setting.name
        else:
            assert set(hints[setting.name].__args__) == set(setting.choices), setting.name


# ----------------------------------------------------------------------------- settings in a block


def test_settings_of_a_block_are_put_back() -> None:
    before = (npaccel.config.threads, npaccel.config.threshold)
    with npaccel.config(threads=3, threshold=77) as settings:
        assert settings is npaccel.config
        assert (npaccel.config.threads, npaccel.config.threshold) == (3, 77)
        with npaccel.config(threshold=78):
            assert (npaccel.config.threads, npaccel.config.threshold) == (3, 78)
        seen: list[int] = []
        thread = threading.Thread(target=lambda: seen.append(npaccel.config.threshold))
        thread.start()
        thread.join()
        assert seen == [77]
    assert (npaccel.config.threads, npaccel.config.threshold) == before
    with pytest.raises(ZeroDivisionError), npaccel.config(threshold=79):
        raise ZeroDivisionError
    assert npaccel.config.threshold == before[1]
