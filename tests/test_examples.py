"""The example programs compute what they say, and npaccel does not change what they compute."""

from __future__ import annotations

import importlib.util
import math
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import npaccel

EXAMPLES = Path(__file__).parent.parent / "examples"
SMALL = {
    "black_scholes": 1000,
    "density": 1000,
    "gray_scott": 40,
    "heat": 40,
    "kmeans": 2000,
    "mandelbrot": 50,
    "nbody": 30,
    "photograph": 1,
    "returns": 5000,
    "shallow_water": 40,
    "softmax": 30,
    "table": 500,
}


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def small_inputs(name: str) -> dict[str, Any]:
    if name == "photograph":
        pytest.importorskip("sklearn", reason="scikit-learn is missing: install npaccel[demo]")
        pytest.importorskip("PIL", reason="Pillow is missing: install npaccel[demo]")
    with warnings.catch_warnings():  # other packages' deprecations, at their import
        warnings.simplefilter("ignore")
        return dict(load(name).inputs(SMALL[name]))


def results(name: str, arrays: dict[str, Any]) -> tuple[Any, ...]:
    result = load(name).main(**arrays)
    return result if isinstance(result, tuple) else (result,)


def test_every_example_is_tested_and_described() -> None:
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    assert names == set(SMALL)
    assert len(names) >= 8
    for name in names:
        assert len((load(name).__doc__ or "").splitlines()[0]) > 30, name


@pytest.mark.parametrize("name", sorted(SMALL))
def test_example_leaves_its_inputs_alone(name: str) -> None:
    arrays = small_inputs(name)
    before = {key: value.copy() for key, value in arrays.items()}
    first, second = results(name, arrays), results(name, arrays)
    for key, value in before.items():
        assert np.array_equal(arrays[key], value), key
    for x, y in zip(first, second, strict=True):
        assert np.array_equal(x, y)


@pytest.mark.parametrize("name", sorted(SMALL))
def test_example_gives_the_same_on_npaccel_arrays(name: str) -> None:
    asarray = getattr(npaccel, "asarray", None)
    if asarray is None:
        pytest.skip("npaccel.asarray does not exist yet")
    arrays = small_inputs(name)
    expected = results(name, arrays)
    got = results(name, {key: asarray(value) for key, value in arrays.items()})
    for want, have in zip(expected, got, strict=True):
        plain = np.asarray(have)
        assert plain.dtype == np.asarray(want).dtype
        assert plain.shape == np.shape(want)
        if plain.dtype.kind == "f":
            # Only functions such as exp may differ, by an ULP or two; here their sums as well.
            scale = 1e-5 if plain.dtype == np.float32 else 1e-12
            np.testing.assert_allclose(plain, want, rtol=scale, atol=scale)
        elif name == "photograph":
            # A pixel whose power is one ULP off may round to the next of 256 levels.
            assert np.count_nonzero(plain != want) <= plain.size // 1000
        else:
            np.testing.assert_array_equal(plain, want)


def test_black_scholes_obeys_put_call_parity_and_erf() -> None:
    arrays = small_inputs("black_scholes")
    spot, strike, years = arrays["spot"], arrays["strike"], arrays["years"]
    call, put = results("black_scholes", arrays)
    parity = spot - strike * np.exp(-0.02 * years)
    np.testing.assert_allclose(call - put, parity, atol=1e-9)
    x = np.linspace(-4, 4, 101)
    exact = [0.5 * (1 + math.erf(v / math.sqrt(2))) for v in x]
    np.testing.assert_allclose(load("black_scholes").normal_cdf(x), exact, atol=1e-7)


def test_density_matches_unesco_check_values() -> None:
    s, t, p = np.array([[0, 5, 0], [35, 5, 0], [35, 25, 0], [0, 5, 1000], [35, 25, 1000.0]]).T
    expected = [999.96675, 1027.67547, 1023.34306, 1044.12802, 1062.53817]
    (density,) = results("density", {"s": s, "t": t, "p": p})
    np.testing.assert_allclose(density, expected, atol=6e-6)


def test_heat_matches_a_plain_loop() -> None:
    plate = small_inputs("heat")["plate"][:7, -7:]
    expected = plate.copy()
    for _ in range(3):
        old = expected.copy()
        for i in range(1, 6):
            for j in range(1, 6):
                around = (old[i - 1, j], old[i + 1, j], old[i, j - 1], old[i, j + 1])
                expected[i, j] = np.float32(sum(around) * np.float32(0.25))
    np.testing.assert_allclose(load("heat").main(plate, steps=3), expected, rtol=1e-6)


def test_softmax_rows_sum_to_one() -> None:
    (rows,) = results("softmax", small_inputs("softmax"))
    np.testing.assert_allclose(rows.sum(axis=1), 1.0, rtol=1e-5)
    assert (rows > 0).all()


def test_mandelbrot_matches_complex_arithmetic() -> None:
    arrays = small_inputs("mandelbrot")
    (count,) = results("mandelbrot", arrays)
    for i, j in ((0, 0), (20, 25), (13, 30), (20, 40)):
        c, z, steps = complex(arrays["re"][j], arrays["im"][i, 0]), 0j, 0
        while steps < 30 and abs(z) ** 2 <= 4.0:
            z, steps = z * z + c, steps + 1
        assert count[i, j] == steps, (i, j)


def test_nbody_keeps_momentum() -> None:
    arrays = small_inputs("nbody")
    _, velocity = results("nbody", arrays)
    np.testing.assert_allclose(
        velocity @ arrays["mass"], arrays["velocity"] @ arrays["mass"], atol=1e-14
    )


def test_returns_are_standardised() -> None:
    z, extreme, drawdown = results("returns", small_inputs("returns"))
    assert abs(z.mean()) < 1e-9
    assert abs(z.std() - 1) < 1e-9
    assert extreme == sum(abs(v) > 3 for v in z.tolist())
    assert 0 < drawdown < 1


def test_gray_scott_keeps_concentrations_possible() -> None:
    u, v = results("gray_scott", small_inputs("gray_scott"))
    assert v.min() >= 0 and u.max() <= 1.0 + 1e-6
    assert v.max() > 0.1


def test_shallow_water_keeps_its_volume() -> None:
    arrays = small_inputs("shallow_water")
    h, hu, _ = results("shallow_water", arrays)
    before, after = arrays["h"][1:-1, 1:-1].sum(), h[1:-1, 1:-1].sum()
    assert abs(after / before - 1) < 0.01
    assert np.abs(hu).max() > 0.01


def test_kmeans_finds_the_nearest_centre() -> None:
    arrays = small_inputs("kmeans")
    _, nearest = load("kmeans").main(**arrays, rounds=1)
    for point, label in list(zip(arrays["points"], nearest, strict=True))[:50]:
        distances = [math.dist(point, centre) for centre in arrays["centres"]]
        assert distances[label] == min(distances)


def test_photograph_finds_edges_but_not_everywhere() -> None:
    toned, edges = results("photograph", small_inputs("photograph"))
    assert toned.dtype == np.uint8
    assert 0.05 < edges.mean() < 0.6


@pytest.mark.parametrize(
    ("suffix", "text"),
    [(".csv", "length,width\n1,10\n2,30\n3,20\n"), (".txt", "1 10\n2 30\n3 20\n"), (".npy", "")],
)
def test_table_reads_the_users_file(tmp_path: Path, suffix: str, text: str) -> None:
    path = tmp_path / f"data{suffix}"
    expected = np.array([[1.0, 10.0], [2.0, 30.0], [3.0, 20.0]])
    if suffix == ".npy":
        np.save(path, expected)
    else:
        path.write_text(text)
    module = load("table")
    table = module.inputs(path=path)["table"]
    assert np.array_equal(table, expected)
    score, correlation, outliers = module.main(table)
    np.testing.assert_allclose(np.diag(correlation), 1.0)
    np.testing.assert_allclose(correlation[0, 1], 0.5)
    assert score.shape == (3,)
    assert outliers == 0
