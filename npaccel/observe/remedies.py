"""What can be done about a function that NumPy ran itself, by its name or by the reason; and what
is left of its time then, where that is known."""

from __future__ import annotations

import ast
from typing import Final

from npaccel.observe import gains
from npaccel.observe.line_texts import called

__all__ = ["LEFT", "PRODUCTS", "RECORDED", "as_written", "remedy_of"]

BINARY: Final = "np.load reads such numbers from a binary file in a fraction of it"
DOUBLES: Final = "use float64, whose kernels there are"
COMPLEX: Final = "use complex128, whose kernels there are"
INTEGERS: Final = "x.astype('i8') once, as integers are recorded"
IGNORED: Final = "np.errstate(all='warn', under='ignore') lets it be recorded"
BLAS: Final = "BLAS does it on all processors; fewer, larger products take less"
PRODUCTS: Final = ("matmul", "dot", "vdot", "tensordot")
BY_NAME: Final = {
    **dict.fromkeys(PRODUCTS, BLAS),
    "lstsq": "LAPACK does it; several right-hand sides in one call take little more than one",
    "inv": "np.linalg.solve(a, b) is inv(a) @ b with a third of the operations",
    "apply_along_axis": "Python runs it for each row; call a function that takes `axis`",
    "vectorized": "Python runs it for each element; write it with operations on whole arrays",
    "savetxt": "np.save writes the same numbers in binary, which takes a fraction of it",
    "loadtxt": BINARY,
    "genfromtxt": BINARY,
    "piecewise": "np.where() and np.select() are recorded",
    "shuffle": "",
    "permutation": "",
    "permuted": "",
}
BY_REASON: Final = {
    "matrix product": BLAS,
    "underflow": IGNORED,
    "errors raise": IGNORED,
    "unaligned": "np.array(x['field']) copies it once; or a dtype with align=True",
    "swapped bytes": "x.astype(x.dtype.newbyteorder('=')) once",
    "datetime64": INTEGERS,
    "timedelta64": INTEGERS,
    "object": "arrays of Python objects stay NumPy's; use numbers",
    "clongdouble": COMPLEX,
    "complex256": COMPLEX,
    "longdouble": DOUBLES,
    "float128": DOUBLES,
}
# What is left of the line's time then; of others nothing is known.
LEFT: Final = {
    "vectorized": gains.ONE_CALL,
    "apply_along_axis": gains.ONE_CALL,
    "savetxt": gains.BINARY,
    "loadtxt": gains.BINARY,
    "genfromtxt": gains.BINARY,
    **dict.fromkeys(
        ("object", "clongdouble", "complex256", "longdouble", "float128"), gains.DOUBLES
    ),
}
# It is recorded then.
RECORDED: Final = (
    "underflow",
    "errors raise",
    "unaligned",
    "swapped bytes",
    "datetime64",
    "timedelta64",
)
LAPACK: Final = "LAPACK does it; ask for no more than is used (svdvals, eigvalsh, solve)"
OTHERS: Final = "docs/coverage.md lists what is accelerated"
SIGNS: Final = {
    ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "divide",
    ast.FloorDiv: "floor_divide", ast.Mod: "remainder", ast.Pow: "power", ast.MatMult: "matmul",
    ast.USub: "negative", ast.Invert: "invert", ast.BitAnd: "bitwise_and", ast.BitOr: "bitwise_or",
    ast.BitXor: "bitwise_xor", ast.LShift: "left_shift", ast.RShift: "right_shift",
    ast.Lt: "less", ast.LtE: "less_equal", ast.Gt: "greater", ast.GtE: "greater_equal",
    ast.Eq: "equal", ast.NotEq: "not_equal",
}  # fmt: skip


def remedy_of(function: str, reason: str = "") -> tuple[str, str]:
    """By what it was found, a key of LEFT or of RECORDED perhaps, and the remedy."""
    last = "vectorized" if "vectorized" in function else function.rpartition(".")[2]
    if last in BY_NAME:
        return last, BY_NAME[last]
    word = next((word for word in BY_REASON if word in reason), "")
    if word:
        return word, BY_REASON[word]
    return "", LAPACK if ".linalg." in function else OTHERS


def as_written(tree: ast.AST, function: str) -> str:
    """What NumPy counted, as the line has it: by what is called there that called it, where it is
    not there itself."""
    last = function.rpartition(".")[2]
    for node in ast.walk(tree):
        match node:
            case ast.Name(name) | ast.Attribute(_, name) if name == last:
                return function
            case ast.operator() | ast.unaryop() | ast.cmpop() if SIGNS.get(type(node)) == last:
                return function
    caller = called(tree)
    whole = caller and " " not in function and not caller.endswith((".array", ".asarray"))
    return f"`{caller}`" if whole else function
