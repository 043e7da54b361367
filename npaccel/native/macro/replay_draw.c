/* replay_draw.c: the random numbers that a replay starts with. */
#include "macro/macro.h"
#include "macro/replay.h"

int npa_replay_draw(const npa_replay *r, npa_frame *f)
{
    PyObject *generators = npa_tuple_of(f->generators, r->ngenerators);
    npa_suspended++; /* what they give is NumPy's, also in a block */
    PyObject *drawn = generators != NULL ? PyObject_CallMethod(r->draws, "draw", "(O)", generators)
                                         : NULL;
    npa_suspended--;
    Py_XDECREF(generators);
    if (drawn == NULL || drawn == Py_None) {
        Py_XDECREF(drawn);
        return drawn != NULL ? 2 : -1;
    }
    f->drawn = drawn;
    PyObject *arrays = PyTuple_GET_ITEM(drawn, 0);
    for (int i = 0; i < r->ndrawn; i++) {
        PyObject *array = PyList_GET_ITEM(arrays, i);
        if (!npa_same_array(&r->drawn[i], array)) {
            npa_replay_undraw(r, f);
            return PyErr_Occurred() ? -1 : 2;
        }
        f->arrays[r->drawn[i].slot] = (PyArrayObject *)array;
    }
    return 1;
}

void npa_replay_undraw(const npa_replay *r, npa_frame *f)
{
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    npa_suspended++;
    PyObject *done = PyObject_CallMethod(r->draws, "undo", "O", PyTuple_GET_ITEM(f->drawn, 1));
    npa_suspended--;
    if (done == NULL) {
        PyErr_WriteUnraisable(r->draws);
    }
    Py_XDECREF(done);
    PyErr_Restore(type, error, trace);
    Py_CLEAR(f->drawn);
}
