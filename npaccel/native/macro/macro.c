/* macro.c: the callable that stands for a function decorated with npaccel.macro. */
#include "macro/macro.h"
#include "macro/replay.h"
#include "native_docs.h"

#include <stddef.h>
#include <string.h>

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *miss; /* miss(args, kwargs, why): no variant fits, or the body must run */
    PyObject *dict, *weak;
    npa_replay **variants; /* latest first */
    int n;
} macro;

static PyObject *missed(macro *m, PyObject *const *args, Py_ssize_t n, PyObject *names,
                        const char *why)
{
    PyObject *tuple, *kwargs, *result = NULL;
    if (npa_packed(args, n, names, &tuple, &kwargs)) {
        result = npa_without_us(PyObject_CallFunction(m->miss, "OOs", tuple, kwargs, why));
    }
    Py_XDECREF(tuple), Py_XDECREF(kwargs);
    return result;
}

static PyObject *macro_call(PyObject *self, PyObject *const *args, size_t nargs, PyObject *names)
{
    macro *m = (macro *)self;
    Py_ssize_t n = PyVectorcall_NARGS(nargs);
    PyObject *result = NULL;
    const char *why = "";
    for (int i = 0; npa_here == NULL && !npa_bodies_run() && i < m->n; i++) {
        npa_replay *r = (npa_replay *)Py_NewRef(m->variants[i]);
        int status = npa_replay_try(r, args, n, names, &result, &why);
        if (status != 0 && i > 0 && i < m->n && m->variants[i] == r) { /* none went meanwhile */
            m->variants[i] = m->variants[0], m->variants[0] = r;
        }
        Py_DECREF(r);
        if (status == 2) {
            break;
        }
        if (status != 0) {
            return status > 0 ? result : NULL;
        }
    }
    return missed(m, args, n, names, why);
}

static PyObject *macro_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *miss;
    static char *names[] = {"miss", NULL};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O", names, &miss)) {
        return NULL;
    }
    macro *m = (macro *)type->tp_alloc(type, 0);
    if (m != NULL) {
        m->call = macro_call, m->miss = Py_NewRef(miss);
    }
    return (PyObject *)m;
}

static int macro_traverse(PyObject *self, visitproc visit, void *arg)
{
    macro *m = (macro *)self;
    Py_VISIT(m->miss);
    Py_VISIT(m->dict);
    return 0;
}

static void drop_variants(macro *m)
{
    npa_replay **mine = m->variants;
    int n = m->n;
    m->variants = NULL, m->n = 0;
    for (int i = 0; i < n; i++) {
        Py_DECREF(mine[i]);
    }
    free(mine);
}

static int macro_clear(PyObject *self)
{
    macro *m = (macro *)self;
    Py_CLEAR(m->miss);
    Py_CLEAR(m->dict);
    drop_variants(m);
    return 0;
}

static void macro_free(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    if (((macro *)self)->weak != NULL) {
        PyObject_ClearWeakRefs(self);
    }
    macro_clear(self);
    Py_TYPE(self)->tp_free(self);
}

/* add_variant(replay) */
static PyObject *add_variant(PyObject *self, PyObject *replay)
{
    macro *m = (macro *)self;
    if (!Py_IS_TYPE(replay, &npa_replay_type)) {
        PyErr_SetString(PyExc_TypeError, "a Replay is needed");
        return NULL;
    }
    npa_replay **grown = realloc(m->variants, sizeof *grown * (size_t)(m->n + 1));
    if (grown == NULL) {
        return PyErr_NoMemory();
    }
    m->variants = grown;
    memmove(grown + 1, grown, sizeof *grown * (size_t)m->n);
    grown[0] = (npa_replay *)Py_NewRef(replay);
    m->n++;
    Py_RETURN_NONE;
}

/* drop_variant(replay or None): None drops all. */
static PyObject *drop_variant(PyObject *self, PyObject *replay)
{
    macro *m = (macro *)self;
    if (replay == Py_None) {
        drop_variants(m);
        Py_RETURN_NONE;
    }
    for (int i = 0; i < m->n; i++) {
        if ((PyObject *)m->variants[i] == replay) {
            m->n--;
            memmove(m->variants + i, m->variants + i + 1, sizeof *m->variants * (size_t)(m->n - i));
            Py_DECREF(replay);
            break;
        }
    }
    Py_RETURN_NONE;
}

static PyObject *variants(PyObject *self, void *closure)
{
    (void)closure;
    macro *m = (macro *)self;
    PyObject *list = PyList_New(m->n);
    for (int i = 0; list != NULL && i < m->n; i++) {
        PyList_SET_ITEM(list, i, Py_NewRef((PyObject *)m->variants[i]));
    }
    return list;
}

static PyObject *macro_get(PyObject *self, PyObject *object, PyObject *type)
{
    (void)type;
    return object == NULL || object == Py_None ? Py_NewRef(self) : PyMethod_New(self, object);
}

static PyMethodDef macro_methods[] = {
    {"_add", add_variant, METH_O, NPA_DOC_Macro__add},
    {"_drop", drop_variant, METH_O, NPA_DOC_Macro__drop},
    {NULL}};
static PyGetSetDef macro_getset[] = {
    {"_variants", variants, NULL, "Recorded variants, the latest first.", NULL},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL}};

static PyTypeObject macro_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "npaccel._native.Macro",
    .tp_basicsize = sizeof(macro),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR |
                Py_TPFLAGS_HAVE_GC,
    .tp_vectorcall_offset = offsetof(macro, call),
    .tp_dictoffset = offsetof(macro, dict),
    .tp_weaklistoffset = offsetof(macro, weak),
    .tp_call = PyVectorcall_Call,
    .tp_descr_get = macro_get,
    .tp_getattro = PyObject_GenericGetAttr,
    .tp_setattro = PyObject_GenericSetAttr,
    .tp_traverse = macro_traverse,
    .tp_clear = macro_clear,
    .tp_dealloc = macro_free,
    .tp_doc = "A function whose recorded runs are replayed.",
    .tp_methods = macro_methods,
    .tp_getset = macro_getset,
    .tp_new = macro_new,
};

static PyMethodDef functions[] = {
    {"guard_holds", npa_guard_holds, METH_VARARGS, NPA_DOC_guard_holds},
    {NULL}};

int npa_macro_init(PyObject *module)
{
    return npa_replay_ready() < 0 || PyModule_AddFunctions(module, functions) < 0 ||
                   PyType_Ready(&macro_type) < 0 ||
                   PyModule_AddObjectRef(module, "Replay", (PyObject *)&npa_replay_type) < 0 ||
                   PyModule_AddObjectRef(module, "Macro", (PyObject *)&macro_type) < 0
               ? -1
               : 0;
}
