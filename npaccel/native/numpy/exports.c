/* exports.c: who is handed a buffer on an array, or its address, sees its values, and may write
 * them later. */
#include "numpy/numpy.h"

static getbufferproc numpy_getbuffer;

/* memoryview asks like this, without "writable", and can be written through all the same. */
static bool may_write(PyArrayObject *a, int flags)
{
    return PyArray_ISWRITEABLE(a) &&
           ((flags & PyBUF_WRITABLE) || (flags & PyBUF_INDIRECT) == PyBUF_INDIRECT);
}

static int export_own(PyArrayObject *a, npa_buffer *b, int flags)
{
    if (npa_touch(a, may_write(a, flags) || b->range->sealed) < 0) {
        return -1;
    }
    b->exported = true;
    return 0;
}

/* A buffer on `a` is about to be handed out. 0 or -1. */
static int export(PyArrayObject *a, int flags)
{
    npa_buffer *own = npa_buffer_of(a);
    if (own != NULL) {
        return export_own(a, own, flags);
    }
    char *low, *high;
    PyArrayObject *root = npa_root_of(a);
    npa_extent(root, &low, &high);
    npa_watch *w = may_write(a, flags) ? npa_note_export(root, low, high) : NULL;
    if (w != NULL && npa_watch_held(w) && npa_flush() < 0) {
        return -1;
    }
    if (w != NULL) {
        npa_watch_open(w);
    }
    return 0;
}

static int plain_getbuffer(PyObject *a, Py_buffer *view, int flags)
{
    if (export((PyArrayObject *)a, flags) < 0) {
        view->obj = NULL;
        return -1;
    }
    return numpy_getbuffer(a, view, flags);
}

/* Subclasses inherited the slot when they were made. */
static int hook_exports(PyTypeObject *type)
{
    if (type->tp_as_buffer == NULL || type->tp_as_buffer->bf_getbuffer != numpy_getbuffer) {
        return 0;
    }
    type->tp_as_buffer->bf_getbuffer = plain_getbuffer;
    PyObject *below = PyObject_CallMethod((PyObject *)type, "__subclasses__", NULL);
    int status = below != NULL ? 0 : -1;
    for (Py_ssize_t i = 0; status == 0 && i < PyList_GET_SIZE(below); i++) {
        status = hook_exports((PyTypeObject *)PyList_GET_ITEM(below, i));
    }
    Py_XDECREF(below);
    return status;
}

int npa_exports_init(void)
{
    numpy_getbuffer = PyArray_Type.tp_as_buffer->bf_getbuffer;
    return hook_exports(&PyArray_Type);
}
