/* wholes.c: calls of redirected functions that NumPy writes in Python, which run as one. */
#include "numpy/numpy.h"
#include "numpy/redirect.h"

/* Where a function's index is, or is to be. */
uint8_t *npa_whole_place(PyObject *function)
{
    size_t i = (uintptr_t)function >> 4;
    for (;; i++) {
        uint8_t *place = &npa_whole_places[i % (4 * NPA_MOST_WHOLE)];
        if (*place == 0 || npa_wholes[*place - 1].function == function) {
            return place;
        }
    }
}

static size_t most_of(const whole *w, PyObject *names)
{
    return w->sums ? npa_most_summed(w->most, names) : w->most;
}

/* NULL: it is not redirected */
static const whole *whole_of(PyObject *function)
{
    uint8_t place = *npa_whole_place(function);
    return place != 0 ? &npa_wholes[place - 1] : NULL;
}

size_t npa_most_whole(PyObject *function, PyObject *names)
{
    const whole *w = whole_of(function);
    return w == NULL ? 0 : most_of(w, names);
}

static bool records(const whole *w, PyObject *const *args, Py_ssize_t all)
{
    return w->record != NULL &&
           !(w->idle && w->most > 0 && npa_at_once(args, all, most_of(w, NULL)));
}

npa_recorder *npa_recorder_of(PyObject *function, PyObject *const *args, Py_ssize_t all)
{
    const whole *w = whole_of(function);
    return w != NULL && records(w, args, all) ? w->record : NULL;
}

/* Whether none is an array of ours, nor lies in our memory, nor might hold one. */
static bool only_plain_arrays(PyObject *const *args, Py_ssize_t n)
{
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject *o = args[k];
        if (plain(o) ? npa_is_home(PyArray_DATA((PyArrayObject *)o))
                     : !(o == Py_None || PyBool_Check(o) || PyLong_CheckExact(o) ||
                         PyFloat_CheckExact(o))) {
            return false;
        }
    }
    return true;
}

/* Where nothing waits for its arrays, and they are not larger than that. As npa_direct_call. */
static int run_whole(const whole *w, size_t most, PyObject *const *args, Py_ssize_t n,
                     PyObject *names, PyObject **result)
{
    Py_ssize_t all = n + (names != NULL ? PyTuple_GET_SIZE(names) : 0);
    if (!npa_at_once(args, all, most)) {
        return 0;
    }
    int status = 1;
    npa_suspended++, npa_whole++;
    if (quiet() && only_plain_arrays(args, all)) {
        *result = PyObject_Vectorcall(w->function, args, (size_t)n, names); /* as a whole */
        status = *result != NULL ? 1 : -1;
    } else {
        status = npa_direct_call(w->function, args, n, names, n, NPA_ANY_SIZE, false, result);
    }
    npa_suspended--, npa_whole--;
    *result = status > 0 ? npa_adopted_each(*result) : NULL;
    return status;
}

/* As ufunc_passes. made: the bytes of a result that is larger than what it is of. */
static bool passes(const whole *w, size_t made, PyObject *const *args, Py_ssize_t all)
{
    bool mine = false;
    size_t bytes = npa_autotune_on && w->waits ? npa_most_bytes(args, all, &mine) : 0;
    bytes = made > bytes ? made : bytes;
    if (w->like && mine && bytes < npa_ours_here()) {
        return true;
    }
    return bytes > 0 && npa_autotune_on && w->waits && npa_autotune_passes_call(w, bytes, true);
}

bool npa_whole_passes(PyObject *function, PyObject *const *args, Py_ssize_t n, Py_ssize_t all)
{
    const whole *w = whole_of(function);
    return npa_in_block() && passes(w, w->repeats ? npa_repeated_bytes(args, n) : 0, args, all);
}

bool npa_whole_looks_alone(PyObject *function) { return whole_of(function)->like; }

/* The call is recorded, or its recorder makes the result, or it is NumPy's in a round that is.
 * False: none of these. */
static bool record_whole(const whole *w, size_t made, PyObject *const *args, Py_ssize_t n,
                         PyObject *names, PyObject **result)
{
    Py_ssize_t all = n + (names != NULL ? PyTuple_GET_SIZE(names) : 0);
    if (passes(w, made, args, all)) {
        npa_passed++;
        *result = w->small != NULL ? npa_do_small(w->small, NULL, args, n, names) : NULL;
        bool done = *result != NULL || PyErr_Occurred() ||
                    run_whole(w, SIZE_MAX, args, n, names, result) != 0;
        npa_passed--;
        if (done) {
            return true;
        }
    }
    int before = npa_now(NPA_RECORDING);
    *result = w->record(args, n, names);
    npa_now(before);
    return *result != NULL || PyErr_Occurred();
}

/* NumPy's function, on arrays that are evaluated first. */
static PyObject *call_whole(const whole *w, PyObject *self, PyObject *const *args, size_t nargs,
                            PyObject *names)
{
    Py_ssize_t all = PyVectorcall_NARGS(nargs) + (names != NULL ? PyTuple_GET_SIZE(names) : 0);
    for (Py_ssize_t k = 0; k < all; k++) {
        if (ours(args[k])) { /* as outside a block, and back here with what is evaluated */
            return w->original(self, args, nargs, names);
        }
    }
    if (npa_settle_all(args, all, false, true) < 0) {
        return NULL;
    }
    double start = npa_seconds();
    int before = npa_now(NPA_IN_NUMPY);
    npa_suspended++;
    PyObject *result = w->original(self, args, nargs, names);
    npa_suspended--;
    npa_now(before);
    npa_count_fallback(w->name, w->reason, npa_seconds() - start);
    return npa_adopted_each(result);
}

/* What looks at an array's values once, to fold them. */
static PyObject *fold_whole(const whole *w, PyObject *self, PyObject *const *args, size_t nargs,
                            PyObject *names)
{
    Py_ssize_t n = PyVectorcall_NARGS(nargs);
    PyArrayObject *before = npa_begin_last_use(args, n, names, self);
    PyObject *result = NULL;
    int status = npa_fold_recorded(w->small, args, n, names, &result);
    result = status == 0 ? w->original(self, args, nargs, names) : result;
    npa_last_use = before;
    return result;
}

static PyObject *whole_call(const whole *w, PyObject *self, PyObject *const *args, size_t nargs,
                            PyObject *names)
{
    Py_ssize_t n = PyVectorcall_NARGS(nargs);
    Py_ssize_t all = n + (names != NULL ? PyTuple_GET_SIZE(names) : 0);
    PyObject *result = w->small == NULL ? NULL : npa_do_small(w->small, NULL, args, n, names);
    if (result == NULL && !PyErr_Occurred() && w->small != NULL && n > 0 && ours(args[0])) {
        result = npa_fold_ours(w->small, self, args, n, names);
    }
    if (result != NULL || PyErr_Occurred()) {
        return result;
    }
    size_t made = w->repeats && npa_suspended == 0 ? npa_repeated_bytes(args, n) : 0;
    bool enough = (made > 0 && made >= npa_threshold_here()) || npa_any_large(args, all, true);
    /* What it makes on the way of narrow numbers may be large, and is read at once. */
    bool wide = !enough && npa_any_wide(args, all);
    if (w->small_only || npa_suspended || !(enough || wide) || !npa_in_block()) {
        return n > 0 && enough && npa_small_folds_once(w->small)
                   ? fold_whole(w, self, args, nargs, names)
                   : w->original(self, args, nargs, names);
    }
    if (records(w, args, all) && (enough || !w->waits) &&
        record_whole(w, made, args, n, names, &result)) {
        return result;
    }
    if (w->most > 0) {
        bool done = run_whole(w, most_of(w, names), args, n, names, &result) != 0;
        return done ? result : w->original(self, args, nargs, names);
    }
    return call_whole(w, self, args, nargs, names);
}

PyObject *npa_whole_stub(PyObject *self, PyObject *const *args, size_t nargs, PyObject *names)
{
    const whole *w = whole_of(self);
    npa_coarse += !w->waits;
    PyObject *result = whole_call(w, self, args, nargs, names);
    npa_coarse -= !w->waits;
    return result;
}
