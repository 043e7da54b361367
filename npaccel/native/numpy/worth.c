/* worth.c: whether a call of a redirected callable is worth taking; and what it reads, before NumPy
 * does. */
#include "numpy/numpy.h"
#include "numpy/redirect.h"

#include <math.h>
#include <string.h>

enum { LARGEST_ITEM = 16 };

static bool same_shape(PyArrayObject *a, PyArrayObject *b)
{
    int i = 0, ndim = PyArray_NDIM(a);
    while (i < ndim && ndim == PyArray_NDIM(b) && PyArray_DIM(a, i) == PyArray_DIM(b, i)) {
        i++;
    }
    return i == ndim && ndim == PyArray_NDIM(b);
}

/* Whether what these broadcast to may be. */
static bool may_be_large(const npa_value *values, int n)
{
    double bytes = LARGEST_ITEM;
    for (int k = 0; k < n; k++) {
        bytes *= (double)PyArray_SIZE(values[k].array);
    }
    return bytes > 1e18 || npa_is_large((size_t)bytes);
}

/* Whether these, or items of lists among them, are worth taking: a large array, or two small ones
 * that broadcast to a large one (npa_wants has the last word). */
bool npa_any_large(PyObject *const *args, Py_ssize_t n, bool nested)
{
    npa_value values[NPA_MAX_ARGS];
    int arrays = 0;
    bool deep = false, differ = false; /* equal shapes broadcast to nothing larger */
    bool mine = false;                 /* ours count in a section, of any size */
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject *o = args[k];
        if (plain(o) || ours(o)) {
            if (large(o)) {
                return true;
            }
            deep |= PyArray_NDIM((PyArrayObject *)o) > 1, mine |= ours(o);
            differ |= arrays > 0 && (ours(o) || !same_shape(values[0].array, (PyArrayObject *)o));
            if (arrays < NPA_MAX_ARGS) {
                values[arrays++].array = (PyArrayObject *)o;
            }
        } else if (nested && npa_is_listed(o) && Py_SIZE(o) > 0) {
            Py_ssize_t items = Py_SIZE(o) < NPA_NESTED ? Py_SIZE(o) : NPA_NESTED;
            if (npa_any_large(PySequence_Fast_ITEMS(o), items, false)) {
                return true;
            }
        }
    }
    return deep && differ && (mine || may_be_large(values, arrays)) && npa_wants(values, arrays);
}

bool npa_any_wide(PyObject *const *args, Py_ssize_t n)
{
    bool wide = false;
    for (Py_ssize_t k = 0; k < n && !wide; k++) {
        wide = plain(args[k]) &&
               npa_is_large((size_t)PyArray_SIZE((PyArrayObject *)args[k]) * sizeof(double));
    }
    return wide;
}

bool npa_few_numbers(PyObject *o, int depth)
{
    if (PyFloat_CheckExact(o) || PyLong_CheckExact(o) || PyComplex_CheckExact(o)) {
        return true;
    }
    return depth > 0 && npa_is_listed(o) && Py_SIZE(o) > 0 &&
           Py_SIZE(o) <= NPA_NESTED && npa_few_numbers(PySequence_Fast_GET_ITEM(o, 0), depth - 1);
}

bool npa_is_exact(npa_exactness how, const npa_value *values, int n)
{
    for (int k = 0; k < n; k++) {
        PyArrayObject *a = values[k].array;
        if (a != NULL && (PyArray_ISOBJECT(a) ||
                          (how == NPA_EXACT_IF_REAL && PyArray_ISCOMPLEX(a)))) {
            return false;
        }
    }
    return how != NPA_INEXACT;
}

bool npa_has_numpys_bits(npa_exactness how, const npa_value *values, int n)
{
    return npa_is_exact(how, values, n) ||
           (npa_is_exact(NPA_EXACT, values, n) && npa_broadcast_bytes(values, n) < npa_ours_here());
}

/* Bytes of an item, at most, of what is made of a shape or a range, and of these: a dtype
 * perhaps. */
static size_t item_of(PyObject *const *rest, Py_ssize_t n)
{
    size_t size = NPA_ITEM;
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject *o = rest[k];
        bool usual = o == Py_None || o == (PyObject *)&PyFloat_Type ||
                     o == (PyObject *)&PyLong_Type || o == (PyObject *)&PyBool_Type ||
                     PyFloat_CheckExact(o) || PyLong_CheckExact(o);
        size_t found = usual                   ? NPA_ITEM
                       : PyArray_DescrCheck(o) ? (size_t)PyDataType_ELSIZE((PyArray_Descr *)o)
                                               : LARGEST_ITEM;
        size = found > size ? found : size;
    }
    return size;
}

/* At most `shape` elements' bytes; SIZE_MAX: unknown. */
size_t npa_bytes_of_shape(PyObject *shape, size_t item)
{
    PyObject *one[1] = {shape}, **items = one;
    Py_ssize_t n = 1;
    if (npa_is_listed(shape)) {
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

size_t npa_bytes_of_range(PyObject *const *args, Py_ssize_t n, size_t item)
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
    double count = v[2] == 0 ? 0 : (v[1] - v[0]) / v[2]; /* 0: NumPy's error */
    return count > 0 && count < 1e17 ? (size_t)((double)item * (count + 1))
           : count > 0               ? SIZE_MAX
                                     : 0;
}

double npa_most_asked(PyObject *const *args, Py_ssize_t skipped, Py_ssize_t all)
{
    double count = 1;
    for (Py_ssize_t k = 0; k < all; k++) {
        PyObject *o = args[k], *const *items = &o;
        Py_ssize_t n = 1;
        if (PyBytes_CheckExact(o) || (PyList_CheckExact(o) && npa_few_numbers(o, 1)) ||
            (plain(o) && !large(o))) {
            Py_ssize_t held = plain(o) ? PyArray_SIZE((PyArrayObject *)o) : Py_SIZE(o);
            count *= held > 1 ? (double)held : 1;
            continue;
        }
        if (PyTuple_CheckExact(o)) {
            items = PySequence_Fast_ITEMS(o), n = Py_SIZE(o);
        }
        for (Py_ssize_t i = 0; i < n; i++) {
            double extent;
            if (items[i] == Py_None || PyFloat_Check(items[i]) || PyBool_Check(items[i]) ||
                PyUnicode_CheckExact(items[i]) || PyType_Check(items[i])) {
                continue;
            }
            if (!number(items[i], &extent)) {
                return INFINITY;
            }
            count *= k >= skipped && extent > 1 ? extent : 1;
        }
    }
    return count;
}

/* Whether there is an array among these, or in a tuple of them, that is no small plain one. */
static bool any_not_small(PyObject *const *args, Py_ssize_t n)
{
    bool any = false;
    for (Py_ssize_t k = 0; k < n && !any; k++) {
        any = plain(args[k])                  ? large(args[k])
              : PyTuple_CheckExact(args[k]) ? any_not_small(PySequence_Fast_ITEMS(args[k]),
                                                              PyTuple_GET_SIZE(args[k]))
                                              : PyArray_Check(args[k]);
    }
    return any;
}

bool npa_worth(const target *t, PyObject *self, PyObject *const *args, Py_ssize_t n, Py_ssize_t all)
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
            return t->on_array ? plain(self) && large(self) : npa_any_large(args, all, true);
        }
        return t->on_array ? plain(self) && npa_any_large(args, all, true)
                           : all > 0 && npa_any_large(args + 1, all - 1, true);
    case SHAPE: case RANGE: {
        size_t item = all == 0 ? 0 : item_of(args + 1, all - 1);
        size_t bytes = all == 0             ? 0
                       : t->action == SHAPE ? npa_bytes_of_shape(args[0], item)
                       : n == 0             ? SIZE_MAX
                                            : npa_bytes_of_range(args, n, item);
        return npa_is_large(bytes);
    }
    case RESULT: {
        Py_ssize_t first = t->lone < 0 ? 0 : t->lone < n ? t->lone : n;
        double most = t->taker == NULL ? npa_most_asked(args, first, all) : 0;
        return t->taker != NULL ? any_not_small(args, all)
                                : most >= 1e9 || npa_is_large((size_t)most * LARGEST_ITEM);
    }
    default: return npa_any_large(args, all, true);
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

/* An array that NumPy's functions give back as it is where they convert nothing. */
static bool is_whole(PyObject *o)
{
    return plain(o) || (Py_IS_TYPE(o, npa_array_type) && !npa_suspended && npa_in_block());
}

/* Whether NumPy gives `a` back: the dtype asked for is its own, nothing else is asked for but,
 * where that is needed, that there be no copy. */
static bool comes_back(PyObject *a, PyObject *const *args, Py_ssize_t n, PyObject *names,
                       bool copies)
{
    if (!PyArray_Check(a) || !PyArray_IS_C_CONTIGUOUS((PyArrayObject *)a) || n > 1 ||
        !is_whole(a)) {
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

bool npa_comes_back(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    return comes_back(self, args, n, names, true);
}

/* The array that NumPy would give back as it is, in a call that is written as usual; else NULL. */
PyObject *npa_given_back(const target *t, PyObject *self, PyObject *const *args, Py_ssize_t n,
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

static bool counts_at_once(PyObject *o)
{
    enum { MOST_COUNTED = 16 << 20 };
    int type = PyArray_TYPE((PyArrayObject *)o);
    return (type == NPY_BOOL || PyTypeNum_ISINTEGER(type)) && npa_at_once(&o, 1, MOST_COUNTED);
}

static bool picks_at_once(const target *t, PyObject *self, PyObject *const *args, Py_ssize_t n,
                          PyObject *names)
{
    PyObject *shifted[NPA_NESTED] = {self};
    Py_ssize_t all = n + (names != NULL ? PyTuple_GET_SIZE(names) : 0);
    if (all + 1 >= NPA_NESTED) {
        return false;
    }
    memcpy(shifted + 1, args, sizeof *args * (size_t)all);
    return npa_folds_at_once(t->definition->ml_name, shifted, n + 1, names, 2, false);
}

/* Whether there is nothing to do for us in a call on large arrays. */
bool npa_idle(const target *t, PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    switch (t->action) {
    case CONVERTED:
        return n > 0 && comes_back(args[0], args + 1, n - 1, names, t->copies);
    case CAST: return npa_comes_back(self, args, n, names);
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
size_t npa_most_bytes(PyObject *const *args, Py_ssize_t n, bool *mine)
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
PyObject *npa_itself(PyObject *result)
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
int npa_settle_all(PyObject *const *args, Py_ssize_t n, bool write, bool nested)
{
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject *o = args[k];
        if (plain(o) || ours(o)) {
            bool may_wait = npa_waiting() || npa_is_home(PyArray_DATA((PyArrayObject *)o));
            if (may_wait && npa_touch((PyArrayObject *)o, write) < 0) {
                return -1;
            }
        } else if (nested && npa_is_listed(o) &&
                   npa_settle_all(PySequence_Fast_ITEMS(o), Py_SIZE(o), write, false) < 0) {
            return -1;
        }
    }
    return 0;
}
