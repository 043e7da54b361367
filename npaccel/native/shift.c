/* shift.c: np.roll of what is recorded, as the copies that NumPy's Python code makes, without that code. */
#include "record.h"

#include <string.h>

/* Python's integer modulo `length`; false: it is none, or too large. */
static bool add_shift(PyObject *shift, npy_intp length, npy_intp *sum)
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

static bool place_of(PyObject *axis, int ndim, int *place)
{
    int overflow = 0;
    long at = PyLong_CheckExact(axis) ? PyLong_AsLongAndOverflow(axis, &overflow) : ndim;
    *place = (int)(at < 0 ? at + ndim : at);
    return !overflow && at >= -ndim && at < ndim;
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
static bool read_shifts(PyArrayObject *a, PyObject *shift, PyObject *axis, npy_intp *by)
{
    Py_ssize_t n = PyTuple_CheckExact(shift) ? PyTuple_GET_SIZE(shift) : 1;
    Py_ssize_t axes = PyTuple_CheckExact(axis) ? PyTuple_GET_SIZE(axis) : 1;
    n = n == 1 ? axes : n;
    memset(by, 0, sizeof *by * (size_t)PyArray_NDIM(a));
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *one = item_of(shift, i, n), *along = item_of(axis, i, n);
        int place;
        if (one == NULL || along == NULL || !place_of(along, PyArray_NDIM(a), &place) ||
            !add_shift(one, PyArray_DIM(a, place), &by[place])) {
            return false;
        }
    }
    return n > 0;
}

/* A box of an array, as an exact view. */
static PyArrayObject *box_of(PyArrayObject *a, const npy_intp *begin, const npy_intp *lengths)
{
    char *data = PyArray_DATA(a);
    for (int i = 0; i < PyArray_NDIM(a); i++) {
        data += begin[i] * PyArray_STRIDE(a, i);
    }
    PyArray_Descr *descr = PyArray_DESCR(a);
    Py_INCREF(descr);
    PyArrayObject *view = (PyArrayObject *)PyArray_NewFromDescr(
        &PyArray_Type, descr, PyArray_NDIM(a), lengths, PyArray_STRIDES(a), data,
        PyArray_FLAGS(a) & NPY_ARRAY_WRITEABLE, NULL);
    if (view != NULL && PyArray_SetBaseObject(view, Py_NewRef((PyObject *)a)) < 0) {
        Py_CLEAR(view);
    }
    return view;
}

/* Record the copy of the box whose axes are the second piece where `second` has their bit. As npa_record_map. */
static int copy_box(PyArrayObject *from, PyArrayObject *to, const npy_intp *by, uint32_t second)
{
    npy_intp source[NPA_MAX_DIMS], target[NPA_MAX_DIMS], lengths[NPA_MAX_DIMS];
    for (int i = 0; i < PyArray_NDIM(from); i++) {
        npy_intp left = PyArray_DIM(from, i) - by[i];
        bool last = second >> i & 1;
        source[i] = last ? left : 0, target[i] = last ? 0 : by[i], lengths[i] = last ? by[i] : left;
    }
    PyArrayObject *in = box_of(from, source, lengths), *out = box_of(to, target, lengths);
    PyObject *result = NULL;
    int status = in != NULL && out != NULL ? npa_record_copy(in, out, &result) : -1;
    Py_XDECREF(in), Py_XDECREF(out);
    if (status > 0) {
        Py_DECREF(result);
    }
    return status;
}

/* A new array with the elements of `a` shifted. NULL, perhaps without error: NumPy's code should do it. */
static PyObject *shifted(PyArrayObject *a, const npy_intp *by)
{
    PyObject *made = npa_new_like(a, PyArray_DESCR(a));
    uint32_t moving = 0, second = 0;
    int status = made != NULL;
    for (int i = 0; i < PyArray_NDIM(a); i++) {
        moving |= (uint32_t)(by[i] > 0) << i;
    }
    do { /* all subsets of `moving` */
        status = status > 0 ? copy_box(a, (PyArrayObject *)made, by, second) : status;
        second = (second - moving) & moving;
    } while (second != 0 && status > 0);
    if (status <= 0) {
        Py_CLEAR(made);
    }
    return made;
}

/* Without an axis: of all elements as one row, shown in the array's shape. */
static PyObject *shifted_flat(PyArrayObject *a, PyObject *shift)
{
    npy_intp size = PyArray_SIZE(a), by = 0;
    PyArray_Dims flat = {&size, 1}, shape = {PyArray_DIMS(a), PyArray_NDIM(a)};
    if (!add_shift(shift, size, &by)) {
        return NULL;
    }
    PyObject *row = PyArray_Newshape(a, &flat, NPY_CORDER), *result = NULL;
    PyObject *made = row != NULL ? shifted((PyArrayObject *)row, &by) : NULL;
    if (made != NULL) {
        result = PyArray_Newshape((PyArrayObject *)made, &shape, NPY_CORDER);
    }
    Py_XDECREF(row), Py_XDECREF(made);
    return result;
}

PyObject *npa_record_roll(PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    bool named = names != NULL && n == 2 && PyTuple_GET_SIZE(names) == 1 &&
                 PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "axis") == 0;
    if (n < 2 || n > 3 || (names != NULL && !named) || npa_here != NULL || npa_sections > 0 ||
        !(PyArray_CheckExact(args[0]) || Py_IS_TYPE(args[0], npa_array_type))) {
        return NULL;
    }
    PyArrayObject *a = (PyArrayObject *)args[0];
    PyObject *axis = named || n == 3 ? args[2] : Py_None;
    npa_value value = {.array = a};
    npy_intp by[NPA_MAX_DIMS];
    if (PyArray_NDIM(a) == 0 || PyArray_NDIM(a) > NPA_MAX_DIMS || PyArray_SIZE(a) == 0 ||
        !PyArray_IS_C_CONTIGUOUS(a) || !npa_array_known(a) || !npa_wants(&value, 1)) {
        return NULL;
    }
    if (axis == Py_None) {
        return shifted_flat(a, args[1]);
    }
    return read_shifts(a, args[1], axis, by) ? shifted(a, by) : NULL;
}
