/* away.c: subscripts of arrays that lie on a device, where all but a part of them stays there. */
#include "numpy/numpy.h"

/* `part` of npa_fetched(a) was written: so is what lies there. */
static bool put_there(PyArrayObject *a, PyArrayObject *part)
{
    npa_buffer *b = npa_there(a);
    char *low, *high, *first, *last;
    npa_extent(a, &low, &high);
    npa_extent(part, &first, &last);
    if (!npa_may_fetch(a, true) || last - first != high - low) {
        return false;
    }
    npa_lock();
    bool good = npa_there(a) == b &&
                npa_copy_put(b, (size_t)(low - b->base), (size_t)(high - b->base), first);
    npa_unlock();
    return good;
}

int npa_put_back(PyArrayObject *a, PyArrayObject *part)
{
    if (put_there(a, part)) {
        return 0;
    }
    PyObject *here = npa_touch(a, true) == 0 ? npa_exact_view(a) : NULL;
    int status = here != NULL ? PyArray_CopyInto((PyArrayObject *)here, part) : -1;
    Py_XDECREF(here);
    return status;
}

/* a[key] = value where a is on a device and all but a part of it can stay there: 1 done, 0 not so,
 * -1 error. */
int npa_put_part(PyObject *a, PyObject *key, bool element, PyObject *value)
{
    if (npa_there((PyArrayObject *)a) == NULL || PyArray_NDIM((PyArrayObject *)a) == 0 ||
        !PyArray_ISWRITEABLE((PyArrayObject *)a)) {
        return 0;
    }
    PyObject *whole = npa_exact_view((PyArrayObject *)a), *part = NULL, *view = NULL;
    if (whole != NULL) {
        view = element ? npa_element_view(whole, key) : npa_numpy.mapping.mp_subscript(whole, key);
    }
    if (view != NULL && npa_may_fetch((PyArrayObject *)view, true)) {
        part = npa_fetched((PyArrayObject *)view);
    }
    int status = PyErr_Occurred() ? -1 : 0;
    if (part != NULL) {
        PyObject *settled = npa_settled(value);
        status = settled != NULL ? npa_numpy.mapping.mp_ass_subscript(part, Py_Ellipsis, settled)
                                 : -1;
        Py_XDECREF(settled);
        bool back = status == 0 && npa_put_back((PyArrayObject *)view, (PyArrayObject *)part) == 0;
        status = back ? 1 : -1;
    }
    Py_XDECREF(whole), Py_XDECREF(view), Py_XDECREF(part);
    return status;
}

/* a[key], of a key that names one element; NULL, perhaps without error: nothing of that kind lies
 * there. */
PyObject *npa_fetched_element(PyObject *a, PyObject *key)
{
    if (npa_there((PyArrayObject *)a) == NULL) {
        return NULL;
    }
    PyObject *whole = npa_exact_view((PyArrayObject *)a), *found = NULL;
    PyObject *view = whole != NULL ? npa_element_view(whole, key) : NULL;
    if (view != NULL) {
        found = npa_fetched((PyArrayObject *)view);
    }
    Py_XDECREF(whole), Py_XDECREF(view);
    return found != NULL ? PyArray_Return((PyArrayObject *)found) : NULL;
}

PyObject *npa_put_back_py(PyObject *module, PyObject *args)
{
    PyArrayObject *a, *part;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!", &PyArray_Type, &a, &PyArray_Type, &part)) {
        return NULL;
    }
    return npa_put_back(a, part) == 0 ? Py_NewRef(Py_None) : NULL;
}

/* rebased(result, part, a): the result, or, where it is a view of `part`'s memory, the same view of
 * a's. */
PyObject *npa_rebased_py(PyObject *module, PyObject *args)
{
    PyArrayObject *result, *part, *a;
    char *low, *high;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!O!", &PyArray_Type, &result, &PyArray_Type, &part,
                          &PyArray_Type, &a)) {
        return NULL;
    }
    npa_extent(part, &low, &high);
    if (PyArray_BYTES(result) < low || PyArray_BYTES(result) >= high) {
        return Py_NewRef((PyObject *)result);
    }
    return npa_view_over(a, Py_TYPE(result), PyArray_DESCR(result), PyArray_NDIM(result),
                         PyArray_DIMS(result), PyArray_STRIDES(result),
                         PyArray_BYTES(a) + (PyArray_BYTES(result) - PyArray_BYTES(part)),
                         PyArray_FLAGS(result) & NPY_ARRAY_WRITEABLE);
}
