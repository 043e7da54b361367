/* subscript.c: what a subscript names. */
#include "base/base.h"

/* 0: other; 1: basic, gives a view; 2: basic, names one element. */
int npa_key_kind(PyArrayObject *a, PyObject *key)
{
    PyObject *single[1] = {key}, **items = single;
    Py_ssize_t n = 1;
    int integers = 0;
    bool ellipsis = false;
    if (PyTuple_CheckExact(key)) {
        n = PyTuple_GET_SIZE(key);
        items = n > 0 ? &PyTuple_GET_ITEM(key, 0) : single;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *k = items[i];
        if (PyLong_CheckExact(k) || PyArray_IsScalar(k, Integer)) {
            integers++;
        } else if (k == Py_Ellipsis) {
            ellipsis = true;
        } else if (k != Py_None && !PySlice_Check(k)) {
            return 0;
        }
    }
    return integers == PyArray_NDIM(a) && !ellipsis ? 2 : 1;
}
