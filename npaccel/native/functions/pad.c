/* pad.c: `np.pad`, recorded as copies of boxes, see boxes.c. */
#include "functions/functions.h"
#include "functions/boxes.h"

#include <string.h>

enum { MOST_BOXES = 27 };
enum mode { CONSTANT, EDGE, WRAP, REFLECT, SYMMETRIC };

/* Along an axis: what is before the array, itself, and what is behind it. */
typedef struct { npy_intp from[3], step[3], to[3], lengths[3]; } pieces;

/* Elements before and behind along each axis: an int, a pair, or a pair for each. */
static bool read_widths(PyObject *widths, int ndim, npy_intp (*read)[2])
{
    bool nested = npa_is_listed(widths) && Py_SIZE(widths) > 0 &&
                  npa_is_listed(PySequence_Fast_GET_ITEM(widths, 0));
    if (nested && Py_SIZE(widths) != ndim) {
        return false;
    }
    for (int i = 0; i < ndim; i++) {
        PyObject *pair = nested ? PySequence_Fast_GET_ITEM(widths, i) : widths;
        bool one = PyLong_CheckExact(pair);
        if (!one && !(npa_is_listed(pair) && Py_SIZE(pair) == 2)) {
            return false;
        }
        for (int side = 0; side < 2; side++) {
            PyObject *width = one ? pair : PySequence_Fast_GET_ITEM(pair, side);
            int overflow = 0;
            long value = PyLong_CheckExact(width) ? PyLong_AsLongAndOverflow(width, &overflow) : -1;
            if (value < 0 || overflow || value > 1 << 30) {
                return false;
            }
            read[i][side] = value;
        }
    }
    return true;
}

/* False: what is added would be longer than what it is taken from. */
static bool lay_pieces(enum mode mode, npy_intp n, const npy_intp *width, pieces *p)
{
    npy_intp before = width[0], behind = width[1];
    npy_intp longest = mode == REFLECT                     ? n - 1
                       : mode == WRAP || mode == SYMMETRIC ? n
                                                           : NPY_MAX_INTP;
    *p = (pieces){{0, 0, n - 1}, {0, 1, 0}, {0, before, before + n}, {before, n, behind}};
    if (mode == WRAP) {
        p->from[0] = n - before, p->from[2] = 0, p->step[0] = p->step[2] = 1;
    } else if (mode == REFLECT || mode == SYMMETRIC) {
        p->from[0] = mode == REFLECT ? before : before - 1;
        p->from[2] = mode == REFLECT ? n - 2 : n - 1;
        p->step[0] = p->step[2] = -1;
    }
    /* One element has no direction: shifts are told by equal steps */
    for (int k = 0; k < 3; k += 2) {
        p->step[k] = p->lengths[k] == 1 ? 1 : p->step[k];
    }
    return before <= longest && behind <= longest;
}

/* The box that has the k-th piece along each axis; `from` NULL: zeros. 1 too where it is empty. */
static int copy_pieces(PyArrayObject *from, PyArrayObject *to, const pieces *p, const int *k)
{
    npa_form in = {0}, out = {0};
    char *source = from != NULL ? PyArray_DATA(from) : NULL, *target = PyArray_DATA(to);
    for (int i = 0; i < PyArray_NDIM(to); i++) {
        npy_intp length = p[i].lengths[k[i]];
        if (length == 0) {
            return 1;
        }
        target += p[i].to[k[i]] * PyArray_STRIDE(to, i);
        npa_add_axis(&out, length, PyArray_STRIDE(to, i));
        if (from != NULL) {
            source += p[i].from[k[i]] * PyArray_STRIDE(from, i);
            npa_add_axis(&in, length, p[i].step[k[i]] * PyArray_STRIDE(from, i));
        }
    }
    if (from != NULL) {
        return npa_copy_view(from, source, &in, to, target, &out);
    }
    PyObject *zero = PyLong_FromLong(0), *result = NULL;
    PyArrayObject *view = npa_view_of(to, target, &out);
    npa_value value = {.object = zero, .type = NPA_WEAK_INT};
    npa_rule *fill = view != NULL ? npa_find_rule(npa_copy_name, &value.type, 1, view)
                                  : NULL;
    int status = fill != NULL ? npa_record_map(fill, &value, &view, NULL, 'K', 0, &result)
                              : PyErr_Occurred() ? -1 : 0;
    Py_XDECREF(zero), Py_XDECREF(view);
    if (status > 0) {
        Py_DECREF(result);
    }
    return status;
}

/* Zeros around: along each axis those before and behind, where the axes before it are the
 * array's. */
static int fill_around(PyArrayObject *to, pieces *p)
{
    int k[NPA_MAX_DIMS] = {0}, status = 1, ndim = PyArray_NDIM(to);
    pieces whole[NPA_MAX_DIMS];
    for (int i = 0; i < ndim; i++) {
        whole[i] = (pieces){{0}, {0}, {0}, {PyArray_DIM(to, i), 0, 0}};
    }
    for (int i = 0; i < ndim && status > 0; i++) {
        whole[i] = p[i];
        for (k[i] = 0; k[i] < 3 && status > 0; k[i] += 2) {
            status = copy_pieces(NULL, to, whole, k);
        }
        k[i] = 1;
    }
    return status;
}

static PyObject *padded(PyArrayObject *a, enum mode mode, npy_intp (*widths)[2])
{
    int ndim = PyArray_NDIM(a), boxes = 1, k[NPA_MAX_DIMS] = {0}, axis = 0;
    npy_intp shape[NPA_MAX_DIMS];
    double bytes = (double)PyArray_ITEMSIZE(a);
    pieces p[NPA_MAX_DIMS];
    for (int i = 0; i < ndim; i++) {
        if (!lay_pieces(mode, PyArray_DIM(a, i), widths[i], &p[i])) {
            return NULL;
        }
        shape[i] = p[i].to[2] + widths[i][1];
        boxes *= 1 + (widths[i][0] > 0) + (widths[i][1] > 0);
        bytes *= (double)shape[i], k[i] = 1;
        if (boxes > MOST_BOXES || bytes >= NPA_MOST_BYTES) {
            return NULL;
        }
    }
    PyArrayObject *made = npa_made_of(a, ndim, shape);
    int status = made == NULL ? 0 : mode == CONSTANT ? fill_around(made, p) : 1;
    if (mode == CONSTANT) {
        status = status > 0 ? copy_pieces(a, made, p, k) : status;
        axis = -1;
    } else {
        memset(k, 0, sizeof k);
    }
    while (axis >= 0 && status > 0) {
        status = copy_pieces(a, made, p, k);
        for (axis = ndim - 1; axis >= 0 && ++k[axis] == 3; axis--) {
            k[axis] = 0;
        }
    }
    if (status <= 0) {
        Py_CLEAR(made);
    }
    return (PyObject *)made;
}

/* False: of another mode, or with an argument that is not known here. */
static bool read_mode(PyObject *const *args, Py_ssize_t n, PyObject *names, enum mode *mode)
{
    static const char *const known[] = {"constant", "edge", "wrap", "reflect", "symmetric"};
    Py_ssize_t named = names != NULL ? PyTuple_GET_SIZE(names) : 0;
    *mode = CONSTANT;
    if (n + named == 2 && named == 0) {
        return true;
    }
    if (n < 2 || n + named != 3 || !PyUnicode_CheckExact(args[2]) ||
        (named == 1 && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "mode") != 0)) {
        return false;
    }
    for (int i = CONSTANT; i <= SYMMETRIC; i++) {
        if (PyUnicode_CompareWithASCIIString(args[2], known[i]) == 0) {
            *mode = (enum mode)i;
            return true;
        }
    }
    return false;
}

PyObject *npa_record_pad(PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    npy_intp widths[NPA_MAX_DIMS][2];
    enum mode mode;
    if (n < 2 || !npa_boxes_take(args[0], 0) || !read_mode(args, n, names, &mode) ||
        !read_widths(args[1], PyArray_NDIM((PyArrayObject *)args[0]), widths)) {
        return NULL;
    }
    PyArrayObject *a = (PyArrayObject *)args[0];
    bool fortran = PyArray_IS_F_CONTIGUOUS(a) && !PyArray_IS_C_CONTIGUOUS(a); /* so is its result */
    return fortran ? NULL : padded(a, mode, widths);
}
