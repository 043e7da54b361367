/* small_lists.c: arrays of what a list holds: numbers, rows of numbers, or small arrays. */
#include "small/small.h"
#include "small/functions.h"
#include "small/ways.h"

#include <numpy/arrayscalars.h>

enum { MOST = 1024 };

typedef struct {
    int ndim, type; /* type: of the array; -1: not known yet */
    npy_intp shape[2];
} found;

/* A number of Python's or NumPy's own, as what it is and as a double; its type, or -1. */
static inline int take_number(PyObject *o, long *i, double *d)
{
    int overflow = 0;
    if (PyFloat_CheckExact(o) || Py_IS_TYPE(o, &PyDoubleArrType_Type)) {
        *d = PyFloat_AS_DOUBLE(o);
        return NPY_DOUBLE;
    }
    if (PyBool_Check(o)) {
        *i = o == Py_True;
        return NPY_BOOL;
    }
    if (sizeof(long) != sizeof(npy_intp)) {
        return -1; /* whole numbers become others there */
    }
    if (PyLong_CheckExact(o)) {
        *i = PyLong_AsLongAndOverflow(o, &overflow);
    } else if (Py_IS_TYPE(o, &PyLongArrType_Type)) {
        *i = PyArrayScalar_VAL(o, Long);
    } else {
        return -1;
    }
    *d = (double)*i;
    return overflow ? -1 : NPY_LONG;
}

/* The type of what has both in it. Truth values go with nothing else. */
static inline int joined_type(int a, int b)
{
    if (a == b || a < 0) {
        return b;
    }
    return a == NPY_BOOL || b == NPY_BOOL ? -1 : NPY_DOUBLE;
}

/* Rows of one length, or one row. False: it is something else. */
static bool look(PyObject *list, found *s)
{
    PyObject *const *rows = PySequence_Fast_ITEMS(list);
    npy_intp n = PySequence_Fast_GET_SIZE(list);
    if (n == 0 || n > MOST) {
        return false;
    }
    s->shape[0] = n, s->ndim = 1 + npa_is_listed(rows[0]);
    s->shape[1] = s->ndim == 2 ? PySequence_Fast_GET_SIZE(rows[0]) : 1;
    bool good = s->shape[1] > 0 && s->shape[1] <= MOST / n;
    for (npy_intp k = 0; good && k < n; k++) {
        PyObject *const *items = s->ndim == 2 ? NULL : &rows[k];
        if (s->ndim == 2) {
            good = npa_is_listed(rows[k]) && PySequence_Fast_GET_SIZE(rows[k]) == s->shape[1];
            items = good ? PySequence_Fast_ITEMS(rows[k]) : NULL;
        }
        for (npy_intp j = 0; good && j < s->shape[1]; j++) {
            long i;
            double d;
            int type = take_number(items[j], &i, &d);
            s->type = type >= 0 ? joined_type(s->type, type) : -1;
            good = s->type >= 0;
        }
    }
    return good;
}

/* Whether the type that a call names, if it does, is one that the numbers have or become. */
static bool read_type(PyObject *const *args, Py_ssize_t n, PyObject *names, found *s)
{
    static const char *const words[] = {"", "dtype"};
    PyObject *given[2] = {NULL, Py_None};
    if (!npa_read_call(args, n, names, words, 2, given)) {
        return false;
    }
    PyObject *dtype = given[1];
    int type = dtype == Py_None ? s->type : npa_small_type_named(dtype);
    bool good = type == s->type || (type == NPY_DOUBLE && s->type == NPY_LONG);
    s->type = type;
    return good;
}

static void fill(PyArrayObject *made, PyObject *list, const found *s)
{
    PyObject *const *rows = PySequence_Fast_ITEMS(list);
    for (npy_intp k = 0; k < s->shape[0]; k++) {
        PyObject *const *items = s->ndim == 2 ? PySequence_Fast_ITEMS(rows[k]) : &rows[k];
        for (npy_intp j = 0; j < s->shape[1]; j++) {
            long i = 0;
            double d = 0;
            npy_intp at = k * s->shape[1] + j;
            take_number(items[j], &i, &d);
            if (s->type == NPY_DOUBLE) {
                ((double *)PyArray_DATA(made))[at] = d;
            } else if (s->type == NPY_LONG) {
                ((npy_long *)PyArray_DATA(made))[at] = i;
            } else {
                ((npy_bool *)PyArray_DATA(made))[at] = (npy_bool)i;
            }
        }
    }
}

/* An array without axes. */
static PyObject *of_number(PyObject *o)
{
    long i = 0;
    double d = 0;
    int type = take_number(o, &i, &d);
    PyObject *made = type >= 0 ? PyArray_SimpleNew(0, NULL, type) : NULL;
    if (made != NULL && type == NPY_DOUBLE) {
        *(double *)PyArray_DATA((PyArrayObject *)made) = d;
    } else if (made != NULL && type == NPY_LONG) {
        *(npy_long *)PyArray_DATA((PyArrayObject *)made) = i;
    } else if (made != NULL) {
        *(npy_bool *)PyArray_DATA((PyArrayObject *)made) = (npy_bool)i;
    }
    return made;
}

/* Whether what follows the first argument is its type, by name. */
static bool names_type(Py_ssize_t n, PyObject *names)
{
    return names != NULL && n == 1 && PyTuple_GET_SIZE(names) == 1 &&
           PyTuple_GET_ITEM(names, 0) == npa_small_words[DTYPE];
}

/* asarray(array, dtype): itself, if it is of that type */
static PyObject *of_array(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    PyArrayObject *a = (PyArrayObject *)args[0];
    if (!names_type(n, names) && !(n == 2 && names == NULL)) {
        return NULL;
    }
    bool same = npa_small_type(PyArray_DESCR(a)) &&
                npa_small_type_named(args[1]) == PyArray_TYPE(a);
    return same ? Py_NewRef(args[0]) : npa_small_cast(f, args, 2, NULL);
}

PyObject *npa_small_listed(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    found s = {.type = -1};
    if (PyArray_Check(args[0])) {
        return of_array(f, args, n, names);
    }
    if (!npa_is_listed(args[0])) {
        return n == 1 && names == NULL ? of_number(args[0]) : NULL;
    }
    if (Py_SIZE(args[0]) == 0) {
        s = (found){1, NPY_DOUBLE, {0, 1}};
        return read_type(args, n, names, &s)
                   ? (PyObject *)npa_small_new(npa_small_dtype(s.type), 1, s.shape) : NULL;
    }
    if (PyArray_Check(PySequence_Fast_ITEMS(args[0])[0])) {
        const function stack = {.what = STACK};
        return n == 1 && names == NULL ? npa_small_join(&stack, args, 1, NULL) : NULL;
    }
    if (!look(args[0], &s) || !read_type(args, n, names, &s)) {
        return NULL;
    }
    PyArrayObject *made = npa_small_new(npa_small_dtype(s.type), s.ndim, s.shape);
    if (made != NULL) {
        fill(made, args[0], &s);
    }
    return (PyObject *)made;
}

PyObject *npa_small_of_list(PyObject *list)
{
    return npa_is_listed(list) ? npa_small_listed(NULL, &list, 1, NULL) : NULL;
}

PyObject *npa_small_array(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    if (!PyArray_Check(args[0])) {
        return npa_small_listed(f, args, n, names);
    }
    bool copies = names != NULL && n == 1 && PyTuple_GET_SIZE(names) == 1 && args[1] == Py_True &&
                  npa_is_text(PyTuple_GET_ITEM(names, 0), "copy");
    return names_type(n, names) ? npa_small_cast(f, args, 2, NULL)
                                : npa_small_copy(f, args, n, copies ? NULL : names);
}
