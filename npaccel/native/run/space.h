/* space.h: the space of a request, gone through line by line. */
#ifndef NPA_RUN_SPACE_H
#define NPA_RUN_SPACE_H

#include "run/run.h"

typedef struct {
    int ndim, n;
    int64_t shape[NPA_MAX_DIMS];
    char *p[NPA_MAX_ARGS + 1];
    int64_t strides[NPA_MAX_DIMS][NPA_MAX_ARGS + 1];
} npa_space;

/* The request's operands over its shape. 0, or -1: out of memory; then a computation has begun. */
int npa_space_of(npa_queue *q, npa_request *r, npa_space *s);
/* Axes by falling stride of operand `lead`, unit ones dropped, neighbours merged where every
 * operand allows it. Inside a line order does not matter to a map. */
void npa_space_simplify(npa_space *s, int lead);

/* Axes along which all operands of a map go back are gone through from their end, as NumPy does. */
void npa_space_turn(npa_space *s);

struct npa_job; /* what a line is for */
typedef void npa_line(const struct npa_job *j, char **p, const int64_t *strides, int64_t n);

/* Call line() for every line along the last axis; or where lines are short, for pieces of lines
 * along the axis before it, of which those that lie side by side take turns. */
void npa_each_line(const struct npa_job *j, const npa_space *s, npa_line *line);
/* Likewise of a reduction, whose result is operand `out`: what is reduced keeps its order; ordered:
 * what a line sums up stays what it is, too. */
void npa_each_folded_line(const struct npa_job *j, const npa_space *s, npa_line *line, int out,
                          bool ordered);

#endif
