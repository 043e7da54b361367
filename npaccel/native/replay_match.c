/* replay_match.c: whether the arguments of a call are as those of a recording, and what it took for
 * granted is still so. */
#include "macro.h"

#include <string.h>

static bool same_value(PyObject *a, PyObject *b)
{
    if (a == b) {
        return true;
    }
    if (Py_TYPE(a) != Py_TYPE(b) || PyArray_Check(a)) {
        return false;
    }
    if (PyFloat_CheckExact(a)) { /* -0.0 is not 0.0 here, and a NaN is itself */
        double x = PyFloat_AS_DOUBLE(a), y = PyFloat_AS_DOUBLE(b);
        return memcmp(&x, &y, sizeof x) == 0;
    }
    int same = PyObject_RichCompareBool(a, b, Py_EQ);
    if (same < 0) {
        PyErr_Clear();
    }
    return same > 0;
}

static bool same_array(const npa_node *node, PyObject *o)
{
    if (!PyArray_CheckExact(o) && !Py_IS_TYPE(o, npa_array_type)) {
        return false;
    }
    PyArrayObject *a = (PyArrayObject *)o;
    PyArray_Descr *d = PyArray_DESCR(a);
    size_t bytes = sizeof(npy_intp) * (size_t)node->n;
    return d->type_num == node->type && PyArray_ISNBO(d->byteorder) && PyArray_NDIM(a) == node->n &&
           memcmp(PyArray_DIMS(a), node->lengths, bytes) == 0 &&
           memcmp(PyArray_STRIDES(a), node->lengths + node->n, bytes) == 0 &&
           ((uintptr_t)PyArray_DATA(a) & (uintptr_t)(PyDataType_ELSIZE(d) - 1)) == 0 &&
           (bool)PyArray_ISWRITEABLE(a) == node->flag;
}

static bool match(const npa_node **at, PyObject *o, npa_frame *f);

static bool match_items(const npa_node **at, PyObject *o, int n, npa_frame *f)
{
    if (PySequence_Fast_GET_SIZE(o) != n) {
        return false;
    }
    for (int i = 0; i < n; i++) {
        if (!match(at, PySequence_Fast_GET_ITEM(o, i), f)) {
            return false;
        }
    }
    return true;
}

static bool match_dict(const npa_node **at, const npa_node *node, PyObject *o, npa_frame *f)
{
    if (PyDict_GET_SIZE(o) != node->n) {
        return false;
    }
    Py_ssize_t position = 0;
    PyObject *key, *value;
    for (int i = 0; i < node->n; i++) { /* in the same order: the body may walk over it */
        if (!PyDict_Next(o, &position, &key, &value) ||
            !same_value(key, PyTuple_GET_ITEM(node->object, i)) || !match(at, value, f)) {
            return false;
        }
    }
    return true;
}

/* Whether `o` looks as recorded; moves past its nodes. */
static bool match(const npa_node **at, PyObject *o, npa_frame *f)
{
    const npa_node *node = (*at)++;
    switch (node->kind) {
    case NPA_IN_ARRAY:
        f->arrays[node->slot] = (PyArrayObject *)o;
        return same_array(node, o);
    case NPA_IN_NUMBER:
        /* flag: `object` is the value that the recording holds for, else the type */
        if (!node->flag && !Py_IS_TYPE(o, (PyTypeObject *)node->object)) {
            return false;
        }
        if (Py_IS_TYPE(o, &npa_runtime_type)) { /* what npaccel.scalar made */
            o = ((npa_runtime *)o)->value;
        }
        f->numbers[node->slot] = o;
        return !node->flag || same_value(o, node->object);
    case NPA_IN_SCALAR:
        if (!Py_IS_TYPE(o, (PyTypeObject *)node->object)) {
            return false;
        }
        PyArray_ScalarAsCtype(o, f->cells + NPA_CELL * node->slot);
        return true;
    case NPA_IN_CONTROL: return same_value(o, node->object);
    case NPA_TUPLE: return PyTuple_CheckExact(o) && match_items(at, o, node->n, f);
    case NPA_LIST: return PyList_CheckExact(o) && match_items(at, o, node->n, f);
    case NPA_DICT: return PyDict_CheckExact(o) && match_dict(at, node, o, f);
    default: return false;
    }
}

bool npa_replay_matches(npa_replay *r, PyObject *const *args, Py_ssize_t n, PyObject *names,
                        npa_frame *f)
{
    Py_ssize_t nnames = names != NULL ? PyTuple_GET_SIZE(names) : 0;
    if (n != r->nargs || nnames != PyTuple_GET_SIZE(r->names)) {
        return false;
    }
    for (Py_ssize_t i = 0; i < nnames; i++) {
        if (!same_value(PyTuple_GET_ITEM(names, i), PyTuple_GET_ITEM(r->names, i))) {
            return false;
        }
    }
    const npa_node *at = r->in;
    for (Py_ssize_t i = 0; i < n + nnames; i++) {
        if (!match(&at, args[i], f)) {
            return false;
        }
    }
    return true;
}

/* An array whose values the body may have used while it was recorded. */
static bool same_content(PyObject *array, PyObject *bytes)
{
    PyArrayObject *a = (PyArrayObject *)array;
    return PyArray_IS_C_CONTIGUOUS(a) && PyArray_NBYTES(a) == PyBytes_GET_SIZE(bytes) &&
           npa_touch(a, false) == 0 &&
           memcmp(PyArray_DATA(a), PyBytes_AS_STRING(bytes), (size_t)PyArray_NBYTES(a)) == 0;
}

/* What the body found under global names and in closures is what is there now. */
bool npa_replay_holds(const npa_replay *r)
{
    for (int i = 0; i < r->npremises; i++) {
        const npa_premise *p = &r->premises[i];
        if (PyArray_Check(p->where)) {
            if (!same_content(p->where, p->object)) {
                return false;
            }
            continue;
        }
        PyObject *now = PyDict_Check(p->where) ? PyDict_GetItemWithError(p->where, p->name)
                                               : PyCell_GET(p->where);
        if (now == NULL || !same_value(now, p->object)) {
            PyErr_Clear();
            return false;
        }
    }
    return true;
}
