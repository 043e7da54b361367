/* opened.c: arrays that are read and written at once, by all threads, where they lie. To show a
 * result costs more than many such calls take: what nobody has looked at is read and written behind
 * its address.
 *
 * The lock is held meanwhile, so that nobody is shown what is being written. Memory that is not
 * ours may have to be opened for writing, which needs the lock: then everything is shown instead,
 * as for NumPy. */
#include "record/record.h"

#include <string.h>

/* What is pending on it has run. 0 or -1. */
static int compute(PyArrayObject *a, bool write)
{
    npa_buffer *b = npa_buffer_of(a);
    if (npa_placeholders > 0 && npa_section_stop(a, NULL) < 0) {
        return -1;
    }
    if (npa_flights > 0 && b != NULL && npa_flights_let_go(b, write) < 0) {
        return -1;
    }
    if (npa_q.nrequests == 0) {
        return npa_warnings_found() ? npa_issue_warnings() : 0;
    }
    return b != NULL && (b->pending || (write && b->index >= 0)) ? npa_flush_recorded() : 0;
}

/* Its first element, with the lock; NULL: it has to be shown. */
static char *place_of(PyArrayObject *a, bool write)
{
    npa_buffer *b = npa_buffer_of(a);
    if (b == NULL) {
        return PyArray_BYTES(a);
    }
    char *home = b->range->home;
    bool here = !b->pending && !(write && b->index >= 0) && b->copy == NULL && b->lost == NULL;
    char *work = !here ? NULL : b->range->work == home ? home : npa_range_work(b->range);
    if (work == NULL) {
        return NULL;
    }
    b->fresh &= !write;
    if (write) {
        npa_range_unseal(b->range);
    }
    return work + (PyArray_BYTES(a) - home);
}

static bool lock_all(npa_opened *o, PyArrayObject *const *arrays, int n, unsigned written)
{
    npa_lock();
    for (int k = 0; k < n; k++) {
        if ((o->at[k] = place_of(arrays[k], written >> k & 1)) == NULL) {
            npa_unlock();
            return false;
        }
    }
    o->locked = true;
    return true;
}

int npa_open(npa_opened *o, PyArrayObject *const *arrays, int n, unsigned written)
{
    bool foreign = false;
    o->locked = false;
    for (int k = 0; k < n; k++) {
        foreign |= (written >> k & 1) && npa_buffer_of(arrays[k]) == NULL;
        if (compute(arrays[k], written >> k & 1) < 0) {
            return -1;
        }
    }
    if (!foreign && lock_all(o, arrays, n, written)) {
        return 0;
    }
    for (int k = 0; k < n; k++) {
        if (npa_touch(arrays[k], written >> k & 1) < 0) {
            return -1;
        }
        o->at[k] = PyArray_BYTES(arrays[k]);
    }
    return 0;
}

void npa_close(const npa_opened *o)
{
    if (o->locked) {
        npa_unlock();
    }
}

PyObject *npa_new_result(int type, int ndim, npy_intp *dims, char **place)
{
    npy_intp strides[NPY_MAXDIMS], bytes = npa_item_sizes[type];
    for (int i = ndim - 1; i >= 0; i--) {
        strides[i] = bytes, bytes *= dims[i];
    }
    bool ours = npa_guard_on && npa_whole == 0 && npa_here == NULL && npa_placeholders == 0 &&
                ndim > 0 && ndim <= NPA_MAX_DIMS && bytes > 0 &&
                (size_t)bytes >= npa_ours_here() && !npa_lacks_room();
    PyArray_Descr *descr = ours ? PyArray_DescrFromType(type) : NULL;
    PyObject *made = descr != NULL ? npa_new_array(descr, ndim, dims, strides) : NULL;
    Py_XDECREF(descr);
    if (made == NULL) {
        made = PyErr_Occurred() ? NULL : PyArray_SimpleNew(ndim, dims, type);
        *place = made != NULL ? PyArray_BYTES((PyArrayObject *)made) : NULL;
        return made;
    }
    npa_opened o;
    if (npa_open(&o, (PyArrayObject **)&made, 1, 1) < 0) {
        Py_CLEAR(made);
        return NULL;
    }
    npa_close(&o); /* nobody else has it: it stays where it is */
    *place = o.at[0];
    return made;
}

/* A large new plain array that nobody else has is replaced by one of ours, which owns its memory
 * from then on. */
PyObject *npa_adopted(PyObject *result)
{
    if (result == NULL || !PyArray_CheckExact(result) || Py_REFCNT(result) != 1) {
        return result;
    }
    PyArrayObject *a = (PyArrayObject *)result;
    PyArrayObject_fields *old = (PyArrayObject_fields *)result;
    npa_value value = {.array = a};
    if (!PyArray_CHKFLAGS(a, NPY_ARRAY_OWNDATA) || PyArray_BASE(a) != NULL ||
        old->weakreflist != NULL || old->mem_handler == NULL ||
        !npa_dtype_known(PyArray_DESCR(a)) || npa_asks_underflow() ||
        !npa_wants(&value, 1) || (size_t)PyArray_NBYTES(a) < npa_passed_below() ||
        ((size_t)PyArray_NBYTES(a) < npa_ours_here() && npa_in_block())) {
        return result;
    }
    Py_INCREF(PyArray_DESCR(a));
    PyObject *made = PyArray_NewFromDescr(npa_array_type, PyArray_DESCR(a), PyArray_NDIM(a),
                                          PyArray_DIMS(a), PyArray_STRIDES(a), PyArray_DATA(a),
                                          PyArray_FLAGS(a) & NPY_ARRAY_WRITEABLE, NULL);
    if (made != NULL) {
        ((PyArrayObject_fields *)made)->mem_handler = Py_NewRef(old->mem_handler);
        PyArray_ENABLEFLAGS((PyArrayObject *)made, NPY_ARRAY_OWNDATA);
        PyArray_CLEARFLAGS(a, NPY_ARRAY_OWNDATA);
        Py_DECREF(result);
    }
    return made;
}

PyObject *npa_adopted_each(PyObject *result)
{
    for (Py_ssize_t k = 0; result != NULL && PyTuple_CheckExact(result) && Py_REFCNT(result) == 1 &&
                           k < PyTuple_GET_SIZE(result); k++) {
        PyObject *item = npa_adopted(PyTuple_GET_ITEM(result, k));
        PyTuple_SET_ITEM(result, k, item);
        if (item == NULL) {
            Py_CLEAR(result);
        }
    }
    return npa_adopted(result);
}
