/* draft.h: a request before it is in a queue; for the files that make one. See record.c. */
#ifndef NPA_DRAFT_H
#define NPA_DRAFT_H

#include "record/record.h"

/* A request while it is put together: everything that can fail or call Python comes before the
 * lock, everything that the queue sees happens in one locked section. */
typedef struct {
    npa_rule *rule;
    int ndim, nin, nout, errstate;
    uint32_t axes;
    bool masked, initial, numpys;
    npy_intp shape[NPA_MAX_DIMS];
    PyArrayObject *arrays[NPA_MAX_ARGS + 1]; /* inputs, outputs, mask; NULL: a scalar */
    PyObject *made[NPA_MAX_ARGS];            /* new outputs; owned until commit succeeds */
    char scalars[NPA_MAX_ARGS][16];
    int slots[NPA_MAX_ARGS];                 /* 1 + that of a run-time number; 0: none */
    bool usual; /* a map whose outputs are laid out as NumPy does by itself */
    const npy_intp *reduced_strides; /* the output's, over all axes; NULL: as broadcast */
    PyArrayObject *base; /* GATHER: shows the source's elements at index 0, broadcast */
} draft;

/* ------------------------------------------------------------------------------------- record.c */

void npa_draft_drop(draft *d);
/* Stride of `a` along axis i of a space of ndim axes, broadcasting to the left. */
int64_t npa_stride_along(PyArrayObject *a, int ndim, const npy_intp *shape, int i);

/* -------------------------------------------------------------------------------------- enter.c */

/* The request begins in q. One of no dimensions has one of 1. */
npa_request *npa_draft_append(npa_queue *q, const draft *d);
/* What the request is, once its place in the queue is known. */
void npa_draft_fill(const draft *d, npa_request *r, const int32_t *buffers, const int64_t *offsets);
/* Whether NumPy's loop computes it, now and whenever: see Note [Whose bits]. */
bool npa_draft_is_numpys(const draft *d);
/* The draft becomes a request. Results are new references. As npa_record_map. */
int npa_draft_commit(draft *d, PyObject **results);

#endif
