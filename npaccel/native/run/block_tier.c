/* block_tier.c: runs a group, block by block.
 *
 * for each task (parallel):  for each of its blocks:  for each instruction:  do it on the block */
#include "run/run.h"
#include "run/group.h"

#include <fenv.h>
#include <string.h>

/* Elements times instructions from which a second thread wins, and of a task; tasks per thread. */
enum { TASK = 64 << 10, TASKS_EACH = 64 };
/* Bytes of arrays from which they are not in the second cache when their turn comes, and of its
 * line. So few instructions have blocks so long that the processor foresees what they read. */
enum { FAR_BYTES = 8 << 20, LINE = 64, FEW = 2 };
enum { KINDS = FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW | FE_INVALID };

typedef struct {
    const npa_group *g;
    const npa_tape *t;
    size_t *slot_at;       /* where each slot lies in the scratch memory */
    size_t scratch_bytes;
    npa_sink sinks[NPA_GROUP_SINKS];
    size_t state_at[NPA_GROUP_SINKS]; /* where each keeps what it has of a chunk */
    /* Elements of a row that belong together: a block, or what a sink needs */
    int64_t chunk;
    int64_t parts, chunks; /* chunks per stretch, in all */
    int64_t each;          /* chunks of a task */
    bool far;              /* the arrays are larger than the second cache */
    atomic_uint *raised;  /* per request of the group */
    char *spare;          /* scratch for a task that can't have its own, one at a time */
    pthread_mutex_t lock; /* of it */
} run;

typedef struct {
    const run *r;
    char *scratch;
    int64_t stretch, first, n;  /* which one, and elements of it */
    char *at[NPA_GROUP_VIEWS]; /* of each view its first element in the block; not UNEVEN ones */
} block;

/* What the processor tells since the last time. plain: none but its vector units were at work, so
 * the older one, which takes longer to ask, has nothing to say. */
static unsigned kinds_raised(bool plain)
{
    if (plain && npa_vector_flags(KINDS) == 0) {
        return 0;
    }
    int flags = fetestexcept(KINDS);
    if (flags == 0) {
        return 0;
    }
    feclearexcept(FE_ALL_EXCEPT);
    return (flags & FE_DIVBYZERO ? 1u : 0) | (flags & FE_OVERFLOW ? 2u : 0) |
           (flags & FE_UNDERFLOW ? 4u : 0) | (flags & FE_INVALID ? 8u : 0);
}

/* ------------------------------------------------------------------------------- rows in blocks */

/* The place of element number `number` of an UNEVEN view. */
static char *locate(const npa_group *g, const npa_view *v, int64_t number, int64_t *index)
{
    char *p = v->base;
    for (int i = g->ndim - 1; i >= 0; i--) {
        index[i] = number % g->shape[i];
        number /= g->shape[i];
        p += index[i] * v->strides[i];
    }
    return p;
}

/* Move n elements from number `first` on between the view and contiguous memory. */
static void move_uneven(const npa_group *g, const npa_view *v, int64_t first, int64_t n,
                        char *dense, bool out)
{
    int64_t index[NPA_MAX_DIMS] = {0};
    int last = g->ndim - 1;
    int64_t row = g->shape[last], step = v->strides[last];
    char *p = locate(g, v, first, index);
    while (n > 0) {
        int64_t m = row - index[last] < n ? row - index[last] : n, rows = 1;
        if (m == row && last > 0) {
            int64_t left = g->shape[last - 1] - index[last - 1];
            rows = n / row < left ? n / row : left;
        }
        int64_t row_step = last > 0 ? v->strides[last - 1] : 0;
        if (out) {
            npa_unpack_rows(p, rows, row_step, step, dense, m, v->size);
        } else {
            npa_pack_rows(dense, p, rows, row_step, m, step, v->size);
        }
        dense += rows * m * v->size, n -= rows * m;
        p -= index[last] * step;
        index[last] = 0;
        for (int i = last - 1; i >= 0; i--) {
            p += rows * v->strides[i];
            if ((index[i] += rows) < g->shape[i]) {
                break;
            }
            p -= v->strides[i] * g->shape[i];
            index[i] = 0, rows = 1;
        }
    }
}

/* --------------------------------------------------------------------------------- instructions */

typedef struct {
    char *p[NPA_MAX_ARGS + 1];
    npy_intp step[NPA_MAX_ARGS + 1];
    bool rows; /* one of them is dense along rows only */
} operands;

static void find_operands(const block *b, const npa_instruction *i, operands *o)
{
    const run *r = b->r;
    o->rows = false;
    for (int k = 0; k < i->n + i->masked; k++) {
        const npa_ref *a = &i->args[k];
        if (a->place == NPA_VIEW) {
            const npa_view *v = &r->g->views[a->index];
            o->p[k] = b->at[a->index], o->step[k] = a->still ? 0 : (npy_intp)v->step;
            o->rows |= v->mode == NPA_ROWS;
        } else if (a->place == NPA_SLOT) {
            o->p[k] = b->scratch + r->slot_at[a->index];
            o->step[k] = a->still ? 0 : r->t->slot_size[a->index];
        } else {
            o->p[k] = (char *)a->value, o->step[k] = 0;
        }
    }
}

/* Returns what our own code raises; of others the processor tells. */
static unsigned operate(const npa_instruction *i, char **p, const npy_intp *step, int64_t n)
{
    if (i->primitive != NULL) {
        return npa_run_primitive(i->primitive, p, step, i->n, n);
    }
    if (i->action == NPA_DO_LOOP) {
        char *args[NPA_MAX_ARGS + 1]; /* loops may move them */
        npy_intp count = n;
        memcpy(args, p, sizeof args);
        i->rule->loop(args, &count, step, i->rule->loop_data);
    } else {
        npa_own_loop(i->rule, p, n, step);
    }
    return 0;
}

/* A copy where the mask is true; what is elsewhere is written over with itself. */
static void copy_masked(int size, const operands *o, int64_t n)
{
    char *p[4] = {o->p[2], o->p[0], o->p[1], o->p[1]};
    npy_intp step[4] = {o->step[2], o->step[0], o->step[1], o->step[1]};
    npa_select_line(p, n, step, size);
}

/* Everywhere, as if there were no mask. False: it raised something, perhaps where the mask is
 * false. */
static bool operate_loosely(const npa_instruction *i, const operands *o, int64_t n)
{
    char *p[NPA_MAX_ARGS + 1];
    memcpy(p, o->p, sizeof p);
    unsigned kinds = operate(i, p, o->step, n);
    return !i->flags || (i->primitive != NULL ? kinds : kinds_raised(i->plain)) == 0;
}

/* The first element from `at` on that is not as that one. */
static int64_t run_end(const char *mask, npy_intp step, int64_t at, int64_t n)
{
    const bool in = at < n && mask[at * step] != 0;
    const uint64_t all = in ? 0x0101010101010101 : 0;
    for (uint64_t eight = all; step == 1 && eight == all && at + 8 <= n;
         at += eight == all ? 8 : 0) {
        memcpy(&eight, mask + at, 8);
    }
    while (at < n && (mask[at * step] != 0) == in) {
        at++;
    }
    return at;
}

/* Where the mask is true: run by run; where anything may be written elsewhere as a whole, unless
 * that raises. */
static unsigned operate_masked(const npa_instruction *i, const operands *o, int64_t n)
{
    unsigned kinds = 0;
    if (i->rule->own == NPA_COPY && o->step[1] != 0) {
        copy_masked(npa_item_sizes[i->rule->loop_type[1]], o, n);
        return 0;
    }
    if (i->loose && operate_loosely(i, o, n)) {
        return 0;
    }
    const char *mask = o->p[i->n];
    npy_intp step = o->step[i->n];
    for (int64_t at = n > 0 && mask[0] == 0 ? run_end(mask, step, 0, n) : 0; at < n;
         at = run_end(mask, step, at, n)) {
        int64_t from = at;
        at = run_end(mask, step, at, n);
        if (at > from) {
            char *p[NPA_MAX_ARGS + 1];
            for (int k = 0; k < i->n; k++) {
                p[k] = o->p[k] + from * o->step[k];
            }
            kinds |= operate(i, p, o->step, at - from);
        }
    }
    return kinds;
}

static void move(const block *b, const npa_instruction *i, const operands *o)
{
    bool out = i->action == NPA_DO_STORE;
    const npa_view *v = &b->r->g->views[i->args[out].index];
    char *dense = o->p[!out];
    if (v->mode == NPA_UNEVEN) {
        move_uneven(b->r->g, v, b->stretch * b->r->g->stretch + b->first, b->n, dense, out);
    } else if (out) {
        npa_unpack(o->p[1], v->step, dense, b->n, v->size);
    } else {
        npa_pack(dense, o->p[0], v->step, b->n, v->size);
    }
}

/* Do it on n elements of the block; as `operate`. */
static unsigned act_on(const block *b, const npa_instruction *i, operands *o, int64_t n)
{
    switch (i->action) {
    case NPA_DO_LOAD: case NPA_DO_STORE: move(b, i, o); break;
    case NPA_DO_CAST:
        npa_cast(i->from, o->p[0], o->step[0], i->to, o->p[1], o->step[1],
                 i->args[1].still ? 1 : n);
        break;
    case NPA_DO_RANGE:
        npa_fill_range(i->rule->loop_type[2], o->p[0], o->p[1], b->first, o->p[2], o->step[2], n);
        break;
    case NPA_DO_TAKE: npa_take_line(npa_item_sizes[i->rule->loop_type[0]], o->p, o->step, n); break;
    case NPA_DO_SELECT: copy_masked(i->to, o, n); break;
    case NPA_DO_SPREAD: npa_pack(o->p[1], o->p[0], 0, n, i->to); break;
    case NPA_DO_FOLD:
        npa_sink_take(&b->r->sinks[i->sink], b->scratch + b->r->state_at[i->sink], o->p[0], i->from,
                      n);
        break;
    default: return i->masked ? operate_masked(i, o, n) : operate(i, o->p, o->step, n);
    }
    return 0;
}

/* As one after the other, where operands are dense along rows only. */
static unsigned act_by_rows(const block *b, const npa_instruction *i, operands *o)
{
    int n = i->n + i->masked;
    int64_t row = b->r->g->row, further[NPA_MAX_ARGS + 1];
    unsigned kinds = 0;
    for (int k = 0; k < n; k++) {
        const npa_ref *a = &i->args[k];
        const npa_view *v = a->place == NPA_VIEW ? &b->r->g->views[a->index] : NULL;
        further[k] = v != NULL && v->mode == NPA_ROWS ? v->row_step : row * o->step[k];
    }
    for (int64_t left = b->n; left > 0; left -= row) {
        kinds |= act_on(b, i, o, row);
        for (int k = 0; k < n; k++) {
            o->p[k] += further[k];
        }
    }
    return kinds;
}

/* Do it; as `operate`. */
static unsigned act(const block *b, const npa_instruction *i)
{
    operands o;
    find_operands(b, i, &o);
    return o.rows ? act_by_rows(b, i, &o) : act_on(b, i, &o, b->n);
}

/* ------------------------------------------------------------------------------------- blocks */

/* Where the block's views begin. */
static void place(block *b)
{
    const npa_group *g = b->r->g;
    int64_t index[NPA_MAX_DIMS], stretch = b->stretch;
    for (int i = g->ndim - g->inner - 1; i >= 0; i--) {
        index[i] = stretch % g->shape[i];
        stretch /= g->shape[i];
    }
    for (int k = 0; k < g->nviews; k++) {
        const npa_view *v = &g->views[k];
        char *p = v->base;
        if (v->hidden || v->mode == NPA_UNEVEN) {
            continue;
        }
        for (int i = 0; i < g->ndim - g->inner; i++) {
            p += index[i] * v->strides[i];
        }
        b->at[k] = p + (v->mode == NPA_ROWS ? b->first / g->row * v->row_step : b->first * v->step);
    }
}

/* Ask for a piece of what the next block reads, the part that falls to instruction number k. The
 * processor foresees a stream once it has missed some lines of it, and a block has few. (Without
 * this five operations on 8 MB take 1.06 ms, not 0.75; on 64 MB 10.5, not 7.2.) */
static void fetch_ahead(const block *b, int k)
{
    const npa_group *g = b->r->g;
    for (int i = 0; i < g->nviews; i++) {
        const npa_view *v = &g->views[i];
        if (v->hidden || v->mode != NPA_DENSE || (v->written && !v->read_first)) {
            continue;
        }
        int64_t bytes = b->n * v->size, steps = b->r->t->n;
        for (int64_t at = bytes * k / steps & -LINE; at < bytes * (k + 1) / steps; at += LINE) {
            __builtin_prefetch(b->at[i] + bytes + at, 0, 2);
        }
    }
}

static void run_block(const run *r, block *b)
{
    bool stale = true;
    place(b);
    for (int k = 0; k < r->t->n; k++) {
        const npa_instruction *i = &r->t->list[k];
        if (r->far) {
            fetch_ahead(b, k);
        }
        if (!i->flags) {
            act(b, i);
            stale = true;
            continue;
        }
        if (stale && i->primitive == NULL) {
            kinds_raised(false); /* what others raised */
            stale = false;
        }
        unsigned kinds = act(b, i);
        if (i->primitive == NULL) {
            kinds |= kinds_raised(i->plain);
        } else {
            stale = true;
        }
        if (kinds != 0) {
            atomic_fetch_or(&r->raised[i->request], kinds);
        }
    }
}

static void run_chunk(const run *r, int64_t number, block *b)
{
    const npa_group *g = r->g;
    int64_t first = number % r->parts * r->chunk;
    int64_t end = first + r->chunk < g->stretch ? first + r->chunk : g->stretch;
    b->stretch = number / r->parts;
    for (int k = 0; k < g->nsinks; k++) {
        npa_sink_begin(&r->sinks[k], b->scratch + r->state_at[k]);
    }
    for (b->first = first; b->first < end; b->first += r->t->block) {
        b->n = end - b->first < r->t->block ? end - b->first : r->t->block;
        run_block(r, b);
    }
    if (g->nsinks > 0) {
        kinds_raised(false); /* what others raised */
    }
    for (int k = 0; k < g->nsinks; k++) {
        npa_sink_end(&r->sinks[k], b->scratch + r->state_at[k], number);
        atomic_fetch_or(&r->raised[g->sinks[k]], kinds_raised(false)); /* as lanes are combined */
    }
}

static void run_chunks(const run *r, int64_t task, char *scratch)
{
    int64_t end = (task + 1) * r->each < r->chunks ? (task + 1) * r->each : r->chunks;
    block b = {.r = r, .scratch = scratch};
    feclearexcept(FE_ALL_EXCEPT);
    for (int64_t number = task * r->each; number < end; number++) {
        run_chunk(r, number, &b);
    }
}

static void run_task(void *context, int64_t task, int worker)
{
    run *r = context;
    char *scratch = npa_pool_scratch(worker, r->scratch_bytes);
    if (scratch != NULL) {
        run_chunks(r, task, scratch);
        return;
    }
    pthread_mutex_lock(&r->lock);
    run_chunks(r, task, r->spare);
    pthread_mutex_unlock(&r->lock);
}

/* All memory that is written, before anything is. */
static int find_bases(npa_group *g)
{
    for (int k = 0; k < g->nviews; k++) {
        npa_view *v = &g->views[k];
        char *base = v->hidden ? NULL : npa_buffer_address(g->q->buffers[v->buffer]);
        if (base == NULL && !v->hidden) {
            return -1;
        }
        v->base = base + v->offset;
    }
    return 0;
}

static void cut(run *r)
{
    const npa_group *g = r->g;
    int64_t bytes = 0;
    for (int i = 0; i < g->nviews; i++) {
        bytes += g->views[i].hidden || g->views[i].mode != NPA_DENSE ? 0
                                                                     : g->points * g->views[i].size;
    }
    r->far = bytes >= FAR_BYTES && r->t->n > FEW;
    r->chunk = g->nsinks > 0 ? NPA_FOLD_CHUNK : r->t->block;
    r->parts = (g->stretch + r->chunk - 1) / r->chunk;
    r->chunks = r->parts * g->stretches;
    int64_t work = g->points * r->t->n, threads = npa_pool_size();
    int64_t tasks = threads == 1 ? 1 : work / TASK < TASKS_EACH * threads ? work / TASK
                                                                         : TASKS_EACH * threads;
    tasks = tasks < 1 ? 1 : tasks > r->chunks ? r->chunks : tasks;
    r->each = (r->chunks + tasks - 1) / tasks;
}

/* All memory that the run needs. 0, or -1: not to be had. */
static int prepare(run *r, npa_group *g)
{
    size_t at = 0;
    r->slot_at = malloc(sizeof *r->slot_at * (size_t)(r->t->nslots + 1));
    r->raised = calloc((size_t)g->count, sizeof *r->raised);
    cut(r);
    for (int i = 0; r->slot_at != NULL && i < r->t->nslots; i++) {
        r->slot_at[i] = at;
        at += (size_t)(r->t->block * r->t->slot_size[i] + 63) & ~(size_t)63;
    }
    bool failed = r->slot_at == NULL || r->raised == NULL;
    for (int k = 0; k < g->nsinks; k++) {
        r->sinks[k].nparts = r->chunks;
        failed |=
            npa_sink_prepare(&r->sinks[k],
                             (npa_request *)(g->q->arena + g->q->at[g->first + g->sinks[k]])) < 0;
        r->state_at[k] = at;
        at += npa_sink_state_bytes(&r->sinks[k]);
    }
    r->scratch_bytes = at + 64;
    r->spare = npa_aligned(64, r->scratch_bytes);
    return failed || r->spare == NULL || find_bases(g) < 0 ? -1 : 0;
}

static void finish(run *r, npa_group *g, uint8_t *kinds)
{
    for (int k = 0; k < g->nsinks; k++) {
        const npa_request *request = r->sinks[k].request;
        const npa_view *v = &g->views[g->operand[g->sinks[k]][request->nin]];
        atomic_uint *raised = &r->raised[g->sinks[k]];
        *raised = (unsigned)npa_sink_finish(&r->sinks[k], v->base, (int)*raised);
    }
    for (int i = 0; i < g->count; i++) {
        kinds[g->first + i] |= (uint8_t)r->raised[i];
    }
}

int npa_group_run(npa_group *g, const npa_tape *tape, uint8_t *kinds)
{
    run r = {.g = g, .t = tape, .lock = PTHREAD_MUTEX_INITIALIZER};
    int status = prepare(&r, g);
    if (status == 0) {
        int before = npa_now(NPA_IN_LOOPS);
        npa_compute_begin();
        npa_pool_run(run_task, &r, (r.chunks + r.each - 1) / r.each, NULL);
        finish(&r, g, kinds);
        npa_compute_end();
        npa_now(before);
    }
    for (int k = 0; k < g->nsinks; k++) {
        free(r.sinks[k].parts);
    }
    free(r.slot_at), free(r.raised), npa_aligned_free(r.spare);
    return status;
}
