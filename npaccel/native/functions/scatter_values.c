/* scatter_values.c: v goes to places of an array, or is combined with what is there. */
#include "functions/functions.h"
#include "functions/scatter.h"

#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

enum { AHEAD = 64 }; /* elements that are fetched before their turn */

#define PUTS(name, T, DO)                                                                          \
    static inline void name##_here(T *to, const int64_t *places, const int64_t *which, npy_intp n, \
                                   const T *from, bool moves, bool far)                            \
    {                                                                                              \
        for (npy_intp i = 0; i < n; i++) {                                                         \
            if (far) {                                                                             \
                __builtin_prefetch(to + places[i + AHEAD < n ? i + AHEAD : i], 1);                 \
            }                                                                                      \
            T *x = to + places[i], y = from[!moves ? 0 : which == NULL ? i : which[i]];            \
            DO;                                                                                    \
        }                                                                                          \
    }                                                                                              \
    static void name(char *to, const int64_t *places, const int64_t *which, npy_intp n,            \
                     const char *values, npy_intp step, bool far)                                  \
    {                                                                                              \
        const T *from = (const T *)values;                                                         \
        if (step == 0) {                                                                           \
            name##_here((T *)to, places, which, n, from, false, far);                              \
        } else if (which == NULL) {                                                                \
            name##_here((T *)to, places, NULL, n, from, true, far);                                \
        } else {                                                                                   \
            name##_here((T *)to, places, which, n, from, true, far);                               \
        }                                                                                          \
    }
PUTS(put_1, uint8_t, *x = y)
PUTS(put_2, uint16_t, *x = y)
PUTS(put_4, uint32_t, *x = y)
PUTS(put_8, uint64_t, *x = y)
PUTS(put_16, npy_cdouble, *x = y)
#define SUMS(name, T)                                                                              \
    PUTS(add_##name, T, *x = (T)(*x + y)) PUTS(subtract_##name, T, *x = (T)(*x - y))
#define ARITHMETIC(name, T) SUMS(name, T) PUTS(multiply_##name, T, *x = (T)(*x * y))
#define BITS(name, T)                                                                              \
    PUTS(or_##name, T, *x |= y) PUTS(and_##name, T, *x &= y) PUTS(xor_##name, T, *x ^= y)
#define EXTREMES(name, T)                                                                          \
    PUTS(maximum_##name, T, *x = *x > y ? *x : y)                                                  \
    PUTS(minimum_##name, T, *x = *x < y ? *x : y)
#define INTEGERS(name, T, U)                                                                       \
    ARITHMETIC(name, U) BITS(name, U) EXTREMES(name, T) EXTREMES(u_##name, U)
#define FLOATS(name, T) ARITHMETIC(name, T) PUTS(divide_##name, T, *x = *x / y)
INTEGERS(1, int8_t, uint8_t)
INTEGERS(2, int16_t, uint16_t)
INTEGERS(4, int32_t, uint32_t)
INTEGERS(8, int64_t, uint64_t)
FLOATS(float, float)
FLOATS(double, double)
/* No NaN comes to the extremes. Of two equal numbers, which zeros are, these give the second: where
 * NumPy's loops are as they are written, it does so, too. */
#if NPA_NUMPY_AS_WRITTEN
EXTREMES(float, float)
EXTREMES(double, double)
#define EXTREME_FLOATS(name) OF_FLOATS(name)
#else
#define EXTREME_FLOATS(name) {0}
#endif
SUMS(cfloat, float _Complex)
SUMS(cdouble, double _Complex)
PUTS(or_bool, uint8_t, *x = (*x != 0) | (y != 0))
PUTS(and_bool, uint8_t, *x = (*x != 0) & (y != 0))

#define OF_INTEGERS(name) {name##_1, name##_2, name##_4, name##_8}
#define SAME(name) OF_INTEGERS(name), OF_INTEGERS(name) /* with and without a sign */
#define BOTH(name) OF_INTEGERS(name), OF_INTEGERS(name##_u)
#define OF_FLOATS(name) {name##_float, name##_double}
static const npa_put_operation operations[] = {
    {"add", true, false, SAME(add), OF_FLOATS(add), {add_cfloat, add_cdouble}, or_bool},
    {"subtract",
     true,
     false,
     SAME(subtract),
     OF_FLOATS(subtract),
     {subtract_cfloat, subtract_cdouble},
     NULL},
    {"multiply", true, false, SAME(multiply), OF_FLOATS(multiply), {0}, and_bool},
    {"divide", true, false, {0}, {0}, OF_FLOATS(divide), {0}, NULL},
    {"maximum", true, true, BOTH(maximum), EXTREME_FLOATS(maximum), {0}, or_bool},
    {"minimum", true, true, BOTH(minimum), EXTREME_FLOATS(minimum), {0}, and_bool},
    {"bitwise_or", false, false, SAME(or), {0}, {0}, or_bool},
    {"bitwise_and", false, false, SAME(and), {0}, {0}, and_bool},
    {"bitwise_xor", false, false, SAME(xor), {0}, {0}, NULL},
    {"logical_or", false, false, {0}, {0}, {0}, {0}, or_bool},
    {"logical_and", false, false, {0}, {0}, {0}, {0}, and_bool}};

npa_put_function *npa_put_of(npy_intp size)
{
    switch (size) {
    case 1: return put_1;
    case 2: return put_2;
    case 4: return put_4;
    case 8: return put_8;
    default: return size == 16 ? put_16 : NULL;
    }
}

const npa_put_operation *npa_put_operation_of(const char *name)
{
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
        if (strcmp(operations[i].name, name) == 0) {
            return &operations[i];
        }
    }
    return NULL;
}

/* NULL: NumPy's alone. */
npa_put_function *npa_put_kind_of(const npa_put_operation *o, int type)
{
    int size = npa_item_sizes[type], place = size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : 3;
    switch (type) {
    case NPY_BOOL: return o->truth;
    case NPY_FLOAT: return o->floats[0];
    case NPY_DOUBLE: return o->floats[1];
    case NPY_CFLOAT: return o->complex_numbers[0];
    case NPY_CDOUBLE: return o->complex_numbers[1];
    default: break;
    }
    return !PyTypeNum_ISINTEGER(type) ? NULL
           : PyTypeNum_ISSIGNED(type) ? o->integers[place] : o->unsigned_integers[place];
}
