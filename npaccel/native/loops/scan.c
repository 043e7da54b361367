/* scan.c: loops for `accumulate` that keep the result so far in a register, where NumPy's read it
 * back from memory: several times as fast. The same operations in the same order. */
#include "loops/loops.h"

#include <math.h>
#include <string.h>

#define LOOP(op, type, next)                                                                     \
    static void op##_##type(char **args, const npy_intp *n, const npy_intp *steps, void *data)    \
    {                                                                                            \
        const char *in = args[1];                                                                \
        char *out = args[2];                                                                     \
        type last, x;                                                                            \
        (void)data;                                                                              \
        memcpy(&last, args[0], sizeof last);                                                     \
        for (npy_intp i = 0; i < *n; i++, in += steps[1], out += steps[2]) {                      \
            memcpy(&x, in, sizeof x);                                                            \
            last = next;                                                                         \
            memcpy(out, &last, sizeof last);                                                     \
        }                                                                                        \
    }
/* NumPy's rules for NaN and for zeros of two signs; comparisons that raise no flag. */
#define REAL(type)                                                                               \
    LOOP(add, type, last + x)                                                                    \
    LOOP(multiply, type, last * x)                                                               \
    LOOP(maximum, type, isgreater(last, x) || isnan(last) ? last : x)                            \
    LOOP(minimum, type, isless(last, x) || isnan(last) ? last : x)
#define SIGNED(type)                                                                             \
    LOOP(maximum, type, last >= x ? last : x)                                                    \
    LOOP(minimum, type, last <= x ? last : x)
REAL(float)
REAL(double)
SIGNED(int32_t)
SIGNED(int64_t)
LOOP(add, uint32_t, last + x)
LOOP(multiply, uint64_t, last * x)

static const struct {
    const char *op;
    int type;
    PyUFuncGenericFunction loop;
} loops[] = {
    {"add", NPY_FLOAT, add_float}, {"multiply", NPY_FLOAT, multiply_float},
    {"maximum", NPY_FLOAT, maximum_float}, {"minimum", NPY_FLOAT, minimum_float},
    {"add", NPY_DOUBLE, add_double}, {"multiply", NPY_DOUBLE, multiply_double},
    {"maximum", NPY_DOUBLE, maximum_double}, {"minimum", NPY_DOUBLE, minimum_double},
    {"maximum", NPY_INT, maximum_int32_t}, {"minimum", NPY_INT, minimum_int32_t},
    {"maximum", NPY_LONG, maximum_int64_t}, {"minimum", NPY_LONG, minimum_int64_t},
    {"add", NPY_INT, add_uint32_t}, {"add", NPY_UINT, add_uint32_t}, /* both wrap */
    {"multiply", NPY_LONG, multiply_uint64_t}, {"multiply", NPY_ULONG, multiply_uint64_t}};

PyUFuncGenericFunction npa_scan_loop(const char *op, int type, PyUFuncGenericFunction numpys)
{
    bool picks = strcmp(op, "maximum") == 0 || strcmp(op, "minimum") == 0;
    if (picks && PyTypeNum_ISFLOAT(type) && !NPA_NUMPY_AS_WRITTEN) {
        return numpys; /* has other rules for zeros of two signs */
    }
    for (size_t i = 0; i < sizeof loops / sizeof *loops; i++) {
        if (loops[i].type == npa_canonical(type) && strcmp(loops[i].op, op) == 0) {
            return loops[i].loop;
        }
    }
    return numpys;
}
