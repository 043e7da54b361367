/* cast.c: unsafe casts between the numeric types, as NumPy's: C's own conversions.
 *
 * for (i = 0; i < n; i++)  to[i * to_step] = (TO)from[i * from_step]
 *
 * Out-of-range floats give what the compiler's conversion instructions give, in NumPy too, whose
 * loops convert to signed integers (Note [Casts] of ir/scalar.py). */
#include "loops/loops.h"

#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

typedef _Float16 half;
typedef void cast_function(const char *from, int64_t from_step, char *to, int64_t to_step,
                           int64_t n);

/* AVX-512 has instructions for unsigned integers, which are invalid, and differ, for what is
 * negative. One conversion of an element, for a second one might be invalid. */
#define UNSIGNED_OF(NAME, T)                                                                     \
    static inline __attribute__((always_inline)) uint64_t NAME(T x)                              \
    {                                                                                            \
        const T half_range = (T)9223372036854775808.0; /* 2**63 */                               \
        bool large = x >= half_range;                                                            \
        return (uint64_t)(int64_t)(x - (large ? half_range : 0)) ^ (uint64_t)large << 63;        \
    }
UNSIGNED_OF(unsigned_of_single, float)
UNSIGNED_OF(unsigned_of_double, double)

#define UNSIGNED(x) _Generic((x), float: unsigned_of_single, double: unsigned_of_double)((x))

/* Memory seen as bools may hold anything. Processors convert halfs from and to singles: an integer
 * that is no single is no half either, but infinite. */
#define CONVERT_LINE(A, FROM, WIDE, TO, EXPRESSION, FROM_STEP, TO_STEP)                          \
    for (int64_t i = 0; i < n; i++) {                                                            \
        FROM element;                                                                            \
        memcpy(&element, from + i * (FROM_STEP), sizeof element);                                \
        WIDE x = element;                                                                        \
        TO truth = x != 0 ? (TO)1 : (TO)0; /* no conversion of bytes, which is six times slower */ \
        TO y = #A[0] == 'b' ? truth : EXPRESSION;                                                \
        memcpy(to + i * (TO_STEP), &y, sizeof y);                                                \
    }
#define CONVERT(A, B, FROM, WIDE, TO, EXPRESSION)                                                  \
    NPA_EACH_PROCESSOR static void cast_##A##_##B(const char *from, int64_t from_step, char *to,   \
                                                  int64_t to_step, int64_t n)                      \
    {                                                                                              \
        enum { FROM_SIZE = sizeof(FROM), TO_SIZE = sizeof(TO) };                                   \
        if (from_step == FROM_SIZE && to_step == TO_SIZE) {                                        \
            CONVERT_LINE(A, FROM, WIDE, TO, EXPRESSION, FROM_SIZE, TO_SIZE)                        \
        } else {                                                                                   \
            CONVERT_LINE(A, FROM, WIDE, TO, EXPRESSION, from_step, to_step)                        \
        }                                                                                          \
    }
#define FROM_ANY(A, T, W, HALF)                                                                  \
    CONVERT(A, b1, T, W, npy_bool, x != 0)                                                       \
    CONVERT(A, i1, T, W, int8_t, (int8_t)x)                                                      \
    CONVERT(A, i2, T, W, int16_t, (int16_t)x)                                                    \
    CONVERT(A, i4, T, W, int32_t, (int32_t)x)                                                    \
    CONVERT(A, i8, T, W, int64_t, (int64_t)x)                                                    \
    CONVERT(A, f2, T, W, half, HALF)                                                             \
    CONVERT(A, f4, T, W, float, (float)x)                                                        \
    CONVERT(A, f8, T, W, double, (double)x)
#define ROW(A, U)                                                                                \
    static cast_function *const from_##A[] = {                                                   \
        cast_##A##_b1, cast_##A##_i1, cast_##A##_##U##1, cast_##A##_i2, cast_##A##_##U##2,       \
        cast_##A##_i4, cast_##A##_##U##4, cast_##A##_i8, cast_##A##_##U##8, cast_##A##_f2,       \
        cast_##A##_f4, cast_##A##_f8};
/* Integers have the same bytes as unsigned integers and as signed ones of that size. */
#define FROM_INTEGER(A, T)                                                                       \
    FROM_ANY(A, T, T, (half)(float)x)                                                            \
    ROW(A, i)
#define FROM_FLOAT(A, T, W, HALF)                                                                \
    FROM_ANY(A, T, W, HALF)                                                                      \
    CONVERT(A, u1, T, W, uint8_t, (uint8_t)x)                                                    \
    CONVERT(A, u2, T, W, uint16_t, (uint16_t)x)                                                  \
    CONVERT(A, u4, T, W, uint32_t, (uint32_t)(int64_t)x)                                         \
    CONVERT(A, u8, T, W, uint64_t, UNSIGNED(x))                                                  \
    ROW(A, u)

FROM_INTEGER(b1, npy_bool)
FROM_INTEGER(i1, int8_t)
FROM_INTEGER(u1, uint8_t)
FROM_INTEGER(i2, int16_t)
FROM_INTEGER(u2, uint16_t)
FROM_INTEGER(i4, int32_t)
FROM_INTEGER(u4, uint32_t)
FROM_INTEGER(i8, int64_t)
FROM_INTEGER(u8, uint64_t)
FROM_FLOAT(f2, half, float, element)
FROM_FLOAT(f4, float, float, (half)x)
FROM_FLOAT(f8, double, double, (half)x)

/* By way of singles: the compiler would make the two conversions one, which is a function. */
static void cast_halfs_f8(const char *from, int64_t from_step, char *to, int64_t to_step, int64_t n)
{
    enum { MOST = 512 };
    float single[MOST];
    for (int64_t at = 0, m; at < n; at += m) {
        m = n - at < MOST ? n - at : MOST;
        cast_f2_f4(from + at * from_step, from_step, (char *)single, sizeof *single, m);
        cast_f4_f8((const char *)single, sizeof *single, to + at * to_step, to_step, m);
    }
}

static cast_function *const *const table[] = {from_b1, from_i1, from_u1, from_i2, from_u2, from_i4,
                                              from_u4, from_i8, from_u8, from_f2, from_f4, from_f8};

/* Row and column of the table; a complex type counts as its parts. */
static int column(int type)
{
    switch (type) {
    case NPY_BOOL: return 0;
    case NPY_BYTE: return 1;
    case NPY_UBYTE: return 2;
    case NPY_SHORT: return 3;
    case NPY_USHORT: return 4;
    case NPY_INT: return 5;
    case NPY_UINT: return 6;
    case NPY_LONG: return sizeof(long) == 8 ? 7 : 5;
    case NPY_ULONG: return sizeof(long) == 8 ? 8 : 6;
    case NPY_LONGLONG: return 7;
    case NPY_ULONGLONG: return 8;
    case NPY_HALF: return 9;
    case NPY_FLOAT: case NPY_CFLOAT: return 10;
    default: return 11;
    }
}

#define PAIR(T)                                                                                  \
    NPA_EACH_PROCESSOR static void pair_##T(const T *real, T *to, int64_t n)                     \
    {                                                                                            \
        for (int64_t i = 0; i < n; i++) {                                                        \
            to[2 * i] = real[i], to[2 * i + 1] = 0;                                              \
        }                                                                                        \
    }
PAIR(float)
PAIR(double)

/* Real numbers to complex ones that lie one behind the other. */
static void cast_to_pairs(cast_function *cast, const char *from, int64_t from_step, char *to,
                          int64_t part, int64_t n)
{
    enum { MOST = 512 };
    double room[MOST];
    bool there = from_step == part && cast == (part == sizeof(float) ? cast_f4_f4 : cast_f8_f8) &&
                 (uintptr_t)from % (uintptr_t)part == 0;
    for (int64_t at = 0, m; at < n; at += m) {
        m = n - at < MOST ? n - at : MOST;
        const void *real = there ? from + at * from_step : (const char *)room;
        if (!there) {
            cast(from + at * from_step, from_step, (char *)room, part, m);
        }
        if (part == sizeof(float)) {
            pair_float(real, (float *)to + 2 * at, m);
        } else {
            pair_double(real, (double *)to + 2 * at, m);
        }
    }
}

static void cast_to_complex(cast_function *cast, const char *from, int64_t from_step, char *to,
                            int64_t to_step, int64_t part, int64_t n)
{
    static const double zero;
    if (to_step == 2 * part && (uintptr_t)to % (uintptr_t)part == 0) {
        cast_to_pairs(cast, from, from_step, to, part, n);
        return;
    }
    cast(from, from_step, to, to_step, n);
    part == sizeof(float) ? cast_f4_f4((const char *)&zero, 0, to + part, to_step, n)
                          : cast_f8_f8((const char *)&zero, 0, to + part, to_step, n);
}

#define REALS(T)                                                                                  \
    NPA_EACH_PROCESSOR static void reals_##T(const T *pair, T *to, int64_t n)                     \
    {                                                                                            \
        for (int64_t i = 0; i < n; i++) {                                                        \
            to[i] = pair[2 * i];                                                                 \
        }                                                                                        \
    }
REALS(float)
REALS(double)

/* What is true of either part. */
NPA_EACH_PROCESSOR static void either(const char *restrict pair, char *restrict to,
                                      int64_t to_step, int64_t n)
{
    if (to_step == 1) {
        for (int64_t i = 0; i < n; i++) {
            to[i] = pair[2 * i] | pair[2 * i + 1];
        }
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        to[i * to_step] = pair[2 * i] | pair[2 * i + 1];
    }
}

/* Complex numbers to real ones; to truth values, of which both parts have one. */
static void cast_from_complex(cast_function *cast, const char *from, int64_t from_step, char *to,
                              int64_t to_step, int64_t part, bool truth, int64_t n)
{
    enum { MOST = 512 };
    double room[MOST];
    bool lies = from_step == 2 * part && (uintptr_t)from % (uintptr_t)part == 0;
    for (int64_t at = 0, m; at < n; at += m) {
        const char *pairs = from + at * from_step;
        m = n - at < MOST ? n - at : MOST;
        if (truth) {
            cast(pairs, lies ? part : from_step, (char *)room, lies ? 1 : 2, lies ? 2 * m : m);
            if (!lies) {
                cast(pairs + part, from_step, (char *)room + 1, 2, m);
            }
            either((char *)room, to + at * to_step, to_step, m);
        } else if (!lies) {
            cast(pairs, from_step, to + at * to_step, to_step, m);
        } else {
            if (part == sizeof(float)) {
                reals_float((const void *)pairs, (float *)room, m);
            } else {
                reals_double((const void *)pairs, room, m);
            }
            cast((const char *)room, part, to + at * to_step, to_step, m);
        }
    }
}

/* Cast n elements; steps in bytes. */
void npa_cast(int from_type, const char *from, int64_t from_step, int to_type, char *to,
              int64_t to_step, int64_t n)
{
    cast_function *cast = from_type == NPY_HALF && column(to_type) == 11
                              ? cast_halfs_f8
                              : table[column(from_type)][column(to_type)];
    int64_t from_part = from_type == NPY_CFLOAT ? 4 : 8, to_part = to_type == NPY_CFLOAT ? 4 : 8;
    bool from_pairs = PyTypeNum_ISCOMPLEX(from_type), to_pairs = PyTypeNum_ISCOMPLEX(to_type);
    if (to_pairs && !from_pairs) {
        cast_to_complex(cast, from, from_step, to, to_step, to_part, n);
        return;
    }
    if (from_pairs && !to_pairs) {
        cast_from_complex(cast, from, from_step, to, to_step, from_part, to_type == NPY_BOOL, n);
        return;
    }
    /* They are their parts */
    if (to_pairs && from_step == 2 * from_part && to_step == 2 * to_part) {
        cast(from, from_part, to, to_part, 2 * n);
        return;
    }
    cast(from, from_step, to, to_step, n);
    if (to_pairs) {
        cast(from + from_part, from_step, to + to_part, to_step, n);
    }
}
