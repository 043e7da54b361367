"""Write docs/coverage.md: what npaccel does with each public callable of NumPy.

    PYTHONSAFEPATH=1 .venv/bin/python tools/coverage.py > docs/coverage.md

Each callable is called on operands that wait to be computed, in a block of `accelerate`. What the
C core counts meanwhile says how it was done; the same call outside the block has to give the same.
Nothing is timed. Written down by hand are the calls (`CALLS`, `ALSO`, `OPERATORS`), what is not
counted (`OTHERS`), and what nothing of npaccel's counts but NumPy's sources tell (`KNOWN`).

    PYTHONSAFEPATH=1 .venv/bin/python tools/coverage.py 20    the rows of every twentieth callable
"""

from __future__ import annotations

import re
import sys
import types
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

import npaccel
from npaccel import _native
from npaccel.dispatch.fallback import FALLBACKS
from npaccel.dispatch.function import WHOLE
from npaccel.dispatch.method import EVALUATED
from npaccel.dispatch.redirect import COMPUTED, SOURCES

KERNEL, COMPOSED, OWN = "kernel", "composed", "own loops"
DELEGATED, VIEW, FALLBACK = "delegated", "view or metadata", "fallback"
KINDS = (KERNEL, COMPOSED, OWN, DELEGATED, VIEW, FALLBACK)

NAMESPACES = {
    "numpy": np,
    "numpy.linalg": np.linalg,
    "numpy.fft": np.fft,
    "numpy.random": np.random,
    "Generator": np.random.Generator,
    "RandomState": np.random.RandomState,
    "ufunc": np.ufunc,
    "ndarray": np.ndarray,
    "operators": np.ndarray,
}
# How their members are called.
PREFIXES = {
    "numpy": "np.",
    "numpy.linalg": "np.linalg.",
    "numpy.fft": "np.fft.",
    "numpy.random": "np.random.",
    "Generator": "rng.",
    "RandomState": "state.",
}

# What the table of redirect.py leaves to NumPy in every call.
TABLE = set(COMPUTED.values()) | {
    *(reason.removeprefix("*") for reason in EVALUATED.values()),
    *(reason for reason, _ in WHOLE.values()),
    *("generalised ufunc", "random numbers"),
} - {""}
UNLISTED = "not recorded"  # a function that dispatch/function.py does not list
DRAWN_BY = "random numbers"
UNSEEN = "NumPy's code, which npaccel does not see"
READING = {name for name, reason in EVALUATED.items() if reason == ""}
MEMORY = {"empty", "empty_like"}  # of npaccel's, without values
# What NumPy's sources say, where nothing is counted.
HASHES = f"{UNSEEN}: a hash table"
READS = "it reads the value"
KNOWN = {
    ("numpy", "unique"): (FALLBACK, HASHES),
    ("numpy", "unique_values"): (FALLBACK, HASHES),
    ("numpy", "intersect1d"): (FALLBACK, HASHES),
    ("numpy", "setdiff1d"): (FALLBACK, HASHES),
    ("numpy", "setxor1d"): (FALLBACK, HASHES),
    ("numpy", "union1d"): (FALLBACK, HASHES),
    ("numpy", "apply_along_axis"): (FALLBACK, "a call of the function for each row"),
    ("numpy", "tri"): (FALLBACK, "ufunc.outer of small arrays; the rest is recorded"),
    ("operators", "__bool__"): (DELEGATED, READS),
    ("operators", "__complex__"): (DELEGATED, READS),
    ("operators", "__float__"): (DELEGATED, READS),
    ("operators", "__index__"): (DELEGATED, READS),
    ("operators", "__int__"): (DELEGATED, READS),
    ("operators", "__imatmul__"): (DELEGATED, "matrix product"),
    ("operators", "__rmatmul__"): (DELEGATED, "matrix product"),
}
# Own loops that a processor may not need: whether it does is found out by a clock.
BY_CLOCK = {"ndarray.sort"}

# ------------------------------------------------------------------------------------- operands

LENGTH, SIDE, CUBE, DRAWN = 300_000, 200, 66, 200_000  # so that bools are 300 KB
LARGE = 6  # times as many elements, where NumPy runs what is smaller as one
Rng = np.random.Generator
OPERANDS: Mapping[str, Callable[[Rng, int], Any]] = {
    "x": lambda rng, n: rng.uniform(0.1, 0.9, n * LENGTH),
    "y": lambda rng, n: rng.uniform(1.1, 1.9, n * LENGTH),
    "s": lambda rng, n: np.sort(rng.uniform(0.1, 0.9, n * LENGTH)),
    "gaps": lambda rng, n: np.where(rng.random(n * LENGTH) > 0.8, np.nan, 0.5),
    "z": lambda rng, n: rng.uniform(0.1, 0.9, n * LENGTH) + 0.5j,
    "i": lambda rng, n: rng.integers(0, LENGTH, n * LENGTH),
    "k": lambda rng, n: rng.integers(1, 50, n * LENGTH),
    "order": lambda rng, n: rng.permutation(n * LENGTH),
    "mask": lambda rng, n: rng.random(n * LENGTH) > 0.5,
    "bits": lambda rng, n: rng.integers(0, 256, n * LENGTH).astype(np.uint8),
    "days": lambda rng, n: np.datetime64("2024-01-01") + rng.integers(0, 999, n * LENGTH),
    "few": lambda rng, n: rng.uniform(0.1, 0.9, (n * LENGTH // 20, 20)),
    "triples": lambda rng, n: rng.uniform(0.1, 0.9, (n * LENGTH // 3, 3)),
    "cube": lambda rng, n: rng.uniform(0.1, 0.9, (n * CUBE, CUBE, CUBE)),
    "m": lambda rng, n: rng.uniform(0.1, 0.9, (n * SIDE, n * SIDE)) + SIDE * np.eye(n * SIDE),
    "spectra": lambda rng, n: rng.uniform(0.1, 0.9, (SIDE, SIDE)) + 0.5j,
    "sym": lambda rng, n: np.corrcoef(rng.uniform(0.1, 0.9, (SIDE, 9 * SIDE))),
    "places": lambda rng, n: rng.integers(0, SIDE, (n * SIDE, SIDE)),
    "small": lambda rng, n: rng.uniform(0.1, 0.9, (2500, 5, 5)) + 9 * np.eye(5),
    "syms": lambda rng, n: np.zeros((2500, 5, 5)) + 0.5 + 9 * np.eye(5),
    "tensor": lambda rng, n: rng.random((4, 50, 200)) + 200 * np.eye(200).reshape(4, 50, 200),
    "rng": lambda rng, n: np.random.default_rng(2),
    "state": lambda rng, n: np.random.RandomState(2),
    "n": lambda rng, n: DRAWN,
    "np": lambda rng, n: np,
}


def _operands(call: str, times: int = 1) -> dict[str, Any]:
    """Those that a call names, made anew."""
    words = set(re.findall(r"(?<![.\w'])[a-z]\w*", call))
    return {
        name: make(np.random.default_rng(1 + place), times)
        for place, (name, make) in enumerate(OPERANDS.items())
        if name in words
    }


# ---------------------------------------------------------------------------------------- calls

# Tried in turn, with NumPy alone: the first that NumPy takes stands for the callable.
FUNCTIONS = ("x", "x, y", "m", "[x, y]", "i", "i, k", "x, 3", "(200, 200)")
DRAWS = ("size=n", "2, size=n", "2, 3, size=n", "0.5, size=n", "5, 0.5, size=n", "1, 2, 3, size=n")
METHODS = ("", "3", "y")


def _each(names: str, given: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), given)


# Where none of these fits or says much.
CALLS = {
    "numpy": {
        "append": "x, y",
        "apply_along_axis": "np.sum, 1, few",
        "apply_over_axes": "np.sum, m, (0, 1)",
        "arange": "n",
        "arccosh": "y",
        "acosh": "y",
        "argpartition": "x, 100",
        "array": "x",
        "array2string": "x",
        "array_equal": "x, y",
        "array_equiv": "x, y",
        "array_split": "x, 3",
        "astype": "x, np.float32",
        "average": "x, weights=y",
        "bartlett": "n",
        "bincount": "k",
        "blackman": "n",
        "block": "[x, y]",
        "broadcast_arrays": "m, m[0]",
        "broadcast_to": "x, (3, x.size)",
        "busday_count": "days, days",
        "busday_offset": "days, 1, roll='forward'",
        "can_cast": "x.dtype, np.float32",
        "choose": "k % 2, (x, y)",
        "clip": "x, 0.3, 0.7",
        "compress": "mask, x",
        "convolve": "x, y[:100]",
        "copyto": "x, y",
        "correlate": "x, y[:100]",
        "count_nonzero": "mask",
        "cov": "few.T",
        "corrcoef": "few.T",
        "cross": "triples, triples",
        "datetime_as_string": "days",
        "delete": "x, 3",
        "diag": "m",
        "diag_indices": "n",
        "diagflat": "x[:300]",
        "digitize": "x, np.linspace(0, 1, 50)",
        "dsplit": "cube, 2",
        "einsum": "'ij,jk', m, m",
        "einsum_path": "'ij,jk', m, m",
        "empty": "n",
        "extract": "mask, x",
        "eye": "300",
        "fill_diagonal": "m, 1.0",
        "fix": "x",
        "from_dlpack": "x",
        "frombuffer": "x",
        "fromfunction": "lambda p, q: p + q, (200, 200)",
        "fromiter": "range(n), float",
        "fromstring": "'1 ' * n, sep=' '",
        "full": "n, 1.5",
        "full_like": "x, 1.5",
        "geomspace": "1, 100, n",
        "hamming": "n",
        "hanning": "n",
        "histogram": "x, 50",
        "histogram2d": "x, y, 50",
        "histogramdd": "triples, 9",
        "histogram_bin_edges": "x, 50",
        "hsplit": "m, 2",
        "identity": "300",
        "indices": "(200, 200)",
        "insert": "x, 3, 1.0",
        "interp": "x, s, y",
        "isin": "i, k",
        "is_busday": "days",
        "isnat": "days",
        "ix_": "i, k",
        "kaiser": "n, 14.0",
        "kron": "m, np.ones((2, 2))",
        "ldexp": "x, k",
        "lexsort": "(x, y)",
        "linspace": "0, 1, n",
        "logspace": "0, 1, n",
        "mask_indices": "1000, np.triu",
        "matmul": "m, m",
        "dot": "m, m",
        "inner": "m, m",
        "matvec": "m, m[0]",
        "vecmat": "m[0], m",
        "vecdot": "m, m",
        "vdot": "x, y",
        "meshgrid": "x[:200], y[:200]",
        "moveaxis": "cube, 0, 2",
        "nanmedian": "gaps",
        "nanpercentile": "gaps, 30",
        "nanquantile": "gaps, 0.3",
        **_each(
            """nan_to_num nanargmax nanargmin nancumprod nancumsum nanmax nanmean nanmin nanprod
            nanstd nansum nanvar""",
            "gaps",
        ),
        "ones": "n",
        "outer": "x[:200], y[:200]",
        "packbits": "mask",
        "pad": "x, 3",
        "partition": "x, 100",
        "percentile": "x, 30",
        "quantile": "x, 0.3",
        "permute_dims": "cube, (2, 0, 1)",
        "piecewise": "x, [x < 0.3, x > 0.6], [1.0, 2.0]",
        "place": "x, mask, y",
        "poly": "x[:200]",
        "polyadd": "x, y",
        "polydiv": "x, y[:3]",
        "polyfit": "x, y, 3",
        "polymul": "x, y[:100]",
        "polysub": "x, y",
        "polyval": "y[:5], x",
        "roots": "x[:200]",
        "put": "x, order, y",
        "put_along_axis": "m, places, 1.0, 1",
        "putmask": "x, mask, y",
        "ravel_multi_index": "(k, k), (60, 60)",
        "unravel_index": "i, (600, 600)",
        "real_if_close": "z",
        "imag": "z",
        "angle": "z",
        "iscomplex": "z",
        "isreal": "z",
        "repeat": "x, 3",
        "require": "x",
        "reshape": "x, (300, -1)",
        "resize": "x, 400_000",
        "roll": "x, 3",
        "rollaxis": "cube, 2",
        "searchsorted": "s, x",
        "select": "[x < 0.3, x > 0.6], [x, y]",
        "sort_complex": "z",
        "split": "x, 4",
        "swapaxes": "cube, 0, 2",
        "take": "x, i",
        "take_along_axis": "m, places, 1",
        "tensordot": "m, m",
        "tile": "x, 3",
        "trace": "m",
        "tri": "1000",
        "tril_indices": "1000",
        "triu_indices": "1000",
        "unique": "x",
        "unpackbits": "bits",
        "unwrap": "10 * x",
        "vander": "x, 5",
        "vsplit": "m, 2",
        "where": "mask, x, y",
        "zeros": "n",
        "isfortran": "m",
        "argwhere": "x",
        "bitwise_count": "i",
        "heaviside": "x, y",
        "left_shift": "i, 3",
        "right_shift": "i, 3",
        "bitwise_left_shift": "i, 3",
        "bitwise_right_shift": "i, 3",
        "invert": "i",
        "bitwise_not": "i",
        "bitwise_invert": "i",
        "logical_not": "mask",
        "logical_and": "mask, mask",
        "logical_or": "mask, mask",
        "logical_xor": "mask, mask",
        "all": "mask",
        "any": "mask",
        "shares_memory": "x, y",
        "may_share_memory": "x, y",
        "result_type": "x, y",
        "common_type": "x, y",
        "allclose": "x, y",
        **_each("column_stack concat concatenate dstack hstack row_stack stack vstack", "[x, y]"),
        **_each("tril triu tril_indices_from triu_indices_from", "m"),
        "expand_dims": "x, 0",
        "unstack": "m",
        "lcm": "k, k",
        "ediff1d": "x",
        "trim_zeros": "x",
        "union1d": "x, y",
        "asmatrix": "m",
        "bmat": "[[m, m]]",
        "diagonal": "m",
        "polyder": "x",
        "polyint": "x",
    },
    "numpy.linalg": {
        "cholesky": "sym",
        "matrix_rank": "m",
        "eigh": "sym",
        "eigvalsh": "sym",
        "cross": "triples, triples",
        "lstsq": "m, m[0]",
        "matmul": "m, m",
        "matrix_power": "m, 3",
        "multi_dot": "[m, m, m]",
        "norm": "x",
        "outer": "x[:200], y[:200]",
        "solve": "m, m[0]",
        "tensordot": "m, m",
        "tensorinv": "tensor, 2",
        "tensorsolve": "tensor, tensor[:, :, 0]",
        "vecdot": "m, m",
        "vector_norm": "x",
        "diagonal": "m",
    },
    "numpy.fft": {
        **_each("fft fft2 fftn ifft ifft2 ifftn hfft irfft irfft2 irfftn", "spectra"),
        **_each("rfft rfft2 rfftn ihfft", "m"),
        "fftfreq": "n",
        "rfftfreq": "n",
    },
    "numpy.random": {},
    "Generator": {
        "choice": "n, n",
        "integers": "100, size=n",
        "permutation": "x",
        "permuted": "x",
        "shuffle": "x",
    },
    "RandomState": {"rand": "n", "randn": "n"},
    "ufunc": {
        "accumulate": "np.add.accumulate(x)",
        "at": "np.add.at(x, i, y)",
        "outer": "np.add.outer(x[:200], y[:200])",
        "reduce": "np.add.reduce(x)",
        "reduceat": "np.add.reduceat(x, [0, x.size // 3, x.size // 2])",
        "resolve_dtypes": "np.add.resolve_dtypes((x.dtype, x.dtype, None))",
    },
    "ndarray": {
        "all": "mask.all()",
        "any": "mask.any()",
        "argpartition": "x.argpartition(100)",
        "astype": "x.astype(np.float32)",
        "choose": "(k % 2).choose((x, y))",
        "clip": "x.clip(0.3, 0.7)",
        "compress": "x.compress(mask)",
        "conj": "z.conj()",
        "conjugate": "z.conjugate()",
        "diagonal": "m.diagonal()",
        "dot": "m.dot(m)",
        "fill": "x.fill(1.5)",
        "getfield": "x.getfield(np.float64)",
        "item": "x.item(3)",
        "partition": "x.partition(100)",
        "put": "x.put(order, y)",
        "repeat": "x.repeat(3)",
        "reshape": "x.reshape(300, -1)",
        "resize": "x.resize(200_000, refcheck=False)",
        "searchsorted": "s.searchsorted(x)",
        "setfield": "x.setfield(y, np.float64)",
        "setflags": "x.setflags(write=False)",
        "swapaxes": "m.swapaxes(0, 1)",
        "take": "x.take(i)",
        "to_device": "x.to_device('cpu')",
        "trace": "m.trace()",
        "view": "x.view()",
    },
}
LEGACY = {
    "choice": "n, n",
    "multinomial": "20, [0.2, 0.3, 0.5], n",
    "dirichlet": "[1.0, 2.0, 3.0], n",
    "multivariate_normal": "[0.0, 0.0], [[2.0, 1.0], [1.0, 2.0]], n",
    "multivariate_hypergeometric": "[5, 6, 7], 4, n",
    "hypergeometric": "9, 8, 7, n",
    "integers": "100, size=n",
    "randint": "100, size=n",
    "random_integers": "100, size=n",
    "triangular": "1, 2, 3, n",
    "permutation": "x",
    "shuffle": "x",
    "rand": "n",
    "randn": "n",
    "noncentral_chisquare": "2, 3, n",
    "noncentral_f": "2, 3, 1, n",
    "zipf": "2.5, n",
    "vonmises": "1, 2, n",
    "logseries": "0.5, n",
    "negative_binomial": "5, 0.5, n",
    "binomial": "9, 0.5, n",
    "geometric": "0.5, n",
}
for _namespace in ("numpy.random", "Generator", "RandomState"):
    CALLS[_namespace] = LEGACY | CALLS[_namespace]

# What also says something, of other operands than those above.
STACKS = "many small matrices"
ALSO = {
    "numpy.linalg": {
        **{
            name: (STACKS, f"np.linalg.{name}(small)")
            for name in ("det", "eigvals", "inv", "pinv", "qr", "slogdet", "svd")
        },
        **{name: (STACKS, f"np.linalg.{name}(syms)") for name in ("cholesky", "eigh", "eigvalsh")},
        "matmul": (STACKS, "np.linalg.matmul(small, small)"),
        "solve": (STACKS, "np.linalg.solve(small, small)"),
    },
    "numpy": {
        "matmul": (STACKS, "np.matmul(small, small)"),
        "dot": ("integers", "np.dot(places, places.T)"),
        "cumprod": ("columns", "np.cumprod(few, axis=0)"),
        "cumsum": ("columns", "np.cumsum(few, axis=0)"),
        "argsort": ("rows", "np.argsort(few)"),
        "sort": ("rows", "np.sort(few)"),
        "argpartition": ("rows", "np.argpartition(few, 9)"),
        "partition": ("rows", "np.partition(few, 9)"),
    },
    "numpy.fft": {"fft": ("real rows", "np.fft.fft(m)"), "fft2": ("real rows", "np.fft.fft2(m)")},
    "ufunc": {
        "accumulate": ("columns", "np.add.accumulate(few)"),
        "at": ("rows", "np.add.at(few, i[:15_000] % 15_000, few)"),
    },
    "ndarray": {
        "dot": ("integers", "places.dot(places.T)"),
        "cumprod": ("columns", "few.cumprod(axis=0)"),
        "cumsum": ("columns", "few.cumsum(axis=0)"),
        "argsort": ("rows", "few.argsort()"),
        "sort": ("rows", "few.sort()"),
        "argpartition": ("rows", "few.argpartition(9)"),
        "partition": ("rows", "few.partition(9)"),
    },
    "operators": {"matmul": (STACKS, "small @ small")},
}

OPERATORS = {
    "abs": "abs(x)",
    "add": "x + y",
    "and": "i & k",
    "bool": "bool(m[:1, :1])",
    "complex": "complex(m[:1, :1].reshape(()))",
    "contains": "2.0 in x",
    "divmod": "divmod(x, y)",
    "eq": "x == y",
    "float": "float(m[:1, :1].reshape(()))",
    "floordiv": "x // y",
    "ge": "x >= y",
    "getitem": "x[i]",
    "gt": "x > y",
    "iadd": "x += y",
    "iand": "i &= k",
    "ifloordiv": "x //= y",
    "ilshift": "i <<= 3",
    "imatmul": "m @= m",
    "imod": "x %= y",
    "imul": "x *= y",
    "index": "range(k[:1].reshape(()))",
    "int": "int(m[:1, :1].reshape(()))",
    "invert": "~i",
    "ior": "i |= k",
    "ipow": "x **= y",
    "irshift": "i >>= 3",
    "isub": "x -= y",
    "iter": "list(few)",
    "itruediv": "x /= y",
    "ixor": "i ^= k",
    "le": "x <= y",
    "len": "len(x)",
    "lshift": "i << 3",
    "lt": "x < y",
    "matmul": "m @ m",
    "mod": "x % y",
    "mul": "x * y",
    "ne": "x != y",
    "neg": "-x",
    "or": "i | k",
    "pos": "+x",
    "pow": "x ** y",
    "radd": "2 + x",
    "rand": "3 & i",
    "rdivmod": "divmod(2, x)",
    "rfloordiv": "2 // x",
    "rlshift": "2 << k",
    "rmatmul": "[[1.0] * 200] @ m",
    "rmod": "2 % x",
    "rmul": "2 * x",
    "ror": "3 | i",
    "rpow": "2 ** x",
    "rrshift": "999 >> k",
    "rshift": "i >> 3",
    "rsub": "2 - x",
    "rtruediv": "2 / x",
    "rxor": "3 ^ i",
    "setitem": "x[order] = y",
    "sub": "x - y",
    "truediv": "x / y",
    "xor": "i ^ k",
}
# Of getitem and setitem there are many forms; these have a row of their own.
FORMS = {
    "__getitem__ (a part)": "x[100:-100]",
    "__getitem__ (a mask)": "x[mask]",
    "__setitem__ (a part)": "x[100:-100] = y[100:-100]",
    "__setitem__ (a mask)": "x[mask] = 1.0",
}

# Callables that are not counted: they take no array, or they are not about what it holds.
OTHERS = {
    "numpy": {
        "file": """fromfile fromregex genfromtxt load loadtxt save savetxt savez savez_compressed
            memmap""",
        "text": """array2string array_repr array_str base_repr binary_repr format_float_positional
            format_float_scientific""",
        "setting": """get_printoptions set_printoptions printoptions getbufsize setbufsize
            geterr seterr geterrcall seterrcall""",
        "about NumPy": "get_include info show_config show_runtime test __array_namespace_info__",
        "dtypes": """datetime_data isdtype issubdtype mintypecode promote_types typename
            iinfo finfo""",
        "shapes": "broadcast_shapes",
        "any object": "iterable isscalar",
        "of functions": "frompyfunc",
        "iterator": "nested_iters",
    },
    "numpy.linalg": {},
    "numpy.fft": {},
    "numpy.random": {
        "state": "default_rng get_state seed set_state",
        "bytes": "bytes",
    },
    "Generator": {"state": "spawn", "bytes": "bytes"},
    "RandomState": {"state": "get_state seed set_state", "bytes": "bytes"},
    "ufunc": {},
    "ndarray": {"file": "dump tofile"},
    "operators": {},
}

# ------------------------------------------------------------------------------------ one call


class Observation(NamedTuple):
    """What happened in one call.

    requests : operations that it recorded.
    jobs : what npaccel's own loops did.
    reasons : by function, why NumPy ran it.
    loops : why recorded operations had no kernel, if any.
    touched : whether an operand was waiting before and no longer is.
    result : "new" values, "shared" memory of an operand, or "" for anything else.
    """

    requests: int
    jobs: int
    reasons: Mapping[str, str]
    loops: str
    touched: bool
    result: str


class Row(NamedTuple):
    """A line of the page."""

    name: str
    call: str
    kind: str
    note: str


def _run(call: str, names: dict[str, Any]) -> Any:
    """The value of an expression; a statement's is None."""
    np.random.seed(3)
    try:
        code = compile(call, "<call>", "eval")
    except SyntaxError:
        exec(compile(call, "<call>", "exec"), names)
        return None
    return eval(code, names)


def _compare(mine: Any, theirs: Any, where: str) -> None:
    if isinstance(theirs, tuple | list) and isinstance(mine, tuple | list):
        assert len(mine) == len(theirs), where
        for a, b in zip(mine, theirs, strict=True):
            _compare(a, b, where)
    elif isinstance(theirs, np.ndarray | np.generic | float | int | complex):
        a, b = np.asarray(mine), np.asarray(theirs)
        assert (a.shape, a.dtype) == (b.shape, b.dtype), where
        if b.dtype.kind in "fc":
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9, err_msg=where)
        else:
            np.testing.assert_array_equal(a, b, err_msg=where)


def _fits(call: str) -> bool:
    """Whether NumPy takes the call."""
    try:
        _run(call, _operands(call))
    except Exception:  # any: it is another call's turn
        return False
    return True


def observe(call: str, times: int = 1) -> Observation:
    """Run a call outside a block and in one, compare, and tell what was counted."""
    _native.forget_rows()  # how long own loops took decides whether they are used again
    plain, names = _operands(call, times), _operands(call, times)
    used = list(names)
    expected = _run(call, plain)
    with npaccel.accelerate():
        for name in used:
            if isinstance(names[name], np.ndarray):
                names[name] = names[name].copy()
        arrays = [names[name] for name in used if isinstance(names[name], np.ndarray)]
        waited = [_native.is_pending(array) for array in arrays]
        FALLBACKS.clear()
        before, jobs = npaccel.stats(), _native.jobs()
        result = _run(call, names)
        after, jobs = npaccel.stats(), _native.jobs() - jobs
        reasons = {function: reason for function, reason, _ in FALLBACKS.counts()}
        touched = waited != [_native.is_pending(array) for array in arrays]
        sort = _sort(result, arrays)
        npaccel.evaluate()
        native = npaccel.stats()["native_requests"] - before["native_requests"]
        loops = _why_loops() if native else ""
    mine = result, [names[name] for name in used]
    if not call.startswith("np.empty"):
        _compare(mine, (expected, [plain[name] for name in used]), call)
    requests = after["requests"] - before["requests"]
    return Observation(requests, jobs, reasons, loops, touched, sort)


def _why_loops() -> str:
    reasons = {step.reason for step in npaccel.explain().steps if step.reason}
    return ", ".join(sorted(reasons)) or "in an earlier run"


def _sort(result: Any, arrays: list[Any]) -> str:
    if isinstance(result, tuple | list) and result:
        return max(_sort(item, arrays) for item in result[:2])
    if not isinstance(result, np.ndarray):
        return ""
    return "shared" if any(np.may_share_memory(result, array) for array in arrays) else "new"


def classify(namespace: str, name: str, seen: Observation) -> tuple[str, str]:
    """A kind of `KINDS`, and a note."""
    if (namespace, name) in KNOWN:
        return KNOWN[namespace, name]
    kept = {f: r for f, r in seen.reasons.items() if f not in BY_CLOCK or name == "sort_complex"}
    own = seen.jobs > 0 or len(kept) < len(seen.reasons)
    telling = {_told(function, reason) for function, reason in kept.items()}
    if namespace in ("numpy.random", "Generator", "RandomState"):
        others = telling - {UNLISTED, DRAWN_BY}
        if own and not seen.requests and not telling - {UNLISTED}:
            return OWN, ""
        return (FALLBACK if others - TABLE else DELEGATED), "; ".join(sorted(others)) or DRAWN_BY
    if len(telling) > 1 or own or seen.requests:
        telling.discard(UNLISTED)
    note = "; ".join(sorted(telling) + ["the rest is recorded"] * bool(seen.requests))
    if telling - TABLE:
        return FALLBACK, note
    if seen.loops:
        return FALLBACK, f"recorded, but run by a loop of NumPy's: {seen.loops}"
    if telling:
        return DELEGATED, note
    if own and seen.requests < 2:
        return OWN, ""
    if seen.requests:
        ufunc = isinstance(getattr(NAMESPACES[namespace], name, None), np.ufunc)
        return (KERNEL if seen.requests == 1 or ufunc else COMPOSED), ""
    if name in SOURCES and namespace == "numpy" and seen.result == "new":
        return DELEGATED, "it reads no array"
    if namespace == "ndarray" and name in READING:
        return DELEGATED, "it reads the values"
    if name in MEMORY:
        return VIEW, "memory without values"
    if seen.result == "new" or (seen.touched and seen.result != "shared"):
        return FALLBACK, UNSEEN
    return VIEW, ""


def _told(function: str, reason: str) -> str:
    """The reason; the table's, for C functions that it has."""
    found = getattr(np, function, None)
    compiled = not hasattr(getattr(found, "_implementation", found), "__code__")
    return COMPUTED.get(function, reason) if compiled and reason == UNLISTED else reason


# ------------------------------------------------------------------------------------ the rows


def public(namespace: str) -> list[str]:
    """The names of a namespace's public callables."""
    where: Any = NAMESPACES[namespace]
    if namespace == "operators":
        return [f"__{name}__" for name in OPERATORS if hasattr(np.ndarray, f"__{name}__")]
    listed = getattr(where, "__all__", None) if isinstance(where, types.ModuleType) else None
    names = dir(where) if listed is None else listed
    return sorted(
        {name for name in names if name[0] != "_" and callable(getattr(where, name, None))}
    )


def not_counted(namespace: str) -> dict[str, str]:
    """By name, why not."""
    why = {n: why for why, names in OTHERS[namespace].items() for n in names.split()}
    for name in public(namespace):
        if isinstance(getattr(NAMESPACES[namespace], name), type):
            why[name] = "class"
    return {name: why[name] for name in public(namespace) if name in why}


def counted(namespace: str) -> list[str]:
    """The names of a namespace's rows."""
    left = not_counted(namespace)
    forms = FORMS if namespace == "operators" else ()
    return sorted([*(name for name in public(namespace) if name not in left), *forms])


def _calls(namespace: str, name: str) -> list[str]:
    """What may stand for a callable: the first that NumPy takes does."""
    if namespace == "operators":
        return [FORMS.get(name) or OPERATORS[name.strip("_")]]
    known = CALLS[namespace].get(name)
    if namespace in ("ufunc", "ndarray"):
        return [known] if known else [f"x.{name}({given})" for given in METHODS]
    usual = FUNCTIONS if namespace in ("numpy", "numpy.linalg", "numpy.fft") else DRAWS
    return [f"{PREFIXES[namespace]}{name}({given})" for given in ([known] if known else usual)]


def row(namespace: str, name: str) -> Row:
    """One line of a table."""
    call = next(filter(_fits, _calls(namespace, name)), None)
    if call is None:
        raise LookupError(f"{namespace}: no call of {name} is known; CALLS needs one")
    kind, note = classify(namespace, name, observe(call))
    function = np.unique if name.startswith("unique_") else getattr(np, name, None)
    most = WHOLE.get(function, ("", 0))[1] if namespace == "numpy" else 0
    small = note in ("", UNLISTED, UNSEEN) and (kind == FALLBACK or (kind == OWN and most))
    if small:
        found = classify(namespace, name, observe(call, LARGE))
        if found != (kind, note):
            less = f"up to {most >> 20} MiB" if most else "where arrays are smaller"
            kind, note = found[0], "; ".join(filter(None, [found[1], f"NumPy's {less}"]))
    if name.strip("_") in ALSO.get(namespace, {}):
        label, other = ALSO[namespace][name.strip("_")]
        others, _ = classify(namespace, name, observe(other))
        if others != kind:
            note = "; ".join(filter(None, [note, f"{label}: {others}"]))
    return Row(name, call, kind, note)


# ------------------------------------------------------------------------------------ the page

HEAD = """# What npaccel does with each callable of NumPy

A program writes this page; nobody edits it. `make coverage` writes it anew, which a change of what
npaccel does with a call needs.

NumPy {version}, backend llvm, kernels compiled before their first run, two threads.

**{share}**
"""
HOW = """
How it was counted. The program calls each public callable in a block of `accelerate`, with the
call that its row shows. Its operands wait to be computed, as in the middle of a program; most have
{length:,} elements, matrices {side} × {side}. The program compares the results with NumPy's, and
reads from npaccel's counters what happened. Other arguments, dtypes and memory orders may be done
in other ways. Each name counts once, aliases too (`abs` and `absolute`), and an operator counts
beside its function. Of `x[...]` and `x[...] = ...` three forms count.

The counters do not see all. NumPy's C code that npaccel does not redirect, and steps on small
arrays, leave no trace in a row of another kind. Where NumPy's sources show that such code does most
of the work, the row was written by hand ({known} rows: `KNOWN` in `tools/coverage.py`).

- **kernel**: the call is a ufunc or one recorded operation. A compiled kernel computes it, together
  with those around it.
- **composed**: Python code, NumPy's or npaccel's, makes several recorded operations of it.
- **own loops**: loops of npaccel's own do it at once on all threads, or npaccel shares the rows of
  NumPy's loops among them, where either is faster.
- **delegated**: npaccel's tables leave it, or a part of it, to NumPy. This is NumPy's own code at
  NumPy's speed; npaccel computes what the call reads first. The note has the reason in the words of
  `npaccel.explain()`.
- **view or metadata**: it computes nothing.
- **fallback**: NumPy runs it, or a part of it, and npaccel's tables did not mean it to. The note
  says why.

A kernel row says that npaccel records the operation. Of small arrays, and where a trial has shown
that NumPy is done sooner, a block leaves it to NumPy all the same. Where a note says "NumPy's up to
8 MiB" or "NumPy's where arrays are smaller", NumPy runs the whole function on such arrays, and the
row is about arrays {large} times as large.
"""
TITLES = {
    "Generator": "numpy.random.Generator, methods",
    "RandomState": "numpy.random.RandomState, methods",
    "ufunc": "numpy.ufunc, methods",
    "ndarray": "numpy.ndarray, methods",
    "operators": "numpy.ndarray, operators",
}


def share(counts: Mapping[str, int]) -> str:
    """The sentences at the top, of numbers by kind."""
    computing = sum(n for kind, n in counts.items() if kind != VIEW)
    own = sum(counts.get(kind, 0) for kind in (KERNEL, COMPOSED, OWN))
    delegated, back = counts.get(DELEGATED, 0), counts.get(FALLBACK, 0)
    return (
        f"Of {computing} callables that compute something, npaccel computes {own} "
        f"({own / computing:.1%}) and delegates {delegated} ({delegated / computing:.1%}), which "
        f"is NumPy's own code at NumPy's speed: {(own + delegated) / computing:.1%} together. "
        f"{back} ({back / computing:.1%}) fall back. {counts.get(VIEW, 0)} more only make views or "
        "ask for metadata."
    )


def title(namespace: str) -> str:
    """The heading of its table."""
    return TITLES.get(namespace, namespace)


def _table(head: Iterable[str], lines: Iterable[Iterable[object]]) -> Iterator[str]:
    names = list(head)
    yield "| " + " | ".join(names) + " |"
    yield "|---" * len(names) + "|"
    for cells in lines:
        yield "| " + " | ".join(map(str, cells)) + " |"


def line(found: Row) -> list[str]:
    """The cells of a row."""
    call = found.call.replace("|", "\\|")
    return [f"`{found.name}`", f"`{call}`", found.kind, found.note]


def page() -> Iterator[str]:
    """The lines of docs/coverage.md."""
    found = {where: [row(where, name) for name in counted(where)] for where in NAMESPACES}
    numbers = {where: Counter(each.kind for each in rows) for where, rows in found.items()}
    total: Counter[str] = sum(numbers.values(), Counter())
    yield HEAD.format(version=np.__version__, share=share(total))
    totals = [*((title(where), n) for where, n in numbers.items()), ("all", total)]
    sums = [(where, *(n[kind] for kind in KINDS), n.total()) for where, n in totals]
    yield from _table(["", *KINDS, "all"], sums)
    yield HOW.format(length=LENGTH, side=SIDE, large=LARGE, known=len(KNOWN))
    for where, rows in found.items():
        yield f"## {title(where)}\n"
        yield from _table(["name", "call", "kind", "note"], map(line, rows))
        yield ""
    yield "## Not counted\n\nThey take no array, or are not about what arrays hold.\n"
    yield from _table(["where", "why", "names"], _left())


def _left() -> Iterator[tuple[str, str, str]]:
    for where in NAMESPACES:
        left = not_counted(where)
        for why in sorted(set(left.values())):
            names = ", ".join(f"`{name}`" for name, reason in left.items() if reason == why)
            yield title(where), why, names


def settle() -> None:
    """Settings that depend neither on the machine nor on the environment."""
    npaccel.config.backend = "llvm"
    npaccel.config.tiering = "eager"
    npaccel.config.threads = 2
    np.seterr(all="ignore")
    warnings.simplefilter("ignore")


def main(every: str = "") -> None:
    """The command line: the page, or the lines of every so many callables."""
    settle()
    if not every:
        for text in page():
            print(text)
        return
    names = [(where, name) for where in NAMESPACES for name in counted(where)]
    for where, name in names[:: int(every)]:
        print("| " + " | ".join(line(row(where, name))) + " |")


if __name__ == "__main__":
    main(*sys.argv[1:])
