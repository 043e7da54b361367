/* gather.c: x[i, j] by integers, at once, by all threads: what NumPy's iterator does element by
 * element. */
#include "functions/places.h"
#include "small/ways.h"

#include <string.h>

typedef struct {
    npa_places at; /* in bytes from the first element */
    const char *from;
    char *to;
    npy_intp bytes; /* of what a place picks */
} gather;

static void pick_piece(void *context, int64_t piece, int worker)
{
    const gather *g = context;
    int64_t room[NPA_PLACES_AT_ONCE];
    npy_intp first = piece * NPA_PLACED_PIECE, length = g->at.shape[g->at.ndim - 1];
    npy_intp end = g->at.n - first < NPA_PLACED_PIECE ? g->at.n : first + NPA_PLACED_PIECE;
    (void)worker;
    for (npy_intp n; first < end; first += n) {
        n = length - first % length;
        n = n < end - first ? n : end - first;
        n = n < NPA_PLACES_AT_ONCE ? n : NPA_PLACES_AT_ONCE;
        npa_pick_places_of(g->to + first * g->bytes, g->from,
                           npa_find_places(&g->at, first, n, room), n, g->bytes);
    }
}

/* Whether NumPy lays the result out in C order: as its indices lie. */
static bool lies_in_order(const npa_places *p)
{
    for (int k = 0; k < p->naxes; k++) {
        npy_intp last = NPY_MAX_INTP;
        for (int i = 0; i < p->ndim; i++) {
            npy_intp stride = p->axes[k].strides[i];
            if (stride < 0 || stride > last) {
                return false;
            }
            last = stride != 0 ? stride : last;
        }
    }
    return true;
}

/* With everything opened. False: an index is out of bounds. */
static bool run(gather *g, PyArrayObject *a, bool *error)
{
    PyArrayObject *all[NPA_MOST_OPENED] = {a};
    npa_opened o;
    for (int k = 0; k < g->at.naxes; k++) {
        all[k + 1] = g->at.axes[k].array;
    }
    *error = npa_open(&o, all, g->at.naxes + 1, 0) < 0;
    if (*error) {
        return false;
    }
    g->from = o.at[0];
    for (int k = 0; k < g->at.naxes; k++) {
        g->at.axes[k].data = o.at[k + 1];
    }
    bool good = npa_all_inside(&g->at);
    g->at.ready = false; /* they are of elements, the places of bytes */
    if (good) {
        npa_pool_run(pick_piece, g, (g->at.n + NPA_PLACED_PIECE - 1) / NPA_PLACED_PIECE, NULL);
    }
    npa_close(&o);
    return good;
}

PyObject *npa_gather(PyObject *o, PyObject *key)
{
    PyArrayObject *a = (PyArrayObject *)o;
    gather g;
    npy_intp shape[2 * NPA_MAX_DIMS];
    bool error = false;
    PyObject *first = PyTuple_CheckExact(key) && PyTuple_GET_SIZE(key) == 2 && npa_here == NULL
                          ? PyTuple_GET_ITEM(key, 0) : NULL;
    if (first == Py_Ellipsis || (first != NULL && PySlice_Check(first))) {
        return npa_gather_columns(a, first, PyTuple_GET_ITEM(key, 1));
    }
    if (!PyTuple_CheckExact(key) || PyTuple_GET_SIZE(key) < 2 ||
        !PyArray_Check(PyTuple_GET_ITEM(key, 0)) || !npa_usual_items(o) || npa_here != NULL ||
        PyArray_NDIM(a) > NPA_MAX_DIMS) {
        return NULL;
    }
    int axes = (int)PyTuple_GET_SIZE(key), rest = PyArray_NDIM(a) - axes;
    g.at.ndim = 0;
    if (!npa_read_places(&g.at, a, key, PyArray_STRIDES(a)) || g.at.n < NPA_LEAST_PLACED ||
        !lies_in_order(&g.at)) {
        return NULL;
    }
    g.bytes = npa_bytes_behind(a, axes);
    if (g.bytes == 0 || g.at.ndim + rest > NPA_MAX_DIMS) {
        return NULL;
    }
    memcpy(shape, g.at.shape, sizeof *shape * (size_t)g.at.ndim);
    memcpy(shape + g.at.ndim, PyArray_DIMS(a) + axes, sizeof *shape * (size_t)rest);
    PyArrayObject *made = npa_small_new(PyArray_DESCR(a), g.at.ndim + rest, shape);
    npa_merge_rows(&g.at);
    g.to = made != NULL ? PyArray_BYTES(made) : NULL;
    if (made != NULL && !run(&g, a, &error)) {
        Py_CLEAR(made); /* NumPy says which index it is */
    }
    return (PyObject *)made;
}
