/* pick.c: array[mask], at once; how many elements it has depends on values, so it can't wait.
 *
 * Runs of eight that are all in or all out go as one; else each element is written and the place of
 * the next one moved only if it was in, for a branch would be guessed wrong. With the GIL. */
#include "record.h"

#include <string.h>

/* Elements of `size` bytes each, of which `count` are in. The mask may be written meanwhile: what is
 * written never passes the end. */
static void pick_elements(char *to, int64_t count, const char *from, const char *mask, int64_t n,
                          size_t size)
{
    char *end = to + count * (int64_t)size;
#define PICK(type)                                                                               \
    for (int64_t i = 0; i < n && to != end;) {                                                   \
        uint64_t eight = 1;                                                                      \
        if (n - i >= 8) {                                                                        \
            memcpy(&eight, mask + i, 8);                                                         \
        }                                                                                        \
        if (eight == 0) {                                                                        \
            i += 8;                                                                              \
        } else if (eight == 0x0101010101010101 && end - to >= (int64_t)(8 * sizeof(type))) {     \
            memcpy(to, from + i * (int64_t)sizeof(type), 8 * sizeof(type));                      \
            i += 8, to += 8 * sizeof(type);                                                      \
        } else {                                                                                 \
            for (int64_t last = i + 8 < n ? i + 8 : n; i < last && to != end; i++) {             \
                memcpy(to, from + i * (int64_t)sizeof(type), sizeof(type));                      \
                to += mask[i] != 0 ? sizeof(type) : 0;                                           \
            }                                                                                    \
        }                                                                                        \
    }                                                                                            \
    break
    switch (size) {
    case 1: PICK(uint8_t);
    case 2: PICK(uint16_t);
    case 4: PICK(uint32_t);
    case 8: PICK(uint64_t);
    case 16: PICK(npy_cdouble);
    default:
        for (int64_t i = 0; i < n && to != end; i++) {
            if (mask[i] != 0) {
                memcpy(to, from + i * (int64_t)size, size);
                to += size;
            }
        }
    }
    memset(to, 0, (size_t)(end - to));
}

static bool is_line(PyArrayObject *a)
{
    return PyArray_IS_C_CONTIGUOUS(a) && PyArray_ISNBO(PyArray_DESCR(a)->byteorder) &&
           npa_type_known(PyArray_TYPE(a)) && PyArray_NDIM(a) > 0 && PyArray_SIZE(a) > 0;
}

/* pick(array, mask): array[mask], or None where NumPy must do it. */
PyObject *npa_pick(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    (void)module;
    if (nargs != 2 || !PyArray_Check(args[0]) || !PyArray_Check(args[1])) {
        return PyErr_Format(PyExc_TypeError, "pick() needs two arrays");
    }
    PyArrayObject *a = (PyArrayObject *)args[0], *mask = (PyArrayObject *)args[1];
    int covered = PyArray_NDIM(mask), ndim = PyArray_NDIM(a);
    if (!is_line(a) || !is_line(mask) || PyArray_TYPE(mask) != NPY_BOOL || covered > ndim ||
        !PyArray_CompareLists(PyArray_DIMS(a), PyArray_DIMS(mask), covered)) {
        Py_RETURN_NONE;
    }
    if (npa_touch(a, false) < 0 || npa_touch(mask, false) < 0) {
        return NULL;
    }
    int before = npa_now(NPA_IN_KERNELS);
    npy_intp dims[NPY_MAXDIMS], n = PyArray_SIZE(mask);
    dims[0] = PyArray_CountNonzero(mask);
    for (int i = covered; i < ndim; i++) {
        dims[i - covered + 1] = PyArray_DIM(a, i);
    }
    PyArray_Descr *descr = PyArray_DESCR(a);
    Py_INCREF(descr);
    PyObject *made = PyArray_NewFromDescr(&PyArray_Type, descr, ndim - covered + 1, dims, NULL, NULL,
                                          0, NULL);
    if (made != NULL) {
        pick_elements(PyArray_BYTES((PyArrayObject *)made), dims[0], PyArray_BYTES(a),
                      PyArray_BYTES(mask), n, (size_t)(PyArray_NBYTES(a) / n));
    }
    npa_now(before);
    return made != NULL ? npa_adopted(made) : NULL;
}
