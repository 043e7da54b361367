"""What every OpenCL C program of ours begins with."""

from __future__ import annotations

__all__ = ["DECLARATIONS", "INSTRUCTIONS", "PREAMBLE"]

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
#if __has_builtin(__builtin_expect)
#define RARELY(x) __builtin_expect((x) != 0, 0)
#else
#define RARELY(x) (x)
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

# What groups need of what PREAMBLE leaves out; see Note [Builds]
DECLARATIONS = """\
#ifdef BARE
size_t DECLARED get_group_id(uint);
size_t DECLARED get_num_groups(uint);
size_t DECLARED get_local_id(uint);
void DECLARED __attribute__((convergent)) barrier(uint);
#ifndef CLK_LOCAL_MEM_FENCE
#define CLK_LOCAL_MEM_FENCE 1
#define CLK_GLOBAL_MEM_FENCE 2
#endif
#endif
"""

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
