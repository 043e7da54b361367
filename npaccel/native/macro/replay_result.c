/* replay_result.c: what a replayed call returns, nested as the body returned it. */
#include "macro/macro.h"
#include "macro/replay.h"

static PyObject *make_view(const npa_replay *r, const npa_node *node, npa_frame *f)
{
    PyObject *of = node->flag ? (PyObject *)f->arrays[node->slot] : f->roots[node->slot];
    char *base = NULL;
    for (int i = 0; node->flag && i < r->nmembers; i++) {
        if (r->members[i].slot == node->slot) {
            base = f->buffers[r->members[i].buffer].base;
        }
    }
    base = node->flag ? base : PyArray_BYTES((PyArrayObject *)of);
    return npa_view_over((PyArrayObject *)of, Py_TYPE(of), (PyArray_Descr *)node->object, node->n,
                         node->lengths, node->lengths + node->n, base + node->offset,
                         node->type ? NPY_ARRAY_WRITEABLE : 0);
}

static PyObject *make(const npa_replay *r, const npa_node **at, npa_frame *f);

static PyObject *make_items(const npa_replay *r, const npa_node **at, const npa_node *node,
                            npa_frame *f)
{
    bool tuple = node->kind == NPA_TUPLE;
    PyObject *made = tuple ? PyTuple_New(node->n) : PyList_New(node->n);
    for (int i = 0; made != NULL && i < node->n; i++) {
        PyObject *item = make(r, at, f);
        if (item == NULL) {
            Py_CLEAR(made);
        } else if (tuple) {
            PyTuple_SET_ITEM(made, i, item);
        } else {
            PyList_SET_ITEM(made, i, item);
        }
    }
    return made;
}

static PyObject *make_dict(const npa_replay *r, const npa_node **at, const npa_node *node,
                           npa_frame *f)
{
    PyObject *made = PyDict_New();
    for (int i = 0; made != NULL && i < node->n; i++) {
        PyObject *item = make(r, at, f);
        if (item == NULL || PyDict_SetItem(made, PyTuple_GET_ITEM(node->object, i), item) < 0) {
            Py_CLEAR(made);
        }
        Py_XDECREF(item);
    }
    return made;
}

static PyObject *make(const npa_replay *r, const npa_node **at, npa_frame *f)
{
    const npa_node *node = (*at)++;
    switch (node->kind) {
    case NPA_TUPLE: case NPA_LIST: return make_items(r, at, node, f);
    case NPA_DICT: return make_dict(r, at, node, f);
    case NPA_OUT_ROOT: return Py_NewRef(f->roots[node->slot]);
    case NPA_OUT_INPUT: return Py_NewRef((PyObject *)f->arrays[node->slot]);
    case NPA_OUT_VIEW: return make_view(r, node, f);
    case NPA_OUT_SCALAR:
        return PyArray_Scalar(f->cells + NPA_CELL * node->slot, (PyArray_Descr *)node->object,
                              NULL);
    case NPA_OUT_NUMBER:
        return node->slot < r->nleaves ? Py_NewRef(f->numbers[node->slot])
                                       : PyFloat_FromDouble(f->values[node->slot]);
    case NPA_OUT_COPY: return PyArray_NewCopy((PyArrayObject *)node->object, NPY_KEEPORDER);
    default: return Py_NewRef(node->object);
    }
}

PyObject *npa_replay_result(const npa_replay *r, npa_frame *f)
{
    const npa_node *at = r->out;
    return make(r, &at, f);
}
