/* small_numbers.c: ufuncs of numbers alone, `np.sin(1.5)`: NumPy makes arrays without axes of them,
 * and a number of the result, which takes many times what its loop does. */
#include "small/functions.h"
#include "small/small.h"
#include "small/ways.h"

#include <numpy/arrayscalars.h>

#include <math.h>
#include <string.h>

/* Which number it is; -1: none, or NumPy's to look at. */
static inline int kind_of_number(PyObject *o)
{
    PyTypeObject *t = Py_TYPE(o);
    bool usual = sizeof(long) == sizeof(npy_intp); /* what Python's whole numbers become */
    return t == &PyFloat_Type                   ? NPA_WEAK_FLOAT
           : t == &PyDoubleArrType_Type         ? NPY_DOUBLE
           : t == &PyLong_Type && usual         ? NPA_WEAK_INT
           : t == &PyLongArrType_Type && usual  ? NPY_LONG
           : t == &PyFloatArrType_Type          ? NPY_FLOAT
           : t == &PyBool_Type                  ? NPY_BOOL
           : t == &PyBoolArrType_Type           ? NPY_BOOL
                                                : -1;
}

/* As of a number, of an array without axes, which is one to NumPy's ufuncs. */
static int kind_of_array(PyArrayObject *a)
{
    int type = PyArray_TYPE(a);
    bool known = type == NPY_DOUBLE || type == NPY_FLOAT || type == NPY_BOOL ||
                 (type == NPY_LONG && sizeof(long) == sizeof(npy_intp));
    return known && PyArray_NDIM(a) == 0 && npa_small_type(PyArray_DESCR(a)) &&
                   !npa_small_is_large((size_t)PyArray_ITEMSIZE(a))
               ? type : -1;
}

static inline int kind_of(PyObject *o)
{
    return Py_IS_TYPE(o, &PyArray_Type) ? kind_of_array((PyArrayObject *)o) : kind_of_number(o);
}

/* The type that NumPy's rule gives numbers of these two, if it is among those here; else -1.
 * Python's own ones are weak. (npa_find_rule would ask Python, at the first call of each kind.) */
static inline int common_type(int a, int b)
{
    bool weak = b >= NPA_WEAK_INT;
    if (a == b || (a == NPA_WEAK_FLOAT && b == NPA_WEAK_INT)) {
        return a;
    }
    if (a == NPY_BOOL || b == NPY_BOOL) {
        return -1;
    }
    if (a >= NPA_WEAK_INT && !weak) {
        return common_type(b, a);
    }
    bool whole = a == NPY_LONG || a == NPA_WEAK_INT;
    if (whole && (b == NPA_WEAK_FLOAT || b == NPY_DOUBLE)) {
        return NPY_DOUBLE;
    }
    return weak && a != NPA_WEAK_INT         ? a
           : a == NPY_DOUBLE && b == NPY_LONG ? NPY_DOUBLE
                                              : -1;
}

/* The loop for numbers of these kinds, as NumPy finds it; NULL: not here. */
static const npa_way *way_of(PyUFuncObject *u, const int *kinds, npa_exactness how)
{
    int type = kinds[0];
    for (int k = 1; k < u->nin && type >= 0; k++) {
        type = common_type(type, kinds[k]);
    }
    if (type < 0) {
        return NULL;
    }
    type = type == NPA_WEAK_FLOAT ? NPY_DOUBLE : type == NPA_WEAK_INT ? NPY_LONG : type;
    const npa_way *w = npa_find_way(u, type, how);
    w = w->loop == NULL && type == NPY_LONG ? npa_find_way(u, NPY_DOUBLE, how) : w;
    return w->loop != NULL ? w : NULL;
}

/* What a number of that kind is: *i if it is whole or a truth value, else *d. False: it is too
 * large. */
static inline bool take(PyObject *o, int kind, double *d, long *i)
{
    int overflow = 0;
    float f;
    npy_bool b;
    const void *at = Py_IS_TYPE(o, &PyArray_Type) ? PyArray_DATA((PyArrayObject *)o) : NULL;
    switch (kind) {
    case NPY_BOOL:
        b = o == Py_True || o == PyArrayScalar_True;
        *i = at != NULL ? *(const npy_bool *)at != 0 : b;
        break;
    case NPA_WEAK_INT: *i = PyLong_AsLongAndOverflow(o, &overflow); break;
    case NPY_LONG: memcpy(i, at != NULL ? at : &PyArrayScalar_VAL(o, Long), sizeof *i); break;
    case NPY_FLOAT:
        memcpy(&f, at != NULL ? at : &PyArrayScalar_VAL(o, Float), sizeof f);
        *d = f;
        break;
    default:
        if (at != NULL) {
            memcpy(d, at, sizeof *d);
        } else {
            *d = PyFloat_AS_DOUBLE(o); /* np.float64 is a float */
        }
    }
    return overflow == 0;
}

/* The number in the loop's type. False: NumPy's to convert, or to complain about. */
static inline bool put(PyObject *o, int kind, int type, void *to)
{
    double d = 0;
    long i = 0;
    bool fits = take(o, kind, &d, &i);
    if (kind == NPY_BOOL) {
        *(npy_bool *)to = (npy_bool)i;
        return true;
    }
    d = kind == NPA_WEAK_INT || kind == NPY_LONG ? (double)i : d;
    float f = (float)d;
    const void *from = type == NPY_LONG ? (void *)&i : type == NPY_FLOAT ? (void *)&f : (void *)&d;
    memcpy(to, from, type == NPY_FLOAT ? sizeof f : sizeof d);
    return fits && (type != NPY_FLOAT || kind == NPY_FLOAT || d == 0 || !isfinite(d) ||
                    (fabs(d) < 0x1p127 && fabs(d) >= 0x1p-126)); /* a float, and a normal one */
}

static PyObject *number_of(const char *at, PyArray_Descr *descr)
{
    switch (descr->type_num) {
    case NPY_BOOL: return Py_NewRef(*at ? PyArrayScalar_True : PyArrayScalar_False);
    case NPY_DOUBLE: {
        PyObject *made = (PyObject *)PyObject_New(PyDoubleScalarObject, &PyDoubleArrType_Type);
        if (made != NULL) {
            memcpy(&PyArrayScalar_VAL(made, Double), at, sizeof(double));
        }
        return made;
    }
    default: return PyArray_Scalar((void *)at, descr, NULL);
    }
}

static PyObject *double_of(double value)
{
    return number_of((const char *)&value, npa_small_dtype(NPY_DOUBLE));
}

PyObject *npa_small_strong(PyObject *o)
{
    int overflow = 0;
    long whole = PyLong_CheckExact(o) ? PyLong_AsLongAndOverflow(o, &overflow) : 0;
    return PyFloat_CheckExact(o)               ? double_of(PyFloat_AS_DOUBLE(o))
           : !PyLong_CheckExact(o)             ? Py_NewRef(o)
           : overflow != 0                     ? NULL
                                               : number_of((const char *)&whole,
                                                           npa_small_dtype(NPY_LONG));
}

/* round(number, decimals), around: three operations, as NumPy's method has them. */
PyObject *npa_small_round(const function *f, PyObject *const *args, Py_ssize_t n,
                          PyObject *names)
{
    static const double tens[] = {1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8};
    (void)f;
    int kind = kind_of_number(args[0]);
    long decimals = n == 2 && PyLong_CheckExact(args[1]) ? PyLong_AsLong(args[1]) : n == 1 ? 0 : -1;
    if (names != NULL || !(kind == NPY_DOUBLE || kind == NPA_WEAK_FLOAT) || decimals < 0 ||
        decimals >= (long)(sizeof tens / sizeof *tens)) {
        PyErr_Clear();
        return NULL;
    }
    /* Neither before nor behind the calls that ask for the processor's flags. */
    volatile double value = PyFloat_AS_DOUBLE(args[0]), by = tens[decimals];
    npa_clear_errors();
    value = decimals == 0 ? rint(value) : rint(value * by) / by;
    return npa_flags_raised() ? NULL : double_of(value);
}

PyObject *npa_small_numbers(PyUFuncObject *u, PyObject *const *args, Py_ssize_t n,
                            npa_exactness how)
{
    int kinds[NPA_SMALL_IN];
    for (int k = 0; k < u->nin; k++) {
        if (n != u->nin || n > NPA_SMALL_IN || (kinds[k] = kind_of(args[k])) < 0) {
            return NULL;
        }
    }
    const npa_way *found = u->nout == 1 && !u->core_enabled && npa_here == NULL
                               ? way_of(u, kinds, how) : NULL;
    if (found == NULL) {
        return NULL;
    }
    const npa_way w = *found; /* another thread may have its place for another way */
    char room[NPA_SMALL_IN + 1][16] __attribute__((aligned(16))), *at[NPA_SMALL_IN + 1];
    npy_intp one = 1, steps[NPA_SMALL_IN + 1] = {0}; /* as NumPy's, since bits may hang on them */
    for (int k = 0; k < u->nin; k++) {
        at[k] = room[k];
        if (!put(args[k], kinds[k], w.type, room[k])) {
            return NULL;
        }
    }
    at[u->nin] = room[u->nin], steps[u->nin] = w.out_size;
    npa_clear_errors();
    (w.numpys != NULL ? w.numpys : w.loop)(at, &one, steps,
                                           w.numpys != NULL ? w.numpys_data : w.data);
    int flags = npa_flags_raised();
    return PyErr_Occurred() || npa_tell_errors(u, flags) < 0 ? NULL
                                                             : number_of(room[u->nin], w.out);
}
