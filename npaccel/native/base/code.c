/* code.c: loaded machine code as a Python object, and the processor it is for. */
#include "base/base.h"

enum { MOST_NAMES = 8 };

typedef struct {
    PyObject_HEAD
    npa_code code;
    PyObject *addresses; /* tuple of integers */
} npa_code_object;

static void code_dealloc(npa_code_object *self)
{
    npa_code_free(&self->code);
    Py_XDECREF(self->addresses);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *code_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *keys[] = {"image", "names", NULL};
    PyObject *image, *wanted;
    const char *names[MOST_NAMES];
    uint64_t addresses[MOST_NAMES];
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "SO!", keys, &image, &PyTuple_Type, &wanted)) {
        return NULL;
    }
    Py_ssize_t n = PyTuple_GET_SIZE(wanted);
    for (Py_ssize_t i = 0; i < n && i < MOST_NAMES; i++) {
        names[i] = PyUnicode_AsUTF8(PyTuple_GET_ITEM(wanted, i));
        if (names[i] == NULL) {
            return NULL;
        }
    }
    npa_code_object *self = n > MOST_NAMES ? NULL : (npa_code_object *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "too many names");
    }
    const char *why = npa_code_load(PyBytes_AS_STRING(image), (size_t)PyBytes_GET_SIZE(image),
                                    names, (int)n, addresses, &self->code);
    if (why != NULL) {
        PyErr_Format(PyExc_ValueError, "the object code was not loaded: %s", why);
        Py_DECREF(self);
        return NULL;
    }
    self->addresses = PyTuple_New(n);
    for (Py_ssize_t i = 0; self->addresses != NULL && i < n; i++) {
        PyTuple_SET_ITEM(self->addresses, i, PyLong_FromUnsignedLongLong(addresses[i]));
    }
    if (PyErr_Occurred()) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static PyObject *code_addresses(PyObject *self, void *closure)
{
    (void)closure;
    return Py_NewRef(((npa_code_object *)self)->addresses);
}

static PyObject *code_size(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromSize_t(((npa_code_object *)self)->code.size);
}

static PyGetSetDef code_getset[] = {
    {"addresses", code_addresses, NULL, "Addresses of the functions that were named.", NULL},
    {"size", code_size, NULL, "Bytes of memory that it takes.", NULL},
    {NULL}};

PyTypeObject npa_code_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "npaccel._native.Code",
    .tp_basicsize = sizeof(npa_code_object),
    .tp_dealloc = (destructor)code_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "Machine code of one object file; freed with this.",
    .tp_getset = code_getset,
    .tp_new = code_new,
};

PyObject *npa_cpu(PyObject *self, PyObject *nothing)
{
    (void)self, (void)nothing;
    char identity[512] = "";
    npa_cpu_identity(identity, sizeof identity);
    return Py_BuildValue("(si)", identity, npa_cpu_vector_bytes());
}
