/* pending.c: what is pending at one moment, as Python gets it: requests as words, who is dead,
 * where data lies, the user's lines. It never changes, so whoever plans has nothing to do with what
 * others record and run. */
#include "run/run.h"
#include "place/store.h"
#include "native_docs.h"

#include <string.h>

/* ------------------------------------------------------------------------------- snapshots */

/* The device that a buffer lives on; what of it lies there, if anything does, and there alone. */
struct npa_resident {
    int buffer;
    npa_store *home, *store; /* store: where the copy is; NULL: there is none */
    size_t valid, newer;
};

static bool copy_residence(npa_snapshot *s, const npa_queue *q)
{
    int n = npa_stores != NULL && q == &npa_q ? s->nbuffers : 0;
    s->resident = n > 0 ? malloc(sizeof *s->resident * (size_t)n) : NULL;
    for (int i = 0; i < n && s->resident != NULL; i++) {
        const npa_buffer *b = npa_q.buffers[i];
        const struct npa_copy *c = b->copy;
        /* A cluster is no backend: nothing is planned here for what runs there */
        bool device = b->placed != NULL && b->placed->channel == NULL;
        s->place = s->place == NULL && !b->fresh && device ? b->placed : s->place;
        npa_store *store = c != NULL && c->store->channel == NULL ? c->store : NULL;
        npa_store *home = device && !b->fresh ? b->placed : store;
        if (home != NULL) {
            s->resident[s->nresident++] = (struct npa_resident){
                i, home, store, store != NULL ? npa_span_length(c->valid) : 0,
                store != NULL ? npa_span_length(c->newer) : 0};
        }
    }
    return n == 0 || s->resident != NULL;
}

static bool is_scalar(const npa_operand *o) { return o->buffer < 0; }

bool npa_snapshot_take(npa_snapshot *s, const npa_queue *q, int requests, int nbuffers, bool sites)
{
    size_t words = 0, scalars = 0;
    for (int i = 0; i < requests; i++) {
        npa_request *r = (npa_request *)(q->arena + q->at[i]);
        for (int k = 0; k < r->nin; k++) {
            scalars += is_scalar(npa_operand_at(r, k));
        }
    }
    *s = (npa_snapshot){.nrequests = requests, .nbuffers = nbuffers, .serial = q->serial,
                        .sites = sites, .nscalars = scalars,
                        .lines = malloc(sizeof *s->lines * (size_t)requests + 16 * scalars + 1)};
    if (s->lines == NULL || !copy_residence(s, q)) {
        free(s->lines);
        return false;
    }
    s->scalars = (char *)(s->lines + requests);
    scalars = 0;
    for (int i = 0; i < requests; i++) {
        npa_request *r = (npa_request *)(q->arena + q->at[i]);
        PyObject *code = sites ? Py_XNewRef(r->code) : NULL;
        s->lines[i] = (struct npa_line){r->rule, code, r->lasti, (uint32_t)scalars, words};
        for (int k = 0; k < r->nin; k++) {
            if (is_scalar(npa_operand_at(r, k))) {
                memcpy(s->scalars + 16 * scalars++, npa_operand_at(r, k)->at, 16);
            }
        }
        words += npa_words_size(r);
    }
    s->end = words;
    return true;
}

void npa_snapshot_drop(npa_snapshot *s)
{
    for (int i = 0; s->sites && i < s->nrequests; i++) {
        Py_XDECREF(s->lines[i].code);
    }
    free(s->lines), free(s->resident);
    *s = (npa_snapshot){0};
}

/* ------------------------------------------------------------------------------ for Python */

typedef struct {
    PyObject_HEAD
    npa_snapshot s;
    PyObject *key;
} pending;

static const npa_snapshot *of(PyObject *self) { return &((pending *)self)->s; }
const npa_snapshot *npa_pending_of(PyObject *self) { return of(self); }

PyObject *npa_pending_new(PyObject *key, npa_snapshot *s)
{
    pending *made = key != NULL ? PyObject_New(pending, &npa_pending_type) : NULL;
    if (made == NULL) {
        npa_snapshot_drop(s);
        return NULL;
    }
    made->s = *s, made->key = Py_NewRef(key);
    made->s.words = PyBytes_AS_STRING(key);
    *s = (npa_snapshot){0};
    return (PyObject *)made;
}

PyObject *npa_pending_take(int requests, const npa_key *key)
{
    npa_snapshot s;
    if (!npa_snapshot_take(&s, &npa_q, requests, npa_buffers_of(&npa_q, requests), true)) {
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

static PyObject *get_residence(PyObject *self, void *unused)
{
    (void)unused;
    PyObject *list = PyList_New(0);
    for (int i = 0; list != NULL && i < of(self)->nresident; i++) {
        struct npa_resident *r = &of(self)->resident[i];
        if (r->store == NULL) {
            continue;
        }
        npa_append(&list, Py_BuildValue("(iOnn)", r->buffer, r->store->name, (Py_ssize_t)r->valid,
                                        (Py_ssize_t)r->newer));
    }
    return list;
}

static PyObject *get_homes(PyObject *self, void *unused)
{
    (void)unused;
    PyObject *table = PyDict_New();
    for (int i = 0; table != NULL && i < of(self)->nresident; i++) {
        struct npa_resident *r = &of(self)->resident[i];
        PyObject *buffer = PyLong_FromLong(r->buffer);
        if (buffer == NULL || PyDict_SetItem(table, buffer, r->home->name) < 0) {
            Py_CLEAR(table);
        }
        Py_XDECREF(buffer);
    }
    return table;
}

static PyObject *get_sites(PyObject *self, void *unused)
{
    (void)unused;
    PyObject *list = PyList_New(0);
    for (int i = 0; list != NULL && i < of(self)->nrequests; i++) {
        struct npa_line *at = &of(self)->lines[i];
        npa_append(&list, Py_BuildValue("(Oi)", at->code ? at->code : Py_None, (int)at->lasti));
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
        const npa_words *r = npa_snapshot_request(of(self), i);
        const npa_operand *o = npa_words_first(r);
        hash = mix(mix(hash, r->rule), r->axes | (uint64_t)r->ndim << 32);
        for (int k = 0; k < npa_words_count(r); k++, o = npa_words_next(r, o)) {
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
        const npa_words *r = npa_snapshot_request(of(self), i);
        double of_request = 1;
        for (int axis = 0; axis < r->ndim; axis++) {
            of_request *= (double)r->shape[axis];
        }
        points += of_request;
    }
    return PyFloat_FromDouble(points);
}

static PyObject *get_scalars(PyObject *self, void *unused)
{
    (void)unused;
    return PyBytes_FromStringAndSize(of(self)->scalars, (Py_ssize_t)(16 * of(self)->nscalars));
}

/* Where the value of a scalar is, and the operand; NULL: there is none. */
static char *scalar_at(const npa_snapshot *s, long request, long input, npa_operand **found)
{
    bool there = request >= 0 && request < s->nrequests;
    const npa_words *r = there ? npa_snapshot_request(s, (int)request) : NULL;
    if (r == NULL || input < 0 || input >= r->nin) {
        return NULL;
    }
    const npa_operand *o = npa_words_first(r);
    char *at = s->scalars + 16 * (size_t)s->lines[request].scalars;
    for (long k = 0; k < input; k++, o = npa_words_next(r, o)) {
        at += is_scalar(o) ? 16 : 0;
    }
    *found = (npa_operand *)o;
    return is_scalar(o) ? at : NULL;
}

void npa_pending_forget(PyObject *self, int request, int input)
{
    const double nan = NPY_NAN;
    npa_operand *o;
    char *at = scalar_at(of(self), request, input, &o);
    if (at != NULL && (o->type == NPY_HALF || o->type == NPY_FLOAT || o->type == NPY_DOUBLE)) {
        memset(at, 0, 16), memset(o->at, 0, 8 * (size_t)o->offset);
        npa_cast_value(NPY_DOUBLE, &nan, o->type, at);
    }
}

static PyObject *structure(PyObject *self, PyObject *limits)
{
    return npa_structure(of(self), limits);
}
static PyObject *numbers(PyObject *self, PyObject *places) { return npa_numbers(of(self), places); }

/* Those of the requests, by id. */
static PyObject *get_rules(PyObject *self, void *unused)
{
    (void)unused;
    PyObject *rules = PyDict_New();
    npa_rule *last = NULL;
    for (int i = 0; rules != NULL && i < of(self)->nrequests; i++) {
        npa_rule *rule = of(self)->lines[i].rule;
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
    {"key", get_key, NULL, "The requests as words; what their program is found by.", NULL},
    {"scalars", get_scalars, NULL, "Values of their scalars.", NULL},
    {"serial", get_serial, NULL, "Number of the flush that it is for.", NULL},
    {"placement", get_placement, NULL, "The device that its data was given, or None.", NULL},
    {"homes", get_homes, NULL, "The device that each buffer of it lives on.", NULL},
    {"residence", get_residence, NULL, "What of that lies on devices.", NULL},
    {"sites", get_sites, NULL, "(code, lasti) per request.", NULL},
    {"outline", get_outline, NULL, "A hash of the requests, sizes aside.", NULL},
    {"points", get_points, NULL, "Elements that they run over.", NULL},
    {"rules", get_rules, NULL, "Their rules by id.", NULL},
    {NULL}};
static PyMethodDef methods[] = {
    {"structure", structure, METH_VARARGS, NPA_DOC_Pending_structure},
    {"numbers", numbers, METH_O, NPA_DOC_Pending_numbers},
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
