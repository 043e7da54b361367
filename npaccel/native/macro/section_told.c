/* section_told.c: what code of ours in Python tells the section that is recorded. */
#include "macro/macro.h"
#include "macro/section.h"
#include "native_docs.h"

#include <string.h>

static PyObject *in_section(PyObject *module, PyObject *args)
{
    (void)module;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); i++) {
        PyObject *o = PyTuple_GET_ITEM(args, i);
        npa_spot *spot = npa_placeholders > 0 && PyArray_Check(o) ? npa_spot_of((PyArrayObject *)o)
                                                                  : NULL;
        if (spot != NULL && spot->section != NULL) {
            Py_RETURN_TRUE;
        }
    }
    return PyBool_FromLong(npa_here != NULL && PyTuple_GET_SIZE(args) == 0);
}

/* copies_scalar(of, copy): where `of` stands for a NumPy scalar, so does `copy`. */
static PyObject *copies_scalar(PyObject *module, PyObject *args)
{
    (void)module;
    PyArrayObject *of, *copy;
    if (!PyArg_ParseTuple(args, "O!O!", &PyArray_Type, &of, &PyArray_Type, &copy)) {
        return NULL;
    }
    if (npa_section_is_scalar(of)) {
        npa_section_set_scalar(copy);
    }
    Py_RETURN_NONE;
}

/* reading(array, how): raises where `array` has no values since it is a section's. */
static PyObject *reading(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *o;
    const char *how;
    if (!PyArg_ParseTuple(args, "O!s", &PyArray_Type, &o, &how) ||
        npa_section_stop((PyArrayObject *)o, how) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* evaluating(): raises inside a section. */
static PyObject *evaluating(PyObject *module, PyObject *nothing)
{
    (void)module, (void)nothing;
    if (npa_here != NULL) {
        npa_section_raise(npa_here, "evaluate", "", -1);
        return NULL;
    }
    return npa_section_block == NULL || npa_section_block_stop("evaluate", "") == 0
               ? Py_NewRef(Py_None) : NULL;
}

/* refuse(why): inside a section, which then runs without being recorded; else nothing. */
static PyObject *refuse(PyObject *module, PyObject *why)
{
    (void)module;
    const char *text = PyUnicode_Check(why) ? PyUnicode_AsUTF8(why) : "";
    if (npa_here != NULL && text != NULL) {
        npa_section_raise(npa_here, "refuse", text, -1);
        return NULL;
    }
    return text != NULL ? Py_NewRef(Py_None) : NULL;
}

static bool add_check(check c)
{
    npa_section *s = npa_here;
    if (!npa_grow(&s->checks, s->nchecks, &s->checks_cap, sizeof *s->checks)) {
        PyErr_NoMemory();
        return false;
    }
    s->checks[s->nchecks++] = c;
    return true;
}

/* check_index(index, extent) -> whether each replay will look whether indices are in bounds; False:
 * they are computed in the section, so their extremes must be. */
static PyObject *check_index(PyObject *module, PyObject *args)
{
    (void)module;
    PyArrayObject *index;
    Py_ssize_t extent;
    check c = {.last = -1};
    if (!PyArg_ParseTuple(args, "O!n", &PyArray_Type, &index, &extent) ||
        !npa_section_place(index, false, &c.buffer, &c.offset)) {
        return NULL;
    }
    if (npa_here->spots[c.buffer]->written || !npa_indices_of(index, extent, &c.of)) {
        Py_RETURN_FALSE;
    }
    return add_check(c) ? Py_NewRef(Py_True) : NULL;
}

/* check_extremes(least, most, extent): int64 without dimensions, computed in the section. */
static PyObject *check_extremes(PyObject *module, PyObject *args)
{
    (void)module;
    PyArrayObject *least, *most;
    check c = {.last = -1};
    if (!PyArg_ParseTuple(args, "O!O!n", &PyArray_Type, &least, &PyArray_Type, &most,
                          &c.of.extent) ||
        !npa_section_place(least, false, &c.buffer, &c.offset) ||
        !npa_section_place(most, false, &c.last, &c.offset) || !add_check(c)) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* plainly(function, args, kwargs): its result, whatever it calls being NumPy's. */
static PyObject *plainly(PyObject *module, PyObject *given)
{
    (void)module;
    PyObject *function, *args, *kwargs;
    if (!PyArg_ParseTuple(given, "OO!O!", &function, &PyTuple_Type, &args, &PyDict_Type, &kwargs)) {
        return NULL;
    }
    npa_suspended++;
    PyObject *result = PyObject_Call(function, args, kwargs);
    npa_suspended--;
    return result;
}

static PyObject *errstate(PyObject *module, PyObject *nothing)
{
    (void)module, (void)nothing;
    int state = npa_checked_errstate();
    return state < -1 ? NULL : PyLong_FromLong(state);
}

static PyMethodDef functions[] = {
    {"refuse", refuse, METH_O, NPA_DOC_refuse},
    {"check_index", check_index, METH_VARARGS, NPA_DOC_check_index},
    {"check_extremes", check_extremes, METH_VARARGS, NPA_DOC_check_extremes},
    {"plainly", plainly, METH_VARARGS, NPA_DOC_plainly},
    {"errstate", errstate, METH_NOARGS, NPA_DOC_errstate},
    {"in_section", in_section, METH_VARARGS, NPA_DOC_in_section},
    {"copies_scalar", copies_scalar, METH_VARARGS, NPA_DOC_copies_scalar},
    {"reading", reading, METH_VARARGS, NPA_DOC_reading},
    {"evaluating", evaluating, METH_NOARGS, NPA_DOC_evaluating},
    {NULL}};

int npa_section_init(PyObject *module)
{
    return PyType_Ready(&npa_section_type) < 0 || PyType_Ready(&npa_runtime_type) < 0 ||
                   PyModule_AddFunctions(module, functions) < 0 ||
                   PyModule_AddObjectRef(module, "Section", (PyObject *)&npa_section_type) < 0 ||
                   PyModule_AddObjectRef(module, "Runtime", (PyObject *)&npa_runtime_type) < 0
               ? -1 : 0;
}
