"""How a benchmark's function is run by NumPy, npaccel, NumExpr, Numba and JAX.

Each function here returns a `make` for `Bench.add`: called, it imports its package, brings the
arrays to where that package wants them, and returns the call to time. Every call makes new results,
and returns only when they are there.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
from harness import ROOT, Call, Skip

__all__ = ["example", "with_jax", "with_npaccel", "with_numba", "with_numexpr", "with_numpy"]

Arrays = dict[str, np.ndarray[Any, Any]]
Function = Callable[..., Any]
Make = Callable[[], Call]


def example(name: str) -> ModuleType:
    """The example program `name` as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def with_numpy(function: Function, arrays: Arrays) -> Make:
    return lambda: lambda: function(**arrays)


def with_npaccel(function: Function, arrays: Arrays) -> Make:
    """`function` on wrapped arrays. Skips when npaccel is not built."""

    def make() -> Call:
        import npaccel

        if not hasattr(npaccel, "asarray"):
            raise Skip("npaccel.asarray does not exist in this build")
        na: Any = npaccel
        wrapped = {name: na.asarray(value) for name, value in arrays.items()}

        def call() -> Any:
            result = function(**wrapped)
            na.evaluate(*(result if isinstance(result, tuple) else (result,)))
            return result

        return call

    return make


def with_numexpr(text: str, arrays: Arrays) -> Make:
    def make() -> Call:
        import numexpr

        return lambda: numexpr.evaluate(text, arrays)

    return make


def with_numba(function: Function, arrays: Arrays) -> Make:
    """`function` compiled with parallel=True, so that whole-array expressions are fused."""

    def make() -> Call:
        import numba

        jitted = numba.njit(parallel=True)(function)
        return lambda: jitted(*arrays.values())

    return make


def with_jax(function: Callable[[Any], Function], arrays: Arrays) -> Make:
    """`function(jax)` compiled by JAX, with 64-bit types and no host copies while timed."""

    def make() -> Call:
        import jax

        jax.config.update("jax_enable_x64", True)
        there = {name: jax.numpy.asarray(value) for name, value in arrays.items()}
        jitted = jax.jit(function(jax))
        return lambda: jax.block_until_ready(jitted(**there))

    return make
