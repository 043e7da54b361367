"""Steps as bytes are the steps."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from steps import unpack_steps, words_of

import npaccel
from npaccel import _native, this_process
from npaccel.ir.passes import plan
from npaccel.runtime.programs.program import assemble, draft
from npaccel.runtime.programs.trace import decode
from npaccel.runtime.programs.wire_format import Elsewhere, Step, pack_code, pack_steps

FAR = 1 << 40


def kernel_step(offset: int = 8) -> Step:
    grid, sizes = (5, 1, 1, 1, 3), (64, 24, 80, 40)
    return Step(0, grid, sizes, [5], [1, offset, 8], 2, [0, 1], [1, 2], [1], [2], uses=[17])


def test_the_words_of_a_step() -> None:
    arguments = [1, 1, 5, 1, 8, 8, 0, 1]  # one extent, one array, one scalar
    expected = [
        2,
        4,
        1,
        9,
        -1,
        0,
        2,
        1,
        5,
        1,
        1,
        1,
        3,
        64,
        24,
        80,
        40,
        *arguments,
        2,
        1,
        2,
        1,
        1,
        0,
        1,
        17,
    ]
    assert words_of(pack_steps([(4, [9]), kernel_step()])) == [*expected, 0, 1, 2]
    there = Elsewhere(3, 0, (16, 1), 32, [(1, True, False, True, 8, 48)], (1, 0, 4))
    steps = [(4, [9]), kernel_step()._replace(elsewhere=there)]
    further = [3, 0, 16, 1, 32, 1, 0, 4, 1, 1, 1, 0, 1, 8, 48, 1, 2]
    assert words_of(pack_steps(steps)) == expected + further
    assert unpack_steps(pack_steps(steps)) == steps
    around = [kernel_step()._replace(wraps=[0, 0, 0, 1, -40])]
    assert words_of(pack_steps(around))[-11:] == [1, 0, 0, 0, 1, -40, 1, 17, 0, 1, 2]
    assert unpack_steps(pack_steps(around)) == around


def test_numbers_of_more_than_32_bits() -> None:
    near, far = pack_steps([kernel_step()]), pack_steps([kernel_step(FAR)])
    assert len(far) - 8 == 2 * (len(near) - 8)
    assert [n if n != FAR else 8 for n in words_of(far)] == words_of(near)
    code = pack_code([SimpleNamespace(main=1, finish=0)])
    for packed in (near, far):
        _native.Program(packed, 0, None, "", code)


@pytest.mark.parametrize(
    "wrap", [(1, 0, 1), (0, 1, 1), (0, 0, 0), (0, 0, 5), (-1, 0, 1), (0, -1, 1)]
)
def test_a_wrap_that_cannot_be_is_refused(wrap: tuple[int, int, int]) -> None:
    code = pack_code([SimpleNamespace(main=1, finish=0)])
    _native.Program(pack_steps([kernel_step()._replace(wraps=[0, 0, 0, 1, 8])]), 0, None, "", code)
    with pytest.raises(ValueError, match="not packed steps"):
        packed = pack_steps([kernel_step()._replace(wraps=[0, *wrap, 8])])
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
    with pytest.raises(ValueError, match="not packed steps"):
        _native.Program(good, 0, None, "")
    with pytest.raises(TypeError, match="bytes are needed"):
        _native.Program([(4, [9])], 0, None, "")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "there", [Elsewhere(-1), Elsewhere(99), Elsewhere(1, 0), Elsewhere(1, -2)], ids=str
)
def test_owners_and_devices_that_there_are_not_are_refused(there: Elsewhere) -> None:
    code = pack_code([SimpleNamespace(main=1, finish=0)])
    packed = pack_steps([kernel_step()._replace(elsewhere=there)])
    with pytest.raises(ValueError, match="not packed steps"):
        _native.Program(packed, 0, None, "", code)
    with pytest.raises((TypeError, ValueError)):
        _native.Program(packed, 0, None, "", code, (1,))  # type: ignore[arg-type]


@pytest.mark.pending
@pytest.mark.usefixtures("deferred")
def test_packed_steps_compute_the_same() -> None:
    values = np.linspace(1.0, 2.0, 200_000).reshape(1000, 200)
    expected = (values - values.mean(1, keepdims=True)) * 3.0
    x = npaccel.asarray(values)
    result = (x - x.mean(1, keepdims=True)) * 3.0
    trace = decode(_native.pending())
    engine = this_process.make_engine()
    made = draft(trace, plan(trace), engine.kernels.get, engine.threads, {})
    program = assemble(made.recipe(), made.compiled, "")
    hook = type(engine).__call__
    try:
        type(engine).__call__ = lambda *_: program  # type: ignore[method-assign]
        np.testing.assert_allclose(np.asarray(npaccel.evaluate(result)), expected, atol=1e-13)
    finally:
        type(engine).__call__ = hook  # type: ignore[method-assign]
    assert program.timing[0] == 1
