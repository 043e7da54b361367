/* shells.c: headers of arrays that have died, which the next ones of as many axes are given.
 *
 * To make an array NumPy allocates it and its extents, looks __array_finalize__ up and clears up
 * after it: some 150 ns. What is known of a dead one but its type, its number of axes and where its
 * extents lie is nothing, so it can be the next one. What anybody might still know of (weak
 * references, buffers handed out, another memory handler) is not kept. There are views, and arrays
 * of ours, which are kept outside of blocks too; the end of the last block frees all. */
#include "trace/trace.h"

#include <string.h>

enum { MOST = 32 };
typedef struct {
    int n;
    PyArrayObject *dead[MOST];
} shells;
/* By their number of axes, plain ones and arrays of ours */
static shells of[2][NPA_SHELL_DIMS + 1];
destructor npa_numpy_dealloc;

void npa_shells_init(void) { npa_numpy_dealloc = PyArray_Type.tp_dealloc; }

bool npa_shell_fits(PyArrayObject *a)
{
    const PyArrayObject_fields *f = (PyArrayObject_fields *)a;
    bool ours = Py_IS_TYPE((PyObject *)a, npa_array_type);
    return f->nd >= 1 && f->nd <= NPA_SHELL_DIMS && f->weakreflist == NULL &&
           f->_buffer_info == NULL && of[ours][f->nd].n < MOST;
}

void npa_shell_keep(PyArrayObject *a)
{
    PyArrayObject_fields *f = (PyArrayObject_fields *)a;
    shells *s = &of[Py_IS_TYPE((PyObject *)a, npa_array_type)][f->nd];
    s->dead[s->n++] = a;
    Py_DECREF(f->descr);
}

PyArrayObject *npa_new_header(bool ours, PyArray_Descr *descr, int ndim, const npy_intp *shape,
                              const npy_intp *strides, char *data, bool writeable)
{
    int flags = writeable ? NPY_ARRAY_WRITEABLE : 0;
    PyTypeObject *type = ours ? npa_array_type : &PyArray_Type;
    shells *s = &of[ours][ndim <= NPA_SHELL_DIMS ? ndim : 0];
    Py_INCREF(descr);
    if (s->n == 0) {
        return (PyArrayObject *)PyArray_NewFromDescr(type, descr, ndim, shape, strides, data, flags,
                                                     NULL);
    }
    PyArrayObject *a = s->dead[--s->n];
    PyArrayObject_fields *f = (PyArrayObject_fields *)a;
    memcpy(f->dimensions, shape, sizeof *shape * (size_t)ndim);
    memcpy(f->strides, strides, sizeof *strides * (size_t)ndim);
    f->data = data, f->descr = descr, f->flags = flags;
    PyArray_UpdateFlags(a, NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_F_CONTIGUOUS | NPY_ARRAY_ALIGNED);
    _Py_NewReference((PyObject *)a);
    if (ours) {
        PyObject_GC_Track(a);
    }
    return a;
}

void npa_shells_end(void)
{
    for (int i = 0; i < 2 * (NPA_SHELL_DIMS + 1); i++) {
        shells *s = &of[i / (NPA_SHELL_DIMS + 1)][i % (NPA_SHELL_DIMS + 1)];
        while (s->n > 0) {
            PyObject *o = (PyObject *)s->dead[--s->n];
            PyTypeObject *type = Py_TYPE(o);
            ((PyArrayObject_fields *)o)->descr = PyArray_DescrFromType(NPY_BOOL); /* it has none */
            npa_numpy_dealloc(o);
            if (type == npa_array_type) {
                Py_DECREF(type);
            }
        }
    }
}
