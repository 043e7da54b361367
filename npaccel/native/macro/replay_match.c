/* replay_match.c: whether the arguments of a call are as those of a recording, and what it took for
 * granted is still so. */
#include "macro/macro.h"
#include "macro/replay.h"

#include <string.h>

static bool same_value(PyObject *a, PyObject *b);

static bool same_items(PyObject *a, PyObject *b)
{
    Py_ssize_t n = PyTuple_GET_SIZE(a), i = 0;
    while (n == PyTuple_GET_SIZE(b) && i < n &&
           same_value(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i))) {
        i++;
    }
    return i == n && n == PyTuple_GET_SIZE(b);
}

static bool same_scalar(PyObject *a, PyObject *b)
{
    if (PyArray_IsScalar(a, Number) || PyArray_IsScalar(a, Bool)) {
        char x[64] = {0}, y[64] = {0};
        PyArray_ScalarAsCtype(a, x), PyArray_ScalarAsCtype(b, y);
        return memcmp(x, y, sizeof x) == 0;
    }
    return PyUnicode_Check(a) && PyObject_RichCompareBool(a, b, Py_EQ) > 0;
}

/* Whether code that is given `a` does what it does with `b`: numbers have the same bits and type.
 * What may change, or is of a class whose idea of equality is not known, is the same only if it is
 * one. */
static bool same_value(PyObject *a, PyObject *b)
{
    if (a == b) {
        return true;
    }
    if (Py_TYPE(a) != Py_TYPE(b) || PyArray_Check(a) || PyList_Check(a) || PyDict_Check(a) ||
        PyAnySet_Check(a)) {
        return false;
    }
    if (PyTuple_Check(a)) {
        return same_items(a, b);
    }
    if (PyArray_IsScalar(a, Generic)) {
        return same_scalar(a, b);
    }
    if (Py_TYPE(a)->tp_flags & Py_TPFLAGS_HEAPTYPE) {
        return false;
    }
    if (PyFloat_Check(a)) { /* -0.0 is not 0.0 here, and a NaN is itself */
        double x = PyFloat_AS_DOUBLE(a), y = PyFloat_AS_DOUBLE(b);
        return memcmp(&x, &y, sizeof x) == 0;
    }
    if (PyComplex_Check(a)) {
        Py_complex x = PyComplex_AsCComplex(a), y = PyComplex_AsCComplex(b);
        return memcmp(&x, &y, sizeof x) == 0;
    }
    int same = PyObject_RichCompareBool(a, b, Py_EQ);
    if (same < 0) {
        PyErr_Clear();
    }
    return same > 0;
}

bool npa_same_array(const npa_node *node, PyObject *o)
{
    if (!PyArray_CheckExact(o) && !Py_IS_TYPE(o, npa_array_type)) {
        return false;
    }
    PyArrayObject *a = (PyArrayObject *)o;
    PyArray_Descr *d = PyArray_DESCR(a);
    size_t bytes = sizeof(npy_intp) * (size_t)node->n;
    return d->type_num == node->type && npa_dtype_known(d) && PyArray_NDIM(a) == node->n &&
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
        return npa_same_array(node, o);
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
    case NPA_IN_GENERATOR:
        f->generators[node->slot] = o;
        return Py_IS_TYPE(o, (PyTypeObject *)node->object);
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

static bool same_list(PyObject *list, PyObject *items)
{
    Py_ssize_t n = PyList_GET_SIZE(list), i = 0;
    while (n == PyTuple_GET_SIZE(items) && i < n &&
           same_value(PyList_GET_ITEM(list, i), PyTuple_GET_ITEM(items, i))) {
        i++;
    }
    return i == n && n == PyTuple_GET_SIZE(items);
}

/* items: key, value, key, value ... */
static bool same_dict(PyObject *dict, PyObject *items)
{
    Py_ssize_t n = PyTuple_GET_SIZE(items), i = 0, position = 0;
    PyObject *key, *value;
    while (2 * PyDict_GET_SIZE(dict) == n && i < n && PyDict_Next(dict, &position, &key, &value) &&
           same_value(key, PyTuple_GET_ITEM(items, i)) &&
           same_value(value, PyTuple_GET_ITEM(items, i + 1))) {
        i += 2;
    }
    return i == n && 2 * PyDict_GET_SIZE(dict) == n;
}

/* Without a name: what is in it. */
static bool same_inside(PyObject *where, PyObject *inside)
{
    return PyArray_Check(where)       ? same_content(where, inside)
           : PyList_CheckExact(where) ? same_list(where, inside)
           : PyDict_CheckExact(where) ? same_dict(where, inside)
                                      : PyObject_RichCompareBool(where, inside, Py_EQ) > 0;
}

/* A new reference, or NULL perhaps with an error. */
static PyObject *look_up(PyObject *where, PyObject *name)
{
    return PyDict_CheckExact(where) ? Py_XNewRef(PyDict_GetItemWithError(where, name))
           : PyCell_Check(where)    ? Py_XNewRef(PyCell_GET(where))
           : PyType_Check(where)    ? Py_XNewRef(_PyType_Lookup((PyTypeObject *)where, name))
                                    : PyObject_GenericGetAttr(where, name);
}

static bool holds(const npa_trace_guard *p)
{
    bool same;
    if (PyUnicode_GET_LENGTH(p->name) == 0) {
        same = same_inside(p->where, p->object);
    } else {
        PyObject *now = look_up(p->where, p->name);
        same = now != NULL && same_value(now, p->object);
        Py_XDECREF(now);
    }
    PyErr_Clear();
    return same;
}

/* What the body found under names and in containers is what is there now. */
bool npa_replay_holds(const npa_replay *r)
{
    int i = 0;
    while (i < r->nguards && holds(&r->guards[i])) {
        i++;
    }
    return i == r->nguards;
}

PyObject *npa_guard_holds(PyObject *module, PyObject *args)
{
    (void)module;
    npa_trace_guard p;
    return PyArg_ParseTuple(args, "OUO", &p.where, &p.name, &p.object) ? PyBool_FromLong(holds(&p))
                                                                     : NULL;
}
