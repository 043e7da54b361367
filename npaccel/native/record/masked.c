/* masked.c: z[m] = f(z[m], c[m]) as f under the mask m, without picking anything. See Note [Twins]
 * at the end.
 *
 *     t = z[m]     PICK z, m -> t         waits: what it takes is computed, and not written before
 *     u = t * t    MAP t, t -> u          as ever
 *     z[m] = u     MAP z, z -> U where m  the twin of u, over all of z
 *                  COPY U -> z where m
 *
 * Before anything runs, picks and what has a twin go unless somebody still has their results:
 * `npa_masked_settle`. */
#include "record/record.h"

#include <string.h>

/* Requests of a chain; a mask has at least one in so many */
enum { MOST_NODES = 32, LEAST_PART = 4 };

/* ----------------------------------------------------------------------------- where picks wait */

/* Lines whose picks all came to be twins. A pick that has to be made after all costs what it does
 * at once, and a program for its size: then they are made at once there, until that many more would
 * have been twins. */
enum { PLACES = 512, MOST_TRUST = 3 };
static struct { uint64_t site; int8_t trust; } places[PLACES];

static uint64_t site_of(PyObject *code, int32_t lasti)
{
    return ((uint64_t)(uintptr_t)code >> 4) * 31 ^ (uint64_t)(uint32_t)lasti * 127;
}

static int8_t *trust_in(uint64_t site)
{
    size_t i = (size_t)(site * 0x9E3779B97F4A7C15u >> 40) % PLACES;
    if (places[i].site != site) {
        places[i].site = site, places[i].trust = 0;
    }
    return &places[i].trust;
}

static void found(uint64_t site, bool twin)
{
    int8_t *trust = trust_in(site);
    *trust = (int8_t)(!twin ? -1 : *trust < MOST_TRUST ? *trust + 1 : MOST_TRUST);
}

/* Picks that were made at once, last: where the result begins, and the line. Only to learn from. */
enum { REMEMBERED = 16 };
static struct { const char *home; uint64_t site; } made[REMEMBERED];
static unsigned nmade;

static uint64_t site_here(void)
{
    npa_site site;
    npa_capture_site(&site);
    uint64_t found = site_of(site.code, site.lasti);
    Py_XDECREF(site.code), Py_XDECREF(site.globals);
    return found;
}

static bool may_wait(void)
{
    return npa_guard_on && npa_here == NULL && npa_placeholders == 0 && !npa_match_inside() &&
           npa_until < 0 && npa_stepping == 0 && npa_stops == 0 && npa_whole == 0;
}

static bool is_worthwhile(int64_t count, int64_t n) { return count > 0 && count >= n / LEAST_PART; }

/* Rules of picks, by type; no program has them. */
static npa_rule *pick_rule(int type)
{
    static npa_rule *rules[NPY_NTYPES_LEGACY];
    if (rules[type] == NULL) {
        npa_rule *r = PyObject_New(npa_rule, &npa_rule_type);
        if (r == NULL) {
            return NULL;
        }
        memset((char *)r + sizeof(PyObject), 0, sizeof *r - sizeof(PyObject));
        r->name = PyUnicode_InternFromString("getitem");
        r->kind = NPA_PICK, r->own = NPA_COPY, r->nin = r->nout = 1, r->identity = NPA_NO_IDENTITY;
        for (int k = 0; k < 2; k++) {
            r->loop_type[k] = npa_canonical(type), r->loop_descr[k] = PyArray_DescrFromType(type);
        }
        r->result[0] = PyArray_DescrFromType(type);
        rules[type] = r;
    }
    return rules[type];
}

int npa_pick_later(PyArrayObject *a, PyArrayObject *mask, int64_t count, PyObject **result)
{
    npy_intp dims[NPY_MAXDIMS], strides[NPY_MAXDIMS], bytes = PyArray_ITEMSIZE(a);
    int covered = PyArray_NDIM(mask), ndim = PyArray_NDIM(a) - covered + 1;
    if ((size_t)PyArray_NBYTES(a) < npa_ours_here() || !may_wait() ||
        !is_worthwhile(count, PyArray_SIZE(mask)) || !npa_array_known(a) || npa_is_far(a) ||
        npa_is_far(mask) || *trust_in(site_here()) <= 0) {
        return 0;
    }
    if (npa_is_pending(a) && npa_flush_recorded() < 0) {
        return -1;
    }
    if (npa_is_pending(a) || npa_is_pending(mask)) {
        return 0;
    }
    dims[0] = count;
    for (int i = 1; i < ndim; i++) {
        dims[i] = PyArray_DIM(a, covered + i - 1);
    }
    for (int i = ndim - 1; i >= 0; i--) {
        strides[i] = bytes, bytes *= dims[i];
    }
    npa_rule *rule = (size_t)bytes >= npa_ours_here() && !npa_lacks_room()
                         ? pick_rule(PyArray_TYPE(a))
                         : NULL;
    PyObject *out = rule != NULL ? npa_new_array(rule->result[0], ndim, dims, strides) : NULL;
    if (out == NULL) {
        return PyErr_Occurred() ? -1 : 0;
    }
    int status = npa_record_pick(rule, a, mask, (PyArrayObject *)out, result);
    Py_DECREF(out);
    return status;
}

void npa_picked(PyArrayObject *result)
{
    if (npa_is_home(PyArray_BYTES(result)) && may_wait()) {
        made[nmade % REMEMBERED].home = PyArray_BYTES(result),
                     made[nmade % REMEMBERED].site = site_here();
        nmade++;
    }
}

/* What was picked at once is put: as a rule that is so each time. */
static void learn_of(PyArrayObject *values)
{
    for (unsigned k = 0; k < REMEMBERED; k++) {
        if (made[k].home == PyArray_BYTES(values)) {
            found(made[k].site, true);
            made[k].home = NULL;
        }
    }
}

/* -------------------------------------------------------------------------------------- chains */

/* What a value that is put comes from, the first ones first. */
typedef struct {
    int request; /* of the queue; -1: a pick that was made */
    int from[NPA_MAX_ARGS]; /* nodes; -1: a scalar */
    uint64_t site;
    PyObject *array; /* over all of the target's places */
} node;

typedef struct {
    PyArrayObject *target, *mask, *values;
    npa_buffer *mask_buffer; /* as a request that is recorded now has it */
    int64_t mask_offset;
    node nodes[MOST_NODES];
    int n;
    bool made; /* some picks were made at once */
} chain;

static npa_request *request(int i) { return (npa_request *)(npa_q.arena + npa_q.at[i]); }

static bool writes(npa_request *r, int32_t buffer)
{
    bool any = false;
    for (int k = r->nin; k < r->nin + r->nout; k++) {
        any |= npa_operand_at(r, k)->buffer == buffer;
    }
    return any;
}

/* The last request before that one that writes the buffer; -1: none. */
static int writer(int32_t buffer, int before)
{
    int i = before - 1;
    while (i >= 0 && !writes(request(i), buffer)) {
        i--;
    }
    return i;
}

/* Whether the operand is all of its buffer, in C order, of the values' shape. */
static bool is_whole(const chain *c, npa_request *r, int k)
{
    const npa_operand *o = npa_operand_at(r, k);
    int ndim = PyArray_NDIM(c->values);
    int64_t step = npa_item_sizes[o->type];
    bool whole = o->buffer >= 0 && o->offset == 0 && r->ndim == ndim &&
                 npa_q.buffers[o->buffer]->range != NULL;
    for (int i = ndim - 1; whole && i >= 0; i--) {
        whole = r->shape[i] == PyArray_DIM(c->values, i) && (o->at[i] == step || r->shape[i] == 1);
        step *= r->shape[i];
    }
    return whole;
}

/* Whether the operand shows the mask as it is put by. */
static bool is_mask_of(const chain *c, npa_request *r, const npa_operand *o)
{
    bool same = npa_q.buffers[o->buffer] == c->mask_buffer && o->offset == c->mask_offset &&
                (int)r->axes == PyArray_NDIM(c->mask);
    for (int i = 0; same && i < (int)r->axes; i++) {
        same = o->at[i] == PyArray_STRIDE(c->mask, i) || r->shape[i] == 1;
    }
    return same;
}

/* Whether the pick is by the mask, of what is as it was and has the target's shape. */
static bool is_by_mask(const chain *c, int i)
{
    npa_request *r = request(i);
    const npa_operand *from = npa_operand_at(r, 0), *mask = npa_operand_at(r, 2);
    npa_buffer *source = npa_q.buffers[from->buffer], *by = npa_q.buffers[mask->buffer];
    if (r->ndim != PyArray_NDIM(c->target) || !is_mask_of(c, r, mask) || source->source != NULL ||
        by->source != NULL || atomic_load(&source->dead)) {
        return false;
    }
    for (int k = 0; k < r->ndim; k++) {
        if (r->shape[k] != PyArray_DIM(c->target, k)) {
            return false;
        }
    }
    return writer(from->buffer, npa_q.nrequests) < i; /* what is pending is no mask: find_chain */
}

static int add(chain *c, node found)
{
    if (c->n == MOST_NODES) {
        return -1;
    }
    c->nodes[c->n] = found;
    return c->n++;
}

static int find_node(const chain *c, int request, uint64_t site)
{
    int i = 0;
    while (i < c->n && (c->nodes[i].request != request || c->nodes[i].site != site)) {
        i++;
    }
    return i < c->n ? i : -1;
}

/* The node of what the buffer holds before a request; -1: there is none. */
static int visit(chain *c, int32_t buffer, int before)
{
    int i = writer(buffer, before);
    node found = {.request = i};
    if (i < 0) {
        for (unsigned k = 0; k < REMEMBERED && found.site == 0; k++) {
            found.site = made[k].home == npa_q.buffers[buffer]->base ? made[k].site : 0;
        }
        c->made |= found.site != 0;
        int known = find_node(c, -1, found.site);
        return found.site == 0 ? -1 : known >= 0 ? known : add(c, found);
    }
    npa_request *r = request(i);
    found.site = site_of(r->code, r->lasti);
    int known = find_node(c, i, found.site);
    if (known >= 0) {
        return known;
    }
    if (r->rule->kind == NPA_PICK) {
        return is_by_mask(c, i) ? add(c, found) : -1;
    }
    if (r->rule->kind != NPA_MAP || r->axes != 0 || r->mask || r->nout != 1 || r->twin != 0 ||
        !is_whole(c, r, r->nin)) {
        return -1;
    }
    bool any = false;
    for (int k = 0; k < r->nin; k++) {
        const npa_operand *o = npa_operand_at(r, k);
        found.from[k] = o->buffer < 0                            ? -1
                        : is_whole(c, r, k) && c->n < MOST_NODES ? visit(c, o->buffer, i)
                                                                 : -2;
        if (found.from[k] < 0 && o->buffer >= 0) {
            return -1;
        }
        any |= o->buffer >= 0;
    }
    return any ? add(c, found) : -1;
}

/* With the lock. The last node is what the values are. */
static bool find_chain(chain *c)
{
    npa_buffer *b = npa_buffer_of(c->values);
    c->mask_buffer = npa_place(c->mask, true, true, &c->mask_offset);
    return c->mask_buffer != NULL && !c->mask_buffer->pending && b->index >= 0 &&
           b->index != NPA_IN_FLIGHT && PyArray_BYTES(c->values) == b->base &&
           visit(c, b->index, npa_q.nrequests) >= 0;
}

/* ---------------------------------------------------------------------------------------- twins */

/* Shows memory that the queue keeps, for as long as a request takes to record. */
static PyObject *shown(int type, int ndim, const npy_intp *dims, const npy_intp *strides,
                       char *first)
{
    return PyArray_NewFromDescr(npa_array_type, PyArray_DescrFromType(type), ndim, dims, strides,
                                first, NPY_ARRAY_WRITEABLE, NULL);
}

PyObject *npa_spread_mask(PyArrayObject *mask, PyArrayObject *target)
{
    npy_intp dims[NPA_MAX_DIMS], strides[NPA_MAX_DIMS];
    int covered = PyArray_NDIM(mask), ndim = PyArray_NDIM(target);
    for (int i = 0; i < ndim; i++) {
        dims[i] = i < covered ? PyArray_DIM(mask, i) : 1;
        strides[i] = i < covered ? PyArray_STRIDE(mask, i) : 1;
    }
    PyObject *spread = shown(NPY_BOOL, ndim, dims, strides, PyArray_BYTES(mask));
    if (spread != NULL && PyArray_SetBaseObject((PyArrayObject *)spread, Py_NewRef(mask)) < 0) {
        Py_CLEAR(spread);
    }
    return spread;
}

/* The request that was recorded last warns as the one whose twin it is, which is told. With the
 * GIL. */
static void become_twin(int i)
{
    npa_lock();
    npa_request *r = request(i), *twin = request(npa_q.nrequests - 1);
    npa_drop_later(twin->code), npa_drop_later(twin->globals);
    twin->code = Py_XNewRef(r->code), twin->globals = Py_XNewRef(r->globals);
    twin->lasti = r->lasti;
    twin->errstate = r->errstate;
    r->twin = npa_q.nrequests;
    npa_q.masked = true;
    npa_unlock();
}

/* Node `k` over all of the target: its array. 1, 0 or -1. */
static int record_node(chain *c, int k, PyArrayObject *mask)
{
    node *own = &c->nodes[k];
    npa_value in[NPA_MAX_ARGS];
    npa_request *r = request(own->request);
    npa_rule *rule = r->rule;
    int status = 1, known = npa_q.nrequests;
    uint64_t serial = npa_q.serial;
    if (rule->kind == NPA_PICK) {
        const npa_operand *o = npa_operand_at(r, 0);
        own->array = shown(o->type, r->ndim, PyArray_DIMS(c->target), (const npy_intp *)o->at,
                           npa_q.buffers[o->buffer]->base + o->offset);
        return own->array != NULL ? 1 : -1;
    }
    PyObject *scalars[NPA_MAX_ARGS] = {NULL};
    for (int i = 0; status > 0 && i < r->nin; i++) {
        in[i] = (npa_value){.type = rule->loop_type[i]};
        if (own->from[i] >= 0) {
            in[i].array = (PyArrayObject *)c->nodes[own->from[i]].array;
            in[i].object = c->nodes[own->from[i]].array, in[i].type = PyArray_TYPE(in[i].array);
        } else {
            in[i].object = scalars[i] =
                PyArray_Scalar(npa_operand_at(r, i)->at, rule->loop_descr[i], NULL);
            status = scalars[i] != NULL ? 1 : -1;
        }
    }
    status = status > 0 ? npa_record_map(rule, in, NULL, mask, 'K', 0, &own->array) : status;
    for (int i = 0; i < rule->nin; i++) {
        Py_XDECREF(scalars[i]);
    }
    if (status > 0 && npa_q.serial == serial && npa_q.nrequests == known + 1) {
        become_twin(own->request);
        return 1;
    }
    return status < 0 ? -1 : 0; /* it ran already */
}

/* What was recorded of the chain is for nothing. */
static void take_back(int known)
{
    npa_lock();
    for (int i = 0; i < known; i++) {
        int twin = request(i)->twin;
        if (twin > known) {
            request(twin - 1)->errstate &= (uint16_t)~0xff;
            request(i)->twin = 0;
        }
    }
    npa_unlock();
}

static int record_chain(chain *c)
{
    int known = npa_q.nrequests, status = 1;
    uint64_t serial = npa_q.serial;
    PyObject *mask = npa_spread_mask(c->mask, c->target), *result = NULL;
    for (int k = 0; status > 0 && k < c->n; k++) {
        status = mask != NULL ? record_node(c, k, (PyArrayObject *)mask) : -1;
        status = status > 0 && npa_q.serial != serial ? 0 : status;
    }
    if (status > 0) {
        npa_value value = {.array = (PyArrayObject *)c->nodes[c->n - 1].array};
        value.type = PyArray_TYPE(value.array), value.object = (PyObject *)value.array;
        npa_rule *copy = npa_find_rule(npa_copy_name, &value.type, 1, c->target);
        status = copy != NULL ? npa_record_map(copy, &value, &c->target, (PyArrayObject *)mask, 'K',
                                               0, &result)
                 : PyErr_Occurred() ? -1
                                    : 0;
    }
    Py_XDECREF(result), Py_XDECREF(mask);
    if (status <= 0 && npa_q.serial == serial) {
        take_back(known);
    }
    for (int k = 0; k < c->n; k++) {
        if (status > 0) {
            found(c->nodes[k].site, true);
        }
        Py_XDECREF(c->nodes[k].array);
    }
    return status;
}

int npa_put_later(PyArrayObject *target, PyArrayObject *mask, PyArrayObject *values)
{
    if (!npa_is_home(PyArray_BYTES(values))) {
        return 0;
    }
    npa_buffer *b = npa_buffer_of(target);
    if (!npa_is_pending(values)) {
        learn_of(values);
        return 0;
    }
    if (b == NULL || b->exported || !may_wait() || npa_over_limit() || npa_run_stopped() ||
        !is_worthwhile(PyArray_DIM(values, 0), PyArray_SIZE(mask)) || !npa_array_known(target) ||
        npa_is_far(target)) {
        return 0;
    }
    chain c = {.target = target, .mask = mask, .values = values};
    npa_lock();
    bool chained = find_chain(&c);
    npa_unlock();
    if (!chained || c.made) {
        for (int k = 0; chained && k < c.n; k++) {
            found(c.nodes[k].site, true);
        }
        return 0;
    }
    return record_chain(&c);
}

/* ------------------------------------------------------------------------------------- settling */

/* A pick, and what has a twin, whose results nobody sees is dropped. */
static uint8_t is_needed(const npa_request *r, bool seen)
{
    return !seen && (r->twin != 0 || r->rule->kind == NPA_PICK) ? NPA_FOR_NOTHING : NPA_FOR_VALUES;
}

/* False: out of memory. */
static bool make_pick(npa_request *r)
{
    char *at[3];
    npa_mask_rows rows = {.ndim = 0};
    int64_t size = npa_item_sizes[npa_operand_at(r, 0)->type];
    for (int i = 0; i < r->ndim; i++) {
        if (i < (int)r->axes) {
            npa_add_mask_axis(&rows, r->shape[i], npa_operand_at(r, 2)->at[i],
                              npa_operand_at(r, 0)->at[i]);
        } else {
            size *= r->shape[i];
        }
    }
    for (int k = 0; k < 3; k++) {
        npa_operand *o = npa_operand_at(r, k);
        npa_buffer *b = npa_q.buffers[o->buffer];
        char *base = k == 1 || npa_copy_home(b) ? npa_buffer_address(b) : NULL;
        if (base == NULL) {
            return false;
        }
        at[k] = base + o->offset;
    }
    npa_pick_into(at[1], at[0], at[2], &rows, (size_t)size);
    return true;
}

/* The picks, which nothing before them writes what they take, and what is dropped become the first
 * requests. How many those are; -1: out of memory. */
static int bring_forward(const uint8_t *needed)
{
    char *arena = malloc(npa_q.used + 1), *to = arena;
    size_t *at = malloc(sizeof *at * (size_t)(npa_q.nrequests + 1));
    int n = 0, first = 0;
    for (int pass = 0; arena != NULL && at != NULL && pass < 2; pass++) {
        for (int i = 0; i < npa_q.nrequests; i++) {
            npa_request *r = request(i);
            if ((!needed[i] || r->rule->kind == NPA_PICK) == (pass == 0)) {
                r->twin = 0;
                memcpy(to, r, r->size);
                at[n++] = (size_t)(to - arena), to += r->size;
                first += pass == 0;
            }
        }
    }
    bool good = arena != NULL && at != NULL;
    if (good) {
        memcpy(npa_q.arena, arena, npa_q.used), memcpy(npa_q.at, at, sizeof *at * (size_t)n);
    }
    free(arena), free(at);
    return good ? first : -1;
}

static bool settle(const uint8_t *needed)
{
    for (int i = 0; i < npa_q.nrequests; i++) {
        npa_request *r = request(i);
        if (r->rule->kind == NPA_PICK) {
            if (needed[i] && !make_pick(r)) {
                return false;
            }
            if (needed[i]) {
                found(site_of(r->code, r->lasti), false);
            }
        } else if (r->twin != 0 && needed[i]) { /* it warns itself */
            request(r->twin - 1)->errstate &= (uint16_t)~0xff;
        }
    }
    int done = bring_forward(needed);
    if (done > 0) {
        npa_finish_first(done);
    }
    return done >= 0;
}

bool npa_masked_settle(void)
{
    if (!npa_q.masked || npa_q.run.stopped) {
        return true;
    }
    npa_collect_dead();
    uint8_t *needed = malloc((size_t)npa_q.nrequests + 1);
    npa_mark_later(npa_q.nrequests);
    bool good = needed != NULL && npa_walk_back(&npa_q, npa_q.nrequests, is_needed, needed) &&
                settle(needed);
    npa_q.masked = !good;
    free(needed);
    return good;
}

/* Note [Twins]
 *
 * How many elements z[m] has must be known at the call, so the mask is computed there, and counted;
 * what is picked is not looked at. A value that is put by the mask it was picked by is computed
 * over all places of the target instead, under the mask: each request of its chain has a twin with
 * the same operation, line and errstate, which reads z where the other reads z[m]. All twins are of
 * the target's shape, whatever the mask has, so a set that shrinks is one program; with what comes
 * before and after they are one kernel, and nothing runs before the next look at a result.
 *
 * The chain itself stays in the queue until something is to run: by then it is known whether
 * somebody has kept what it makes (`w = z[m] * 2; z[m] = w`). If nobody has, it leaves the queue,
 * picks and all, and was never run. Else it runs as recorded, and warns; its twins do not.
 *
 * A pick waits where all picks of its line had twins the last times; elsewhere it is made at the
 * call, for it would be made later, and block the way of what follows (a sum at once, a size that
 * is new to all programs). Masks that have few elements in are picked as ever: twins take time for
 * all places. */
