"""Steps as bytes are the steps."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import npaccel
from npaccel import _native, api
from npaccel.ir.passes import plan
from npaccel.runtime.packed import pack_code, pack_steps
from npaccel.runtime.program import draft
from npaccel.runtime.trace import decode

FAR = 1 << 40


def kernel_step(offset: int = 8) -> tuple[object, ...]:
    words = [5, (0, 1, offset), 8, (1, 0, 1), (2,), 3]
    return (0, words, (5, 1, 1, 1, 3), 64, 24, (1, 2), [1], [2], 80, 40, 2)


def words_of(packed: bytes) -> list[int]:
    width = int.from_bytes(packed[:8], "little")
    return list(memoryview(packed)[8:].cast({4: "i", 8: "q"}[width]))


def test_the_words_of_a_step() -> None:
    grid, sizes = [5, 1, 1, 1, 3], [64, 24, 80, 40, 2]
    plain = [7, 5, 0, 8, 0, 0, 0, 3]  # where the address goes, two words of a scalar, the partials
    patches = [3, 1, 0, 1, 8, 3, 1, 0, 1, 5, 2, 0, 0]
    expected = [2, 4, 1, 9, -1, 0, *grid, *sizes, 2, 1, 2, 1, 1, *plain, *patches, 1, 2]
    assert words_of(pack_steps([(4, [9]), kernel_step()])) == expected


def test_numbers_of_more_than_32_bits() -> None:
    near, far = pack_steps([kernel_step()]), pack_steps([kernel_step(FAR)])
    assert len(far) - 8 == 2 * (len(near) - 8)
    assert [n if n != FAR else 8 for n in words_of(far)] == words_of(near)
    code = pack_code([SimpleNamespace(main=1, finish=0)])
    for packed in (near, far):
        _native.Program(packed, 0, None, "", code)


def test_bytes_that_are_no_steps_are_refused() -> None:
    code = pack_code([SimpleNamespace(main=1, finish=0)])
    good = pack_steps([(4, [9]), kernel_step()])
    for end in range(len(good)):
        with pytest.raises(ValueError, match="not packed steps"):
            _native.Program(good[:end], 0, None, "", code)
    with pytest.raises(ValueError, match="not packed steps"):
        _native.Program(good + bytes(4), 0, None, "", code)
    with pytest.raises(ValueError, match="not packed steps"):
        _native.Program(good, 0, None, "", b"")  # a kernel without code
    with pytest.raises(TypeError, match="bytes and code"):
        _native.Program(good, 0, None, "")


@pytest.mark.pending
@pytest.mark.usefixtures("deferred")
def test_packed_steps_compute_the_same() -> None:
    values = np.linspace(1.0, 2.0, 200_000).reshape(1000, 200)
    expected = (values - values.mean(1, keepdims=True)) * 3.0
    x = npaccel.asarray(values)
    result = (x - x.mean(1, keepdims=True)) * 3.0
    trace = decode(_native.pending())
    engine = api._engine
    recipe, code, _ = draft(trace, plan(trace), engine.kernels.get, engine.threads, {})
    program = _native.Program(pack_steps(recipe.steps), recipe.dropped, code, "", pack_code(code))
    hook = type(engine).__call__
    try:
        type(engine).__call__ = lambda *_: program  # type: ignore[method-assign]
        np.testing.assert_allclose(np.asarray(npaccel.evaluate(result)), expected, atol=1e-13)
    finally:
        type(engine).__call__ = hook  # type: ignore[method-assign]
    assert program.timing[0] == 1
