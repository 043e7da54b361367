/* at_once.c: calls on arrays that nothing waits for, of a size at which NumPy is done before
 * recording would be: reductions, and functions that NumPy writes in Python as many small steps.
 * The sizes were measured. Sums of floats are ours all the same (folds.c), for their last bits. */
#include "record/record.h"

#include <string.h>

enum { MiB = 1 << 20 };

/* Whether it waits in the queue, or is hidden for what does; or lies on a device; or a block
 * records all that is ours. */
bool npa_waits(PyArrayObject *a)
{
    npa_buffer *b = npa_buffer_of(a);
    npa_value value = {.array = a};
    return (b != NULL && (b->pending || b->index >= 0)) || npa_is_far(a) ||
           npa_section_block_wants(&value, 1);
}

bool npa_lies_open(PyArrayObject *a, bool write)
{
    return !npa_waits(a) && npa_touch(a, write) == 0;
}

static bool is_array(PyObject *o) { return PyArray_CheckExact(o) || Py_IS_TYPE(o, npa_array_type); }

/* Whether every array among these, and in lists and tuples among them, waits for nothing, and all
 * of them have at most so many bytes. */
static bool all_idle(PyObject *const *args, Py_ssize_t n, bool nested, size_t *most)
{
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject *o = args[k];
        if (is_array(o)) {
            size_t bytes = (size_t)PyArray_NBYTES((PyArrayObject *)o);
            if (bytes > *most || npa_waits((PyArrayObject *)o)) {
                return false;
            }
            *most -= bytes;
        } else if (npa_is_listed(o)) {
            if (!nested || !all_idle(PySequence_Fast_ITEMS(o), Py_SIZE(o), false, most)) {
                return false;
            }
        }
    }
    return true;
}

bool npa_at_once(PyObject *const *args, Py_ssize_t n, size_t most)
{
    return npa_here == NULL && npa_threshold_here() > 0 && all_idle(args, n, true, &most);
}

size_t npa_most_summed(size_t most, PyObject *names)
{
    bool here = npa_in_block() && !npa_check_mode && !npa_copies_exist(); /* npa_fold_in_whole */
    for (Py_ssize_t k = 0; names != NULL && k < PyTuple_GET_SIZE(names); k++) {
        here &= PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, k), "where") != 0;
    }
    return here || most < npa_ours_here() ? most : npa_ours_here();
}

/* Bytes up to which NumPy folds an array at least as fast, all of it to one number, or along an
 * axis. 0: never. */
static size_t most_folded(const char *name, PyArrayObject *a, bool full)
{
    int type = PyArray_TYPE(a);
    bool wide = PyArray_ITEMSIZE(a) >= 8; /* others are added with a cast */
    if (strcmp(name, "add") == 0) {
        return type == NPY_FLOAT                   ? MiB
               : wide && PyTypeNum_ISINTEGER(type) ? 4 * MiB
               : wide                              ? 2 * MiB : 0;
    }
    if (strcmp(name, "maximum") == 0 || strcmp(name, "minimum") == 0 ||
        strcmp(name, "fmax") == 0 || strcmp(name, "fmin") == 0) {
        return PyTypeNum_ISCOMPLEX(type) || type == NPY_HALF ? 0 : 12 * MiB;
    }
    if (strcmp(name, "logical_or") == 0 || strcmp(name, "logical_and") == 0) {
        bool lies = PyArray_IS_C_CONTIGUOUS(a) || PyArray_IS_F_CONTIGUOUS(a);
        return type == NPY_BOOL ? SIZE_MAX : /* it stops where the answer is known */
               full && lies && type != NPY_HALF ? 2 * MiB : 0;
    }
    if (strncmp(name, "bitwise_", 8) == 0) {
        return 2 * MiB;
    }
    if (strcmp(name, "argmax") == 0 || strcmp(name, "argmin") == 0) {
        return type == NPY_BOOL ? SIZE_MAX : /* as above */
               PyTypeNum_ISCOMPLEX(type) || type == NPY_HALF ? 0 : 32 * MiB;
    }
    return 0;
}

/* The argument at `place` or of this name; NULL: not given. */
static PyObject *given(PyObject *const *args, Py_ssize_t n, PyObject *names, Py_ssize_t place,
                       const char *name)
{
    for (Py_ssize_t k = 0; names != NULL && k < PyTuple_GET_SIZE(names); k++) {
        if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, k), name) == 0) {
            return args[n + k];
        }
    }
    return place < n ? args[place] : NULL;
}

/* Elements of a row from which NumPy's loop takes no longer than a kernel: measured on Z4, see
 * docs/benchmarks.md on short rows. */
static npy_intp enough_of_a_row(const char *fold, PyArrayObject *a)
{
    enum { PICKED = 256 /* bytes */, SMALL = 128, LARGE = 512 };
    return strncmp(fold, "arg", 3) == 0          ? PICKED / PyArray_ITEMSIZE(a)
           : PyArray_NBYTES(a) < (npy_intp)MiB ? SMALL : LARGE;
}

/* Bytes up to which a fold along some axes is NumPy's. Short rows are slow there, `least` elements
 * are enough, and what keeps the axes is to meet the array again, in one kernel. */
static size_t most_along(PyArrayObject *a, size_t most, PyObject *axis, PyObject *keepdims,
                         npy_intp least)
{
    enum { LONG = 32, VERY_LONG = 256 };
    int last = PyArray_IS_C_CONTIGUOUS(a) ? PyArray_NDIM(a) - 1 : 0; /* in memory */
    if (!(PyArray_IS_C_CONTIGUOUS(a) || PyArray_IS_F_CONTIGUOUS(a)) ||
        PyArray_DIM(a, last) < LONG || !(keepdims == NULL || keepdims == Py_False)) {
        return 0;
    }
    int overflow;
    long k = axis != NULL && PyLong_CheckExact(axis) ? PyLong_AsLongAndOverflow(axis, &overflow)
                                                     : 0;
    k += k < 0 ? PyArray_NDIM(a) : 0;
    if (k == last && most > 4 * MiB) {
        return PyArray_DIM(a, last) >= least ? most : 0;
    }
    size_t along = PyArray_DIM(a, last) >= VERY_LONG && PyArray_ITEMSIZE(a) >= 8 ? 4 * MiB : MiB;
    return most < MiB ? most : along;
}

/* Whether NumPy may leave much of each row out; else it takes longer, for it begins each anew. */
static bool is_long(PyArrayObject *a, PyObject *axis)
{
    enum { LONG = 16 };
    int overflow;
    long k = axis != NULL && PyLong_CheckExact(axis) ? PyLong_AsLongAndOverflow(axis, &overflow)
                                                     : 0;
    k += k < 0 ? PyArray_NDIM(a) : 0;
    return k >= 0 && k < PyArray_NDIM(a) && PyArray_DIM(a, (int)k) >= LONG;
}

bool npa_fold_is_brief(const char *fold, PyObject *const *args, Py_ssize_t n, PyObject *names,
                       Py_ssize_t out_place, bool first)
{
    if (n < 1 || !is_array(args[0]) || PyArray_NDIM((PyArrayObject *)args[0]) == 0) {
        return false;
    }
    PyArrayObject *a = (PyArrayObject *)args[0];
    PyObject *axis = given(args, n, names, 1, "axis"),
             *out = given(args, n, names, out_place, "out");
    bool line = PyArray_NDIM(a) == 1, full = axis == Py_None || (axis == NULL && !first) ||
                (line && (axis == NULL || (PyLong_CheckExact(axis) && Py_SIZE(axis) == 0)));
    size_t most = out == NULL || out == Py_None ? most_folded(fold, a, full) : 0;
    if (!full && most == SIZE_MAX && strncmp(fold, "arg", 3) == 0) {
        most = is_long(a, axis) ? most : 0;
    } else if (!full) {
        most = most_along(a, most, axis, given(args, n, names, out_place + 1, "keepdims"),
                          enough_of_a_row(fold, a));
    }
    Py_ssize_t all = n + (names != NULL ? PyTuple_GET_SIZE(names) : 0);
    return most > 0 && PyArray_SIZE(a) > 0 && npa_at_once(args, all, most);
}

/* Whether its last bits are ours, at this size: a float sum or product. */
bool npa_fold_is_ours(const char *fold, PyArrayObject *a)
{
    return npa_fold_has_order(fold, PyArray_TYPE(a)) &&
           (size_t)PyArray_NBYTES(a) >= npa_ours_here();
}

bool npa_folds_at_once(const char *fold, PyObject *const *args, Py_ssize_t n, PyObject *names,
                       Py_ssize_t out_place, bool first)
{
    return npa_fold_is_brief(fold, args, n, names, out_place, first) &&
           !npa_fold_is_ours(fold, (PyArrayObject *)args[0]);
}

/* Whether NumPy's loop is called for a few elements each time: it takes many times what its bytes
 * say. */
static bool in_short_runs(PyArrayObject *a, uint32_t axes)
{
    enum { SHORT = 32 };
    int last = PyArray_NDIM(a) - 1;
    npy_intp run = 1;
    for (int i = last; i >= 0 && (axes >> i & 1) == (axes >> last & 1) && run < SHORT; i--) {
        run *= PyArray_DIM(a, i);
    }
    return run < SHORT;
}

/* Logical folds of all elements, and of truth values, end where the answer is known, and may take
 * less than it takes to hear of them. */
bool npa_fold_passes(PyObject *ufunc, PyArrayObject *a, uint32_t axes)
{
    /* What other operations work on in the time: it writes little */
    size_t bytes = (size_t)PyArray_NBYTES(a) / 2;
    bool brief = strncmp(((PyUFuncObject *)ufunc)->name, "logical_", 8) == 0 &&
                 (PyArray_ISBOOL(a) || axes == (1u << PyArray_NDIM(a)) - 1);
    return npa_autotune_on && !brief && npa_in_block() && !in_short_runs(a, axes) &&
           npa_autotune_passes_call(ufunc, bytes, !npa_waits(a));
}
