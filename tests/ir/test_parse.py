"""A kernel's text is read back as the kernel that it shows."""

from __future__ import annotations

import contextlib
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_plan_random import programs
from traces import Recorder

from npaccel.errors import VerifyError
from npaccel.ir.nodes import (
    ArrayParam,
    Flag,
    FlagKind,
    Fold,
    Kernel,
    KernelStep,
    Leaf,
    Reduce,
    RowParam,
    Store,
    StoreRow,
    StoreScratch,
    Stride,
)
from npaccel.ir.parse import parse_kernel, parse_trace
from npaccel.ir.passes import plan
from npaccel.ir.scalar import Core, Pool, Value
from npaccel.ir.text import body_text, kernel_text, trace_text

HEAD = "band 0 inner 1 slots 0"


def everything() -> Kernel:
    """A kernel with each kind of line; it is never run."""
    pool = Pool()
    x, y = pool.load("f8", 0), pool.gather("f8", 1, pool.index(0))
    constants: list[tuple[str, Value]] = [
        ("f8", math.nan),
        ("f8", math.copysign(math.nan, -1)),
        ("f4", -math.inf),
        ("f8", -0.0),
    ]
    constants += [("f8", 1e-300), ("i8", -(2**63)), ("u8", 2**64 - 1), ("b1", True)]
    constants += [("c16", -1.5e-9 - 2.5e300j), ("c8", complex(math.nan, -0.0))]
    made = tuple(StoreScratch(k, pool.const(*c)) for k, c in enumerate(constants))
    mask = x < pool.scalar("f8", 0)
    leaves = (
        Leaf(False, (*made, Reduce(0, Fold.SUM, y, mask), Reduce(1, Fold.ARGMIN, x))),
        Leaf(True, (StoreRow(0, pool.row("f8", 0).unary(Core.SQRT)),)),
        Leaf(
            False,
            (
                Store(2, x * y, mask),
                Store(2, x, mask, pool.index(1)),
                Store(2, y, None, pool.index(2)),
            ),
            (mask,),
            (Flag(0, FlagKind.OVER, mask),),
        ),
    )
    arrays = (
        ArrayParam("f8", Stride.UNIT, read=True, written=False),
        ArrayParam("f8", Stride.ZERO, read=True, written=False, gathered=True),
        ArrayParam("f8", Stride.ANY, False, True, band_only=True, nontemporal=True),
    )
    rows, scratch = (RowParam("f8"), RowParam("i8")), tuple(dtype for dtype, _ in constants)
    sizes = {"vector_band": True, "split": True, "slots": 1}
    return Kernel("k_1", 2, 1, arrays, ("f8", "i4"), rows, scratch, leaves, **sizes)


def test_every_kind_of_line_is_read() -> None:
    kernel = everything()
    assert kernel_text(parse_kernel(kernel_text(kernel))) == kernel_text(kernel)
    assert parse_kernel(body_text(kernel)).name == ""
    assert " -nan" in kernel_text(kernel)  # of another sign, it is another kernel


@settings(max_examples=60, deadline=None)
@given(programs())
def test_planned_kernels_are_read(r: Recorder) -> None:
    for step in plan(r.trace()).steps:
        if isinstance(step, KernelStep):
            found = parse_kernel(kernel_text(step.kernel))
            assert kernel_text(found) == kernel_text(step.kernel)
            assert found.name == step.kernel.name


@settings(max_examples=200, deadline=None)
@given(programs())
def test_traces_are_read(r: Recorder) -> None:
    text = trace_text(r.trace())
    assert trace_text(parse_trace(text)) == text


@settings(max_examples=100, deadline=None)
@given(programs(), st.data())
def test_a_spoilt_trace_is_refused_or_another_one(r: Recorder, data: st.DataObject) -> None:
    text = trace_text(r.trace())
    at = data.draw(st.integers(0, len(text) - 1))
    spoilt = text[:at] + data.draw(st.sampled_from(["", "7", " ", "x", ",", "]"])) + text[at + 1 :]
    with contextlib.suppress(VerifyError):
        assert parse_trace(spoilt) is not None


@pytest.mark.parametrize(
    "text",
    ["", "band 0", f"{HEAD}\n  q0 f8", f"{HEAD}\n  leaf\n    jump %1"],
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(VerifyError, match="text: no"):
        parse_kernel(text)
