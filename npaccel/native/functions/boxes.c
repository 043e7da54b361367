/* boxes.c: arrays that consist of boxes copied from others (`np.roll`, `repeat`, `tile`,
 * `concatenate`; `np.pad` is in pad.c), recorded as those copies, without the code that NumPy has
 * for them. Pass `shifts` then reads many where they came from. */
#include "functions/functions.h"
#include "functions/boxes.h"
#include "small/functions.h"
#include "small/small.h"

#include <string.h>

/* An exact view of memory that `a` keeps. */
PyArrayObject *npa_view_of(PyArrayObject *a, char *data, const npa_form *f)
{
    return (PyArrayObject *)npa_view_over(a, &PyArray_Type, PyArray_DESCR(a), f->ndim, f->lengths,
                                          f->strides, data, PyArray_FLAGS(a) & NPY_ARRAY_WRITEABLE);
}

/* to[...] = from, of views with these forms. As npa_record_map. */
int npa_copy_view(PyArrayObject *from, char *source, const npa_form *read, PyArrayObject *to,
                  char *target, const npa_form *written)
{
    PyArrayObject *in = npa_view_of(from, source, read), *out = npa_view_of(to, target, written);
    PyObject *result = NULL;
    int status = in != NULL && out != NULL ? npa_record_copy(in, out, &result) : -1;
    Py_XDECREF(in), Py_XDECREF(out);
    if (status > 0) {
        Py_DECREF(result);
    }
    return status;
}

/* An array in C order of the dtype of `a`. NULL, perhaps without error: no memory to defer into. */
PyArrayObject *npa_made_of(PyArrayObject *a, int ndim, const npy_intp *lengths)
{
    return (PyArrayObject *)npa_new_in_order(PyArray_DESCR(a), ndim, lengths, false);
}

static bool is_known(PyObject *o)
{
    bool array = PyArray_CheckExact(o) || Py_IS_TYPE(o, npa_array_type);
    PyArrayObject *a = (PyArrayObject *)o;
    return array && npa_here == NULL && npa_placeholders == 0 && npa_guard_on &&
           PyArray_NDIM(a) > 0 && PyArray_SIZE(a) > 0 && npa_array_known(a);
}

/* Whether a call on `o` whose result has so many bytes is recorded here; 0: as many as its
 * argument. */
bool npa_boxes_take(PyObject *o, double bytes)
{
    npa_value value = {.array = (PyArrayObject *)o};
    if (!is_known(o)) {
        return false;
    }
    return npa_wants(&value, 1) || (bytes >= (double)npa_threshold_here() && !npa_lacks_room());
}

/* ------------------------------------------------------------------------------------ roll */

/* Record the copy of the box whose axes are the second piece where `second` has their bit. As
 * npa_record_map. */
static int copy_shifted(PyArrayObject *from, PyArrayObject *to, const npy_intp *by, uint32_t second)
{
    npa_form in = {0}, out = {0};
    char *source = PyArray_DATA(from), *target = PyArray_DATA(to);
    for (int i = 0; i < PyArray_NDIM(from); i++) {
        npy_intp left = PyArray_DIM(from, i) - by[i];
        bool last = second >> i & 1;
        source += (last ? left : 0) * PyArray_STRIDE(from, i);
        target += (last ? 0 : by[i]) * PyArray_STRIDE(to, i);
        npa_add_axis(&in, last ? by[i] : left, PyArray_STRIDE(from, i));
        npa_add_axis(&out, last ? by[i] : left, PyArray_STRIDE(to, i));
    }
    return npa_copy_view(from, source, &in, to, target, &out);
}

/* A new array with the elements of `a` shifted. NULL, perhaps without error: NumPy's code should do
 * it. */
static PyObject *shifted(PyArrayObject *a, const npy_intp *by)
{
    PyObject *made = npa_new_like(a, PyArray_DESCR(a));
    uint32_t moving = 0, second = 0;
    int status = made != NULL;
    for (int i = 0; i < PyArray_NDIM(a); i++) {
        moving |= (uint32_t)(by[i] > 0) << i;
    }
    do { /* all subsets of `moving` */
        status = status > 0 ? copy_shifted(a, (PyArrayObject *)made, by, second) : status;
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
    if (!npa_add_shift(shift, size, &by)) {
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
    if (n < 2 || n > 3 || (names != NULL && !named) || !npa_boxes_take(args[0], 0)) {
        return NULL;
    }
    PyArrayObject *a = (PyArrayObject *)args[0];
    PyObject *axis = named || n == 3 ? args[2] : Py_None;
    npy_intp by[NPA_MAX_DIMS];
    if (axis == Py_None) {
        return PyArray_IS_C_CONTIGUOUS(a) ? shifted_flat(a, args[1]) : NULL;
    }
    return npa_read_shifts(a, args[1], axis, by) ? shifted(a, by) : NULL;
}

/* --------------------------------------------------------------------------------- repeat, tile */

/* A count that is an int, and the product of a tuple of them; -1: it is something else. */
static double product_of(PyObject *counts)
{
    double product = 1;
    Py_ssize_t n = PyTuple_CheckExact(counts) ? PyTuple_GET_SIZE(counts) : 1;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *one = PyTuple_CheckExact(counts) ? PyTuple_GET_ITEM(counts, i) : counts;
        int overflow = 0;
        long count = PyLong_CheckExact(one) ? PyLong_AsLongAndOverflow(one, &overflow) : -1;
        if (count < 0 || overflow) {
            return -1;
        }
        product *= (double)count;
    }
    return product;
}

/* The two arguments, and perhaps a third that may have a name. */
static bool read_repeats(PyObject *const *args, Py_ssize_t n, PyObject *names, PyObject **third)
{
    Py_ssize_t named = names != NULL ? PyTuple_GET_SIZE(names) : 0;
    if (n < 2 || n + named > 3 ||
        (named == 1 && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "axis") != 0)) {
        return false;
    }
    *third = n + named == 3 ? args[2] : Py_None;
    return true;
}

size_t npa_repeated_bytes(PyObject *const *args, Py_ssize_t n)
{
    if (n < 2 || !(PyArray_CheckExact(args[0]) || Py_IS_TYPE(args[0], npa_array_type))) {
        return 0;
    }
    double bytes = product_of(args[1]) * (double)PyArray_NBYTES((PyArrayObject *)args[0]);
    return bytes > 0 && bytes < NPA_MOST_BYTES ? (size_t)bytes : 0;
}

/* A copy into a new array of `shape`: what is read has the axes `from`, of which new ones stand
 * still. */
static PyObject *repeated(PyArrayObject *a, const npa_form *from, int ndim, const npy_intp *shape)
{
    PyArrayObject *made = npa_made_of(a, ndim, shape);
    npa_form to = *from;
    npy_intp stride = PyArray_ITEMSIZE(a);
    for (int i = to.ndim - 1; i >= 0; i--) {
        to.strides[i] = stride, stride *= to.lengths[i];
    }
    if (made != NULL &&
        npa_copy_view(a, PyArray_DATA(a), from, made, PyArray_DATA(made), &to) <= 0) {
        Py_CLEAR(made);
    }
    return (PyObject *)made;
}

PyObject *npa_record_repeat(PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    PyObject *axis = NULL;
    size_t bytes = npa_repeated_bytes(args, n);
    if (bytes == 0 || !read_repeats(args, n, names, &axis) ||
        !npa_boxes_take(args[0], (double)bytes) ||
        !PyLong_CheckExact(args[1])) {
        return NULL;
    }
    PyArrayObject *a = (PyArrayObject *)args[0];
    npy_intp count = (npy_intp)product_of(args[1]), shape[NPA_MAX_DIMS],
             size = PyArray_SIZE(a) * count;
    int along = 0, ndim = PyArray_NDIM(a);
    npa_form from = {0};
    if (ndim == NPA_MAX_DIMS) {
        return NULL;
    }
    if (axis == Py_None) {
        if (!PyArray_IS_C_CONTIGUOUS(a)) {
            return NULL;
        }
        npa_add_axis(&from, PyArray_SIZE(a), PyArray_ITEMSIZE(a)), npa_add_axis(&from, count, 0);
        return repeated(a, &from, 1, &size);
    }
    if (!npa_small_axis(axis, ndim, &along)) {
        return NULL;
    }
    for (int i = 0; i < ndim; i++) {
        shape[i] = PyArray_DIM(a, i) * (i == along ? count : 1);
        npa_add_axis(&from, PyArray_DIM(a, i), PyArray_STRIDE(a, i));
        if (i == along) {
            npa_add_axis(&from, count, 0);
        }
    }
    return repeated(a, &from, ndim, shape);
}

PyObject *npa_record_tile(PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    size_t bytes = npa_repeated_bytes(args, n);
    if (bytes == 0 || n != 2 || names != NULL || !npa_boxes_take(args[0], (double)bytes) ||
        product_of(args[1]) == 1) { /* a copy, in an order of its own */
        return NULL;
    }
    PyArrayObject *a = (PyArrayObject *)args[0];
    bool several = PyTuple_CheckExact(args[1]);
    int counts = several ? (int)PyTuple_GET_SIZE(args[1]) : 1, ndim = PyArray_NDIM(a);
    int all = counts > ndim ? counts : ndim;
    npy_intp shape[NPA_MAX_DIMS], size = 1, behind = 1;
    npa_form from = {0};
    if (all > NPA_MAX_DIMS / 2) {
        return NULL;
    }
    for (int i = 0; i < all; i++) {
        int k = i - (all - counts);
        npy_intp count =
            k < 0 ? 1 : (npy_intp)product_of(several ? PyTuple_GET_ITEM(args[1], k) : args[1]);
        npy_intp length = i < all - ndim ? 1 : PyArray_DIM(a, i - (all - ndim));
        if (count > 1) {
            npa_add_axis(&from, count, 0);
            behind = length; /* of NumPy's last step: what it repeats */
        } else {
            behind *= length;
        }
        if (length > 1) {
            npa_add_axis(&from, length, PyArray_STRIDE(a, i - (all - ndim)));
        }
        shape[i] = count * length, size *= shape[i];
    }
    npy_intp flat[2] = {size / behind, behind};
    PyArray_Dims dims = {shape, all};
    PyObject *made = repeated(a, &from, 2, flat);
    PyObject *result = made != NULL ? PyArray_Newshape((PyArrayObject *)made, &dims, NPY_CORDER)
                                    : NULL;
    Py_XDECREF(made);
    return result;
}

/* ---------------------------------------------------------------------------------- concatenate */

bool npa_in_c_order(PyArrayObject *a)
{
    npy_intp before = NPY_MAX_INTP;
    for (int i = 0; i < PyArray_NDIM(a); i++) {
        npy_intp step = Py_ABS(PyArray_STRIDE(a, i));
        if (PyArray_DIM(a, i) == 1) {
            continue;
        }
        if (step > before || step == 0) {
            return false;
        }
        before = step;
    }
    return true;
}

/* The parts as arrays, lists of numbers made such; NULL, perhaps without error: something else is
 * among them. */
static PyObject *arrays_of(PyObject *given)
{
    PyObject *parts = PyTuple_New(Py_SIZE(given));
    for (Py_ssize_t k = 0; parts != NULL && k < Py_SIZE(given); k++) {
        PyObject *o = PySequence_Fast_GET_ITEM(given, k);
        PyObject *a = npa_is_listed(o) ? npa_small_listed(NULL, &o, 1, NULL) : Py_NewRef(o);
        if (a == NULL || !is_known(a)) {
            Py_XDECREF(a);
            Py_CLEAR(parts);
            break;
        }
        PyTuple_SET_ITEM(parts, k, a);
    }
    return parts;
}

/* The shape of all parts behind one another; false: they do not fit, or need more than a copy. */
static bool join_shapes(PyObject *parts, PyObject *axis, int *along, npy_intp *shape)
{
    PyArrayObject *first = (PyArrayObject *)PyTuple_GET_ITEM(parts, 0);
    bool wanted = false;
    for (Py_ssize_t k = 0; k < Py_SIZE(parts); k++) {
        PyObject *o = PyTuple_GET_ITEM(parts, k);
        PyArrayObject *a = (PyArrayObject *)o;
        if (PyArray_NDIM(a) != PyArray_NDIM(first) || !npa_in_c_order(a) ||
            !npa_small_axis(axis, PyArray_NDIM(a), along)) {
            return false;
        }
        for (int i = 0; i < PyArray_NDIM(a); i++) {
            npy_intp before = k == 0 ? 0 : shape[i];
            shape[i] = i == *along ? before + PyArray_DIM(a, i) : PyArray_DIM(a, i);
            if (i != *along && k > 0 && before != shape[i]) {
                return false;
            }
        }
        wanted |= npa_boxes_take(o, 0);
    }
    return wanted;
}

/* An array in C order of the dtype that all parts have or become. NULL: as npa_made_of. */
static PyArrayObject *joined(PyObject *parts, const npy_intp *shape)
{
    PyArrayObject **arrays = (PyArrayObject **)((PyTupleObject *)parts)->ob_item;
    PyArray_Descr *type = PyArray_ResultType(Py_SIZE(parts), arrays, 0, NULL);
    PyArrayObject *made = NULL;
    if (type != NULL && npa_type_known(type->type_num)) {
        made = (PyArrayObject *)npa_new_in_order(type, PyArray_NDIM(arrays[0]), shape, false);
    }
    Py_XDECREF(type);
    return made;
}

/* The axis, borrowed; others may be named if they say what holds anyway, as `stack` does. NULL:
 * something is asked for. */
static PyObject *axis_of(PyObject *const *args, Py_ssize_t n, PyObject *names, PyObject *axis)
{
    static const char *const words[] = {"", "axis", "out", "dtype", "casting"};
    PyObject *given[5] = {NULL, axis, Py_None, Py_None, NULL};
    bool usual = npa_read_call(args, n, names, words, 5, given) && given[2] == Py_None &&
                 given[3] == Py_None && (given[4] == NULL || npa_is_text(given[4], "same_kind"));
    return usual ? given[1] : NULL;
}

/* A copy of each part into `made`, one behind the other. As npa_record_map. */
static int copy_parts(PyObject *parts, PyArrayObject *made, int along)
{
    char *target = PyArray_DATA(made);
    int status = 1;
    for (Py_ssize_t k = 0; status > 0 && k < Py_SIZE(parts); k++) {
        PyArrayObject *a = (PyArrayObject *)PyTuple_GET_ITEM(parts, k);
        npa_form in = {0}, out = {0};
        for (int i = 0; i < PyArray_NDIM(a); i++) {
            npa_add_axis(&in, PyArray_DIM(a, i), PyArray_STRIDE(a, i));
            npa_add_axis(&out, PyArray_DIM(a, i), PyArray_STRIDE(made, i));
        }
        status = npa_copy_view(a, PyArray_DATA(a), &in, made, target, &out);
        target += PyArray_DIM(a, along) * PyArray_STRIDE(made, along);
    }
    return status;
}

PyObject *npa_record_concatenate(PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    int along = 0;
    npy_intp shape[NPA_MAX_DIMS];
    if (n < 1 || n > 2 || !npa_is_listed(args[0]) || Py_SIZE(args[0]) == 0) {
        return NULL;
    }
    PyObject *zero = PyLong_FromLong(0), *axis = axis_of(args, n, names, zero);
    PyObject *parts = axis != NULL ? arrays_of(args[0]) : NULL;
    bool joins = parts != NULL && join_shapes(parts, axis, &along, shape);
    PyArrayObject *made = joins ? joined(parts, shape) : NULL;
    if (made != NULL && copy_parts(parts, made, along) <= 0) {
        Py_CLEAR(made);
    }
    Py_XDECREF(parts);
    Py_DECREF(zero);
    return (PyObject *)made;
}
