/* small_memory.c: small arrays that have died, used again for the next ones. See Note [Memory used
 * again]. */
#include "macro/section.h"
#include "small/small.h"
#include "small/ways.h"

#include <string.h>

/* ------------------------------------------------------------------------------------- views */

static bool keeps_views;

static bool keep_view(PyObject *o, bool ours)
{
    PyArrayObject_fields *f = (PyArrayObject_fields *)o;
    PyObject *base = f->base;
    if (!keeps_views || base == NULL || f->mem_handler != NULL ||
        !(Py_IS_TYPE(base, &PyArray_Type) || (ours && Py_IS_TYPE(base, npa_array_type))) ||
        f->flags & (NPY_ARRAY_OWNDATA | NPY_ARRAY_WRITEBACKIFCOPY) ||
        !npa_shell_fits((PyArrayObject *)o)) {
        return false;
    }
    f->base = NULL;
    npa_shell_keep((PyArrayObject *)o);
    Py_DECREF(base);
    return true;
}

PyObject *npa_part_view(PyArrayObject *a, const npa_basic_part *p, bool ours)
{
    if (PyArray_FLAGS(a) & NPA_WARN_ON_WRITE) {
        return NULL;
    }
    PyArrayObject *view = npa_new_header(ours, PyArray_DESCR(a), p->ndim, p->shape, p->strides,
                                         p->data, PyArray_CHKFLAGS(a, NPY_ARRAY_WRITEABLE));
    if (view != NULL && PyArray_SetBaseObject(view, Py_NewRef((PyObject *)a)) < 0) {
        Py_CLEAR(view);
    }
    return (PyObject *)view;
}

/* --------------------------------------------------------------------- arrays with their memory */

enum { PLACES = 8, MOST_KEPT = 4 << 20 };
/* Dead arrays with their memory, the latest last */
static PyArrayObject *kept[NPA_SHELVES][PLACES];
static uint8_t nkept[NPA_SHELVES];
static size_t kept_bytes;

static PyArrayObject *take_kept(PyTypeObject *type, PyArray_Descr *descr, int ndim,
                                const npy_intp *shape, size_t bytes)
{
    size_t shelf = npa_shelf_of(bytes, ndim);
    for (int i = nkept[shelf] - 1; i >= 0; i--) {
        PyArrayObject *a = kept[shelf][i];
        if (PyArray_NDIM(a) != ndim || (size_t)PyArray_NBYTES(a) != bytes ||
            Py_TYPE((PyObject *)a) != type) {
            continue;
        }
        kept[shelf][i] = kept[shelf][--nkept[shelf]];
        kept_bytes -= bytes;
        PyArrayObject_fields *f = (PyArrayObject_fields *)a;
        npy_intp step = PyDataType_ELSIZE(descr);
        int long_axes = 0;
        for (int k = ndim - 1; k >= 0; k--) {
            f->dimensions[k] = shape[k], f->strides[k] = step;
            step *= shape[k];
            long_axes += shape[k] != 1;
        }
        f->flags = NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED | NPY_ARRAY_WRITEABLE |
                   NPY_ARRAY_OWNDATA | (long_axes <= 1 ? NPY_ARRAY_F_CONTIGUOUS : 0);
        f->descr = descr;
        Py_INCREF(descr);
        _Py_NewReference((PyObject *)a);
        return a;
    }
    return NULL;
}

PyArrayObject *npa_small_new(PyArray_Descr *descr, int ndim, const npy_intp *shape)
{
    PyTypeObject *type = npa_small_class != NULL ? npa_small_class : &PyArray_Type;
    size_t bytes = (size_t)PyDataType_ELSIZE(descr);
    for (int i = 0; i < ndim; i++) {
        bytes *= (size_t)shape[i];
    }
    PyObject *handler = PyDataMem_GetHandler();
    bool kept_here = bytes < npa_least || bytes < npa_passed_below(); /* else it is recorded */
    PyArrayObject *a =
        kept_here && npa_usual_handler(handler) ? take_kept(type, descr, ndim, shape, bytes) : NULL;
    Py_XDECREF(handler);
    if (a == NULL) {
        Py_INCREF(descr);
        a = (PyArrayObject *)PyArray_NewFromDescr(type, descr, ndim, shape, NULL, NULL, 0, NULL);
    }
    return a;
}

static void give_up(PyArrayObject *a)
{
    PyTypeObject *type = Py_TYPE((PyObject *)a);
    kept_bytes -= (size_t)PyArray_NBYTES(a);
    Py_INCREF(PyArray_DESCR(a)); /* one of NumPy's own, which is still there */
    npa_numpy_dealloc((PyObject *)a);
    if (type == npa_array_type) {
        Py_DECREF(type);
    }
}

/* On a full shelf the latest takes the place of one after the other, so that what a program makes
 * now finds memory, whatever it made before. */
static void put_on_shelf(PyArrayObject *a, size_t bytes)
{
    static uint8_t next[NPA_SHELVES];
    size_t shelf = npa_shelf_of(bytes, PyArray_NDIM(a));
    uint8_t place = nkept[shelf];
    if (place == PLACES) {
        place = next[shelf]++ % PLACES;
        give_up(kept[shelf][place]);
    } else {
        nkept[shelf]++;
    }
    kept[shelf][place] = a;
    kept_bytes += bytes;
}

/* An array has died: whether it is kept with its memory for the next one of its size, as nothing
 * else is known of it. */
static bool keep(PyObject *o)
{
    PyArrayObject *a = (PyArrayObject *)o;
    PyArrayObject_fields *f = (PyArrayObject_fields *)o;
    bool whole = f->nd > 0 && PyArray_CHKFLAGS(a, NPY_ARRAY_OWNDATA | NPY_ARRAY_C_CONTIGUOUS) &&
                 npa_small_type(f->descr);
    size_t bytes = whole ? (size_t)PyArray_NBYTES(a) : 0;
    if (bytes == 0 || bytes >= NPA_SMALL_MOST || bytes > MOST_KEPT - kept_bytes ||
        f->base != NULL || f->weakreflist != NULL || f->_buffer_info != NULL ||
        !npa_usual_handler(f->mem_handler) ||
        (bytes >= npa_least_made && npa_range_find(f->data) != NULL)) {
        return false;
    }
    Py_SETREF(f->descr, npa_small_dtype(f->descr->type_num)); /* borrowed */
    put_on_shelf(a, bytes);
    return true;
}

static void dealloc(PyObject *o)
{
    if (!PyArray_CheckExact(o) || !(keep(o) || keep_view(o, false))) {
        npa_numpy_dealloc(o);
    }
}

/* As Python's, of a class without members and without a finalizer of its own. */
static void dealloc_ours(PyObject *o)
{
    PyTypeObject *type = Py_TYPE(o);
    PyObject_GC_UnTrack(o);
    if (type != npa_array_type ||
        !(keep_view(o, true) || (npa_section_aside != NULL && keep(o)) || npa_leave_shell(o))) {
        npa_numpy_dealloc(o);
        Py_DECREF(type);
    }
}

/* What is kept is given back. */
static void end_kept(void)
{
    for (int shelf = 0; shelf < NPA_SHELVES; shelf++) {
        while (nkept[shelf] > 0) {
            give_up(kept[shelf][--nkept[shelf]]);
        }
    }
    npa_shells_end();
}

void npa_small_memory_init(void)
{
    npa_shells_init();
    npa_array_type->tp_dealloc = dealloc_ours;
}

void npa_small_memory(bool on)
{
    PyArray_Type.tp_dealloc = on ? dealloc : npa_numpy_dealloc;
    keeps_views = on;
    if (!on) {
        end_kept();
    }
}

/* Note [Memory used again]
 *
 * Making an array, its memory and what describes them takes as long as a short loop. While a block
 * is open, a plain array that dies leaves itself and its memory to the next one of its size and
 * number of axes, which is warm, and a view leaves its header, one of ours too (shells.c):
 * ndarray's tp_dealloc is ours meanwhile. Arrays of ours leave their headers wherever they die.
 * Likewise an array of ours while a macro block stands aside. What anybody might still know of is
 * not kept: arrays with weak references, with buffers handed out, with another memory handler, of
 * another class, or with a dtype that is not of numbers as NumPy has them. Four megabytes are kept
 * at most, eight arrays of a size, until the last `accelerate` block is left: so what macro blocks
 * alone have kept stays. */
