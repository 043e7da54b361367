/* small_mixed.c: calls of ufuncs on small arrays of several types. */
#include "small/small.h"
#include "small/ways.h"

static PyObject *converted(PyArrayObject *a, int type)
{
    PyArray_Descr *descr = PyArray_DescrFromType(type);
    PyArrayObject *made = npa_small_new(descr, PyArray_NDIM(a), PyArray_DIMS(a));
    if (made != NULL) {
        npa_cast(PyArray_TYPE(a), PyArray_BYTES(a), PyArray_ITEMSIZE(a), type, PyArray_BYTES(made),
                 PyDataType_ELSIZE(descr), PyArray_SIZE(a));
    }
    Py_DECREF(descr);
    return (PyObject *)made;
}

/* Whether all inputs are numbers, or small arrays of them that lie in C order. */
static bool classify_inputs(PyUFuncObject *u, PyObject *const *args, npa_value *v, int *types)
{
    for (int k = 0; k < u->nin; k++) {
        if (!npa_classify(args[k], &v[k]) || (v[k].array != NULL && !npa_is_plain(args[k]))) {
            return false;
        }
        types[k] = v[k].type;
        PyArrayObject *a = v[k].array;
        if (a != NULL &&
            (!PyArray_IS_C_CONTIGUOUS(a) || !PyArray_ISALIGNED(a) || PyArray_NDIM(a) == 0 ||
             PyArray_SIZE(a) == 0 || npa_small_is_large((size_t)PyArray_NBYTES(a)) ||
             !npa_small_type(PyArray_DESCR(a)) || (npa_waiting() && npa_is_pending(a)))) {
            return false;
        }
    }
    return true;
}

/* The one type of all inputs of the loop that NumPy takes for these; -1: it has others. */
static int type_of_loop(PyUFuncObject *u, int *types)
{
    npa_suspended++; /* the rule is found by calling the ufunc, perhaps */
    npa_rule *rule = npa_find_rule((PyObject *)u, types, u->nin, NULL, false);
    npa_suspended--;
    if (rule == NULL || rule->kind != NPA_MAP) {
        return -1;
    }
    for (int k = 1; k < u->nin; k++) {
        if (rule->loop_type[k] != rule->loop_type[0]) {
            return -1;
        }
    }
    return rule->loop_type[0];
}

PyObject *npa_small_mixed(PyUFuncObject *u, PyObject *const *args, Py_ssize_t n, npa_exactness how)
{
    PyObject *made[NPA_SMALL_IN + 1] = {NULL}, *result = NULL;
    npa_value v[NPA_SMALL_IN];
    int types[NPA_SMALL_IN];
    bool again = false;
    if (npa_suspended > 0 || !classify_inputs(u, args, v, types)) {
        return NULL;
    }
    int type = type_of_loop(u, types);
    bool ready = npa_is_number(type) && (n == u->nin || types[0] == type);
    for (int k = 0; ready && k < u->nin; k++) {
        made[k] = v[k].array != NULL && types[k] != type ? converted(v[k].array, type)
                                                         : Py_NewRef(args[k]);
        ready = made[k] != NULL;
    }
    made[u->nin] = n > u->nin ? args[u->nin] : NULL;
    if (ready) {
        result = npa_small_attempt(u, made, n, how, NPA_CASTS, &again);
    }
    for (int k = 0; k < u->nin; k++) {
        Py_XDECREF(made[k]);
    }
    return result;
}
