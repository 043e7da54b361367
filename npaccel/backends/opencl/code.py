"""OpenCL C text of one function: declarations, variables, loops. Knows nothing of kernels.

Coordinates and sizes are long. State that changes lives in variables declared at the function's
top; everything else is a constant in the block that computes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from npaccel.backends.opencl.scalar import SIGNED, WIDEST, Mask, Writer, c_type

__all__ = ["INSTRUCTIONS", "PREAMBLE", "Code", "half_functions", "memory_type"]

# WIDE: features of the processor that the driver does not use unless told, as Clang names them.
# BARE: there are no declarations but these; see Note [Builds].
# ALONE: no vectors are to be made of a kernel's work items, which takes half the time of a build.
PREAMBLE = """\
#ifdef BARE
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef ulong size_t;
#define VECTOR(T, n) typedef T T##n __attribute__((ext_vector_type(n)));
#define VECTORS(T) VECTOR(T, 2) VECTOR(T, 4) VECTOR(T, 8) VECTOR(T, 16)
VECTORS(char) VECTORS(short) VECTORS(int) VECTORS(long) VECTORS(float) VECTORS(double)
VECTORS(uchar) VECTORS(ushort) VECTORS(uint) VECTORS(ulong)
#define DECLARED __attribute__((overloadable))
size_t DECLARED get_global_id(uint);
size_t DECLARED get_global_size(uint);
uint DECLARED atomic_or(volatile global uint *, uint);
uchar DECLARED clz(uchar);
ushort DECLARED clz(ushort);
uint DECLARED clz(uint);
ulong DECLARED clz(ulong);
uint DECLARED mul_hi(uint, uint);
ulong DECLARED mul_hi(ulong, ulong);
#endif
#pragma OPENCL FP_CONTRACT OFF
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#ifndef __has_builtin
#define __has_builtin(x) 0
#endif
#if __has_builtin(__builtin_convertvector)
#define CONVERT(T, x) __builtin_convertvector(x, T)
#define AS(T, x) __builtin_astype(x, T)
#define AT(T, n) typedef T##n T##n##_at __attribute__((aligned(sizeof(T)), may_alias));
#define ALL(T) AT(T,) AT(T, 2) AT(T, 4) AT(T, 8) AT(T, 16)
#define LOAD(T, n, p) (*(global const T##n##_at *)(p))
#define STORE(T, n, x, p) *(global T##n##_at *)(p) = x
#else
#define CONVERT(T, x) convert_##T(x)
#define AS(T, x) as_##T(x)
#define ALL(T) typedef T T##_at;
#define LOAD(T, n, p) vload##n(0, (global const T *)(p))
#define STORE(T, n, x, p) vstore##n(x, 0, (global T *)(p))
#endif
#if __has_builtin(__builtin_prefetch)
#define FETCH(p) __builtin_prefetch((const private void *)(ulong)(p), 0, 2)
#else
#define FETCH(p)
#endif
#if __has_builtin(__builtin_popcountl)
#define POPCOUNT(x) __builtin_popcountl(x)
#else
#define POPCOUNT(x) popcount(x)
#endif
ALL(uchar) ALL(ushort) ALL(uint) ALL(ulong) ALL(float)
#ifdef cl_khr_fp64
ALL(double)
#endif
#ifdef WIDE
#define FEATURES __attribute__((target(WIDE)))
#else
#define FEATURES
#endif
#ifdef cl_intel_vec_len_hint
#define ALONE __attribute__((intel_vec_len_hint(1)))
#else
#define ALONE
#endif
#define ABS(T, x) fabs(x)
#define FLOOR(T, x) floor(x)
#define CEIL(T, x) ceil(x)
#define TRUNC(T, x) trunc(x)
#define RINT(T, x) rint(x)
#define SQRT(T, x) sqrt(x)
#define FMA(T, x, y, z) fma(x, y, z)
"""

# For processors, behind PREAMBLE; see Note [Built-in functions].
INSTRUCTIONS = """\
#if defined(__FMA__) && __has_builtin(__builtin_elementwise_roundeven)
#undef ABS
#undef FLOOR
#undef CEIL
#undef TRUNC
#undef RINT
#undef SQRT
#undef FMA
#define ABS(T, x) __builtin_elementwise_abs(x)
#define FLOOR(T, x) __builtin_elementwise_floor(x)
#define CEIL(T, x) __builtin_elementwise_ceil(x)
#define TRUNC(T, x) __builtin_elementwise_trunc(x)
#define RINT(T, x) __builtin_elementwise_roundeven(x)
#define SQRT(T, x) SQRT_##T(x)
#define FMA(T, x, y, z) FMA_##T(x, y, z)
#define SQRT_float(x) __builtin_sqrtf(x)
#define SQRT_float2(x) ((float2)(SQRT_float((x).x), SQRT_float((x).y)))
#define SQRT_float4(x) __builtin_ia32_sqrtps(x)
#define SQRT_float8(x) __builtin_ia32_sqrtps256(x)
#define SQRT_double(x) __builtin_sqrt(x)
#define SQRT_double2(x) __builtin_ia32_sqrtpd(x)
#define SQRT_double4(x) __builtin_ia32_sqrtpd256(x)
#define FMA_float(x, y, z) __builtin_fmaf(x, y, z)
#define FMA_float2(x, y, z) \\
  ((float2)(FMA_float((x).x, (y).x, (z).x), FMA_float((x).y, (y).y, (z).y)))
#define FMA_float4(x, y, z) __builtin_ia32_vfmaddps(x, y, z)
#define FMA_float8(x, y, z) __builtin_ia32_vfmaddps256(x, y, z)
#define FMA_double(x, y, z) __builtin_fma(x, y, z)
#define FMA_double2(x, y, z) __builtin_ia32_vfmaddpd(x, y, z)
#define FMA_double4(x, y, z) __builtin_ia32_vfmaddpd256(x, y, z)
#ifdef WIDE
#define SQRT_float16(x) __builtin_ia32_sqrtps512(x, 4)
#define SQRT_double8(x) __builtin_ia32_sqrtpd512(x, 4)
#define SQRT_double16(x) ((double16)(SQRT_double8((x).lo), SQRT_double8((x).hi)))
#define FMA_float16(x, y, z) __builtin_ia32_vfmaddps512_mask(x, y, z, -1, 4)
#define FMA_double8(x, y, z) __builtin_ia32_vfmaddpd512_mask(x, y, z, -1, 4)
#else
#define SQRT_double8(x) ((double8)(SQRT_double4((x).lo), SQRT_double4((x).hi)))
#endif
#endif
"""

# f2 in a float: what is loaded is exact, what is computed is rounded to 11 bits, ties to even.
# Below the smallest normal number adding 0.75, whose last bit is 2**-24, rounds to multiples of it.
_HALF = """\
FEATURES static float{v} load_f2_{w}(ushort{v} x) {{
  uint{v} h = {to_uint}, m = h & 0x7fffU, s = (h & 0x8000U) << 16;
  float{v} tiny = {m_to_float} * 0x1p-24f;
  uint{v} a = (m << 13) + ((m >= 0x7c00U) ? (uint{v})(224U << 23) : (uint{v})(112U << 23));
  return AS(float{v}, ((m < 0x0400U) ? AS(uint{v}, tiny) : a) | s);
}}
FEATURES static ushort{v} bits_f2_{w}(float{v} x) {{
  uint{v} b = AS(uint{v}, x), a = b & 0x7fffffffU, s = (b >> 16) & 0x8000U;
  uint{v} scaled = AS(uint{v}, AS(float{v}, a) * 0x1p24f + 8388608.0f) & 0x007fffffU;
  uint{v} nan = 0x7c00U | ((a >> 13) & 0x3ffU);
  nan = nan | (((a > 0x7f800000U) & (nan == 0x7c00U)) ? (uint{v})(0x200U) : (uint{v})(0U));
  uint{v} h = (a < 0x38800000U) ? scaled : (a >> 13) - (112U << 10);
  h = ((a >= 0x7f800000U) ? nan : h) | s;
  return {to_ushort};
}}
FEATURES static float{v} round_f2_{w}(float{v} x) {{
  uint{v} b = AS(uint{v}, x), a = b & 0x7fffffffU, s = b & 0x80000000U;
  uint{v} near = (a + 0xfffU + ((a >> 13) & 1U)) & ~(uint{v})(0x1fffU);
  near = (near >= 0x47800000U) ? (uint{v})(0x7f800000U) : near;
  uint{v} tiny = AS(uint{v}, (AS(float{v}, a) + 0.75f) - 0.75f);
  uint{v} r = (a < 0x38800000U) ? tiny : near;
  return AS(float{v}, ((a > 0x7f800000U) ? a : r) | s);
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


def _size_bytes(kind: str) -> int:
    base = kind.rstrip("0123456789")
    size = {"char": 1, "short": 2, "int": 4, "long": 8, "float": 4, "double": 8}[base.lstrip("u")]
    return size * int(kind[len(base) :] or 1)


def memory_type(dtype: str, width: int) -> str:
    """C type of `width` elements of `dtype` (not complex) in memory: b1 a byte, f2 its bits."""
    return c_type({"b1": "u1", "f2": "u2"}.get(dtype, dtype), width)


class Code:
    """The text of one function under construction.

    Attributes
    ----------
    by_double : whether quotients and roots of f4 go by f8
    half_widths : numbers of lanes for which `half_functions` are needed
    state_bytes : of scratch memory, for what `lasting` declared after `begin_state`
    """

    def __init__(self, *, by_double: bool = False) -> None:
        self.by_double = by_double
        self.half_widths: set[int] = set()
        self.state_bytes = 0
        self._vectors = 0
        self._vector = ""
        self._lines: list[str] = []
        self._tops: list[str] = []
        self._indent = 1
        self._count = 0

    def text(self, signature: str, first: str = "") -> str:
        """The whole function, with `first` before all statements."""
        head = [f"{signature} {{", *([f"  {first}"] if first else [])]
        return "\n".join([*head, *self._tops, *self._lines, "}"]) + "\n"

    def writer(self, width: int) -> Writer:
        """A Writer of `width` lanes that adds to this function."""
        return Writer(width, self.let, by_double=self.by_double)

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
        if width == 1:
            return mask
        bytes_ = self.writer(width).mask_as(mask, 1)
        if width < WIDEST:
            return f"(AS({SIGNED[width]}, {bytes_}) != 0)"
        return f"((AS(long2, {bytes_}).x | AS(long2, {bytes_}).y) != 0)"

    # Variables.

    def variable(self, kind: str, *counts: int) -> str:
        """An uninitialised variable, or array of them, alive in the function."""
        name = self.fresh("v")
        self._tops.append(f"  {kind} {name}{''.join(f'[{count}]' for count in counts)};")
        return name

    def set(self, variable: str, text: str) -> None:
        self.do(f"{variable} = {text};")

    # Variables that every vector of a tile has one of; they lie in memory, not in registers.

    def begin_state(self, vectors: int) -> None:
        """From here on `lasting` variables are kept for each vector of a tile."""
        self._vectors, self._vector = vectors, self.variable("long")

    def lasting(self, kind: str, count: int = 1, vectors: int = 1) -> str:
        """An array whose elements, arrays of `vectors`, last while others of a tile have a turn."""
        if not self._vectors:
            return self.variable(kind, count, vectors)
        name = self.fresh("s")
        self._tops.append(f"  global {kind} (*{name})[{vectors}];")
        self.set(name, f"(global {kind} (*)[{vectors}])(scratch + {self.state_bytes})")
        size = _size_bytes(kind) * count * vectors * self._vectors
        self.state_bytes += -(-size // 64) * 64
        return name

    def enter(self, vector: str) -> None:
        """Let lasting variables be those of that vector of the tile."""
        self.set(self._vector, vector)

    def slot(self, variable: str, index: str = "0") -> str:
        """Text of element `index` of a lasting variable."""
        where = f"({index}) * {self._vectors} + {self._vector}" if self._vectors else index
        return f"{variable}[{where}]"

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


# Note [Built-in functions]
# A driver for processors may call its built-in functions instead of making them part of the loop:
# PoCL does if its library was compiled for another processor than it compiles kernels for. Then
# `exp` takes twenty calls, and a vector wider than the kernel's registers is passed wrongly. So
# loads, stores, tests and the functions of floats are the compiler's own operators, where it is
# Clang and the processor has the instructions: they are exact there. Elements are read and written
# as any type (may_alias), since views of one array may have several.

# Note [Builds]
# PoCL's compiler reads a megabyte of declarations for each program, half of the time that a build
# takes. It leaves them out where their guard is defined already, as by `target.BARE`. A driver that
# has no such guard rejects the program, and it is built again as usual.
