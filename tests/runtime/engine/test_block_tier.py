"""What runs without a program: requests block by block, with NumPy's values, warnings and errors.

Random programs of many requests over arrays that take several blocks, on one thread and on two; and
one value for inexact operations, whichever tier computes them and however the result is read.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import npaccel
from npaccel import _native
from npaccel.ir.mathematics import MATHEMATICS
from npaccel.ir.ops import OPS

ROWS, COLUMNS = 61, 1543  # 94,123 elements: no multiple of a block, of a vector or of two threads
# Rows of a block or more, rows that share one (in planes, too), and rows that are copied there.
SHAPES = ((ROWS, COLUMNS), (307, 311), (5, 131, 143), (17, 6, 7, 131), (983, 97), (1501, 61))
DTYPES = ("f8", "f4", "f2", "c16", "i8", "i2", "u1", "?", ">f8")


@pytest.fixture(autouse=True)
def no_compiler(setting) -> None:
    setting("tiering", "off")
    setting("backend", "auto")


@pytest.fixture(params=[1, 2])
def threads(request, setting) -> int:
    setting("threads", request.param)
    return int(request.param)


def start(dtype: str, seed: int, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    values = np.random.default_rng(seed).uniform(-3.0, 3.0, shape)
    if dtype == "c16":
        return values + 1j * values[::-1]
    with np.errstate(all="ignore"):
        return values.astype(dtype) if dtype != "?" else values > 0.5


class Program:
    """Random requests on some arrays; the same for each class of arrays that it is given."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def pick(self, *choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def run(self, arrays: list[Any]) -> list[Any]:
        """The arrays after some 30 requests, and what was folded on the way."""
        live, folded = list(arrays), []
        for _ in range(30):
            step = self.pick(*[self.combine] * 5, *[self.write] * 3, self.choose, self.move,
                             self.convert, self.fold)  # fmt: skip
            made = step(live)
            if step == self.fold:
                folded.append(made)
            elif made is not None:
                live[int(self.rng.integers(len(live)))] = made
        return live + folded

    def operand(self, live: list[Any]) -> Any:
        x = self.pick(*live)
        return self.pick(x, x, x, x[:1], x[:, 5:6], x[..., 5:6], x[-1], 3)

    def combine(self, live: list[Any]) -> Any:
        x = self.pick(*live)
        if self.rng.random() < 0.3:
            return (
                self.pick(np.negative, np.positive, np.square, np.conjugate)(x)
                if x.dtype != "?"
                else ~x
            )
        operation = self.pick(np.add, np.multiply, np.maximum, np.minimum, np.less, np.equal,
                              np.logical_and, np.not_equal)  # fmt: skip
        return operation(x, self.operand(live))

    def write(self, live: list[Any]) -> None:
        x = self.pick(*live)
        value = self.pick(*live)
        where = self.pick(np.s_[:], np.s_[1:, :], np.s_[::2, ::3], np.s_[::-1, 5:], np.s_[4:9, 1],
                          np.s_[..., 1:-1], np.s_[1:-1, ..., :-2])  # fmt: skip
        kind = self.rng.random()
        if kind < 0.4:
            np.copyto(x[where], value[where] * 1, casting="unsafe")
        elif kind < 0.6:
            mask = x[where] != value[where]
            np.add(x[where], value[where], out=x[where], where=mask, casting="unsafe")
        else:  # may overlap what it reads
            shifted = self.pick(x, value)
            here, there = self.pick(
                (np.s_[1:, 1:], np.s_[:-1, :-1]), (np.s_[..., 2:], np.s_[..., 1:-1])
            )
            np.add(x[here], shifted[there], out=x[here], casting="unsafe")

    def choose(self, live: list[Any]) -> Any:
        x, y = self.pick(*live), self.pick(*live)
        return np.where(x > self.operand(live), x, y)

    def move(self, live: list[Any]) -> Any:
        x = self.pick(*live)
        return self.pick(
            lambda: np.ascontiguousarray(x.T).T * 1,
            lambda: np.concatenate([x[9:], x[:9]]),
            lambda: x[:, ::-1] + x,
            lambda: np.roll(x, 3, axis=1),
            lambda: x[np.arange(len(x))[::-1]],
        )()

    def convert(self, live: list[Any]) -> Any:
        return self.pick(*live).astype(self.pick(*DTYPES[:2], *DTYPES[3:6], DTYPES[8]))

    def fold(self, live: list[Any]) -> Any:
        x = self.pick(*live)
        return self.pick(np.max, np.min, np.any, np.count_nonzero, np.argmax)(
            x, axis=self.pick(None, 0, 1)
        )


@pytest.mark.parametrize("seed", range(72))
def test_programs(seed: int, threads: int) -> None:
    shape = SHAPES[seed % len(SHAPES)]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        plain = [start(Program(seed + k).pick(*DTYPES), seed + k, shape) for k in range(4)]
        ours = [npaccel.asarray(x.copy()) for x in plain]
        want, found = Program(seed).run(plain), Program(seed).run(ours)
        npaccel.evaluate()
    for i, (x, y) in enumerate(zip(found, want, strict=True)):
        a, b = np.asarray(x), np.asarray(y)
        assert (a.dtype, a.shape, a.strides) == (b.dtype, b.shape, b.strides), i
        assert np.array_equal(a, b, equal_nan=a.dtype.kind in "fc"), i


def told(program: Callable[[Any], Any], x: Any) -> list[tuple[str, int]]:
    """Texts and lines of the warnings of a program and of its evaluation."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = program(x)
        npaccel.evaluate()
        np.asarray(result)
    return sorted((str(w.message), w.lineno) for w in caught)


def a_few_that_warn(x: Any) -> Any:
    a = x * 2.0
    b = 1.0 / a  # a zero in one block
    c = b * 1e308  # infinite in another
    d = np.sqrt(c - 3.0)
    e = np.log(a)
    return (d + e) * 0.5


@pytest.mark.parametrize("place", [0, 7, 40_000, 94_122])
def test_each_request_warns_at_its_line(place: int, threads: int) -> None:
    x = np.random.default_rng(place).uniform(1.0, 2.0, ROWS * COLUMNS)
    assert told(a_few_that_warn, x) == told(a_few_that_warn, npaccel.asarray(x.copy()))
    for value in (0.0, -1e-9, 1e300, -0.5, np.nan, np.inf):
        y = x.copy()
        y[place] = value
        assert told(a_few_that_warn, npaccel.asarray(y.copy())) == told(a_few_that_warn, y), value


@pytest.mark.pending
def test_an_error_comes_from_its_operation_and_the_rest_is_done(deferred, setting, threads) -> None:
    setting("tiering", "off")
    x = np.ones(ROWS * COLUMNS)
    x[70_000] = 0.0
    with np.errstate(divide="raise"):
        ours = npaccel.asarray(x.copy())
        before = ours + 1.0
        with pytest.raises(FloatingPointError, match="divide by zero encountered in divide"):
            npaccel.evaluate(3.0 / ours)
        after = ours * 2.0
    assert np.array_equal(before, x + 1.0) and np.array_equal(after, x * 2.0)


SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, -2.5, np.inf, -np.inf, np.nan, -np.nan, 5.0, 1e-30]


def values(dtype: str, seed: int) -> np.ndarray[Any, Any]:
    x = np.random.default_rng(seed).uniform(0.1, 3.0, 20_011)
    x[100 : 100 + 5 * len(SPECIAL)] = np.repeat(SPECIAL, 5) if seed else np.tile(SPECIAL, 5)
    x[::401] *= -1.0
    with np.errstate(all="ignore"):
        return x.astype(dtype)


def each_use(name: str) -> Iterator[Callable[..., Any]]:
    """Ways of calling a function: operands that move, stand still, or lie apart."""
    if getattr(np, name).nin == 1:
        yield lambda f, x, y: f(x)
        yield lambda f, x, y: f(x[::3])
        yield lambda f, x, y: f(x[:20_000].reshape(100, 200).T)
        return
    yield lambda f, x, y: f(x, y)
    yield lambda f, x, y: f(x[::-1], y)
    for number in (0.7, 0.5, 2.0, 3.0, -1.0, 9.0) if "power" in name else (0.7,):
        yield lambda f, x, y, number=number: f(x, x.dtype.type(number))
        yield lambda f, x, y, number=number: f(x.dtype.type(number), x)
    yield lambda f, x, y: f(x[:20_000].reshape(200, 100), y[:200, None])


COMPUTED = [op for op in MATHEMATICS if op.body is not None]
REAL = {op.name for op in COMPUTED if op.kinds == "f"}
EXACT = {op.name for op in OPS if op.ahead}
LOOPS = [(op.name, kind + size) for op in COMPUTED for kind, size in
         itertools.product(op.kinds, ("2", "4", "8", "16"))
         if kind + size in ("f2", "f4", "f8", "c8", "c16")]  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize("threads", [pytest.param(1, marks=pytest.mark.slow), 2], indirect=True)
@pytest.mark.parametrize(("name", "dtype"), LOOPS)
def test_one_value_whatever_computes_it(name: str, dtype: str, setting, threads) -> None:
    """Blocks, a touch, a kernel (of the first use; in slow tests of each); NaNs and their signs."""
    function = getattr(np, name)
    x, y = values(dtype, 0), values(dtype, 1)
    blocks, compiled = (("off", False), ("off", True)), (("eager", False),)
    for number, use in enumerate(each_use(name)):
        found = []
        for tiering, touched in blocks + compiled * (number == 0 or threads == 1):
            setting("tiering", tiering)
            with np.errstate(all="ignore"):
                result = use(function, npaccel.asarray(x.copy()), npaccel.asarray(y.copy()))
                if not touched:
                    npaccel.evaluate(result)
                found.append(np.array(np.asarray(result)).tobytes())
        assert len(set(found)) == 1


SUMS: list[Callable[[Any, Any], Any]] = [
    lambda mask, x: mask.sum(),
    lambda mask, x: (x > 0.3).sum(axis=0),
    lambda mask, x: mask.sum(axis=-1),
    lambda mask, x: mask[..., ::-1].sum(dtype=np.uint64),
    lambda mask, x: mask.sum(dtype=np.int32),
    lambda mask, x: np.add.reduce(mask, axis=None, initial=5),
    lambda mask, x: mask.sum(where=x > 0.5),
    lambda mask, x: np.bitwise_xor.reduce(mask, axis=None, dtype=np.int64),
]


@pytest.mark.parametrize("fold", SUMS)
@pytest.mark.parametrize("shape", [(1,), (7,), (100_003,), *SHAPES[1:4]])
def test_sums_of_bools(deferred, fold: Callable[[Any, Any], Any], shape: tuple[int, ...]) -> None:
    """Bytes that are neither 0 nor 1 count once, as they do where NumPy casts them."""
    x = np.random.default_rng(1).random(shape)
    for mask in (x < 0.5, np.floor(4 * x).astype(np.uint8).view(np.bool_)):
        want = fold(mask != 0, x)
        found = npaccel.evaluate(fold(npaccel.asarray(mask), npaccel.asarray(x)))
        assert np.asarray(found).dtype == np.asarray(want).dtype
        np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("source", ["f2", "f4", "f8"])
@pytest.mark.parametrize("target", ["u4", "u8"])
def test_casts_to_unsigned_integers(deferred, source: str, target: str) -> None:
    """Where NumPy has one answer: down to the least i4, and for u8 up to the largest."""
    values = [-0.5, -1.5, -60000.0, 3.75] if source == "f2" else [-0.5, -1.5, -2.0e9, 4.0e9]
    values += [1.0e19, 1.5e19, 2.0**63, -9.0e18] if target == "u8" and source != "f2" else []
    for value in values:
        for x in (np.full(1000, value, source), np.full((1000, 3), value, source)[:, 1]):
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # NumPy has none
                want = x.astype(target)
                found = npaccel.evaluate(npaccel.asarray(x).astype(target))
            np.testing.assert_array_equal(found, want)


@pytest.mark.pending
@pytest.mark.room
def test_what_is_dead_takes_no_memory(deferred, setting) -> None:
    """Of ten arrays only the last is ever written."""
    setting("tiering", "off")
    n = 4 << 20
    x = npaccel.asarray(np.ones(n))
    npaccel.evaluate(x + 1.0)

    def resident() -> int:
        with open("/proc/self/status") as status:
            (line,) = [line for line in status if line.startswith(("VmHWM", "VmHWM:"))]
        return int(line.split()[1]) << 10

    y = x
    for _ in range(10):
        y = y * 1.5 + 1.0
    before = resident()
    npaccel.evaluate(y)
    assert resident() - before < 3 * n * 8
    assert y[3] == y[n - 1]
    del y


# Prints a digest of each operation's results, by the level that is the first argument.
DIGESTS = """
import hashlib, sys
import numpy as np
import npaccel
from npaccel import _native
_native.primitives(*sys.argv[1:2])
npaccel.config.tiering, npaccel.config.threshold = "off", 0
rng = np.random.default_rng(5)
special = [0.0, -0.0, 1.0, -1.0, 0.5, np.inf, -np.inf, 1e300, 1e-300, 709.9, -745.0, 5e-324]
wide = np.concatenate([rng.uniform(-4, 4, 9000), 10.0 ** rng.uniform(-40, 40, 9000), special])
other = rng.permutation(wide)
with np.errstate(all="ignore"):
    for name in sys.argv[2:]:
        for dtype in {"divide": "dFD", "floor_divide": "fdi", "fmod": "fdi"}.get(name, "efd"):
            f, x, y = getattr(np, name), wide.astype(dtype), other.astype(dtype)
            x, y = (x, y) if dtype not in "FD" else (x + x.dtype.type(1j) * y, y - 1)
            ours = npaccel.asarray(x)
            if f.nin == 1:
                results = [f(ours)]
            else:
                results = [f(ours, y), f(ours, x.dtype.type(0.7)), f(ours, x.dtype.type(0.5)),
                           f(ours, x.dtype.type(3)), f(x.dtype.type(0.7), ours)]
            for result in results:
                result = np.array(result)
                if result.dtype.kind in "fc":
                    result[np.isnan(result)] = np.nan
                print(name, dtype, hashlib.md5(result.tobytes()).hexdigest())
"""


def digests(level: str) -> list[str]:
    command = [sys.executable, "-c", DIGESTS, level, *sorted(REAL | EXACT)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.mark.pending
def test_all_levels_have_the_same_bits() -> None:
    level, count = _native.primitives()
    if level != "v4":
        pytest.skip("there is one level for this processor")
    best, other = digests("v4"), digests("v3")
    assert best == other and count > len(best)


@pytest.mark.pending
def test_without_primitives_loops_are_numpys(setting) -> None:
    """On processors for which none are shipped."""
    none = digests("")
    assert len(none) > 3 * len(REAL)
    here = digests(_native.primitives()[0])
    exact = [line.split()[0] in EXACT for line in none]
    assert none != here
    assert [*itertools.compress(none, exact)] == [*itertools.compress(here, exact)]
    with pytest.raises(ValueError, match="no primitives 'v9' here"):
        _native.primitives("v9")


@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "f8", "c16"])
def test_copies_that_are_shifted_by_less_than_a_vector(dtype: str) -> None:
    """Both arrays begin a page."""
    n = 3 << 17
    with npaccel.accelerate(min_size=0):
        x = np.arange(n).astype(dtype)
        for shift in {1, 2, 31 // x.itemsize, 32 // x.itemsize, 40 // x.itemsize} - {0}:
            for many in (n - shift, 2048 // x.itemsize + 3, 9):
                y = np.zeros(n, dtype)
                y[shift : shift + many] = x[:many]
                expected = np.zeros(n, dtype)
                expected[shift : shift + many] = np.arange(many).astype(dtype)
                np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize(
    ("dtype", "count"),
    [("u1", 200), *((dtype, 30_011) for dtype in ("i2", "i4", "u8", "f4", "f8"))],
)
def test_ranges_of_each_type(dtype: str, count: int, threads: int) -> None:
    expected = np.arange(3, 3 + count, dtype=dtype)
    with npaccel.accelerate(min_size=0):
        made = np.arange(3, 3 + count, dtype=dtype)
        twice = made + made
    assert made.dtype == expected.dtype
    assert made.tobytes() == expected.tobytes()
    assert twice.tobytes() == (expected + expected).tobytes()


@pytest.mark.parametrize("arrays", ["xy", "x", "y", ""])
def test_complex_numbers_where_a_mask_says(arrays: str, threads: int) -> None:
    """Of each mask, of two arrays, of one and a number, and of two numbers."""
    values = start("c16", 7, (ROWS, COLUMNS))
    mask = values.real > 0.5
    x = values if "x" in arrays else 1j
    y = values[::-1].copy() if "y" in arrays else 2.5
    expected = np.where(mask, x, y)
    with npaccel.accelerate(min_size=0):
        found = np.where(mask, x, y) + 0
    assert np.asarray(found).dtype == expected.dtype
    assert np.asarray(found).tobytes() == (expected + 0).tobytes()
