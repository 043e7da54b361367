/* slices.h: short of memory, temporary arrays exist a piece at a time. See Note [Slices] in
 * slices.c.
 *
 * slices.c      which arrays are temporary, what is due, and what is computed with it
 * slices_cut.c  what of each request a piece of the due one needs
 */
#ifndef NPACCEL_SLICES_H
#define NPACCEL_SLICES_H

#include "run/group.h"

/* A buffer, in the run at hand. */
typedef struct {
    int writer;     /* the last request that writes it; -1: none does */
    int last;       /* the last request that needs it, perhaps for temporary arrays */
    bool temporary; /* who needs a piece of it may compute that */
} npa_slice_use;

/* What of a request is computed for a piece of the one that is due: [low, high) of an axis. */
typedef struct {
    int request, axis; /* request: number in the queue */
    int64_t low, high;
    int last; /* the last of these, as they run, that reads it */
} npa_slice;

/* Some requests of a queue, in its order; the last one is due, the others make temporary arrays for
 * it. */
typedef struct {
    npa_queue *q;
    npa_slice_use *uses; /* per buffer */
    int *previous;       /* per request: the one before it that writes the same buffer, or -1 */
    bool *passes;        /* and whether its result gets no memory of its own */
    int n, *requests;    /* numbers in the queue */
    bool unseen;         /* what is due is so for its warnings only */
    int blamed;          /* that of the one that can't be cut */
    int nparts, parts_cap;
    npa_slice *parts;     /* of the due one, then of those before it */
    int64_t bytes;       /* of what they make, but for what is seen of the due one */
} npa_cut;

/* The request that made what request i finds there, if that has no memory of its own; or -1. */
static inline int npa_cut_maker(const npa_cut *c, const npa_operand *o, int i)
{
    int w = o->buffer >= 0 && c->uses[o->buffer].temporary ? c->uses[o->buffer].writer : -1;
    while (w >= i) {
        w = c->previous[w];
    }
    return w >= 0 && c->passes[w] ? w : -1;
}

static inline npa_request *npa_cut_request(const npa_cut *c, int i)
{
    return (npa_request *)(c->q->arena + c->q->at[i]);
}

static inline int npa_cut_due(const npa_cut *c) { return c->requests[c->n - 1]; }

/* Whether the request writes all of a buffer of so many bytes once, and its elements lie behind one
 * another. */
bool npa_cut_fills(const npa_request *r, size_t bytes);
/* The due one's [low, high) of an axis, and what it needs of the others. False: no. */
bool npa_cut_spread(npa_cut *c, int axis, int64_t low, int64_t high);
/* The last part first, as requests of `sub`, whose arena has room; what part k makes is its buffer
 * number `pieces` + k. False: another order of a sum would come of it. */
bool npa_cut_write(npa_cut *c, npa_queue *sub, int pieces);
size_t npa_cut_piece_bytes(const npa_cut *c, const npa_slice *part); /* of the result */

/* slices.c: bytes of temporary arrays that are worth no pieces, as things are. */
size_t npa_slices_small(void);
/* This thread's queue, from the run's next request on. why: as npa_find_unseen has it, or
 * NULL. 0, -1: out of memory, 1: interrupted. */
int npa_run_slices(uint8_t *kinds, const uint8_t *why, npa_group *g, int (*poll)(void *),
                   bool *interrupted);

#endif
