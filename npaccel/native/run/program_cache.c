/* program_cache.c: the programs that are known, by the key of the requests they run; also those
 * that run block by block, until it is time to ask for another one.
 *
 * Python fills the table and bounds it; to Python it is a mapping. Here it is searched with the
 * lock alone, since what a touch begins runs without Python. Changes need the GIL and the lock. An
 * entry owns its objects. */
#include "run/run.h"

#include <stdlib.h>
#include <string.h>

typedef struct entry {
    struct entry *next; /* of its bucket */
    uint64_t hash;
    PyObject *key, *program;
} entry;

static struct {
    entry **buckets;
    size_t nbuckets, n; /* buckets: 0 or a power of two */
} table;

/* ------------------------------------------------------------------------------- searching */

/* Where the pointer to the entry with this key is, or would be. There are buckets. */
static entry **place_of(uint64_t hash, const char *bytes, size_t size)
{
    entry **at = &table.buckets[hash & (table.nbuckets - 1)];
    while (*at != NULL &&
           ((*at)->hash != hash || (size_t)PyBytes_GET_SIZE((*at)->key) != size ||
            memcmp(PyBytes_AS_STRING((*at)->key), bytes, size) != 0)) {
        at = &(*at)->next;
    }
    return at;
}

npa_program *npa_program_cache_find(const npa_key *key, bool python)
{
    const entry *e = table.n > 0 ? *place_of(key->hash, key->bytes, key->size) : NULL;
    return e != NULL ? (npa_program *)e->program : npa_template_find(key, python);
}

/* --------------------------------------------------------------------------------- entries */

/* It is in the table no longer. */
static void entry_free(entry *e)
{
    Py_DECREF(e->key), Py_DECREF(e->program);
    free(e);
}

static entry *entry_new(PyObject *key, PyObject *program)
{
    if (!Py_IS_TYPE(program, &npa_program_type)) {
        PyErr_SetString(PyExc_TypeError, "a Program is needed");
        return NULL;
    }
    entry *e = calloc(1, sizeof *e);
    if (e == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    e->key = Py_NewRef(key), e->program = Py_NewRef(program);
    e->hash = npa_hash(PyBytes_AS_STRING(key), (size_t)PyBytes_GET_SIZE(key));
    return e;
}

/* With the lock: it leaves the table, which until now kept its programs alive. */
static entry *unlinked(entry **at)
{
    entry *e = *at;
    *at = e->next;
    table.n--;
    npa_program_settle(e->program);
    return e;
}

/* With the lock. Without memory the chains get longer. */
static void grow(void)
{
    size_t n = table.nbuckets ? 2 * table.nbuckets : 64;
    entry **buckets = calloc(n, sizeof *buckets);
    for (size_t i = 0; buckets != NULL && i < table.nbuckets; i++) {
        for (entry *e = table.buckets[i], *next; e != NULL; e = next) {
            next = e->next;
            e->next = buckets[e->hash & (n - 1)];
            buckets[e->hash & (n - 1)] = e;
        }
    }
    if (buckets != NULL) {
        free(table.buckets);
        table.buckets = buckets, table.nbuckets = n;
    }
}

/* ----------------------------------------------------------------------------- for Python */

/* The entry of a key, or NULL, perhaps with an exception. With the GIL. */
static entry *entry_of(PyObject *key)
{
    if (!PyBytes_Check(key)) {
        PyErr_SetString(PyExc_TypeError, "keys are bytes");
        return NULL;
    }
    const char *bytes = PyBytes_AS_STRING(key);
    size_t size = (size_t)PyBytes_GET_SIZE(key);
    return table.n > 0 ? *place_of(npa_hash(bytes, size), bytes, size) : NULL;
}

static int set_entry(PyObject *self, PyObject *key, PyObject *value)
{
    (void)self;
    entry *old = entry_of(key), *made = NULL;
    if (PyErr_Occurred()) {
        return -1;
    }
    if (value == NULL && old == NULL) {
        PyErr_SetObject(PyExc_KeyError, key);
        return -1;
    }
    if (value != NULL && (made = entry_new(key, value)) == NULL) {
        return -1;
    }
    npa_lock(); /* others may have changed the table while we waited for it */
    if (made != NULL && table.n >= table.nbuckets) {
        grow();
    }
    bool room = table.nbuckets > 0;
    old = NULL;
    if (room) {
        uint64_t hash = npa_hash(PyBytes_AS_STRING(key), (size_t)PyBytes_GET_SIZE(key));
        entry **at = place_of(hash, PyBytes_AS_STRING(key), (size_t)PyBytes_GET_SIZE(key));
        old = *at != NULL ? unlinked(at) : NULL;
        if (made != NULL) {
            made->next = *at, *at = made;
            table.n++;
        }
    }
    npa_unlock();
    if (old != NULL) {
        entry_free(old);
    }
    if (made != NULL && !room) {
        entry_free(made);
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

static PyObject *get_entry(PyObject *self, PyObject *key)
{
    (void)self;
    entry *e = entry_of(key);
    if (e == NULL && !PyErr_Occurred()) {
        PyErr_SetObject(PyExc_KeyError, key);
    }
    return e != NULL ? Py_NewRef(e->program) : NULL;
}

static PyObject *get_or_none(PyObject *self, PyObject *key)
{
    (void)self;
    entry *e = entry_of(key);
    return e != NULL ? Py_NewRef(e->program) : PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

static int has_entry(PyObject *self, PyObject *key)
{
    (void)self;
    return entry_of(key) != NULL ? 1 : PyErr_Occurred() ? -1 : 0;
}

static Py_ssize_t count_entries(PyObject *self)
{
    (void)self;
    return (Py_ssize_t)table.n;
}

static PyObject *list_of(bool keys)
{
    PyObject *list = PyList_New((Py_ssize_t)table.n);
    Py_ssize_t k = 0;
    for (size_t i = 0; list != NULL && i < table.nbuckets; i++) {
        for (entry *e = table.buckets[i]; e != NULL; e = e->next) {
            PyList_SET_ITEM(list, k++, Py_NewRef(keys ? e->key : e->program));
        }
    }
    return list;
}

static PyObject *keys(PyObject *self, PyObject *nothing)
{
    (void)self, (void)nothing;
    return list_of(true);
}

static PyObject *values(PyObject *self, PyObject *nothing)
{
    (void)self, (void)nothing;
    return list_of(false);
}

static PyObject *iterate(PyObject *self)
{
    (void)self;
    PyObject *list = list_of(true), *iterator = list != NULL ? PyObject_GetIter(list) : NULL;
    Py_XDECREF(list);
    return iterator;
}

static PyObject *clear(PyObject *self, PyObject *nothing)
{
    (void)self, (void)nothing;
    entry *all = NULL;
    npa_templates_clear();
    npa_lock();
    for (size_t i = 0; i < table.nbuckets; i++) {
        while (table.buckets[i] != NULL) {
            entry *e = unlinked(&table.buckets[i]);
            e->next = all, all = e;
        }
    }
    npa_unlock();
    for (entry *e = all, *next; e != NULL; e = next) {
        next = e->next;
        entry_free(e);
    }
    Py_RETURN_NONE;
}

static PyObject *update(PyObject *self, PyObject *other)
{
    PyObject *items = PyMapping_Items(other);
    for (Py_ssize_t i = 0; items != NULL && i < PyList_GET_SIZE(items); i++) {
        PyObject *pair = PyList_GET_ITEM(items, i);
        if (set_entry(self, PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1)) < 0) {
            Py_CLEAR(items);
        }
    }
    Py_XDECREF(items);
    return items != NULL ? Py_NewRef(Py_None) : NULL;
}

static PyMethodDef methods[] = {
    {"get", get_or_none, METH_O, "The value of a key, or None."},
    {"keys", keys, METH_NOARGS, "A list of the keys."},
    {"values", values, METH_NOARGS, "A list of the values."},
    {"clear", clear, METH_NOARGS, "Forget all."},
    {"update", update, METH_O, "Add the entries of another mapping."},
    {NULL}};
static PyMappingMethods mapping = {
    .mp_length = count_entries, .mp_subscript = get_entry, .mp_ass_subscript = set_entry};
static PySequenceMethods sequence = {.sq_contains = has_entry};
static PyTypeObject type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "npaccel._native.Plans",
    .tp_basicsize = sizeof(PyObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = "Known programs by key; the core's one table.",
    .tp_as_mapping = &mapping,
    .tp_as_sequence = &sequence,
    .tp_iter = iterate,
    .tp_methods = methods,
};

PyObject *npa_plan(PyObject *pending, const char *how)
{
    int before = npa_now(NPA_PLANNING);
    bool held = npa_hold_signals();
    PyObject *program = how == NULL ? PyObject_CallOneArg(npa_hook_plan, pending)
                                    : PyObject_CallMethod(npa_hook_plan, how, "O", pending);
    npa_release_signals(held);
    npa_now(before);
    return npa_without_us(program);
}

static PyObject *the_table;

PyObject *npa_program_cache(void) { return the_table; }

int npa_program_cache_init(void)
{
    the_table = PyType_Ready(&type) == 0 ? PyObject_New(PyObject, &type) : NULL;
    return the_table != NULL ? 0 : -1;
}
