/* template.h: programs for all sizes of one structure, and how kernels are cut into tasks. tasks.c
 * cuts, fill.c puts a size's numbers in, template.c finds. */
#ifndef NPA_TEMPLATE_H
#define NPA_TEMPLATE_H

#include "run/program.h"

/* What a kernel's tasks depend on, besides extents and threads; backends/tasks.py has the words. */
typedef struct {
    int64_t band_rank, split, reductions, weight, width, tile, across, across_tile, across_tasks,
        group, task_bytes, lone_bytes, chunk, partial_bytes, nscratch, scratch[];
} npa_tasks;
enum { NPA_TASKS_WORDS = sizeof(npa_tasks) / 8 };
typedef struct {
    int64_t band, band_step, inner, inner_step, parts, scratch_bytes, partial_bytes;
} npa_cut;
/* Of n[from] to n[to - 1]. */
static inline int64_t npa_multiplied(const int64_t *n, int64_t from, int64_t to)
{
    int64_t all = 1;
    for (int64_t i = from; i < to; i++) {
        all *= n[i];
    }
    return all;
}
bool npa_tasks_good(const npa_tasks *t, size_t words, int64_t rank);
npa_cut npa_tasks_cut(const npa_tasks *t, const int64_t *extents, int rank, int threads);

/* ---------------------------------------------------------------------------------- structure.c */

/* Requests as words: a key's, and where their rules are. */
typedef struct {
    const char *words;
    const uint64_t *states; /* of buffers */
    int nrequests, nbuffers, apart; /* as npa_loop_apart has it */
    const struct npa_line *lines; /* or NULL: they are the first ones of npa_q */
} npa_traced;
npa_traced npa_traced_key(const npa_key *key);
npa_traced npa_traced_snapshot(const npa_snapshot *s);
/* With the lock. Kept until the next call; NULL: there is none, or no memory. */
const char *npa_structure_of(const npa_traced *t, const int64_t *limits, size_t *size);
/* A number of a snapshot's: of operand -1 an extent; of axis -1 an offset, else a stride. */
typedef struct { int32_t request, operand, axis; } npa_number;
const int64_t *npa_number_at(const npa_traced *t, npa_number which); /* NULL: there is none */

/* --------------------------------------------------------------------------------------- fill.c */

/* A kernel has no more. */
enum { NPA_MOST_ARRAYS = 256 };
/* What a template puts where. */
typedef struct npa_filling npa_filling;
npa_filling *npa_filling_new(PyObject *words, const npa_program *blank); /* NULL: error set */
void npa_filling_drop(npa_filling *f);
bool npa_filling_same(const npa_filling *a, const npa_filling *b);
const int64_t *npa_filling_limits(const npa_filling *f); /* of structures, three of them */
/* Where those numbers are in the words of such requests; false: some are not there. */
bool npa_filling_place(npa_filling *f, const npa_traced *t);
int npa_filling_count(const npa_filling *f);
/* The numbers of requests at `words`, of which there are so many. */
void npa_filling_read(const npa_filling *f, const char *words, int64_t *numbers);
/* Whether it is for these numbers. */
bool npa_filling_fits(const npa_filling *f, const int64_t *numbers);
/* Whether they differ in nothing but where arrays begin. */
bool npa_filling_alike(const npa_filling *f, const int64_t *a, const int64_t *b);
/* Puts them into a copy of the blank program, which nobody else has. like: one that was filled with
 * the numbers `before`, or NULL: what it takes tells what this one will. */
void npa_fill(const npa_filling *f, npa_program *made, const npa_program *like,
              const int64_t *before, const int64_t *numbers);

#endif
