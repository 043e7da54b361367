/* slices_cut.c: what of each request is needed for a piece of the one that is due. See Note
 * [Slices] in slices.c. */
#include "run/slices.h"

#include <string.h>

static int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }

static npa_operand *result_of(const npa_request *r)
{
    return npa_operand_at((npa_request *)r, r->nin);
}

/* Whether results move along this axis. */
static bool moves(const npa_request *r, const npa_operand *out, int axis)
{
    return r->shape[axis] > 1 && out->at[axis] != 0;
}

bool npa_cut_fills(const npa_request *r, size_t bytes)
{
    const npa_operand *out = result_of(r);
    int64_t span = npa_item_sizes[out->type];
    int axes = 0, passed = 0;
    for (int i = 0; i < r->ndim; i++) {
        axes += moves(r, out, i);
        if (out->at[i] < 0 || r->shape[i] == 0) {
            return false;
        }
    }
    for (bool found = true; found && passed < axes;) { /* the axis of this step, from the last on */
        found = false;
        for (int i = r->ndim - 1; i >= 0 && !found; i--) {
            if (moves(r, out, i) && out->at[i] == span) {
                span *= r->shape[i];
                passed++, found = true;
            }
        }
    }
    return passed == axes && out->offset == 0 && (size_t)span == bytes;
}

/* The axis of a result with the longest step that a step of so many bytes is made of; -1: none. */
static int axis_of(const npa_request *w, int64_t step)
{
    const npa_operand *out = result_of(w);
    int found = -1;
    for (int i = 0; i < w->ndim; i++) {
        if (moves(w, out, i) && out->at[i] <= magnitude(step) && step % out->at[i] == 0 &&
            (found < 0 || out->at[i] > out->at[found])) {
            found = i;
        }
    }
    return found;
}

/* The index of the element at that place of a result. False: none is. */
static bool index_of(const npa_request *w, int64_t offset, int64_t *index)
{
    const npa_operand *out = result_of(w);
    bool passed[NPA_MAX_DIMS] = {false};
    memset(index, 0, sizeof *index * NPA_MAX_DIMS);
    for (int n = 0; n < w->ndim; n++) {
        int longest = -1;
        for (int i = 0; i < w->ndim; i++) {
            if (!passed[i] && moves(w, out, i) &&
                (longest < 0 || out->at[i] > out->at[longest])) {
                longest = i;
            }
        }
        if (longest >= 0) {
            passed[longest] = true;
            index[longest] = offset / out->at[longest];
            offset %= out->at[longest];
        }
    }
    return offset == 0;
}

/* The axis of a result that is outermost in memory; -1: it has one element. */
static int outermost(const npa_request *w)
{
    int found = -1;
    for (int i = 0; i < w->ndim; i++) {
        if (moves(w, result_of(w), i) &&
            (found < 0 || result_of(w)->at[i] > result_of(w)->at[found])) {
            found = i;
        }
    }
    return found;
}

/* What operand `o` of a request, of which [low, high) of an axis are computed, needs of the result
 * of `w`: [*from, *to) of the axis that it moves along. That axis; -1: it can't be told. */
static int reach(const npa_request *r, const npa_operand *o, int axis, int64_t low, int64_t high,
                 const npa_request *w, int64_t *from, int64_t *to)
{
    int64_t first[NPA_MAX_DIMS], least[NPA_MAX_DIMS], most[NPA_MAX_DIMS];
    int cut = r->shape[axis] > 1 && o->at[axis] != 0 ? axis_of(w, o->at[axis]) : -1;
    if (cut < 0 || !index_of(w, o->offset, first)) {
        return -1;
    }
    memcpy(least, first, sizeof first), memcpy(most, first, sizeof first);
    *from = *to = first[cut];
    for (int i = 0; i < r->ndim; i++) {
        if (r->shape[i] == 1 || o->at[i] == 0) {
            continue;
        }
        int a = axis_of(w, o->at[i]);
        if (a < 0) {
            return -1;
        }
        int64_t step = o->at[i] / result_of(w)->at[a], all = step * (r->shape[i] - 1);
        int64_t begin = i == axis ? step * low : 0, end = i == axis ? step * (high - 1) : all;
        least[a] += all < 0 ? all : 0, most[a] += all > 0 ? all : 0;
        *from += a != cut ? 0 : begin < end ? begin : end;
        *to += a != cut ? 0 : begin < end ? end : begin;
    }
    for (int i = 0; i < w->ndim; i++) {
        if (least[i] < 0 || most[i] >= w->shape[i]) {
            return -1;
        }
    }
    *to += 1;
    return cut;
}

/* The same of the outermost axis, whatever the operand's shape: by the bytes that it spans. */
static int reach_bytes(const npa_request *r, const npa_operand *o, int axis, int64_t low,
                       int64_t high, const npa_request *w, int64_t *from, int64_t *to)
{
    int64_t first = o->offset, last = o->offset;
    int cut = outermost(w);
    for (int i = 0; i < r->ndim; i++) {
        int64_t begin = o->at[i] * (i == axis ? low : 0);
        int64_t end = o->at[i] * (i == axis ? high - 1 : r->shape[i] - 1);
        first += begin < end ? begin : end, last += begin < end ? end : begin;
    }
    if (cut >= 0) {
        *from = first / result_of(w)->at[cut], *to = last / result_of(w)->at[cut] + 1;
    }
    return cut;
}

/* Whether a request may be done for a part of this axis alone. */
static bool may_be_cut(const npa_request *r, int axis)
{
    int kind = r->rule->kind;
    bool apart = kind == NPA_MAP ? r->axes == 0 : !(r->axes >> axis & 1);
    return apart && kind != NPA_IOTA && kind != NPA_PICK;
}

/* [from, to) of an axis of what a request makes is needed: it joins what is needed already, if that
 * is near. False: there are too many. */
static bool want(npa_cut *c, int request, int axis, int64_t from, int64_t to)
{
    for (int k = 0; k < c->nparts; k++) {
        npa_slice *p = &c->parts[k];
        int64_t low = p->low < from ? p->low : from, high = p->high > to ? p->high : to;
        if (p->request == request && p->axis == axis &&
            2 * (high - low) <= 3 * (p->high - p->low + to - from)) {
            p->low = low, p->high = high;
            return true;
        }
    }
    if (c->nparts == c->parts_cap) {
        return false;
    }
    c->parts[c->nparts++] = (npa_slice){request, axis, from, to, -1};
    return true;
}

/* That operand of a part, made by `maker`: the axis, of which it needs [*from, *to). */
static int reach_of(const npa_cut *c, const npa_slice *p, int operand, int maker, int64_t *from,
                    int64_t *to)
{
    npa_request *r = npa_cut_request(c, p->request), *w = npa_cut_request(c, maker);
    const npa_operand *o = npa_operand_at(r, operand);
    bool table = r->rule->kind == NPA_GATHER && operand == 0;
    int axis = table ? -1 : reach(r, o, p->axis, p->low, p->high, w, from, to);
    return axis >= 0 || table ? axis : reach_bytes(r, o, p->axis, p->low, p->high, w, from, to);
}

static int maker_of(const npa_cut *c, int request, int operand)
{
    npa_request *r = npa_cut_request(c, request);
    bool result = operand >= r->nin && operand < r->nin + r->nout;
    return result ? -1 : npa_cut_maker(c, npa_operand_at(r, operand), request);
}

/* What a part needs of the requests before it. False: `blamed` is not to be cut. */
static bool ask(npa_cut *c, int part)
{
    npa_slice p = c->parts[part];
    npa_request *r = npa_cut_request(c, p.request);
    c->blamed = p.request;
    if (!may_be_cut(r, p.axis)) {
        return false;
    }
    for (int i = 0; i < npa_operand_count(r); i++) {
        int64_t from, to;
        int maker = maker_of(c, p.request, i);
        int axis = maker < 0 ? -1 : reach_of(c, &p, i, maker, &from, &to);
        if (maker >= 0 && (axis < 0 || !want(c, maker, axis, from, to))) {
            c->blamed = maker;
            return false;
        }
    }
    return true;
}

/* Those of the last requests first. */
static void sort_parts(npa_cut *c)
{
    for (int i = 1; i < c->nparts; i++) {
        npa_slice moved = c->parts[i];
        int to = i;
        for (; c->parts[to - 1].request < moved.request; to--) { /* the due one is the first */
            c->parts[to] = c->parts[to - 1];
        }
        c->parts[to] = moved;
    }
}

bool npa_cut_spread(npa_cut *c, int axis, int64_t low, int64_t high)
{
    c->nparts = 1;
    c->parts[0] = (npa_slice){npa_cut_due(c), axis, low, high, -1};
    c->bytes = 0;
    for (int k = c->n - 1; k >= 0; k--) { /* all that is needed of it is known */
        for (int part = 0; part < c->nparts; part++) {
            if (c->parts[part].request == c->requests[k] && !ask(c, part)) {
                return false;
            }
        }
    }
    sort_parts(c);
    for (int part = !c->unseen; part < c->nparts; part++) {
        c->bytes += (int64_t)npa_cut_piece_bytes(c, &c->parts[part]);
    }
    return true;
}

static int64_t extent(const npa_cut *c, const npa_slice *p, int axis)
{
    return axis == p->axis ? p->high - p->low : npa_cut_request(c, p->request)->shape[axis];
}

size_t npa_cut_piece_bytes(const npa_cut *c, const npa_slice *p)
{
    const npa_request *r = npa_cut_request(c, p->request);
    size_t bytes = (size_t)npa_item_sizes[result_of(r)->type];
    for (int i = 0; i < r->ndim; i++) {
        bytes *= moves(r, result_of(r), i) ? (size_t)extent(c, p, i) : 1;
    }
    return bytes;
}

/* From one index of an axis to the next, in the piece that the part makes. */
static int64_t piece_step(const npa_cut *c, const npa_slice *p, int axis)
{
    const npa_request *w = npa_cut_request(c, p->request);
    const npa_operand *out = result_of(w);
    int64_t bytes = npa_item_sizes[out->type];
    for (int i = 0; i < w->ndim; i++) {
        bytes *= moves(w, out, i) && out->at[i] < out->at[axis] ? extent(c, p, i) : 1;
    }
    return bytes;
}

/* An operand of a request, which begins at index `low` of an axis, in what the part made. */
static void move_operand(const npa_cut *c, const npa_slice *made, const npa_request *r,
                         npa_operand *o, int axis, int64_t low)
{
    const npa_request *w = npa_cut_request(c, made->request);
    const npa_operand *out = result_of(w);
    int64_t index[NPA_MAX_DIMS];
    o->offset += low * o->at[axis];
    if (made->axis == outermost(w)) { /* steps are the same */
        o->offset -= made->low * out->at[made->axis];
        return;
    }
    index_of(w, o->offset, index);
    o->offset = 0;
    for (int i = 0; i < w->ndim; i++) {
        int64_t from = i == made->axis ? made->low : 0;
        o->offset += moves(w, out, i) ? (index[i] - from) * piece_step(c, made, i) : 0;
    }
    for (int i = 0; i < r->ndim; i++) {
        int a = r->shape[i] > 1 && o->at[i] != 0 ? axis_of(w, o->at[i]) : -1;
        o->at[i] = a < 0 ? 0 : o->at[i] / out->at[a] * piece_step(c, made, a);
    }
}

/* The part that has that operand. */
static int part_of(const npa_cut *c, const npa_slice *p, int operand, int maker)
{
    int64_t from, to;
    int axis = reach_of(c, p, operand, maker, &from, &to);
    for (int k = 1; k < c->nparts; k++) {
        const npa_slice *made = &c->parts[k];
        if (made->request == maker && made->axis == axis && made->low <= from &&
            to <= made->high) {
            return k;
        }
    }
    return -1;
}

/* Whether a sum over rows of the piece takes them in the same order. */
static bool same_order(const npa_request *r, const npa_request *piece)
{
    npa_order whole, part;
    const npa_operand *a = npa_operand_at((npa_request *)r, 0),
                      *b = npa_operand_at((npa_request *)piece, 0);
    if (r->rule->kind != NPA_REDUCE || !r->rule->ordered) {
        return true;
    }
    int size = npa_item_sizes[a->type];
    npa_fold_order(r->ndim, r->shape, a->at, r->axes, size, &whole);
    npa_fold_order(r->ndim, piece->shape, b->at, r->axes, size, &part);
    return whole.ninner == part.ninner && whole.first == part.first && whole.row == part.row &&
           whole.banded == part.banded &&
           memcmp(whole.inner, part.inner, sizeof whole.inner) == 0;
}

/* A part as a request, the `number`-th that runs. */
static bool write_part(npa_cut *c, int part, npa_request *piece, int pieces, int number)
{
    const npa_slice *p = &c->parts[part];
    npa_request *r = npa_cut_request(c, p->request);
    memcpy(piece, r, r->size);
    for (int i = 0; i < npa_operand_count(r); i++) {
        npa_operand *o = npa_operand_at(piece, i);
        int maker = maker_of(c, p->request, i);
        bool result = i >= r->nin && i < r->nin + r->nout;
        int made = maker >= 0 ? part_of(c, p, i, maker) : result && part >= !c->unseen ? part : -1;
        if (made >= 0) {
            move_operand(c, &c->parts[made], r, o, p->axis, p->low);
            o->buffer = pieces + made;
            c->parts[made].last = number;
        } else if (o->buffer >= 0) {
            o->offset += p->low * o->at[p->axis];
        }
    }
    piece->shape[p->axis] = p->high - p->low;
    c->blamed = p->request;
    return same_order(r, piece);
}

bool npa_cut_write(npa_cut *c, npa_queue *sub, int pieces)
{
    size_t used = 0;
    for (int part = c->nparts - 1; part >= 0; part--) {
        int number = c->nparts - 1 - part;
        npa_request *piece = (npa_request *)(sub->arena + used);
        sub->at[number] = used;
        if (!write_part(c, part, piece, pieces, number)) {
            return false;
        }
        used += piece->size;
    }
    sub->nrequests = c->nparts;
    return true;
}
