/* structure.c: what the plan of pending requests depends on, sizes aside, as bytes; and numbers of
 * theirs, to be put into a plan of the same structure. See Note [Structure]. */
#include "run/fold.h"
#include "run/template.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { LITERAL = 16, VIEWS = 48, NUMBERS = 512, AXES = NPA_MAX_DIMS + 1 };

typedef struct { int64_t step, extent; } term;
typedef struct {
    int64_t low, high;
    int32_t item, nterms;
    term terms[AXES]; /* only nterms of them are set, copied and compared */
} region;

typedef struct {
    int n;
    size_t room;     /* bytes */
    char *of;        /* regions of writer.region_bytes */
    uint64_t writes; /* a bit per region */
} regions;

typedef struct { int n; int64_t of[NUMBERS]; } numbering;

typedef struct {
    char *at;
    size_t size, cap;
    bool failed;
    const int64_t *limits; /* band_points, inner_points, column_points */
    size_t region_bytes;   /* room for the terms that there are: new pages are what takes longest */
    numbering extents, strides;
    regions *buffers;
    int nbuffers; /* room for so many */
} writer;

/* One at a time, with the lock: its memory is used again. */
static writer the_writer;

static void put(writer *w, const void *bytes, size_t size)
{
    if (w->size + size > w->cap) {
        size_t cap = 2 * (w->cap + size) + 1024;
        char *grown = realloc(w->at, cap);
        if (grown == NULL) {
            w->failed = true;
            return;
        }
        w->at = grown, w->cap = cap;
    }
    memcpy(w->at + w->size, bytes, size);
    w->size += size;
}

/* Numbers of things and flags, none of which is as large as this. */
static void put_word(writer *w, int64_t word)
{
    int32_t half = (int32_t)word;
    put(w, &half, sizeof half);
}

/* The place of `value` among those met so far. */
static int number(writer *w, numbering *known, int64_t value)
{
    int i = 0;
    while (i < known->n && known->of[i] != value) {
        i++;
    }
    if (i == NUMBERS) {
        w->failed = true;
        return 0;
    }
    known->of[i] = value;
    known->n += i == known->n;
    return i;
}

static void put_extent(writer *w, int64_t n)
{
    put_word(w, n < LITERAL ? n : LITERAL + number(w, &w->extents, n));
}

/* As ir/views.py has it: steps positive and falling, axes that continue each other are one. */
static void find_region(const npa_words *r, const npa_operand *o, int64_t item, region *found)
{
    term moving[AXES];
    int n = 0;
    int64_t low = o->offset, span = 0;
    for (int axis = 0; axis < r->ndim; axis++) {
        int64_t extent = r->shape[axis], step = o->at[axis];
        if (extent == 1 || step == 0) {
            continue;
        }
        low += step < 0 ? (extent - 1) * step : 0;
        step = step < 0 ? -step : step;
        span += (extent - 1) * step;
        int i = n++;
        for (; i > 0 && (moving[i - 1].step < step ||
                         (moving[i - 1].step == step && moving[i - 1].extent < extent)); i--) {
            moving[i] = moving[i - 1];
        }
        moving[i] = (term){step, extent};
    }
    found->low = low, found->high = low + span + item;
    found->item = (int32_t)item, found->nterms = 0;
    for (int i = 0; i < n; i++) {
        term *last = found->nterms > 0 ? &found->terms[found->nterms - 1] : NULL;
        if (last != NULL && last->step == moving[i].step * moving[i].extent) {
            *last = (term){moving[i].step, last->extent * moving[i].extent};
        } else {
            found->terms[found->nterms++] = moving[i];
        }
    }
}

static size_t region_bytes(int nterms)
{
    return offsetof(region, terms) + (size_t)nterms * sizeof(term);
}

/* Bytes of the region's parts within one period; -1: the period does not cut it into any. */
static int64_t span_below(const region *a, int64_t period)
{
    int64_t span = a->item;
    for (int i = 0; i < a->nterms; i++) {
        if (a->terms[i].step % period != 0) {
            if (a->terms[i].step > period) {
                return -1;
            }
            span += (a->terms[i].extent - 1) * a->terms[i].step;
        }
    }
    return span;
}

static bool apart(const region *a, const region *b, int64_t period)
{
    int64_t inner_a = span_below(a, period), inner_b = span_below(b, period);
    int64_t distance = ((b->low - a->low) % period + period) % period;
    return inner_a >= 0 && inner_b >= 0 && distance >= inner_a && distance + inner_b <= period;
}

/* Note [Overlap] in ir/views.py */
static bool overlap(const region *a, const region *b)
{
    bool disjoint = a->high <= b->low || b->high <= a->low;
    for (int i = 0; i < a->nterms && !disjoint; i++) {
        disjoint = apart(a, b, a->terms[i].step);
    }
    for (int i = 0; i < b->nterms && !disjoint; i++) {
        disjoint = apart(a, b, b->terms[i].step);
    }
    return !disjoint;
}

static const region *region_at(const writer *w, const regions *known, int i)
{
    return (const region *)(known->of + (size_t)i * w->region_bytes);
}

static int place_of(writer *w, int buffer, const region *wanted, bool write)
{
    regions *known = &w->buffers[buffer];
    size_t size = region_bytes(wanted->nterms);
    int i = 0;
    /* Nterms goes first */
    while (i < known->n && memcmp(region_at(w, known, i), wanted, size) != 0) {
        i++;
    }
    if (((size_t)i + 1) * w->region_bytes > known->room) {
        size_t room = ((size_t)i + 1) * 4 * w->region_bytes;
        char *grown = i < VIEWS ? realloc(known->of, room) : NULL;
        if (grown == NULL) {
            w->failed = true;
            return 0;
        }
        known->of = grown, known->room = room;
    }
    w->failed |= i >= VIEWS;
    memcpy(known->of + (size_t)i * w->region_bytes, wanted, size);
    known->n += i == known->n;
    known->writes |= (uint64_t)write << i;
    return i;
}

/* Which stride of two axes is larger, and whether one axis continues the other. */
static void put_relations(writer *w, const npa_words *r, const npa_operand *o)
{
    for (int j = 1; j < r->ndim; j++) {
        for (int i = 0; i < j; i++) {
            int64_t a = o->at[i], b = o->at[j], size_a = a < 0 ? -a : a, size_b = b < 0 ? -b : b;
            put_word(w, (size_a > size_b) | (size_a < size_b) << 1 | (a == b * r->shape[j]) << 2 |
                            (b == a * r->shape[i]) << 3);
        }
    }
}

static void put_view(writer *w, const npa_words *r, const npa_operand *o, bool write)
{
    int64_t item = npa_item_sizes[o->type];
    region lies;
    find_region(r, o, item, &lies);
    put_word(w, place_of(w, o->buffer, &lies, write));
    for (int axis = 0; axis < r->ndim; axis++) {
        int64_t step = o->at[axis];
        bool back = step == -item;
        put_word(w, step == 0 ? 0 : step == item ? 1 : back ? 2 : 3 + number(w, &w->strides, step));
    }
    put_relations(w, r, o);
}

/* All that a gather may read of its source, which has one axis more: indices move along it. */
static void put_gathered(writer *w, const npa_words *r, const npa_operand *source)
{
    _Alignas(8) char room[sizeof *r + 8 * AXES], view[sizeof *source + 8 * AXES];
    const npa_operand *extent = npa_words_next(r, npa_words_next(r, source));
    const npa_operand *step = npa_words_next(r, extent);
    npa_words *all = memcpy(room, r, sizeof *r + 8u * r->ndim);
    npa_operand *table = memcpy(view, source, sizeof *source + 8u * r->ndim);
    all->shape[all->ndim] = extent->at[0];
    table->at[all->ndim++] = step->at[0] * npa_item_sizes[source->type];
    w->failed |= extent->at[0] == 0;
    put_extent(w, extent->at[0]);
    put_view(w, all, table, false);
}

enum { PICKED = 63, SCANNED = 128 }; /* elements of a row: passes/layout.py */

/* How the rows of a reduction or scan lie to the limits for fusing loops over them. */
static void put_rows(writer *w, const npa_words *r, int kind)
{
    int64_t inner = 1, all = 1;
    for (int axis = 0; axis < r->ndim; axis++) {
        inner *= r->axes >> axis & 1 ? r->shape[axis] : 1;
        all *= r->shape[axis];
    }
    put_word(w, (all / inner >= w->limits[0]) | (inner < w->limits[1]) << 1 |
                    (inner > w->limits[2]) << 2 | (inner > PICKED) << 3 | (inner > SCANNED) << 4);
    if (kind == NPA_REDUCE) {
        const npa_operand *in = npa_words_first(r);
        npa_order order;
        npa_fold_order(r->ndim, r->shape, in->at, r->axes, npa_item_sizes[in->type], &order);
        put_word(w, (order.ninner - order.first) << 1 | order.banded);
    }
}

static void put_structure(writer *w, const npa_words *r, int kind)
{
    int64_t head[] = {r->rule, r->axes, r->ndim, r->nin | r->nout << 8 | r->mask << 16,
                      r->errstate, r->initial, kind};
    for (size_t i = 0; i < sizeof head / sizeof *head; i++) {
        put_word(w, head[i]);
    }
    for (int axis = 0; axis < r->ndim; axis++) {
        w->failed |= r->shape[axis] == 0;
        put_extent(w, r->shape[axis]);
    }
    bool gathers = kind == NPA_GATHER;
    const npa_operand *o = npa_words_first(r);
    for (int k = 0; k < npa_words_count(r) && !w->failed; k++, o = npa_words_next(r, o)) {
        bool output = k >= r->nin && k < r->nin + r->nout;
        put_word(w, o->buffer), put_word(w, o->type);
        if (gathers && k == 0) {
            put_gathered(w, r, o);
        } else if (o->buffer >= 0) {
            put_view(w, r, o, output);
        } else if (!gathers) { /* else they are numbers of the table */
            put(w, o->at, 8 * (size_t)o->offset);
        }
    }
    if (!w->failed && kind != NPA_MAP && !gathers) {
        put_rows(w, r, kind);
    }
}

/* Per pair of regions of a buffer, one of them written, whether they may meet. */
static void put_overlaps(writer *w, int buffer)
{
    const regions *known = &w->buffers[buffer];
    for (int i = 0; i < known->n && known->writes != 0; i++) {
        for (int j = 0; j < i; j++) {
            if ((known->writes >> i | known->writes >> j) & 1 &&
                overlap(region_at(w, known, i), region_at(w, known, j))) {
                put_word(w, buffer), put_word(w, i), put_word(w, j);
            }
        }
    }
}

static int kind_of(const npa_traced *t, int i)
{
    const npa_rule *rule = t->lines != NULL
        ? t->lines[i].rule : ((npa_request *)(npa_q.arena + npa_q.at[i]))->rule;
    return rule->kind;
}

/* Room for what is known of buffers, of which nothing is known yet; false: no memory. */
static bool begin(writer *w, int nbuffers)
{
    w->size = 0, w->failed = false;
    w->extents.n = w->strides.n = 0;
    if (nbuffers > w->nbuffers) {
        regions *grown = realloc(w->buffers, (size_t)nbuffers * 2 * sizeof *grown);
        if (grown == NULL) {
            return false;
        }
        memset(grown + w->nbuffers, 0, (size_t)(2 * nbuffers - w->nbuffers) * sizeof *grown);
        w->buffers = grown, w->nbuffers = 2 * nbuffers;
    }
    for (int i = 0; i < nbuffers; i++) {
        w->buffers[i].n = 0, w->buffers[i].writes = 0;
    }
    return true;
}

/* The request behind this one. */
static const npa_words *next_request(const npa_words *r)
{
    const npa_operand *o = npa_words_first(r);
    for (int k = 0; k < npa_words_count(r); k++) {
        o = npa_words_next(r, o);
    }
    return (const npa_words *)o;
}

static void write_structure(writer *w, const npa_traced *t)
{
    int ndim = 0;
    const npa_words *r = (const npa_words *)t->words;
    for (int i = 0; i < t->nrequests; i++, r = next_request(r)) {
        ndim = r->ndim + 1 > ndim ? r->ndim + 1 : ndim; /* where it gathers */
    }
    w->region_bytes = region_bytes(ndim);
    put_word(w, t->nrequests), put_word(w, t->nbuffers), put_word(w, t->apart);
    for (int i = 0; i < t->nbuffers; i++) {
        put_word(w, t->states[i] & NPA_STATE_FLAGS);
    }
    r = (const npa_words *)t->words;
    for (int i = 0; i < t->nrequests && !w->failed; i++, r = next_request(r)) {
        put_structure(w, r, kind_of(t, i));
    }
    for (int i = 0; i < t->nbuffers && !w->failed; i++) {
        put_overlaps(w, i);
    }
}

const char *npa_structure_of(const npa_traced *t, const int64_t *limits, size_t *size)
{
    writer *w = &the_writer;
    if (!begin(w, t->nbuffers)) {
        return NULL;
    }
    w->limits = limits;
    write_structure(w, t);
    *size = w->size;
    return w->failed ? NULL : w->at;
}

npa_traced npa_traced_snapshot(const npa_snapshot *s)
{
    const uint64_t *states = (const uint64_t *)(s->words + s->end);
    return (npa_traced){s->words, states, s->nrequests, s->nbuffers, (int)states[s->nbuffers + 1],
                        s->lines};
}

npa_traced npa_traced_key(const npa_key *key)
{
    uint64_t end[2];
    memcpy(end, key->bytes + key->size - NPA_KEY_END, sizeof end);
    int nbuffers = (int)(end[0] >> 32);
    const char *states = key->bytes + key->size - NPA_KEY_END - 8 * (size_t)nbuffers;
    return (npa_traced){key->bytes, (const uint64_t *)states, (int)(uint32_t)end[0], nbuffers,
                        (int)end[1], NULL};
}

/* Bytes, or None: it has to be planned. args: three limits of ir/passes. */
PyObject *npa_structure(const npa_snapshot *s, PyObject *args)
{
    long long limits[3];
    if (!PyArg_ParseTuple(args, "LLL", &limits[0], &limits[1], &limits[2])) {
        return NULL;
    }
    int64_t bounds[3] = {limits[0], limits[1], limits[2]};
    npa_traced traced = npa_traced_snapshot(s);
    size_t size;
    npa_lock();
    const char *at = npa_structure_of(&traced, bounds, &size);
    PyObject *found = at == NULL ? Py_NewRef(Py_None)
                                 : PyBytes_FromStringAndSize(at, (Py_ssize_t)size);
    npa_unlock();
    return found;
}

const int64_t *npa_number_at(const npa_traced *t, npa_number which)
{
    if (t->lines == NULL || which.request < 0 || which.request >= t->nrequests) {
        return NULL;
    }
    const npa_words *r = (const npa_words *)(t->words + t->lines[which.request].words);
    if (which.axis >= r->ndim || which.operand >= npa_words_count(r)) {
        return NULL;
    }
    const npa_operand *o = which.operand < 0 ? NULL : npa_words_first(r);
    for (int k = 0; k < which.operand; k++) {
        o = npa_words_next(r, o);
    }
    if ((o == NULL && which.axis < 0) || (o != NULL && o->buffer < 0)) {
        return NULL;
    }
    return o == NULL ? &r->shape[which.axis] : which.axis < 0 ? &o->offset : &o->at[which.axis];
}

/* (request, operand, axis) as words of 32 bits -> numbers: of operand -1 extents; of axis -1
 * offsets, else strides, both in bytes. */
PyObject *npa_numbers(const npa_snapshot *s, PyObject *wanted)
{
    if (!PyBytes_Check(wanted) || PyBytes_GET_SIZE(wanted) % (Py_ssize_t)sizeof(npa_number) != 0) {
        return PyErr_Format(PyExc_ValueError, "numbers: places are needed");
    }
    size_t n = (size_t)PyBytes_GET_SIZE(wanted) / sizeof(npa_number);
    npa_traced traced = npa_traced_snapshot(s);
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (size_t i = 0; list != NULL && i < n; i++) {
        npa_number which;
        memcpy(&which, PyBytes_AS_STRING(wanted) + i * sizeof which, sizeof which);
        const int64_t *found = npa_number_at(&traced, which);
        if (found == NULL) {
            Py_DECREF(list);
            return PyErr_Format(PyExc_IndexError, "numbers: there is no such place");
        }
        PyList_SET_ITEM(list, (Py_ssize_t)i, PyLong_FromLongLong(*found));
    }
    return list;
}

/* Note [Structure]
 *
 * A plan is made by comparing numbers: extents, strides and offsets with each other, and extents
 * with limits. The structure holds the outcome of every such comparison, and not the numbers, so
 * requests with equal structures plan alike. Extents, and strides, are replaced by their place in
 * the order of first use: whether two are equal is then the same for all requests of one structure,
 * and so is every look-up in a table keyed by views or spaces: views of one buffer with equal
 * regions and strides begin at one offset. 0 and one element, on or back, stay as they are among
 * strides, small extents (1, an axis that does not count; a vector's lanes) among extents. What is
 * compared otherwise is written down as its outcome:
 *   strides of one view: which is larger, and whether one axis continues the other (collapsing,
 *       order of axes, whether a row lies along memory)
 *   regions of one buffer: whether they are equal, and whether they overlap where one is written
 *   rows: how their number and length lie to the limits for fusing them; which axes make a sum's
 *   scalars: the values that a rewrite uses
 * What is left depends on how long the rows of a kernel are: `Plan.ranges` holds the bounds, and
 * whether a reduction is split is looked at again when numbers are put in
 * (runtime/programs/templates.py). */
