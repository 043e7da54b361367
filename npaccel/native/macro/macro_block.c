/* macro_block.c: a section that is a block, `with npaccel.macro("name", *arrays) as m:`.
 *
 * Its body runs each time. What it records is matched against earlier times (match.c); or the block
 * stands aside, and operations on small arrays are done at once. Which of the two takes less time
 * is measured by turns, in the first rounds of the name never: so what a section may not do raises
 * from the first round on.
 *
 * Results have the same classes and bits either way. The first operation on an array of ours that
 * is not one of those that are done at once (aside.c, assign.c, folds.c) is recorded, and so is all
 * that comes after it; then such a block does not stand aside again. */
#include "macro/macro.h"
#include "macro/section.h"
#include "native_docs.h"
#include "run/recordings.h"

#include <stddef.h>
#include <structmember.h>

typedef struct macro_block {
    PyObject_HEAD
    PyObject *blocks, *name, *control, *arrays; /* blocks: Python's, which keeps what is known */
    PyObject *known;  /* Recordings, of an outermost one */
    npa_site site;    /* of the statement that it was entered by */
    int boundscheck;  /* 1, 0: indices are looked at inside, or not; -1: as outside */
    signed char boundscheck_before;
    struct macro_block *outer; /* that this thread is in, while it is inside */
    PyObject *block_before; /* the one in place of which it is told */
    enum npa_way way;
    uint64_t made, begun;
    npa_spending before;
} macro_block;

enum { RECORDED = NPA_WAY_USUAL, ASIDE = NPA_WAY_OTHER };

static __thread macro_block *innermost; /* owned, as is what is around each */

/* ------------------------------------------------------------------------------------ a new one */

static bool are_arrays(PyObject *arrays)
{
    bool all = true;
    for (Py_ssize_t i = 0; all && i < PyTuple_GET_SIZE(arrays); i++) {
        all = PyArray_Check(PyTuple_GET_ITEM(arrays, i));
    }
    return all;
}

/* The same array, a plain one wrapped. */
static PyObject *wrapped(PyObject *o)
{
    return PyArray_CheckExact(o) ? PyArray_View((PyArrayObject *)o, NULL, npa_array_type)
                                 : Py_NewRef(o);
}

static PyObject *block_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"blocks", "name", "arrays", "control", "boundscheck", NULL};
    PyObject *blocks, *name, *arrays, *control;
    int boundscheck;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OUO!Oi", names, &blocks, &name, &PyTuple_Type,
                                     &arrays, &control, &boundscheck)) {
        return NULL;
    }
    macro_block *b = are_arrays(arrays) ? (macro_block *)type->tp_alloc(type, 0) : NULL;
    if (b == NULL) {
        return PyErr_Occurred() ? NULL
                                : PyErr_Format(PyExc_TypeError, "a macro block takes arrays");
    }
    b->blocks = Py_NewRef(blocks), b->name = Py_NewRef(name), b->control = Py_NewRef(control);
    b->boundscheck = boundscheck;
    b->arrays = npa_mapped(arrays, wrapped);
    if (b->arrays == NULL) {
        Py_CLEAR(b);
    }
    return (PyObject *)b;
}

static void drop_site(macro_block *b)
{
    Py_CLEAR(b->site.code);
    Py_CLEAR(b->site.globals);
}

static void block_free(PyObject *self)
{
    macro_block *b = (macro_block *)self;
    Py_XDECREF(b->blocks), Py_XDECREF(b->name), Py_XDECREF(b->control), Py_XDECREF(b->arrays);
    Py_XDECREF(b->known), Py_XDECREF(b->block_before);
    drop_site(b);
    Py_TYPE(self)->tp_free(self);
}

/* --------------------------------------------------------------------------------------- inside */

/* The blocks of this thread that one with its name is among. */
static bool is_open(const macro_block *b)
{
    macro_block *o = innermost;
    while (o != NULL && PyUnicode_Compare(o->name, b->name) != 0) {
        o = o->outer;
    }
    return o != NULL;
}

/* What is known of blocks of this name and control value. 0 or -1 */
static int look_up(macro_block *b)
{
    PyObject *known = PyObject_CallMethod(b->blocks, "known", "OO", b->name, b->control);
    if (known != NULL && !Py_IS_TYPE(known, &npa_recordings_type)) {
        PyErr_SetString(PyExc_TypeError, "Recordings are needed");
        Py_CLEAR(known);
    }
    Py_XSETREF(b->known, known);
    return known != NULL ? 0 : -1;
}

/* From now on what is asked of arrays of ours is recorded, and matched. 0 or -1 */
static int record(macro_block *b)
{
    npa_recordings *known = (npa_recordings *)b->known;
    npa_autotune_weigh(1 + known->skipped), known->skipped = 0;
    return npa_match_begin(b->known) != NULL ? 0 : -1;
}

/* It is told of reads of what is pending. */
static void take_charge(macro_block *b)
{
    b->way = RECORDED;
    b->block_before = npa_section_block;
    npa_section_block = Py_NewRef((PyObject *)b);
    if (b->block_before == NULL) {
        npa_macro_hooks.look(true);
    }
}

/* Of an outermost one: what is pending is run, so that its requests are alone. 0 or -1 */
static int begin(macro_block *b)
{
    npa_run_because(NPA_ASKED);
    if (npa_flush() < 0 || look_up(b) < 0) {
        return -1;
    }
    npa_recordings *known = (npa_recordings *)b->known;
    bool chooses = npa_guard_on && npa_autotune_on && !npa_check_mode && npa_here == NULL &&
                   !known->needs_recording;
    b->way = chooses ? npa_autotune_way(&known->choice) : RECORDED;
    b->made = known->made, b->before = npa_autotune_spent();
    b->begun = chooses ? (uint64_t)npa_clock_ns() : 0;
    if (b->way == RECORDED) {
        return record(b);
    }
    PyObject *done = PyObject_CallMethod(b->blocks, "prepare", NULL);
    if (done == NULL) {
        return -1;
    }
    Py_DECREF(done);
    npa_section_aside = (PyObject *)b;
    return 0;
}

bool npa_stands_aside(void)
{
    return npa_section_aside != NULL && npa_suspended == 0 && npa_q.nrequests == 0 &&
           !npa_copies_exist() && npa_placeholders == 0 && npa_stops == 0;
}

/* The blocks that this thread has entered since that one take charge, in that order. */
static void take_charge_within(macro_block *o, const macro_block *b)
{
    if (o != NULL && o != b) {
        take_charge_within(o->outer, b);
        take_charge(o);
    }
}

void npa_aside_end(void)
{
    macro_block *b = (macro_block *)npa_section_aside;
    if (b == NULL) {
        return;
    }
    npa_section_aside = NULL;
    ((npa_recordings *)b->known)->needs_recording = true;
    if (record(b) < 0) {
        PyErr_WriteUnraisable((PyObject *)b);
    }
    take_charge(b);
    take_charge_within(innermost, b);
}

static PyObject *block_enter(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    macro_block *b = (macro_block *)self;
    drop_site(b);
    npa_capture_site(&b->site);
    if (is_open(b)) {
        return npa_without_us(PyObject_CallMethod(self, "_entered_again", NULL));
    }
    b->way = innermost != NULL ? innermost->way : RECORDED;
    if (innermost == NULL && begin(b) < 0) {
        return NULL;
    }
    if (b->way == RECORDED) {
        take_charge(b);
    }
    b->boundscheck_before = npa_boundscheck_here;
    npa_boundscheck_here = b->boundscheck >= 0 ? (signed char)b->boundscheck : npa_boundscheck_here;
    b->outer = innermost, innermost = (macro_block *)Py_NewRef(self);
    return Py_NewRef(self);
}

/* It is not among this thread's blocks any more, and the reference that these had is the caller's.
 * False: it was not. */
static bool take_out(macro_block *b)
{
    macro_block **at = &innermost;
    while (*at != NULL && *at != b) {
        at = &(*at)->outer;
    }
    if (*at == NULL) {
        return false;
    }
    *at = b->outer;
    b->outer = NULL;
    return true;
}

/* Nothing is recorded for it any more. */
static void leave(macro_block *b)
{
    npa_section_aside = npa_section_aside == (PyObject *)b ? NULL : npa_section_aside;
    if (b->way == RECORDED) {
        if (b->block_before == NULL) {
            npa_match_end();
            npa_macro_hooks.look(false);
        }
        PyObject *mine = npa_section_block;
        npa_section_block = b->block_before;
        b->block_before = NULL;
        Py_XDECREF(mine);
    }
}

/* What the round of an outermost block tells; good: it ended at its end. */
static void count(macro_block *b, bool good)
{
    npa_recordings *known = (npa_recordings *)b->known;
    bool matched = known->made == b->made;
    known->bodies++, known->skipped += b->way == ASIDE;
    npa_autotune_weigh(1);
    known->aside += b->way == ASIDE;
    known->replays += good && b->way == RECORDED && matched;
    if (b->begun == 0) {
        return;
    }
    npa_autotune_took(&known->choice, b->way, (uint64_t)npa_clock_ns() - b->begun, good && matched,
                   b->before);
}

static PyObject *block_exit(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    macro_block *b = (macro_block *)self;
    bool good = nargs < 1 || args[0] == Py_None;
    if (!take_out(b)) {
        return PyErr_Format(PyExc_RuntimeError,
                            "the macro section %R was left where it was not entered", b->name);
    }
    npa_boundscheck_here = b->boundscheck_before;
    int status = 0;
    if (b->known != NULL && good && npa_q.nrequests > 0) { /* else it stays pending */
        npa_run_because(NPA_ASKED);
        status = npa_flush();
    }
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    leave(b);
    if (b->known != NULL) {
        count(b, good && status == 0);
        Py_CLEAR(b->known);
    }
    PyErr_Restore(type, value, trace);
    Py_DECREF(b);
    return status == 0 ? Py_NewRef(Py_None) : NULL;
}

/* (file, line) of the statement that it was entered by. */
static PyObject *block_line(PyObject *self, void *unused)
{
    (void)unused;
    npa_site *site = &((macro_block *)self)->site;
    PyCodeObject *code = (PyCodeObject *)site->code;
    return code != NULL ? Py_BuildValue("Oi", code->co_filename,
                                        PyCode_Addr2Line(code, site->lasti))
                        : Py_BuildValue("si", "", 0);
}

static PyMethodDef block_methods[] = {
    {"__enter__", block_enter, METH_NOARGS, NPA_DOC_MacroBlock___enter__},
    {"__exit__", (PyCFunction)(void (*)(void))block_exit, METH_FASTCALL,
     NPA_DOC_MacroBlock___exit__},
    {NULL}};
static PyMemberDef block_members[] = {
    {"arrays", T_OBJECT_EX, offsetof(macro_block, arrays), READONLY,
     "The arrays as npaccel takes them."},
    {"name", T_OBJECT_EX, offsetof(macro_block, name), READONLY, "As it was given."},
    {NULL}};
static PyGetSetDef block_getset[] = {
    {"line", block_line, NULL, "File and line at which it was entered.", NULL}, {NULL}};
static PyTypeObject block_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "npaccel._native.MacroBlock",
    .tp_basicsize = sizeof(macro_block),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_doc = "A macro section that is a block of code.",
    .tp_new = block_new,
    .tp_dealloc = block_free,
    .tp_methods = block_methods,
    .tp_members = block_members,
    .tp_getset = block_getset,
};

int npa_macro_block_init(PyObject *module)
{
    return PyType_Ready(&block_type) < 0
               ? -1 : PyModule_AddObjectRef(module, "MacroBlock", (PyObject *)&block_type);
}
