/* stops.c: memory that a debugger watches: what writes it runs at its line, and is told. Threads of
 * which every operation runs at its line. */
#include "run/run.h"

enum { MOST = 16 };

int npa_stops; /* how many places */
static struct { char *low, *high; } places[MOST];

bool npa_stops_at(PyArrayObject *a)
{
    char *low, *high;
    npa_extent(a, &low, &high);
    for (int i = 0; i < npa_stops; i++) {
        if (low < places[i].high && high > places[i].low) {
            return true;
        }
    }
    return false;
}

/* What has been written, by an operation of that name. It may stop there, or raise. */
int npa_stops_tell(PyObject *name)
{
    if (npa_here != NULL) {
        return 0; /* a section's body while it is recorded: nothing is computed */
    }
    PyObject *told = npa_without_us(PyObject_CallMethod(npa_hook_plan, "watched", "O", name));
    Py_XDECREF(told);
    return told != NULL ? 0 : -1;
}

/* watch(arrays): these from now on, no others. */
PyObject *npa_stops_py(PyObject *module, PyObject *arrays)
{
    (void)module;
    Py_ssize_t n = PyList_Check(arrays) ? PyList_GET_SIZE(arrays) : -1;
    if (n < 0 || n > MOST) {
        return PyErr_Format(PyExc_ValueError, "%d arrays at most can be watched", MOST);
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        if (!PyArray_Check(PyList_GET_ITEM(arrays, i))) {
            return PyErr_Format(PyExc_TypeError, "an array is needed");
        }
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        npa_extent((PyArrayObject *)PyList_GET_ITEM(arrays, i), &places[i].low, &places[i].high);
    }
    npa_stops = (int)n;
    Py_RETURN_NONE;
}

/* Whether the bodies of sections run as they are written, and nothing is matched: each operation is
 * looked at. */
bool npa_bodies_run(void) { return npa_check_mode || npa_until >= 0 || npa_stops > 0; }

PyObject *npa_bodies_run_py(PyObject *module, PyObject *nothing)
{
    (void)module, (void)nothing;
    return PyBool_FromLong(npa_bodies_run());
}

/* stepping(on): whether this thread runs each operation at its line. */
__thread int npa_stepping;

PyObject *npa_stepping_py(PyObject *module, PyObject *on)
{
    (void)module;
    npa_stepping += PyObject_IsTrue(on) > 0 ? 1 : -1;
    Py_RETURN_NONE;
}
