"""Write docs/ops.md: the operations of npaccel/ir/ops.py, their error bounds, and what runs them.

PYTHONSAFEPATH=1 .venv/bin/python tools/ops.py > docs/ops.md
"""

from __future__ import annotations

from collections.abc import Iterator

from npaccel.backends.primitives import primitives
from npaccel.ir.complexes import COMPLEX
from npaccel.ir.drawing import DRAWING
from npaccel.ir.exact import EXACT
from npaccel.ir.fast import FAST
from npaccel.ir.mathematics import MATHEMATICS
from npaccel.ir.operation import Op
from npaccel.ir.ops import OPS
from npaccel.ir.pieces import PIECES
from npaccel.ir.remainders import REMAINDERS
from npaccel.ir.special import SPECIAL

# Names of the kinds, and their dtypes.
KINDS = {"b": "b1", "i": "i1 to i8", "u": "u1 to u8", "f": "f2 f4 f8", "c": "c8 c16"}
# Title, rows, the file of the rows, and the test that holds the bound or the bits.
PARTS: tuple[tuple[str, tuple[Op, ...], str, str], ...] = (
    ("Arithmetic, comparison, bits", EXACT, "exact", "ir/test_ops.py"),
    ("Parts of floats", PIECES, "pieces", "ir/test_ops.py"),
    ("Remainders", REMAINDERS, "remainders", "ir/test_ops.py"),
    (
        "Mathematical functions",
        tuple(op for op in MATHEMATICS if op not in COMPLEX),
        "mathematics",
        "ir/test_mathematics.py",
    ),
    ("Mathematical functions of complex numbers", COMPLEX, "complexes", "ir/test_mathematics.py"),
    ("The second accuracy class", FAST, "fast", "ir/test_mathematics.py"),
    ("Functions of scipy.special", SPECIAL, "special", "ir/test_special.py"),
    ("Random numbers", DRAWING, "drawing", "test_random.py"),
)
HEAD = """# Operations

Written by `make ops` from the operation table (`npaccel/ir/ops.py`); a test holds it current.
[Extending](extending.md) says how to add a row, the [glossary](glossary.md) explains words.

- **dtypes**: of the first operand: `b1` truth values, `i` and `u` integers, `f` floats, `c` complex
  numbers, with their bytes.
- **bound**: the largest distance from the exact result, in units of its last place (of complex
  results, of the last place of its absolute value; of `logaddexp` and `logaddexp2`, of the largest
  of result and operands; of a complex `power` one more for each 1,000 of the size of y log(x), and
  NumPy's bits where y is whole and below 100). *NumPy's*: the same bits as NumPy. *Its own*: no
  function of NumPy's. The test that holds it stands above each table. What was found is in
  [usage](usage.md#how-exact-functions-are).
- **kernels**: compiled by the backends `llvm`, `c` and `opencl`. *No*: NumPy's loop computes it, as
  the backend `numpy` does with all.
- **blocks**: dtypes for which code came with the package, which runs before there is a kernel; for
  all others NumPy's loop does. A bound holds in both.
- **reduction**: how kernels combine elements; *no*: `reduce` is not for kernels.
"""


def main() -> None:
    """Print the page."""
    print("\n".join(page()))


def page() -> Iterator[str]:
    """Its lines."""
    yield HEAD
    for title, rows, file, test in PARTS:
        yield f"## {title}\n"
        yield f"Rows: `npaccel/ir/{file}.py`. Test: `tests/{test}`.\n"
        yield "| operation | dtypes | bound | kernels | blocks | reduction |"
        yield "|---|---|---|---|---|---|"
        for op in sorted(rows, key=lambda op: op.name.strip("_")):
            yield _row(op)
        yield ""
    yield "## Casts\n"
    yield "`copy` casts each dtype to each (`npaccel/ir/copying.py`), with NumPy's bits and"
    yield "warnings, in kernels. Test: `tests/ir/test_ops.py`."


def _row(op: Op) -> str:
    dtypes = ", ".join(KINDS[kind] for kind in op.kinds)
    without = f", not {' '.join(op.without)}" if op.without else ""
    bound = "its own" if op in DRAWING else str(op.ulp) if op.ulp else "NumPy's"
    kernels = "yes" if op.body is not None or op.fold is not None else "no"
    fold = op.fold.value if op.fold is not None else "no"
    cells = f"`{op.name}`", dtypes + without, bound, kernels, _ahead(op), fold
    return f"| {' | '.join(cells)} |"


def _ahead(op: Op) -> str:
    found = {p.loop[0] for p in PRIMITIVES if p.op is op}
    return " ".join(sorted(found, key=lambda d: (d[0], int(d[1:]))))


PRIMITIVES = tuple(primitives())


def unlisted() -> set[str]:
    """Names of rows that no table of the page has."""
    listed = {id(op) for _, rows, _, _ in PARTS for op in rows}
    return {op.name for op in OPS if id(op) not in listed}


if __name__ == "__main__":
    main()
