"""Small programs of the libraries around NumPy give in a block of `accelerate` what they give."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npaccel
from npaccel.demo import load

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::PendingDeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
PROGRAMS = Path(__file__).parent / "programs"
Program = Callable[[np.random.Generator, int], Any]
SMALL, LARGE = 4096, 250_000
FEW_BYTES = 2048
TOLERANCE = 1e-8


def programs() -> Iterator[Any]:
    for path in sorted(PROGRAMS.glob("with_*.py")):
        library = path.stem.removeprefix("with_")
        names = [
            line.partition("(")[0].removeprefix("def ")
            for line in path.read_text().splitlines()
            if line.startswith("def ") and not line.startswith("def _")
        ]
        for name in names:
            yield pytest.param(library, name, id=f"{library}-{name}")


def find(library: str, name: str) -> Program:
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is missing: install npaccel[ecosystem]")
    return getattr(load(PROGRAMS / f"with_{library}.py"), name)  # type: ignore[no-any-return]


def same(have: Any, want: Any, where: str = "result") -> None:
    """Raise AssertionError unless both are alike in class, structure, dtypes and values."""
    if isinstance(want, tuple | list):
        assert len(have) == len(want), where
        for i, pair in enumerate(zip(have, want, strict=True)):
            same(*pair, f"{where}[{i}]")
    elif isinstance(want, np.ndarray):
        assert have.dtype == want.dtype and have.shape == want.shape, where
        if want.dtype.kind in "fc":
            np.testing.assert_allclose(have, want, TOLERANCE, TOLERANCE, err_msg=where)
        else:
            np.testing.assert_array_equal(have, want, err_msg=where)
    else:
        assert type(have) is type(want), where
        module = type(want).__module__.partition(".")[0]
        if module == "pandas":
            import pandas.testing

            kind = {"DataFrame": "frame", "Series": "series"}.get(type(want).__name__, "index")
            getattr(pandas.testing, f"assert_{kind}_equal")(have, want, rtol=TOLERANCE)
        elif module == "xarray":
            assert have.dtype == want.dtype and have.dims == want.dims, where
            for coordinate in want.coords:
                same(have[coordinate].values, want[coordinate].values, f"{where}.{coordinate}")
            same(have.values, want.values, where)
        elif isinstance(want, float | np.floating):
            assert have == pytest.approx(want, rel=TOLERANCE, nan_ok=True), where
        else:
            assert have == want, where


def compare(program: Program, size: int, **options: Any) -> None:
    want = program(np.random.default_rng(7), size)
    with npaccel.accelerate(**options):
        have = program(np.random.default_rng(7), size)
    same(have, want)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("library", "name"), list(programs()))
def test_small_arrays_deferred(library: str, name: str) -> None:
    compare(find(library, name), SMALL, min_size=FEW_BYTES)


@pytest.mark.slow
@pytest.mark.parametrize(("library", "name"), list(programs()))
def test_large_arrays_deferred(library: str, name: str) -> None:
    compare(find(library, name), LARGE)
