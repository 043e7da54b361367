/* redirect.c: NumPy's own callables, redirected at the object while a block is open (block.c).
 *
 *   ufuncs                       the object's vectorcall slot; operators on plain arrays come here
 *   C functions and methods      ml_meth of their method definitions
 *   some Python functions        the vectorcall slot of their dispatcher; they run as one, in
 *                                NumPy, or, on small arrays, without its code (small_functions.c)
 *   subscripts of plain arrays   ndarray's slots
 *   hashes of C functions        as they were, see function_hash
 *
 * Every reference to such an object is redirected with it, whenever it was taken. A stub asks first
 * whether any array in the call is large, then whether this code is in a block, and else calls what
 * was there before. What it takes goes to the recorder; what can't be recorded runs in NumPy and
 * is counted with its reason and its time. Which callables, and who takes them, is Python's table
 * (dispatch/redirect.py). Stubs are part of this library: a call that is in one when the last block
 * is left, or a class that inherited one, finds the original through it for ever. */
#include "numpy/numpy.h"

#include <string.h>

/* What is looked at to see whether a call has an array worth taking. */
enum action {
    ARGUMENTS,  /* the arguments, and the items of lists and tuples among them */
    SELF,       /* the array whose method it is */
    SHAPE,      /* how many elements the first argument asks for */
    RANGE,      /* how many elements a range has */
    RESULT,     /* nothing: only the result is ours */
    STRIDED,    /* the array whose method it is, unless it lies in C order */
    CONVERTED,  /* the arguments, unless the first comes back as it is: asarray(a) */
    /* The array whose method it is, unless it comes back: a.astype(a.dtype, copy=False) */
    CAST,
    PICKED,     /* the array whose method it is, unless few elements are picked: take */
    OTHERS,     /* the arguments but for the array that is worked on, unless something is pending */
    REDUCED,    /* the arguments, unless a full reduction is done at once: ufunc.reduce */
    PICKED_ONE, /* the array whose method it is, likewise: argmin, argmax */
    STEPS,      /* the array whose method it is, unless all of it is NumPy's: var, std */
    COUNTED,    /* the arguments, unless truth values are counted at once: count_nonzero */
    SMALL,      /* nothing: only what is small is done here, the rest is NumPy's Python code */
    ACTIONS
};

typedef struct {
    PyMethodDef *definition;
    PyCFunction original, stub;
    enum action action;
    int kind;               /* its calling convention, METH_... */
    bool method, writes, copies, on_array; /* copies: unless it is told not to */
    bool moves;             /* its result has the same bits, whoever computes it */
    npa_own *own;           /* how it is done here; NULL: by NumPy */
    void *what;             /* for that */
    int adopts;             /* 2: also shows whole plain views of ours as what they are views of */
    PyObject *taker;        /* NULL: NumPy runs it */
    const npa_small_function *small; /* how it is done on small arrays; NULL: by NumPy */
    PyObject *name, *reason;
} target;

/* A function that NumPy writes in Python. most: bytes of arrays up to which it runs as one; 0:
 * always, and is counted. */
typedef struct {
    PyObject *function, *name, *reason;
    vectorcallfunc *slot, original;
    size_t most;
    const npa_small_function *small; /* how it is done on small arrays; NULL: by NumPy */
    bool small_only;                 /* otherwise it is as if it were not redirected */
    npa_recorder *record;            /* how it is recorded; NULL: by what its code calls */
    /* What it records waits: a trial may have the call done at once */
    bool waits;
    bool repeats;                    /* its result may be many times as large as its argument */
    /* Floats, in whose order last bits hang: ours from the threshold on */
    bool sums;
    /* On arrays that nothing waits for, up to `most`, NumPy does it at once */
    bool idle;
} whole;

enum { MOST = 256, MOST_UFUNCS = 512, MOST_WHOLE = 120, NESTED = 32 };
static target targets[MOST];
static int ntargets;
static PyUFuncObject *ufuncs[MOST_UFUNCS];
static vectorcallfunc ufunc_originals[MOST_UFUNCS];
static npa_exactness ufunc_exact[MOST_UFUNCS];
static int nufuncs;
static whole wholes[MOST_WHOLE];
static uint8_t whole_places[4 * MOST_WHOLE]; /* 1 + the index of a function, by its address */
static int nwholes;
static vectorcallfunc numpy_ufunc_call; /* the one that they all have */
static PyObject *ufunc_taker;
static bool installed;

/* ------------------------------------------------------------------------- is it worth it */

static inline bool large(PyObject *o)
{
    PyArrayObject *a = (PyArrayObject *)o;
    size_t bytes = (size_t)PyArray_ITEMSIZE(a);
    int ndim = PyArray_NDIM(a);
    for (int i = 0; i < ndim; i++) {
        bytes *= (size_t)PyArray_DIM(a, i);
    }
    return ndim > 0 && (npa_is_large(bytes) || (npa_waiting() && npa_is_pending(a)) ||
                        (npa_is_home(PyArray_DATA(a)) && npa_is_hidden(a)));
}

static inline bool plain(PyObject *o) { return Py_IS_TYPE(o, &PyArray_Type); }
static inline bool ours(PyObject *o) { return Py_IS_TYPE(o, npa_array_type); }

static bool same_shape(PyArrayObject *a, PyArrayObject *b)
{
    int i = 0, ndim = PyArray_NDIM(a);
    while (i < ndim && ndim == PyArray_NDIM(b) && PyArray_DIM(a, i) == PyArray_DIM(b, i)) {
        i++;
    }
    return i == ndim && ndim == PyArray_NDIM(b);
}

/* Whether these, or items of lists among them, are worth taking: a large array, or two small ones
 * that broadcast to a large one (npa_wants has the last word). */
static bool any_large(PyObject *const *args, Py_ssize_t n, bool nested)
{
    npa_value values[NPA_MAX_ARGS];
    int arrays = 0;
    bool deep = false, differ = false; /* equal shapes broadcast to nothing larger */
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject *o = args[k];
        if (plain(o) || ours(o)) {
            if (large(o)) {
                return true;
            }
            deep |= PyArray_NDIM((PyArrayObject *)o) > 1;
            differ |= arrays > 0 && (ours(o) || !same_shape(values[0].array, (PyArrayObject *)o));
            if (arrays < NPA_MAX_ARGS) {
                values[arrays++].array = (PyArrayObject *)o;
            }
        } else if (nested && (PyTuple_CheckExact(o) || PyList_CheckExact(o)) && Py_SIZE(o) > 0) {
            Py_ssize_t items = Py_SIZE(o) < NESTED ? Py_SIZE(o) : NESTED;
            if (any_large(PySequence_Fast_ITEMS(o), items, false)) {
                return true;
            }
        }
    }
    return deep && differ && npa_wants(values, arrays); /* ours count in a section, of any size */
}

static bool any_large_named(PyObject *dict)
{
    PyObject *values[NESTED], *value;
    Py_ssize_t n = 0, at = 0;
    while (n < NESTED && PyDict_Next(dict, &at, NULL, &value)) {
        values[n++] = value;
    }
    return any_large(values, n, true);
}

enum { ITEM = 8, LARGEST_ITEM = 16 };

/* Bytes of an item, at most, of what is made of a shape or a range, and of these: a dtype
 * perhaps. */
static size_t item_of(PyObject *const *rest, Py_ssize_t n)
{
    size_t size = ITEM;
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject *o = rest[k];
        bool usual = o == Py_None || o == (PyObject *)&PyFloat_Type ||
                     o == (PyObject *)&PyLong_Type || o == (PyObject *)&PyBool_Type ||
                     PyFloat_CheckExact(o) || PyLong_CheckExact(o);
        size_t found = usual                   ? ITEM
                       : PyArray_DescrCheck(o) ? (size_t)PyDataType_ELSIZE((PyArray_Descr *)o)
                                               : LARGEST_ITEM;
        size = found > size ? found : size;
    }
    return size;
}

/* At most `shape` elements' bytes; SIZE_MAX: unknown. */
static size_t bytes_of_shape(PyObject *shape, size_t item)
{
    PyObject *one[1] = {shape}, **items = one;
    Py_ssize_t n = 1;
    if (PyTuple_CheckExact(shape) || PyList_CheckExact(shape)) {
        items = PySequence_Fast_ITEMS(shape), n = Py_SIZE(shape);
    }
    double bytes = (double)item;
    for (Py_ssize_t i = 0; i < n; i++) {
        if (!PyIndex_Check(items[i]) || PyArray_Check(items[i])) {
            return SIZE_MAX;
        }
        if (!PyLong_Check(items[i]) && !PyArray_IsScalar(items[i], Integer)) {
            return 0; /* code of the user's, which NumPy calls, once */
        }
        Py_ssize_t extent = PyNumber_AsSsize_t(items[i], NULL);
        if (extent < 0) {
            PyErr_Clear();
            return 0; /* NumPy's error */
        }
        bytes *= (double)extent;
    }
    return bytes < 1e18 ? (size_t)bytes : SIZE_MAX;
}

static bool number(PyObject *o, double *out)
{
    if (PyFloat_CheckExact(o)) {
        *out = PyFloat_AS_DOUBLE(o);
        return true;
    }
    if (PyLong_CheckExact(o)) {
        *out = PyLong_AsDouble(o);
        if (*out == -1 && PyErr_Occurred()) {
            PyErr_Clear();
            return false;
        }
        return true;
    }
    return false;
}

static size_t bytes_of_range(PyObject *const *args, Py_ssize_t n, size_t item)
{
    double v[3] = {0, 0, 1};
    for (Py_ssize_t k = 0; k < n && k < 3; k++) {
        if (!number(args[k], &v[k])) {
            return SIZE_MAX;
        }
    }
    if (n == 1) {
        v[1] = v[0], v[0] = 0;
    }
    double count = (v[1] - v[0]) / v[2];
    return count > 0 && count < 1e17 ? (size_t)((double)item * (count + 1))
           : count > 0               ? SIZE_MAX
                                     : 0;
}

/* named: some arguments are not among these. */
static bool worth(const target *t, PyObject *self, PyObject *const *args, Py_ssize_t n,
                  Py_ssize_t all, bool named)
{
    switch (t->action) {
    case SELF:
    case CAST:
    case PICKED:
    case PICKED_ONE:
    case STEPS: return plain(self) && large(self);
    case STRIDED:
        return plain(self) && large(self) && !PyArray_IS_C_CONTIGUOUS((PyArrayObject *)self);
    case OTHERS:
        if (npa_waiting() || npa_least == 0) {
            return t->on_array ? plain(self) && large(self) : any_large(args, all, true);
        }
        return t->on_array ? plain(self) && any_large(args, all, true)
                           : all > 0 && any_large(args + 1, all - 1, true);
    case SHAPE: case RANGE: {
        size_t item = named || n == 0 ? LARGEST_ITEM : item_of(args + 1, all - 1);
        size_t bytes = n == 0               ? (all > 0 ? SIZE_MAX : 0)
                       : t->action == SHAPE ? bytes_of_shape(args[0], item)
                                            : bytes_of_range(args, n, item);
        return npa_is_large(bytes);
    }
    case RESULT: return true;
    default: return any_large(args, all, true);
    }
}

static bool is_own_dtype(PyArrayObject *a, PyObject *dtype)
{
    PyArray_Descr *own = PyArray_DESCR(a);
    if (dtype == Py_None || dtype == (PyObject *)own) {
        return true;
    }
    bool named = (dtype == (PyObject *)own->typeobj && npa_type_known(own->type_num)) ||
                 (dtype == (PyObject *)&PyFloat_Type && own->type_num == NPY_DOUBLE);
    PyArray_Descr *usual = named ? PyArray_DescrFromType(own->type_num) : NULL;
    Py_XDECREF(usual); /* it lives on in NumPy */
    return named && usual == own; /* neither swapped bytes nor metadata */
}

/* Whether NumPy gives `a` back: the dtype asked for is its own, nothing else is asked for but,
 * where that is needed, that there be no copy. */
static bool comes_back(PyObject *a, PyObject *const *args, Py_ssize_t n, PyObject *names,
                       bool copies)
{
    if (!plain(a) || !PyArray_IS_C_CONTIGUOUS((PyArrayObject *)a) || n > 1) {
        return false;
    }
    PyObject *dtype = n > 0 ? args[0] : Py_None;
    for (Py_ssize_t k = 0; names != NULL && k < PyTuple_GET_SIZE(names); k++) {
        PyObject *name = PyTuple_GET_ITEM(names, k), *value = args[n + k];
        if (PyUnicode_CompareWithASCIIString(name, "copy") == 0) {
            if (value != Py_False && value != Py_None) {
                return false;
            }
            copies = false;
        } else if (PyUnicode_CompareWithASCIIString(name, "dtype") == 0) {
            dtype = value;
        } else {
            return false;
        }
    }
    return !copies && is_own_dtype((PyArrayObject *)a, dtype);
}

static bool counts_at_once(PyObject *o)
{
    enum { MOST_COUNTED = 16 << 20 };
    return PyArray_ISBOOL((PyArrayObject *)o) && npa_at_once(&o, 1, MOST_COUNTED);
}

static bool picks_at_once(const target *t, PyObject *self, PyObject *const *args, Py_ssize_t n,
                          PyObject *names)
{
    PyObject *shifted[NESTED] = {self};
    Py_ssize_t all = n + (names != NULL ? PyTuple_GET_SIZE(names) : 0);
    if (all + 1 >= NESTED) {
        return false;
    }
    memcpy(shifted + 1, args, sizeof *args * (size_t)all);
    return npa_folds_at_once(t->definition->ml_name, shifted, n + 1, names, 2, false);
}

/* Whether there is nothing to do for us in a call on large arrays. */
static bool idle(const target *t, PyObject *self, PyObject *const *args, Py_ssize_t n,
                 PyObject *names)
{
    switch (t->action) {
    case CONVERTED:
        return n > 0 && comes_back(args[0], args + 1, n - 1, names, t->copies);
    case CAST: return comes_back(self, args, n, names, true);
    case PICKED: return npa_takes_few((PyArrayObject *)self, args, n, names);
    case REDUCED:
        return PyObject_TypeCheck(self, &PyUFunc_Type) &&
               npa_folds_at_once(((PyUFuncObject *)self)->name, args, n, names, 3, true);
    case PICKED_ONE: return picks_at_once(t, self, args, n, names);
    case COUNTED: return n == 1 && plain(args[0]) && counts_at_once(args[0]);
    default: return false;
    }
}

/* The bytes of the largest array; 0: there is none. *mine: whether any is ours. */
static size_t most_bytes(PyObject *const *args, Py_ssize_t n, bool *mine)
{
    size_t most = 0;
    for (Py_ssize_t k = 0; k < n; k++) {
        *mine |= ours(args[k]);
        if (plain(args[k]) || ours(args[k])) {
            size_t bytes = (size_t)PyArray_NBYTES((PyArrayObject *)args[k]);
            most = bytes > most ? bytes : most;
        }
    }
    return most;
}

/* ------------------------------------------------------------------------- run in NumPy */

/* np.array(a, copy=False) and the like give an ndarray itself but a view of any subclass's, so of
 * ours, also where an object's __array__ gave it: that view is replaced by the array itself. */
static PyObject *itself(PyObject *result)
{
    if (result == NULL || !plain(result) || Py_REFCNT(result) != 1) {
        return result;
    }
    PyArrayObject *a = (PyArrayObject *)result, *b = (PyArrayObject *)PyArray_BASE(a);
    if (b == NULL || !ours((PyObject *)b) || PyArray_DATA(a) != PyArray_DATA(b) ||
        PyArray_DESCR(a) != PyArray_DESCR(b) || PyArray_NDIM(a) != PyArray_NDIM(b) ||
        PyArray_ISWRITEABLE(a) != PyArray_ISWRITEABLE(b) ||
        !PyArray_CompareLists(PyArray_DIMS(a), PyArray_DIMS(b), PyArray_NDIM(a)) ||
        !PyArray_CompareLists(PyArray_STRIDES(a), PyArray_STRIDES(b), PyArray_NDIM(a))) {
        return result;
    }
    Py_INCREF(b);
    Py_DECREF(result);
    return (PyObject *)b;
}

/* What is pending is computed by kernels, and what is hidden is shown, before NumPy reads it. */
static int settle_all(PyObject *const *args, Py_ssize_t n, bool write, bool nested)
{
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject *o = args[k];
        if (plain(o) || ours(o)) {
            bool may_wait = npa_waiting() || npa_is_home(PyArray_DATA((PyArrayObject *)o));
            if (may_wait && npa_touch((PyArrayObject *)o, write) < 0) {
                return -1;
            }
        } else if (nested && (PyTuple_CheckExact(o) || PyList_CheckExact(o)) &&
                   settle_all(PySequence_Fast_ITEMS(o), Py_SIZE(o), write, false) < 0) {
            return -1;
        }
    }
    return 0;
}

/* ---------------------------------------------------------------------------------- ufuncs */

/* Operands that are nobody else's: plain arrays, scalars, lists. */
static bool only_plain(PyObject *const *args, Py_ssize_t n)
{
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject *o = args[k];
        npa_value value;
        if (!plain(o) && o != Py_None && !PyList_CheckExact(o) && !PyTuple_CheckExact(o) &&
            (PyArray_Check(o) || !npa_classify(o, &value))) {
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
static int ask(PyObject *taker, PyObject *const *args, size_t n, PyObject *names,
               PyObject **result, PyObject **reason)
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

static PyObject *run_ufunc(PyObject *self, PyObject *const *args, size_t nargs, PyObject *names,
                           PyObject *reason)
{
    Py_ssize_t all = PyVectorcall_NARGS(nargs) + (names != NULL ? PyTuple_GET_SIZE(names) : 0);
    PyObject *result = NULL;
    if (settle_all(args, all, true, true) == 0) {
        double start = npa_seconds();
        int before = npa_now(NPA_IN_NUMPY);
        result = numpy_ufunc_call(self, args, nargs, names);
        npa_now(before);
        if (PyUnicode_GetLength(reason) > 0) {
            npa_count_fallback(self, reason, npa_seconds() - start);
        }
    }
    Py_DECREF(reason);
    return npa_adopted(result);
}

static PyObject *take_ufunc(PyObject *self, PyObject *const *args, size_t nargs, PyObject *names)
{
    PyUFuncObject *u = (PyUFuncObject *)self;
    Py_ssize_t n = PyVectorcall_NARGS(nargs);
    PyObject *result, *reason = NULL, *shifted[NESTED];
    npa_pass_because(NULL);
    if (u->core_enabled) {
        return only_plain(args, n)
                   ? run_ufunc(self, args, nargs, names, PyUnicode_FromString("generalised ufunc"))
                   : numpy_ufunc_call(self, args, nargs, names);
    }
    if (names == NULL && (n == u->nin || (n == u->nin + 1 && u->nout == 1))) {
        int status;
        npa_suspended++;
        result = take_fast(u, args, n, &status);
        npa_suspended--;
        if (status == 1 || status == -1 || PyErr_Occurred()) {
            return result;
        }
        if (status == 2) {
            return numpy_ufunc_call(self, args, nargs, names);
        }
    } else if (names != NULL) {
        npa_suspended++;
        int status = npa_out_call(self, args, n, names, &result);
        npa_suspended--;
        if (status != 0) {
            return status > 0 ? result : NULL;
        }
    }
    const char *why = npa_passing_reason();
    if (why != NULL) { /* nor would it be recorded by way of Python */
        reason = PyUnicode_InternFromString(why);
        return reason != NULL ? run_ufunc(self, args, nargs, names, reason) : NULL;
    }
    Py_ssize_t all = n + (names != NULL ? PyTuple_GET_SIZE(names) : 0);
    if (!only_plain(args, n) || all >= NESTED) {
        return PyErr_Occurred() ? NULL : numpy_ufunc_call(self, args, nargs, names);
    }
    shifted[0] = self;
    memcpy(shifted + 1, args, sizeof *args * (size_t)all);
    if (ask(ufunc_taker, shifted, (size_t)n + 1, names, &result, &reason)) {
        return result;
    }
    return run_ufunc(self, args, nargs, names, reason);
}

/* Whether the call says out=..., "an array, also where it would be a scalar". NumPy does not pass
 * that on to __array_ufunc__, so an operand of ours would hide it. */
static bool wants_array(PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    bool found = false, any = false;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(names); k++) {
        found |= args[n + k] == Py_Ellipsis;
    }
    for (Py_ssize_t k = 0; found && k < n; k++) {
        any |= ours(args[k]);
    }
    return any;
}

/* An array that is written, where that is not ours. */
static bool writes_others(PyUFuncObject *u, PyObject *const *args, Py_ssize_t n)
{
    return n > u->nin && plain(args[u->nin]) &&
           npa_range_find(PyArray_DATA((PyArrayObject *)args[u->nin])) == NULL;
}

/* The bytes of the largest array, of whatever class. */
static size_t any_bytes(PyObject *const *args, Py_ssize_t n)
{
    size_t most = 0;
    for (Py_ssize_t k = 0; k < n; k++) {
        size_t bytes = PyArray_Check(args[k]) ? (size_t)PyArray_NBYTES((PyArrayObject *)args[k])
                                              : 0;
        most = bytes > most ? bytes : most;
    }
    return most;
}

static PyObject *ufunc_looked_at(PyObject *self, PyObject *const *args, size_t nargs,
                                 PyObject *names)
{
    bool mine = false;
    Py_ssize_t n = PyVectorcall_NARGS(nargs);
    npa_stretch s = npa_stretch_begin();
    PyObject *result = numpy_ufunc_call(self, args, nargs, names);
    size_t bytes = most_bytes(args, n, &mine), any = any_bytes(args, n);
    bool others = any > bytes && any >= npa_threshold_here();
    npa_stretch_end(&s, others ? NPA_SUBCLASS : NPA_SMALL, others ? any : bytes);
    return result;
}

static inline PyObject *ufunc_in_numpy(PyObject *self, PyObject *const *args, size_t nargs,
                                       PyObject *names)
{
    return npa_suspended == 0 && npa_look_due() ? ufunc_looked_at(self, args, nargs, names)
                                            : numpy_ufunc_call(self, args, nargs, names);
}

/* np.maximum(a, b, out) and minimum: newer NumPy warns, as its authors often meant a third
 * operand. */
static bool out_is_deprecated(const PyUFuncObject *u, Py_ssize_t n)
{
    return n > 2 && u->nin == 2 &&
           (strcmp(u->name, "maximum") == 0 || strcmp(u->name, "minimum") == 0);
}

/* A call that has no array worth taking. */
static inline PyObject *small_ufunc(PyObject *self, PyObject *const *args, size_t nargs,
                                    PyObject *names, npa_exactness exact)
{
    PyUFuncObject *u = (PyUFuncObject *)self;
    Py_ssize_t n = PyVectorcall_NARGS(nargs);
    bool common = names == NULL && u != npa_small_refused && !out_is_deprecated(u, n);
    npa_small_refused = NULL;
    PyObject *result = common ? npa_small_call(u, args, n, exact) : NULL;
    return result != NULL || PyErr_Occurred() ? result : ufunc_in_numpy(self, args, nargs, names);
}

static PyObject *run_on_views(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names,
                              npa_exactness exact)
{
    Py_ssize_t all = n + (names != NULL ? PyTuple_GET_SIZE(names) : 0), k = 0;
    PyObject *made[NESTED], *result = NULL;
    for (; k < all && k < NESTED; k++) {
        bool view = ours(args[k]) && npa_touch((PyArrayObject *)args[k], false) == 0;
        made[k] = view ? npa_exact_view((PyArrayObject *)args[k]) : Py_NewRef(args[k]);
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

/* Whether NumPy does it at once, see trial.c; *mine: on views of what is ours. */
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
    if (!npa_is_exact(exact, values, known) || !npa_trial_passes(self, bytes, possible)) {
        return false;
    }
    if (bytes >= NPA_SMALL_MOST && writes_others((PyUFuncObject *)self, args, n)) {
        npa_look_next(NPA_WRITTEN);
    }
    return true;
}

static inline PyObject *redirected_ufunc(PyObject *self, PyObject *const *args, size_t nargs,
                                         PyObject *names, npa_exactness exact)
{
    Py_ssize_t n = PyVectorcall_NARGS(nargs);
    if (((PyUFuncObject *)self)->core_enabled) {
        PyObject *result = npa_rows((PyUFuncObject *)self, args, n, names);
        if (result != NULL || PyErr_Occurred()) {
            return result;
        }
    }
    if (names != NULL && wants_array(args, n, names)) {
        return run_on_views(self, args, n, names, exact);
    }
    bool mine = false;
    if (__builtin_expect(!any_large(args, n, false) || npa_passed, true)) {
        return small_ufunc(self, args, nargs, names, exact);
    }
    if (npa_suspended || !npa_in_block() ||
        out_is_deprecated((PyUFuncObject *)self, n)) {
        return ufunc_in_numpy(self, args, nargs, names);
    }
    if (npa_trials_on && ufunc_passes(self, args, n, names, exact, &mine)) {
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

static PyObject *ufunc_stub(PyObject *self, PyObject *const *args, size_t nargs, PyObject *names)
{
    return redirected_ufunc(self, args, nargs, names, NPA_INEXACT);
}

/* Of one of another library, whose loop may raise: where arrays are small it is its own. */
static PyObject *foreign_ufunc_stub(PyObject *self, PyObject *const *args, size_t nargs,
                                    PyObject *names)
{
    if (!any_large(args, PyVectorcall_NARGS(nargs), false)) {
        return ufunc_in_numpy(self, args, nargs, names);
    }
    return redirected_ufunc(self, args, nargs, names, NPA_INEXACT);
}

/* Of a ufunc whose results have the same bits, whoever computes them. */
static PyObject *exact_ufunc_stub(PyObject *self, PyObject *const *args, size_t nargs,
                                  PyObject *names)
{
    return redirected_ufunc(self, args, nargs, names, NPA_EXACT);
}

/* Of one of which that holds for real operands. */
static PyObject *real_ufunc_stub(PyObject *self, PyObject *const *args, size_t nargs,
                                 PyObject *names)
{
    return redirected_ufunc(self, args, nargs, names, NPA_EXACT_IF_REAL);
}

/* ------------------------------------------------------------------- functions and methods */

typedef struct {
    const target *t;
    PyObject *self;
    PyObject *const *args;
    Py_ssize_t n;
    PyObject *names;        /* of a fastcall */
    PyObject *tuple, *dict; /* of the other kind */
} call;

static int number_of_ufunc(PyObject *ufunc)
{
    int i = 0;
    while (i < nufuncs && (PyObject *)ufuncs[i] != ufunc) {
        i++;
    }
    return i;
}

static PyObject *reduce_stretches(void *what, PyObject *ufunc, PyObject *const *args, Py_ssize_t n,
                                  PyObject *names)
{
    (void)what;
    int i = number_of_ufunc(ufunc);
    return i < nufuncs ? npa_reduceat(ufuncs[i], ufunc_exact[i], args, n, names) : NULL;
}

/* ufunc.at of rows, and of elements. */
static PyObject *scatter(void *what, PyObject *ufunc, PyObject *const *args, Py_ssize_t n,
                         PyObject *names)
{
    (void)what;
    int i = number_of_ufunc(ufunc);
    bool common = i < nufuncs && n == 3 && names == NULL;
    int status = !common                                        ? 0
                 : npa_at_rows(ufuncs[i], ufunc_exact[i], args) ? 1
                                                                : npa_at_elements(ufuncs[i], args);
    return status > 0 ? Py_NewRef(Py_None) : NULL;
}

/* What is done here as NumPy does it, but faster. */
static const struct { const char *name; npa_own *run; } own[] = {
    {"ufunc.at", scatter}, {"ufunc.reduceat", reduce_stretches}, {"ndarray.put", npa_put_flat},
    {"interp", npa_interp}, {"ndarray.searchsorted", npa_search},
    {"ndarray.sort", npa_sort}, {"ndarray.argsort", npa_argsort_parts},
    {"ndarray.partition", npa_partition_parts}, {"ndarray.argpartition", npa_argpartition_parts},
    {"bincount", npa_bincount}, {"ndarray.nonzero", npa_nonzero}, {"where", npa_where},
    {"correlate", npa_correlate}, {"correlate2", npa_correlate2},
    {"Generator.shuffle", npa_shuffle}, {"RandomState.shuffle", npa_shuffle},
    {"Generator.bytes", npa_random_bytes}, {"RandomState.bytes", npa_random_bytes}};

static void find_own(target *t)
{
    const char *name = PyUnicode_AsUTF8(t->name);
    if (name == NULL) {
        PyErr_Clear();
        return;
    }
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        t->own = strcmp(name, own[i].name) == 0 ? own[i].run : t->own;
    }
    t->what = npa_draws_method(name);
    if (t->what != NULL) {
        t->own = npa_draws;
    } else if (t->kind == (METH_FASTCALL | METH_KEYWORDS)) {
        t->what = (void *)(uintptr_t)t->original;
    }
}

static bool did_own; /* the latest call */

static PyObject *done_here(const call *c)
{
    Py_ssize_t n = c->n, position = 0;
    if (c->dict == NULL || PyDict_GET_SIZE(c->dict) == 0) {
        return c->t->own(c->t->what, c->self, c->args, n, c->names);
    }
    PyObject *given[NESTED], *key, *value, *result = NULL, *names = PySequence_Tuple(c->dict);
    if (names != NULL && n + PyDict_GET_SIZE(c->dict) <= NESTED) {
        memcpy(given, c->args, sizeof *given * (size_t)n);
        for (Py_ssize_t k = n; PyDict_Next(c->dict, &position, &key, &value); k++) {
            given[k] = value;
        }
        result = c->t->own(c->t->what, c->self, given, n, names);
    }
    Py_XDECREF(names);
    return result;
}

static PyObject *in_numpy(const call *c)
{
    PyObject *result = c->t->own != NULL ? done_here(c) : NULL;
    did_own = result != NULL;
    if (result != NULL || PyErr_Occurred()) {
        return result;
    }
    void (*f)(void) = (void (*)(void))c->t->original;
    switch (c->t->kind) {
    case METH_VARARGS | METH_KEYWORDS:
        return ((PyCFunctionWithKeywords)f)(c->self, c->tuple, c->dict);
    case METH_FASTCALL | METH_KEYWORDS:
        return ((_PyCFunctionFastWithKeywords)f)(c->self, c->args, c->n, c->names);
    case METH_FASTCALL: return ((_PyCFunctionFast)f)(c->self, c->args, c->n);
    default: return ((PyCFunction)f)(c->self, c->tuple); /* VARARGS, O, NOARGS */
    }
}

static PyObject *counted(const call *c, PyObject *reason)
{
    const target *t = c->t;
    PyObject *result = NULL;
    if ((t->method && PyArray_Check(c->self) && npa_waiting() &&
         npa_touch((PyArrayObject *)c->self, t->writes) < 0) ||
        settle_all(c->args, c->n, t->writes, true) < 0) {
        return NULL;
    }
    double start = npa_seconds();
    int before = npa_now(NPA_IN_NUMPY);
    result = in_numpy(c);
    npa_now(before);
    if (reason != NULL && PyUnicode_GetLength(reason) > 0 && !did_own) {
        npa_count_fallback(t->name, reason, npa_seconds() - start);
    }
    result = t->adopts > 1 ? itself(result) : result;
    return t->adopts ? npa_adopted(result) : result;
}

/* The taker's arguments: as the call's, after the array or ufunc whose method it is. */
static int ask_target(const call *c, PyObject **result, PyObject **reason)
{
    Py_ssize_t all = c->n + (c->names != NULL ? PyTuple_GET_SIZE(c->names) : 0);
    PyObject *shifted[NESTED];
    if (c->dict != NULL && PyDict_GET_SIZE(c->dict) > 0) {
        PyObject *tuple = PyTuple_New(c->n + c->t->method);
        for (Py_ssize_t k = 0; tuple != NULL && k < c->n + c->t->method; k++) {
            PyObject *o = k < c->t->method ? c->self : c->args[k - c->t->method];
            PyTuple_SET_ITEM(tuple, k, Py_NewRef(o));
        }
        npa_suspended++;
        *result = tuple != NULL ? npa_without_us(PyObject_Call(c->t->taker, tuple, c->dict)) : NULL;
        npa_suspended--;
        Py_XDECREF(tuple);
        *reason = *result;
        return *result == NULL || !PyUnicode_CheckExact(*result);
    }
    if (all + 1 >= NESTED) {
        *reason = PyUnicode_FromString("");
        return 0;
    }
    shifted[0] = c->self;
    memcpy(shifted + c->t->method, c->args, sizeof *c->args * (size_t)all);
    return ask(c->t->taker, shifted, (size_t)(c->n + c->t->method), c->names, result, reason);
}

static PyObject *looked_at(const call *c);

static PyObject *take_it(const call *c)
{
    PyObject *result, *reason = NULL;
    const char *why = NULL;
    npa_pass_because(NULL);
    if (c->t->method && PyObject_TypeCheck(c->self, &PyUFunc_Type) && c->n > 0 &&
        !only_plain(c->args, 1)) {
        return in_numpy(c); /* other classes, and ours, have their say there */
    }
    if (c->t->action == REDUCED && c->dict == NULL) {
        int status = npa_fold_call(c->self, c->args, c->n, c->names, &result);
        if (status != 0) {
            return status > 1 ? looked_at(c) : status > 0 ? result : NULL;
        }
        why = npa_passing_reason();
    } else if (npa_asks_underflow()) {
        why = npa_underflow_asked; /* what it makes is for operations that are NumPy's */
    }
    if (why != NULL && (reason = PyUnicode_InternFromString(why)) == NULL) {
        return NULL;
    }
    if (why == NULL && ask_target(c, &result, &reason)) {
        return result;
    }
    result = counted(c, reason);
    Py_DECREF(reason);
    return result;
}

static PyObject *take(const call *c)
{
    int before = npa_now(NPA_RECORDING);
    PyObject *result = c->t->taker != NULL ? take_it(c) : counted(c, c->t->reason);
    npa_now(before);
    return result;
}

/* Something small, which may still have made something large. */
static PyObject *not_taken(const call *c)
{
    PyObject *result = looked_at(c);
    if (result == NULL || !c->t->adopts || npa_suspended || !plain(result)) {
        return result;
    }
    PyObject *base = c->t->adopts > 1 ? PyArray_BASE((PyArrayObject *)result) : NULL;
    if (base != NULL && ours(base) && npa_in_block()) {
        return itself(result);
    }
    return large(result) && npa_in_block() ? npa_adopted(result) : result;
}

/* NumPy's Python code, which may call what is redirected; not where that costs more than it
 * wins. */
static PyObject *in_steps(const call *c, Py_ssize_t all)
{
    size_t most = npa_most_summed(NPA_WHOLE_BYTES, c->names);
    bool whole = !npa_suspended && worth(c->t, c->self, c->args, c->n, all, false) &&
                 npa_in_block() && npa_at_once(&c->self, 1, most) &&
                 npa_at_once(c->args, all, most);
    npa_suspended += whole, npa_whole += whole;
    PyObject *result = in_numpy(c);
    npa_suspended -= whole, npa_whole -= whole;
    return whole ? npa_adopted(result) : result;
}

/* As ufunc_passes. */
static bool target_passes(const call *c, Py_ssize_t all)
{
    const target *t = c->t;
    if (!npa_trials_on || t->taker == NULL) {
        return false;
    }
    bool mine = c->self != NULL && ours(c->self);
    size_t bytes = most_bytes(c->args, all, &mine);
    size_t own = c->self != NULL && plain(c->self)
               ? (size_t)PyArray_NBYTES((PyArrayObject *)c->self) : 0;
    size_t made = c->n == 0 ? 0 : t->action == SHAPE ? bytes_of_shape(c->args[0], ITEM)
                  : t->action == RANGE ? bytes_of_range(c->args, c->n, ITEM) : 0;
    PyObject *value;
    Py_ssize_t position = 0;
    while (c->dict != NULL && PyDict_Next(c->dict, &position, NULL, &value)) {
        mine |= ours(value);
    }
    bytes = own > bytes ? own : bytes;
    bytes = made > bytes ? made : bytes;
    return t->moves && npa_trial_passes_call(t, bytes, !mine);
}

/* On small arrays, without NumPy's code around its loops, which is looked at where that is due.
 * NULL, perhaps without error: it is to be done otherwise. */
static PyObject *do_small(const npa_small_function *f, PyObject *ufunc, PyObject *const *args,
                          Py_ssize_t n, PyObject *names)
{
    bool due = npa_suspended == 0 && npa_look_inside == 0 && npa_until_look <= 1, mine = false;
    npa_stretch s = due ? npa_stretch_begin() : (npa_stretch){0};
    PyObject *result = f != NULL ? npa_small_function_call(f, args, n, names)
                                 : npa_small_reduce(ufunc, args, n, names);
    if (result != NULL && npa_suspended == 0 && npa_look_due()) {
        npa_stretch_end(&s, NPA_SMALL, most_bytes(args, 1, &mine));
    }
    return result;
}

static PyObject *small_method(const target *t, PyObject *self, PyObject *const *args, Py_ssize_t n,
                              PyObject *names)
{
    PyObject *shifted[NESTED] = {self};
    Py_ssize_t all = n + (names != NULL ? PyTuple_GET_SIZE(names) : 0);
    if (!t->method) {
        return do_small(t->small, NULL, args, n, names);
    }
    if (!plain(self) || all + 1 >= NESTED) {
        return NULL;
    }
    for (Py_ssize_t k = 0; k < all; k++) {
        shifted[k + 1] = args[k];
    }
    return do_small(t->small, NULL, shifted, n + 1, names);
}

/* The array that NumPy would give back as it is, in a call that is written as usual; else NULL. */
static PyObject *given_back(const target *t, PyObject *self, PyObject *const *args, Py_ssize_t n,
                            PyObject *names)
{
    bool method = t->action == CAST;
    Py_ssize_t skip = !method;
    if (!(method ? n == 1 && args[0] != Py_None : t->action == CONVERTED && n > 0)) {
        return NULL;
    }
    for (Py_ssize_t k = 0; names != NULL && k < PyTuple_GET_SIZE(names); k++) {
        bool copy = PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, k), "copy") == 0;
        if (copy ? !(method || t->copies) : n > 1 || method) {
            return NULL;
        }
    }
    PyObject *a = method ? self : args[0];
    bool same = comes_back(a, args + skip, n - skip, names, method || t->copies);
    return same && PyArray_NDIM((PyArrayObject *)a) > 0 ? Py_NewRef(a) : NULL;
}

/* The same of a call whose arguments are given one by one. */
static PyObject *attempt_small(const call *c)
{
    if (c->dict != NULL && PyDict_GET_SIZE(c->dict) > 0) {
        return NULL;
    }
    return c->t->small != NULL ? small_method(c->t, c->self, c->args, c->n, c->names)
           : c->t->action == REDUCED && c->tuple == NULL
               ? do_small(NULL, c->self, c->args, c->n, c->names)
               : NULL;
}

static PyObject *by_numpy(const call *c)
{
    PyObject *result = npa_passed ? attempt_small(c) : NULL;
    return result != NULL || PyErr_Occurred() ? result : in_numpy(c);
}

/* in_numpy, which is looked at where it is due. */
static PyObject *looked_at(const call *c)
{
    bool due = npa_suspended == 0 && npa_look_due(), mine = false;
    if (!due) {
        npa_look_inside++;
        PyObject *result = by_numpy(c);
        npa_look_inside--;
        return result;
    }
    size_t bytes = most_bytes(c->args, c->n, &mine),
           own = most_bytes(&c->self, c->self != NULL, &mine);
    npa_stretch s = npa_stretch_begin();
    npa_look_inside++;
    PyObject *result = by_numpy(c);
    npa_look_inside--;
    npa_stretch_end(&s, NPA_SMALL, bytes > own ? bytes : own);
    return result;
}

static PyObject *taken_or_passed(const call *c, Py_ssize_t all)
{
    if (!target_passes(c, all)) {
        return take(c);
    }
    npa_passed++;
    PyObject *result = looked_at(c);
    npa_passed--;
    return c->t->adopts > 1 ? itself(result) : result;
}

static PyObject *fast(const target *t, PyObject *self, PyObject *const *args, Py_ssize_t n,
                      PyObject *names)
{
    PyObject *same = given_back(t, self, args, n, names);
    if (same != NULL) {
        return same;
    }
    call c = {.t = t, .self = self, .args = args, .n = n, .names = names};
    Py_ssize_t all = n + (names != NULL ? PyTuple_GET_SIZE(names) : 0);
    PyObject *result = attempt_small(&c);
    if (result != NULL || PyErr_Occurred()) {
        return result;
    }
    if (t->action == SMALL) {
        return in_numpy(&c);
    }
    if (t->action == STEPS) {
        return in_steps(&c, all);
    }
    if (t->action == REDUCED && npa_whole > 0 && PyObject_TypeCheck(self, &PyUFunc_Type)) {
        int status = npa_fold_in_whole(self, args, n, names, &result);
        if (status != 0) {
            return status > 0 ? result : NULL;
        }
    }
    if (npa_suspended || !worth(t, self, args, n, all, false) || idle(t, self, args, n, names) ||
        !npa_in_block()) {
        return not_taken(&c);
    }
    return taken_or_passed(&c, all);
}

static PyObject *packed(const target *t, PyObject *self, PyObject *args, PyObject *dict)
{
    call c = {.t = t, .self = self, .tuple = args, .dict = dict};
    if (t->kind == METH_O) {
        c.args = &c.tuple, c.n = 1;
    } else if (t->kind != METH_NOARGS) {
        c.args = &PyTuple_GET_ITEM(args, 0), c.n = PyTuple_GET_SIZE(args);
    }
    bool keywords = dict != NULL && PyDict_GET_SIZE(dict) > 0;
    PyObject *result = attempt_small(&c);
    if (result != NULL || PyErr_Occurred()) {
        return result;
    }
    if (t->action == SMALL) {
        return in_numpy(&c);
    }
    /* A shape or a range that is given by name makes up for there being no argument. */
    if (npa_suspended || (!worth(t, self, c.args, c.n, t->action != ARGUMENTS && keywords
                                                           ? c.n + (c.n == 0) : c.n, keywords) &&
                          !(t->action == ARGUMENTS && keywords && any_large_named(dict))) ||
        !npa_in_block()) {
        return not_taken(&c);
    }
    return taken_or_passed(&c, c.n);
}

/* A stub is told the object but not which function it stands for: one of each kind per target. */
#define STUB(i)                                                                                  \
    static PyObject *fast_##i(PyObject *s, PyObject *const *a, Py_ssize_t n, PyObject *names)    \
    {                                                                                            \
        return fast(&targets[0x##i], s, a, n, names);                                            \
    }                                                                                            \
    static PyObject *bare_##i(PyObject *s, PyObject *const *a, Py_ssize_t n)                     \
    {                                                                                            \
        return fast(&targets[0x##i], s, a, n, NULL);                                             \
    }                                                                                            \
    static PyObject *packed_##i(PyObject *s, PyObject *a, PyObject *d)                           \
    {                                                                                            \
        return packed(&targets[0x##i], s, a, d);                                                 \
    }                                                                                            \
    static PyObject *one_##i(PyObject *s, PyObject *a)                                           \
    {                                                                                            \
        return packed(&targets[0x##i], s, a, NULL);                                              \
    }
#define STUBS(h)                                                                                 \
    STUB(h##0) STUB(h##1) STUB(h##2) STUB(h##3) STUB(h##4) STUB(h##5) STUB(h##6) STUB(h##7)      \
    STUB(h##8) STUB(h##9) STUB(h##a) STUB(h##b) STUB(h##c) STUB(h##d) STUB(h##e) STUB(h##f)
STUBS(0) STUBS(1) STUBS(2) STUBS(3) STUBS(4) STUBS(5) STUBS(6) STUBS(7)
STUBS(8) STUBS(9) STUBS(a) STUBS(b) STUBS(c) STUBS(d) STUBS(e) STUBS(f)
#define ANY(f) ((PyCFunction)(void (*)(void))(f))
#define ROW(i) {ANY(fast_##i), ANY(bare_##i), ANY(packed_##i), ANY(one_##i)},
#define ROWS(h)                                                                                  \
    ROW(h##0) ROW(h##1) ROW(h##2) ROW(h##3) ROW(h##4) ROW(h##5) ROW(h##6) ROW(h##7)              \
    ROW(h##8) ROW(h##9) ROW(h##a) ROW(h##b) ROW(h##c) ROW(h##d) ROW(h##e) ROW(h##f)
static const PyCFunction stubs[MOST][4] = {
    ROWS(0) ROWS(1) ROWS(2) ROWS(3) ROWS(4) ROWS(5) ROWS(6) ROWS(7)
    ROWS(8) ROWS(9) ROWS(a) ROWS(b) ROWS(c) ROWS(d) ROWS(e) ROWS(f)};

static PyObject *adopted_each(PyObject *result)
{
    for (Py_ssize_t k = 0; result != NULL && PyTuple_CheckExact(result) && Py_REFCNT(result) == 1 &&
                           k < PyTuple_GET_SIZE(result); k++) {
        PyObject *item = npa_adopted(PyTuple_GET_ITEM(result, k));
        PyTuple_SET_ITEM(result, k, item);
        if (item == NULL) {
            Py_CLEAR(result);
        }
    }
    return npa_adopted(result);
}

/* Where a function's index is, or is to be. */
static uint8_t *whole_place(PyObject *function)
{
    size_t i = (uintptr_t)function >> 4;
    for (;; i++) {
        uint8_t *place = &whole_places[i % (4 * MOST_WHOLE)];
        if (*place == 0 || wholes[*place - 1].function == function) {
            return place;
        }
    }
}

static size_t most_of(const whole *w, PyObject *names)
{
    return w->sums ? npa_most_summed(w->most, names) : w->most;
}

size_t npa_most_whole(PyObject *function, PyObject *names)
{
    uint8_t *place = whole_place(function);
    const whole *w = *place != 0 ? &wholes[*place - 1] : NULL;
    return w == NULL ? 0 : most_of(w, names);
}

static bool records(const whole *w, PyObject *const *args, Py_ssize_t all)
{
    return w->record != NULL &&
           !(w->idle && w->most > 0 && npa_at_once(args, all, most_of(w, NULL)));
}

npa_recorder *npa_recorder_of(PyObject *function, PyObject *const *args, Py_ssize_t all)
{
    uint8_t *place = whole_place(function);
    const whole *w = *place != 0 ? &wholes[*place - 1] : NULL;
    return w != NULL && records(w, args, all) ? w->record : NULL;
}

/* Whether nothing is to be seen to before NumPy reads or writes a plain array. */
static inline bool quiet(void)
{
    return !npa_waiting() && npa_placeholders == 0 && !npa_warnings_found();
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
        *result = w->original(w->function, args, (size_t)n, names);
        status = *result != NULL ? 1 : -1;
    } else {
        status = npa_direct_call(w->function, args, n, names, n, NPA_ANY_SIZE, false, result);
    }
    npa_suspended--, npa_whole--;
    *result = status > 0 ? adopted_each(*result) : NULL;
    return status;
}

static PyObject *whole_stub(PyObject *self, PyObject *const *args, size_t nargs, PyObject *names)
{
    Py_ssize_t n = PyVectorcall_NARGS(nargs);
    Py_ssize_t all = n + (names != NULL ? PyTuple_GET_SIZE(names) : 0);
    const whole *w = &wholes[*whole_place(self) - 1];
    PyObject *result = w->small != NULL ? do_small(w->small, NULL, args, n, names) : NULL;
    if (result != NULL || PyErr_Occurred()) {
        return result;
    }
    size_t made = w->repeats && npa_suspended == 0 ? npa_repeated_bytes(args, n) : 0;
    bool enough = (made > 0 && made >= npa_threshold_here()) || any_large(args, all, true);
    if (w->small_only || npa_suspended || !enough || !npa_in_block()) {
        return w->original(self, args, nargs, names);
    }
    if (records(w, args, all)) {
        bool mine = false;
        size_t bytes = most_bytes(args, all, &mine);
        bytes = made > bytes ? made : bytes;
        if (npa_trials_on && w->waits && npa_trial_passes_call(w, bytes, true)) {
            npa_passed++;
            bool done = run_whole(w, SIZE_MAX, args, n, names, &result) != 0;
            npa_passed--;
            if (done) {
                return result;
            }
        }
        int before = npa_now(NPA_RECORDING);
        result = w->record(args, n, names);
        npa_now(before);
        if (result != NULL || PyErr_Occurred()) {
            return result;
        }
    }
    if (w->most > 0) {
        return run_whole(w, most_of(w, names), args, n, names, &result) != 0
                   ? result
                   : w->original(self, args, nargs, names);
    }
    for (Py_ssize_t k = 0; k < all; k++) {
        if (ours(args[k])) { /* as outside a block, and back here with what is evaluated */
            return w->original(self, args, nargs, names);
        }
    }
    if (settle_all(args, all, false, true) < 0) {
        return NULL;
    }
    double start = npa_seconds();
    int before = npa_now(NPA_IN_NUMPY);
    npa_suspended++;
    result = w->original(self, args, nargs, names);
    npa_suspended--;
    npa_now(before);
    npa_count_fallback(w->name, w->reason, npa_seconds() - start);
    return adopted_each(result);
}

/* -------------------------------------------------------------------------------- subscripts */

/* A small table picked from by large indices. */
static inline bool large_key(PyObject *key)
{
    if (PyTuple_CheckExact(key)) {
        Py_ssize_t n = PyTuple_GET_SIZE(key), k = 0;
        while (k < n && !plain(PyTuple_GET_ITEM(key, k)) && !ours(PyTuple_GET_ITEM(key, k))) {
            k++;
        }
        return k < n && any_large(&PyTuple_GET_ITEM(key, 0), n, false);
    }
    return (plain(key) || ours(key)) && large(key);
}

/* Sections that are recorded or are blocks: they look at subscripts of plain arrays, too. */
static int looking;

static PyObject *looked_at_subscript(PyObject *a, PyObject *key)
{
    return npa_section_sees_read(a, key) < 0 ? NULL : npa_numpy.mapping.mp_subscript(a, key);
}

static int looked_at_assign(PyObject *a, PyObject *key, PyObject *value)
{
    return npa_section_sees_write(a, value) < 0 ? -1
                                                : npa_numpy.mapping.mp_ass_subscript(a, key, value);
}

static enum npa_hindrance picked_kind(PyObject *a, PyObject *key)
{
    return npa_key_kind((PyArrayObject *)a, key) == 2 ? NPA_ELEMENT : NPA_SMALL;
}

/* A part of a plain array, of which no array of ours is to be made. */
static PyObject *pick_in_numpy(PyObject *a, PyObject *key)
{
    if (npa_suspended > 0 || !npa_look_due()) {
        PyObject *view = npa_small_get(a, key);
        return view != NULL || PyErr_Occurred() ? view : npa_numpy.mapping.mp_subscript(a, key);
    }
    npa_stretch s = npa_stretch_begin();
    PyObject *result = npa_numpy.mapping.mp_subscript(a, key);
    bool array = result != NULL && PyArray_Check(result);
    size_t bytes = array ? (size_t)PyArray_NBYTES((PyArrayObject *)result) : 0;
    npa_stretch_end(&s, picked_kind(a, key), bytes < npa_least ? bytes : 0); /* else it is a view */
    return result;
}

static int put_in_numpy(PyObject *a, PyObject *key, PyObject *value)
{
    if (npa_suspended > 0 || !npa_look_due()) {
        return npa_small_put(a, key, value) ? 0 : npa_numpy.mapping.mp_ass_subscript(a, key, value);
    }
    npa_stretch s = npa_stretch_begin();
    int status = npa_numpy.mapping.mp_ass_subscript(a, key, value);
    size_t bytes = status == 0 ? npa_view_bytes((PyArrayObject *)a, key) : SIZE_MAX;
    npa_stretch_end(&s, picked_kind(a, key), bytes == SIZE_MAX ? 0 : bytes);
    return status;
}

static inline bool is_hidden(PyArrayObject *a)
{
    return npa_is_home(PyArray_DATA(a)) && npa_is_hidden(a);
}

/* Whether an element is to be read or written at once, by our own code. */
static inline bool at_once(PyObject *a, PyObject *key)
{
    return (PyLong_CheckExact(key) || PyTuple_CheckExact(key)) && plain(a) && !looking && quiet() &&
           npa_until_look > 1 && !is_hidden((PyArrayObject *)a);
}

static PyObject *subscript_stub(PyObject *a, PyObject *key)
{
    if (at_once(a, key)) {
        PyObject *element = npa_small_element(a, key);
        if (element != NULL || PyErr_Occurred()) {
            npa_until_look -= npa_suspended == 0;
            return element;
        }
    }
    if (looking && npa_section_sees_read(a, key) < 0) {
        return NULL;
    }
    if (!plain(a)) {
        return npa_numpy.mapping.mp_subscript(a, key);
    }
    if (!(large(a) || large_key(key))) {
        return pick_in_numpy(a, key);
    }
    int kind = npa_key_kind((PyArrayObject *)a, key);
    bool shown = kind == 2 && quiet() && !is_hidden((PyArrayObject *)a);
    if (kind == 1 || shown || npa_suspended || !npa_in_block()) {
        return pick_in_numpy(a, key);
    }
    if (kind == 0) {
        PyObject *result;
        int before = npa_now(NPA_RECORDING);
        npa_suspended++;
        result = npa_get_by_scalars((PyArrayObject *)a, key);
        int done = result != NULL     ? 1
                   : PyErr_Occurred() ? -1
                                      : npa_pick((PyArrayObject *)a, key, &result);
        npa_suspended--;
        bool few = done == 0 && npa_is_few((PyArrayObject *)a, key, NPA_FEW_READ);
        bool passes = done == 0 && !few && npa_pick_passes((PyArrayObject *)a, key);
        npa_suspended++, npa_passed += passes;
        if (few || passes) {
            done = npa_touch((PyArrayObject *)a, false);
            result = done == 0 ? npa_adopted(pick_in_numpy(a, key)) : NULL;
        } else if (done == 0) {
            result = npa_without_us(PyObject_CallFunctionObjArgs(npa_hook_getitem, a, key, NULL));
        }
        npa_suspended--, npa_passed -= passes;
        npa_now(before);
        return done < 0 ? NULL : result;
    }
    PyObject *element = kind == 2 ? npa_hidden_element((PyArrayObject *)a, key) : NULL;
    if (element != NULL || PyErr_Occurred() ||
        (kind == 2 && npa_touch((PyArrayObject *)a, false) < 0)) {
        return element;
    }
    return npa_numpy.mapping.mp_subscript(a, key);
}

/* As ufunc_passes. */
static bool assignment_passes(PyArrayObject *a, PyObject *key, int kind)
{
    if (!npa_trials_on || kind != 1) {
        return false; /* masks and integers are ours at once where nothing waits */
    }
    size_t bytes = npa_view_bytes(a, key);
    bytes = bytes == SIZE_MAX ? (size_t)PyArray_NBYTES(a) : bytes;
    bool passes = bytes >= npa_threshold_here() && npa_trial_passes(npa_copy_name, bytes, true);
    if (passes && bytes >= NPA_SMALL_MOST && npa_range_find(PyArray_DATA(a)) == NULL) {
        npa_look_next(NPA_WRITTEN);
    }
    return passes;
}

static int assign_stub(PyObject *a, PyObject *key, PyObject *value)
{
    if (at_once(a, key) && value != NULL && npa_small_put_element(a, key, value)) {
        npa_until_look -= npa_suspended == 0;
        return 0;
    }
    if (looking && npa_section_sees_write(a, value) < 0) {
        return -1;
    }
    if (!plain(a) || value == NULL) {
        return npa_numpy.mapping.mp_ass_subscript(a, key, value);
    }
    bool large_value = (plain(value) || ours(value)) && large(value);
    if (!(large(a) || large_value || large_key(key)) ||
        (!large_value && !ours(value) && quiet() && !is_hidden((PyArrayObject *)a) &&
         npa_view_bytes((PyArrayObject *)a, key) < npa_least) ||
        npa_suspended || !npa_in_block()) {
        return put_in_numpy(a, key, value);
    }
    int kind = npa_key_kind((PyArrayObject *)a, key);
    if (kind == 1 && large_value &&
        npa_puts_itself((PyArrayObject *)a, key, (PyArrayObject *)value)) {
        return 0; /* x[1:] += y, which has written it */
    }
    if (assignment_passes((PyArrayObject *)a, key, kind)) {
        npa_passed++;
        int status = put_in_numpy(a, key, value);
        npa_passed--;
        return status;
    }
    int put = kind == 2 ? npa_put_hidden((PyArrayObject *)a, key, value) : 0;
    if (put != 0) {
        return put > 0 ? 0 : -1;
    }
    if (kind == 2) {
        return npa_touch((PyArrayObject *)a, true) < 0 || settle_all(&value, 1, false, false) < 0
                   ? -1 : npa_numpy.mapping.mp_ass_subscript(a, key, value);
    }
    int before = npa_now(NPA_RECORDING);
    npa_suspended++;
    int status = npa_assign(a, key, value);
    npa_suspended--;
    npa_now(before);
    return status;
}

/* ----------------------------------------------------------------------- installing, restoring */

static hashfunc python_hash;

/* The hash of a C function is made of ml_meth: a dict that was made before must find it still. */
static Py_hash_t function_hash(PyObject *f)
{
    PyMethodDef *d = ((PyCFunctionObject *)f)->m_ml;
    for (int i = 0; i < ntargets; i++) {
        if (targets[i].definition == d) {
            PyCFunction now = d->ml_meth;
            d->ml_meth = targets[i].original;
            Py_hash_t hash = python_hash(f);
            d->ml_meth = now;
            return hash;
        }
    }
    return python_hash(f);
}

static void set_subscripts(void)
{
    PyArray_Type.tp_as_mapping->mp_subscript =
        installed ? subscript_stub : looking ? looked_at_subscript : npa_numpy.mapping.mp_subscript;
    PyArray_Type.tp_as_mapping->mp_ass_subscript =
        installed ? assign_stub : looking ? looked_at_assign : npa_numpy.mapping.mp_ass_subscript;
}

void npa_redirect_look(bool begin)
{
    looking += begin ? 1 : -1;
    set_subscripts();
}

static vectorcallfunc stub_of(int ufunc)
{
    return ufunc_exact[ufunc] == NPA_EXACT     ? exact_ufunc_stub
           : ufunc_exact[ufunc] == NPA_FOREIGN ? foreign_ufunc_stub
           : ufunc_exact[ufunc] == NPA_INEXACT ? ufunc_stub
                                               : real_ufunc_stub;
}

void npa_redirect_install(void)
{
    for (int i = 0; i < ntargets; i++) {
        targets[i].definition->ml_meth = targets[i].stub;
    }
    for (int i = 0; i < nufuncs; i++) {
        ufuncs[i]->vectorcall = stub_of(i);
    }
    for (int i = 0; i < nwholes; i++) {
        *wholes[i].slot = whole_stub;
    }
    if (!installed) {
        python_hash = PyCFunction_Type.tp_hash;
        PyCFunction_Type.tp_hash = function_hash;
    }
    installed = true;
    set_subscripts();
    npa_small_install(true);
}

void npa_redirect_restore(void)
{
    for (int i = 0; i < ntargets; i++) {
        targets[i].definition->ml_meth = targets[i].original;
    }
    for (int i = 0; i < nufuncs; i++) {
        ufuncs[i]->vectorcall = ufunc_originals[i];
    }
    for (int i = 0; i < nwholes; i++) {
        *wholes[i].slot = wholes[i].original;
    }
    if (installed) {
        PyCFunction_Type.tp_hash = python_hash;
    }
    installed = false;
    set_subscripts();
    npa_small_install(false);
}

/* The definition behind a builtin function, a method of a C class, or a compiled Cython function
 * (which begins as a builtin function does). NULL without error: none of these. */
static PyMethodDef *definition_of(PyObject *o)
{
    if (PyCFunction_Check(o)) {
        return ((PyCFunctionObject *)o)->m_ml;
    }
    if (Py_IS_TYPE(o, &PyMethodDescr_Type)) {
        return ((PyMethodDescrObject *)o)->d_method;
    }
    if (strstr(Py_TYPE(o)->tp_name, "cython_function_or_method") != NULL) {
        return ((PyCFunctionObject *)o)->m_ml;
    }
    return NULL;
}

/* redirect(function, action, taker | None, name, reason, writes, adopts, moves) -> bool */
static PyObject *redirect_function(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *function, *taker, *name, *reason;
    int action, writes, adopts, moves;
    if (!PyArg_ParseTuple(args, "OiOUUpip", &function, &action, &taker, &name, &reason, &writes,
                          &adopts, &moves)) {
        return NULL;
    }
    PyMethodDef *d = definition_of(function);
    int kind = d != NULL ? d->ml_flags & ~(METH_CLASS | METH_STATIC | METH_COEXIST) : 0, row;
    switch (kind) {
    case METH_FASTCALL | METH_KEYWORDS: row = 0; break;
    case METH_FASTCALL: row = 1; break;
    case METH_VARARGS | METH_KEYWORDS: row = 2; break;
    case METH_VARARGS: case METH_O: case METH_NOARGS: row = 3; break;
    default: row = -1;
    }
    if (row < 0 || ntargets == MOST || action < 0 || action >= ACTIONS) {
        Py_RETURN_FALSE;
    }
    for (int i = 0; i < ntargets; i++) {
        if (targets[i].definition == d) {
            Py_RETURN_TRUE;
        }
    }
    targets[ntargets] =
        (target){.definition = d,
                 .original = d->ml_meth,
                 .stub = stubs[ntargets][row],
                 .action = (enum action)action,
                 .kind = kind,
                 .writes = writes,
                 .adopts = adopts,
                 .moves = moves,
                 .copies = PyUnicode_CompareWithASCIIString(name, "array") == 0,
                 .on_array = Py_IS_TYPE(function, &PyMethodDescr_Type) &&
                             PyDescr_TYPE(function) == &PyArray_Type,
                 .method = !PyCFunction_Check(function) && (action != RESULT || taker != Py_None),
                 .taker = taker != Py_None ? Py_NewRef(taker) : NULL,
                 .small = row == 0 || row == 2 ? npa_small_find(name) : NULL,
                 .name = Py_NewRef(name),
                 .reason = Py_NewRef(reason)};
    find_own(&targets[ntargets]);
    ntargets++;
    if (installed) {
        d->ml_meth = targets[ntargets - 1].stub;
    }
    Py_RETURN_TRUE;
}

/* redirect_ufunc(ufunc, exact) -> bool */
static PyObject *redirect_ufunc(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *o;
    int exact;
    if (!PyArg_ParseTuple(args, "Oi", &o, &exact)) {
        return NULL;
    }
    if (!Py_IS_TYPE(o, &PyUFunc_Type) || nufuncs == MOST_UFUNCS ||
        PyUFunc_Type.tp_vectorcall_offset != (Py_ssize_t)offsetof(PyUFuncObject, vectorcall)) {
        Py_RETURN_FALSE;
    }
    PyUFuncObject *u = (PyUFuncObject *)o;
    if (numpy_ufunc_call == NULL) {
        numpy_ufunc_call = u->vectorcall;
    }
    if (u->vectorcall != numpy_ufunc_call || u->vectorcall == NULL) {
        Py_RETURN_FALSE;
    }
    ufuncs[nufuncs] = (PyUFuncObject *)Py_NewRef(o), ufunc_exact[nufuncs] = (npa_exactness)exact;
    ufunc_originals[nufuncs++] = u->vectorcall;
    if (installed) {
        u->vectorcall = stub_of(nufuncs - 1);
    }
    if (exact != NPA_FOREIGN) {
        npa_operator_is_exact(o, (npa_exactness)exact);
        npa_small_operator(u, (npa_exactness)exact);
    }
    Py_RETURN_TRUE;
}

static void find_recorder(whole *w)
{
    static const struct {
        const char *name;
        npa_recorder *record;
        bool waits, repeats, idle;
    } known[] = {{"roll", npa_record_roll, .waits = true},
                 {"pad", npa_record_pad, .waits = true},
                 {"repeat", npa_record_repeat, .waits = true, .repeats = true},
                 {"tile", npa_record_tile, .waits = true, .repeats = true},
                 {"concatenate", npa_record_concatenate, .waits = true, .idle = true},
                 {"histogram", npa_histogram, .waits = false}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (PyUnicode_CompareWithASCIIString(w->name, known[i].name) == 0) {
            w->record = known[i].record, w->waits = known[i].waits;
            w->repeats = known[i].repeats, w->idle = known[i].idle;
        }
    }
}

static bool adds_up(const char *name)
{
    static const char *const names[] = {"average", "corrcoef", "cov", "nanmean", "nanstd",
                                        "nansum",  "nanvar",   "std", "var"};
    size_t k = 0;
    while (k < sizeof names / sizeof *names && strcmp(names[k], name) != 0) {
        k++;
    }
    return k < sizeof names / sizeof *names;
}

/* redirect_whole(function, name, reason, most) -> bool; most < 0: only what is small is done
 * here */
static PyObject *redirect_whole(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *function, *name, *reason;
    Py_ssize_t most;
    if (!PyArg_ParseTuple(args, "OUUn", &function, &name, &reason, &most)) {
        return NULL;
    }
    Py_ssize_t offset = Py_TYPE(function)->tp_vectorcall_offset;
    if (!PyType_HasFeature(Py_TYPE(function), Py_TPFLAGS_HAVE_VECTORCALL) || offset <= 0 ||
        installed || nwholes == MOST_WHOLE ||
        strstr(Py_TYPE(function)->tp_name, "_ArrayFunctionDispatcher") == NULL) {
        Py_RETURN_FALSE;
    }
    vectorcallfunc *slot = (vectorcallfunc *)((char *)function + offset);
    *whole_place(function) = (uint8_t)(nwholes + 1);
    wholes[nwholes++] = (whole){.function = Py_NewRef(function), .name = Py_NewRef(name),
                                .reason = Py_NewRef(reason), .slot = slot, .original = *slot,
                                .most = most > 0 ? (size_t)most : 0, .small = npa_small_find(name),
                                .small_only = most < 0, .sums = adds_up(PyUnicode_AsUTF8(name))};
    find_recorder(&wholes[nwholes - 1]);
    Py_RETURN_TRUE;
}

static PyObject *redirect_taker(PyObject *module, PyObject *taker)
{
    (void)module;
    Py_XSETREF(ufunc_taker, Py_NewRef(taker));
    Py_RETURN_NONE;
}

/* call_numpy(function, *args, **kwargs): as without any block, but large new results are ours. */
static PyObject *call_numpy(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)module;
    if (n < 1) {
        PyErr_SetString(PyExc_TypeError, "call_numpy() needs a function");
        return NULL;
    }
    int before = npa_now(NPA_IN_NUMPY);
    npa_suspended++;
    did_own = false;
    PyObject *result = PyObject_Vectorcall(args[0], args + 1, (size_t)n - 1, names);
    npa_suspended--;
    npa_now(before);
    if (npa_stops > 0 && npa_suspended == 0 && result != NULL && npa_stops_tell(Py_None) < 0) {
        Py_CLEAR(result);
    }
    return adopted_each(result);
}

static PyObject *did_it_here(PyObject *module, PyObject *nothing)
{
    (void)module, (void)nothing;
    return PyBool_FromLong(did_own);
}

/* call_python(function, *args, **kwargs): Python code of NumPy's; what it calls is recorded as
 * ever. */
static PyObject *call_python(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)module;
    if (n < 1) {
        PyErr_SetString(PyExc_TypeError, "call_python() needs a function");
        return NULL;
    }
    int before = npa_now(NPA_IN_NUMPY);
    PyObject *result = PyObject_Vectorcall(args[0], args + 1, (size_t)n - 1, names);
    npa_now(before);
    return result;
}

static PyObject *in_block(PyObject *module, PyObject *nothing)
{
    (void)module, (void)nothing;
    return PyBool_FromLong(npa_in_block());
}

static PyObject *any_block(PyObject *module, PyObject *nothing)
{
    (void)module, (void)nothing;
    return PyBool_FromLong(npa_least != SIZE_MAX);
}

/* Addresses of everything that is redirected, as it is now: for tests. */
static PyObject *redirected(PyObject *module, PyObject *nothing)
{
    (void)module, (void)nothing;
    PyObject *list = PyList_New(0);
    int slots = ntargets + nufuncs + nwholes;
    for (int i = 0; list != NULL && i < slots + 3; i++) {
        void *now = i < ntargets ? (void *)targets[i].definition->ml_meth
                    : i < ntargets + nufuncs ? (void *)ufuncs[i - ntargets]->vectorcall
                    : i < slots ? (void *)*wholes[i - ntargets - nufuncs].slot
                    : i == slots ? (void *)PyArray_Type.tp_as_mapping->mp_subscript
                    : i == slots + 1 ? (void *)PyArray_Type.tp_as_mapping->mp_ass_subscript
                                     : (void *)PyCFunction_Type.tp_hash;
        PyObject *item = PyLong_FromVoidPtr(now);
        if (item == NULL || PyList_Append(list, item) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *threshold(PyObject *module, PyObject *nothing)
{
    (void)module, (void)nothing;
    return PyLong_FromSize_t(npa_threshold_here());
}

static PyObject *block_backend(PyObject *module, PyObject *nothing)
{
    (void)module, (void)nothing;
    return npa_block_backend();
}

static PyMethodDef functions[] = {
    {"redirect", redirect_function, METH_VARARGS, "Enter a C function in the table."},
    {"redirect_ufunc", redirect_ufunc, METH_VARARGS, "Enter a ufunc in the table."},
    {"redirect_whole", redirect_whole, METH_VARARGS, "Enter a Python function, to run as one."},
    {"settle_calls", npa_settle_calls, METH_O, "Evaluate before objects of a class are called."},
    {"redirect_taker", redirect_taker, METH_O, "Who records calls of ufuncs."},
    {"redirected", redirected, METH_NOARGS, "What each entry's slot holds now."},
    {"call_python", (PyCFunction)(void (*)(void))call_python, METH_FASTCALL | METH_KEYWORDS,
     "Call Python code of NumPy's, whose time is NumPy's but for what it has recorded."},
    {"call_numpy", (PyCFunction)(void (*)(void))call_numpy, METH_FASTCALL | METH_KEYWORDS,
     "Call as outside any block."},
    {"did_it_here", did_it_here, METH_NOARGS,
     "Whether the latest call_numpy was done here after all."},
    {"prove", npa_prove, METH_O, "Which assumptions hold: ufuncs, functions, methods."},
    {"times", npa_times, METH_O, "Seconds per activity so far; whether to count from now on."},
    {"place", npa_place_py, METH_O, "Where an array of ours lies."},
    {"contents", npa_contents_py, METH_O, "A copy of what memory of ours holds now."},
    {"check_busy", npa_check_busy_py, METH_O, "Whether a run is being compared in another thread."},
    {"watch", npa_stops_py, METH_O, "Memory that is watched from now on."},
    {"bodies_run", npa_bodies_run_py, METH_NOARGS,
     "Whether the bodies of sections run as they are."},
    {"until", npa_until_py, METH_VARARGS, "Only so many operations are recorded from now on."},
    {"until_counted", npa_until_counted_py, METH_NOARGS, "How many have been, with such a limit."},
    {"stepping", npa_stepping_py, METH_O, "Whether this thread runs each operation at its line."},
    {"profile_begin", npa_profile_begin, METH_NOARGS,
     "Count time by line and program from now on."},
    {"profile_end", npa_profile_end, METH_NOARGS, "What was counted."},
    {"forget_rows", npa_rows_forget, METH_NOARGS,
     "How long rows took, one by one and on all threads."},
    {"any_block", any_block, METH_NOARGS, "Whether a block is open anywhere."},
    {"in_block", in_block, METH_NOARGS, "Whether plain arrays are taken here."},
    {"threshold", threshold, METH_NOARGS, "Bytes from which operations are recorded here."},
    {"block_backend", block_backend, METH_NOARGS, "The backend the innermost block names."},
    {NULL}};

int npa_redirect_init(PyObject *module)
{
    return npa_block_init() < 0 || npa_opener_init(module) < 0
               ? -1
               : PyModule_AddFunctions(module, functions);
}
