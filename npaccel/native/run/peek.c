/* peek.c: what memory holds now, pending or not, for runtime/checking/peek.py. Nothing runs, and no
 * page is shown. */
#include "run/run.h"

#include <string.h>

/* With the lock: a copy of all of it; what was never written is zeros. */
static PyObject *copied(npa_buffer *b)
{
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)b->size);
    if (bytes == NULL) {
        return NULL;
    }
    char *to = PyBytes_AS_STRING(bytes);
    const char *from = NULL;
    if (b->copy == NULL || !npa_copy_look(b, 0, b->size, to)) {
        npa_copy_home(b);
        from = b->range == NULL ? npa_buffer_address(b) : b->range->work;
        if (from != NULL) {
            memcpy(to, from, b->size);
        } else {
            memset(to, 0, b->size);
        }
    }
    return bytes;
}

/* place(array): its memory's number in the queue, -1: it is not there, and the byte at which it
 * begins in it; None: the memory is not ours. */
PyObject *npa_place_py(PyObject *module, PyObject *o)
{
    (void)module;
    if (!PyArray_Check(o)) {
        return PyErr_Format(PyExc_TypeError, "an array is needed");
    }
    PyArrayObject *a = (PyArrayObject *)o;
    if (npa_placeholders > 0 && npa_trace_hooks.section_stop(a, NULL) < 0) {
        return NULL;
    }
    if (npa_flights > 0 && npa_flights_join(-1) < 0) {
        return NULL;
    }
    npa_lock();
    npa_buffer *b = npa_buffer_of(a);
    Py_ssize_t index = b != NULL ? b->index : -1;
    Py_ssize_t offset = b != NULL ? PyArray_BYTES(a) - b->range->home : 0;
    npa_unlock();
    if (b == NULL) {
        Py_RETURN_NONE;
    }
    return Py_BuildValue("(nn)", index, offset);
}

/* contents(which): bytes of the memory with that number in the queue, or of an array's. */
PyObject *npa_contents_py(PyObject *module, PyObject *which)
{
    (void)module;
    Py_ssize_t index = PyLong_Check(which) ? PyLong_AsSsize_t(which) : -1;
    npa_lock();
    npa_buffer *b = PyArray_Check(which)                   ? npa_buffer_of((PyArrayObject *)which)
                    : index >= 0 && index < npa_q.nbuffers ? npa_q.buffers[index]
                                                           : NULL;
    PyObject *bytes = b != NULL ? copied(b) : NULL;
    npa_unlock();
    if (b == NULL) {
        PyErr_SetString(PyExc_IndexError, "there is no such memory");
    }
    return bytes;
}
