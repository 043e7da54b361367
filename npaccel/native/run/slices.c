/* slices.c: short of memory, a run computes temporary arrays a piece at a time.
 *
 * for each request that is due:  with what it needs, as one group of blocks; or else
 *     for each piece of it:      the requests that it needs, over what the piece needs
 *
 * See Note [Slices] at the end. */
#include "run/run.h"
#include "run/slices.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of temporary arrays in a piece, at most, and of such as are made whole; elements from which
 * on pieces begin where vectors do. */
enum { PIECE_BYTES = 64 << 20, SMALL = 1 << 20, LEAST_SMALL = 64 << 10, UNIT = 64 };

typedef struct {
    npa_queue *q;
    uint8_t *kinds;
    const uint8_t *why;
    bool *needed; /* per request */
    int *last;    /* as a group wants it, of what is at hand */
    npa_cut cut;
    npa_group *g;
    npa_tape tape;
    /* The pieces at hand: a queue of their own */
    npa_queue sub;
    npa_buffer *pieces;
    uint8_t *raised, *heard; /* kinds, per request of it, and of the queue */
    int (*poll)(void *);
    bool interrupted;
} run;

/* ------------------------------------------------------------------------------- what passes */

static npa_request *request_at(const npa_queue *q, int i)
{
    return (npa_request *)(q->arena + q->at[i]);
}

size_t npa_slices_small(void)
{
    size_t some = npa_memory_room() / 64;
    return some < LEAST_SMALL ? LEAST_SMALL : some > SMALL ? SMALL : some;
}

static bool is_result(const npa_request *r, int k) { return k >= r->nin && k < r->nin + r->nout; }

/* The buffer of its one result; -1: it has several, or writes some elements of it only. */
static int made_by(const npa_request *r)
{
    return r->nout == 1 && !r->mask && r->rule->kind != NPA_PICK
        ? npa_operand_at((npa_request *)r, r->nin)->buffer : -1;
}

/* What was computed as a whole, and given back as the rest of it found no memory. */
static void give_address(npa_buffer *b)
{
    if (b->gone && b->range == NULL && (b->range = npa_range_new(b->size)) != NULL) {
        b->range->buffer = b;
    }
}

/* Whether nobody but requests of the run sees what the buffer is to hold, of which nothing is there
 * yet. What did without memory before the run stopped still does. */
static bool is_temporary(const run *r, int buffer)
{
    npa_buffer *b = r->q->buffers[buffer];
    const npa_slice_use *u = &r->cut.uses[buffer];
    if (b == NULL || u->writer < 0 || u->last >= r->q->run.requests) {
        return false;
    }
    give_address(b);
    return b->range != NULL && b->range->work == NULL && b->copy == NULL && b->lost == NULL &&
           b->next == b && !b->later &&
           (b->size >= r->q->run.small || u->writer < r->q->run.done);
}

static bool is_idle(const run *r, int i)
{
    return r->why != NULL && i < r->q->run.requests && r->why[i] == NPA_FOR_NOTHING;
}

/* Who writes each buffer, and who uses it. */
static void find_uses(run *r)
{
    npa_slice_use *uses = r->cut.uses;
    for (int b = 0; b < r->q->nbuffers; b++) {
        uses[b] = (npa_slice_use){-1, -1, false};
    }
    for (int i = 0; i < r->q->nrequests; i++) {
        npa_request *w = request_at(r->q, i);
        r->cut.previous[i] = -1, r->cut.passes[i] = false;
        for (int k = 0; !is_idle(r, i) && k < npa_operand_count(w); k++) {
            int b = npa_operand_at(w, k)->buffer;
            if (b >= 0 && is_result(w, k)) {
                r->cut.previous[i] = uses[b].writer;
                uses[b].writer = i;
            }
            if (b >= 0) {
                uses[b].last = i;
            }
        }
    }
}

/* Whether request i has a temporary array filled again and again, as operators do that compute in
 * their operand's memory: nobody reads what is not there in the end but who writes over it. */
static bool writes_all(const run *r, int i, int buffer)
{
    const npa_request *w = request_at(r->q, i);
    bool reads = false, writes = false;
    for (int k = 0; k < npa_operand_count(w); k++) {
        bool here = npa_operand_at((npa_request *)w, k)->buffer == buffer;
        reads |= here && !is_result(w, k), writes |= here && is_result(w, k);
    }
    if (writes) {
        return made_by(w) == buffer && npa_cut_fills(w, r->q->buffers[buffer]->size) &&
               !(reads && r->cut.previous[i] < 0);
    }
    return !reads || i > r->cut.uses[buffer].writer;
}

/* Whether a piece of what request i makes can be had at any time: nothing that it reads is written
 * later. */
static bool reads_lasting(const run *r, int i)
{
    npa_request *w = request_at(r->q, i);
    bool lasting = true;
    for (int k = 0; lasting && k < w->nin; k++) {
        int b = npa_operand_at(w, k)->buffer;
        lasting = b < 0 || r->cut.uses[b].temporary || r->cut.uses[b].writer < i;
    }
    return lasting;
}

static void find_temporary(run *r)
{
    npa_slice_use *uses = r->cut.uses;
    for (int b = 0; b < r->q->nbuffers; b++) {
        uses[b].temporary = is_temporary(r, b);
    }
    for (bool changed = true; changed;) {
        changed = false;
        for (int i = 0; i < r->q->nrequests; i++) {
            npa_request *w = request_at(r->q, i);
            for (int k = 0; !is_idle(r, i) && k < npa_operand_count(w); k++) {
                int b = npa_operand_at(w, k)->buffer;
                if (b >= 0 && uses[b].temporary &&
                    (!writes_all(r, i, b) || (is_result(w, k) && !reads_lasting(r, i)))) {
                    uses[b].temporary = false, changed = true;
                }
            }
        }
    }
    for (int i = r->q->nrequests - 1; i >= 0; i--) { /* who needs it comes behind it */
        npa_request *w = request_at(r->q, i);
        int made = is_idle(r, i) ? -1 : made_by(w);
        r->cut.passes[i] = made >= 0 && uses[made].temporary && uses[made].last > i;
        for (int k = 0; r->cut.passes[i] && k < w->nin; k++) {
            int b = npa_operand_at(w, k)->buffer;
            if (b >= 0 && uses[b].last < uses[made].last) {
                uses[b].last = uses[made].last;
            }
        }
    }
}

/* ----------------------------------------------------------------------------- what is due */

/* The due request, and those that make temporary arrays for it. */
static void collect(run *r, int due)
{
    npa_cut *c = &r->cut;
    memset(r->needed, 0, (size_t)r->q->nrequests);
    r->needed[due] = true;
    c->n = 0;
    for (int i = due; i >= 0; i--) {
        npa_request *w = request_at(r->q, i);
        for (int k = 0; r->needed[i] && k < npa_operand_count(w); k++) {
            int maker = is_result(w, k) ? -1 : npa_cut_maker(c, npa_operand_at(w, k), i);
            if (maker >= 0) {
                r->needed[maker] = true;
            }
        }
    }
    for (int i = 0; i <= due; i++) {
        if (r->needed[i]) {
            c->requests[c->n++] = i;
        }
    }
}

/* Requests of `sub`. 0, or -1: no memory. */
static int run_sub(run *r)
{
    npa_queue *sub = &r->sub;
    for (int done = 0; done < sub->nrequests;) {
        int raised = 0;
        if (npa_group_form(r->g, sub, done, sub->nrequests, r->last)) {
            if (npa_group_lower(r->g, &r->tape) < 0 ||
                npa_group_run(r->g, &r->tape, r->raised) < 0) {
                return -1;
            }
            done += r->g->count;
        } else if ((raised = npa_evaluate_request(sub, done)) >= 0) {
            r->raised[done++] |= (uint8_t)raised;
        } else {
            return -1;
        }
    }
    return 0;
}

/* What the `number`-th request at hand raised is what request i did. */
static void hear(run *r, int number, int i)
{
    r->heard[i] |= r->raised[number];
    r->raised[number] = 0;
}

/* done: else it is done again. */
static void note_heard(run *r, bool done)
{
    for (int k = 0; k < r->cut.n; k++) {
        int i = r->cut.requests[k];
        r->kinds[i] |= done ? r->heard[i] : 0;
        r->heard[i] = 0;
    }
}

/* Up to which request of those at hand their buffers are used; others for ever. */
static void find_last(run *r)
{
    npa_cut *c = &r->cut;
    for (int b = 0; b < r->q->nbuffers; b++) {
        r->last[b] = INT_MAX;
    }
    for (int k = 0; k < c->n; k++) {
        npa_request *w = npa_cut_request(c, c->requests[k]);
        for (int i = 0; i < npa_operand_count(w); i++) {
            const npa_operand *o = npa_operand_at(w, i);
            if (npa_cut_maker(c, o, c->requests[k]) >= 0) {
                r->last[o->buffer] = k;
            }
        }
    }
    npa_request *due = npa_cut_request(c, npa_cut_due(c));
    int made = made_by(due);
    c->unseen = made >= 0 && c->uses[made].temporary && c->uses[made].last == npa_cut_due(c);
    for (int k = due->nin; k < due->nin + due->nout; k++) {
        r->last[npa_operand_at(due, k)->buffer] = c->unseen ? c->n - 1 : INT_MAX;
    }
}

enum outcome { DONE, CANT, STOPPED, NO_MEMORY };

/* As one group, in which temporary arrays are blocks. */
static enum outcome run_as_group(run *r)
{
    npa_cut *c = &r->cut;
    r->sub.arena = r->q->arena, r->sub.buffers = r->q->buffers;
    for (int k = 0; k < c->n; k++) {
        r->sub.at[k] = r->q->at[c->requests[k]];
    }
    r->sub.nrequests = c->n;
    bool whole = npa_group_form_all(r->g, &r->sub, r->last) && r->g->count == c->n;
    for (int i = 0; whole && i < r->g->nviews; i++) {
        whole = r->g->views[i].hidden || r->last[r->g->views[i].buffer] == INT_MAX;
    }
    if (!whole) {
        return CANT;
    }
    bool done = npa_group_lower(r->g, &r->tape) == 0 &&
                npa_group_run(r->g, &r->tape, r->raised) == 0;
    for (int k = 0; k < c->n; k++) {
        hear(r, k, c->requests[k]);
    }
    return done ? DONE : NO_MEMORY;
}

/* What is due writes nothing that any of these reads: so it can be done again. */
static bool writes_apart(const npa_cut *c)
{
    npa_request *due = npa_cut_request(c, npa_cut_due(c));
    for (int j = due->nin; !c->unseen && j < due->nin + due->nout; j++) {
        for (int k = 0; k < c->n; k++) {
            npa_request *w = npa_cut_request(c, c->requests[k]);
            for (int i = 0; i < npa_operand_count(w); i++) {
                const npa_operand *o = npa_operand_at(w, i);
                if (!is_result(w, i) && o->buffer == npa_operand_at(due, j)->buffer &&
                    npa_cut_maker(c, o, c->requests[k]) < 0) {
                    return false;
                }
            }
        }
    }
    return true;
}

/* How many indices of the axis a piece has; 0: it can't be cut there. */
static int64_t length(npa_cut *c, int axis, int64_t unit)
{
    const npa_request *due = npa_cut_request(c, npa_cut_due(c));
    size_t room = npa_memory_room() / 2;
    int64_t n = due->shape[axis], most = room < PIECE_BYTES ? (int64_t)room : PIECE_BYTES;
    if (!npa_cut_spread(c, axis, 0, n)) {
        return 0;
    }
    while (c->bytes > most && n > unit) {
        n = (n / 2 + unit - 1) / unit * unit;
        npa_cut_spread(c, axis, 0, n);
    }
    c->blamed = npa_cut_due(c);
    return c->bytes > 4 * most ? 0 : n;
}

/* The axis along which what is due is cut, the outermost in memory that can be; -1: none. */
static int choose_axis(npa_cut *c, int64_t *n, int64_t *unit)
{
    npa_request *due = npa_cut_request(c, npa_cut_due(c));
    npa_operand *out = npa_operand_at(due, due->nin);
    uint32_t tried = 0;
    int blamed = npa_cut_due(c);
    for (int t = 0; t < due->ndim; t++) {
        int axis = -1;
        for (int i = 0; i < due->ndim; i++) {
            int64_t step = llabs(out->at[i]);
            if (!(tried >> i & 1) && (axis < 0 || step > llabs(out->at[axis]))) {
                axis = i;
            }
        }
        tried |= 1u << axis;
        *unit = due->ndim > 1 && axis == 0 ? 1 : UNIT;
        *n = due->shape[axis] > 1 ? length(c, axis, *unit) : 0;
        if (*n > 0) {
            return axis;
        }
        blamed = due->shape[axis] > 1 && c->blamed < blamed ? c->blamed : blamed;
    }
    c->blamed = blamed;
    return -1;
}

/* Memory for what the parts make. */
static bool give_pieces(run *r)
{
    npa_cut *c = &r->cut;
    bool given = true;
    for (int k = !c->unseen; k < c->nparts; k++) {
        npa_buffer *b = &r->pieces[k];
        size_t bytes = npa_cut_piece_bytes(c, &c->parts[k]);
        npa_range *range = npa_range_new(bytes);
        *b = (npa_buffer){.size = bytes, .range = range, .index = -1, .next = b, .fresh = true};
        given &= range != NULL;
        if (range != NULL) {
            range->buffer = b, b->base = range->home;
        }
        r->sub.buffers[r->q->nbuffers + k] = b;
        r->last[r->q->nbuffers + k] = c->parts[k].last;
    }
    return given;
}

static void take_pieces(run *r)
{
    for (int k = !r->cut.unseen; k < r->cut.nparts; k++) {
        if (r->pieces[k].range != NULL) {
            npa_range_free(r->pieces[k].range);
        }
    }
    for (int k = 0; k < r->cut.nparts; k++) {
        hear(r, k, r->cut.parts[r->cut.nparts - 1 - k].request);
    }
}

/* Piece by piece, with memory of `sub`'s own. */
static enum outcome run_pieces(run *r, int axis, int64_t each, int64_t unit)
{
    npa_cut *c = &r->cut;
    int64_t n = npa_cut_request(c, npa_cut_due(c))->shape[axis];
    for (int64_t at = 0, end; at < n; at = end) {
        end = at + each + unit > n ? n : at + each;
        if (!npa_cut_spread(c, axis, at, end) || !npa_cut_write(c, &r->sub, r->q->nbuffers)) {
            return CANT; /* at the first piece, if at all */
        }
        r->sub.nbuffers = r->q->nbuffers + c->nparts;
        int status = give_pieces(r) ? run_sub(r) : -1;
        take_pieces(r);
        if (status < 0) {
            return NO_MEMORY;
        }
        npa_count.pieces++;
        r->interrupted = end < n && r->poll != NULL && r->poll(NULL);
        if (r->interrupted) {
            return STOPPED;
        }
    }
    return DONE;
}

static enum outcome run_cut(run *r)
{
    npa_cut *c = &r->cut;
    int64_t each, unit;
    size_t most = 0;
    c->blamed = npa_cut_due(c);
    int axis = writes_apart(c) ? choose_axis(c, &each, &unit) : -1;
    if (axis < 0) {
        return CANT;
    }
    for (int k = 0; k < c->n; k++) {
        size_t size = npa_cut_request(c, c->requests[k])->size;
        most = size > most ? size : most;
    }
    char *arena = malloc(most * (size_t)c->parts_cap);
    npa_buffer **buffers = malloc(sizeof *buffers * (size_t)(r->q->nbuffers + c->parts_cap));
    enum outcome found = NO_MEMORY;
    if (arena != NULL && buffers != NULL) {
        memcpy(buffers, r->q->buffers, sizeof *buffers * (size_t)r->q->nbuffers);
        r->sub.arena = arena, r->sub.buffers = buffers;
        found = run_pieces(r, axis, each, unit);
    }
    free(arena), free(buffers);
    return found;
}

/* ----------------------------------------------------------------------------------- the run */

/* Of what makes temporary arrays the one whose result has to be there as a whole: that was blamed,
 * or what made an operand of what is due. -1: there is none. */
static int find_whole(const run *r)
{
    const npa_cut *c = &r->cut;
    int due = npa_cut_due(c), maker = -1;
    npa_request *w = request_at(r->q, due);
    if (c->blamed != due) {
        return c->blamed;
    }
    for (int k = 0; maker < 0 && k < npa_operand_count(w); k++) {
        maker = is_result(w, k) ? -1 : npa_cut_maker(c, npa_operand_at(w, k), due);
    }
    return maker;
}

static enum outcome run_alone(run *r, int i)
{
    int raised = npa_evaluate_request(r->q, i);
    r->kinds[i] |= raised > 0 ? (uint8_t)raised : 0;
    return raised < 0 ? NO_MEMORY : DONE;
}

static enum outcome run_due(run *r, int due);

/* A temporary array as a whole; if memory does not suffice nothing of it stays. */
static enum outcome make_whole(run *r, int maker)
{
    r->cut.passes[maker] = false;
    enum outcome found = run_due(r, maker);
    if (found != DONE) {
        npa_buffer *b = r->q->buffers[made_by(request_at(r->q, maker))];
        npa_range_free(b->range);
        b->range = NULL, b->gone = true;
    }
    return found;
}

/* The request, and what it needs. */
static enum outcome run_due(run *r, int due)
{
    enum outcome found = CANT;
    while (found == CANT) {
        collect(r, due);
        find_last(r);
        r->sub.nbuffers = r->q->nbuffers;
        found = run_as_group(r);
        found = found == CANT && r->cut.n > 1 ? run_cut(r) : found;
        found = found == CANT && r->cut.n == 1 ? run_alone(r, due) : found;
        note_heard(r, found == DONE);
        if (found == CANT) {
            int maker = find_whole(r);
            found = maker < 0 ? NO_MEMORY : make_whole(r, maker);
            found = found == DONE ? CANT : found;
        }
    }
    return found;
}

static int run_all(run *r)
{
    npa_run *of = &r->q->run;
    while (of->done < of->requests) {
        int i = of->done;
        bool idle = is_idle(r, i);
        if (!idle && !r->cut.passes[i]) {
            enum outcome found = npa_losses && npa_lost_request(r->q, i) ? DONE : run_due(r, i);
            if (found != DONE) {
                return found == STOPPED ? 1 : -1;
            }
            npa_count.native_requests++;
        }
        npa_count.dead_requests += idle;
        of->done++;
        for (int b = 0; b < r->q->nbuffers; b++) {
            if (r->cut.uses[b].last == i) {
                npa_buffer_done(r->q->buffers[b]);
            }
        }
        r->interrupted = r->poll != NULL && r->poll(NULL);
        if (r->interrupted && of->done < of->requests) {
            return 1;
        }
    }
    return 0;
}

/* What is computed again when the run goes on tells then what it raises. */
static void forget_raised(run *r)
{
    int done = r->q->run.done;
    for (int i = 0; i < done; i++) {
        bool again = r->cut.passes[i] &&
                     r->cut.uses[made_by(request_at(r->q, i))].last >= done;
        r->kinds[i] = again ? 0 : r->kinds[i];
    }
}

/* False: no memory. */
static bool prepare(run *r)
{
    size_t n = (size_t)r->q->nrequests + 1, parts = 4 * n + 16;
    npa_cut *c = &r->cut;
    c->uses = malloc(sizeof *c->uses * ((size_t)r->q->nbuffers + 1));
    c->previous = malloc(2 * sizeof(int) * n);
    c->passes = malloc(2 * sizeof(bool) * n);
    c->parts = malloc(sizeof *c->parts * parts);
    r->last = malloc(sizeof *r->last * ((size_t)r->q->nbuffers + parts));
    r->raised = calloc(parts + n, 1);
    r->pieces = malloc(sizeof *r->pieces * parts);
    r->sub.at = malloc(sizeof *r->sub.at * parts);
    if (!c->uses || !c->previous || !c->passes || !c->parts || !r->last || !r->raised ||
        !r->pieces || !r->sub.at) {
        return false;
    }
    c->requests = c->previous + n, c->parts_cap = (int)parts;
    r->needed = c->passes + n, r->heard = r->raised + parts;
    return true;
}

int npa_run_slices(uint8_t *kinds, const uint8_t *why, npa_group *g, int (*poll)(void *),
                   bool *interrupted)
{
    npa_queue *q = &npa_q;
    run r = {.q = q, .kinds = kinds, .why = why, .g = g, .poll = poll, .cut = {.q = q}};
    int32_t *heads = g->heads;
    size_t buffers = (size_t)q->nbuffers + 4 * (size_t)q->nrequests + 32;
    int status = -1;
    g->heads = malloc(sizeof *heads * buffers);
    if (g->heads != NULL && prepare(&r)) {
        memset(g->heads, -1, sizeof *heads * buffers);
        npa_mark_later(q->run.requests);
        find_uses(&r);
        find_temporary(&r);
        status = run_all(&r);
        if (status != 0) {
            forget_raised(&r);
        }
    }
    *interrupted |= r.interrupted;
    npa_tape_free(&r.tape);
    free(g->heads);
    g->heads = heads;
    free(r.cut.uses), free(r.cut.previous), free(r.cut.passes), free(r.cut.parts), free(r.last);
    free(r.raised), free(r.pieces), free(r.sub.at);
    return status;
}

/* Note [Slices]
 *
 * Where the results of a run do not fit into memory all at a time, temporary arrays, which nobody
 * sees but the run's own requests, get no memory of their own. A request is due if its result is
 * seen, or is small. What makes a temporary array waits until one is due that needs it, and is
 * computed with that: again for each such one, if there are several. This costs time and no
 * memory. So between a sum and what is divided by it nothing has to be kept.
 *
 * What goes together as a group (Note [Groups]) has blocks for temporary arrays. Else what is due
 * is cut along its outermost axis, and of each request before it as much is computed as the piece
 * needs: neighbours of its rows for a stencil, other axes of what it reads transposed. Steps of
 * operands tell that. Pieces are requests of a queue of their own, with memory of their own, so all
 * else is as ever. An axis that is summed over is not cut, and a sum keeps its order.
 *
 * What can't be cut so is made whole first, by the same means, and given back when it was used. A
 * due request that writes what it reads is no longer cut but runs as a group, since a run that
 * stops goes on with the request that it stopped at. */
