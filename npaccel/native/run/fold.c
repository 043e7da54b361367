/* fold.c: runs a sum of floats, in its own order, on all cores.
 *
 * for each result (parallel), or each chunk of its rows:
 *     for each block of a chunk:  lanes[k % 32] += x[k];  push the lanes on a counter
 *     fold the lanes
 * and push chunks on a counter per row, rows on one per result.
 *
 * Where results have one lane each, up to 16 KiB of them go through their rows together. */
#include "run/run.h"
#include "run/fold.h"
#include "run/fold_counter.h"

#include <fenv.h>
#include <math.h>
#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3", "no-associative-math")
#endif

enum { LANES = NPA_FOLD_LANES, BLOCK = NPA_FOLD_BLOCK };
enum { WIDEST = 2 * sizeof(double), COLUMNS = 2048 * sizeof(double) }; /* bytes */
#define ALIGNED _Alignas(double) char /* room for elements of any type */
enum { BLOCK_LEVELS = 12, CHUNK_LEVELS = 30, ROW_LEVELS = 44 };
enum { ROWS = 256 }; /* short rows, with one look where they lie */
enum { TASK = 64 << 10 }; /* elements */
enum { NARROW = 64 }; /* columns that are not cut among threads */

/* --------------------------------------------------------------------------------- the request */

typedef struct {
    const arithmetic *a;
    npa_order order;
    const npa_folding *of;
    int type; /* of the operand */
    const char *in, *mask;
    char *out;
    int64_t shape[NPA_MAX_DIMS], in_step[NPA_MAX_DIMS], mask_step[NPA_MAX_DIMS],
        out_step[NPA_MAX_DIMS];
    int64_t points, rows, row; /* results; rows of each; elements of each */
    int64_t in_row, mask_row;  /* bytes from one of them to the next */
    int64_t chunks;            /* of a row */
    bool dense;                /* rows may be read where they are */
    bool even;                 /* a row's elements are whole elements apart */
    bool brief;                /* rows are added several at a time, see fold_parts */
    bool whole;                /* steps are whole elements of what it computes with */
    bool through_half;         /* the loop's type is f2, the operand's is not */
    char *partials;            /* per result, row and chunk; NULL: a task has whole results */
    int64_t each;              /* results, partials, or pieces of rows of results, of a task */
    int64_t pieces;            /* of a row of results of one lane */
    atomic_int raised;
    atomic_bool failed;
} fold;

/* n elements from a place on, in the type it computes with. Left out ones are the identity. */
static const void *load(const fold *f, const char *in, int64_t step, const char *mask,
                        int64_t mask_step, int64_t n, void *room, bool dense)
{
    const arithmetic *a = f->a;
    if (dense && mask == NULL) {
        return in;
    }
    if (f->through_half) {
        npy_half halves[BLOCK];
        npa_cast(f->type, in, step, NPY_HALF, (char *)halves, sizeof(npy_half), n);
        npa_cast(NPY_HALF, (char *)halves, sizeof(npy_half), a->type, room, a->size, n);
    } else if (f->type == a->type) {
        npa_pack(room, in, step, n, a->size);
    } else {
        npa_cast(f->type, in, step, a->type, room, a->size, n);
    }
    for (int64_t i = 0; mask != NULL && i < n; i++) {
        if (!mask[i * mask_step]) {
            fill(a, (char *)room + i * a->size, 1);
        }
    }
    return room;
}

static int64_t locate(const fold *f, const int *axes, int n, int64_t number, const int64_t *steps)
{
    int64_t offset = 0;
    for (int i = n - 1; i >= 0; i--) {
        offset += number % f->shape[axes[i]] * steps[axes[i]];
        number /= f->shape[axes[i]];
    }
    return offset;
}

/* -------------------------------------------------------------------------- results of 32 lanes */

/* Lanes fold as halves. */
static void fold_lanes(const arithmetic *a, char *lanes)
{
    for (int half = LANES / 2; half > 0; half /= 2) {
        ALIGNED right[LANES / 2 * WIDEST];
        memcpy(right, lanes + half * a->size, (size_t)(half * a->size));
        a->combine(lanes, right, half);
        memcpy(lanes, right, (size_t)(half * a->size));
    }
}

/* A chunk at hand. */
typedef struct {
    counter blocks;
    ALIGNED stack[BLOCK_LEVELS * LANES * WIDEST], lanes[LANES * WIDEST];
} chunk_state;

size_t npa_fold_state_bytes(void) { return (sizeof(chunk_state) + 63) & ~(size_t)63; }

void npa_fold_begin(void *state, const arithmetic *a)
{
    chunk_state *s = state;
    s->blocks =
        (counter){.width = LANES, .stack = s->stack, .bytes = (size_t)(LANES * a->size)};
}

void npa_fold_take(void *state, const arithmetic *a, const void *x, int64_t n)
{
    chunk_state *s = state;
    for (int64_t at = 0; at < n; at += BLOCK) {
        fill(a, s->lanes, LANES);
        a->lanes(s->lanes, (const char *)x + at * a->size, n - at < BLOCK ? n - at : BLOCK);
        push(&s->blocks, a, s->lanes);
    }
}

void npa_fold_end(void *state, const arithmetic *a, void *out)
{
    chunk_state *s = state;
    take(&s->blocks, a, s->lanes);
    fold_lanes(a, s->lanes);
    memcpy(out, s->lanes, (size_t)a->size);
}

/* A chunk of a row; its result to `out`. */
static void fold_chunk(const fold *f, const char *in, const char *mask, int64_t n, void *out)
{
    ALIGNED room[BLOCK * WIDEST];
    chunk_state state;
    if (f->even && mask == NULL) {
        f->a->chunk(in, f->in_row / f->a->size, n, out);
        return;
    }
    npa_fold_begin(&state, f->a);
    for (int64_t at = 0; at < n; at += BLOCK, in += BLOCK * f->in_row) {
        int64_t m = n - at < BLOCK ? n - at : BLOCK;
        const char *chosen = mask != NULL ? mask + at * f->mask_row : NULL;
        const void *x = load(f, in, f->in_row, chosen, f->mask_row, m, room, f->dense);
        npa_fold_take(&state, f->a, x, m);
    }
    npa_fold_end(&state, f->a, out);
}

static void fold_part(const fold *f, int64_t number, void *out)
{
    int64_t chunk = number % f->chunks, row = number / f->chunks % f->rows;
    int64_t point = number / f->chunks / f->rows, first = chunk * NPA_FOLD_CHUNK;
    const npa_order *o = &f->order;
    const char *in = f->in + locate(f, o->band, o->nband, point, f->in_step) +
                     locate(f, o->inner, o->first, row, f->in_step) + first * f->in_row;
    const char *mask = f->mask;
    if (mask != NULL) {
        mask += locate(f, o->band, o->nband, point, f->mask_step) +
                locate(f, o->inner, o->first, row, f->mask_step) + first * f->mask_row;
    }
    fold_chunk(f, in, mask, Py_MIN(f->row - first, NPA_FOLD_CHUNK), out);
}

/* Results of n short rows, `step` bytes apart; of how many. */
static int64_t fold_rows(const fold *f, const char *in, int64_t step, int64_t n, char *out)
{
    int64_t size = f->a->size, row = f->row;
    if (f->whole) {
        f->a->rows(in, step / size, f->in_row / size, row, n, out);
        return n;
    }
    ALIGNED room[BLOCK * WIDEST];
    n = Py_MIN(n, BLOCK / row);
    for (int64_t k = 0; k < row; k++, in += f->in_row) {
        load(f, in, step, NULL, 0, n, room + k * n * size, false);
    }
    f->a->rows(room, 1, n, row, n, out);
    return n;
}

/* Parts from number `number` on, of short rows as many of `most` as lie evenly; how many. */
static int64_t fold_parts(const fold *f, int64_t number, int64_t most, char *out)
{
    const npa_order *o = &f->order;
    if (!f->brief) {
        fold_part(f, number, out);
        return 1;
    }
    int64_t row = number % f->rows, n = 1, step = 0;
    const char *in = f->in + locate(f, o->band, o->nband, number / f->rows, f->in_step) +
                     locate(f, o->inner, o->first, row, f->in_step);
    int axis = o->first > 0 ? o->inner[o->first - 1] : o->nband > 0 ? o->band[o->nband - 1] : -1;
    if (axis >= 0) {
        int64_t left = f->shape[axis] - (o->first > 0 ? row : number) % f->shape[axis];
        n = Py_MIN(Py_MIN(left, most), ROWS), step = f->in_step[axis];
    }
    return fold_rows(f, in, step, n, out);
}

/* Whether results are written as they are computed. */
static bool is_plain(const fold *f)
{
    const npa_folding *of = f->of;
    return of->out_type == f->a->type && of->rule->loop_type[1] == f->a->type &&
           of->initial == NULL;
}

/* The result, in the type it computes with, into the output. */
static void store(const fold *f, int64_t point, char *value)
{
    const npa_folding *of = f->of;
    const arithmetic *a = f->a;
    if (is_plain(f) && f->order.nband == 1) {
        memcpy(f->out + point * f->out_step[f->order.band[0]], value, (size_t)a->size);
        return;
    }
    int out = of->out_type, loop = of->rule->loop_type[1];
    char *to = f->out + locate(f, f->order.band, f->order.nband, point, f->out_step);
    if (of->initial != NULL) {
        ALIGNED begun[WIDEST];
        npa_cast(loop, of->initial, 0, a->type, begun, 0, 1);
        a->combine(begun, value, 1);
    }
    if (loop == NPY_HALF && out != NPY_HALF) {
        npy_half rounded;
        npa_cast(a->type, value, 0, NPY_HALF, (char *)&rounded, 0, 1);
        npa_cast(NPY_HALF, (char *)&rounded, 0, out, to, 0, 1);
    } else {
        npa_cast(a->type, value, 0, out, to, 0, 1);
    }
}

/* Results from their rows, rows from their chunks; parts: in order, or NULL, to be computed. */
static void fold_point(const fold *f, int64_t point, const char *parts)
{
    const arithmetic *a = f->a;
    size_t size = (size_t)a->size;
    ALIGNED chunk_stack[CHUNK_LEVELS * WIDEST], row_stack[ROW_LEVELS * WIDEST], value[WIDEST];
    ALIGNED computed[ROWS * WIDEST];
    counter chunks = {.width = 1, .stack = chunk_stack, .bytes = size};
    counter rows = {.width = 1, .stack = row_stack, .bytes = size};
    int64_t all = f->rows * f->chunks, first = point * all;
    for (int64_t i = 0, n; i < all; i += n) {
        if (parts != NULL) {
            n = Py_MIN(f->chunks != 1 ? 1 : ROWS, all - i);
            memcpy(computed, parts + (size_t)(first + i) * size, (size_t)n * size);
        } else {
            n = fold_parts(f, first + i, all - i, computed);
        }
        push_all(f->chunks == 1 ? &rows : &chunks, a, computed, n);
        if (f->chunks != 1 && (i + n) % f->chunks == 0) {
            take(&chunks, a, value);
            push(&rows, a, value);
        }
    }
    take(&rows, a, value);
    store(f, point, value);
}

/* Results `point` and `n` in all that follow it along the last band axis. */
static void store_all(const fold *f, int64_t point, int64_t n, char *results)
{
    const npa_order *o = &f->order;
    if (is_plain(f)) {
        char *to = f->out + locate(f, o->band, o->nband, point, f->out_step);
        npa_unpack(to, f->out_step[o->band[o->nband - 1]], results, n, f->a->size);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        store(f, point + i, results + i * f->a->size);
    }
}

/* Results of one short row each: `n` from number `point` on. */
static void fold_short(const fold *f, int64_t point, int64_t n)
{
    ALIGNED results[ROWS * WIDEST];
    for (int64_t m; n > 0; point += m, n -= m) {
        m = fold_parts(f, point, n, results);
        store_all(f, point, m, results);
    }
}

/* -------------------------------------------------------------------------- results of one lane */

typedef struct {
    char blocks[BLOCK_LEVELS * COLUMNS], chunks[CHUNK_LEVELS * COLUMNS], rows[ROW_LEVELS * COLUMNS];
    char sums[COLUMNS], room[COLUMNS];
} columns;

/* `n` neighbours at hand. once: of so few elements that nothing meets. last: axis of the band. */
typedef struct {
    const fold *f;
    columns *c;
    int64_t n, last;
    bool whole, once;
    counter blocks, chunks, rows;
} columns_state;

/* A row of each: elements, and which are chosen. */
static void add_row(columns_state *s, const char *p, const char *mask)
{
    const fold *f = s->f;
    const arithmetic *a = f->a;
    columns *c = s->c; /* several: rows, together */
    bool several = s->whole && mask == NULL && f->in_row % a->size == 0;
    int64_t apart = s->whole && mask == NULL ? f->in_step[s->last] / a->size : 1;
    for (int64_t i = 0, many; i < f->row; i += many) {
        many = !several ? 1 : Py_MIN(NPA_FOLD_BAND_BLOCK - i % NPA_FOLD_BAND_BLOCK, f->row - i);
        if (i % NPA_FOLD_BAND_BLOCK == 0) {
            fill(a, c->sums, s->n);
        }
        const void *x = load(f, p + i * f->in_row, f->in_step[s->last],
                             mask != NULL ? mask + i * f->mask_row : NULL, f->mask_step[s->last],
                             s->n, c->room, s->whole);
        a->columns(c->sums, x, f->in_row / a->size, apart, many, s->n);
        bool end = i + many == f->row;
        if (!s->once && ((i + many) % NPA_FOLD_BAND_BLOCK == 0 || end)) {
            push(&s->blocks, a, c->sums);
        }
        if (!s->once && ((i + many) % NPA_FOLD_CHUNK == 0 || end)) {
            take(&s->blocks, a, c->sums);
            push(&s->chunks, a, c->sums);
        }
    }
}

/* `n` neighbouring results, from number `point` on, of one row along the last band axis. */
static void fold_columns(const fold *f, int64_t point, int64_t n, columns *c)
{
    const arithmetic *a = f->a;
    const npa_order *o = &f->order;
    int last = o->band[o->nband - 1];
    size_t bytes = (size_t)(n * a->size);
    columns_state s = {.f = f, .c = c, .n = n, .last = last,
                       .whole = f->type == a->type && f->in_step[last] % a->size == 0,
                       .once = f->rows == 1 && f->row <= NPA_FOLD_BAND_BLOCK,
                       .blocks = {.width = n, .stack = c->blocks, .bytes = bytes},
                       .chunks = {.width = n, .stack = c->chunks, .bytes = bytes},
                       .rows = {.width = n, .stack = c->rows, .bytes = bytes}};
    const char *in = f->in + locate(f, o->band, o->nband, point, f->in_step), *mask = f->mask;
    mask = mask != NULL ? mask + locate(f, o->band, o->nband, point, f->mask_step) : NULL;
    for (int64_t row = 0; row < f->rows; row++) {
        const char *m = mask;
        m = m != NULL ? m + locate(f, o->inner, o->first, row, f->mask_step) : NULL;
        add_row(&s, in + locate(f, o->inner, o->first, row, f->in_step), m);
        if (!s.once) {
            take(&s.chunks, a, c->sums);
            push(&s.rows, a, c->sums);
        }
    }
    if (!s.once) {
        take(&s.rows, a, c->sums);
    }
    store_all(f, point, n, c->sums);
}

/* ---------------------------------------------------------------------------------------- tasks */

static int64_t ceiling(int64_t a, int64_t b) { return (a + b - 1) / b; }

static void run_task(void *context, int64_t task, int worker)
{
    fold *f = context;
    feclearexcept(FE_ALL_EXCEPT);
    if (f->order.banded) {
        int64_t extent = f->shape[f->order.band[f->order.nband - 1]];
        int64_t pieces = f->pieces, all = f->points / extent * pieces;
        int64_t each = ceiling(extent, pieces);
        columns *c = (columns *)npa_pool_scratch(worker, sizeof *c);
        for (int64_t i = task * f->each; c != NULL && i < (task + 1) * f->each && i < all; i++) {
            int64_t first = i % pieces * each;
            int64_t n = extent - first < each ? extent - first : each;
            fold_columns(f, i / pieces * extent + first, n, c);
        }
        if (c == NULL) {
            atomic_store(&f->failed, true);
        }
    } else if (f->partials != NULL) {
        int64_t all = f->points * f->rows * f->chunks;
        int64_t end = Py_MIN((task + 1) * f->each, all);
        for (int64_t i = task * f->each; i < end;) {
            i += fold_parts(f, i, end - i, f->partials + i * f->a->size);
        }
    } else {
        int64_t first = task * f->each, end = Py_MIN(first + f->each, f->points);
        bool single = f->brief && f->rows == 1 && f->order.nband > 0;
        if (single) {
            fold_short(f, first, end - first);
        }
        for (int64_t i = first; i < end && !single; i++) {
            fold_point(f, i, NULL);
        }
    }
    atomic_fetch_or(&f->raised, npa_raised());
}

/* How the work is cut; 0, or -1: out of memory. Never decides bits. */
static int64_t cut(fold *f)
{
    int64_t elements = f->points * f->rows * f->row, parts = f->points * f->rows * f->chunks;
    int64_t threads = elements <= TASK ? 1 : npa_pool_size();
    int64_t unit = f->rows * f->row, all = f->points;
    if (f->order.banded) {
        int64_t extent = f->shape[f->order.band[f->order.nband - 1]];
        f->pieces = ceiling(extent * f->a->size, COLUMNS);
        if (f->points / extent * f->pieces < threads) {
            f->pieces = ceiling(extent, NARROW) < threads ? ceiling(extent, NARROW) : threads;
        }
        all = f->points / extent * f->pieces;
        unit = ceiling(elements, all);
    } else if (threads > 1 && f->points < 4 * threads && parts > f->points) {
        f->partials = malloc((size_t)(parts * f->a->size));
        if (f->partials == NULL) {
            return -1;
        }
        all = parts, unit = ceiling(elements, parts);
    }
    int64_t most = ceiling(all, threads), few = ceiling(TASK, unit > 0 ? unit : 1);
    f->each = threads > 1 && few < most ? few : most;
    return ceiling(all, f->each);
}

static int run(fold *f)
{
    int64_t tasks = cut(f);
    if (tasks < 0) {
        return -1;
    }
    npa_pool_run(run_task, f, tasks, NULL);
    if (f->partials != NULL) {
        feclearexcept(FE_ALL_EXCEPT);
        for (int64_t i = 0; i < f->points; i++) {
            fold_point(f, i, f->partials);
        }
        atomic_fetch_or(&f->raised, npa_raised());
        free(f->partials);
        f->partials = NULL;
    }
    return atomic_load(&f->failed) ? -1 : atomic_load(&f->raised);
}

/* The mask's elements in the order of `number`s of results, rows and their elements; NULL: no
 * memory. */
static char *order_mask(const fold *f)
{
    const npa_order *o = &f->order;
    int64_t inner = f->rows * f->row, n = f->points * inner;
    char *made = malloc((size_t)n);
    for (int64_t i = 0; made != NULL && i < n; i++) {
        made[i] = f->mask[locate(f, o->band, o->nband, i / inner, f->mask_step) +
                          locate(f, o->inner, o->ninner, i % inner, f->mask_step)];
    }
    return made;
}

/* Strides of what `order_mask` made. */
static void set_mask(fold *f, const char *made)
{
    const npa_order *o = &f->order;
    int64_t step = 1;
    for (int i = o->ninner - 1; i >= 0; i--) {
        f->mask_step[o->inner[i]] = step;
        step *= f->shape[o->inner[i]];
    }
    for (int i = o->nband - 1; i >= 0; i--) {
        f->mask_step[o->band[i]] = step;
        step *= f->shape[o->band[i]];
    }
    f->mask = made, f->mask_row = 1;
}

/* Whether steps along the axes of a row are the same from each element to the next. */
static bool is_even(const fold *f, const int64_t *steps)
{
    const npa_order *o = &f->order;
    for (int i = o->first; i + 1 < o->ninner; i++) {
        if (steps[o->inner[i]] != steps[o->inner[i + 1]] * f->shape[o->inner[i + 1]]) {
            return false;
        }
    }
    return true;
}

/* Results' axes that are walked as one are one: neighbours are folded together. */
static void join_band(fold *f)
{
    npa_order *o = &f->order;
    const int64_t *steps[] = {f->in_step, f->out_step, f->mask_step};
    for (int i = o->nband - 1; i > 0; i--) {
        int axis = o->band[i], before = o->band[i - 1];
        bool joins = true;
        for (int k = 0; k < 3; k++) {
            joins &= steps[k][before] == steps[k][axis] * f->shape[axis];
        }
        if (joins) {
            f->shape[axis] *= f->shape[before];
            memmove(o->band + i - 1, o->band + i, sizeof *o->band * (size_t)(o->nband-- - i));
        }
    }
}

/* Whether rows are so short that several are added at a time. */
static void set_brief(fold *f)
{
    f->whole = f->even = f->type == f->a->type && f->in_row % f->a->size == 0;
    for (int i = 0; i < f->of->ndim; i++) {
        f->whole &= f->in_step[i] % f->a->size == 0 || f->shape[i] == 1;
    }
    f->brief = f->mask == NULL && !f->order.banded && f->row > 0 &&
               f->row <= (f->dense && f->whole ? BLOCK : LANES);
}

static void prepare(fold *f, const npa_folding *of)
{
    int type, loop = of->rule->loop_type[0];
    *f = (fold){.a = npa_fold_arithmetic(of->rule, &type),
                .of = of,
                .type = of->in_type,
                .points = 1,
                .rows = 1,
                .in = of->in,
                .out = of->out,
                .mask = of->mask,
                .through_half = loop == NPY_HALF && of->in_type != NPY_HALF};
    for (int i = 0; i < of->ndim; i++) {
        f->shape[i] = of->shape[i], f->in_step[i] = of->in_step[i];
        f->out_step[i] = of->out_step[i];
        f->mask_step[i] = of->mask != NULL ? of->mask_step[i] : 0;
        f->points *= of->axes >> i & 1 ? 1 : of->shape[i];
    }
    const npa_order *o = &f->order;
    npa_fold_order(of->ndim, f->shape, f->in_step, of->axes, npa_item_sizes[f->type], &f->order);
    join_band(f);
    for (int i = 0; i < o->first; i++) {
        f->rows *= f->shape[o->inner[i]];
    }
    f->row = o->row, f->chunks = ceiling(f->row, NPA_FOLD_CHUNK);
    f->in_row = o->ninner > 0 ? f->in_step[o->inner[o->ninner - 1]] : 0;
    f->mask_row = o->ninner > 0 ? f->mask_step[o->inner[o->ninner - 1]] : 0;
    f->dense = f->type == f->a->type && (f->in_row == f->a->size || f->row == 1);
    set_brief(f);
}

int npa_fold_told(const npa_folding *of, int kinds)
{
    fold f;
    int type = of->out_type, size = npa_item_sizes[type], parts = PyTypeNum_ISCOMPLEX(type) ? 2 : 1;
    int real = type == NPY_CFLOAT ? NPY_FLOAT : type == NPY_CDOUBLE ? NPY_DOUBLE : type;
    if (kinds < 0 || !(kinds & 2) || !(PyTypeNum_ISFLOAT(type) || parts == 2)) {
        return kinds;
    }
    prepare(&f, of);
    for (int64_t i = 0; i < f.points; i++) {
        const char *at = f.out + locate(&f, f.order.band, f.order.nband, i, f.out_step);
        for (int k = 0; k < parts; k++) {
            double value;
            npa_cast(real, at + k * (size / parts), 0, NPY_DOUBLE, (char *)&value, 0, 1);
            if (isinf(value)) {
                return kinds;
            }
        }
    }
    return kinds & ~2;
}

int npa_fold_combine(const npa_folding *of, const char *parts)
{
    fold f;
    prepare(&f, of);
    feclearexcept(FE_ALL_EXCEPT);
    for (int64_t i = 0; i < f.points; i++) {
        fold_point(&f, i, parts);
    }
    return npa_raised();
}

int npa_fold(const npa_folding *of)
{
    fold f;
    prepare(&f, of);
    char *made = NULL;
    if (f.mask != NULL && !is_even(&f, f.mask_step)) {
        made = order_mask(&f);
        if (made == NULL) {
            return -1;
        }
        set_mask(&f, made);
    }
    int before = npa_now(NPA_IN_LOOPS), kinds = npa_fold_told(of, run(&f));
    npa_now(before);
    free(made);
    return kinds;
}
