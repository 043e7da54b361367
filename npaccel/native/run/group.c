/* group.c: which requests run together, block by block. See Note [Groups] at the end. */
#include "run/run.h"
#include "run/group.h"

#include <math.h>
#include <string.h>

/* Elements times requests of a group at most: Ctrl-C waits for its end. */
static const double MOST_WORK = 3e8;
/* Rows of fewer elements share blocks, of a plane if that is no shorter; rows that are shorter
 * still are copied to lie dense in them. */
enum { SHORT_ROW = 512, TINY_ROW = 96, LONG_ROW = 16384 };

/* ---------------------------------------------------------------------------- what fits */

static bool takes_part(const npa_request *r)
{
    const npa_rule *rule = r->rule;
    if (rule->kind == NPA_IOTA || rule->kind == NPA_GATHER) {
        return true;
    }
    if (rule->kind == NPA_REDUCE) {
        return npa_sink_possible(r);
    }
    if (rule->kind != NPA_MAP || r->axes != 0) {
        return false;
    }
    for (int k = 0; r->mask && k < r->nin + r->nout; k++) {
        const npa_operand *o = npa_operand_at((npa_request *)r, k);
        if (o->type != rule->loop_type[k]) {
            return false; /* casts where the mask is false would raise what NumPy's do not */
        }
    }
    return true;
}

/* The shape without axes of 1; axes[i]: that of the request. */
static int squeeze(const npa_request *r, int64_t *shape, int *axes)
{
    int n = 0;
    for (int i = 0; i < r->ndim; i++) {
        if (r->shape[i] != 1) {
            shape[n] = r->shape[i];
            axes[n++] = i;
        }
    }
    return n;
}

static void set_extent(const npa_group *g, npa_view *v)
{
    v->low = v->offset, v->high = v->offset + v->size;
    for (int i = 0; i < g->ndim; i++) {
        int64_t span = v->strides[i] * (g->shape[i] - 1);
        v->low += span < 0 ? span : 0;
        v->high += span > 0 ? span : 0;
    }
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    a = a < 0 ? -a : a, b = b < 0 ? -b : b;
    while (b != 0) {
        int64_t rest = a % b;
        a = b, b = rest;
    }
    return a;
}

/* Whether two views of a buffer share a byte, perhaps: not if one lies behind the other, or both
 * keep to their own part of each step (every second element, real parts). */
static bool may_overlap(const npa_group *g, const npa_view *a, const npa_view *b)
{
    if (a->high <= b->low || b->high <= a->low) {
        return false;
    }
    int64_t step = 0;
    for (int i = 0; i < g->ndim; i++) {
        step = common_divisor(common_divisor(step, a->strides[i]), b->strides[i]);
    }
    if (step == 0) {
        return true;
    }
    int64_t apart = ((b->offset - a->offset) % step + step) % step;
    return apart < a->size || apart + b->size > step;
}

static bool same_view(const npa_group *g, const npa_view *a, const npa_view *b)
{
    return a->offset == b->offset && a->type == b->type &&
           memcmp(a->strides, b->strides, sizeof *a->strides * (size_t)g->ndim) == 0;
}

/* The view's number, a new one perhaps; -1: it does not go with the others, or there are too
 * many. */
static int find_view(npa_group *g, const npa_view *wanted, bool write)
{
    int found = -1;
    for (int i = g->heads[wanted->buffer]; i >= 0; i = g->views[i].next) {
        npa_view *v = &g->views[i];
        if ((v->folded || wanted->folded) && may_overlap(g, v, wanted)) {
            return -1;
        }
        if (same_view(g, v, wanted)) {
            found = i;
        } else if ((write || v->written) && may_overlap(g, v, wanted)) {
            return -1;
        }
    }
    if (found < 0 && g->nviews < NPA_GROUP_VIEWS) {
        found = g->nviews++;
        g->views[found] = *wanted;
        g->views[found].next = g->heads[wanted->buffer];
        g->heads[wanted->buffer] = found;
    }
    return found;
}

/* What of a buffer GATHER may read: all of it. */
static void widen(const npa_group *g, npa_view *v)
{
    v->low = 0, v->high = (int64_t)g->q->buffers[v->buffer]->size;
}

typedef struct {
    int nviews;
    int32_t heads[NPA_MAX_ARGS + 1], buffers[NPA_MAX_ARGS + 1];
    int n;
} undo;

static void take_back(npa_group *g, const undo *u)
{
    for (int k = u->n - 1; k >= 0; k--) {
        g->heads[u->buffers[k]] = u->heads[k];
    }
    g->nviews = u->nviews;
}

/* A gather's source: where it moves, blocks must be parts of rows, which is not known yet. */
static bool is_still(const npa_group *g, const npa_view *v)
{
    for (int i = 0; i < g->ndim; i++) {
        if (v->strides[i] != 0) {
            return false;
        }
    }
    return true;
}

/* Whether anything was written to it before the group. */
static bool has_content(const npa_buffer *b)
{
    return b->range == NULL || b->range->work != NULL || b->copy != NULL;
}

static bool is_result(const npa_request *r, int k) { return k >= r->nin && k < r->nin + r->nout; }

/* The view that operand `k` is; -1: none. False: it does not go with the others. */
static bool add_operand(npa_group *g, npa_request *r, int k, const int *axes, int32_t *chosen,
                        undo *u)
{
    npa_operand *o = npa_operand_at(r, k);
    if (o->buffer < 0) {
        *chosen = -1;
        return true;
    }
    npa_view v = {.buffer = o->buffer, .type = o->type, .size = npa_item_sizes[o->type],
                  .offset = o->offset, .slot = -1};
    for (int i = 0; i < g->ndim; i++) {
        v.strides[i] = o->at[axes[i]];
    }
    set_extent(g, &v);
    v.folded = is_result(r, k) && r->rule->kind == NPA_REDUCE;
    bool table = r->rule->kind == NPA_GATHER && k == 0;
    if (table) {
        widen(g, &v);
    }
    u->buffers[u->n] = o->buffer, u->heads[u->n++] = g->heads[o->buffer];
    *chosen = table && !is_still(g, &v) ? -1 : find_view(g, &v, is_result(r, k));
    if (*chosen >= 0 && table) {
        widen(g, &g->views[*chosen]);
    }
    return *chosen >= 0;
}

/* The request's views are used once more. */
static void note_uses(npa_group *g, npa_request *r, const int32_t *chosen)
{
    int n = npa_operand_count(r);
    for (int k = 0; k < n; k++) {
        if (chosen[k] >= 0) {
            npa_view *v = &g->views[chosen[k]];
            /* Where the mask is false */
            bool kept = r->mask && has_content(g->q->buffers[v->buffer]);
            v->read_first |= (!is_result(r, k) || kept) && !v->written;
            v->uses++;
        }
    }
    for (int k = r->nin; k < r->nin + r->nout; k++) {
        g->views[chosen[k]].written = true;
    }
}

/* Add request number `place` of the group, whose axes are those of its shape. */
static bool add_request(npa_group *g, npa_request *r, int place, const int *axes)
{
    int n = npa_operand_count(r);
    undo u = {.nviews = g->nviews};
    int32_t *chosen = g->operand[place];
    for (int pass = 0; pass < 2; pass++) { /* what it reads, then what it writes */
        for (int k = 0; k < n; k++) {
            if (is_result(r, k) == (pass == 1) && !add_operand(g, r, k, axes, &chosen[k], &u)) {
                take_back(g, &u);
                return false;
            }
        }
    }
    note_uses(g, r, chosen);
    return true;
}

/* ------------------------------------------------------------------------------ where they lie */

/* Whether a view's content is seen by nobody else: all of a dead array that this group makes and
 * uses up. */
static void find_hidden(npa_group *g, const int *last)
{
    for (int i = 0; i < g->nviews; i++) {
        npa_view *v = &g->views[i];
        npa_buffer *b = g->q->buffers[v->buffer];
        bool alone = v->next < 0 && g->heads[v->buffer] == i;
        bool dead = b->range != NULL && b->range->work == NULL && b->copy == NULL && b->next == b;
        v->hidden = alone && dead && v->written && !v->read_first && !v->folded &&
                    !npa_check_mode && last[v->buffer] < g->first + g->count;
    }
}

static void swap_axes(npa_group *g, int a, int b)
{
    int64_t extent = g->shape[a];
    g->shape[a] = g->shape[b], g->shape[b] = extent;
    for (int i = 0; i < g->nviews; i++) {
        int64_t *strides = g->views[i].strides, stride = strides[a];
        strides[a] = strides[b], strides[b] = stride;
    }
}

static int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }

/* Axes in the order in which memory is gone through: as most views have it, written ones twice. */
static void sort_axes(npa_group *g)
{
    for (int i = 1; i < g->ndim; i++) {
        for (int j = i; j > 0; j--) {
            int votes = 0;
            for (int k = 0; k < g->nviews; k++) {
                const npa_view *v = &g->views[k];
                int64_t before = magnitude(v->strides[j - 1]), here = magnitude(v->strides[j]);
                if (!v->hidden && !v->folded && before != 0 && here != 0) {
                    votes += (v->written ? 2 : 1) * ((before < here) - (here < before));
                }
            }
            if (votes <= 0) {
                break;
            }
            swap_axes(g, j - 1, j);
        }
    }
}

/* Of a view, that has a place in memory, along an axis: on or back */
static bool goes(const npa_view *v, int axis, bool back)
{
    return !v->hidden && (back ? v->strides[axis] < 0 : v->strides[axis] > 0);
}

/* Whether the order of points is nobody's business. */
static bool is_free(const npa_group *g)
{
    for (int i = 0; i < g->count; i++) {
        const npa_request *r = (const npa_request *)(g->q->arena + g->q->at[g->first + i]);
        if (r->rule->kind != NPA_MAP) {
            return false;
        }
    }
    return true;
}

/* Axes along which all views go back are gone through from their end, as NumPy does. */
static void turn_axes(npa_group *g)
{
    for (int i = 0; i < g->ndim; i++) {
        bool back = false, on = false;
        for (int k = 0; k < g->nviews; k++) {
            back |= goes(&g->views[k], i, true), on |= goes(&g->views[k], i, false);
        }
        for (int k = 0; k < g->nviews && back && !on; k++) {
            npa_view *v = &g->views[k];
            v->offset += v->hidden ? 0 : v->strides[i] * (g->shape[i] - 1);
            v->strides[i] = -v->strides[i];
        }
    }
}

/* Neighbouring axes become one where every view allows it. */
static void merge_axes(npa_group *g)
{
    int out = 0;
    for (int i = 1; i < g->ndim; i++) {
        bool merge = true;
        for (int k = 0; k < g->nviews && merge; k++) {
            const npa_view *v = &g->views[k];
            merge = v->hidden || v->strides[out] == v->strides[i] * g->shape[i];
        }
        out += !merge;
        g->shape[out] = merge ? g->shape[out] * g->shape[i] : g->shape[i];
        for (int k = 0; k < g->nviews; k++) {
            g->views[k].strides[out] = g->views[k].strides[i];
        }
    }
    g->ndim = out + 1;
}

static enum npa_view_mode mode_of(const npa_group *g, npa_view *v)
{
    int last = g->ndim - 1;
    int64_t size = v->size;
    bool dense = true, still = true;
    for (int i = last; i >= g->ndim - g->inner; i--) {
        dense &= v->strides[i] == size;
        still &= v->strides[i] == 0;
        size *= g->shape[i];
    }
    v->step = v->strides[last];
    if (still || dense) {
        return still ? NPA_STILL : NPA_DENSE;
    }
    if (g->inner == 1) {
        return NPA_APART;
    }
    bool rows = g->inner == 2 && g->row >= TINY_ROW && v->step == v->size;
    v->row_step = rows ? v->strides[last - 1] : 0;
    return rows ? NPA_ROWS : NPA_UNEVEN;
}

/* With reductions: results' axes first, then rows, and a row's elements as one axis. False: some
 * view does not have those behind one another. */
static bool order_axes(npa_group *g)
{
    const npa_order *o = &g->order;
    int64_t shape[NPA_MAX_DIMS], strides[NPA_MAX_DIMS];
    int axes[NPA_MAX_DIMS], n = o->nband + o->first;
    memcpy(axes, o->band, sizeof *axes * (size_t)o->nband);
    memcpy(axes + o->nband, o->inner, sizeof *axes * (size_t)o->ninner);
    memcpy(shape, g->shape, sizeof shape);
    for (int i = 0; i < g->nviews; i++) {
        npa_view *v = &g->views[i];
        for (int k = n; k + 1 < g->ndim && !v->hidden && !v->folded; k++) {
            if (v->strides[axes[k]] != v->strides[axes[k + 1]] * shape[axes[k + 1]]) {
                return false;
            }
        }
    }
    for (int i = 0; i < g->nviews; i++) {
        memcpy(strides, g->views[i].strides, sizeof strides);
        for (int k = 0; k < g->ndim; k++) {
            g->views[i].strides[k < n ? k : n] = strides[axes[k]];
        }
    }
    for (int k = 0; k < n; k++) {
        g->shape[k] = shape[axes[k]];
    }
    g->shape[n] = o->row, g->ndim = n + 1;
    return true;
}

/* How many rows share lines of a view that lies across them; 0: there is none, or rows are so long
 * that a block has but one. */
static int64_t rows_across(const npa_group *g)
{
    int last = g->ndim - 1;
    int64_t rows = 0;
    for (int i = 0; i < g->nviews && last > 0 && g->row <= LONG_ROW; i++) {
        const npa_view *v = &g->views[i];
        int64_t some = NPA_LINE / v->size;
        if (!v->hidden && some > rows && npa_lies_across(v->strides[last - 1], v->strides[last])) {
            rows = some;
        }
    }
    return rows;
}

static bool lay_out(npa_group *g)
{
    if (g->nsinks > 0) {
        if (!order_axes(g)) {
            return false;
        }
    } else {
        if (is_free(g)) {
            turn_axes(g);
        }
        sort_axes(g);
        merge_axes(g);
    }
    int last = g->ndim - 1;
    g->row = g->shape[last];
    g->across = g->nsinks == 0 ? rows_across(g) : 0;
    bool whole =
        g->nsinks > 0 || g->points == g->row || (g->row >= SHORT_ROW && g->across == 0);
    bool by_planes = g->row >= TINY_ROW && last > 0 && g->row * g->shape[last - 1] >= SHORT_ROW;
    g->inner = whole ? 1 : by_planes ? 2 : g->ndim;
    g->stretch = 1;
    for (int i = g->ndim - g->inner; i < g->ndim; i++) {
        g->stretch *= g->shape[i];
    }
    g->stretches = g->points / g->stretch;
    for (int i = 0; i < g->nviews; i++) {
        npa_view *v = &g->views[i];
        v->mode = v->hidden ? NPA_DENSE : mode_of(g, v);
        v->step = v->hidden ? v->size : v->step;
    }
    return true;
}

/* Whether a reduction may end the group: rows are long, each result has lanes of its own, and all
 * have one order. axes: of the request, that the group has. */
static bool joins_sinks(npa_group *g, npa_request *r, const int *axes)
{
    npa_order order;
    int64_t strides[NPA_MAX_DIMS];
    uint32_t reduced = 0;
    npa_operand *in = npa_operand_at(r, 0);
    for (int i = 0; i < g->ndim; i++) {
        strides[i] = in->at[axes[i]];
        reduced |= (r->axes >> axes[i] & 1) << i;
    }
    npa_fold_order(g->ndim, g->shape, strides, reduced, npa_item_sizes[in->type], &order);
    bool alone = order.nband == 0 && order.first == 0;
    if (in->buffer < 0 || order.banded || order.ninner == 0 || (order.row < SHORT_ROW && !alone) ||
        g->nsinks == NPA_GROUP_SINKS || (g->count == 0 && r->rule->ordered) ||
        (g->nsinks > 0 && memcmp(&order, &g->order, sizeof order) != 0)) {
        return false;
    }
    g->order = order;
    return true;
}

/* The next request, if it has the group's shape and goes with what is there. */
static bool join(npa_group *g, npa_request *r, bool sinks)
{
    int64_t shape[NPA_MAX_DIMS];
    int axes[NPA_MAX_DIMS], ndim = squeeze(r, shape, axes);
    if (g->count == 0) {
        g->ndim = ndim;
        memcpy(g->shape, shape, sizeof shape);
        for (int i = 0; i < ndim; i++) {
            g->points *= shape[i];
        }
    }
    if (ndim != g->ndim || memcmp(shape, g->shape, sizeof *shape * (size_t)ndim) != 0 ||
        (double)g->points * g->count > g->most) {
        return false;
    }
    if (r->rule->kind != NPA_REDUCE) {
        return add_request(g, r, g->count, axes);
    }
    if (!sinks || ndim == 0 || !joins_sinks(g, r, axes) || !add_request(g, r, g->count, axes)) {
        return false;
    }
    g->sinks[g->nsinks++] = g->count;
    return true;
}

static bool form(npa_group *g, int end, const int *last, bool sinks)
{
    npa_queue *q = g->q;
    g->count = 0, g->nviews = 0, g->points = 1, g->nsinks = 0;
    int most = npa_check_mode ? 1 : NPA_GROUP_REQUESTS; /* all results are looked at */
    while (g->count < most && g->first + g->count < end) {
        int i = g->first + g->count;
        npa_request *r = (npa_request *)(q->arena + q->at[i]);
        if (!takes_part(r) || (npa_losses && npa_lost_request(q, i)) || !join(g, r, sinks)) {
            break;
        }
        g->count++;
    }
    find_hidden(g, last);
    for (int i = 0; i < g->nviews; i++) {
        g->heads[g->views[i].buffer] = -1;
    }
    if (g->count > 0 && g->ndim == 0) {
        g->ndim = 1, g->shape[0] = 1;
        for (int i = 0; i < g->nviews; i++) {
            g->views[i].strides[0] = 0;
        }
    }
    return g->count > 0 && lay_out(g);
}

bool npa_group_form(npa_group *g, npa_queue *q, int first, int end, const int *last)
{
    g->q = q, g->first = first, g->most = MOST_WORK;
    return form(g, end, last, true) || (g->nsinks > 0 && form(g, end, last, false));
}

bool npa_group_form_all(npa_group *g, npa_queue *q, const int *last)
{
    g->q = q, g->first = 0, g->most = HUGE_VAL;
    return form(g, q->nrequests, last, true);
}

/* Note [Groups]
 *
 * What no program is known for runs here: not one request after the other over whole arrays, each
 * result written to memory and read again, but block after block, all requests on one block before
 * the next. A block's intermediate results stay in the first or second cache, and those that nobody
 * sees get no memory at all. (MonetDB/X100 and NumExpr work so.) Blocks are independent, so all
 * cores take part.
 *
 * A group is requests that follow each other in the queue and have one index space. Two of them may
 * share a block where each pair of conflicting accesses is to the identical view or to disjoint
 * ones: the same rule as for kernels (ir/views.py). A request that does not fit ends the group.
 *
 * It is found in one walk. A view is compared with the others of its buffer only.
 *
 * A block is part of a long row, or some rows of a plane: then an operation goes from row to row
 * where an operand (a slice of a matrix) is dense along rows only. Rows that are shorter than a
 * call is worth are copied instead, to lie behind one another, and back. */
