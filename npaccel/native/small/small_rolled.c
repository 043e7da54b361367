/* small_rolled.c: `np.roll` of small arrays, and what its arguments mean. */
#include "small/small.h"
#include "small/functions.h"
#include "small/ways.h"

#include <string.h>

/* Python's integer modulo `length`; false: it is none, or too large. */
bool npa_add_shift(PyObject *shift, npy_intp length, npy_intp *sum)
{
    int overflow = 0;
    if (!PyLong_CheckExact(shift)) {
        return false;
    }
    long by = PyLong_AsLongAndOverflow(shift, &overflow);
    npy_intp whole = (*sum + by % length) % length;
    *sum = whole < 0 ? whole + length : whole;
    return !overflow;
}

/* The item that broadcasting gives; NULL: the lengths do not fit. */
static PyObject *item_of(PyObject *given, Py_ssize_t i, Py_ssize_t n)
{
    if (!PyTuple_CheckExact(given)) {
        return given;
    }
    Py_ssize_t length = PyTuple_GET_SIZE(given);
    return length == n || length == 1 ? PyTuple_GET_ITEM(given, length == 1 ? 0 : i) : NULL;
}

/* How far each axis is shifted, at least 0. */
bool npa_read_shifts(PyArrayObject *a, PyObject *shift, PyObject *axis, npy_intp *by)
{
    Py_ssize_t n = PyTuple_CheckExact(shift) ? PyTuple_GET_SIZE(shift) : 1;
    Py_ssize_t axes = PyTuple_CheckExact(axis) ? PyTuple_GET_SIZE(axis) : 1;
    n = n == 1 ? axes : n;
    memset(by, 0, sizeof *by * (size_t)PyArray_NDIM(a));
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *one = item_of(shift, i, n), *along = item_of(axis, i, n);
        int place;
        if (one == NULL || along == NULL || !npa_small_axis(along, PyArray_NDIM(a), &place) ||
            !npa_add_shift(one, PyArray_DIM(a, place), &by[place])) {
            return false;
        }
    }
    return n > 0;
}

/* Blocks of `rows` rows, each moved on by `by` within its block; to the first of which the others
 * at its end come. */
static void move_rows(char *to, const char *from, npy_intp blocks, npy_intp rows, npy_intp row,
                      npy_intp by)
{
    npy_intp end = by * row, begin = rows * row - end;
    for (npy_intp k = 0; k < blocks; k++, to += begin + end, from += begin + end) {
        memcpy(to + end, from, (size_t)begin);
        memcpy(to, from + begin, (size_t)end);
    }
}

/* The elements of axis i and those behind it, shifted. */
static void move_axes(PyArrayObject *a, char *to, const char *from, int i, const npy_intp *by)
{
    npy_intp n = PyArray_DIM(a, i), step = PyArray_ITEMSIZE(a), rest = 0;
    for (int k = i + 1; k < PyArray_NDIM(a); k++) {
        rest += by[k], step *= PyArray_DIM(a, k);
    }
    if (rest == 0) {
        move_rows(to, from, 1, n, step, by[i]);
    } else if (by[i] == 0 && i + 2 == PyArray_NDIM(a)) {
        npy_intp item = PyArray_ITEMSIZE(a);
        move_rows(to, from, n, step / item, item, by[i + 1]);
    } else {
        for (npy_intp k = 0; k < n; k++) {
            npy_intp at = k + by[i] < n ? k + by[i] : k + by[i] - n;
            move_axes(a, to + at * step, from + k * step, i + 1, by);
        }
    }
}

/* roll(a, shift): of all elements as one row, shown in the array's shape. */
static PyObject *rolled_flat(PyArrayObject *a, npy_intp by)
{
    npy_intp size = PyArray_SIZE(a);
    PyArrayObject *made = npa_small_new(PyArray_DESCR(a), 1, &size);
    if (made == NULL) {
        return NULL;
    }
    move_rows(PyArray_DATA(made), PyArray_DATA(a), 1, size, PyArray_ITEMSIZE(a), by);
    npa_basic_part p = {.ndim = PyArray_NDIM(a), .data = PyArray_DATA(made)};
    npy_intp step = PyArray_ITEMSIZE(a); /* those of `a` may be others along axes of one element */
    for (int i = p.ndim - 1; i >= 0; i--) {
        p.shape[i] = PyArray_DIM(a, i), p.strides[i] = step;
        step *= p.shape[i];
    }
    PyObject *view = npa_part_view(made, &p, npa_small_class != NULL);
    Py_DECREF(made);
    return view;
}

PyObject *npa_small_roll(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)f;
    static const char *const known[] = {"a", "shift", "axis"};
    PyObject *given[3] = {NULL, NULL, Py_None};
    npy_intp by[NPA_SMALL_DIMS] = {0};
    if (!npa_read_call(args, n, names, known, 3, given) || given[1] == NULL ||
        !npa_small_usual(args[0])) {
        return NULL;
    }
    PyArrayObject *a = (PyArrayObject *)args[0], *made;
    if (given[2] == Py_None) {
        return npa_add_shift(given[1], PyArray_SIZE(a), by) ? rolled_flat(a, by[0]) : NULL;
    }
    made = npa_read_shifts(a, given[1], given[2], by) ? npa_small_alike(a) : NULL;
    if (made != NULL) {
        move_axes(a, PyArray_DATA(made), PyArray_DATA(a), 0, by);
    }
    return (PyObject *)made;
}
