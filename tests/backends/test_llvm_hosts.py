"""Narrower machines give the same bits; object code is stored, linked and freed; no stray reads."""

import ctypes
import mmap
import re

import llvmlite.binding as llvm
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npaccel import _native
from npaccel.backends.base import Grid, Loaded
from npaccel.backends.launch import run_step
from npaccel.backends.llvm.compile import bind, compile_kernel, emit_image, link_kernel
from npaccel.backends.llvm.printer import write_module, write_source
from npaccel.backends.llvm.target import Host
from npaccel.backends.registry import available, open_backend
from npaccel.errors import BackendUnavailable, CompileError
from npaccel.ir.nodes import Flag, FlagKind, Fold, Leaf, Reduce, RowParam, Store
from npaccel.ir.scalar import Pool

from .support import S, U, Z, check, edge_values, kernel, param

FEATURES = llvm.get_host_cpu_features()


@pytest.fixture(
    scope="module",
    params=[("x86-64-v3", 32, "avx2"), ("x86-64-v2", 16, "sse4.2")],
    ids=lambda p: p[0],
)
def narrow(request):
    cpu, vector_bytes, feature = request.param
    if not FEATURES.get(feature):
        pytest.skip(f"this processor has no {feature}")
    return Host(cpu, vector_bytes)


def _everything(dtype, vector, *, vector_band):
    """Masked store, flags and two reductions of one load, then a row leaf."""
    pool = Pool()
    x, mask = pool.load(dtype, 0), pool.load("b1", 1)
    large = x > 2
    total = Fold.SUM if dtype[0] in "iuf" else Fold.OR
    leaves = [
        Leaf(
            False,
            (Store(2, x, mask), Reduce(0, total, x, mask), Reduce(1, Fold.ARGMAX, x)),
            (large,),
            (Flag(0, FlagKind.OVER, large & mask),),
        ),
        Leaf(True, (Store(3, pool.row(dtype, 0)), Store(4, pool.row("i8", 1)))),
        Leaf(False, (Store(2, pool.load(dtype, 2) + pool.row(dtype, 0), mask),)),
    ]
    band = U if vector_band else Z
    return kernel(
        [
            param(dtype, vector),
            param("b1", vector),
            param(dtype, vector, out=True, read=True),
            param(dtype, band, out=True, band_only=True),
            param("i8", band, out=True, band_only=True),
        ],
        leaves,
        rows=(RowParam(dtype), RowParam("i8")),
        band_rank=1,
        slots=1,
        vector_band=vector_band,
    )


def _everything_arrays(dtype, shape, vector, *, vector_band):
    m, n = shape
    step = 1 if vector is U else 2
    arrays = []
    for index, code in enumerate((dtype, "b1", dtype)):
        base = edge_values(code, m * n * step, index)
        base = base.reshape((n, m * step) if vector_band else (m, n * step))
        base = base[:, ::step]
        arrays.append(base.T if vector_band else base)
    for code in (dtype, "i8"):
        band = np.zeros(m, code)
        arrays.append(np.lib.stride_tricks.as_strided(band, shape, (band.itemsize, 0)))
    return arrays


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["i1", "u2", "i8", "f4", "f8"])
@pytest.mark.parametrize("vector", [U, S])
@pytest.mark.parametrize("vector_band", [False, True])
def test_narrow_machines_agree(narrow, dtype, vector, vector_band):
    made = _everything(dtype, vector, vector_band=vector_band)
    compiled = compile_kernel(made, narrow)
    for shape in ((1, 1), (21, 3), (3, 70), (66, 35)):
        arrays = _everything_arrays(dtype, shape, vector, vector_band=vector_band)
        check(narrow, made, shape, arrays, compiled=compiled)


@pytest.mark.parametrize("vector", [U, S])
def test_tails_of_maps_on_narrow_machines(narrow, vector):
    pool = Pool()
    for dtype in ("u1", "f4", "c8"):
        x = pool.load(dtype, 0)
        y = x + x if dtype != "c8" else pool.complex(x.imag(), x.real())
        made = kernel([param(dtype, vector), param(dtype, out=True)], [Leaf(False, (Store(1, y),))])
        for n in (1, 7, 45):
            step = 1 if vector is U else 3
            check(narrow, made, (n,), [edge_values(dtype, n * step)[::step], np.zeros(n, dtype)])


EVERYTHING = {}


@settings(max_examples=60, deadline=None)
@given(
    dtype=st.sampled_from(["i2", "u8", "f4", "f8"]),
    vector=st.sampled_from([U, S]),
    vector_band=st.booleans(),
    shape=st.tuples(st.integers(0, 70), st.integers(1, 1100)),
    step=st.integers(1, 70),
)
def test_any_shape_and_grid(host, dtype, vector, vector_band, shape, step):
    key = (dtype, vector, vector_band)
    if key not in EVERYTHING:
        made = _everything(dtype, vector, vector_band=vector_band)
        EVERYTHING[key] = compile_kernel(made, host)
    compiled = EVERYTHING[key]
    arrays = _everything_arrays(dtype, shape, vector, vector_band=vector_band)
    grid = Grid(shape[0], step, 1, 1)
    check(host, compiled.kernel, shape, arrays, grid=grid, compiled=compiled)


@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("shape", [(0, 5), (1, 1), (3, 100_000), (5000, 7)])
def test_task_grids_cover_the_domain(host, threads, shape):
    pool = Pool()
    leaves = [Leaf(False, (Reduce(0, Fold.SUM, pool.load("f8", 0)),)), Leaf(True, ())]
    for split in (False, True):
        made = kernel([param("f8")], leaves, rows=(RowParam("f8"),), band_rank=1, split=split)
        compiled = compile_kernel(made, host)
        grid = compiled.task_grid(shape, threads)
        assert (grid.n_band, grid.n_inner) == (shape[0], shape[1] if split else 1)
        assert grid.band_step >= 1
        assert grid.inner_step % 32768 == 0 if split else grid.inner_step >= 1
        assert compiled.parts(shape) == (-(-shape[1] // 32768) if split else 0)
        assert compiled.partial_bytes(shape) == 32 * shape[0] * compiled.parts(shape)


def test_tasks_of_a_banded_kernel_have_whole_vectors(host):
    pool = Pool()
    leaves = [Leaf(False, (Reduce(0, Fold.SUM, pool.load("f8", 0)),))]
    fields = {"rows": (RowParam("f8"),), "band_rank": 1, "vector_band": True}
    for split in (False, True):
        compiled = compile_kernel(kernel([param("f8")], leaves, split=split, **fields), host)
        for shape in ((4096, 100_000), (4096, 50)):
            assert compiled.task_grid(shape, 2).band_step % 8 == 0


def _doubling():
    pool = Pool()
    x = pool.load("f8", 0)
    return kernel([param("f8"), param("f8", out=True)], [Leaf(False, (Store(1, x + x),))])


def test_stored_object_code_runs_again(host):
    made = _doubling()
    image, _ = emit_image(made, host)
    linked = link_kernel(made, image, host)
    check(host, made, (100,), [np.arange(100.0), np.empty(100)], compiled=linked)
    backend = open_backend("llvm")
    again = backend.link(made, backend.emit_object(made))
    out = np.empty(9)
    run_step(again, (9,), [np.arange(9.0), out])
    assert out.tolist() == (2 * np.arange(9.0)).tolist()


def test_a_module_has_functions_of_many_kernels(host):
    made = [_doubling(), _everything("f8", U, vector_band=False)]
    names = [("twice",), ("all_of_it",)]
    text = write_module(zip(names, made, strict=True), host.vector_bytes, fence=host.fence)
    image = host.emit_object(text)
    for (name,), one in zip(names, made, strict=True):
        code = _native.Code(image, (name,))
        loaded = Loaded(code.addresses[0], 0, host.vector_bytes, code.size, code)
        arrays = [np.arange(100.0), np.empty(100)]
        extents = (100,)
        if one is made[1]:
            extents, arrays = (3, 70), _everything_arrays("f8", (3, 70), U, vector_band=False)
        check(host, one, extents, arrays, compiled=bind(one, loaded))


def test_dropping_a_kernel_frees_its_code(host):
    image, _ = emit_image(_doubling(), host)
    before = _native.stats()["code_bytes"]
    kept = [link_kernel(_doubling(), image, host) for _ in range(50)]
    assert _native.stats()["code_bytes"] - before == sum(made.library.size for made in kept) > 0
    del kept
    assert _native.stats()["code_bytes"] == before


def test_llvm_s_linker_takes_what_the_loader_refuses(host, monkeypatch):
    """As on a processor whose relocations the loader does not know."""

    def refuse(image, names):
        raise ValueError("the object code was not loaded: a test wants it so")

    monkeypatch.setattr(_native, "Code", refuse)
    made = _doubling()
    linked = link_kernel(made, emit_image(made, host)[0], host)
    check(host, made, (100,), [np.arange(100.0), np.empty(100)], compiled=linked)


def test_the_processor_is_as_llvm_sees_it(host):
    assert _native.cpu()[1] == host.vector_bytes


@pytest.mark.parametrize("dtype", ["b1", "u2", "f4", "f8", "c16"])
def test_nothing_beyond_an_array_is_touched(host, dtype):
    """Arrays that end where a page without access begins."""
    page = mmap.PAGESIZE
    pool = Pool()
    mask = pool.load("b1", 1)
    made = kernel(
        [param(dtype), param("b1"), param(dtype, out=True)],
        [Leaf(False, (Store(2, mask.select(pool.load(dtype, 0), pool.const(dtype, 1))),))],
    )
    compiled = compile_kernel(made, host)
    libc = ctypes.CDLL(None, use_errno=True)
    maps = [mmap.mmap(-1, 2 * page) for _ in range(3)]
    views = [np.frombuffer(m, "u1") for m in maps]
    for view in views:
        assert libc.mprotect(ctypes.c_void_p(view.ctypes.data + page), page, 0) == 0
    try:
        for n in (1, 5, 33, 63):
            codes = (dtype, "b1", dtype)
            arrays = []
            for view, code in zip(views, codes, strict=True):
                size = n * np.dtype(code).itemsize
                arrays.append(view[page - size : page].view(code))
                arrays[-1][...] = 1
            run_step(compiled, (n,), arrays)
            assert (arrays[2] == 1).all()
    finally:
        for view in views:
            libc.mprotect(ctypes.c_void_p(view.ctypes.data + page), page, 3)


@pytest.mark.parametrize(
    ("vector_band", "dtype", "most"),
    [
        (False, "u1", 128),
        (False, "i2", 32),
        (True, "u1", 512),
        (True, "i2", 224),
    ],
)
@pytest.mark.parametrize(("cpu", "vector_bytes"), [("x86-64-v3", 32), ("x86-64-v2", 16)])
def test_masks_that_are_kept_are_not_taken_apart(cpu, vector_bytes, vector_band, dtype, most):
    """Of `any` and `all`, between iterations; where a row ends each lane is loaded alone."""
    pool = Pool()
    folds = (Fold.OR, Fold.AND)
    values = [Reduce(k, fold, pool.load(dtype, 0).convert("b1")) for k, fold in enumerate(folds)]
    stores = [Store(k, pool.row("b1", k - 1)) for k in (1, 2)]
    arrays = [param(dtype), *(param("b1", Z, out=True, band_only=True) for _ in folds)]
    leaves = [Leaf(False, tuple(values)), Leaf(True, tuple(stores))]
    fields = {"band_rank": int(vector_band), "vector_band": vector_band}
    made = kernel(arrays, leaves, rows=(RowParam("b1"),) * 2, **fields)
    there = Host(cpu, vector_bytes, "x86_64-unknown-linux-gnu")
    text = there.emit_assembly(write_source(made, vector_bytes, fence=True))
    assert len(re.findall("pinsr|pextr", text)) <= most


def test_a_rejected_module_names_its_cause(host):
    with pytest.raises(CompileError, match="rejected"):
        host.emit_object("define void @main() { ret i32 }")


def test_unknown_backends_are_refused():
    assert "llvm" in available()
    with pytest.raises(BackendUnavailable, match="llvm"):
        open_backend("no such thing")
