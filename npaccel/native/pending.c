/* pending.c: what is pending at one moment, as Python gets it: requests, who is dead, where data lies,
 * the user's lines. It never changes, so whoever plans has nothing to do with what others record and run. */
#include "store.h"

#include <string.h>

/* ------------------------------------------------------------------------------- snapshots */

/* What of a buffer lies on a device, and there alone. */
struct npa_resident {
    int buffer;
    npa_store *store;
    size_t valid, newer;
};

static bool copy_residence(npa_snapshot *s)
{
    int n = npa_stores != NULL ? s->nbuffers : 0;
    s->resident = n > 0 ? malloc(sizeof *s->resident * (size_t)n) : NULL;
    for (int i = 0; i < n && s->resident != NULL; i++) {
        const npa_buffer *b = npa_q.buffers[i];
        const struct npa_copy *c = b->copy;
        s->place = s->place == NULL && !b->fresh ? b->placed : s->place;
        if (c != NULL) {
            s->resident[s->nresident++] = (struct npa_resident){
                i, c->store, npa_span_length(c->valid), npa_span_length(c->newer)};
        }
    }
    return n == 0 || s->resident != NULL;
}

bool npa_snapshot_take(npa_snapshot *s, int requests, const npa_key *key, bool sites)
{
    int nbuffers = npa_buffers_of(&npa_q, requests);
    size_t used = requests < npa_q.nrequests ? npa_q.at[requests] : npa_q.used;
    size_t places = sizeof *s->at * (size_t)requests, states = sizeof *s->states * (size_t)nbuffers;
    *s = (npa_snapshot){.nrequests = requests, .nbuffers = nbuffers, .serial = npa_q.serial,
                        .sites = sites, .at = malloc(places + states + used + 1)};
    if (s->at == NULL || !copy_residence(s)) {
        free(s->at);
        return false;
    }
    s->states = (uint64_t *)(s->at + requests);
    s->arena = (char *)(s->states + nbuffers);
    memcpy(s->at, npa_q.at, places);
    memcpy(s->states, key->bytes + key->size - sizeof *s->states - states, states);
    memcpy(s->arena, npa_q.arena, used);
    for (int i = 0; i < requests; i++) {
        npa_request *r = npa_snapshot_request(s, i);
        r->code = sites ? Py_XNewRef(r->code) : NULL;
        r->globals = NULL;
    }
    return true;
}

void npa_snapshot_drop(npa_snapshot *s)
{
    for (int i = 0; s->sites && i < s->nrequests; i++) {
        Py_XDECREF(npa_snapshot_request(s, i)->code);
    }
    free(s->at), free(s->resident);
    *s = (npa_snapshot){0};
}

/* ------------------------------------------------------------------------------ for Python */

typedef struct {
    PyObject_HEAD
    npa_snapshot s;
    PyObject *key;
} pending;

static const npa_snapshot *of(PyObject *self) { return &((pending *)self)->s; }

PyObject *npa_pending_new(PyObject *key, npa_snapshot *s)
{
    pending *made = key != NULL ? PyObject_New(pending, &npa_pending_type) : NULL;
    if (made == NULL) {
        npa_snapshot_drop(s);
        return NULL;
    }
    made->s = *s, made->key = Py_NewRef(key);
    *s = (npa_snapshot){0};
    return (PyObject *)made;
}

PyObject *npa_pending_take(int requests, const npa_key *key)
{
    npa_snapshot s;
    if (!npa_snapshot_take(&s, requests, key, true)) {
        return PyErr_NoMemory();
    }
    PyObject *bytes = PyBytes_FromStringAndSize(key->bytes, (Py_ssize_t)key->size);
    PyObject *made = npa_pending_new(bytes, &s);
    Py_XDECREF(bytes);
    return made;
}

static void dealloc(PyObject *self)
{
    npa_snapshot_drop(&((pending *)self)->s);
    Py_DECREF(((pending *)self)->key);
    PyObject_Free(self);
}

static Py_ssize_t length(PyObject *self) { return of(self)->nrequests; }

static PyObject *get_key(PyObject *self, void *unused)
{
    (void)unused;
    return Py_NewRef(((pending *)self)->key);
}

static PyObject *get_serial(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(of(self)->serial);
}

static PyObject *get_placement(PyObject *self, void *unused)
{
    (void)unused;
    return npa_store_name(of(self)->place);
}

/* Append a new reference; false with an error set. */
static bool add(PyObject *list, PyObject *item)
{
    bool good = item != NULL && PyList_Append(list, item) == 0;
    Py_XDECREF(item);
    return good;
}

static PyObject *get_residence(PyObject *self, void *unused)
{
    (void)unused;
    PyObject *list = PyList_New(0);
    for (int i = 0; list != NULL && i < of(self)->nresident; i++) {
        struct npa_resident *r = &of(self)->resident[i];
        if (!add(list, Py_BuildValue("(iOnn)", r->buffer, r->store->name, (Py_ssize_t)r->valid,
                                     (Py_ssize_t)r->newer))) {
            Py_CLEAR(list);
        }
    }
    return list;
}

static PyObject *get_sites(PyObject *self, void *unused)
{
    (void)unused;
    PyObject *list = PyList_New(0);
    for (int i = 0; list != NULL && i < of(self)->nrequests; i++) {
        npa_request *r = npa_snapshot_request(of(self), i);
        if (!add(list, Py_BuildValue("(Oi)", r->code ? r->code : Py_None, (int)r->lasti))) {
            Py_CLEAR(list);
        }
    }
    return list;
}

static uint64_t mix(uint64_t hash, uint64_t value) { return (hash ^ value) * 0x100000001b3u; }

/* Sizes and places aside: which operations on which buffers, of which types. */
static PyObject *get_outline(PyObject *self, void *unused)
{
    (void)unused;
    uint64_t hash = 0xcbf29ce484222325u;
    for (int i = 0; i < of(self)->nrequests; i++) {
        npa_request *r = npa_snapshot_request(of(self), i);
        hash = mix(mix(hash, r->rule->id), r->axes | (uint64_t)r->ndim << 32);
        for (int k = 0; k < npa_operand_count(r); k++) {
            npa_operand *o = npa_operand_at(r, k);
            hash = mix(hash, (uint32_t)o->buffer | (uint64_t)o->type << 32);
        }
        hash ^= hash >> 29;
    }
    return PyLong_FromUnsignedLongLong(hash);
}

/* Elements that they run over, of all requests together. */
static PyObject *get_points(PyObject *self, void *unused)
{
    (void)unused;
    double points = 0;
    for (int i = 0; i < of(self)->nrequests; i++) {
        npa_request *r = npa_snapshot_request(of(self), i);
        double of_request = 1;
        for (int axis = 0; axis < r->ndim; axis++) {
            of_request *= (double)r->shape[axis];
        }
        points += of_request;
    }
    return PyFloat_FromDouble(points);
}

/* The values of scalars. positions: request, input, request, input ... */
static PyObject *values(PyObject *self, PyObject *positions)
{
    if (!PyTuple_Check(positions)) {
        return PyErr_Format(PyExc_TypeError, "positions must be a tuple");
    }
    Py_ssize_t n = PyTuple_GET_SIZE(positions) / 2;
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, 16 * n);
    for (Py_ssize_t i = 0; bytes != NULL && i < n; i++) {
        long request = PyLong_AsLong(PyTuple_GET_ITEM(positions, 2 * i));
        long input = PyLong_AsLong(PyTuple_GET_ITEM(positions, 2 * i + 1));
        bool there = request >= 0 && request < of(self)->nrequests;
        npa_request *r = there ? npa_snapshot_request(of(self), (int)request) : NULL;
        if (r == NULL || input < 0 || input >= r->nin || npa_operand_at(r, (int)input)->buffer >= 0) {
            Py_CLEAR(bytes);
            return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_IndexError, "there is no such scalar");
        }
        memcpy(PyBytes_AS_STRING(bytes) + 16 * i, npa_operand_at(r, (int)input)->at, 16);
    }
    return bytes;
}

static PyObject *structure(PyObject *self, PyObject *limits) { return npa_structure(of(self), limits); }
static PyObject *numbers(PyObject *self, PyObject *places) { return npa_numbers(of(self), places); }

/* ------------------------------------------------------------------------------- as tuples */

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

static PyObject *trace(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    PyObject *buffers = PyList_New(0), *requests = PyList_New(0);
    bool good = buffers != NULL && requests != NULL;
    for (int i = 0; good && i < of(self)->nbuffers; i++) {
        uint64_t state = of(self)->states[i];
        good = add(buffers, Py_BuildValue("(KNNN)", (unsigned long long)(state >> NPA_STATE_BITS),
                                          PyBool_FromLong(state & NPA_FRESH),
                                          PyBool_FromLong(state & NPA_DEAD),
                                          PyBool_FromLong(state & NPA_OWNED)));
    }
    for (int i = 0; good && i < of(self)->nrequests; i++) {
        good = add(requests, npa_request_tuple(npa_snapshot_request(of(self), i)));
    }
    PyObject *both = good ? PyTuple_Pack(2, buffers, requests) : NULL;
    Py_XDECREF(buffers), Py_XDECREF(requests);
    return both;
}

/* -------------------------------------------------------------------------------- as words */

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

/* What `trace` tells, for runtime/words.py to read in another process. It delays a flush, so no Python
 * objects are made of it. */
static PyObject *get_words(PyObject *self, void *unused)
{
    (void)unused;
    const npa_snapshot *s = of(self);
    size_t count = 2 + 2 * (size_t)s->nbuffers;
    for (int i = 0; i < s->nrequests; i++) {
        count += words_of(npa_snapshot_request(s, i));
    }
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(8 * count));
    int64_t *to = bytes != NULL ? (int64_t *)PyBytes_AS_STRING(bytes) : NULL;
    if (to != NULL) {
        *to++ = s->nbuffers, *to++ = s->nrequests;
        for (int i = 0; i < s->nbuffers; i++) {
            *to++ = (int64_t)(s->states[i] >> NPA_STATE_BITS);
            *to++ = (int64_t)(s->states[i] & ((1 << NPA_STATE_BITS) - 1));
        }
        for (int i = 0; i < s->nrequests; i++) {
            to = put_request(to, npa_snapshot_request(s, i));
        }
    }
    return bytes;
}

/* Those of the requests, by id. */
static PyObject *get_rules(PyObject *self, void *unused)
{
    (void)unused;
    PyObject *rules = PyDict_New();
    npa_rule *last = NULL;
    for (int i = 0; rules != NULL && i < of(self)->nrequests; i++) {
        npa_rule *rule = npa_snapshot_request(of(self), i)->rule;
        PyObject *id = rule != last ? PyLong_FromUnsignedLong(rule->id) : NULL;
        if (rule != last && (id == NULL || PyDict_SetItem(rules, id, (PyObject *)rule) < 0)) {
            Py_CLEAR(rules);
        }
        Py_XDECREF(id);
        last = rule;
    }
    return rules;
}

static PyGetSetDef attributes[] = {
    {"key", get_key, NULL, "What its program is found by.", NULL},
    {"serial", get_serial, NULL, "Number of the flush that it is for.", NULL},
    {"placement", get_placement, NULL, "The device that its data was given, or None.", NULL},
    {"residence", get_residence, NULL, "What of that lies on devices.", NULL},
    {"sites", get_sites, NULL, "(code, lasti) per request.", NULL},
    {"outline", get_outline, NULL, "A hash of the requests, sizes aside.", NULL},
    {"points", get_points, NULL, "Elements that they run over.", NULL},
    {"words", get_words, NULL, "The requests as bytes.", NULL},
    {"rules", get_rules, NULL, "Their rules by id.", NULL},
    {NULL}};
static PyMethodDef methods[] = {
    {"trace", trace, METH_NOARGS, "The requests as plain tuples."},
    {"values", values, METH_O, "Values of scalars."},
    {"structure", structure, METH_VARARGS, "What their plan depends on, sizes aside; or None."},
    {"numbers", numbers, METH_O, "Extents, offsets and strides."},
    {NULL}};
static PySequenceMethods sequence = {.sq_length = length};
PyTypeObject npa_pending_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "npaccel._native.Pending",
    .tp_basicsize = sizeof(pending),
    .tp_dealloc = dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = "What was pending at one moment.",
    .tp_as_sequence = &sequence,
    .tp_getset = attributes,
    .tp_methods = methods,
};
