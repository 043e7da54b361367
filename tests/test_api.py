"""The public names: what they take, what they refuse and in which words, and how they are told."""

from __future__ import annotations

import importlib.metadata
import itertools
import os
import pydoc
import re
import shutil
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npaccel
from npaccel import _native, errors
from npaccel.errors import BackendUnavailable, ConfigError

ROOT = Path(__file__).parent.parent
N = 100_000

# ---------------------------------------------------------------------------------------- asarray

BASE = np.arange(24.0).reshape(4, 6)
LAYOUTS = {
    "c": BASE,
    "fortran": np.asfortranarray(BASE),
    "strided": np.arange(96.0).reshape(8, 12)[::2, ::2],
    "transposed": np.arange(24.0).reshape(2, 3, 4).transpose(1, 0, 2),
    "line": np.arange(5.0),
    "reversed": np.arange(5.0)[::-1],
    "row": np.arange(5.0).reshape(1, 5),
    "number": np.array(3.0),
    "empty": np.empty((0, 3)),
    "ints": np.arange(12).reshape(3, 4),
    "complex": np.arange(6) + 1j,
    "swapped": np.arange(5, dtype=">f8"),
    "text": np.array(["1", "22"]),
    "objects": np.array([1, None], dtype=object),
    "times": np.array(["2020-01-01"], "M8[D]"),
    "list": [[1, 2], [3, 4]],
    "float": 2.5,
    "masked": np.ma.array([1.0, 2.0], mask=[0, 1]),
}
DTYPES: list[Any] = [
    None,
    float,
    "f4",
    "i8",
    np.longlong,
    bool,
    complex,
    "S",
    object,
    ">f8",
    "M8[s]",
]
ORDERS: list[Any] = [None, "K", "A", "C", "F"]


def outcome(convert: Any, x: Any, options: dict[str, Any]) -> list[Any]:
    """What `convert` gives: everything that can be told of an array, or the error; and warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            made = convert(x, **options)
        except Exception as error:
            return [type(error), str(error)]
    shared = isinstance(x, np.ndarray) and np.shares_memory(made, x)
    told = [(str(w.message), w.category, w.filename, w.lineno) for w in caught]
    assert isinstance(made, np.ndarray)
    about = [made.dtype, made.dtype.char, made.shape, made.strides, made.flags.writeable, shared]
    return [*about, made.tobytes() if made.dtype != object else made.tolist(), told]


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("threshold", [0, 1 << 18])
def test_asarray_converts_as_numpy_does(
    name: str, threshold: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plain arrays and ours, evaluated and pending."""
    monkeypatch.setattr(npaccel.config, "threshold", threshold)
    given = LAYOUTS[name]
    for dtype, order, copy in itertools.product(DTYPES, ORDERS, [None, True, False]):
        options = {"dtype": dtype, "order": order, "copy": copy}
        assert outcome(npaccel.asarray, given, options) == outcome(np.asarray, given, options)
        if type(given) is not np.ndarray:
            continue
        assert outcome(npaccel.asarray, npaccel.asarray(given), options) == outcome(
            np.asarray, given, options
        )
        if given.dtype.kind in "if" and given.dtype.isnative and given.flags.c_contiguous:
            pending = npaccel.asarray(given) + 0
            expected = outcome(np.asarray, given + 0, options)
            assert outcome(npaccel.asarray, pending, options) == expected


def test_asarray_refuses_what_numpy_refuses() -> None:
    for wrong in ({"order": "X"}, {"dtype": "nonsense"}, {"copy": "maybe"}, {"order": 3}):
        for x in (BASE, npaccel.asarray(BASE), [1, 2]):
            assert outcome(npaccel.asarray, x, wrong)[0] is outcome(np.asarray, x, wrong)[0]


def test_asarray_wraps_as_ever() -> None:
    x = npaccel.asarray(BASE)
    assert type(x) is npaccel.Array and np.shares_memory(x, BASE)
    assert npaccel.asarray(x) is x and npaccel.asarray(x, float, "C", copy=False) is x
    positional = npaccel.asarray(BASE, np.float32, "F")
    assert type(positional) is npaccel.Array
    assert positional.dtype == "f4" and positional.flags.f_contiguous


@pytest.mark.pending
def test_conversions_of_ours_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(npaccel.config, "threshold", 0)
    x = npaccel.asarray(np.arange(1000.0)) * 2
    y = npaccel.asarray(x, dtype="i4")
    assert _native.is_pending(x) and _native.is_pending(y)
    assert y.dtype == "i4" and np.array_equal(y, np.arange(0, 2000, 2))


@pytest.mark.parametrize("wrong", ["auto", "numpy", "gpu", "opencl:x", 5, ""])
def test_devices_that_are_none(wrong: Any) -> None:
    """The text says what is one; a word of the setting `backend` need not be."""
    with pytest.raises(ConfigError) as error:
        npaccel.asarray(BASE, device=wrong)
    text = str(error.value)
    assert text.startswith(f"npaccel.asarray(device=...): {wrong!r} is not allowed; it must be one")
    assert "'cpu'" in text and "'opencl:N'" in text and text.count(repr(wrong)) == 1


def test_the_host_as_a_device() -> None:
    x = npaccel.asarray(BASE, device="cpu")
    assert type(x) is npaccel.Array and np.shares_memory(x, BASE)
    assert npaccel.asarray(x, device="cpu", copy=False) is x
    assert npaccel.asarray(np.array([None]), device="cpu")[0] is None
    assert np.asarray(BASE, device="cpu") is BASE  # NumPy's word


def test_a_device_that_is_not_there(opencl: None) -> None:
    with pytest.raises(BackendUnavailable, match=r"no device opencl:77; there are: opencl:0"):
        npaccel.asarray(BASE, device="opencl:77")


@pytest.mark.parametrize(
    "array", [np.array([1, None]), np.zeros(3, "f8,O"), [object()]], ids=["plain", "field", "list"]
)
def test_python_objects_on_a_device(opencl: None, array: Any) -> None:
    with pytest.raises(ConfigError, match=r"device='opencl:0'.*dtype .*Python objects.*convert"):
        npaccel.asarray(array, device="opencl:0")


@pytest.mark.pending
def test_a_device_and_a_conversion(opencl: None) -> None:
    x = npaccel.asarray(BASE, dtype="f4", order="F", device="opencl:0")
    assert x.dtype == "f4" and x.flags.f_contiguous and np.array_equal(x, BASE)
    with pytest.raises(ValueError, match="Unable to avoid copy"):
        npaccel.asarray(BASE, device="opencl:0", copy=False)


# ------------------------------------------------------------------------------------- accelerate


def taken() -> bool:
    """Whether what is made here is ours."""
    return type(np.ones(N) + 1) is npaccel.Array


@pytest.mark.pending
def test_accelerate_without_parentheses() -> None:
    with npaccel.accelerate:
        assert taken()
        with npaccel.accelerate:
            assert taken()
        assert taken()
    assert not taken()

    @npaccel.accelerate
    def work(x: int) -> tuple[bool, int]:
        """Say something."""
        return taken(), x

    assert work(3) == (True, 3) and not taken()
    assert work.__name__ == "work" and work.__doc__ == "Say something."


@pytest.mark.pending
def test_accelerate_with_options() -> None:
    @npaccel.accelerate(min_size=8)
    def work() -> str:
        return "ndarray" if type(np.ones(10) + 1) is np.ndarray else "Array"

    assert work() == npaccel.accelerate(work.__wrapped__, min_size=8)() == "Array"
    assert npaccel.accelerate(work.__wrapped__, min_size=800)() == "ndarray"


@pytest.mark.parametrize("wrong", [3, "llvm", [min]])
def test_accelerate_decorates_functions_only(wrong: Any) -> None:
    with pytest.raises(ConfigError, match=f"not {type(wrong).__name__}; .* min_size and backend"):
        npaccel.accelerate(wrong)


@pytest.mark.pending
def test_the_one_block_is_left_by_whoever_entered_it() -> None:
    """Also where a generator is finished by another thread while others have theirs open."""

    def steps() -> Any:
        with npaccel.accelerate:
            yield taken()

    generator = steps()
    assert next(generator)
    seen: list[bool] = []
    ready, go_on = threading.Event(), threading.Event()

    def other() -> None:
        with npaccel.accelerate:
            ready.set()
            go_on.wait(60)
            seen.append(taken())
        seen.append(taken())

    def finishing() -> None:
        seen.extend(generator)

    threads = [threading.Thread(target=other), threading.Thread(target=finishing)]
    threads[0].start()
    assert ready.wait(60)
    threads[1].start()
    threads[1].join()
    assert not taken()  # the generator's block is the one that was left
    go_on.set()
    threads[0].join()
    assert seen == [True, False]


# ------------------------------------------------------------------------- names, help and version


def public() -> set[str]:
    modules = {path.stem for path in Path(npaccel.__file__).parent.iterdir()} - {"config"}
    return {name for name in vars(npaccel) if not name.startswith("_")} - modules


def test_help_is_one_screen_and_names_everything() -> None:
    lines = pydoc.render_doc(npaccel, renderer=pydoc.plaintext).splitlines()
    assert len(lines) <= 74 and max(map(len, lines[: lines.index("FILE")])) <= 100
    told = set(re.findall(r"\w+", npaccel.__doc__ or ""))
    assert public() <= told
    for name in ("asarray", "accelerate", "macro", "stats"):
        text = pydoc.render_doc(getattr(npaccel, name), renderer=pydoc.plaintext)
        assert "Parameters" in text, name


def test_a_star_brings_all_of_them() -> None:
    names: dict[str, Any] = {}
    exec("from npaccel import *", names)
    assert public() <= names.keys()


def test_every_error_that_a_user_can_get_is_exported() -> None:
    inner = {"Unsupported", "BuildTimeout"}  # never get out
    classes = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert {name for name in classes if getattr(npaccel, name, None)} == classes - inner
    assert issubclass(npaccel.CheckError, npaccel.NpaccelError)


def test_version_is_said_alike_everywhere() -> None:
    assert npaccel.__version__ == importlib.metadata.version("npaccel")
    (built,) = re.findall(r", version: '([^']+)',", (ROOT / "meson.build").read_text())
    (declared,) = re.findall(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.M)
    assert npaccel.__version__ == built == declared


def test_the_source_tree_says_that_it_is_not_built(tmp_path: Path) -> None:
    folder = Path(npaccel.__file__).parent
    shutil.copytree(folder, tmp_path / "npaccel", ignore=shutil.ignore_patterns("*.so", "*.pyc"))
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"}
    done = subprocess.run(
        [sys.executable, "-m", "npaccel", "--version"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"ImportError: {tmp_path / 'npaccel'} is npaccel's source")
