/* section_python.c: a section as Python sees it. */
#include "macro/macro.h"
#include "macro/section.h"
#include "native_docs.h"

#include <stddef.h>
#include <string.h>

static npa_request *request_at(npa_section *s, int i)
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
        Py_XDECREF(request_at(s, i)->code);
        Py_XDECREF(request_at(s, i)->globals);
    }
    for (int i = 0; i < s->nspots; i++) {
        Py_CLEAR(s->spots[i]->owner);
        npa_spot_leave(s->spots[i]);
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

/* buffer(size) -> a placeholder of that many bytes, or None */
static PyObject *section_buffer(PyObject *self, PyObject *size)
{
    npy_intp n = PyLong_AsSsize_t(size), stride = 1;
    if (n < 0 || npa_here != (npa_section *)self) {
        PyErr_SetString(PyExc_RuntimeError, "buffer: the section must be entered");
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

/* view(buffer, offset, dtype, shape, strides, writable) -> Array over a buffer */
static PyObject *section_view(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *buffer;
    Py_ssize_t offset;
    PyArray_Descr *descr;
    PyArray_Dims shape = {0}, strides = {0};
    int writable;
    if (!PyArg_ParseTuple(args, "O!nO&O&O&p", npa_array_type, &buffer, &offset,
                          PyArray_DescrConverter, &descr, PyArray_IntpConverter, &shape,
                          PyArray_IntpConverter, &strides, &writable)) {
        return NULL;
    }
    PyObject *made = npa_view_over((PyArrayObject *)buffer, npa_array_type, descr, shape.len,
                                   shape.ptr, strides.ptr,
                                   PyArray_BYTES((PyArrayObject *)buffer) + offset,
                                   writable ? NPY_ARRAY_WRITEABLE : 0);
    Py_DECREF(descr);
    PyDimMem_FREE(shape.ptr), PyDimMem_FREE(strides.ptr);
    return made;
}

/* place(array) -> (buffer, offset), or None for one that is not the section's */
static PyObject *section_place(PyObject *self, PyObject *o)
{
    npa_section *s = (npa_section *)self;
    npa_spot *spot = PyArray_Check(o) ? npa_spot_of((PyArrayObject *)o) : NULL;
    if (spot == NULL || spot->section != s) {
        Py_RETURN_NONE;
    }
    Py_ssize_t offset = PyArray_BYTES((PyArrayObject *)o) - npa_buffer_of((PyArrayObject *)o)->base;
    return Py_BuildValue("(in)", npa_spot_index(s, spot), offset);
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
    npa_spot *spot = PyArray_Check(o) ? npa_spot_of((PyArrayObject *)o) : NULL;
    return PyBool_FromLong(spot != NULL && spot->section == (npa_section *)self && spot->scalar);
}

/* Per buffer: (size, written, seen, read, owner or None, address, changed). seen: arrays show it;
 * read: by a fault. */
static PyObject *section_buffers(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    npa_section *s = (npa_section *)self;
    npa_lock();
    npa_collect_dead();
    npa_unlock();
    PyObject *list = PyList_New(0);
    for (int i = 0; list != NULL && i < s->nspots; i++) {
        npa_spot *p = s->spots[i];
        bool changed = p->copy != NULL && memcmp(p->copy, p->base, p->size) != 0;
        npa_append(&list, Py_BuildValue(
            "(nNNNOKN)", (Py_ssize_t)p->size, PyBool_FromLong(p->written),
            PyBool_FromLong(p->owner == NULL && !atomic_load(&p->gone)),
            PyBool_FromLong(atomic_load(&p->raw)), p->owner != NULL ? p->owner : Py_None,
            (unsigned long long)(uintptr_t)p->base, PyBool_FromLong(changed)));
    }
    return list;
}

/* pending(states): its requests as a plan is made for them; floats that calls bring are not
 * numbers. states: per buffer, words as keys have them. */
static PyObject *section_pending(PyObject *self, PyObject *states)
{
    npa_section *s = (npa_section *)self;
    if (!PyBytes_Check(states) || PyBytes_GET_SIZE(states) != (Py_ssize_t)(8 * s->nspots)) {
        return PyErr_Format(PyExc_ValueError, "pending: a word for each buffer is needed");
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
    PyObject *list = PyList_New(0);
    for (int i = 0; list != NULL && i < s->q.nrequests; i++) {
        npa_request *r = request_at(s, i);
        npa_append(&list, Py_BuildValue("(OOi)", r->rule->name, r->code ? r->code : Py_None,
                                       (int)r->lasti));
    }
    return list;
}

/* Per use of a run-time number: (request, operand, slot). */
static PyObject *section_bindings(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    npa_section *s = (npa_section *)self;
    PyObject *list = PyList_New(0);
    for (int i = 0; list != NULL && i < s->nbindings; i++) {
        binding b = s->bindings[i];
        npa_append(&list, Py_BuildValue("(iii)", (int)b.request, (int)b.operand, (int)b.slot));
    }
    return list;
}

/* Of indices that a gather has: (buffer, buffer of the largest or -1). */
static PyObject *section_checks(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    npa_section *s = (npa_section *)self;
    PyObject *list = PyList_New(0);
    for (int i = 0; list != NULL && i < s->nchecks; i++) {
        npa_append(&list, Py_BuildValue("(ii)", (int)s->checks[i].buffer, (int)s->checks[i].last));
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
            fit = npa_bounds_of(&c->of, buffers[c->buffer].base + c->offset) < 2;
        } else if (computed && c->last >= 0) {
            int64_t least, most;
            memcpy(&least, buffers[c->buffer].base, sizeof least);
            memcpy(&most, buffers[c->last].base, sizeof most);
            fit = least >= -c->of.extent && most < c->of.extent;
        }
    }
    return fit;
}

bool npa_section_is_index(PyObject *section, int buffer)
{
    npa_section *s = (npa_section *)section;
    bool found = false;
    for (int i = 0; i < s->nchecks && !found; i++) {
        found = s->checks[i].last < 0 && s->checks[i].buffer == buffer;
    }
    return found;
}

npa_queue *npa_queue_of(PyObject *section) { return &((npa_section *)section)->q; }

static PyMethodDef section_methods[] = {
    {"enter", section_enter, METH_NOARGS, NPA_DOC_Section_enter},
    {"leave", section_leave, METH_NOARGS, NPA_DOC_Section_leave},
    {"close", section_close, METH_NOARGS, NPA_DOC_Section_close},
    {"buffer", section_buffer, METH_O, NPA_DOC_Section_buffer},
    {"view", section_view, METH_VARARGS, NPA_DOC_Section_view},
    {"place", section_place, METH_O, NPA_DOC_Section_place},
    {"scalar", section_scalar, METH_O, NPA_DOC_Section_scalar},
    {"is_scalar", section_is_scalar, METH_O, NPA_DOC_Section_is_scalar},
    {"buffers", section_buffers, METH_NOARGS, NPA_DOC_Section_buffers},
    {"pending", section_pending, METH_O, NPA_DOC_Section_pending},
    {"sites", section_sites, METH_NOARGS, NPA_DOC_Section_sites},
    {"bindings", section_bindings, METH_NOARGS, NPA_DOC_Section_bindings},
    {"checks", section_checks, METH_NOARGS, NPA_DOC_Section_checks},
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
