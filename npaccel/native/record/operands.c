/* operands.c: what is an operand, and whether an operation on some is worth recording. */
#include "record/record.h"
#include "record/draft.h"

#include <string.h>

/* False: not something that is recorded (another class, dtype, sequence ...). */
bool npa_classify(PyObject *object, npa_value *out)
{
    PyTypeObject *type = Py_TYPE(object);
    out->object = object;
    out->array = NULL;
    if (type == npa_array_type || type == &PyArray_Type) {
        PyArrayObject *a = (PyArrayObject *)object;
        if (!npa_array_known(a)) {
            return false;
        }
        out->type = PyArray_TYPE(a);
        out->array = a;
        return true;
    }
    if (type == &PyFloat_Type) {
        out->type = NPA_WEAK_FLOAT;
    } else if (type == &PyLong_Type) {
        out->type = NPA_WEAK_INT;
    } else if (type == &PyBool_Type) {
        out->type = NPY_BOOL;
    } else if (type == &PyComplex_Type) {
        out->type = NPA_WEAK_COMPLEX;
    } else if (PyArray_IsScalar(object, Generic)) {
        PyArray_Descr *d = PyArray_DescrFromScalar(object);
        if (d == NULL) {
            PyErr_Clear();
            return false;
        }
        out->type = d->type_num;
        bool known = npa_type_known(out->type) && PyArray_ISNBO(d->byteorder) &&
                     PyArray_IsScalar(object, Generic) &&
                     (PyObject *)d->typeobj == (PyObject *)type;
        Py_DECREF(d);
        return known;
    } else if (npa_here != NULL && PyObject_TypeCheck(object, &npa_runtime_type)) {
        out->type = PyFloat_CheckExact(((npa_runtime *)object)->value) ? NPA_WEAK_FLOAT
                                                                       : NPA_WEAK_INT;
    } else {
        return false;
    }
    return true;
}

size_t npa_broadcast_bytes(const npa_value *values, int n)
{
    npy_intp item = 0;
    size_t count = 1;
    int ndim = 0;
    for (int k = 0; k < n; k++) {
        PyArrayObject *a = values[k].array;
        if (a != NULL) {
            ndim = PyArray_NDIM(a) > ndim ? PyArray_NDIM(a) : ndim;
            item = PyArray_ITEMSIZE(a) > item ? PyArray_ITEMSIZE(a) : item;
        }
    }
    for (int i = 1; i <= ndim; i++) {
        npy_intp extent = 1;
        for (int k = 0; k < n; k++) {
            PyArrayObject *a = values[k].array;
            if (a != NULL && PyArray_NDIM(a) >= i && PyArray_DIM(a, PyArray_NDIM(a) - i) != 1) {
                extent = PyArray_DIM(a, PyArray_NDIM(a) - i);
            }
        }
        count *= (size_t)extent;
    }
    return count * (size_t)item;
}

/* To record an operation on less costs more than to show it. */
enum { LEAST_HIDDEN = 8 << 10 };

bool npa_wants(const npa_value *values, int n)
{
    int arrays = 0, deep = 0;
    bool large = false;
    if (!npa_guard_on) {
        return false;
    }
    if (npa_here != NULL ? npa_section_wants(values, n) : npa_section_block_wants(values, n)) {
        npa_aside_end();
        return true;
    }
    for (int k = 0; npa_stops > 0 && k < n; k++) {
        if (values[k].array != NULL && PyArray_NDIM(values[k].array) > 0 &&
            npa_stops_at(values[k].array)) {
            return true;
        }
    }
    for (int k = 0; k < n; k++) {
        PyArrayObject *a = values[k].array;
        if (a == NULL || PyArray_NDIM(a) == 0) {
            continue;
        }
        if (npa_is_pending(a) || npa_is_far(a)) {
            return true;
        }
        size_t bytes = (size_t)PyArray_NBYTES(a);
        large = large || (bytes > 0 && (npa_is_enough(bytes) ||
                                        (bytes >= LEAST_HIDDEN && npa_is_hidden(a))));
        arrays++;
        deep |= PyArray_NDIM(a) > 1;
    }
    large = large || (arrays > 1 && deep && npa_is_enough(npa_broadcast_bytes(values, n)));
    return large && !npa_lacks_room();
}
