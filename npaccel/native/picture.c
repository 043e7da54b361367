/* picture.c: what is pending, for Python: as tuples, or as plain words for another process. */
#include "record.h"

static PyObject *operand_tuple(npa_request *r, int k)
{
    npa_operand *o = npa_operand_at(r, k);
    if (o->buffer < 0) {
        return Py_BuildValue("(y#i)", (char *)o->at, (Py_ssize_t)16, (int)o->type);
    }
    PyObject *strides = PyTuple_New(r->ndim);
    for (int i = 0; strides != NULL && i < r->ndim; i++) {
        PyTuple_SET_ITEM(strides, i, PyLong_FromLongLong(o->at[i]));
    }
    return Py_BuildValue("(iLNi)", (int)o->buffer, (long long)o->offset, strides, (int)o->type);
}

PyObject *npa_request_tuple(npa_request *r)
{
    PyObject *shape = PyTuple_New(r->ndim), *axes = PyList_New(0);
    PyObject *sides[3] = {PyTuple_New(r->nin), PyTuple_New(r->nout), NULL};
    for (int i = 0; shape && axes && i < r->ndim; i++) {
        PyTuple_SET_ITEM(shape, i, PyLong_FromLongLong(r->shape[i]));
        if (r->axes >> i & 1) {
            PyObject *axis = PyLong_FromLong(i);
            PyList_Append(axes, axis);
            Py_XDECREF(axis);
        }
    }
    for (int k = 0; sides[0] && sides[1] && k < r->nin + r->nout; k++) {
        PyTuple_SET_ITEM(sides[k >= r->nin], k - (k >= r->nin ? r->nin : 0), operand_tuple(r, k));
    }
    sides[2] = r->mask ? operand_tuple(r, r->nin + r->nout) : Py_NewRef(Py_None);
    return Py_BuildValue("(ONNiNNNN)", r->rule, shape, axes, (int)r->errstate, sides[0], sides[1],
                         sides[2], PyBool_FromLong(r->initial));
}

static npa_request *request_of(const npa_queue *q, int i)
{
    return (npa_request *)(q->arena + q->at[i]);
}

/* The queue as it is at one moment, with references of its own: the evaluator may run it and
 * other threads may add to it while Python objects are made of it. */
typedef struct {
    npa_queue q;
    npa_buffer *buffers;
} picture;

static npa_request *pictured(const picture *p, int i) { return request_of(&p->q, i); }

static void drop_picture(picture *p)
{
    for (int i = 0; p->q.arena != NULL && i < p->q.nrequests; i++) {
        Py_XDECREF(pictured(p, i)->code);
        Py_XDECREF(pictured(p, i)->globals);
    }
    free(p->q.arena), free(p->q.at), free(p->buffers);
}

static int take_picture(picture *p)
{
    npa_lock();
    const npa_queue *q = npa_planned_queue();
    p->q = *q;
    p->q.nrequests = npa_planned_requests();
    p->q.nbuffers = npa_buffers_of(q, p->q.nrequests);
    p->q.arena = malloc(q->used + 1);
    p->q.at = malloc(sizeof(size_t) * (size_t)(q->nrequests + 1));
    p->buffers = malloc(sizeof(npa_buffer) * (size_t)(q->nbuffers + 1));
    bool good = p->q.arena != NULL && p->q.at != NULL && p->buffers != NULL;
    if (good) {
        memcpy(p->q.arena, q->arena, q->used);
        memcpy(p->q.at, q->at, sizeof(size_t) * (size_t)q->nrequests);
        for (int i = 0; i < q->nbuffers; i++) {
            p->buffers[i] = *q->buffers[i];
        }
        for (int i = 0; i < p->q.nrequests; i++) {
            Py_XINCREF(pictured(p, i)->code);
            Py_XINCREF(pictured(p, i)->globals);
        }
    } else {
        free(p->q.arena), free(p->q.at), free(p->buffers);
    }
    npa_unlock();
    if (!good) {
        PyErr_NoMemory();
    } else if (npa_same_picture() < 0) {
        drop_picture(p);
        good = false;
    }
    return good ? 0 : -1;
}

static bool dead_for_plan(const npa_buffer *b)
{
    return npa_planning ? b->key_dead : b->dead; /* a plan is for its key */
}

/* Append a new reference; false with an error set. */
static bool add(PyObject *list, PyObject *item)
{
    bool good = item != NULL && PyList_Append(list, item) == 0;
    Py_XDECREF(item);
    return good;
}

PyObject *npa_trace(PyObject *self, PyObject *nothing)
{
    (void)self, (void)nothing;
    picture p;
    if (take_picture(&p) < 0) {
        return NULL;
    }
    PyObject *buffers = PyList_New(0), *requests = PyList_New(0);
    bool good = buffers != NULL && requests != NULL;
    for (int i = 0; good && i < p.q.nbuffers; i++) {
        npa_buffer *b = &p.buffers[i];
        bool dead = dead_for_plan(b);
        good = add(buffers, Py_BuildValue("(KNNNK)", (unsigned long long)b->size,
                                          PyBool_FromLong(b->fresh), PyBool_FromLong(dead),
                                          PyBool_FromLong(b->range != NULL),
                                          (unsigned long long)(uintptr_t)b->base));
    }
    for (int i = 0; good && i < p.q.nrequests; i++) {
        good = add(requests, npa_request_tuple(pictured(&p, i)));
    }
    drop_picture(&p);
    PyObject *both = good ? PyTuple_Pack(2, buffers, requests) : NULL;
    Py_XDECREF(buffers), Py_XDECREF(requests);
    return both;
}

PyObject *npa_sites(PyObject *self, PyObject *nothing)
{
    (void)self, (void)nothing;
    picture p;
    if (take_picture(&p) < 0) {
        return NULL;
    }
    PyObject *list = PyList_New(0);
    for (int i = 0; list != NULL && i < p.q.nrequests; i++) {
        npa_request *r = pictured(&p, i);
        if (!add(list, Py_BuildValue("(OiO)", r->code ? r->code : Py_None, (int)r->lasti,
                                     r->globals ? r->globals : Py_None))) {
            Py_CLEAR(list);
        }
    }
    drop_picture(&p);
    return list;
}

/* ----------------------------------------------------------------------------- as words */

/* How many words a request takes in `npa_trace_words`. */
static size_t words_of(npa_request *r)
{
    size_t words = 8 + r->ndim;
    for (int k = 0; k < npa_operand_count(r); k++) {
        words += npa_operand_at(r, k)->buffer < 0 ? 5 : 3 + (size_t)r->ndim;
    }
    return words;
}

static int64_t *put_request(int64_t *to, npa_request *r)
{
    int64_t head[8] = {r->rule->id, r->ndim, r->axes, r->errstate,
                       r->nin,      r->nout, r->mask, r->initial};
    memcpy(to, head, sizeof head), to += 8;
    memcpy(to, r->shape, 8 * (size_t)r->ndim), to += r->ndim;
    for (int k = 0; k < npa_operand_count(r); k++) {
        npa_operand *o = npa_operand_at(r, k);
        size_t rest = o->buffer < 0 ? 2 : r->ndim;
        *to++ = o->buffer, *to++ = o->type, *to++ = o->offset;
        memcpy(to, o->at, 8 * rest), to += rest;
    }
    return to;
}

/* The different ones of these requests' rules into `rules`; how many there are. */
static int rules_of(const npa_queue *q, int nrequests, npa_rule **rules)
{
    int n = 0;
    for (int i = 0; i < nrequests; i++) {
        npa_rule *rule = request_of(q, i)->rule;
        int k = n - 1; /* as a rule one of the latest */
        while (k >= 0 && rules[k] != rule) {
            k--;
        }
        if (k < 0) {
            rules[n++] = rule;
        }
    }
    return n;
}

static void put_queue(int64_t *to, const npa_queue *q, int nrequests, int nbuffers)
{
    *to++ = nbuffers, *to++ = nrequests;
    for (int i = 0; i < nbuffers; i++) {
        npa_buffer *b = q->buffers[i];
        *to++ = (int64_t)b->size;
        *to++ = b->fresh | dead_for_plan(b) << 1 | (b->range != NULL) << 2;
    }
    for (int i = 0; i < nrequests; i++) {
        to = put_request(to, request_of(q, i));
    }
}

/* (words, {id: rule}): what `trace` tells, for runtime/words.py to read in another process. It
 * delays a flush, so no Python objects are made of it here, and no picture: what is called with the
 * lock runs no Python. */
PyObject *npa_trace_words(PyObject *self, PyObject *nothing)
{
    (void)self, (void)nothing;
    npa_lock();
    const npa_queue *q = npa_planned_queue();
    int nrequests = npa_planned_requests(), nbuffers = npa_buffers_of(q, nrequests), nrules = 0;
    size_t count = 2 + 2 * (size_t)nbuffers;
    for (int i = 0; i < nrequests; i++) {
        count += words_of(request_of(q, i));
    }
    npa_rule **found = malloc(((size_t)nrequests + 1) * sizeof *found);
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(8 * count));
    if (bytes != NULL && found != NULL) {
        put_queue((int64_t *)PyBytes_AS_STRING(bytes), q, nrequests, nbuffers);
        nrules = rules_of(q, nrequests, found);
    }
    npa_unlock();
    if (found == NULL) {
        PyErr_NoMemory();
    }
    bool good = bytes != NULL && found != NULL && npa_same_picture() == 0;
    PyObject *rules = good ? PyDict_New() : NULL;
    good = rules != NULL;
    for (int i = 0; good && i < nrules; i++) {
        PyObject *id = PyLong_FromUnsignedLong(found[i]->id);
        good = id != NULL && PyDict_SetItem(rules, id, (PyObject *)found[i]) == 0;
        Py_XDECREF(id);
    }
    free(found);
    PyObject *both = good ? PyTuple_Pack(2, bytes, rules) : NULL;
    Py_XDECREF(bytes), Py_XDECREF(rules);
    return both;
}
