/* places.h: the places that integer arrays name along the first axes of an array. */
#ifndef NPA_FUNCTIONS_PLACES_H
#define NPA_FUNCTIONS_PLACES_H

#include "functions/functions.h"

enum {
    NPA_MOST_PLACED = NPA_MOST_OPENED - 2, /* axes */
    NPA_LEAST_PLACED = 1 << 12,            /* places from which NumPy takes longer */
    NPA_PLACED_PIECE = 1 << 14,            /* places that one thread takes */
    NPA_PLACES_AT_ONCE = 1024
};

/* Indices along one axis, over the shape that all of them have together. */
typedef struct {
    PyArrayObject *array;
    int type, size;
    const char *data;
    npy_intp extent, step; /* of the axis: its length; what a place grows by from one to the next */
    npy_intp strides[NPA_MAX_DIMS];
} npa_place_axis;

typedef struct {
    int naxes, ndim;
    npa_place_axis axes[NPA_MOST_PLACED];
    npy_intp shape[NPA_MAX_DIMS], n;
    bool ready; /* the indices are the places */
} npa_places;

/* Of a known type, in its place, and of no other class. */
bool npa_usual_items(PyObject *o);
/* False: not indices, or they share memory with the array. */
bool npa_read_axis(npa_place_axis *a, PyArrayObject *array, PyObject *o, npy_intp extent,
                   npy_intp step);
/* The shape of all indices together. False: they have none, or one whose rows are short. */
bool npa_find_shape(npa_places *p);
/* Both, of one array or of a tuple of them, with the steps of the axes. */
bool npa_read_places(npa_places *p, PyArrayObject *array, PyObject *key, const npy_intp *steps);
/* Indices that lie one behind the other are one row. */
void npa_merge_rows(npa_places *p);
/* With the arrays opened: false: some index is not of its axis, which NumPy says before it does
 * anything. */
bool npa_all_inside(npa_places *p);
/* Of elements first to first + n, which are of one row of the indices: NPA_PLACES_AT_ONCE at most;
 * in `places` or where they are. */
const int64_t *npa_find_places(const npa_places *p, npy_intp first, npy_intp n, int64_t *places);

#endif
