/* tasks.c: how kernels are cut into tasks, as backends/tasks.py has it for whoever lays out a plan,
 * perhaps without the core (the helper). Results never depend on it. */
#include "run/template.h"

static int64_t pieces(int64_t n, int64_t of) { return (n + of - 1) / of; }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

bool npa_tasks_good(const npa_tasks *t, size_t words, int64_t rank)
{
    bool good = words >= NPA_TASKS_WORDS && t->nscratch >= 0 &&
                (size_t)t->nscratch == words - NPA_TASKS_WORDS;
    return good && t->band_rank >= 0 && t->band_rank <= rank && t->weight > 0 && t->group > 0 &&
           t->chunk > 0 && t->width >= 0 && t->tile >= 0 && t->across >= 0 && t->across_tile > 0 &&
           (!t->split || t->band_rank < rank);
}

/* Elements of the band that make a task with so many of the inner space each. */
static int64_t band_step(const npa_tasks *t, int64_t elements, int64_t inner, int64_t band,
                         int threads)
{
    int64_t step = larger(1, elements / larger(1, inner));
    if (t->width == 0) {
        return step;
    }
    if (t->tile > 0) {
        step = larger(step, smaller(t->tile, pieces(band, threads)));
    }
    return pieces(step, t->width) * t->width;
}

/* A kernel whose inner space is cut, too. */
static void cut_inner(const npa_tasks *t, const int64_t *extents, int rank, int64_t elements,
                      int threads, npa_cut *cut)
{
    int64_t all = npa_multiplied(extents, t->band_rank, rank), last = extents[rank - 1];
    bool rows = rank - t->band_rank > 1;
    int64_t each = rows ? larger(1, last) : 1;
    int64_t granule = rows ? larger(1, t->tile) : t->reductions ? t->chunk : larger(64, t->group);
    cut->inner = rows ? npa_multiplied(extents, t->band_rank, rank - 1) : last;
    cut->inner_step = larger(1, elements / each / granule) * granule;
    cut->band_step = band_step(t, elements, cut->inner_step >= cut->inner ? all : elements,
                               cut->band, threads);
    cut->parts = !t->reductions ? 0 : rows ? cut->inner : pieces(last, t->chunk);
}

/* As many rows as share lines of arrays that lie across them, and pieces of these of about one
 * length. Small also where one thread is alone: what lies across may pass through memory. */
static void cut_across(const npa_tasks *t, int64_t row, npa_cut *cut)
{
    int64_t elements = larger(1, t->task_bytes / t->weight);
    int64_t rows = larger(1, smaller(cut->band, t->across));
    int64_t most = larger(t->across_tile, t->across_tasks * elements / rows);
    int64_t n = larger(1, pieces(row, most));
    cut->inner = row;
    cut->inner_step = larger(1, pieces(row, n * t->across_tile)) * t->across_tile;
    cut->band_step = rows * larger(1, elements / cut->inner_step / rows);
}

npa_cut npa_tasks_cut(const npa_tasks *t, const int64_t *extents, int rank, int threads)
{
    int64_t inner = npa_multiplied(extents, t->band_rank, rank);
    int64_t bytes = threads == 1 ? t->lone_bytes : t->task_bytes;
    int64_t elements = larger(t->group, bytes / t->weight);
    npa_cut cut = {.band = npa_multiplied(extents, 0, t->band_rank), .inner = 1, .inner_step = 1};
    if (t->across > 0) {
        cut_across(t, inner, &cut);
    } else if (t->split) {
        cut_inner(t, extents, rank, elements, threads, &cut);
    } else {
        cut.band_step = band_step(t, elements, inner, cut.band, threads);
    }
    for (int64_t i = 0; i < t->nscratch; i++) {
        cut.scratch_bytes += pieces((t->tile ? 1 : inner) * t->scratch[i], 64) * 64;
    }
    cut.partial_bytes = t->partial_bytes * cut.band * cut.parts * t->reductions;
    return cut;
}
