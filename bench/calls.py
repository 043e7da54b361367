"""What bench/soak_calls.py calls: signatures, and statements with places to fill in.

A signature is a name and its arguments: `axis:AX` may be given, `A!` has to be. What the letters
mean is a method of that name in `Call`.
"""

from __future__ import annotations

import numpy as np

__all__ = ["SIGNATURES", "STATEMENTS", "UFUNCS"]

_OFTEN = """
np.all a:A! axis:AX out:OUT keepdims:BOOL where:WH
np.any a:A! axis:AX out:OUT keepdims:BOOL where:WH
np.allclose a:A! b:B! rtol:X atol:X equal_nan:BOOL
np.isclose a:A! b:B! rtol:X atol:X equal_nan:BOOL
np.amax a:A! axis:AX out:OUT keepdims:BOOL initial:X where:WH
np.amin a:A! axis:AX out:OUT keepdims:BOOL initial:X where:WH
np.max a:A! axis:AX out:OUT keepdims:BOOL initial:X where:WH
np.min a:A! axis:AX out:OUT keepdims:BOOL initial:X where:WH
np.append arr:A! values:B! axis:AX
np.argmax a:A! axis:AX out:OUT keepdims:BOOL
np.argmin a:A! axis:AX out:OUT keepdims:BOOL
np.argsort a:A! axis:AX kind:WORD order:N stable:BOOL
np.sort a:A! axis:AX kind:WORD order:N stable:BOOL
np.array_equal a1:A! a2:B! equal_nan:BOOL
np.bincount x:K! weights:V minlength:N
np.clip a:A! a_min:B! a_max:B! out:OUT dtype:DT where:WH min:X max:X
np.concatenate S! axis:AX out:OUT dtype:DT casting:CAST
np.hstack tup:S! dtype:DT casting:CAST
np.vstack tup:S! dtype:DT casting:CAST
np.stack arrays:S! axis:AX out:OUT dtype:DT casting:CAST
np.count_nonzero a:A! axis:AX keepdims:BOOL
np.cross a:A! b:B! axisa:AX axisb:AX axisc:AX axis:AX
np.cumsum a:A! axis:AX dtype:DT out:OUT
np.cumprod a:A! axis:AX dtype:DT out:OUT
np.diff a:A! n:N axis:AX prepend:B append:B
np.dot a:A! b:B! out:OUT
np.dot a:V! b:V! out:OUT
np.inner a:A! b:B!
np.inner a:V! b:V!
np.vdot a:A! b:B!
np.outer a:A! b:B! out:OUT
np.full_like a:A! fill_value:X! dtype:DT order:ORD subok:BOOL shape:SH
np.ones_like a:A! dtype:DT order:ORD subok:BOOL shape:SH
np.zeros_like a:A! dtype:DT order:ORD subok:BOOL shape:SH
np.empty_like a:A! dtype:DT order:ORD subok:BOOL shape:SH
np.gradient f:A! X axis:AX edge_order:N
np.mean a:A! axis:AX dtype:DT out:OUT keepdims:BOOL where:WH
np.median a:A! axis:AX out:OUT overwrite_input:BOOL keepdims:BOOL
np.nonzero a:A!
np.prod a:A! axis:AX dtype:DT out:OUT keepdims:BOOL initial:X where:WH
np.sum a:A! axis:AX dtype:DT out:OUT keepdims:BOOL initial:X where:WH
np.roll a:A! shift:N! axis:AX
np.searchsorted a:V! v:B! side:WORD sorter:I
np.std a:A! axis:AX dtype:DT out:OUT ddof:N keepdims:BOOL where:WH mean:B correction:N
np.var a:A! axis:AX dtype:DT out:OUT ddof:N keepdims:BOOL where:WH mean:B correction:N
np.take a:A! indices:I! axis:AX out:OUT mode:MODE
np.where M! B! B!
np.where M!
np.linalg.norm x:A! ord:WORD axis:AX keepdims:BOOL
np.linalg.norm x:V! ord:WORD axis:AX keepdims:BOOL
np.linalg.solve a:Q! b:B!
np.linalg.inv a:Q!
np.linalg.det a:Q!
np.fft.fft a:A! n:N axis:AX norm:WORD out:OUT
np.fft.ifft a:A! n:N axis:AX norm:WORD out:OUT
np.fft.rfft a:A! n:N axis:AX norm:WORD out:OUT
np.fft.irfft a:A! n:N axis:AX norm:WORD out:OUT
np.array object:A! dtype:DT copy:BOOL order:ORD subok:BOOL ndmin:N
np.array object:J! dtype:DT copy:BOOL order:ORD subok:BOOL ndmin:N
np.array object:S! dtype:DT copy:BOOL order:ORD subok:BOOL ndmin:N
np.asarray a:A! dtype:DT order:ORD copy:BOOL
np.asarray a:S! dtype:DT order:ORD copy:BOOL
np.asarray a:J! dtype:DT order:ORD copy:BOOL
np.zeros shape:SH! dtype:DT order:ORD
np.ones shape:SH! dtype:DT order:ORD
np.empty shape:SH! dtype:DT order:ORD
np.full shape:SH! fill_value:X! dtype:DT order:ORD
np.arange X! X X dtype:DT
np.arange N! N N dtype:DT
np.repeat a:A! repeats:N! axis:AX
.sum A! axis:AX dtype:DT out:OUT keepdims:BOOL initial:X where:WH
.prod A! axis:AX dtype:DT out:OUT keepdims:BOOL initial:X where:WH
.mean A! axis:AX dtype:DT out:OUT keepdims:BOOL where:WH
.std A! axis:AX dtype:DT out:OUT ddof:N keepdims:BOOL where:WH
.var A! axis:AX dtype:DT out:OUT ddof:N keepdims:BOOL where:WH
.max A! axis:AX out:OUT keepdims:BOOL initial:X where:WH
.min A! axis:AX out:OUT keepdims:BOOL initial:X where:WH
.all A! axis:AX out:OUT keepdims:BOOL where:WH
.any A! axis:AX out:OUT keepdims:BOOL where:WH
.argmax A! axis:AX out:OUT keepdims:BOOL
.argmin A! axis:AX out:OUT keepdims:BOOL
.clip A! min:B max:B out:OUT dtype:DT
.cumsum A! axis:AX dtype:DT out:OUT
.cumprod A! axis:AX dtype:DT out:OUT
.copy A! order:ORD
.flatten A! order:ORD
.ravel A! order:ORD
.reshape A! shape:SH! order:ORD copy:BOOL
.reshape A! N! N order:ORD
.astype A! dtype:DT! order:ORD casting:CAST subok:BOOL copy:BOOL
.take A! indices:I! axis:AX out:OUT mode:MODE
.dot A! b:B! out:OUT
.dot V! b:V!
.argsort A! axis:AX kind:WORD order:N stable:BOOL
.searchsorted V! v:B! side:WORD sorter:I
.nonzero A!
.repeat A! repeats:N! axis:AX
.item A! N N
"""

_SELDOM = """
np.asanyarray a:A! dtype:DT order:ORD copy:BOOL
np.ascontiguousarray a:A! dtype:DT
np.asfortranarray a:A! dtype:DT
np.interp x:A! xp:V! fp:V! left:X right:X period:X
np.lexsort keys:S! axis:AX
np.packbits a:A! axis:AX bitorder:WORD
np.unpackbits a:A! axis:AX count:N bitorder:WORD
np.ravel_multi_index multi_index:S! dims:SH! mode:MODE order:ORD
np.unravel_index indices:I! shape:SH! order:ORD
np.correlate a:V! v:V! mode:MODE
np.convolve a:V! v:V! mode:MODE
np.histogram a:A! bins:N range:S density:BOOL weights:A
np.pad array:A! pad_width:N! mode:MODE
np.tile A:A! reps:N!
np.digitize x:A! bins:V! right:BOOL
np.trace a:A! offset:N axis1:AX axis2:AX dtype:DT out:OUT
np.kron a:A! b:B!
np.matmul A! B! out:OUT dtype:DT
np.matmul Q! Q! out:OUT
np.tensordot a:A! b:B! axes:N
np.percentile a:A! q:X! axis:AX out:OUT keepdims:BOOL
np.quantile a:A! q:X! axis:AX out:OUT keepdims:BOOL
np.nansum a:A! axis:AX dtype:DT out:OUT keepdims:BOOL
np.nanmean a:A! axis:AX dtype:DT keepdims:BOOL
np.nanstd a:A! axis:AX dtype:DT keepdims:BOOL
np.nanmax a:A! axis:AX keepdims:BOOL
np.nanmin a:A! axis:AX keepdims:BOOL
np.nanargmax a:A! axis:AX
np.nanmedian a:A! axis:AX
np.linspace X! X! num:N endpoint:BOOL retstep:BOOL dtype:DT
np.unique ar:A! return_index:BOOL return_inverse:BOOL return_counts:BOOL axis:AX
np.flip m:A! axis:AX
np.rot90 m:A! k:N
np.column_stack tup:S!
np.dstack tup:S!
np.split ary:A! indices_or_sections:N! axis:AX
np.array_split ary:A! indices_or_sections:N! axis:AX
np.squeeze a:A! axis:AX
np.expand_dims a:A! axis:AX!
np.transpose a:A! axes:SH
np.swapaxes a:A! axis1:AX! axis2:AX!
np.moveaxis a:A! source:AX! destination:AX!
np.broadcast_to array:A! shape:SH! subok:BOOL
np.tril m:A! k:N
np.triu m:A! k:N
np.diag v:A! k:N
np.eye N! M:N k:N dtype:DT
np.diagonal a:A! offset:N axis1:AX axis2:AX
np.compress condition:M! a:A! axis:AX out:OUT
np.extract condition:M! arr:A!
np.choose a:I! choices:S! out:OUT mode:MODE
np.delete arr:A! obj:I! axis:AX
np.insert arr:A! obj:I! values:B! axis:AX
np.ptp a:A! axis:AX out:OUT keepdims:BOOL
np.around a:A! decimals:N out:OUT
np.round a:A! decimals:N out:OUT
np.nan_to_num x:A! copy:BOOL nan:X posinf:X neginf:X
np.isin element:A! test_elements:B! assume_unique:BOOL invert:BOOL
np.cov m:A! y:A rowvar:BOOL bias:BOOL ddof:N
np.corrcoef x:A! y:A rowvar:BOOL
np.average a:A! axis:AX weights:B returned:BOOL keepdims:BOOL
np.ediff1d ary:A! to_end:X to_begin:X
np.meshgrid V! V! indexing:WORD sparse:BOOL copy:BOOL
np.partition a:A! kth:N! axis:AX kind:WORD
np.argpartition a:A! kth:N! axis:AX kind:WORD
np.trapezoid y:A! x:A dx:X axis:AX
np.einsum J! A! B!
np.array_equiv a1:A! a2:B!
np.real val:A!
np.imag val:A!
np.angle z:A! deg:BOOL
np.unwrap p:A! axis:AX
np.polyval p:V! x:B!
np.select S! S! default:X
np.take_along_axis arr:A! indices:I! axis:AX
np.argwhere a:A!
np.flatnonzero a:A!
np.atleast_1d A! B
np.atleast_2d A!
np.squeeze a:A!
np.ravel a:A! order:ORD
np.reshape a:A! shape:SH! order:ORD
np.copy a:A! order:ORD subok:BOOL
np.iscomplexobj x:A!
np.isreal x:A!
np.result_type A! B!
np.linalg.eigvalsh a:Q! UPLO:WORD
np.linalg.cholesky a:Q!
np.linalg.slogdet a:Q!
np.linalg.matrix_power a:Q! n:N!
np.linalg.eigh a:Q!
np.fft.fft2 a:A! s:SH axes:SH norm:WORD
np.fft.fftfreq n:N! d:X
np.fft.fftshift x:A! axes:AX
np.fft.hfft a:A! n:N axis:AX norm:WORD
np.bitwise_count A!
np.union1d ar1:A! ar2:B!
np.setdiff1d ar1:A! ar2:B! assume_unique:BOOL
np.intersect1d ar1:A! ar2:B!
np.indices dimensions:SH! dtype:DT
np.tri N! M:N k:N dtype:DT
np.frombuffer J! dtype:DT count:N offset:N
np.fromiter J! dtype:DT! count:N
np.random.default_rng(3).random size:SH dtype:DT out:OUT
np.random.default_rng(3).normal loc:B scale:B size:SH
np.random.default_rng(3).integers N! high:N size:SH dtype:DT endpoint:BOOL
np.random.default_rng(3).choice a:A! size:SH replace:BOOL p:V axis:AX shuffle:BOOL
np.random.default_rng(3).permutation x:A! axis:AX
np.random.default_rng(3).shuffle x:A! axis:AX
np.random.default_rng(3).permuted x:A! axis:AX out:OUT
np.random.default_rng(3).standard_normal size:SH dtype:DT out:OUT
np.random.default_rng(3).uniform low:B high:B size:SH
np.random.RandomState(3).normal loc:B scale:B size:SH
np.random.RandomState(3).randint N! high:N size:SH dtype:DT
np.random.RandomState(3).rand N N
.argpartition A! kth:N! axis:AX
.choose I! choices:S! out:OUT mode:MODE
.compress M! condition:M! axis:AX out:OUT
.diagonal A! offset:N axis1:AX axis2:AX
.trace A! offset:N axis1:AX axis2:AX dtype:DT out:OUT
.transpose A! SH
.swapaxes A! AX! AX!
.squeeze A! axis:AX
.round A! decimals:N out:OUT
.conj A! out:OUT
.view A! dtype:DT
.tolist A!
.tobytes A! order:ORD
.byteswap A! inplace:BOOL
.fill A! value:X!
.put A! indices:I! values:B! mode:MODE
.resize A! SH! refcheck:BOOL
.sort A! axis:AX kind:WORD order:N stable:BOOL
.partition A! kth:N! axis:AX
.getfield A! dtype:DT! offset:N
.setfield A! X! dtype:DT! offset:N
.itemset A! N X
.setflags A! write:BOOL align:BOOL
.__array__ A! dtype:DT copy:BOOL
.__len__ A!
.__contains__ A! X!
.__float__ A!
.__int__ A!
.__bool__ A!
.__deepcopy__ A! N!
np.copyto dst:A! src:B! casting:CAST where:WH
np.place arr:A! mask:M! vals:B!
np.putmask a:A! mask:M! values:B!
np.put a:A! ind:I! v:B! mode:MODE
np.fill_diagonal a:A! val:X! wrap:BOOL
np.put_along_axis arr:A! indices:I! values:B! axis:AX
np.random.default_rng(3).exponential scale:B size:SH
np.broadcast_arrays A! B! subok:BOOL
"""


def _known(signature: str) -> bool:
    """Whether this NumPy has it."""
    name = signature.split(maxsplit=1)[0]
    return not name.startswith("np.") or "(" in name or bool(_found(name))


def _found(name: str) -> object:
    found: object = np
    for part in name.split(".")[1:]:
        found = getattr(found, part, None)
    return found


SIGNATURES = [
    text
    for often, lines in ((3, _OFTEN), (1, _SELDOM))
    for text in lines.strip().splitlines() * often
    if _known(text)
]
UFUNCS = sorted(
    (name, ufunc.nin)
    for name, ufunc in vars(np).items()
    if isinstance(ufunc, np.ufunc) and ufunc.signature is None and ufunc.nin < 3
)
_BINARY = ("+", "-", "*", "/", "//", "%", "**", "<<", ">>", "&", "|", "^", "@")
_COMPARISONS = ("<", "<=", "==", "!=", ">", ">=")
_UNARY = ("-", "+", "~", "abs", "not ", "float", "int", "bool", "len", "complex", "round", "list")
STATEMENTS = (
    *(f"return {{A}} {sign} {{B}}" for sign in (*_BINARY, *_COMPARISONS)),
    *(f"return {{B}} {sign} {{A}}" for sign in (*_BINARY, *_COMPARISONS)),
    *(f"a = {{A}}; a {sign}= {{B}}; return a" for sign in _BINARY),
    *(f"return {sign}({{A}})" for sign in _UNARY),
    "return divmod({A}, {B})",
    "return pow({A}, {X}, {X})",
    *("return {A}[{KEY}]",) * 12,
    *("{A}[{KEY}] = {B}",) * 12,
    *("a = {A}; a[{KEY}] += {X}; return a",) * 5,
    "del {A}[{KEY}]",
    "return {X} in {A}",
    "return [x for x in {A}]",
    "a, b, c = {A}; return a, b, c",
    "return {A}.T",
    "return {A}.real, a0.imag",
    "a = {A}; a.imag = {B}; return a",
    "a = {A}; a.flat = {B}; return a",
    "return {A}.flat[{KEY}]",
    "a = {A}; a.shape = {SH}; return a",
    "a = {A}; a.dtype = {DT}; return a",
    "return list({A}.flat)",
    "return ({A} + {B}).sum(axis={AX})",
    "return (({A} - {B}) ** 2).mean()",
    "return np.exp(-{A} * {X})[{KEY}]",
    "b = {A} * {X}; b += {B}; return b.max()",
    "b = {A}.copy(); b[{KEY}] = {X}; return b, b.sum()",
    "return np.sqrt({A} * a0 + 1)",
    "return repr({A}), str(a0)",
    "return np.einsum('i,i', {V}, {V})",
    "return np.einsum('ij,ij->i', {A}, {A})",
    "return np.einsum('ij,kj->ik', {A}, {B})",
    "return np.einsum('...j,j->...', {A}, {V})",
    "return np.maximum.reduce([{A}, {B}, {A}])",
    "return np.bitwise_or.reduce(({A}, {A}), axis={AX})",
    "return np.logical_and.reduce([{A} > {X}, {A} < {X}])",
    "return np.min([{A}, {A}], axis={AX})",
    "return ({A} - {B}).sum()",
    "return np.max({A} * {B})",
    "return ({A} > {B}).any(), np.mean({A} + {X})",
    "return np.add.reduce({A} * {A}, axis={AX})",
    "return np.einsum('...i,...i->...', {A}, {B})",
    "return np.histogram({V}, {N})",
    "return sum({A})",
    "return max({V}), min({V})",
    "return np.r_[{V}, {X}, {V}]",
    "return np.c_[{V}, {V}]",
    "return np.ix_({I}, {I})",
    "return np.add.reduce({S})",
    "return sorted({V})",
    "return ({A}.astype({DT}) * {X}).reshape({SH})",
)
