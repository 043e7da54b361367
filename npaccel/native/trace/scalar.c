/* scalar.c: the value of a scalar, in the type that a loop takes. */
#include "trace/trace.h"

#include <string.h>

/* An integer of Python's, if it fits that type; where that is a float, exactly. */
static inline bool take_integer(PyObject *o, int to, char *raw)
{
    int overflow;
    long long i = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (overflow || (i == -1 && PyErr_Occurred())) {
        PyErr_Clear();
        return false;
    }
    if (PyTypeNum_ISINTEGER(to)) {
        PyArray_Descr *td = PyArray_DescrFromType(to);
        int bits = 8 * (int)PyDataType_ELSIZE(td);
        Py_DECREF(td);
        bool is_signed = PyTypeNum_ISSIGNED(to);
        if ((!is_signed && i < 0) ||
            (bits < 64 && (is_signed ? i < -(1LL << (bits - 1)) || i >= 1LL << (bits - 1)
                                     : i >= 1LL << bits))) {
            return false;
        }
    } else if (to == NPY_BOOL || i > (1LL << 53) || i < -(1LL << 53)) {
        return false;
    }
    memcpy(raw, &i, 8);
    return true;
}

int npa_scalar_value(const npa_value *v, int to, void *out)
{
    double d[2] = {0, 0};
    char raw[16];
    int from;
    if (v->array != NULL) { /* 0-d: its value now */
        from = v->type;
        memcpy(raw, PyArray_DATA(v->array), (size_t)PyArray_ITEMSIZE(v->array));
    } else if (v->type == NPA_WEAK_INT) {
        if (!take_integer(v->object, to, raw)) {
            return 0;
        }
        from = NPY_LONGLONG;
    } else if (v->type == NPA_WEAK_FLOAT) {
        d[0] = PyFloat_AS_DOUBLE(v->object);
        if (!PyTypeNum_ISFLOAT(to) && !PyTypeNum_ISCOMPLEX(to)) {
            return 0;
        }
        from = NPY_DOUBLE;
        memcpy(raw, d, 8);
    } else if (v->type == NPA_WEAK_COMPLEX) {
        Py_complex c = PyComplex_AsCComplex(v->object);
        if (!PyTypeNum_ISCOMPLEX(to)) {
            return 0;
        }
        d[0] = c.real, d[1] = c.imag;
        from = NPY_CDOUBLE;
        memcpy(raw, d, 16);
    } else if (Py_TYPE(v->object) == &PyBool_Type) {
        from = NPY_BOOL;
        raw[0] = v->object == Py_True;
    } else {
        from = v->type;
        PyArray_ScalarAsCtype(v->object, raw);
    }
    memset(out, 0, 16);
    if (from == to && from == NPY_DOUBLE) { /* casting takes care of flags, which takes longer */
        memcpy(out, raw, sizeof(double));
        return 1;
    }
    return npa_cast_value(from, raw, to, out) == 0;
}
