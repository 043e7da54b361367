/* opener.c: what `npaccel.accelerate()` gives: a context manager that opens a block each time it is
 * entered.
 *
 * Blocks are kept with the frames that opened them: a frame that is in a `with` statement lives,
 * and leaves the block that it entered. Python hears of it (`_opening`, `_opened`, `_leaving`,
 * `_left`) where anything but a block's opening is to be done: a backend is named, nothing can be
 * recorded, or names stand in. */
#include "trace/trace.h"
#include "native_docs.h"

#include <stddef.h>
#include <structmember.h>

typedef struct {
    PyObject *block;
    const void *frame;
} entry;
typedef struct {
    PyObject_HEAD
    Py_ssize_t min_size;
    PyObject *backend, *place;
    bool everywhere;
    Py_ssize_t count, room;
    entry *entries;
} opener;

static bool heard = true; /* Python is to hear of each block */

static bool is_plain(const opener *o) { return !heard && npa_guard_on && o->backend == Py_None; }

static int tell_python(PyObject *self, const char *what)
{
    PyObject *done = PyObject_CallMethod(self, what, NULL);
    Py_XDECREF(done);
    return done != NULL ? 0 : -1;
}

static PyObject *opener_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"min_size", "backend", "everywhere", "place", NULL};
    Py_ssize_t min_size = -1;
    PyObject *backend = Py_None, *place = Py_None;
    int all = 0;
    bool bare = kwargs == NULL && PyTuple_GET_SIZE(args) == 0;
    if (!bare &&
        !PyArg_ParseTupleAndKeywords(args, kwargs, "|$nOpO", names, &min_size, &backend, &all,
                                     &place)) {
        return NULL;
    }
    opener *o = (opener *)type->tp_alloc(type, 0);
    if (o != NULL) {
        o->min_size = min_size, o->backend = Py_NewRef(backend), o->everywhere = all;
        o->place = Py_NewRef(place);
    }
    return (PyObject *)o;
}

/* Keeps a block before it is open, so that an interrupt leaves nothing open for good. Takes the
 * reference. */
static int keep(opener *o, PyObject *block)
{
    if (o->count == o->room) {
        Py_ssize_t room = o->room ? 2 * o->room : 2;
        entry *entries = PyMem_Realloc(o->entries, (size_t)room * sizeof *entries);
        if (entries == NULL) {
            Py_DECREF(block);
            PyErr_NoMemory();
            return -1;
        }
        o->entries = entries, o->room = room;
    }
    o->entries[o->count++] = (entry){block, PyEval_GetFrame()};
    return 0;
}

static PyObject *opener_enter(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    opener *o = (opener *)self;
    bool plain = is_plain(o);
    if (!plain && tell_python(self, "_opening") < 0) {
        return NULL;
    }
    PyObject *block = npa_code_block_new(o->min_size, o->backend, o->place, o->everywhere);
    if (block == NULL || keep(o, block) < 0 || npa_code_block_enter(block) < 0 ||
        (!plain && tell_python(self, "_opened") < 0)) {
        return NULL;
    }
    return Py_NewRef(self);
}

/* The newest block of this context; left from another one, that of the frame; or of all. */
static PyObject *entered(const opener *o)
{
    PyObject *mine = NULL, *frames = NULL;
    const void *frame = PyEval_GetFrame();
    for (Py_ssize_t i = 0; o->count > 1 && i < o->count; i++) {
        mine = npa_code_block_is_mine(o->entries[i].block) ? o->entries[i].block : mine;
        frames = o->entries[i].frame == frame ? o->entries[i].block : frames;
    }
    return mine != NULL ? mine : frames != NULL ? frames : o->entries[o->count - 1].block;
}

/* Leaves a block, whose reference it takes from those kept; another may have done so. */
static int leave(opener *o, PyObject *block)
{
    for (Py_ssize_t i = 0; i < o->count; i++) {
        if (o->entries[i].block == block) {
            for (o->count--; i < o->count; i++) {
                o->entries[i] = o->entries[i + 1];
            }
            int status = npa_code_block_leave(block);
            Py_DECREF(block);
            return status;
        }
    }
    return 0;
}

static PyObject *opener_exit(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    (void)args, (void)nargs;
    opener *o = (opener *)self;
    if (o->count == 0) {
        Py_RETURN_NONE;
    }
    bool plain = is_plain(o);
    PyObject *block = Py_NewRef(entered(o));
    int told = plain ? 0 : tell_python(self, "_leaving"), left = -1;
    if (told == 0) {
        left = leave(o, block);
        told = left == 0 && !plain ? tell_python(self, "_left") : 0;
    } else { /* the block is left, whatever was raised */
        PyObject *type, *value, *trace;
        PyErr_Fetch(&type, &value, &trace);
        if (leave(o, block) < 0 || tell_python(self, "_left") < 0) {
            PyErr_WriteUnraisable(self);
        }
        PyErr_Restore(type, value, trace);
    }
    Py_DECREF(block);
    return told == 0 && left == 0 ? Py_NewRef(Py_None) : NULL;
}

/* Who forgot to leave has left. */
static void opener_finalize(PyObject *self)
{
    opener *o = (opener *)self;
    if (o->count == 0) {
        return;
    }
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    while (o->count > 0) {
        if (leave(o, o->entries[o->count - 1].block) < 0) {
            PyErr_WriteUnraisable(self);
        }
    }
    if (!is_plain(o) && tell_python(self, "_left") < 0) {
        PyErr_WriteUnraisable(self);
    }
    PyErr_Restore(type, value, trace);
}

static void opener_free(PyObject *self)
{
    opener *o = (opener *)self;
    PyMem_Free(o->entries);
    Py_XDECREF(o->backend), Py_XDECREF(o->place);
    Py_TYPE(self)->tp_free(self);
}

/* Whether Python is to hear of each block that is opened or left. */
static PyObject *hear_blocks(PyObject *module, PyObject *all)
{
    (void)module;
    int is = PyObject_IsTrue(all);
    heard = is < 0 ? heard : is > 0;
    return is < 0 ? NULL : Py_NewRef(Py_None);
}

static PyMethodDef opener_methods[] = {
    {"__enter__", opener_enter, METH_NOARGS, NPA_DOC_Opener___enter__},
    {"__exit__", (PyCFunction)(void (*)(void))opener_exit, METH_FASTCALL, NPA_DOC_Opener___exit__},
    {NULL}};
static PyMemberDef opener_members[] = {{"backend", T_OBJECT, offsetof(opener, backend), READONLY,
                                        "What runs inside, by name; None: as configured."},
                                       {NULL}};
static PyTypeObject opener_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "npaccel._native.Opener",
    .tp_basicsize = sizeof(opener),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_new = opener_new,
    .tp_finalize = opener_finalize,
    .tp_dealloc = opener_free,
    .tp_methods = opener_methods,
    .tp_members = opener_members,
};
static PyMethodDef functions[] = {
    {"hear_blocks", hear_blocks, METH_O, NPA_DOC_hear_blocks},
    {NULL}};

int npa_opener_init(PyObject *module)
{
    return PyType_Ready(&opener_type) < 0 || PyModule_AddFunctions(module, functions) < 0
               ? -1 : PyModule_AddObjectRef(module, "Opener", (PyObject *)&opener_type);
}
