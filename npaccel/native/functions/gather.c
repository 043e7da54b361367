/* gather.c: x[i, j] by integers, at once, by all threads: what NumPy's iterator does element by
 * element. */
#include "functions/places.h"
#include "small/ways.h"

#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

enum { LEAST = 1 << 12, PIECE = 1 << 14 };

typedef struct {
    npa_places at; /* in bytes from the first element */
    const char *from;
    char *to;
    npy_intp bytes; /* of what a place picks */
} gather;

#define PICK(T)                                                                                    \
    for (npy_intp i = 0; i < n; i++) {                                                             \
        memcpy(to + i * (npy_intp)sizeof(T), from + places[i], sizeof(T));                         \
    }                                                                                              \
    break

static void pick(char *to, const char *from, const int64_t *places, npy_intp n, npy_intp bytes)
{
    switch (bytes) {
    case 1: PICK(uint8_t);
    case 2: PICK(uint16_t);
    case 4: PICK(uint32_t);
    case 8: PICK(uint64_t);
    case 16: PICK(npy_cdouble);
    default:
        for (npy_intp i = 0; i < n; i++) {
            memcpy(to + i * bytes, from + places[i], (size_t)bytes);
        }
    }
}

static void pick_piece(void *context, int64_t piece, int worker)
{
    const gather *g = context;
    int64_t room[NPA_PLACES_AT_ONCE];
    npy_intp first = piece * PIECE, end = g->at.n - first < PIECE ? g->at.n : first + PIECE,
             length = g->at.shape[g->at.ndim - 1];
    (void)worker;
    for (npy_intp n; first < end; first += n) {
        n = length - first % length;
        n = n < end - first ? n : end - first;
        n = n < NPA_PLACES_AT_ONCE ? n : NPA_PLACES_AT_ONCE;
        pick(g->to + first * g->bytes, g->from, npa_find_places(&g->at, first, n, room), n,
             g->bytes);
    }
}

/* Bytes of what lies behind the first `axes` axes, without gaps; 0: otherwise. */
static npy_intp bytes_behind(PyArrayObject *a, int axes)
{
    npy_intp bytes = PyArray_ITEMSIZE(a);
    for (int i = PyArray_NDIM(a) - 1; i >= axes; i--) {
        if (PyArray_STRIDE(a, i) != bytes && PyArray_DIM(a, i) > 1) {
            return 0;
        }
        bytes *= PyArray_DIM(a, i);
    }
    return bytes;
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
        npa_pool_run(pick_piece, g, (g->at.n + PIECE - 1) / PIECE, NULL);
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
    if (!PyTuple_CheckExact(key) || PyTuple_GET_SIZE(key) < 2 ||
        !PyArray_Check(PyTuple_GET_ITEM(key, 0)) || !npa_usual_items(o) || npa_here != NULL ||
        PyArray_NDIM(a) > NPA_MAX_DIMS) {
        return NULL;
    }
    int axes = (int)PyTuple_GET_SIZE(key), rest = PyArray_NDIM(a) - axes;
    g.at.ndim = 0;
    if (!npa_read_places(&g.at, a, key, PyArray_STRIDES(a)) || g.at.n < LEAST ||
        !lies_in_order(&g.at)) {
        return NULL;
    }
    g.bytes = bytes_behind(a, axes);
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
