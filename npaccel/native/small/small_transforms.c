/* small_transforms.c: fft, ifft, rfft and irfft of few numbers, by NumPy's inner loops, without the
 * Python around them. */
#include "small/small.h"
#include "small/functions.h"
#include "small/ways.h"

#include <numpy/arrayscalars.h>

#include <stdlib.h>
#include <string.h>

enum { GIVEN, POINTS, ALONG, NORM, INTO, ARGUMENTS };
static const char *const named[ARGUMENTS] = {"a", "n", "axis", "norm", "out"};

/* What a call of the loop is given. */
typedef struct {
    PyArrayObject *a;
    int axis, type; /* type: that the loop reads */
    npy_intp points, out_points;
    const PyUFuncObject *ufunc;
    int loop;
} transform;

/* Of doubles. Which loop single numbers have hangs on the factor's type, and on the NumPy. */
static bool find_loop(transform *t, int what)
{
    t->type = what == RFFT ? NPY_DOUBLE : NPY_CDOUBLE;
    const char types[3] = {(char)t->type, NPY_DOUBLE, what == IRFFT ? NPY_DOUBLE : NPY_CDOUBLE};
    t->loop = t->ufunc->nargs == 3 ? npa_gufunc_loop(t->ufunc, types) : -1;
    return t->loop >= 0;
}

static bool read_array(transform *t, PyObject *o, PyObject *axis)
{
    PyArrayObject *a = t->a = (PyArrayObject *)o;
    if (!npa_is_plain(o) || PyArray_NDIM(a) < 1 || PyArray_NDIM(a) > 2 || PyArray_SIZE(a) == 0 ||
        !npa_small_type(PyArray_DESCR(a)) || !PyArray_ISALIGNED(a) || npa_waits(a) ||
        !(PyArray_NDIM(a) == 1 || PyArray_IS_C_CONTIGUOUS(a))) {
        return false;
    }
    int type = PyArray_TYPE(a);
    t->axis = PyArray_NDIM(a) - 1;
    return (type == NPY_DOUBLE || type == NPY_CDOUBLE) &&
           (axis == NULL || npa_small_axis(axis, PyArray_NDIM(a), &t->axis));
}

/* How many numbers come out, by the ufunc that makes so many. */
static bool read_points(transform *t, int what, PyObject *n)
{
    int overflow = 0;
    npy_intp extent = PyArray_DIM(t->a, t->axis);
    if (n == Py_None) {
        t->points = what == IRFFT ? 2 * (extent - 1) : extent;
    } else if (PyArray_IsScalar(n, Long)) { /* as NumPy's own code for several axes gives it */
        t->points = PyArrayScalar_VAL(n, Long);
    } else {
        t->points = PyLong_CheckExact(n) ? PyLong_AsLongAndOverflow(n, &overflow) : 0;
    }
    if (overflow || t->points < 1) {
        return false;
    }
    t->out_points = what == RFFT ? t->points / 2 + 1 : t->points;
    t->ufunc = npa_numpys_gufunc("numpy.fft._pocketfft_umath", what == FFT     ? "fft"
                                                               : what == IFFT  ? "ifft"
                                                               : what == IRFFT ? "irfft"
                                                               : t->points % 2 ? "rfft_n_odd"
                                                                               : "rfft_n_even");
    return t->ufunc != NULL;
}

/* The loop over all rows. False: no memory, or NumPy has something to tell. */
static bool run(const transform *t, int what, PyArrayObject *made)
{
    PyArrayObject *a = t->a;
    int other = PyArray_NDIM(a) == 2 ? 1 - t->axis : -1;
    npy_intp item = PyDataType_ELSIZE(npa_small_dtype(t->type));
    npy_intp rows = other < 0 ? 1 : PyArray_DIM(a, other), extent = PyArray_DIM(a, t->axis);
    npy_intp dims[] = {rows, extent, t->out_points};
    npy_intp steps[] = {other < 0 ? 0 : PyArray_STRIDE(a, other), 0,
                        other < 0 ? 0 : PyArray_STRIDE(made, other), PyArray_STRIDE(a, t->axis),
                        PyArray_STRIDE(made, t->axis)};
    double factor = what == IFFT || what == IRFFT ? 1.0 / (double)t->points : 1.0;
    char *args[] = {PyArray_DATA(a), (char *)&factor, PyArray_DATA(made)}, *wider = NULL;
    if (PyArray_TYPE(a) != t->type) { /* real numbers as complex ones */
        wider = args[0] = malloc((size_t)(rows * extent * item));
        for (npy_intp r = 0; wider != NULL && r < rows; r++) {
            npa_cast(PyArray_TYPE(a), PyArray_BYTES(a) + r * steps[0], steps[3], t->type,
                     wider + r * extent * item, item, extent);
        }
        steps[0] = extent * item, steps[3] = item;
    }
    if (args[0] == NULL) {
        return false;
    }
    npa_clear_errors();
    PyThreadState *mine = npa_small_let_go(PyArray_SIZE(made));
    const PyUFuncObject *u = t->ufunc;
    u->functions[t->loop](args, dims, steps, u->data != NULL ? u->data[t->loop] : NULL);
    bool seen = npa_seen_errors();
    if (mine != NULL) {
        PyEval_RestoreThread(mine);
    }
    free(wider);
    return !seen && !PyErr_Occurred();
}

PyObject *npa_small_transform(const function *f, PyObject *const *args, Py_ssize_t n,
                              PyObject *names)
{
    PyObject *given[ARGUMENTS] = {NULL, Py_None, NULL, Py_None, Py_None};
    transform t;
    if (!npa_read_call(args, n, names, named, ARGUMENTS, given) || given[NORM] != Py_None ||
        given[INTO] != Py_None || !read_array(&t, given[GIVEN], given[ALONG]) ||
        (f->what == RFFT && PyArray_ISCOMPLEX(t.a)) || !read_points(&t, f->what, given[POINTS]) ||
        !find_loop(&t, f->what)) {
        return NULL;
    }
    npy_intp shape[2] = {PyArray_DIM(t.a, 0), PyArray_NDIM(t.a) > 1 ? PyArray_DIM(t.a, 1) : 1};
    shape[t.axis] = t.out_points;
    if (npa_small_is_large((size_t)shape[0] * (size_t)shape[1] * sizeof(npy_cdouble))) {
        return NULL;
    }
    PyArray_Descr *descr = npa_small_dtype(t.ufunc->types[3 * t.loop + 2]);
    PyArrayObject *made = npa_small_new(descr, PyArray_NDIM(t.a), shape);
    if (made != NULL && !run(&t, f->what, made)) {
        Py_CLEAR(made);
    }
    return (PyObject *)made;
}
