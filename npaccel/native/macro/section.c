/* section.c: a macro section while its body runs for the first time.
 *
 * The arguments are placeholders: Arrays over guarded memory that never gets any content. What the
 * body does with them is appended to a queue of the section's own and never run; macro.c runs it on
 * real memory. A block ("spot") is a placeholder's memory, or an array from outside that the body
 * reads. Who reads a placeholder gets an exception, or, if no code of ours is asked, leaves a mark.
 */
#include "macro/macro.h"

#include <stddef.h>
#include <string.h>

struct npa_spot {
    struct npa_section *section; /* NULL: over */
    size_t size;
    atomic_int users; /* the section, the buffer */
    atomic_bool gone, raw;
    bool written;
    bool scalar; /* stands for a NumPy scalar, which nothing can change */
    PyObject *owner; /* of an array from outside: owned */
    char *base, *copy;
};

typedef struct { int32_t request, operand, slot; } binding;

/* Indices that each replay looks through: as they are at its begin, in a block; or their extremes,
 * which it computes, in two. */
typedef struct {
    int32_t block, last; /* last: of the largest; -1: `block` has them all */
    int64_t offset;
    npa_indices of;
} check;

typedef struct npa_section {
    PyObject_HEAD
    npa_queue q; /* its requests; no buffers */
    PyObject *stop; /* stop(kind, what, block): raises */
    PyObject *called; /* see calls.c */
    npa_spot **spots;
    binding *bindings;
    check *checks;
    int nspots, spots_cap, nbindings, bindings_cap, nchecks, checks_cap;
    bool closed;
} npa_section;

struct npa_macro_hooks npa_macro_hooks;

/* In a section that is a block, requests go to the queue as ever, but those on small arrays too.
 * stop(kind, what, block), which is asked about reads of what is pending, and may raise. */
static __thread PyObject *block_stop;

/* Room for one more of `size` bytes in *at. */
static bool grow(void *at, int n, int *cap, size_t size)
{
    void **p = at;
    if (n < *cap) {
        return true;
    }
    int more = *cap ? 2 * *cap : 16;
    void *grown = realloc(*p, size * (size_t)more);
    if (grown != NULL) {
        *p = grown, *cap = more;
    }
    return grown != NULL;
}

/* ---------------------------------------------------------------------------------- blocks */

static void spot_leave(npa_spot *spot)
{
    if (atomic_fetch_sub(&spot->users, 1) == 1) {
        free(spot->copy);
        free(spot);
    }
}

static npa_spot *add_spot(npa_section *s, size_t size)
{
    npa_spot *spot = grow(&s->spots, s->nspots, &s->spots_cap, sizeof *s->spots)
                         ? calloc(1, sizeof *spot) : NULL;
    if (spot != NULL) {
        spot->section = s, spot->size = size;
        atomic_store(&spot->users, 1);
        s->spots[s->nspots++] = spot;
    }
    return spot;
}

/* For a new array's memory. NULL: out of memory; then it counts as one from outside. */
npa_spot *npa_spot_new(size_t size)
{
    npa_spot *spot = add_spot(npa_here, size);
    if (spot != NULL) {
        atomic_store(&spot->users, 2);
        atomic_fetch_add(&npa_placeholders, 1);
    }
    return spot;
}

void npa_spot_gone(npa_spot *spot)
{
    atomic_store(&spot->gone, true);
    atomic_fetch_sub(&npa_placeholders, 1);
    spot_leave(spot);
}

void npa_spot_read_raw(npa_spot *spot) { atomic_store(&spot->raw, true); }

static npa_spot *spot_of(PyArrayObject *a)
{
    npa_buffer *b = npa_buffer_of(a);
    return b != NULL ? b->spot : NULL;
}

static int index_of(const npa_section *s, const npa_spot *spot)
{
    int i = s->nspots - 1;
    while (i >= 0 && s->spots[i] != spot) {
        i--;
    }
    return i;
}

/* Small ones are compared at the end: the body must not change what it read. */
enum { MOST_COPIED = 16 << 20 };

/* The block of an array from outside, perhaps new. NULL: exception set. */
static npa_spot *outside(npa_section *s, PyArrayObject *a)
{
    PyArrayObject *root = npa_root_of(a);
    for (int i = 0; i < s->nspots; i++) {
        if (s->spots[i]->owner == (PyObject *)root) {
            return s->spots[i];
        }
    }
    char *low, *high;
    npa_extent(root, &low, &high);
    npa_spot *spot = npa_touch(root, false) < 0 ? NULL : add_spot(s, (size_t)(high - low));
    if (spot != NULL) {
        spot->owner = Py_NewRef((PyObject *)root);
        spot->base = low;
        spot->copy = spot->size <= MOST_COPIED ? malloc(spot->size + 1) : NULL;
        if (spot->copy != NULL) {
            memcpy(spot->copy, low, spot->size);
        }
    } else if (!PyErr_Occurred()) {
        PyErr_NoMemory();
    }
    return spot;
}

/* Call stop(kind, what, block), which raises; block -1: none. */
static void stop(npa_section *s, const char *kind, const char *what, int block)
{
    PyObject *done = npa_without_us(PyObject_CallFunction(s->stop, "ssi", kind, what, block));
    if (done != NULL) {
        Py_DECREF(done);
        PyErr_SetString(PyExc_SystemError, "a section was to be stopped");
    }
}

static void stop_write(npa_section *s, PyArrayObject *a)
{
    char which[24]; /* id() of the array that owns the memory */
    PyOS_snprintf(which, sizeof which, "%lu", (unsigned long)(uintptr_t)npa_root_of(a));
    stop(s, "write", which, -1);
}

int npa_section_stop(PyArrayObject *a, const char *what)
{
    if (block_stop != NULL && what != NULL && npa_is_pending(a)) {
        PyObject *done = npa_without_us(PyObject_CallFunction(block_stop, "ssi", "read", what, -1));
        Py_XDECREF(done);
        return done != NULL ? 0 : -1;
    }
    npa_spot *spot = npa_placeholders > 0 ? spot_of(a) : NULL;
    if (spot == NULL) {
        return 0;
    }
    if (spot->section == NULL) {
        PyErr_SetString(PyExc_RuntimeError,
                        "this array was made while a macro section was recorded, and was kept "
                        "outside of it; it has no values");
        return -1;
    }
    stop(spot->section, what != NULL ? "read" : "numpy", what != NULL ? what : "",
         index_of(spot->section, spot));
    return -1;
}

/* Of a plain array, which may show a placeholder's memory or a pending result's: a[key] takes
 * something out of it now. */
int npa_section_sees_read(PyObject *a, PyObject *key)
{
    bool mine = npa_here != NULL || block_stop != NULL;
    return !mine || npa_suspended || !PyArray_CheckExact(a) ||
                   npa_buffer_of((PyArrayObject *)a) == NULL ||
                   npa_key_kind((PyArrayObject *)a, key) == 1 || npa_internal_code()
               ? 0
               : npa_section_stop((PyArrayObject *)a, "an element");
}

/* Whether it is the section's, or (looked into) has something of it among its items. */
static bool is_computed_here(PyObject *value, bool into)
{
    if (into && (PyList_CheckExact(value) || PyTuple_CheckExact(value))) {
        bool found = false;
        for (Py_ssize_t i = 0; i < Py_SIZE(value) && !found; i++) {
            found = is_computed_here(PySequence_Fast_ITEMS(value)[i], false);
        }
        return found;
    }
    npa_value v = {.object = value, .array = PyArray_Check(value) ? (PyArrayObject *)value : NULL};
    return npa_section_wants(&v, 1);
}

/* The same of a[...] = value: what a section computes would be written by NumPy, now. */
int npa_section_sees_write(PyObject *a, PyObject *value)
{
    if (npa_here == NULL || npa_suspended || !PyArray_CheckExact(a) || value == NULL ||
        npa_internal_code()) {
        return 0;
    }
    if (spot_of((PyArrayObject *)a) != NULL || !is_computed_here(value, true)) {
        return npa_section_stop((PyArrayObject *)a, "its memory");
    }
    stop_write(npa_here, (PyArrayObject *)a);
    return -1;
}

bool npa_section_block_wants(const npa_value *values, int n)
{
    for (int k = 0; block_stop != NULL && !npa_suspended && k < n; k++) {
        PyArrayObject *a = values[k].array;
        if (a != NULL && Py_IS_TYPE(a, npa_array_type) && PyArray_NDIM(a) > 0 &&
            PyArray_SIZE(a) > 0) {
            return true;
        }
    }
    return false;
}

bool npa_section_wants(const npa_value *values, int n)
{
    for (int k = 0; k < n; k++) {
        PyObject *o = values[k].object;
        if (values[k].array != NULL) {
            npa_spot *spot = spot_of(values[k].array);
            if (spot != NULL && spot->section == npa_here) {
                return true;
            }
        } else if (o != NULL && PyObject_TypeCheck(o, &npa_runtime_type)) {
            return true;
        }
    }
    return false;
}

bool npa_section_place(PyArrayObject *a, bool write, int32_t *block, int64_t *offset)
{
    npa_section *s = npa_here;
    npa_spot *spot = spot_of(a);
    if (spot != NULL && spot->section != s) {
        return npa_section_stop(a, NULL) == 0;
    }
    bool foreign = spot == NULL;
    if (foreign) {
        if (write) {
            stop_write(s, a);
            return false;
        }
        spot = outside(s, a);
    }
    if (spot == NULL) {
        return false;
    }
    if (write && spot->scalar && PyArray_NDIM(a) > 0) {
        stop(s, "refuse", "it writes to a view of a scalar", -1);
        return false;
    }
    char *base = foreign ? spot->base : npa_buffer_of(a)->base;
    *block = index_of(s, spot);
    *offset = PyArray_BYTES(a) - base;
    spot->written |= write;
    if (*offset & (PyArray_ITEMSIZE(a) - 1)) {
        stop(s, "refuse", "arrays that share memory do not lie whole elements apart", -1);
        return false;
    }
    return true;
}

bool npa_section_is_scalar(PyArrayObject *a)
{
    npa_spot *spot = npa_here != NULL && PyArray_NDIM(a) == 0 ? spot_of(a) : NULL;
    return spot != NULL && spot->section == npa_here && spot->scalar;
}

void npa_section_set_scalar(PyArrayObject *a)
{
    npa_spot *spot = spot_of(a);
    if (spot != NULL) {
        spot->scalar = true;
    }
}

npa_queue *npa_section_queue(void) { return &npa_here->q; }

bool npa_section_bind(int request, int operand, int slot)
{
    npa_section *s = npa_here;
    if (!grow(&s->bindings, s->nbindings, &s->bindings_cap, sizeof *s->bindings)) {
        return false;
    }
    s->bindings[s->nbindings++] = (binding){request, operand, slot};
    return true;
}

/* --------------------------------------------------------------------------- what Python sees */

static npa_request *request(npa_section *s, int i)
{
    return (npa_request *)(s->q.arena + s->q.at[i]);
}

static PyObject *section_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *hook, *called;
    static char *names[] = {"stop", "called", NULL};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO", names, &hook, &called)) {
        return NULL;
    }
    npa_section *s = (npa_section *)type->tp_alloc(type, 0);
    if (s != NULL) {
        s->stop = Py_NewRef(hook), s->called = Py_NewRef(called);
    }
    return (PyObject *)s;
}

/* Its placeholders have no section any more; the requests stay. */
static void close_section(npa_section *s)
{
    for (int i = 0; i < s->nspots; i++) {
        s->spots[i]->section = NULL;
    }
    s->closed = true;
    Py_CLEAR(s->stop);
    Py_CLEAR(s->called);
}

static void section_free(PyObject *self)
{
    npa_section *s = (npa_section *)self;
    close_section(s);
    for (int i = 0; i < s->q.nrequests; i++) {
        Py_XDECREF(request(s, i)->code);
        Py_XDECREF(request(s, i)->globals);
    }
    for (int i = 0; i < s->nspots; i++) {
        Py_CLEAR(s->spots[i]->owner);
        spot_leave(s->spots[i]);
    }
    free(s->spots), free(s->bindings), free(s->checks), free(s->q.arena), free(s->q.at);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *section_enter(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    if (npa_here != NULL || ((npa_section *)self)->closed) {
        PyErr_SetString(PyExc_RuntimeError, "a section is entered once, and in no other");
        return NULL;
    }
    npa_here = (npa_section *)self;
    if (npa_calls_listen(npa_here->called) < 0) {
        npa_here = NULL;
        return NULL;
    }
    npa_macro_hooks.look(true);
    Py_RETURN_NONE;
}

static PyObject *section_leave(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    if (npa_here == (npa_section *)self) {
        npa_macro_hooks.look(false);
        npa_calls_end();
        npa_here = NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *section_close(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    close_section((npa_section *)self);
    Py_RETURN_NONE;
}

/* block(size) -> a placeholder of that many bytes, or None */
static PyObject *section_block(PyObject *self, PyObject *size)
{
    npy_intp n = PyLong_AsSsize_t(size), stride = 1;
    if (n < 0 || npa_here != (npa_section *)self) {
        PyErr_SetString(PyExc_RuntimeError, "block: the section must be entered");
        return NULL;
    }
    PyArray_Descr *bytes = PyArray_DescrFromType(NPY_UBYTE);
    PyObject *made = npa_new_array(bytes, 1, &n, &stride);
    Py_DECREF(bytes);
    if (made == NULL && !PyErr_Occurred()) {
        Py_RETURN_NONE;
    }
    return made;
}

/* view(block, offset, dtype, shape, strides, writable) -> Array over a block */
static PyObject *section_view(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *block;
    Py_ssize_t offset;
    PyArray_Descr *descr;
    PyArray_Dims shape = {0}, strides = {0};
    int writable;
    if (!PyArg_ParseTuple(args, "O!nO&O&O&p", npa_array_type, &block, &offset,
                          PyArray_DescrConverter, &descr, PyArray_IntpConverter, &shape,
                          PyArray_IntpConverter, &strides, &writable)) {
        return NULL;
    }
    PyObject *made = PyArray_NewFromDescr(npa_array_type, descr, shape.len, shape.ptr, strides.ptr,
                                          PyArray_BYTES((PyArrayObject *)block) + offset,
                                          writable ? NPY_ARRAY_WRITEABLE : 0, NULL);
    if (made != NULL && PyArray_SetBaseObject((PyArrayObject *)made, Py_NewRef(block)) < 0) {
        Py_CLEAR(made);
    }
    PyDimMem_FREE(shape.ptr), PyDimMem_FREE(strides.ptr);
    return made;
}

/* place(array) -> (block, offset), or None for one that is not the section's */
static PyObject *section_place(PyObject *self, PyObject *o)
{
    npa_section *s = (npa_section *)self;
    npa_spot *spot = PyArray_Check(o) ? spot_of((PyArrayObject *)o) : NULL;
    if (spot == NULL || spot->section != s) {
        Py_RETURN_NONE;
    }
    Py_ssize_t offset = PyArray_BYTES((PyArrayObject *)o) - npa_buffer_of((PyArrayObject *)o)->base;
    return Py_BuildValue("(in)", index_of(s, spot), offset);
}

/* scalar(view): it stands for a NumPy scalar. */
static PyObject *section_scalar(PyObject *self, PyObject *o)
{
    (void)self;
    if (PyArray_Check(o)) {
        npa_section_set_scalar((PyArrayObject *)o);
    }
    Py_RETURN_NONE;
}

/* is_scalar(array): whether it does. */
static PyObject *section_is_scalar(PyObject *self, PyObject *o)
{
    npa_spot *spot = PyArray_Check(o) ? spot_of((PyArrayObject *)o) : NULL;
    return PyBool_FromLong(spot != NULL && spot->section == (npa_section *)self && spot->scalar);
}

/* Per block: (size, written, seen, read, owner or None, address, changed). seen: arrays show it;
 * read: by a fault. */
static PyObject *section_blocks(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    npa_section *s = (npa_section *)self;
    npa_lock();
    npa_collect_dead();
    npa_unlock();
    PyObject *list = PyList_New(s->nspots);
    for (int i = 0; list != NULL && i < s->nspots; i++) {
        npa_spot *p = s->spots[i];
        bool changed = p->copy != NULL && memcmp(p->copy, p->base, p->size) != 0;
        PyObject *item = Py_BuildValue(
            "(nNNNOKN)", (Py_ssize_t)p->size, PyBool_FromLong(p->written),
            PyBool_FromLong(p->owner == NULL && !atomic_load(&p->gone)),
            PyBool_FromLong(atomic_load(&p->raw)), p->owner != NULL ? p->owner : Py_None,
            (unsigned long long)(uintptr_t)p->base, PyBool_FromLong(changed));
        if (item == NULL) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, i, item);
    }
    return list;
}

/* pending(states): its requests as a plan is made for them; floats that calls bring are not
 * numbers. states: per block, words as keys have them. */
static PyObject *section_pending(PyObject *self, PyObject *states)
{
    npa_section *s = (npa_section *)self;
    if (!PyBytes_Check(states) || PyBytes_GET_SIZE(states) != (Py_ssize_t)(8 * s->nspots)) {
        return PyErr_Format(PyExc_ValueError, "pending: a word for each block is needed");
    }
    npa_snapshot shot;
    if (!npa_snapshot_take(&shot, &s->q, s->q.nrequests, s->nspots, true)) {
        return PyErr_NoMemory();
    }
    PyObject *key = npa_words_with(&s->q, (const uint64_t *)PyBytes_AS_STRING(states), s->nspots);
    PyObject *made = npa_pending_new(key, &shot);
    Py_XDECREF(key);
    for (int i = 0; made != NULL && i < s->nbindings; i++) {
        npa_pending_forget(made, s->bindings[i].request, s->bindings[i].operand);
    }
    return made;
}

static PyObject *section_sites(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    npa_section *s = (npa_section *)self;
    PyObject *list = PyList_New(s->q.nrequests);
    for (int i = 0; list != NULL && i < s->q.nrequests; i++) {
        npa_request *r = request(s, i);
        PyObject *item = Py_BuildValue("(OOi)", r->rule->name, r->code ? r->code : Py_None,
                                       (int)r->lasti);
        if (item == NULL) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, i, item);
    }
    return list;
}

/* Per use of a run-time number: (request, operand, slot). */
static PyObject *section_bindings(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    npa_section *s = (npa_section *)self;
    PyObject *list = PyList_New(s->nbindings);
    for (int i = 0; list != NULL && i < s->nbindings; i++) {
        binding b = s->bindings[i];
        PyObject *item = Py_BuildValue("(iii)", (int)b.request, (int)b.operand, (int)b.slot);
        if (item == NULL) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, i, item);
    }
    return list;
}

/* Of indices that a gather has: (block, block of the largest or -1). */
static PyObject *section_checks(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    npa_section *s = (npa_section *)self;
    PyObject *list = PyList_New(s->nchecks);
    for (int i = 0; list != NULL && i < s->nchecks; i++) {
        PyObject *item = Py_BuildValue("(ii)", (int)s->checks[i].block, (int)s->checks[i].last);
        if (item == NULL) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, i, item);
    }
    return list;
}

bool npa_section_indices_fit(PyObject *section, const npa_buffer *buffers, bool computed)
{
    npa_section *s = (npa_section *)section;
    bool fit = true;
    for (int i = 0; i < s->nchecks && fit; i++) {
        const check *c = &s->checks[i];
        if (!computed && c->last < 0) {
            fit = npa_bounds_of(&c->of, buffers[c->block].base + c->offset) < 2;
        } else if (computed && c->last >= 0) {
            int64_t least, most;
            memcpy(&least, buffers[c->block].base, sizeof least);
            memcpy(&most, buffers[c->last].base, sizeof most);
            fit = least >= -c->of.extent && most < c->of.extent;
        }
    }
    return fit;
}

bool npa_section_is_index(PyObject *section, int block)
{
    npa_section *s = (npa_section *)section;
    bool found = false;
    for (int i = 0; i < s->nchecks && !found; i++) {
        found = s->checks[i].last < 0 && s->checks[i].block == block;
    }
    return found;
}

npa_queue *npa_queue_of(PyObject *section) { return &((npa_section *)section)->q; }

static PyMethodDef section_methods[] = {
    {"enter", section_enter, METH_NOARGS, "This thread records into it from now on."},
    {"leave", section_leave, METH_NOARGS, "No longer."},
    {"close", section_close, METH_NOARGS, "Its placeholders can't be used any more."},
    {"block", section_block, METH_O, "A placeholder of so many bytes."},
    {"view", section_view, METH_VARARGS, "An Array over a placeholder."},
    {"place", section_place, METH_O, "Block and offset of an array."},
    {"scalar", section_scalar, METH_O, "This array stands for a NumPy scalar."},
    {"is_scalar", section_is_scalar, METH_O, "Whether an array does."},
    {"blocks", section_blocks, METH_NOARGS, "What is known of each block."},
    {"pending", section_pending, METH_O, "Its requests as a plan is made for them."},
    {"sites", section_sites, METH_NOARGS, "As in history()."},
    {"bindings", section_bindings, METH_NOARGS, "Uses of run-time numbers."},
    {"checks", section_checks, METH_NOARGS, "Of indices."},
    {NULL}};

PyTypeObject npa_section_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "npaccel._native.Section",
    .tp_basicsize = sizeof(npa_section),
    .tp_dealloc = section_free,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "A macro section while its body runs for the first time.",
    .tp_methods = section_methods,
    .tp_new = section_new,
};

/* ------------------------------------------------------------------------- for all of Python */

static PyObject *in_section(PyObject *module, PyObject *args)
{
    (void)module;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); i++) {
        PyObject *o = PyTuple_GET_ITEM(args, i);
        npa_spot *spot = npa_placeholders > 0 && PyArray_Check(o) ? spot_of((PyArrayObject *)o)
                                                                  : NULL;
        if (spot != NULL && spot->section != NULL) {
            Py_RETURN_TRUE;
        }
    }
    return PyBool_FromLong(npa_here != NULL && PyTuple_GET_SIZE(args) == 0);
}

/* copies_scalar(of, copy): where `of` stands for a NumPy scalar, so does `copy`. */
static PyObject *copies_scalar(PyObject *module, PyObject *args)
{
    (void)module;
    PyArrayObject *of, *copy;
    if (!PyArg_ParseTuple(args, "O!O!", &PyArray_Type, &of, &PyArray_Type, &copy)) {
        return NULL;
    }
    if (npa_section_is_scalar(of)) {
        npa_section_set_scalar(copy);
    }
    Py_RETURN_NONE;
}

/* reading(array, how): raises where `array` has no values since it is a section's. */
static PyObject *reading(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *o;
    const char *how;
    if (!PyArg_ParseTuple(args, "O!s", &PyArray_Type, &o, &how) ||
        npa_section_stop((PyArrayObject *)o, how) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* evaluating(): raises inside a section. */
static PyObject *evaluating(PyObject *module, PyObject *nothing)
{
    (void)module, (void)nothing;
    if (npa_here != NULL) {
        stop(npa_here, "evaluate", "", -1);
        return NULL;
    }
    return block_stop != NULL
               ? npa_without_us(PyObject_CallFunction(block_stop, "ssi", "evaluate", "", -1))
               : Py_NewRef(Py_None);
}

/* in_macro_block(stop or None, recordings or None) -> what `stop` was: for this thread. None: no
 * matching, or the one that goes on. */
static PyObject *in_macro_block(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *hook, *recordings;
    if (!PyArg_ParseTuple(args, "OO", &hook, &recordings) ||
        (recordings != Py_None && npa_match_begin(recordings) == NULL)) {
        return NULL;
    }
    if (hook == Py_None) {
        npa_match_end();
    }
    PyObject *before = block_stop != NULL ? block_stop : Py_NewRef(Py_None);
    if ((hook != Py_None) != (block_stop != NULL)) {
        npa_macro_hooks.look(hook != Py_None);
    }
    block_stop = hook != Py_None ? Py_NewRef(hook) : NULL;
    return before;
}

/* refuse(why): inside a section, which then runs without being recorded; else nothing. */
static PyObject *refuse(PyObject *module, PyObject *why)
{
    (void)module;
    const char *text = PyUnicode_Check(why) ? PyUnicode_AsUTF8(why) : "";
    if (npa_here != NULL && text != NULL) {
        stop(npa_here, "refuse", text, -1);
        return NULL;
    }
    return text != NULL ? Py_NewRef(Py_None) : NULL;
}

static bool add_check(check c)
{
    npa_section *s = npa_here;
    if (!grow(&s->checks, s->nchecks, &s->checks_cap, sizeof *s->checks)) {
        PyErr_NoMemory();
        return false;
    }
    s->checks[s->nchecks++] = c;
    return true;
}

/* check_index(index, extent) -> whether each replay will look whether indices are in bounds; False:
 * they are computed in the section, so their extremes must be. */
static PyObject *check_index(PyObject *module, PyObject *args)
{
    (void)module;
    PyArrayObject *index;
    Py_ssize_t extent;
    check c = {.last = -1};
    if (!PyArg_ParseTuple(args, "O!n", &PyArray_Type, &index, &extent) ||
        !npa_section_place(index, false, &c.block, &c.offset)) {
        return NULL;
    }
    if (npa_here->spots[c.block]->written || !npa_indices_of(index, extent, &c.of)) {
        Py_RETURN_FALSE;
    }
    return add_check(c) ? Py_NewRef(Py_True) : NULL;
}

/* check_extremes(least, most, extent): int64 without dimensions, computed in the section. */
static PyObject *check_extremes(PyObject *module, PyObject *args)
{
    (void)module;
    PyArrayObject *least, *most;
    check c = {.last = -1};
    if (!PyArg_ParseTuple(args, "O!O!n", &PyArray_Type, &least, &PyArray_Type, &most,
                          &c.of.extent) ||
        !npa_section_place(least, false, &c.block, &c.offset) ||
        !npa_section_place(most, false, &c.last, &c.offset) || !add_check(c)) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* plainly(function, args, kwargs): its result, whatever it calls being NumPy's. */
static PyObject *plainly(PyObject *module, PyObject *given)
{
    (void)module;
    PyObject *function, *args, *kwargs;
    if (!PyArg_ParseTuple(given, "OO!O!", &function, &PyTuple_Type, &args, &PyDict_Type, &kwargs)) {
        return NULL;
    }
    npa_suspended++;
    PyObject *result = PyObject_Call(function, args, kwargs);
    npa_suspended--;
    return result;
}

static PyObject *errstate(PyObject *module, PyObject *nothing)
{
    (void)module, (void)nothing;
    int state = npa_checked_errstate();
    return state < -1 ? NULL : PyLong_FromLong(state);
}

static PyMethodDef functions[] = {
    {"in_macro_block", in_macro_block, METH_VARARGS, "Record arrays of any size in this thread."},
    {"refuse", refuse, METH_O, "A section that this thread records can't be."},
    {"check_index", check_index, METH_VARARGS, "Have replays look whether indices are in bounds."},
    {"check_extremes", check_extremes, METH_VARARGS, "The same of what a section computes."},
    {"plainly", plainly, METH_VARARGS, "Call a function; what it calls is NumPy's."},
    {"errstate", errstate, METH_NOARGS,
     "As in a request, and whether checks are on; -1: not only ignore and warn."},
    {"in_section", in_section, METH_VARARGS,
     "Whether an argument, or without any this thread, is in one."},
    {"copies_scalar", copies_scalar, METH_VARARGS, "A section's scalar's copy is a scalar, too."},
    {"reading", reading, METH_VARARGS, "Raise where an array is a section's."},
    {"evaluating", evaluating, METH_NOARGS, "Raise inside a section."},
    {NULL}};

int npa_section_init(PyObject *module)
{
    return PyType_Ready(&npa_section_type) < 0 || PyType_Ready(&npa_runtime_type) < 0 ||
                   PyModule_AddFunctions(module, functions) < 0 ||
                   PyModule_AddObjectRef(module, "Section", (PyObject *)&npa_section_type) < 0 ||
                   PyModule_AddObjectRef(module, "Runtime", (PyObject *)&npa_runtime_type) < 0
               ? -1 : 0;
}
