/* histogram.c: np.histogram of numbers, in bins of equal width or with given edges; see bins.c. */
#include "functions/functions.h"
#include "functions/bins.h"

#include <math.h>
#include <string.h>

/* Where they are as those of an array of the least and the greatest number, or as the range says.
 * NULL, perhaps with an error: NumPy's to say why. */
static PyArrayObject *edges_of(npa_binning *j, PyObject *bins, PyObject *range)
{
    npy_intp two = 2;
    PyObject *ends = PyArray_SimpleNew(1, &two, NPY_DOUBLE),
             *module = PyImport_ImportModule("numpy"), *made = NULL;
    if (ends != NULL && module != NULL) {
        double *values = PyArray_DATA((PyArrayObject *)ends);
        values[0] = j->low, values[1] = j->high;
        npa_suspended++;
        made = PyObject_CallMethod(module, "histogram_bin_edges", "OOO", ends, bins, range);
        npa_suspended--;
    }
    Py_XDECREF(ends);
    Py_XDECREF(module);
    PyErr_Clear();
    PyArrayObject *edges = (PyArrayObject *)made;
    if (made != NULL &&
        !(PyArray_CheckExact(made) && PyArray_TYPE(edges) == NPY_DOUBLE &&
          PyArray_ISCARRAY(edges) && PyArray_NDIM(edges) == 1 && PyArray_SIZE(edges) > 1)) {
        Py_CLEAR(made);
    }
    return (PyArrayObject *)made;
}

/* In bins with these edges, whatever they are. NULL, perhaps with an error: NumPy's. */
static PyObject *counted_between(npa_binning *j, PyArrayObject *edges)
{
    npa_buckets t;
    char *place;
    if (!npa_make_buckets(&t, NPY_DOUBLE, PyArray_DATA(edges), PyArray_SIZE(edges), j->n)) {
        return NULL;
    }
    j->uneven = &t, j->shown = t.length - 1, j->bins = t.length;
    PyObject *made = npa_new_result(NPY_INTP, 1, &j->shown, &place);
    if (made != NULL) {
        j->found = place;
        if (!npa_bins_count(j)) {
            Py_CLEAR(made);
        }
    }
    free(t.places);
    return made;
}

static PyObject *counted(npa_binning *j, PyArrayObject *edges)
{
    npy_intp n = PyArray_SIZE(edges);
    double *room = n <= j->n / NPA_BIN_WAYS ? malloc(sizeof *room * (size_t)(n + 1)) : NULL;
    if (room == NULL) {
        return NULL;
    }
    memcpy(room, PyArray_DATA(edges), sizeof *room * (size_t)n);
    room[n] = INFINITY;
    j->edges = room, j->shown = n - 1, j->bins = n;
    double width = room[n - 1] - room[0];
    char *place;
    int type = j->weights != NULL ? NPY_DOUBLE : NPY_INTP;
    PyObject *made = isfinite(width) && width > 0 ? npa_new_result(type, 1, &j->shown, &place)
                                                  : NULL;
    if (made != NULL) {
        j->found = place;
        if (!(j->weights != NULL ? npa_bins_add_parts(j) : npa_bins_count(j))) {
            Py_CLEAR(made);
        }
    }
    free(room);
    return made;
}

/* An integer that is a double, too: of others NumPy takes the difference as integers. */
static bool is_exact(PyObject *o)
{
    const int64_t most = (int64_t)1 << 53;
    int overflow = 0;
    int64_t value =
        PyLong_CheckExact(o) ? PyLong_AsLongLongAndOverflow(o, &overflow) : INT64_MAX;
    return overflow == 0 && value >= -most && value <= most;
}

static bool is_edges(PyObject *o)
{
    PyArrayObject *a = (PyArrayObject *)o;
    return PyArray_CheckExact(o) && PyArray_TYPE(a) == NPY_DOUBLE && PyArray_ISCARRAY_RO(a) &&
           PyArray_NDIM(a) == 1;
}

/* None, or one for each element. */
static bool are_weights(PyObject *o, PyArrayObject *a)
{
    PyArrayObject *w = (PyArrayObject *)o;
    return o == Py_None || (PyArray_CheckExact(o) && PyArray_TYPE(w) == NPY_DOUBLE &&
                            PyArray_ISCARRAY_RO(w) && PyArray_SAMESHAPE(w, a));
}

/* (a, bins=10, range=None), and weights, but with edges, and no densities. */
static bool read_histogram(PyObject *const *args, Py_ssize_t n, PyObject *names, PyObject **bins,
                           PyObject **range, PyObject **weights)
{
    static const char *const known[] = {"a", "bins", "range", "density", "weights"};
    PyObject *given[5] = {NULL, NULL, Py_None, Py_None, Py_None};
    Py_ssize_t named = names != NULL ? PyTuple_GET_SIZE(names) : 0;
    for (Py_ssize_t k = 0; k < n + named; k++) {
        int at = k < n ? (int)k : 0;
        while (k >= n && at < 5 &&
               PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, k - n), known[at]) != 0) {
            at++;
        }
        if (at > 4 || (k >= n && at < n)) {
            return false;
        }
        given[at] = args[k];
    }
    *bins = given[1], *range = given[2], *weights = given[4];
    bool pair = *range == Py_None || (PyTuple_CheckExact(*range) && PyTuple_GET_SIZE(*range) == 2);
    for (int k = 0; pair && *range != Py_None && k < 2; k++) {
        PyObject *end = PyTuple_GET_ITEM(*range, k);
        pair = PyFloat_Check(end) || is_exact(end);
    }
    return n >= 1 && pair &&
           (*bins == NULL || PyLong_CheckExact(*bins) || (is_edges(*bins) && *range == Py_None)) &&
           (given[3] == Py_None || given[3] == Py_False) &&
           are_weights(*weights, (PyArrayObject *)given[0]) &&
           (*weights == Py_None || *bins == NULL || !PyArray_Check(*bins));
}

/* Doubles, or integers, which NumPy makes doubles of; enough of them, in one piece. */
static bool is_counted(PyObject *o)
{
    PyArrayObject *a = (PyArrayObject *)o;
    if (!PyArray_CheckExact(o) && !Py_IS_TYPE(o, npa_array_type)) {
        return false;
    }
    int type = PyArray_TYPE(a);
    bool number = type == NPY_DOUBLE ||
                  (PyTypeNum_ISINTEGER(type) && (type <= NPY_LONG || npa_item_sizes[type] < 8));
    return number && PyArray_ISCARRAY_RO(a) && PyArray_NDIM(a) > 0 &&
           PyArray_SIZE(a) >= NPA_BINS_LEAST && PyArray_SIZE(a) <= INT32_MAX;
}

static PyObject *histogram(PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    PyObject *bins, *range, *weights, *ten = NULL, *result = NULL;
    PyArrayObject *a = n > 0 ? (PyArrayObject *)args[0] : NULL;
    if (n < 1 || n > 5 || !is_counted(args[0]) || npa_here != NULL || npa_placeholders > 0 ||
        npa_asks_underflow() || !read_histogram(args, n, names, &bins, &range, &weights) ||
        npa_touch(a, false) < 0 ||
        (weights != Py_None && npa_touch((PyArrayObject *)weights, false) < 0)) {
        return NULL;
    }
    npa_binning j = {.x = PyArray_BYTES(a), .type = PyArray_TYPE(a), .n = PyArray_SIZE(a),
             .weights = weights != Py_None ? PyArray_DATA((PyArrayObject *)weights) : NULL};
    bool given = bins != NULL && PyArray_Check(bins);
    if (given ? npa_touch((PyArrayObject *)bins, false) < 0
              : range == Py_None && !npa_bins_limits(&j)) {
        return NULL;
    }
    if (bins == NULL) {
        bins = ten = PyLong_FromLong(10);
    }
    PyArrayObject *edges = given          ? (PyArrayObject *)Py_NewRef(bins)
                           : bins != NULL ? edges_of(&j, bins, range)
                                          : NULL;
    PyObject *found = edges == NULL ? NULL
                      : given       ? counted_between(&j, edges)
                                    : counted(&j, edges);
    if (found != NULL) {
        result = PyTuple_Pack(2, found, edges);
    }
    Py_XDECREF(found);
    Py_XDECREF(edges);
    Py_XDECREF(ten);
    return result;
}

PyObject *npa_histogram(PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    int before = npa_now(NPA_IN_KERNELS);
    PyObject *result = histogram(args, n, names);
    npa_now(before);
    return result;
}
