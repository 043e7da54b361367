/* traceback.c: an error that passes through Python code of ours has the traceback that it has
 * without.
 *
 *     x[7]                      the user's line                            stays
 *       getitem, fallback       ours                                       go
 *       at_user_line            ours; calls what has the user's line       goes
 *       x[7]                    that (Note [Lines] in dispatch/fallback.py) goes
 *         take, reduce ...      NumPy's                                    stay
 *
 * Entries are taken off the front only, so no traceback object is changed. */
#include "base/base.h"

#include <string.h>

static bool is_ours(const PyTracebackObject *entry)
{
    PyObject *globals = PyFrame_GetGlobals(entry->tb_frame);
    PyObject *name = PyDict_GetItemString(globals, "__name__");
    const char *text = name != NULL && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    bool ours = text != NULL && strcspn(text, ".") == 7 && strncmp(text, "npaccel", 7) == 0;
    Py_DECREF(globals);
    return ours;
}

static bool stands_in(const PyTracebackObject *entry)
{
    PyCodeObject *code = PyFrame_GetCode(entry->tb_frame);
    bool found = PyUnicode_CompareWithASCIIString(code->co_name, "at_user_line") == 0;
    Py_DECREF(code);
    return found;
}

/* Whether our own code raises this for the user; anything else that it raises is a mistake of ours,
 * whose traceback says where. */
static bool is_meant(PyObject *type)
{
    if (PyErr_GivenExceptionMatches(type, PyExc_Warning) ||
        PyErr_GivenExceptionMatches(type, PyExc_KeyboardInterrupt)) {
        return true;
    }
    PyObject *module = PyObject_GetAttrString(type, "__module__");
    bool meant = module != NULL && PyUnicode_Check(module) &&
                 PyUnicode_CompareWithASCIIString(module, "npaccel.errors") == 0 &&
                 strcmp(((PyTypeObject *)type)->tp_name, "InternalError") != 0;
    Py_XDECREF(module);
    PyErr_Clear();
    return meant;
}

/* The last error that was none of ours, if it still is one: only its address counts. */
static __thread const void *foreign;

/* What a call of our own Python code returned; NULL, and the error that is set has no trace of us.
 * `thin`: what that code raises is NumPy's in any case. */
PyObject *npa_without(PyObject *result, bool thin)
{
    if (result != NULL) {
        return result;
    }
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    PyTracebackObject *rest = (PyTracebackObject *)trace;
    bool by_us = false;
    while (rest != NULL && is_ours(rest)) {
        by_us = !stands_in(rest);
        rest = rest->tb_next;
        if (!by_us && rest != NULL) {
            rest = rest->tb_next;
        }
    }
    bool meant = trace != NULL && is_meant(type);
    if (trace != NULL && (rest != NULL || !by_us || error == foreign || thin || meant)) {
        foreign = meant ? NULL : error; /* it may pass through more of our code */
        /* Python 3.14 takes NULL for what the error has already. */
        PyException_SetTraceback(error, rest != NULL ? (PyObject *)rest : Py_None);
        Py_XINCREF(rest);
        Py_SETREF(trace, (PyObject *)rest);
    }
    PyErr_Restore(type, error, trace);
    return NULL;
}

PyObject *npa_without_us(PyObject *result) { return npa_without(result, false); }
