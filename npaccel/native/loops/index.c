/* index.c: whether integers that are to pick elements are in bounds, at the speed of memory. */
#include "loops/loops.h"

#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

/* Signs tell: of i where one is negative; of i + extent or extent - 1 - i where one is outside. The
 * sums wrap, and do so only for an i that is outside anyway. */
#define SIGNS(T, U)                                                                     \
    do {                                                                                \
        U below = 0, outside = 0, n = (U)extent;                                        \
        for (npy_intp i = 0; i < count; i++) {                                          \
            T value;                                                                    \
            memcpy(&value, p + i * stride, sizeof value);                               \
            U u = (U)value;                                                             \
            below |= u, outside |= (u + n) | (n - 1 - u);                               \
        }                                                                               \
        return (outside >> (8 * sizeof(U) - 1)) ? 2 : (below >> (8 * sizeof(U) - 1)) ? 1 : 0; \
    } while (0)

NPA_EACH_PROCESSOR static int line_of_longs(const char *p, npy_intp stride, npy_intp count,
                                            npy_intp extent)
{
    if (stride == 8) {
        stride = 8; /* a loop of its own: its loads are next to each other; half the time */
        SIGNS(int64_t, uint64_t);
    }
    SIGNS(int64_t, uint64_t);
}

NPA_EACH_PROCESSOR static int line_of_ints(const char *p, npy_intp stride, npy_intp count,
                                           npy_intp extent)
{
    if (stride == 4) {
        stride = 4;
        SIGNS(int32_t, uint32_t);
    }
    SIGNS(int32_t, uint32_t);
}

/* Of any other type: widened first. */
static int line_of_others(int type, const char *p, npy_intp stride, npy_intp count,
                          npy_intp extent)
{
    enum { MANY = 512 };
    int64_t wide[MANY];
    int worst = 0;
    for (npy_intp at = 0; at < count && worst < 2; at += MANY) {
        npy_intp n = count - at < MANY ? count - at : MANY;
        npa_cast(type, p + at * stride, stride, NPY_LONG, (char *)wide, 8, n);
        int found = line_of_longs((const char *)wide, 8, n, extent);
        worst = found > worst ? found : worst;
    }
    return worst;
}

int npa_bounds_of(const npa_indices *of, const char *p)
{
    npy_intp at[NPA_MAX_DIMS] = {0}, count = 1, rows = 1;
    const npy_intp *shape = of->lengths, *strides = of->lengths + of->ndim;
    int worst = 0, last = of->ndim; /* axes from `last` on are one line */
    npy_intp stride = of->size;
    while (last > 0 && (shape[last - 1] == 1 || strides[last - 1] == stride * count)) {
        count *= shape[--last];
    }
    if (last == of->ndim && last > 0) {
        last--, count = shape[last], stride = strides[last];
    }
    for (int i = 0; i < last; i++) {
        rows *= shape[i];
    }
    for (; count > 0 && rows > 0 && worst < 2; rows--) {
        int found = of->type == NPY_LONG ? line_of_longs(p, stride, count, of->extent)
                    : of->type == NPY_INT && of->extent <= 0x40000000
                        ? line_of_ints(p, stride, count, of->extent)
                        : line_of_others(of->type, p, stride, count, of->extent);
        worst = found > worst ? found : worst;
        for (int i = last - 1; i >= 0; i--) {
            p += strides[i];
            if (++at[i] < shape[i]) {
                break;
            }
            p -= strides[i] * at[i];
            at[i] = 0;
        }
    }
    return worst;
}

bool npa_indices_of(PyArrayObject *index, npy_intp extent, npa_indices *of)
{
    int type = npa_canonical(PyArray_TYPE(index)), ndim = PyArray_NDIM(index);
    if (!PyTypeNum_ISINTEGER(type) || !npa_array_known(index) || ndim > NPA_MAX_DIMS) {
        return false;
    }
    *of = (npa_indices){.type = type, .size = (int)PyArray_ITEMSIZE(index), .ndim = ndim,
                        .extent = extent};
    memcpy(of->lengths, PyArray_DIMS(index), sizeof *of->lengths * (size_t)ndim);
    memcpy(of->lengths + ndim, PyArray_STRIDES(index), sizeof *of->lengths * (size_t)ndim);
    return true;
}

int npa_index_bounds(PyArrayObject *index, npy_intp extent)
{
    npa_indices of;
    return npa_indices_of(index, extent, &of) ? npa_bounds_of(&of, PyArray_BYTES(index)) : -1;
}
