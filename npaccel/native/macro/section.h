/* section.h: a section while it is recorded. See section.c. */
#ifndef NPA_SECTION_H
#define NPA_SECTION_H

#include "macro/macro.h"

struct npa_spot {
    struct npa_section *section; /* NULL: over */
    size_t size;
    atomic_int users; /* the section, the buffer */
    atomic_bool gone, raw;
    bool written;
    bool scalar; /* stands for a NumPy scalar, which nothing can change */
    PyObject *owner; /* of an array from outside: owned */
    char *base, *copy;
};
typedef struct { int32_t request, operand, slot; } binding;
/* Indices that each replay looks through: as they are at its begin, in a buffer; or their extremes,
 * which it computes, in two. */
typedef struct {
    int32_t buffer, last; /* last: of the largest; -1: `buffer` has them all */
    int64_t offset;
    npa_indices of;
} check;
typedef struct npa_section {
    PyObject_HEAD
    npa_queue q; /* its requests; no buffers */
    PyObject *stop; /* stop(kind, what, buffer): raises */
    PyObject *called; /* see calls.c */
    npa_spot **spots;
    binding *bindings;
    check *checks;
    int nspots, spots_cap, nbindings, bindings_cap, nchecks, checks_cap;
    bool closed;
} npa_section;

/* ------------------------------------------------------------------------------------ section.c */

/* The section that is a block, and does not stand aside, that this thread is in: requests go to the
 * queue as ever, but those on small arrays too. */
extern __thread PyObject *npa_section_block;
/* The same of one that stands aside; see macro_block.c */
extern __thread PyObject *npa_section_aside;
/* It is told of a read of what is pending, and may raise. 0 or -1 */
int npa_section_block_stop(const char *kind, const char *what);
void npa_spot_leave(npa_spot *spot);
npa_spot *npa_spot_of(PyArrayObject *a);
int npa_spot_index(const npa_section *s, const npa_spot *spot);
/* Call stop(kind, what, buffer), which raises; buffer -1: none. */
void npa_section_raise(npa_section *s, const char *kind, const char *what, int buffer);

#endif
