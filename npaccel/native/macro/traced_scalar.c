/* traced_scalar.c: a Python number that a macro section takes anew at each call. */
#include "macro/macro.h"

static PyObject *runtime_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *value;
    int slot;
    static char *names[] = {"value", "slot", NULL};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "Oi", names, &value, &slot)) {
        return NULL;
    }
    if (!PyFloat_CheckExact(value) && !PyLong_CheckExact(value)) {
        PyErr_SetString(PyExc_TypeError, "a float or an int is needed");
        return NULL;
    }
    npa_runtime *r = (npa_runtime *)type->tp_alloc(type, 0);
    if (r != NULL) {
        r->value = Py_NewRef(value), r->slot = slot;
    }
    return (PyObject *)r;
}

static void runtime_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(((npa_runtime *)self)->value);
    type->tp_free(self);
}

static PyObject *runtime_get(PyObject *self, void *name)
{
    npa_runtime *r = (npa_runtime *)self;
    return name == NULL ? Py_NewRef(r->value) : PyLong_FromLong(r->slot);
}
static PyGetSetDef runtime_getset[] = {
    {"_value", runtime_get, NULL, "What it is in this call.", NULL},
    {"_slot", runtime_get, NULL, "Which number of the section it is.", "slot"}, {NULL}};

PyTypeObject npa_runtime_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "npaccel._native.Runtime",
    .tp_basicsize = sizeof(npa_runtime),
    .tp_dealloc = runtime_free,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_doc = "A Python number that a section takes anew at each call.",
    .tp_getset = runtime_getset,
    .tp_new = runtime_new,
};
