"""OpenCL C text of one function: declarations, variables, loops. Knows nothing of kernels.

Coordinates and sizes are long. State that changes lives in variables declared at the function's
top; everything else is a constant in the block that computes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from npaccel.backends.opencl.scalar import Mask, Writer, c_type

__all__ = ["PREAMBLE", "Code", "half_functions", "memory_type"]

PREAMBLE = """\
#pragma OPENCL FP_CONTRACT OFF
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#ifdef __has_builtin
#if __has_builtin(__builtin_convertvector)
#define CONVERT(T, x) __builtin_convertvector(x, T)
#endif
#endif
#ifndef CONVERT
#define CONVERT(T, x) convert_##T(x)
#endif
"""

# f2 in a float: what is loaded is exact, what is computed is rounded to 11 bits, ties to even.
# Below the smallest normal number adding 0.75, whose last bit is 2**-24, rounds to multiples of it.
_HALF = """\
float{v} load_f2_{w}(ushort{v} x) {{
  uint{v} h = {to_uint}, m = h & 0x7fffU, s = (h & 0x8000U) << 16;
  float{v} tiny = {m_to_float} * 0x1p-24f;
  uint{v} a = (m << 13) + ((m >= 0x7c00U) ? (uint{v})(224U << 23) : (uint{v})(112U << 23));
  return as_float{v}(((m < 0x0400U) ? as_uint{v}(tiny) : a) | s);
}}
ushort{v} bits_f2_{w}(float{v} x) {{
  uint{v} b = as_uint{v}(x), a = b & 0x7fffffffU, s = (b >> 16) & 0x8000U;
  uint{v} scaled = as_uint{v}(as_float{v}(a) * 0x1p24f + 8388608.0f) & 0x007fffffU;
  uint{v} nan = 0x7c00U | ((a >> 13) & 0x3ffU);
  nan = nan | (((a > 0x7f800000U) & (nan == 0x7c00U)) ? (uint{v})(0x200U) : (uint{v})(0U));
  uint{v} h = (a < 0x38800000U) ? scaled : (a >> 13) - (112U << 10);
  h = ((a >= 0x7f800000U) ? nan : h) | s;
  return {to_ushort};
}}
float{v} round_f2_{w}(float{v} x) {{
  uint{v} b = as_uint{v}(x), a = b & 0x7fffffffU, s = b & 0x80000000U;
  uint{v} near = (a + 0xfffU + ((a >> 13) & 1U)) & ~(uint{v})(0x1fffU);
  near = (near >= 0x47800000U) ? (uint{v})(0x7f800000U) : near;
  uint{v} tiny = as_uint{v}((as_float{v}(a) + 0.75f) - 0.75f);
  uint{v} r = (a < 0x38800000U) ? tiny : near;
  return as_float{v}(((a > 0x7f800000U) ? a : r) | s);
}}
"""


def half_functions(width: int) -> str:
    """Functions that keep `width` lanes of f2 in floats."""
    v = "" if width == 1 else str(width)
    casts = {
        "to_uint": "(uint)x" if width == 1 else f"CONVERT(uint{v}, x)",
        "m_to_float": "(float)m" if width == 1 else f"CONVERT(float{v}, m)",
        "to_ushort": "(ushort)h" if width == 1 else f"CONVERT(ushort{v}, h)",
    }
    return _HALF.format(v=v, w=width, **casts)


def memory_type(dtype: str, width: int) -> str:
    """C type of `width` elements of `dtype` (not complex) in memory: b1 a byte, f2 its bits."""
    return c_type({"b1": "u1", "f2": "u2"}.get(dtype, dtype), width)


class Code:
    """The text of one function under construction.

    Attributes
    ----------
    half_widths : numbers of lanes for which `half_functions` are needed
    """

    def __init__(self) -> None:
        self.half_widths: set[int] = set()
        self._lines: list[str] = []
        self._tops: list[str] = []
        self._indent = 1
        self._count = 0

    def text(self, signature: str) -> str:
        """The whole function."""
        return "\n".join([f"{signature} {{", *self._tops, *self._lines, "}"]) + "\n"

    def writer(self, width: int) -> Writer:
        """A Writer of `width` lanes that adds to this function."""
        return Writer(width, self.let)

    # Statements.

    def fresh(self, hint: str) -> str:
        self._count += 1
        return f"{hint}{self._count}"

    def do(self, text: str) -> None:
        """Write a statement."""
        self._lines.append("  " * self._indent + text)

    def let(self, kind: str, text: str) -> str:
        """A new constant of C type `kind`."""
        name = self.fresh("t")
        self.do(f"const {kind} {name} = {text};")
        return name

    def long(self, text: str) -> str:
        """A new constant of type long."""
        return self.let("long", text)

    def add(self, x: str, y: str) -> str:
        """x + y of long; folds a 0."""
        return y if x == "0" else x if y == "0" else self.long(f"{x} + {y}")

    def mul(self, x: str, y: str) -> str:
        """x * y of long; folds 0 and 1."""
        if "0" in (x, y):
            return "0"
        return y if x == "1" else x if y == "1" else self.long(f"{x} * {y}")

    def minimum(self, x: str, y: str) -> str:
        """The smaller of two long."""
        return self.long(f"{x} < {y} ? {x} : {y}")

    def offset(self, pointer: str, count_bytes: str, space: str = "global") -> str:
        """`pointer` moved by that many bytes."""
        if count_bytes == "0":
            return pointer
        return self.let(f"{space} char *", f"{pointer} + {count_bytes}")

    def ramp(self, kind: str, width: int) -> str:
        """Text of the lanes' numbers as a vector of `kind`."""
        return f"(({kind}{width})({', '.join(map(str, range(width)))}))" if width > 1 else "0"

    def lanes_below(self, count: str, width: int) -> Mask:
        """Mask of the lanes whose number is less than `count`."""
        if width == 1:
            return Mask(self.let("int", f"0 < {count}"), 0)
        return Mask(
            self.let(f"int{width}", f"{self.ramp('int', width)} < (int{width})((int){count})"), 4
        )

    def any_lane(self, mask: str, width: int) -> str:
        """Text of whether any lane of a b1 value is true."""
        return mask if width == 1 else f"any({mask})"

    # Variables.

    def variable(self, kind: str, *counts: int) -> str:
        """An uninitialised variable, or array of them, alive in the function."""
        name = self.fresh("v")
        self._tops.append(f"  {kind} {name}{''.join(f'[{count}]' for count in counts)};")
        return name

    def set(self, variable: str, text: str) -> None:
        self.do(f"{variable} = {text};")

    # Blocks.

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """What is written inside stands in braces after `head`."""
        self.do(f"{head} {{")
        self._indent += 1
        yield
        self._indent -= 1
        self.do("}")

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """What is written inside runs if `condition` holds."""
        with self.block(f"if ({condition})"):
            yield

    @contextmanager
    def count(self, low: str, high: str, step: str = "1") -> Iterator[str]:
        """for (i = low; i < high; i += step); yields i."""
        i = self.fresh("i")
        with self.block(f"for (long {i} = {low}; {i} < {high}; {i} += {step})"):
            yield i

    def lanes_text(self, kind: str, lanes: Sequence[str]) -> str:
        """Text of a vector of these lanes."""
        return lanes[0] if len(lanes) == 1 else f"({kind})({', '.join(lanes)})"
