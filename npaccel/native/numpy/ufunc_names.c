/* ufunc_names.c: ufuncs called with out=, dtype= and the like, recorded with no Python of ours in
 * between. */
#include "numpy/numpy.h"

/* What such a call says. */
typedef struct { PyArrayObject *out; int asked; } said;

/* False: it is not an array. */
static bool read_out(PyObject *value, PyArrayObject **out)
{
    npa_value target = {.array = NULL};
    if (PyTuple_CheckExact(value) && PyTuple_GET_SIZE(value) == 1) {
        value = PyTuple_GET_ITEM(value, 0);
    }
    bool good = value == Py_None || (npa_classify(value, &target) && target.array != NULL);
    *out = target.array;
    return good;
}

/* Whether the call says nothing else. A casting is what the loop of that output, or of that dtype,
 * has anyway: what same_kind allows has the same one with unsafe. */
static bool read_names(PyObject *const *named, PyObject *names, said *s)
{
    static const char *const known[] = {"out", "casting", "subok", "dtype"};
    PyObject *given[] = {Py_None, NULL, Py_False, NULL}, *casting;
    if (!npa_read_call(named, 0, names, known, 4, given) || !PyBool_Check(given[2]) ||
        !read_out(given[0], &s->out)) {
        return false;
    }
    casting = given[1], s->asked = npa_type_asked(given[3]);
    return s->asked >= 0 &&
           (casting == NULL || ((s->out != NULL || s->asked > 0) &&
                                (npa_is_text(casting, "same_kind") ||
                                 npa_is_text(casting, "unsafe"))));
}

/* Whether the loop for that dtype is the one that these have without it: all in it are of it. */
static bool is_of_type(PyObject *ufunc, const npa_value *values, int n, const said *s)
{
    int types[NPA_MAX_ARGS];
    for (int k = 0; k < n; k++) {
        types[k] = values[k].type;
    }
    npa_rule *rule = npa_find_rule(ufunc, types, n, s->out);
    bool same = rule != NULL && rule->result[0]->type_num == s->asked - 1;
    for (int k = 0; same && k < n; k++) {
        same = rule->loop_type[k] == s->asked - 1;
    }
    return same;
}

int npa_out_call(PyObject *ufunc, PyObject *const *args, Py_ssize_t n, PyObject *names,
                 PyObject **result)
{
    PyUFuncObject *u = (PyUFuncObject *)ufunc;
    npa_value values[NPA_MAX_ARGS];
    if (!PyObject_TypeCheck(ufunc, &PyUFunc_Type) || names == NULL || u->nin != n ||
        u->nin >= NPA_MAX_ARGS || u->nout != 1 || u->core_enabled) {
        return 0;
    }
    for (Py_ssize_t k = 0; k < n; k++) {
        if (!npa_classify(args[k], &values[k])) {
            return PyErr_Occurred() ? -1 : 0;
        }
    }
    said s;
    if (!read_names(args + n, names, &s) || (s.out != NULL && !PyArray_ISWRITEABLE(s.out)) ||
        !(npa_wants(values, (int)n) || (s.out != NULL && npa_is_pending(s.out)))) {
        return PyErr_Occurred() ? -1 : 0;
    }
    int status = npa_may_wait();
    if (status > 0 && s.asked > 0 && !is_of_type(ufunc, values, (int)n, &s)) {
        return PyErr_Occurred() ? -1 : 0;
    }
    if (status > 0) {
        *result = npa_ufunc_call(ufunc, values, s.out != NULL ? &s.out : NULL, &status);
    }
    return status;
}
