/* places.c: the places that integer arrays name: looked at, and added up over axes, a block at a
 * time. */
#include "functions/places.h"
#include "small/ways.h"

#include <stdatomic.h>
#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

enum { BLOCK = NPA_PLACES_AT_ONCE, LEAST_ROW = 32 };

bool npa_usual_items(PyObject *o)
{
    PyArrayObject *a = (PyArrayObject *)o;
    return (PyArray_CheckExact(o) || Py_IS_TYPE(o, npa_array_type)) && PyArray_ISALIGNED(a) &&
           npa_small_type(PyArray_DESCR(a));
}

bool npa_read_axis(npa_place_axis *a, PyArrayObject *array, PyObject *o, npy_intp extent,
                   npy_intp step)
{
    PyArrayObject *index = (PyArrayObject *)o;
    if (!npa_usual_items(o) || !PyArray_ISINTEGER(index) ||
        npa_canonical(PyArray_TYPE(index)) == NPY_UINT64 || !npa_apart(array, index)) {
        return false;
    }
    *a = (npa_place_axis){.array = index,
                          .type = npa_canonical(PyArray_TYPE(index)),
                          .size = (int)PyArray_ITEMSIZE(index),
                          .extent = extent,
                          .step = step};
    return true;
}

bool npa_find_shape(npa_places *p)
{
    bool alike = true;
    for (int k = 0; k < p->naxes; k++) {
        int ndim = PyArray_NDIM(p->axes[k].array);
        p->ndim = ndim > p->ndim ? ndim : p->ndim;
    }
    if (p->ndim == 0 || p->ndim > NPA_MAX_DIMS) {
        return false;
    }
    p->n = 1;
    for (int i = 0; i < p->ndim; i++) {
        npy_intp length = 1;
        for (int k = 0; k < p->naxes; k++) {
            PyArrayObject *a = p->axes[k].array;
            int own = i - (p->ndim - PyArray_NDIM(a));
            npy_intp n = own < 0 ? 1 : PyArray_DIM(a, own);
            if (n != 1 && length != 1 && n != length) {
                return false;
            }
            length = n != 1 ? n : length;
            p->axes[k].strides[i] = n != 1 ? PyArray_STRIDE(a, own) : 0;
        }
        p->shape[i] = length, p->n *= length;
    }
    for (int k = 0; k < p->naxes; k++) {
        alike &= PyArray_SIZE(p->axes[k].array) == p->n &&
                 PyArray_IS_C_CONTIGUOUS(p->axes[k].array);
    }
    return alike || p->shape[p->ndim - 1] >= LEAST_ROW;
}

bool npa_read_places(npa_places *p, PyArrayObject *array, PyObject *key, const npy_intp *steps)
{
    bool tuple = PyTuple_CheckExact(key);
    p->naxes = tuple ? (int)PyTuple_GET_SIZE(key) : 1;
    if (p->naxes < 1 || p->naxes > NPA_MOST_PLACED || p->naxes > PyArray_NDIM(array)) {
        return false;
    }
    for (int k = 0; k < p->naxes; k++) {
        PyObject *o = tuple ? PyTuple_GET_ITEM(key, k) : key;
        if (!npa_read_axis(&p->axes[k], array, o, PyArray_DIM(array, k), steps[k])) {
            return false;
        }
    }
    return npa_find_shape(p);
}

void npa_merge_rows(npa_places *p)
{
    bool alike = true;
    for (int k = 0; k < p->naxes; k++) {
        alike &= PyArray_SIZE(p->axes[k].array) == p->n &&
                 PyArray_IS_C_CONTIGUOUS(p->axes[k].array);
    }
    for (int k = 0; k < p->naxes && alike; k++) {
        p->axes[k].strides[0] = p->axes[k].size;
    }
    if (alike) {
        p->ndim = 1, p->shape[0] = p->n;
    }
}

typedef struct {
    const npa_place_axis *of;
    npy_intp n;
    atomic_int worst; /* as npa_bounds_of says */
} inspection;

static void inspect(void *context, int64_t piece, int worker)
{
    inspection *i = context;
    npy_intp first = piece * NPA_PLACED_PIECE, size = i->of->size;
    npy_intp n = i->n - first < NPA_PLACED_PIECE ? i->n - first : NPA_PLACED_PIECE;
    npa_indices line = {.type = i->of->type,
                        .size = i->of->size,
                        .ndim = 1,
                        .extent = i->of->extent,
                        .lengths = {n, size}};
    (void)worker;
    int found = npa_bounds_of(&line, i->of->data + first * size), was = atomic_load(&i->worst);
    while (found > was && !atomic_compare_exchange_weak(&i->worst, &was, found)) {
    }
}

bool npa_all_inside(npa_places *p)
{
    p->ready = p->naxes == 1 && p->ndim == 1 && p->axes[0].type == NPY_LONG &&
               p->axes[0].step == 1 && p->axes[0].strides[0] == sizeof(npy_intp);
    for (int k = 0; k < p->naxes; k++) {
        npa_indices of;
        const npa_place_axis *a = &p->axes[k];
        inspection i = {.of = a, .n = PyArray_SIZE(a->array)};
        if (PyArray_IS_C_CONTIGUOUS(a->array)) {
            npa_pool_run(inspect, &i, (i.n + NPA_PLACED_PIECE - 1) / NPA_PLACED_PIECE, NULL);
        } else {
            i.worst = npa_indices_of(a->array, a->extent, &of) ? npa_bounds_of(&of, a->data) : 2;
        }
        if (i.worst > 1) {
            return false;
        }
        p->ready &= i.worst == 0;
    }
    return true;
}

NPA_EACH_PROCESSOR
static void add_places(const npy_intp *index, npy_intp n, npy_intp extent, npy_intp step,
                       int64_t *places)
{
    for (npy_intp i = 0; i < n; i++) {
        places[i] += (index[i] + ((index[i] >> 63) & extent)) * step;
    }
}

const int64_t *npa_find_places(const npa_places *p, npy_intp first, npy_intp n, int64_t *places)
{
    npy_intp room[BLOCK], at[NPA_MAX_DIMS], left = first;
    if (p->ready) {
        return (const int64_t *)p->axes[0].data + first;
    }
    for (int i = p->ndim - 1; i >= 0; i--) {
        at[i] = left % p->shape[i], left /= p->shape[i];
    }
    memset(places, 0, sizeof *places * (size_t)n);
    for (const npa_place_axis *a = p->axes; a < p->axes + p->naxes; a++) {
        const char *from = a->data;
        npy_intp stride = a->strides[p->ndim - 1];
        for (int i = 0; i < p->ndim; i++) {
            from += at[i] * a->strides[i];
        }
        bool ready = a->type == NPY_LONG && stride == sizeof(npy_intp);
        if (!ready) {
            npa_cast(a->type, from, stride, NPY_LONG, (char *)room, sizeof *room, n);
        }
        add_places(ready ? (const npy_intp *)from : room, n, a->extent, a->step, places);
    }
    return places;
}

