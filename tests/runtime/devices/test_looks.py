"""Parts of what lies on a device: read, and written, while all of it stays there; what comes home
instead is counted and told, with line and reason."""

from __future__ import annotations

import ctypes
import inspect

import numpy as np
import pytest
from own_memory import DEVICE, NUMBERED

import npaccel
from npaccel.observe.explain import Home

pytestmark = [pytest.mark.pending, pytest.mark.usefixtures("device")]
ROWS, COLUMNS = 600, 250  # of 8 bytes: 1.2 MB
ALL = ROWS * COLUMNS * 8


@pytest.fixture(autouse=True)
def own_memory(setting):
    """A device with memory of its own; arrays of 64 KiB and more are recorded."""
    npaccel.evaluate()
    for name, value in (
        ("tiering", "eager"),
        ("check", "off"),
        ("backend", "auto"),
        ("guard", "on"),
        ("device_memory", 1 << 24),
        ("threshold", 1 << 16),
    ):
        setting(name, value)
    yield
    npaccel.evaluate()
    setting("device_memory", 1)  # nothing stays there for reuse


def plain() -> np.ndarray:
    return np.random.default_rng(5).random((ROWS, COLUMNS)) * 2.0


def there() -> npaccel.Array:
    """The same, computed on the device."""
    source = np.random.default_rng(5).random((ROWS, COLUMNS))
    y = npaccel.evaluate(npaccel.asarray(source, device=NUMBERED) * 2.0)
    npaccel.stats(reset=True)
    return y


def moved() -> int:
    return npaccel.stats()["downloaded_bytes"]


def still_there(y) -> bool:
    """Whether the next kernel finds it on the device. Has it run there."""
    npaccel.stats(reset=True)
    npaccel.evaluate(y + 1.0)
    counts = npaccel.stats()
    assert counts["kernels_by_backend"][DEVICE] == 1
    return counts["uploaded_bytes"] == 0


READS = {
    "an element": (lambda y: y[3, 4] + 1, 8),
    "a negative index": (lambda y: y[-1, -1], 8),
    "a number": (lambda y: float(y[3, 4]), 8),
    "item": (lambda y: y.item(5, 7), 8),
    "a flat item": (lambda y: y.item(-3), 8),
    "a row": (lambda y: y[3] + 1, 8 * COLUMNS),
    "a comparison": (lambda y: y[3] > 1, 8 * COLUMNS),
    "a row's sum": (lambda y: y[3].sum(), 8 * COLUMNS),
    "rows reversed": (lambda y: -y[10:4:-2, ::-3], 8 * 5 * COLUMNS),
    "a sorted row": (lambda y: np.sort(y[3]), 8 * COLUMNS),
    "a median of a row": (lambda y: np.median(y[3]), 8 * COLUMNS),
    "a product of rows": (lambda y: y[0] @ y[1], 16 * COLUMNS),
    "an index array of a row": (lambda y: y[3][[5, 2]], 8 * COLUMNS),
    "a list": (lambda y: y[3, :4].tolist(), 32),
    "a text": (lambda y: repr(y[3, :4]), 32),
    "the largest": (lambda y: y.max(), 8),
    "sums of columns": (lambda y: y.sum(0), 0),
    "the largest of a column": (lambda y: y[:, 3].max(), 8),
    "the variance": (np.var, 8),
    "where the smallest is": (lambda y: y.argmin(), 8),
    "whether any": (lambda y: (y > 1.99).any(), 1),
    "some rows": (lambda y: y[[5, 2]], 0),
    "some elements": (lambda y: y.take([5, 2, 100000]), 0),
    "a column": (lambda y: y[:, 3] + 1, 0),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("case", READS)
def test_no_more_comes_home_than_is_needed(case) -> None:
    read, most = READS[case]
    y = there()
    found = read(y)
    npaccel.evaluate()
    assert moved() <= most
    assert still_there(y)
    expected = read(plain())
    if isinstance(expected, np.ndarray | np.generic):
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-13, strict=True)
    else:
        assert found == expected and type(found) is type(expected)


WRITES = {
    "an element": lambda y: y.__setitem__((3, 4), 7),
    "a row": lambda y: y.__setitem__(3, np.arange(COLUMNS)),
    "a row from another": lambda y: y.__setitem__(3, y[4]),
    "parts of rows": lambda y: y.__setitem__((slice(9, 3, -2), slice(2, 9)), -1.5),
    "in place": lambda y: y[3].__iadd__(1.0),
    "a row in place": lambda y: exec("y[3] *= 2", {"y": y}),
    "a filled row": lambda y: np.copyto(y[3], 2.5),
}


@pytest.mark.parametrize("case", WRITES)
def test_a_part_is_written_where_it_lies(case) -> None:
    y, expected = there(), plain()
    WRITES[case](y)
    WRITES[case](expected)
    assert moved() <= 4 * 8 * 7 * COLUMNS
    assert still_there(y)
    again = npaccel.evaluate(y * 1.0)  # the device sees it
    np.testing.assert_array_equal(np.asarray(again), expected)
    np.testing.assert_array_equal(np.asarray(y), expected)  # and who has it brought home


def test_views_that_functions_return_show_the_array_itself() -> None:
    y, expected = there(), plain()
    for a in (y, expected):
        np.atleast_2d(a[3])[0, 2] = 5.0
        np.squeeze(a[4:5])[1] = 6.0
        np.nan_to_num(a[5], copy=False)[0] = 7.0
        np.broadcast_arrays(a[6], 1.0)[0].sum()
        first, second = np.split(a[7], 2)
        second[0] = 8.0
        first[...] = 9.0
    np.testing.assert_array_equal(np.asarray(y), expected)


def test_functions_that_write_what_overlaps() -> None:
    y, expected = there(), plain()
    for a in (y, expected):
        np.add(a[3, 5:], 1.0, out=a[3, :-5])
        np.copyto(a[4, 1:], a[4, :-1])
        np.put(a[5], [1, 2], [3.0, 4.0])
        a[6].sort()
        a[7].partition(5)
        np.cumsum(a[8], out=a[8])
        np.divmod(a[9], 0.3, out=(a[9], a[10]))
    np.testing.assert_array_equal(np.asarray(y), expected)


ERRORS = {
    "an index": lambda y: y[ROWS, 0],
    "an item": lambda y: y.item(ROWS * COLUMNS),
    "an item of three": lambda y: y.item(1, 2, 3),
    "no item": lambda y: y.item(),
    "a text as index": lambda y: y["a"],
    "a text as value": lambda y: y.__setitem__((0, 0), "x"),
    "a row of another length": lambda y: y.__setitem__(0, np.zeros(3)),
    "a sum of other lengths": lambda y: y[0] + np.zeros(3),
    "a truth": lambda y: bool(y[0]),
    "a number of many": lambda y: float(y[0]),
    "a cast in place": lambda y: y[0].__iadd__(1j),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_are_numpys(case) -> None:
    with pytest.raises(Exception) as expected:
        ERRORS[case](plain())
    y = there()
    with pytest.raises(expected.type) as found:
        ERRORS[case](y)
    assert str(found.value) == str(expected.value)
    np.testing.assert_array_equal(np.asarray(y), plain())


def test_a_read_only_array_stays_so() -> None:
    y = there()
    y.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        y[0, 0] = 1.0
    assert y[0, 0] == plain()[0, 0]


def test_what_waits_reads_what_was_there() -> None:
    y, expected = there(), plain()
    z = y * 3.0  # pending: reads y
    y[3, 4] = 100.0
    np.testing.assert_array_equal(np.asarray(z), expected * 3.0)
    expected[3, 4] = 100.0
    np.testing.assert_array_equal(np.asarray(y), expected)


def test_who_looks_again_and_again_has_all_of_it_brought_home() -> None:
    y, expected = there(), plain()
    for i in range(ROWS):
        assert y[i, 1] == expected[i, 1]
    assert npaccel.stats()["downloads"] < ALL // (1 << 16) + 3
    assert moved() < 2 * ALL


def test_what_comes_home_is_told_with_line_and_reason() -> None:
    y = there()
    line = inspect.currentframe().f_lineno
    np.linalg.norm(y)
    z = there()
    npaccel.stats(reset=True)
    text = repr(z[0])
    memoryview(z)  # and now all of it
    homes = npaccel.explain().brought_home
    site = f"{__file__}:{line + 4}"
    assert Home(NUMBERED, "a part, read while the array stays there", site, 1, 2000) in homes
    site = f"{__file__}:{line + 5}"
    assert Home(NUMBERED, "all of it, to be read", site, 1, ALL) in homes or (
        Home(NUMBERED, "all of it, to be written", site, 1, ALL) in homes
    )
    told = str(npaccel.explain())
    assert "Came from devices to the host:" in told and f"1.1 MiB from {NUMBERED}" in told
    assert npaccel.stats()["looks"] == 1 and "array(" in text
    npaccel.stats(reset=True)
    assert npaccel.explain().brought_home == ()


def test_a_read_through_a_pointer_is_told() -> None:
    y = there()
    plainly = np.ndarray.view(y, np.ndarray)  # no hook
    npaccel.stats(reset=True)
    assert ctypes.c_double.from_address(plainly.__array_interface__["data"][0]).value > 0
    (home,) = npaccel.explain().brought_home
    assert home.bytes == 1 << 16 and home.reason == "a part, its memory was read directly"
    plainly[0, 0] = 7.0  # no hook, either
    homes = {home.reason: home.bytes for home in npaccel.explain().brought_home}
    assert homes["all of it, its memory was read directly"] == ALL - home.bytes
    assert y[0, 0] == 7.0 and np.array_equal(np.asarray(y).flat[1:], plain().flat[1:])


def test_what_is_numpys_at_once_has_it_brought_home() -> None:
    """Underflow that is asked for has no kernel; nor has a call with other arguments."""
    y = there()
    with np.errstate(under="warn"):
        found = np.exp(y)
    np.testing.assert_array_equal(np.asarray(found), np.exp(plain()))
    assert np.array_equal(np.asarray(np.add(there(), 1.0, dtype="f4", casting="unsafe")),
                          np.add(plain(), 1.0, dtype="f4", casting="unsafe"))  # fmt: skip


def test_what_a_call_reads_of_what_it_writes_is_no_copy():
    """The end of `out` is what the call itself has written at its begin."""
    n = ROWS * COLUMNS
    a, b = np.arange(float(n)), -np.arange(float(n))
    x, y = (npaccel.evaluate(npaccel.asarray(v, device=NUMBERED) * 2.0) for v in (a, b))
    a, b = a * 2.0, b * 2.0
    np.concatenate([y[5:], x[:5]], out=x)
    np.concatenate([b[5:], a[:5]], out=a)
    np.testing.assert_array_equal(np.asarray(x), a)
