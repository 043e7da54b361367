/* ufuncs.c: calls of redirected ufuncs. */
#include "numpy/numpy.h"
#include "numpy/redirect.h"
#include "numpy/aside.h"
#include "small/ways.h"

#include <string.h>

/* Why a scalar that is a time can't be recorded; NULL: it is none. */
static const char *why_time(PyObject *o)
{
    return PyArray_IsScalar(o, Datetime)    ? "operand of type datetime64"
           : PyArray_IsScalar(o, Timedelta) ? "operand of type timedelta64"
                                            : NULL;
}

/* Operands that are nobody else's: plain arrays, scalars, lists. */
bool npa_only_plain(PyObject *const *args, Py_ssize_t n)
{
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject *o = args[k];
        npa_value value;
        if (!plain(o) && o != Py_None && !PyList_CheckExact(o) && !PyTuple_CheckExact(o) &&
            why_time(o) == NULL && (PyArray_Check(o) || !npa_classify(o, &value))) {
            return false;
        }
    }
    return true;
}

/* The common form: all inputs in place, perhaps the outputs, no keyword. */
static PyObject *take_fast(PyUFuncObject *u, PyObject *const *args, Py_ssize_t n, int *status)
{
    npa_value values[NPA_MAX_ARGS];
    PyArrayObject *out[1] = {NULL};
    *status = 0;
    if (n > u->nin && args[n - 1] != Py_None) {
        npa_value target;
        if (!npa_classify(args[n - 1], &target) || target.array == NULL) {
            return NULL;
        }
        out[0] = target.array;
    }
    for (int k = 0; k < u->nin; k++) {
        if (!npa_classify(args[k], &values[k])) {
            return NULL;
        }
    }
    if (!npa_wants(values, u->nin) && !(out[0] != NULL && npa_is_pending(out[0]))) {
        *status = 2; /* not counted */
        return NULL;
    }
    return npa_ufunc_call((PyObject *)u, values, out[0] != NULL ? out : NULL, status);
}

/* Call `taker`; 1: *result is its (NULL: an error); 0: *reason, new, says why NumPy must. */
int npa_ask(PyObject *taker, PyObject *const *args, size_t n, PyObject *names, PyObject **result,
            PyObject **reason)
{
    npa_suspended++;
    *result = npa_without_us(PyObject_Vectorcall(taker, args, n, names));
    npa_suspended--;
    if (*result == NULL || !PyUnicode_CheckExact(*result)) {
        return 1;
    }
    *reason = *result;
    return 0;
}

/* NumPy's, whose time it is. */
static PyObject *timed_call(PyObject *self, PyObject *const *args, size_t nargs, PyObject *names)
{
    int before = npa_now(NPA_IN_NUMPY);
    PyObject *result = npa_numpys_ufunc_call(self, args, nargs, names);
    npa_now(before);
    return result;
}

static PyObject *run_ufunc(PyObject *self, PyObject *const *args, size_t nargs, PyObject *names,
                           PyObject *reason)
{
    Py_ssize_t all = PyVectorcall_NARGS(nargs) + (names != NULL ? PyTuple_GET_SIZE(names) : 0);
    PyObject *result = NULL;
    if (npa_settle_all(args, all, true, true) == 0) {
        double start = npa_seconds();
        result = timed_call(self, args, nargs, names);
        if (PyUnicode_GetLength(reason) > 0) {
            npa_count_fallback(self, reason, npa_seconds() - start);
        }
    }
    Py_DECREF(reason);
    return npa_adopted(result);
}

/* Without Python's part: the call is done, recorded, or NumPy's. False: none of these. */
static bool take_directly(PyUFuncObject *u, PyObject *const *args, size_t nargs, PyObject *names,
                          PyObject **result)
{
    Py_ssize_t n = PyVectorcall_NARGS(nargs);
    int status;
    if (names != NULL) {
        npa_suspended++;
        status = npa_out_call((PyObject *)u, args, n, names, result);
        npa_suspended--;
        *result = status > 0 ? *result : NULL;
        return status != 0;
    }
    if (n != u->nin && (n != u->nin + 1 || u->nout != 1)) {
        return false;
    }
    npa_suspended++;
    *result = take_fast(u, args, n, &status);
    npa_suspended--;
    if (status == 1 || status == -1 || PyErr_Occurred()) {
        return true;
    }
    if (status == 2) {
        *result = timed_call((PyObject *)u, args, nargs, names);
    }
    return status == 2;
}

static PyObject *take_ufunc(PyObject *self, PyObject *const *args, size_t nargs, PyObject *names)
{
    PyUFuncObject *u = (PyUFuncObject *)self;
    Py_ssize_t n = PyVectorcall_NARGS(nargs);
    PyObject *result, *reason = NULL, *shifted[NPA_NESTED];
    npa_pass_because(NULL);
    if (u->core_enabled) {
        return npa_only_plain(args, n)
                   ? run_ufunc(self, args, nargs, names, PyUnicode_FromString("generalised ufunc"))
                   : timed_call(self, args, nargs, names);
    }
    if (take_directly(u, args, nargs, names, &result)) {
        return result;
    }
    const char *why = npa_passing_reason();
    if (why != NULL) { /* nor would it be recorded by way of Python */
        reason = PyUnicode_InternFromString(why);
        return reason != NULL ? run_ufunc(self, args, nargs, names, reason) : NULL;
    }
    Py_ssize_t all = n + (names != NULL ? PyTuple_GET_SIZE(names) : 0);
    if (!npa_only_plain(args, n) || all >= NPA_NESTED) {
        return PyErr_Occurred() ? NULL : timed_call(self, args, nargs, names);
    }
    for (Py_ssize_t k = 0; k < n; k++) {
        why = why_time(args[k]);
        if (why != NULL) {
            return run_ufunc(self, args, nargs, names, PyUnicode_InternFromString(why));
        }
    }
    shifted[0] = self;
    memcpy(shifted + 1, args, sizeof *args * (size_t)all);
    if (npa_ask(npa_ufunc_taker, shifted, (size_t)n + 1, names, &result, &reason)) {
        return result;
    }
    return run_ufunc(self, args, nargs, names, reason);
}

static inline bool is_named(PyObject *names, Py_ssize_t k, const char *name)
{
    return PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, k), name) == 0;
}

static bool are_none(PyObject *out)
{
    for (Py_ssize_t k = 0; PyTuple_CheckExact(out) && k < PyTuple_GET_SIZE(out); k++) {
        if (PyTuple_GET_ITEM(out, k) != Py_None) {
            return false;
        }
    }
    return out == Py_None || PyTuple_CheckExact(out);
}

/* Where the call says of out= what NumPy does not pass on to __array_ufunc__: `...`, "an array,
 * also where it would be a scalar"; None beside where=, "no warning". -1: nowhere. */
static inline Py_ssize_t unpassed_at(PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    for (Py_ssize_t k = 0; names != NULL && k < PyTuple_GET_SIZE(names); k++) {
        bool dots = args[n + k] == Py_Ellipsis;
        if (!(dots || are_none(args[n + k])) || !is_named(names, k, "out")) {
            continue;
        }
        for (Py_ssize_t i = 0; !dots && i < PyTuple_GET_SIZE(names); i++) {
            dots = args[n + i] != Py_True && is_named(names, i, "where");
        }
        return dots ? k : -1;
    }
    return -1;
}

/* Whether the result is an array anyway, so that it says nothing; where= without out= warns. */
static bool is_array_anyway(const PyUFuncObject *u, PyObject *const *args, Py_ssize_t n,
                            PyObject *names)
{
    bool found = false, where = false;
    for (Py_ssize_t k = 0; k < n; k++) {
        found |= (plain(args[k]) || ours(args[k])) && PyArray_NDIM((PyArrayObject *)args[k]) > 0;
    }
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(names); k++) {
        where |= is_named(names, k, "where");
    }
    return found && n == u->nin && !u->core_enabled && !where &&
           PyArray_GetNDArrayCFeatureVersion() >= NPY_2_3_API_VERSION; /* which knows it */
}

/* An array that is written, where that is not ours. */
static bool writes_others(PyUFuncObject *u, PyObject *const *args, Py_ssize_t n)
{
    return n > u->nin && plain(args[u->nin]) &&
           npa_range_find(PyArray_DATA((PyArrayObject *)args[u->nin])) == NULL;
}

static PyObject *ufunc_looked_at(PyObject *self, PyObject *const *args, size_t nargs,
                                 PyObject *names)
{
    bool mine = false;
    Py_ssize_t n = PyVectorcall_NARGS(nargs);
    npa_stretch s = npa_stretch_begin();
    PyObject *result = npa_numpys_ufunc_call(self, args, nargs, names);
    size_t bytes = npa_most_bytes(args, n, &mine), any = npa_any_bytes(args, n);
    bool others = any > bytes && npa_is_enough(any);
    npa_stretch_end(&s, others ? NPA_SUBCLASS : NPA_SMALL, others ? any : bytes);
    return result;
}

static inline PyObject *ufunc_in_numpy(PyObject *self, PyObject *const *args, size_t nargs,
                                       PyObject *names)
{
    return npa_suspended == 0 && npa_look_due() ? ufunc_looked_at(self, args, nargs, names)
                                            : npa_numpys_ufunc_call(self, args, nargs, names);
}

/* np.maximum(a, b, out) and minimum: newer NumPy warns, as its authors often meant a third
 * operand. */
static bool out_is_deprecated(const PyUFuncObject *u, Py_ssize_t n)
{
    return n > 2 && u->nin == 2 &&
           (strcmp(u->name, "maximum") == 0 || strcmp(u->name, "minimum") == 0);
}

/* As npa_aside_ufunc. */
static bool aside(PyUFuncObject *u, PyObject *const *args, Py_ssize_t n, npa_exactness exact,
                  PyObject **result)
{
    npa_value values[NPA_MAX_ARGS];
    bool known = n == u->nin && u->nin < NPA_MAX_ARGS;
    for (Py_ssize_t k = 0; known && k < n; k++) {
        known = npa_classify(args[k], &values[k]);
    }
    return known ? npa_aside_ufunc(u, exact, values, args, (int)n, result)
                 : PyErr_Occurred() != NULL;
}

/* What a call asks for besides its inputs: an array for the result, a type. NULL: neither */
typedef struct { PyObject *target, *dtype; } asked;

static bool read_out(PyObject *value, asked *q)
{
    bool one = PyTuple_CheckExact(value) && PyTuple_GET_SIZE(value) == 1;
    PyObject *out = one ? PyTuple_GET_ITEM(value, 0) : value;
    if (out != Py_None) {
        q->target = out;
    }
    return out == Py_None || plain(out);
}

/* What a name says. False: it is for NumPy; what holds anyway for plain arrays is not. */
static bool read_name(PyObject *names, Py_ssize_t k, PyObject *value, asked *q)
{
    if (is_named(names, k, "out")) {
        return q->target == NULL && read_out(value, q);
    }
    if (is_named(names, k, "dtype")) {
        q->dtype = value != Py_None ? value : NULL;
        return true;
    }
    return is_named(names, k, "where")   ? value == Py_True
           : is_named(names, k, "subok") ? PyBool_Check(value)
           : is_named(names, k, "order") ? npa_is_text(value, "C") || npa_is_text(value, "K")
           : is_named(names, k, "casting")
               ? npa_is_text(value, "same_kind") || npa_is_text(value, "unsafe")
               : false;
}

/* Whether it is computed with in this type: an array of it, or a number that adapts to one. */
static bool is_of_type(PyObject *o, int type)
{
    return plain(o) ? PyArray_TYPE((PyArrayObject *)o) == type
           : PyFloat_CheckExact(o) ? PyTypeNum_ISFLOAT(type) || PyTypeNum_ISCOMPLEX(type)
                                   : PyLong_CheckExact(o) && PyTypeNum_ISNUMBER(type) &&
                                         type != NPY_BOOL;
}

/* Whether inputs and result have this type anyway. */
static bool is_own_type(PyUFuncObject *u, PyObject *const *args, PyObject *dtype,
                        npa_exactness exact)
{
    int type = u->core_enabled || u->nin > NPA_SMALL_IN ? -1 : npa_small_type_named(dtype);
    const npa_way *w = type >= 0 ? npa_find_way(u, type, exact) : NULL;
    bool own = w != NULL && w->loop != NULL && w->out->type_num == type;
    for (int k = 0; k < u->nin; k++) {
        own = own && is_of_type(args[k], type);
    }
    return own;
}

/* Whether a call asks for nothing that is NumPy's alone; *q: for what. */
static bool is_common(PyUFuncObject *u, PyObject *const *args, Py_ssize_t n, PyObject *names,
                      npa_exactness exact, asked *q)
{
    bool common = n == u->nin || (n == u->nin + 1 && !out_is_deprecated(u, n) &&
                                  (args[n - 1] == Py_None || plain(args[n - 1])));
    q->target = common && n > u->nin && args[n - 1] != Py_None ? args[n - 1] : NULL;
    for (Py_ssize_t k = 0; names != NULL && common && k < PyTuple_GET_SIZE(names); k++) {
        common = read_name(names, k, args[n + k], q);
    }
    return common && (q->dtype == NULL || is_own_type(u, args, q->dtype, exact));
}

/* u(args), its result in `target`, if that is not NULL. NULL, perhaps without error: NumPy's */
static PyObject *call_small(PyUFuncObject *u, PyObject *const *args, PyObject *target,
                            npa_exactness exact)
{
    PyObject *given[NPA_SMALL_IN + 1];
    int n = u->nin;
    if (target == NULL || args[n] == target) {
        return npa_small_call(u, args, n + (target != NULL), exact);
    }
    memcpy(given, args, sizeof *given * (size_t)n);
    given[n++] = target;
    return npa_small_call(u, given, n, exact);
}

/* The same with arrays of what lists hold. NULL also where there are none */
static PyObject *call_on_lists(PyUFuncObject *u, PyObject *const *args, PyObject *target,
                               npa_exactness exact)
{
    PyObject *given[NPA_SMALL_IN] = {NULL}, *made[NPA_SMALL_IN] = {NULL}, *result = NULL;
    bool any = false, good = true;
    for (int k = 0; k < u->nin && good; k++) {
        made[k] = npa_is_listed(args[k]) ? npa_small_of_list(args[k]) : NULL;
        good = made[k] != NULL || !npa_is_listed(args[k]), any |= made[k] != NULL;
        given[k] = made[k] != NULL ? made[k] : args[k];
    }
    if (any && good) {
        result = call_small(u, given, target, exact);
    }
    for (int k = 0; k < u->nin; k++) {
        Py_XDECREF(made[k]);
    }
    return result;
}

/* A call that has no array worth taking. */
static inline PyObject *small_ufunc(PyObject *self, PyObject *const *args, size_t nargs,
                                    PyObject *names, npa_exactness exact)
{
    PyUFuncObject *u = (PyUFuncObject *)self;
    Py_ssize_t n = PyVectorcall_NARGS(nargs);
    asked q = {NULL, NULL};
    bool common = u->nin <= NPA_SMALL_IN && is_common(u, args, n, names, exact, &q);
    bool refused = u == npa_small_refused;
    npa_small_refused = NULL;
    PyObject *result = NULL;
    if (common && !refused && q.target == NULL && npa_stands_aside() &&
        aside(u, args, u->nin, exact, &result)) {
        return result;
    }
    result = common && !refused ? call_small(u, args, q.target, exact) : NULL;
    if (result == NULL && common && q.dtype == NULL && !PyErr_Occurred()) {
        result = call_on_lists(u, args, q.target, exact);
    }
    return result != NULL || PyErr_Occurred() ? result : ufunc_in_numpy(self, args, nargs, names);
}

static PyObject *run_on_views(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names,
                              npa_exactness exact)
{
    Py_ssize_t all = n + (names != NULL ? PyTuple_GET_SIZE(names) : 0), k = 0;
    PyObject *made[NPA_NESTED], *result = NULL;
    for (; k < all && k < NPA_NESTED; k++) {
        PyArrayObject *a = ours(args[k]) ? (PyArrayObject *)args[k] : NULL;
        bool shown = a == NULL || npa_touch(a, false) == 0;
        made[k] = !shown ? NULL : a != NULL ? npa_exact_view(a) : Py_NewRef(args[k]);
        if (made[k] == NULL) {
            break;
        }
    }
    if (k == all && !PyErr_Occurred()) {
        result = npa_adopted(small_ufunc(self, made, (size_t)n, names, exact));
    } else if (!PyErr_Occurred()) {
        PyErr_SetString(PyExc_TypeError, "too many arguments");
    }
    while (k-- > 0) {
        Py_DECREF(made[k]);
    }
    return result;
}

/* Whether NumPy does it at once, see autotune.c; *mine: on views of what is ours. */
static bool ufunc_passes(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names,
                         npa_exactness exact, bool *mine)
{
    bool target = false;
    Py_ssize_t all = n + (names != NULL ? PyTuple_GET_SIZE(names) : 0);
    Py_ssize_t nin = ((PyUFuncObject *)self)->nin;
    npa_value values[NPA_MAX_ARGS] = {0};
    for (Py_ssize_t k = 0; k < all && k < NPA_MAX_ARGS; k++) {
        *mine |= ours(args[k]);
        target |= k >= nin && ours(args[k]);
        values[k].array = plain(args[k]) || ours(args[k]) ? (PyArrayObject *)args[k] : NULL;
    }
    int known = all < NPA_MAX_ARGS ? (int)all : NPA_MAX_ARGS;
    size_t bytes = npa_broadcast_bytes(values, known);
    bool possible = !*mine || (names == NULL && !target);
    if (!npa_has_numpys_bits(exact, values, known) ||
        !npa_autotune_passes(self, bytes, possible)) {
        return false;
    }
    if (bytes >= NPA_SMALL_MOST && writes_others((PyUFuncObject *)self, args, n)) {
        npa_look_next(NPA_WRITTEN);
    }
    return true;
}

static PyObject *redirected_ufunc(PyObject *self, PyObject *const *args, size_t nargs,
                                  PyObject *names, npa_exactness exact);

/* The call without its keyword `at`. */
static PyObject *without_ellipsis(PyObject *self, PyObject *const *args, Py_ssize_t n,
                                  PyObject *names, Py_ssize_t at, npa_exactness exact)
{
    PyObject *given[NPA_NESTED], *fewer = NULL;
    Py_ssize_t count = PyTuple_GET_SIZE(names), all = n;
    if (n + count > NPA_NESTED) {
        return npa_numpys_ufunc_call(self, args, (size_t)n, names);
    }
    if (count > 1 && (fewer = PyTuple_New(count - 1)) == NULL) {
        return NULL;
    }
    memcpy(given, args, sizeof *args * (size_t)n);
    for (Py_ssize_t k = 0; k < count; k++) {
        if (k != at) {
            PyTuple_SET_ITEM(fewer, all - n, Py_NewRef(PyTuple_GET_ITEM(names, k)));
            given[all++] = args[n + k];
        }
    }
    PyObject *result = redirected_ufunc(self, given, (size_t)n, fewer, exact);
    Py_XDECREF(fewer);
    return result;
}

/* npa_small_numbers, which is looked at where that is due. */
static PyObject *on_numbers(PyObject *self, PyObject *const *args, Py_ssize_t n,
                            npa_exactness exact)
{
    npa_small_look look = npa_small_look_begin();
    PyObject *result = npa_small_numbers((PyUFuncObject *)self, args, n, exact);
    npa_small_look_end(&look, result != NULL, 0);
    return result;
}

static inline bool is_number(PyObject *o)
{
    return PyArray_Check(o) ? plain(o) && PyArray_NDIM((PyArrayObject *)o) == 0 : !npa_is_listed(o);
}

static PyObject *redirected_ufunc(PyObject *self, PyObject *const *args, size_t nargs,
                                  PyObject *names, npa_exactness exact)
{
    Py_ssize_t n = PyVectorcall_NARGS(nargs);
    if (names == NULL && n > 0 && is_number(args[0])) {
        PyObject *result = on_numbers(self, args, n, exact);
        if (result != NULL || PyErr_Occurred()) {
            return result;
        }
    }
    if (((PyUFuncObject *)self)->core_enabled) {
        PyObject *result = npa_rows((PyUFuncObject *)self, args, n, names);
        if (result != NULL || PyErr_Occurred()) {
            return result;
        }
    }
    Py_ssize_t at = unpassed_at(args, n, names);
    if (at >= 0 && is_array_anyway((PyUFuncObject *)self, args, n, names)) {
        return without_ellipsis(self, args, n, names, at, exact);
    }
    if (at >= 0) {
        return run_on_views(self, args, n, names, exact);
    }
    bool mine = false;
    if (__builtin_expect(!npa_any_large(args, n, false) || npa_passed, true)) {
        return small_ufunc(self, args, nargs, names, exact);
    }
    if (npa_suspended || !npa_in_block() ||
        out_is_deprecated((PyUFuncObject *)self, n)) {
        return ufunc_in_numpy(self, args, nargs, names);
    }
    if (npa_autotune_on && ufunc_passes(self, args, n, names, exact, &mine)) {
        npa_passed++, npa_small_refused = NULL;
        PyObject *result = mine ? run_on_views(self, args, n, names, exact)
                                : small_ufunc(self, args, nargs, names, exact);
        npa_passed--;
        return result;
    }
    int before = npa_now(NPA_RECORDING);
    PyObject *result = take_ufunc(self, args, nargs, names);
    npa_now(before);
    return result;
}

PyObject *npa_ufunc_stub(PyObject *self, PyObject *const *args, size_t nargs, PyObject *names)
{
    return redirected_ufunc(self, args, nargs, names, NPA_INEXACT);
}

/* Of one of another library, whose loop may raise: where arrays are small it is its own. */
PyObject *npa_foreign_ufunc_stub(PyObject *self, PyObject *const *args, size_t nargs,
                                 PyObject *names)
{
    if (!npa_any_large(args, PyVectorcall_NARGS(nargs), false)) {
        return ufunc_in_numpy(self, args, nargs, names);
    }
    return redirected_ufunc(self, args, nargs, names, NPA_INEXACT);
}

/* Of a ufunc whose results have the same bits, whoever computes them. */
PyObject *npa_exact_ufunc_stub(PyObject *self, PyObject *const *args, size_t nargs, PyObject *names)
{
    return redirected_ufunc(self, args, nargs, names, NPA_EXACT);
}

/* Of one of which that holds for real operands. */
PyObject *npa_real_ufunc_stub(PyObject *self, PyObject *const *args, size_t nargs, PyObject *names)
{
    return redirected_ufunc(self, args, nargs, names, NPA_EXACT_IF_REAL);
}
