/* array_ufunc.c: __array_ufunc__ of Array, and ufuncs that are asked for by their names. */
#include "numpy/numpy.h"
#include "numpy/array.h"
#include "numpy/aside.h"

#include <string.h>

static PyObject *ufunc_slowly(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)self;
    PyObject *inputs, *kwargs, *result = NULL;
    if (npa_packed(args + 2, n - 2, names, &inputs, &kwargs)) {
        int before = npa_now(NPA_RECORDING);
        result = PyObject_CallFunctionObjArgs(npa_hook_ufunc, args[0], args[1], inputs, kwargs,
                                              NULL);
        npa_now(before);
    }
    Py_XDECREF(inputs), Py_XDECREF(kwargs);
    return npa_without_us(result);
}

/* Small arrays, and what is done at once, go straight to NumPy, all else to the hook. */
static PyObject *ufunc_elsewhere(PyObject *self, PyObject *const *args, Py_ssize_t n,
                                 PyObject *names)
{
    bool call = PyUnicode_CompareWithASCIIString(args[1], "__call__") == 0;
    bool rows = call && PyObject_TypeCheck(args[0], &PyUFunc_Type) &&
                ((PyUFuncObject *)args[0])->core_enabled && !npa_in_block(); /* asked there */
    PyObject *result = rows ? npa_rows((PyUFuncObject *)args[0], args + 2, n - 2, names) : NULL;
    if (result != NULL || PyErr_Occurred()) {
        return result;
    }
    PyObject *method = PyObject_GetAttr(args[0], args[1]);
    if (method == NULL) {
        return NULL;
    }
    bool at = PyUnicode_CompareWithASCIIString(args[1], "at") == 0;
    bool reduce = PyUnicode_CompareWithASCIIString(args[1], "reduce") == 0 &&
                  PyObject_TypeCheck(args[0], &PyUFunc_Type);
    bool fold = reduce && npa_folds_at_once(((PyUFuncObject *)args[0])->name, args + 2, n - 2,
                                            names, 3, true);
    int status = fold ? npa_fold_hidden(args[0], args + 2, n - 2, names, &result) : 0;
    if (status == 0 && !(reduce && npa_stands_aside())) { /* npa_fold_call knows what is there */
        status = npa_direct_call(method, args + 2, n - 2, names, at, fold ? NPA_ANY_SIZE : at, true,
                                 &result);
    }
    if (status == 0) {
        int before = npa_now(NPA_RECORDING);
        if (reduce) {
            status = npa_reduce(args[0], args + 2, n - 2, names, &result);
        } else if (call) {
            status = npa_out_call(args[0], args + 2, n - 2, names, &result);
        }
        npa_now(before);
    }
    Py_DECREF(method);
    return status > 0 ? result : status < 0 ? NULL : ufunc_slowly(self, args, n, names);
}

/* ufunc(*values), recorded; `out`: NULL, or an array or NULL per output. *status as
 * record_map's. */
PyObject *npa_ufunc_call(PyObject *ufunc, const npa_value *values, PyArrayObject **out,
                         int *status)
{
    PyUFuncObject *u = (PyUFuncObject *)ufunc;
    PyObject *results[NPA_MAX_ARGS];
    npa_value in[NPA_MAX_ARGS];
    int types[NPA_MAX_ARGS];
    for (int k = 0; k < u->nin; k++) {
        in[k] = values[k], types[k] = values[k].type;
    }
    npa_rule *rule = npa_find_rule(ufunc, types, u->nin, out != NULL ? out[0] : NULL);
    *status = rule != NULL ? npa_record_map(rule, in, out, NULL, 'K', 0, results)
              : PyErr_Occurred() ? -1 : 0;
    if (*status <= 0) {
        return NULL;
    }
    if (rule->nout == 1) {
        return results[0];
    }
    PyObject *tuple = PyTuple_New(rule->nout);
    for (int k = 0; k < rule->nout; k++) {
        if (tuple != NULL) {
            PyTuple_SET_ITEM(tuple, k, results[k]);
        } else {
            Py_DECREF(results[k]);
        }
    }
    return tuple;
}

/* A plain call of up to four operands, counted under that reason. */
static PyObject *ufunc_in_numpy(PyObject *const *args, Py_ssize_t n, const char *why)
{
    PyObject *result = NULL;
    double start = npa_seconds();
    npa_suspended++;
    int status = npa_direct_call(args[0], args + 2, n - 2, NULL, 0, NPA_ANY_SIZE, true, &result);
    npa_suspended--;
    if (status > 0 && npa_note_fallback(args[0], why, npa_seconds() - start) < 0) {
        Py_CLEAR(result);
    }
    return npa_adopted(result);
}

enum { MOST_GIVEN = 16 }; /* more than a reduction has */

/* Whether it is an input that NumPy passes by its place and leaves among the names as well, as of
 * np.add.reduce(array=x). */
static bool is_given_twice(PyObject *name)
{
    return PyUnicode_CompareWithASCIIString(name, "array") == 0 ||
           PyUnicode_CompareWithASCIIString(name, "indices") == 0;
}

static PyObject *array_ufunc(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names);

/* With inputs by their places only; n: those, the ufunc and its method. */
static PyObject *by_places(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    PyObject *given[MOST_GIVEN], *kept = PyList_New(0), *tuple = NULL, *result = NULL;
    Py_ssize_t all = n, count = PyTuple_GET_SIZE(names);
    bool good = kept != NULL;
    memcpy(given, args, sizeof *given * (size_t)n);
    for (Py_ssize_t k = 0; good && k < count; k++) {
        PyObject *name = PyTuple_GET_ITEM(names, k);
        if (!is_given_twice(name)) {
            given[all++] = args[n + k];
            good = PyList_Append(kept, name) == 0;
        }
    }
    if (good && (tuple = PyList_AsTuple(kept)) != NULL) {
        result = array_ufunc(self, given, n, all > n ? tuple : NULL);
    }
    Py_XDECREF(kept), Py_XDECREF(tuple);
    return result;
}

PyObject *npa_array_ufunc(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    if (n < 3) {
        PyErr_SetString(PyExc_TypeError, "__array_ufunc__ requires at least 3 arguments");
        return NULL;
    }
    bool named = names != NULL && PyUnicode_Check(args[1]) &&
                 PyUnicode_CompareWithASCIIString(args[1], "__call__") != 0, twice = false;
    Py_ssize_t count = named ? PyTuple_GET_SIZE(names) : 0;
    for (Py_ssize_t k = 0; n + count <= MOST_GIVEN && k < count; k++) {
        twice |= is_given_twice(PyTuple_GET_ITEM(names, k));
    }
    return twice ? by_places(self, args, n, names) : array_ufunc(self, args, n, names);
}

static PyObject *array_ufunc(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    npa_value values[NPA_MAX_ARGS];
    bool plain_call = names == NULL && n <= 6 && PyUnicode_Check(args[1]) &&
                      PyUnicode_CompareWithASCIIString(args[1], "__call__") == 0 &&
                      PyObject_TypeCheck(args[0], &PyUFunc_Type) &&
                      ((PyUFuncObject *)args[0])->nin == n - 2 &&
                      ((PyUFuncObject *)args[0])->core_enabled == 0;
    for (Py_ssize_t k = 0; plain_call && k < n - 2; k++) {
        plain_call = npa_classify(args[2 + k], &values[k]);
    }
    PyUFuncObject *u = (PyUFuncObject *)args[0];
    PyObject *done;
    if (plain_call && npa_stands_aside() &&
        npa_aside_ufunc(u, npa_exactness_of(u), values, args + 2, (int)n - 2, &done)) {
        return done;
    }
    if (!plain_call || !npa_wants(values, (int)n - 2)) {
        return PyErr_Occurred() ? NULL : ufunc_elsewhere(self, args, n, names);
    }
    int status;
    npa_pass_because(NULL);
    PyObject *result = npa_ufunc_call(args[0], values, NULL, &status);
    if (status != 0 || PyErr_Occurred()) {
        return result;
    }
    const char *why = npa_passing_reason();
    return why != NULL ? ufunc_in_numpy(args, n, why) : ufunc_slowly(self, args, n, names);
}
