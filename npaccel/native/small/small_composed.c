/* small_composed.c: functions that NumPy composes of many calls in Python, on few doubles: cross,
 * isclose, allclose, append, gradient. The same operations in the same order; what would
 * warn is NumPy's. */
#include "small/small.h"
#include "small/functions.h"
#include "small/ways.h"

#include <numpy/arrayscalars.h>

#include <math.h>
#include <string.h>

/* A view of the whole of a new array, as NumPy's results are that end with a transposition or
 * `[()]`. */
static PyObject *shown(PyArrayObject *made)
{
    npa_basic_part p = {.ndim = PyArray_NDIM(made), .data = PyArray_DATA(made)};
    memcpy(p.shape, PyArray_DIMS(made), sizeof *p.shape * (size_t)p.ndim);
    memcpy(p.strides, PyArray_STRIDES(made), sizeof *p.strides * (size_t)p.ndim);
    PyObject *view = npa_part_view(made, &p, false);
    Py_DECREF(made);
    return view;
}

/* ---------------------------------------------------------------------------------------- cross */

/* Vectors of three, one or a row of them; how many. -1: something else. */
static npy_intp vectors(PyObject *o)
{
    PyArrayObject *a = (PyArrayObject *)o;
    int last = npa_small_doubles(o) ? PyArray_NDIM(a) - 1 : -1;
    return last >= 0 && last <= 1 && PyArray_DIM(a, last) == 3 ? PyArray_SIZE(a) / 3 : -1;
}

/* cross(a, b) */
PyObject *npa_small_cross(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)f;
    npy_intp of_a = n == 2 && names == NULL ? vectors(args[0]) : -1;
    npy_intp of_b = of_a > 0 && npa_is_plain(args[1]) ? vectors(args[1]) : -1;
    if (of_b <= 0 || (of_a != of_b && of_a != 1 && of_b != 1)) {
        return NULL;
    }
    PyArrayObject *x = (PyArrayObject *)args[0], *y = (PyArrayObject *)args[1];
    npy_intp count = of_a > of_b ? of_a : of_b, shape[2] = {count, 3};
    int ndim = PyArray_NDIM(x) > PyArray_NDIM(y) ? PyArray_NDIM(x) : PyArray_NDIM(y);
    if (npa_small_is_large((size_t)count * 3 * sizeof(double))) {
        return NULL;
    }
    PyArrayObject *made = npa_small_new(PyArray_DESCR(x), ndim, ndim == 1 ? shape + 1 : shape);
    if (made == NULL) {
        return NULL;
    }
    const double *a = PyArray_DATA(x), *b = PyArray_DATA(y);
    double *c = PyArray_DATA(made);
    npy_intp a_step = of_a > 1 ? 3 : 0, b_step = of_b > 1 ? 3 : 0;
    npa_clear_errors();
    for (npy_intp i = 0; i < count; i++, a += a_step, b += b_step, c += 3) {
        c[0] = a[1] * b[2] - a[2] * b[1];
        c[1] = a[2] * b[0] - a[0] * b[2];
        c[2] = a[0] * b[1] - a[1] * b[0];
    }
    if (npa_seen_errors()) {
        Py_CLEAR(made);
    }
    return made != NULL ? shown(made) : NULL;
}

/* ---------------------------------------------------------------------------- nearly the same */

typedef struct {
    const double *x, *y;
    npy_intp n, y_step; /* y_step: 0: all are compared with one number */
    double relative, absolute;
} nearness;

/* A number of Python's; an integer that none of NumPy's holds is an object to it. */
static bool is_number(PyObject *o, double *value)
{
    int overflow = 0;
    *value = PyFloat_CheckExact(o)  ? PyFloat_AS_DOUBLE(o)
             : PyLong_CheckExact(o) ? (double)PyLong_AsLongLongAndOverflow(o, &overflow)
                                    : NAN;
    return !overflow && isfinite(*value);
}

static bool read_nearness(PyObject *const *args, Py_ssize_t n, PyObject *names, nearness *s,
                          double *number)
{
    static const char *const known[] = {"a", "b", "rtol", "atol"};
    PyObject *given[4] = {NULL};
    if (n < 2 || !npa_read_call(args, n, names, known, 4, given) || !npa_small_doubles(args[0]) ||
        (given[2] != NULL && !is_number(given[2], &s->relative)) ||
        (given[3] != NULL && !is_number(given[3], &s->absolute))) {
        return false;
    }
    PyArrayObject *x = (PyArrayObject *)args[0], *y = (PyArrayObject *)args[1];
    s->x = PyArray_DATA(x), s->n = PyArray_SIZE(x), s->y = number;
    if (is_number(args[1], number)) {
        return true;
    }
    s->y_step = 1;
    if (!npa_small_doubles(args[1]) || PyArray_NDIM(x) != PyArray_NDIM(y) ||
        !PyArray_CompareLists(PyArray_DIMS(x), PyArray_DIMS(y), PyArray_NDIM(x))) {
        return false;
    }
    s->y = PyArray_DATA(y);
    return true;
}

/* How many are; is: of each, or NULL. -1: there is what is no number, or too large. */
static npy_intp count_near(const nearness *s, npy_bool *is)
{
    npy_intp count = 0;
    npa_clear_errors();
    for (npy_intp i = 0; i < s->n; i++) {
        double x = s->x[i], y = s->y[i * s->y_step];
        bool near = (fabs(x - y) <= s->absolute + s->relative * fabs(y) && isfinite(y)) || x == y;
        count += near;
        if (is != NULL) {
            is[i] = near;
        }
    }
    return npa_seen_errors() ? -1 : count;
}

/* isclose(a, b, rtol, atol), and whether all are */
PyObject *npa_small_near(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    nearness s = {.relative = 1e-5, .absolute = 1e-8};
    double number;
    if (!read_nearness(args, n, names, &s, &number)) {
        return NULL;
    }
    if (f->what == ALL_NEAR) {
        npy_intp count = count_near(&s, NULL);
        return count >= 0 ? PyBool_FromLong(count == s.n) : NULL;
    }
    PyArrayObject *a = (PyArrayObject *)args[0], *made;
    made = npa_small_new(npa_small_dtype(NPY_BOOL), PyArray_NDIM(a), PyArray_DIMS(a));
    if (made != NULL && count_near(&s, PyArray_DATA(made)) < 0) {
        Py_CLEAR(made);
    }
    return made != NULL ? shown(made) : NULL;
}

/* --------------------------------------------------------------------------------------- append */

/* append(a, value) of a vector and a number or a vector of its type */
PyObject *npa_small_append(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)f;
    PyArrayObject *a = (PyArrayObject *)args[0], *b = n == 2 ? (PyArrayObject *)args[1] : NULL;
    if (b == NULL || names != NULL || !npa_small_doubles(args[0]) || PyArray_NDIM(a) != 1) {
        return NULL;
    }
    double number = NAN;
    bool one = PyFloat_CheckExact(args[1]) || Py_IS_TYPE(args[1], &PyDoubleArrType_Type);
    if (!one && !(npa_small_doubles(args[1]) && PyArray_NDIM(b) == 1)) {
        return NULL;
    }
    number = one ? PyFloat_AS_DOUBLE(args[1]) : number;
    npy_intp before = PyArray_DIM(a, 0), more = one ? 1 : PyArray_DIM(b, 0), size = before + more;
    if (npa_small_is_large((size_t)size * sizeof number)) {
        return NULL;
    }
    PyArrayObject *made = npa_small_new(PyArray_DESCR(a), 1, &size);
    if (made != NULL) {
        double *to = PyArray_DATA(made);
        memcpy(to, PyArray_DATA(a), (size_t)before * sizeof *to);
        memcpy(to + before, one ? &number : PyArray_DATA(b), (size_t)more * sizeof *to);
    }
    return (PyObject *)made;
}

/* ------------------------------------------------------------------------------------ gradient */

/* gradient(a), gradient(a, step) of a vector */
PyObject *npa_small_gradient(const function *f, PyObject *const *args, Py_ssize_t n,
                             PyObject *names)
{
    (void)f;
    double step = 1;
    PyArrayObject *a = (PyArrayObject *)args[0];
    bool known = n == 1 || (n == 2 && (is_number(args[1], &step) ||
                                       Py_IS_TYPE(args[1], &PyDoubleArrType_Type)));
    if (!known || names != NULL || !npa_small_doubles(args[0]) || PyArray_NDIM(a) != 1 ||
        PyArray_DIM(a, 0) < 2) {
        return NULL;
    }
    step = n == 2 && !PyLong_CheckExact(args[1]) ? PyFloat_AS_DOUBLE(args[1]) : step;
    PyArrayObject *made = npa_small_alike(a);
    if (made == NULL) {
        return NULL;
    }
    const double *v = PyArray_DATA(a);
    double *to = PyArray_DATA(made), twice = 2 * step;
    npy_intp last = PyArray_DIM(a, 0) - 1;
    npa_clear_errors();
    for (npy_intp i = 1; i < last; i++) {
        to[i] = (v[i + 1] - v[i - 1]) / twice;
    }
    to[0] = (v[1] - v[0]) / step;
    to[last] = (v[last] - v[last - 1]) / step;
    if (npa_seen_errors()) {
        Py_CLEAR(made);
    }
    return (PyObject *)made;
}
