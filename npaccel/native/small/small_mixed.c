/* small_mixed.c: calls of ufuncs on small arrays of several types. */
#include "small/small.h"
#include "small/ways.h"

static PyObject *converted(PyArrayObject *a, int type)
{
    PyArray_Descr *descr = npa_small_dtype(type);
    npy_intp size = PyDataType_ELSIZE(descr), n = PyArray_SIZE(a);
    PyArrayObject *made = npa_small_is_large((size_t)(n * size))
                            ? NULL
                            : npa_small_new(descr, PyArray_NDIM(a), PyArray_DIMS(a));
    if (made != NULL) {
        npa_cast(PyArray_TYPE(a), PyArray_BYTES(a), PyArray_ITEMSIZE(a), type, PyArray_BYTES(made),
                 size, n);
    }
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
             PyArray_SIZE(a) == 0 || npa_small_exceeds((size_t)PyArray_NBYTES(a)) ||
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
    npa_rule *rule = npa_find_rule((PyObject *)u, types, u->nin, NULL);
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

/* Whether the arrays have one shape; then one of them, else NULL. */
static PyArrayObject *alike(const npa_value *v, int n)
{
    PyArrayObject *first = NULL;
    for (int k = 0; k < n; k++) {
        PyArrayObject *a = v[k].array;
        if (a == NULL) {
            continue;
        }
        first = first != NULL ? first : a;
        if (PyArray_NDIM(a) > NPA_SMALL_DIMS || PyArray_NDIM(a) != PyArray_NDIM(first) ||
            !PyArray_CompareLists(PyArray_DIMS(a), PyArray_DIMS(first), PyArray_NDIM(a))) {
            return NULL;
        }
    }
    return first;
}

/* The loop, part by part: what has another type is converted into memory that stays in the cache,
 * so that the result may be large, and takes two thirds of the time. NULL, perhaps without error:
 * NumPy's to do. */
static PyObject *by_parts(const npa_way *w, PyObject *const *args, const npa_value *v,
                          PyArrayObject *first)
{
    enum { PART = 1024, LARGEST = 16 };
    char room[NPA_SMALL_IN][PART * LARGEST] __attribute__((aligned(64)));
    int nin = w->ufunc->nin, flags = 0;
    npy_intp n = PyArray_SIZE(first);
    npa_space s = {.ndim = 1, .nargs = nin + 1};
    for (int k = 0; k < nin; k++) {
        if (v[k].array == NULL && !npa_take_scalar(args[k], w->type, s.scalars[k])) {
            return NULL;
        }
        s.of[k].data = v[k].array == NULL ? s.scalars[k] : PyArray_BYTES(v[k].array);
        s.of[k].steps[0] = v[k].array == NULL ? 0 : w->in_size;
    }
    if (w->numpys != NULL && npa_asks_underflow()) {
        return NULL; /* which the loop may not tell of */
    }
    PyArrayObject *made = npa_small_new(w->out, PyArray_NDIM(first), PyArray_DIMS(first));
    PyThreadState *mine = made != NULL ? npa_small_let_go(n) : NULL;
    npa_clear_errors();
    for (npy_intp at = 0; made != NULL && at < n; at += PART) {
        s.points = s.shape[0] = n - at < PART ? n - at : PART;
        for (int k = 0; k < nin; k++) {
            PyArrayObject *a = v[k].array;
            char *from = a == NULL ? s.scalars[k] : PyArray_BYTES(a) + at * PyArray_ITEMSIZE(a);
            s.of[k].data = a == NULL || PyArray_TYPE(a) == w->type ? from : room[k];
            if (s.of[k].data != from) {
                npa_cast(PyArray_TYPE(a), from, PyArray_ITEMSIZE(a), w->type, room[k], w->in_size,
                         s.points);
            }
        }
        s.of[nin].data = PyArray_BYTES(made) + at * w->out_size, s.of[nin].steps[0] = w->out_size;
        flags = npa_run_flags(w, &s);
    }
    if (mine != NULL) {
        PyEval_RestoreThread(mine);
    }
    if (made != NULL && npa_tell_errors(w->ufunc, flags) < 0) {
        Py_CLEAR(made);
    }
    return (PyObject *)made;
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
    PyArrayObject *first = ready && n == u->nin ? alike(v, u->nin) : NULL;
    const npa_way *w = first != NULL ? npa_find_way(u, type, how) : NULL;
    if (w != NULL && w->loop != NULL && w->exact) {
        const npa_way own = *w; /* another thread may have its place for another way */
        result = by_parts(&own, args, v, first);
        ready = result == NULL && !PyErr_Occurred();
    }
    for (int k = 0; ready && k < u->nin; k++) {
        bool other = v[k].array != NULL && types[k] != type;
        made[k] = other ? converted(v[k].array, type) : Py_NewRef(args[k]);
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
