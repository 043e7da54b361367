"""What the bodies in f4 share."""

from __future__ import annotations

import functools
from collections.abc import Callable

from npaccel.ir.nans import like_numpys, made_as_numpys, passed
from npaccel.ir.precision import Wide, by_f8
from npaccel.ir.scalar import Core, Expr

__all__ = ["INF", "MAGIC", "TINY", "by_size", "is_normal", "reciprocal_root"]

# Adding 1.5 * 2**23 rounds to an integer and leaves that integer in the low bits.
MAGIC = 1.5 * 2.0**23
TINY, INF = 2.0**-126, float("inf")


def by_size(
    name: str,
    near: Callable[..., Expr],
    usual: Callable[..., Expr] | None,
    wide: Wide,
    *,
    tells: bool = False,
) -> Callable[..., Expr]:
    """f4 by `near` where `usual` is true (not of a NaN), else and for other dtypes by `wide` in f8.

    usual : None: everywhere, of one operand whose NaN keeps its sign
    tells : `wide` is told what becomes of NaNs
    """

    def body(*x: Expr) -> Expr:
        dtype = x[0].dtype
        if usual is None and dtype == "f4":
            return like_numpys(name, x[0], near(*x))
        if tells:
            anywhere = by_f8(functools.partial(wide, nans=passed(name, dtype)))(*x)
            anywhere = made_as_numpys(name, x[0], anywhere)
        else:
            anywhere = by_f8(wide)(*x)
            anywhere = like_numpys(name, x[0], anywhere) if len(x) == 1 else anywhere
        if usual is None or dtype != "f4":
            return anywhere
        return (~usual(*x)).rare(anywhere, near(*x))

    return body


def is_normal(x: Expr) -> Expr:
    """Whether it is positive, finite and not subnormal."""
    return (x.bitcast("u4") - 0x00800000) < 0x7F000000


def reciprocal_root(x: Expr) -> Expr:
    """1 / sqrt(x) to one part in 29, of normal positive x; finite of 0."""
    return (0x5F375A86 - x.bitcast("i4").binary(Core.LSHR, 1)).bitcast("f4")
