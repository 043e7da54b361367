/* filled.c: arrays that are made, or filled with a number: `empty`, `zeros`, `fill`, `copyto`.
 * Not in sections, which have to hear of it. */
#include "numpy/numpy.h"
#include "small/functions.h"
#include "small/small.h"
#include "small/ways.h"

#include <string.h>

static bool is_array(PyObject *o)
{
    return PyArray_CheckExact(o) || Py_IS_TYPE(o, npa_array_type);
}

/* Whether the array takes a number of Python's or NumPy's as it is, in range, from its kind or a
 * narrower one. */
static bool takes(PyArrayObject *a, PyObject *number)
{
    char room[16];
    return PyArray_TYPE(a) == NPY_BOOL ? PyBool_Check(number)
                                       : npa_take_scalar(number, PyArray_TYPE(a), room);
}

/* Whether an array has the type of another, and no more axes. */
static bool is_alike(PyObject *o, PyArrayObject *a)
{
    PyArrayObject *b = (PyArrayObject *)o;
    return is_array(o) && npa_array_known(b) && PyArray_TYPE(b) == PyArray_TYPE(a) &&
           PyArray_NDIM(b) <= PyArray_NDIM(a);
}

/* The one element of an array that waits for nothing, as `zeros_like` has it; or the array. */
static PyObject *alone(PyObject *o)
{
    PyArrayObject *a = (PyArrayObject *)o;
    bool one = PyArray_SIZE(a) == 1 && !npa_waits(a);
    return one ? PyArray_ToScalar(PyArray_DATA(a), a) : Py_NewRef(o);
}

/* None, where array[...] = value is recorded; as npa_own. */
static PyObject *filled(PyObject *array, PyObject *value)
{
    PyArrayObject *a = (PyArrayObject *)array;
    npa_value v = {.array = a};
    if (npa_in_section() || !is_array(array) || !npa_array_known(a) || !PyArray_ISWRITEABLE(a) ||
        !npa_wants(&v, 1)) {
        return NULL;
    }
    PyObject *number = is_alike(value, a) ? alone(value)
                       : takes(a, value)  ? Py_NewRef(value) : NULL;
    int status = number != NULL ? npa_assign_all(a, number) : 0;
    Py_XDECREF(number);
    return status > 0 ? Py_NewRef(Py_None) : NULL;
}

PyObject *npa_fill_array(void *what, PyObject *self, PyObject *const *args, Py_ssize_t n,
                   PyObject *names)
{
    (void)what;
    return n == 1 && names == NULL && !PyArray_Check(args[0]) ? filled(self, args[0]) : NULL;
}

/* copyto(array, number), or an array of its type. Any cast is right, which none is that this does;
 * but the number 1 that `ones` writes into truth values. */
PyObject *npa_copy_to(void *what, PyObject *module, PyObject *const *args, Py_ssize_t n,
                      PyObject *names)
{
    (void)what, (void)module;
    bool named = names != NULL && PyTuple_GET_SIZE(names) == 1 &&
                 PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "casting") == 0 &&
                 PyUnicode_CheckExact(args[n]);
    bool any = named && PyUnicode_CompareWithASCIIString(args[n], "unsafe") == 0;
    bool usual = named && PyUnicode_CompareWithASCIIString(args[n], "same_kind") == 0;
    if (n != 2 || (names != NULL && !any && !usual) || !is_array(args[0])) {
        return NULL;
    }
    bool truth = PyArray_TYPE((PyArrayObject *)args[0]) == NPY_BOOL;
    bool one = truth && any && PyLong_CheckExact(args[1]) && PyLong_AsLong(args[1]) == 1;
    PyErr_Clear(); /* of a number that is too large, which NumPy tells */
    return filled(args[0], one ? Py_True : args[1]);
}

PyObject *npa_make_empty(void *what, PyObject *module, PyObject *const *args, Py_ssize_t n,
                         PyObject *names)
{
    (void)what, (void)module;
    int type = n > 0 && !npa_in_section() ? npa_small_type_of_new(args, n, names) : -1;
    PyArray_Descr *d = type >= 0 ? PyArray_DescrFromType(type) : NULL;
    PyObject *made = d != NULL ? npa_new_of_shape(d, args[0]) : NULL;
    Py_XDECREF(d);
    return made;
}

PyObject *npa_make_zeros(void *what, PyObject *module, PyObject *const *args, Py_ssize_t n,
                         PyObject *names)
{
    /* More are often filled in a few places only: NumPy's cost nothing until they are used. */
    enum { MOST = 1 << 30 };
    PyObject *made = npa_make_empty(what, module, args, n, names);
    if (made != NULL && (PyArray_NBYTES((PyArrayObject *)made) > MOST ||
                         npa_assign_all((PyArrayObject *)made, Py_False) <= 0)) {
        Py_CLEAR(made);
    }
    return made;
}

/* empty_like(a, ...) filled with a number, or without one with 0 or 1, which are as truth values of
 * any type. */
static PyObject *filled_like(PyObject *const *args, Py_ssize_t n, PyObject *names, PyObject *truth,
                             PyObject *number)
{
    PyObject *made = npa_record_empty_like(args, n, names);
    bool fits = made != NULL && (number == NULL || takes((PyArrayObject *)made, number));
    if (made != NULL && (!fits || npa_assign_all((PyArrayObject *)made,
                                                 number != NULL ? number : truth) <= 0)) {
        Py_CLEAR(made);
    }
    return made;
}

PyObject *npa_record_zeros_like(PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    return filled_like(args, n, names, Py_False, NULL);
}

PyObject *npa_record_ones_like(PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    return filled_like(args, n, names, Py_True, NULL);
}

PyObject *npa_record_full_like(PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    enum { MOST = 4 }; /* a, dtype, shape: what empty_like is told */
    Py_ssize_t named = names != NULL ? PyTuple_GET_SIZE(names) : 0;
    PyObject *given[MOST] = {n == 2 ? args[0] : NULL};
    if (n != 2 || 1 + named > MOST) {
        return NULL;
    }
    memcpy(given + 1, args + 2, sizeof *given * (size_t)named);
    return filled_like(given, 1, names, NULL, args[1]);
}
