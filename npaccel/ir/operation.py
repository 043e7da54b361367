"""What one row of the operation table says; `ops.py` holds the table itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from npaccel.ir.nodes import FlagKind, Fold
from npaccel.ir.scalar import Expr

__all__ = ["Body", "FlagRule", "GuardRule", "Masks", "Op", "Operands"]

Operands = tuple[Expr, ...]
Masks = tuple[tuple[FlagKind, Expr], ...]
Body = Callable[..., "Expr | tuple[Expr, ...]"]
FlagRule = Callable[[Operands, Operands], Masks]
GuardRule = Callable[[Operands, Operands], "Expr | None"]


@dataclass(frozen=True, slots=True)
class Op:
    """One NumPy operation for some kinds of loop inputs.

    name : NumPy's name; also "copy" (a cast), "where", "argmin", "argmax".
    nin, nout : number of loop inputs and outputs.
    kinds : kinds of the first loop input (of ``b i u f c``) for which this row holds.
    without : dtypes of the first loop input for which NumPy's own loop computes it all the same.
    body : operands in the loop's input dtypes to results in its output dtypes. None: there is no
        scalar form, NumPy's own loop computes it.
    fold : how a reduction by it combines; None: reductions are not for kernels, and where no row
        of this name has one, they are NumPy's. The values folded are the input converted to the
        loop's output dtype (so logical_and folds b1).
    flags : (operands, results) to exact masks of the warnings that NumPy gives for an element.
        None: never one. Underflow is not among them: where it is not ignored, and the loop has a
        float in it, NumPy's own loop must compute the request.
    guard : (operands, results) to a cheap b1 expression, true at least wherever a mask of `flags`
        is; the rule None: some float part of a result is not finite. A guard may be None where
        nothing can happen.
    warns : kinds of the first loop input for which a floating-point flag that warns may be set by
        NumPy's own loop, though the row has no `flags`. With `flags`, each kind of the row is one.
    propagates : per operand, whether one that is not finite always makes a result that is not
        finite (empty: none does).
    ulp : the largest difference from the exact result, in units of the last place; 0: the same
        bits as NumPy. For complex results relative to the result's absolute value, for logaddexp
        and logaddexp2 in units of the largest of result and operands.
    ahead : dtypes of the first loop input for which code is compiled with the package, for blocks,
        though NumPy's loop has the same bits: that loop is slow there (bench/loops.py). Where bits
        are ours there is always such code.
    """

    name: str
    nin: int
    nout: int
    kinds: str
    body: Body | None
    fold: Fold | None = None
    flags: FlagRule | None = None
    guard: GuardRule | None = None
    propagates: tuple[bool, ...] = ()
    ulp: int = 0
    without: tuple[str, ...] = ()
    ahead: tuple[str, ...] = ()
    warns: str = "fc"
