/* types.c: the types of elements that are known here. */
#include "loops/loops.h"

#include <fenv.h>
#include <string.h>

bool npa_type_known(int type)
{
    return (type >= NPY_BOOL && type <= NPY_DOUBLE) || type == NPY_CFLOAT || type == NPY_CDOUBLE ||
           type == NPY_HALF;
}

bool npa_dtype_known(const PyArray_Descr *d)
{
    return npa_type_known(d->type_num) && npa_is_usual_dtype(d);
}

/* Views are in elements: strides and addresses must be whole ones, which alignment promises for no
 * complex dtype (a field of a record may lie 24 bytes apart). */
bool npa_array_known(PyArrayObject *a)
{
    if (!npa_dtype_known(PyArray_DESCR(a)) || !PyArray_ISALIGNED(a) ||
        PyArray_NDIM(a) > NPA_MAX_DIMS) {
        return false;
    }
    npy_intp odd = (npy_intp)(intptr_t)PyArray_DATA(a);
    for (int i = 0; i < PyArray_NDIM(a); i++) {
        odd |= PyArray_STRIDE(a, i);
    }
    return (odd & (PyArray_ITEMSIZE(a) - 1)) == 0; /* item sizes are powers of two */
}

npy_intp npa_bytes_behind(PyArrayObject *a, int axes)
{
    npy_intp bytes = PyArray_ITEMSIZE(a);
    for (int i = PyArray_NDIM(a) - 1; i >= axes; i--) {
        if (PyArray_STRIDE(a, i) != bytes && PyArray_DIM(a, i) > 1) {
            return 0;
        }
        bytes *= PyArray_DIM(a, i);
    }
    return bytes;
}

/* Axis by axis, each step passes what lies inside. */
bool npa_shows_once(PyArrayObject *a)
{
    npy_intp steps[NPA_MAX_DIMS], spans[NPA_MAX_DIMS], inside = PyArray_ITEMSIZE(a);
    int n = 0;
    if (PyArray_IS_C_CONTIGUOUS(a)) {
        return true;
    }
    for (int i = 0; i < PyArray_NDIM(a); i++) {
        npy_intp step = Py_ABS(PyArray_STRIDE(a, i)), count = PyArray_DIM(a, i);
        int to = n;
        if (count <= 1) {
            continue;
        }
        for (; to > 0 && steps[to - 1] > step; to--) {
            steps[to] = steps[to - 1], spans[to] = spans[to - 1];
        }
        steps[to] = step, spans[to] = step * (count - 1);
        n++;
    }
    for (int i = 0; i < n; i++) {
        if (steps[i] < inside) {
            return false;
        }
        inside += spans[i];
    }
    return true;
}

/* On every platform two integer types of one size are the same to us. */
int npa_canonical(int type)
{
    if (type == NPY_LONGLONG && sizeof(long long) == sizeof(long)) {
        return NPY_LONG;
    }
    if (type == NPY_ULONGLONG && sizeof(long long) == sizeof(long)) {
        return NPY_ULONG;
    }
    return type;
}

/* Kinds of floating-point errors since they were cleared, as bits. */
int npa_raised(void)
{
    int flags = fetestexcept(FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW | FE_INVALID);
    return (flags & FE_DIVBYZERO ? 1 : 0) | (flags & FE_OVERFLOW ? 2 : 0) |
           (flags & FE_UNDERFLOW ? 4 : 0) | (flags & FE_INVALID ? 8 : 0);
}

int npa_cast_value(int from, const void *value, int to, void *out)
{
    char in[16] __attribute__((aligned(16))), result[16] __attribute__((aligned(16))) = {0};
    from = npa_canonical(from), to = npa_canonical(to);
    memcpy(in, value, (size_t)npa_item_sizes[from]);
    feclearexcept(FE_ALL_EXCEPT);
    npa_cast(from, in, 0, to, result, 0, 1);
    memcpy(out, result, (size_t)npa_item_sizes[to]);
    return npa_raised() & ~4;
}
