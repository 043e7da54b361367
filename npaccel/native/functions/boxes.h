/* boxes.h: views and copies of boxes, as boxes.c makes them and pad.c uses them. */
#ifndef NPA_FUNCTIONS_BOXES_H
#define NPA_FUNCTIONS_BOXES_H

#include "functions/functions.h"

#define NPA_MOST_BYTES 1e15 /* no extent, and no sum of them, overflows */

/* A view: one axis more than an array may have, for what is repeated. */
typedef struct {
    int ndim;
    npy_intp lengths[NPA_MAX_DIMS], strides[NPA_MAX_DIMS];
} npa_form;

static inline void npa_add_axis(npa_form *f, npy_intp length, npy_intp stride)
{
    f->lengths[f->ndim] = length, f->strides[f->ndim++] = stride;
}

/* An exact view of memory that `a` keeps. */
PyArrayObject *npa_view_of(PyArrayObject *a, char *data, const npa_form *f);
/* to[...] = from, of views with these forms. As npa_record_map. */
int npa_copy_view(PyArrayObject *from, char *source, const npa_form *read, PyArrayObject *to,
                  char *target, const npa_form *written);
/* An array in C order of the dtype of `a`. NULL, perhaps without error: no memory to defer into. */
PyArrayObject *npa_made_of(PyArrayObject *a, int ndim, const npy_intp *lengths);
/* Whether a call on `o` whose result has so many bytes is recorded here; 0: as many as its
 * argument. */
bool npa_boxes_take(PyObject *o, double bytes);

#endif
