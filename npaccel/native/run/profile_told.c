/* profile_told.c: what a profile has counted, for Python. */
#include "run/run.h"
#include "run/profile.h"

/* (file, line, function, calls, nanoseconds per activity) of each. */
PyObject *npa_profile_told_lines(const npa_profiled_line *lines, int n)
{
    PyObject *list = PyList_New(0);
    for (int i = 0; list != NULL && i < n; i++) {
        const npa_profiled_line *l = &lines[i];
        PyCodeObject *code = (PyCodeObject *)l->code;
        PyObject *ns = PyTuple_New(NPA_ACTIVITIES);
        for (int k = 0; ns != NULL && k < NPA_ACTIVITIES; k++) {
            PyTuple_SET_ITEM(ns, k, PyLong_FromUnsignedLongLong(l->ns[k]));
        }
        PyObject *row = code == NULL
                            ? Py_BuildValue("(sisKN)", "", 0, "", (unsigned long long)l->calls, ns)
                            : Py_BuildValue("(OiOKN)", code->co_filename,
                                            npa_line_of(code, l->lasti), code->co_name,
                                            (unsigned long long)l->calls, ns);
        if (PyErr_Occurred()) {
            Py_CLEAR(row);
        }
        npa_append(&list, row);
    }
    return list;
}

static PyObject *told_links(const int32_t *links, int n)
{
    PyObject *list = PyList_New(0);
    for (int k = 0; list != NULL && k < n; k++) {
        npa_append(&list, PyLong_FromLong(links[k]));
    }
    return list;
}

/* (program, single, runs, nanoseconds, [(line, rule's id, points, links, seen)], [(kind,
 * nanoseconds, requests)]) of each. */
static PyObject *told_run(const npa_profiled_run *r)
{
    PyObject *requests = PyList_New(0), *steps = PyList_New(0);
    bool good = requests != NULL && steps != NULL;
    const int32_t *links = r->links;
    for (int i = 0; good && i < r->n; links += r->nin[i++]) {
        PyObject *read = told_links(links, r->nin[i]);
        good = npa_append(&requests, Py_BuildValue("(iIKNi)", (int)r->lines[i],
                                                   (unsigned)r->rules[i]->id,
                                                   (unsigned long long)r->points[i], read,
                                                   (int)r->seen[i]));
    }
    for (int i = 0; good && i < r->nsteps; i++) {
        good = npa_append(&steps, Py_BuildValue("(iKi)", (int)r->kinds[i],
                                                (unsigned long long)r->took[i],
                                                (int)r->counts[i]));
    }
    if (!good) {
        Py_XDECREF(requests), Py_XDECREF(steps);
        return NULL;
    }
    PyObject *program = r->program != NULL ? (PyObject *)r->program : Py_None;
    return Py_BuildValue("(OOKKNN)", program, r->single ? Py_True : Py_False,
                         (unsigned long long)r->runs, (unsigned long long)r->ns, requests, steps);
}

PyObject *npa_profile_told_runs(const npa_profiled_run *runs, int n)
{
    PyObject *list = PyList_New(0);
    for (int i = 0; list != NULL && i < n; i++) {
        npa_append(&list, told_run(&runs[i]));
    }
    return list;
}
