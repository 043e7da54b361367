"""What `explain(x).ir` shows is read back, checked, and run on other data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import npaccel
from npaccel import _native
from npaccel.errors import VerifyError

pytestmark = pytest.mark.skipif(not _native.guarded(), reason="nothing is recorded")

N = 40_000


def listed(compute: Any, *arrays: Any) -> tuple[Any, Any]:
    """The listing of what this computes of these arrays, and its value."""
    result = compute(*map(npaccel.asarray, arrays))
    return npaccel.parse_ir(npaccel.explain(result).ir), np.asarray(result)


def operands(seed: int = 0) -> tuple[Any, Any]:
    draw = np.random.default_rng(seed)
    return draw.random(N), draw.random(N) + 1


CASES: dict[str, Any] = {
    "map": lambda x, y: (x * 2.0 + y) / (y - 0.5),
    "shifts": lambda x, y: 0.5 * (x[2:] + x[:-2]) - y[1:-1],
    "backwards": lambda x, y: x[::-1] * 2 + y[::-1],
    "mask": lambda x, y: np.where(x > 0.5, x, y),
    "integers": lambda x, y: (x * 100).astype("i8") // 7 + 3,
    "scan": lambda x, y: np.cumsum(x.reshape(200, 200), axis=0) * 2.0,
    "columns": lambda x, y: (x * 2.0).reshape(200, 200).max(axis=1),
    "truth": lambda x, y: (x > y) | (x < 0.25),
    "scalars": lambda x, y: x * -0.0 + np.inf - np.minimum(y, np.float32(2.5)),
    "complex": lambda x, y: (x * 1j + y) * (2 - 0.5j),
}


@pytest.mark.parametrize("backend", [None, "numpy", "llvm"])
@pytest.mark.parametrize("name", CASES)
def test_it_gives_what_it_was_made_of(name: str, backend: str | None) -> None:
    compute = CASES[name]
    found, expected = listed(compute, *operands())
    found.verify()
    for seed in (0, 1):
        given = operands(seed)
        used = given if len(found.inputs) == 2 else given[: len(found.inputs)]
        with np.errstate(all="ignore"):
            want = np.asarray(compute(*given))
        got = found.run(*used, backend=backend)
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        assert np.array_equal(got, want, equal_nan=True)
    assert np.array_equal(expected, compute(*operands()), equal_nan=True)


def test_an_operation_changed_by_hand() -> None:
    found, _ = listed(lambda x, y: x * 2.0 + y, *operands())
    changed = npaccel.parse_ir(found.text.replace("map add.f8", "map subtract.f8"))
    x, y = operands(5)
    assert np.array_equal(changed.run(x, y), x * 2.0 - y)
    assert "2 operations" in repr(changed)


def test_what_is_wrong_is_told() -> None:
    found, _ = listed(lambda x, y: x * 2.0 + y, *operands())
    x, y = operands()
    with pytest.raises(VerifyError, match="2 buffers hold inputs, 1 arrays"):
        found.run(x)
    with pytest.raises(VerifyError, match="has 320000 bytes"):
        found.run(x, y[:-1])
    with pytest.raises(VerifyError, match="no line of a trace"):
        npaccel.parse_ir("run nothing")
    with pytest.raises(VerifyError):
        npaccel.parse_ir(found.text.replace(" over (40000)", " under (40000)"))
    with pytest.raises(VerifyError):
        npaccel.parse_ir(found.text.replace("over (40000)", "over (50000)")).run(x, y)
    with pytest.raises(VerifyError, match="another one"):
        npaccel.parse_ir(found.text.replace("mul.f8", "add.f8")).verify()
