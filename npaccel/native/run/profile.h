/* profile.h: what a profile counts of lines and of runs, as profile.c and profile_runs.c fill it
 * and profile_told.c tells it. */
#ifndef NPA_PROFILE_H
#define NPA_PROFILE_H

#include "run/run.h"

typedef struct {
    PyObject *code; /* owned; line 0 has none: it is "elsewhere" */
    int32_t lasti;
    uint64_t calls, ns[NPA_ACTIVITIES]; /* NPA_USER: Python, and whatever else is not ours */
} npa_profiled_line;

/* From NPA_OUTSIDE down: an array, by its number in the queue */
enum { NPA_SCALAR = -1, NPA_OUTSIDE = -2 };

/* One program run from the same lines. program NULL: none is known. */
typedef struct {
    uint64_t hash, runs, ns;
    npa_program *program; /* owned */
    bool single;
    int n, nsteps;   /* requests; steps, of single ones as many */
    npa_rule **rules;
    uint64_t *points, *took;
    /* Of requests, borrowed, until their lines are known: see npa_profile_resolve */
    PyObject **codes;
    /* counts, the last time: requests that a step of a single one was for; of other steps, how many
     * ran together up to this one, which has their time. */
    int32_t *lines, *counts;
    /* Of each input: the request that wrote it, NPA_SCALAR or NPA_OUTSIDE less a number */
    int32_t *links;
    uint8_t *kinds, *nin, *seen; /* seen: what it writes is, by others */
} npa_profiled_run;

/* A new run, of `n` requests of the queue; it keeps the program. False: no memory. */
bool npa_profile_fill_run(npa_profiled_run *r, npa_program *program, npa_queue *q, int n,
                          bool single);
PyObject *npa_profile_told_lines(const npa_profiled_line *lines, int n);
PyObject *npa_profile_told_runs(const npa_profiled_run *runs, int n);

#endif
