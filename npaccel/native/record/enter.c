/* enter.c: a request enters the queue, or a section's, and its operands with it. */
#include "record/record.h"
#include "record/draft.h"
#include "run/group.h"

#include <string.h>

/* So many requests on small arrays in a row, recorded because they need what is pending, say that
 * more are to come. NumPy does those in less time than they take here, once that is computed. Where
 * that was seen, as in a loop over the rows of an array, the next ones wait for nothing. */
enum { MOST_SMALL = 32 };

/* The request begins in q. One of no dimensions has one of 1. */
npa_request *npa_draft_append(npa_queue *q, const draft *d)
{
    int slots = d->ndim > 2 ? d->ndim : 2, ndim = d->ndim > 0 ? d->ndim : 1;
    size_t size = sizeof(npa_request) + 8u * (size_t)ndim +
                  (size_t)(d->nin + d->nout + d->masked) *
                      (sizeof(npa_operand) + 8u * (size_t)slots);
    npa_request *r = npa_queue_room(q, size);
    if (r == NULL) {
        return NULL;
    }
    r->rule = d->rule;
    r->ndim = (uint8_t)ndim, r->nin = (uint8_t)d->nin, r->nout = (uint8_t)d->nout;
    r->mask = d->masked, r->initial = d->initial, r->slots = (uint8_t)slots;
    r->axes = d->axes;
    r->errstate = (uint16_t)((d->errstate & (0xff | NPA_FAST)) | (d->numpys ? NPA_NUMPYS : 0));
    r->size = (uint32_t)size, r->twin = 0;
    return r;
}

/* Whether it writes memory that is not ours, so that it runs before the call returns. */
static bool writes_foreign(const draft *d)
{
    for (int k = d->nin; k < d->nin + d->nout; k++) {
        if (npa_range_find(PyArray_DATA(d->arrays[k])) == NULL) {
            return true;
        }
    }
    return false;
}

/* Whether operand k is read and none of the outputs lies in the same memory. */
static bool is_only_read(const draft *d, int k)
{
    npa_range *range = npa_range_find(PyArray_DATA(d->arrays[k]));
    bool read = k < d->nin || k >= d->nin + d->nout;
    for (int i = d->nin; read && range != NULL && i < d->nin + d->nout; i++) {
        read = npa_range_find(PyArray_DATA(d->arrays[i])) != range;
    }
    return read;
}

/* The queue runs before a request enters it: rounds that are over; all, where it has stopped or is
 * asked for. 0, or -1 with an exception. */
static inline int run_before(bool all)
{
    if (npa_run_stopped()) {
        npa_run_because(NPA_FULL);
        return npa_flush_recorded();
    }
    if (all) {
        npa_run_because(NPA_FULL);
        return npa_flush();
    }
    return npa_flush_rounds();
}

/* With the lock: how many of the arrays, from the first on, have a place in the queue now. */
static inline int place_arrays(const draft *d, npa_buffer **buffers, int64_t *offsets)
{
    int n = d->nin + d->nout + d->masked, k = 0;
    bool later = !writes_foreign(d);
    for (; k < n; k++) {
        if (d->arrays[k] != NULL &&
            (buffers[k] = npa_place(d->arrays[k], later, is_only_read(d, k), &offsets[k])) ==
                NULL) {
            break;
        }
    }
    return k;
}

/* With the lock: a run in flight that uses what is to be written, of the first k arrays; 0:
 * none. */
static inline uint64_t flight_in_the_way(const draft *d, npa_buffer *const *buffers, int k)
{
    uint64_t flight = 0;
    for (int i = d->nin; i < k && i < d->nin + d->nout && npa_flights > 0; i++) {
        flight = flight == 0 ? npa_flight_of(buffers[i]) : flight;
    }
    return flight;
}

/* Whether one of the first k arrays' buffers begins between two elements of it. */
static inline bool begins_between(const draft *d, const int64_t *offsets, int k)
{
    int64_t odd = 0;
    for (int i = 0; i < k; i++) {
        odd |= d->arrays[i] != NULL ? offsets[i] & (PyArray_ITEMSIZE(d->arrays[i]) - 1) : 0;
    }
    return odd != 0;
}

/* Every array's buffer enters the queue; foreign memory that overlaps another in part makes the
 * queue run first. 1: done, with the lock held; 0: can't be recorded; -1: error set. */
static int place_all(draft *d, npa_buffer **buffers, int64_t *offsets)
{
    int n = d->nin + d->nout + d->masked;
    for (int attempt = 0; attempt < 2; attempt++) {
        if (run_before(attempt > 0) < 0) {
            return -1;
        }
        npa_lock();
        if (npa_run_stopped()) { /* by another thread, since */
            npa_unlock();
            continue;
        }
        int k = place_arrays(d, buffers, offsets);
        uint64_t flight = flight_in_the_way(d, buffers, k);
        if (flight != 0) {
            npa_unlock();
            if (npa_flight_join(flight, -1) < 0) {
                return -1;
            }
            attempt--;
            continue;
        }
        bool odd = begins_between(d, offsets, k);
        if (k == n && !odd) {
            return 1;
        }
        npa_unlock();
        if (odd) {
            return 0;
        }
    }
    return 0;
}

/* What the request is, once its place in the queue is known. */
void npa_draft_fill(const draft *d, npa_request *r, const int32_t *buffers, const int64_t *offsets)
{
    for (int i = 0; i < r->ndim; i++) {
        r->shape[i] = d->ndim > 0 ? d->shape[i] : 1;
    }
    for (int k = 0; k < d->nin + d->nout + d->masked; k++) {
        npa_operand *o = npa_operand_at(r, k);
        PyArrayObject *a = d->arrays[k];
        if (a == NULL) {
            o->buffer = -1, o->type = d->rule->loop_type[k], o->offset = 0;
            memcpy(o->at, d->scalars[k], 16);
            continue;
        }
        o->buffer = buffers[k], o->type = npa_canonical(PyArray_TYPE(a)), o->offset = offsets[k];
        o->at[0] = 0;
        for (int i = 0; i < d->ndim; i++) {
            PyArrayObject *shown = k == 0 && d->base != NULL ? d->base : a;
            o->at[i] = d->reduced_strides != NULL && k == d->nin
                           ? d->reduced_strides[i]
                           : npa_stride_along(shown, d->ndim, d->shape, i);
        }
    }
}

/* Whether NumPy gives a scalar where the result has no dimensions. Copies are what they are of. */
static bool gives_scalar(const draft *d)
{
    int own = d->rule->own;
    return own == NPA_COPY ? d->arrays[0] == NULL || npa_section_is_scalar(d->arrays[0])
                           : own != NPA_WHERE && own != NPA_FILL_RANGE;
}

/* In a section: into its own queue. As commit. */
static int commit_in_section(draft *d, PyObject **results)
{
    int32_t buffers[NPA_MAX_ARGS + 1];
    int64_t offsets[NPA_MAX_ARGS + 1];
    int n = d->nin + d->nout + d->masked;
    for (int k = 0; k < n; k++) {
        bool write = k >= d->nin && k < d->nin + d->nout;
        if (d->arrays[k] != NULL &&
            !npa_section_place(d->arrays[k], write, &buffers[k], &offsets[k])) {
            npa_draft_drop(d);
            return -1;
        }
    }
    npa_queue *q = npa_section_queue();
    npa_request *r = npa_draft_append(q, d);
    for (int k = 0; r != NULL && k < d->nin; k++) {
        if (d->slots[k] && !npa_section_bind(q->nrequests, k, d->slots[k] - 1)) {
            r = NULL;
        }
    }
    if (r == NULL) {
        npa_draft_drop(d);
        PyErr_NoMemory();
        return -1;
    }
    npa_site site;
    npa_capture_site(&site);
    r->code = site.code, r->globals = site.globals, r->lasti = site.lasti;
    npa_draft_fill(d, r, buffers, offsets);
    q->at[q->nrequests++] = q->used;
    q->used += r->size;
    for (int k = 0; k < d->nout; k++) {
        results[k] = d->made[k] != NULL ? d->made[k] : Py_NewRef((PyObject *)d->arrays[d->nin + k]);
        if (d->made[k] != NULL && PyArray_NDIM((PyArrayObject *)d->made[k]) == 0 &&
            gives_scalar(d)) {
            npa_section_set_scalar((PyArrayObject *)d->made[k]);
        }
    }
    return 1;
}

/* Whether it would not have been recorded, were not an operand pending. A block is one step. */
static bool is_small(const draft *d)
{
    bool small = !npa_match_inside() && !npa_is_enough(0);
    for (int k = 0; small && k < d->nin + d->nout + d->masked; k++) {
        small = d->arrays[k] == NULL || !npa_is_enough((size_t)PyArray_NBYTES(d->arrays[k]));
    }
    return small;
}

/* A draft on its way into the queue. */
typedef struct {
    npa_buffer *buffers[NPA_MAX_ARGS + 1];
    int64_t offsets[NPA_MAX_ARGS + 1];
    npa_site site;
    bool urgent;            /* it reads or writes what others may change unseen */
    enum npa_hindrance why; /* it must not stay pending */
    bool strict, small, over;
    bool full; /* it ends a round that a limit cuts: autotune.c */
} entry;

/* Before the first request of a queue. 1; 0: NumPy is to do it; -1: error set. */
static int begin_queue(void)
{
    npa_hinder_found();
    npa_drop_garbage(); /* programs may be evaluated by faults alone */
    npa_templates_prepare();
    if (npa_fault_waits() && npa_fault_plan() < 0) {
        return -1;
    }
    if (npa_q.nrequests == 0 && npa_calls_tried) {
        npa_imports_check();
    } else if (npa_q.nrequests == 0 && npa_guard_on) {
        npa_trace_hooks.serve_calls(); /* perhaps nothing was made yet: what is written is hidden */
    }
    /* faulthandler.enable() and the like take the signal: take it back before anything waits. */
    if (npa_q.nrequests == 0 && !npa_guard_check() && !npa_guard_check()) {
        npa_guard_set(false);
        npa_open_all();
        return 0;
    }
    return 1;
}

/* What it writes is pending. False: something can't be hidden from raw readers. */
static bool hide_outputs(const draft *d, entry *e)
{
    uint32_t operation = (uint32_t)((uintptr_t)e->site.code >> 4) + (uint32_t)e->site.lasti;
    for (int k = d->nin; k < d->nin + d->nout; k++) {
        npa_buffer *b = e->buffers[k];
        bool open = b->range == NULL || b->exported;
        e->urgent |= open;
        e->why = open ? b->range == NULL ? NPA_WRITTEN : NPA_EXPORTED : e->why;
        if (!b->pending && !b->fresh && !open && npa_range_withdraw(b->range) != 0) {
            return false;
        }
        b->pending = true;
        b->made_at = operation;
    }
    return true;
}

/* Nobody changes unnoticed what it reads. */
static void hold_inputs(const draft *d, entry *e)
{
    for (int k = 0; k < d->nin + d->nout + d->masked && !e->urgent; k++) {
        if ((k < d->nin || k >= d->nin + d->nout) && d->arrays[k] != NULL &&
            !npa_hold(e->buffers[k], d->arrays[k])) {
            e->urgent = true;
            e->why = NPA_WATCHED;
            npa_count.early_reads++;
        }
    }
}

static void write_request(const draft *d, const entry *e, npa_request *r)
{
    int32_t indices[NPA_MAX_ARGS + 1];
    r->code = e->site.code, r->globals = e->site.globals, r->lasti = e->site.lasti;
    for (int k = 0; k < d->nin + d->nout + d->masked; k++) {
        indices[k] = d->arrays[k] != NULL ? e->buffers[k]->index : -1;
        if (d->arrays[k] != NULL) { /* what it writes comes after what it reads */
            e->buffers[k]->unread = k >= d->nin && k < d->nin + d->nout;
        }
    }
    npa_draft_fill(d, r, indices, e->offsets);
}

static int drop_results(int n, PyObject **results)
{
    for (int k = 0; k < n; k++) {
        Py_CLEAR(results[k]);
    }
    return -1;
}

/* What must not stay pending runs before the call returns. 1, or -1: error set, and no results. */
static int run_what_must(const draft *d, const entry *e, uint64_t serial, PyObject **results)
{
    bool many = npa_q.small >= MOST_SMALL;
    if (many) {
        npa_autotune_note_many(&e->site);
    }
    bool now = e->urgent || e->strict || many || npa_stepping > 0 || e->over || e->full;
    for (int k = d->nin; npa_stops > 0 && k < d->nin + d->nout; k++) {
        now |= d->arrays[k] != NULL && npa_stops_at(d->arrays[k]);
    }
    PyObject *name = d->rule->name;
    if (now) {
        npa_run_because(e->urgent || e->strict ? e->why : many || e->full ? NPA_FULL : NPA_ASKED);
    }
    if (now && npa_flush_recorded() < 0) {
        if (PyErr_ExceptionMatches(PyExc_MemoryError)) {
            npa_queue_withdraw(serial);
        }
        return drop_results(d->nout, results);
    }
    return npa_stops > 0 && npa_stops_tell(name) < 0 ? drop_results(d->nout, results) : 1;
}

/* Before the lock: what of the entry hangs on where the call is. As begin_queue. */
static int begin_entry(draft *d, entry *e)
{
    e->over = npa_until_over();
    if (e->over && npa_until_stop() < 0) {
        return -1;
    }
    int status = npa_q.nrequests == 0 ? begin_queue() : 1;
    int strict = status > 0 && d->rule->may_warn ? npa_warnings_are_errors() : 0;
    if (status <= 0 || strict < 0) {
        return strict < 0 ? -1 : status;
    }
    e->strict = strict, e->why = NPA_STRICT;
    if (d->rule->may_warn && npa_warnings_ignored() && !npa_match_inside()) {
        d->errstate &= ~0xff; /* under the filters that it is recorded in nobody hears of it */
    }
    npa_capture_site(&e->site);
    e->small = is_small(d); /* it asks which block is open */
    if (e->small && npa_autotune_sees_many(&e->site)) {
        Py_XDECREF(e->site.code), Py_XDECREF(e->site.globals);
        return 0;
    }
    return 1;
}

static int enter_in_queue(draft *d, PyObject **results)
{
    if (npa_here != NULL) {
        return commit_in_section(d, results);
    }
    entry e;
    e.urgent = false;
    int status = begin_entry(d, &e);
    if (status <= 0) {
        npa_draft_drop(d);
        return status;
    }
    status = place_all(d, e.buffers, e.offsets);
    bool first = npa_q.nrequests == 0;
    npa_request *r = status > 0 ? npa_draft_append(&npa_q, d) : NULL;
    npa_q.masked |= r != NULL && d->rule->kind == NPA_PICK; /* before it runs, perhaps at once */
    if (r == NULL || !hide_outputs(d, &e)) {
        if (status > 0) {
            npa_unlock();
        }
        Py_XDECREF(e.site.code), Py_XDECREF(e.site.globals);
        npa_draft_drop(d);
        return status < 0 ? -1 : 0;
    }
    hold_inputs(d, &e);
    npa_q.urgent |= e.urgent;
    write_request(d, &e, r);
    npa_q.small = e.small ? npa_q.small + 1 : 0;
    uint64_t serial = npa_match_commit(r, d->usual ? d->made[0] : NULL);
    npa_unlock();
    e.full = npa_autotune_recorded(first);
    for (int k = 0; k < d->nout; k++) {
        results[k] = d->made[k] != NULL ? d->made[k] : Py_NewRef((PyObject *)d->arrays[d->nin + k]);
    }
    return run_what_must(d, &e, serial, results);
}

/* Whether NumPy's loop computes it, now and whenever: see Note [Whose bits]. */
bool npa_draft_is_numpys(const draft *d)
{
    size_t threshold = npa_ours_here(), points = 1, item = 0;
    /* Of 0.0 and -0.0 the larger one is what NumPy's vectors meet first, or last */
    bool picks = d->rule->kind == NPA_REDUCE && d->arrays[0] != NULL &&
                 npa_there(d->arrays[0]) == NULL && PyArray_ISFLOAT(d->arrays[0]);
    bool inexact = d->rule->inexact || d->rule->ordered || picks;
    if (!inexact || threshold == 0 || npa_here != NULL || npa_match_inside()) {
        return false;
    }
    for (int i = 0; i < d->ndim; i++) {
        points *= (size_t)d->shape[i];
    }
    for (int k = 0; k < d->nin + d->nout; k++) {
        bool operand = d->arrays[k] != NULL && (k < d->nin || d->made[k - d->nin] == NULL);
        size_t size = operand ? (size_t)PyArray_ITEMSIZE(d->arrays[k]) : 0;
        item = size > item ? size : item;
    }
    return points * item < threshold;
}

/* The draft becomes a request. Results are new references. As npa_record_map. */
int npa_draft_commit(draft *d, PyObject **results)
{
    d->numpys = npa_draft_is_numpys(d) || npa_until_over();
    int before = npa_now(NPA_RECORDING), status = enter_in_queue(d, results);
    npa_now(before);
    return status;
}
