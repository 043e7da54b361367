/* fft.c: NumPy's own transforms of many rows, on all threads. A row's result hangs on that row alone. */
#include "record.h"

#include <fenv.h>
#include <string.h>

enum { LEAST_BYTES = 1 << 17, TASK_BYTES = 1 << 16, TOGETHER = 16 }; /* TOGETHER: rows that NumPy's vectors may share */

typedef struct {
    PyUFuncGenericFunction loop;
    void *data;
    char *in, *out;
    double factor;
    int ndim; /* of what is not transformed */
    npy_intp dims[NPA_MAX_DIMS], in_steps[NPA_MAX_DIMS], out_steps[NPA_MAX_DIMS];
    npy_intp n_in, n_out, in_step, out_step; /* along a row */
    npy_intp each, per_line; /* rows of a task; tasks of a line of rows */
    atomic_int raised;
} job;

/* Neighbours along the last of the other axes are one call of NumPy's loop. */
static void transform(void *context, int64_t task, int worker)
{
    job *j = context;
    char *in = j->in, *out = j->out;
    npy_intp line = (npy_intp)task / j->per_line, from = (npy_intp)task % j->per_line * j->each, last = j->ndim - 1;
    npy_intp rows = j->dims[last] - from < j->each ? j->dims[last] - from : j->each;
    (void)worker;
    for (npy_intp i = last - 1; i >= 0; line /= j->dims[i], i--) {
        in += line % j->dims[i] * j->in_steps[i], out += line % j->dims[i] * j->out_steps[i];
    }
    char *args[3] = {in + from * j->in_steps[last], (char *)&j->factor, out + from * j->out_steps[last]};
    npy_intp dims[3] = {rows, j->n_in, j->n_out};
    npy_intp steps[5] = {j->in_steps[last], 0, j->out_steps[last], j->in_step, j->out_step};
    feclearexcept(FE_ALL_EXCEPT);
    j->loop(args, dims, steps, j->data);
    if (fetestexcept(FE_DIVBYZERO | FE_OVERFLOW | FE_INVALID)) {
        atomic_store(&j->raised, 1);
    }
}

/* The loop for these arrays; -1: there is none. */
static int loop_of(const PyUFuncObject *u, int in, int out)
{
    for (int i = 0; i < u->ntypes; i++) {
        if (u->types[3 * i] == in && u->types[3 * i + 2] == out && u->types[3 * i + 1] == NPY_DOUBLE) {
            return i;
        }
    }
    return -1;
}

/* Of axes=[(axis,), (), (axis,)]; -1: something else. */
static int axis_of(PyObject *axes, int ndim)
{
    if (!PyList_CheckExact(axes) || PyList_GET_SIZE(axes) != 3) {
        return -1;
    }
    PyObject *first = PyList_GET_ITEM(axes, 0), *last = PyList_GET_ITEM(axes, 2);
    if (!PyTuple_CheckExact(first) || !PyTuple_CheckExact(last) || PyTuple_GET_SIZE(first) != 1 ||
        PyTuple_GET_SIZE(last) != 1 || !PyLong_CheckExact(PyTuple_GET_ITEM(first, 0)) ||
        PyObject_RichCompareBool(first, last, Py_EQ) != 1) {
        PyErr_Clear();
        return -1;
    }
    long axis = PyLong_AsLong(PyTuple_GET_ITEM(first, 0));
    PyErr_Clear();
    return axis >= 0 && axis < ndim ? (int)axis : -1;
}

static PyArrayObject *usual(PyObject *o)
{
    PyArrayObject *a = (PyArrayObject *)o;
    bool good = (PyArray_CheckExact(o) || Py_IS_TYPE(o, npa_array_type)) && PyArray_ISALIGNED(a) &&
                PyArray_ISNOTSWAPPED(a) && PyArray_SIZE(a) > 0;
    return good ? a : NULL;
}

/* As numpy.fft calls it: u(a, factor, axes=..., out=...). */
static bool read_call(const PyUFuncObject *u, PyObject *const *args, Py_ssize_t n, PyObject *names, PyArrayObject **in,
                      PyArrayObject **out, job *j)
{
    if (n != 2 || names == NULL || PyTuple_GET_SIZE(names) != 2 ||
        PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "axes") != 0 ||
        PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 1), "out") != 0) {
        return false;
    }
    *in = usual(args[0]), *out = usual(args[3]);
    if (*in == NULL || *out == NULL || PyArray_NDIM(*in) != PyArray_NDIM(*out) || PyArray_NDIM(*in) < 2 ||
        (!PyLong_CheckExact(args[1]) && !PyFloat_Check(args[1]))) {
        return false;
    }
    int axis = axis_of(args[2], PyArray_NDIM(*in)), loop = loop_of(u, PyArray_TYPE(*in), PyArray_TYPE(*out));
    j->factor = PyFloat_AsDouble(args[1]);
    PyErr_Clear();
    if (axis < 0 || loop < 0) {
        return false;
    }
    for (int i = 0; i < PyArray_NDIM(*in); i++) {
        if (i == axis) {
            j->n_in = PyArray_DIM(*in, i), j->n_out = PyArray_DIM(*out, i);
            j->in_step = PyArray_STRIDE(*in, i), j->out_step = PyArray_STRIDE(*out, i);
            continue;
        }
        if (PyArray_DIM(*in, i) != PyArray_DIM(*out, i)) {
            return false;
        }
        j->dims[j->ndim] = PyArray_DIM(*in, i);
        j->in_steps[j->ndim] = PyArray_STRIDE(*in, i), j->out_steps[j->ndim++] = PyArray_STRIDE(*out, i);
    }
    j->loop = u->functions[loop], j->data = u->data != NULL ? u->data[loop] : NULL;
    return true;
}

static bool is_transform(const PyUFuncObject *u)
{
    static const char *const names[] = {"fft", "ifft", "rfft_n_even", "rfft_n_odd", "irfft"};
    bool known = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        known |= strcmp(u->name, names[i]) == 0;
    }
#if !defined(__x86_64__)
    known = false; /* there compilers fuse operations, in vectors of rows otherwise than in single ones */
#endif
    return known && u->nin == 2 && u->nout == 1 && u->core_num_dim_ix == 2 && u->functions != NULL;
}

PyObject *npa_fft_rows(PyUFuncObject *u, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    PyArrayObject *in, *out;
    job j = {.ndim = 0};
    if (npa_pool_size() < 2 || npa_asks_underflow() || !is_transform(u) ||
        !read_call(u, args, n, names, &in, &out, &j) || PyArray_NBYTES(out) < LEAST_BYTES ||
        !PyArray_ISWRITEABLE(out) || (PyArray_FLAGS(out) & NPA_WARN_ON_WRITE) || !npa_apart(in, out)) {
        return NULL;
    }
    npy_intp rows = j.dims[j.ndim - 1], lines = 1, bytes = j.n_out * PyArray_ITEMSIZE(out);
    for (int i = 0; i < j.ndim - 1; i++) {
        lines *= j.dims[i];
    }
    j.each = (TASK_BYTES / bytes + TOGETHER) / TOGETHER * TOGETHER;
    j.per_line = (rows + j.each - 1) / j.each;
    PyArrayObject *all[2] = {in, out};
    npa_opened o;
    if (lines * j.per_line < 2 || npa_open(&o, all, 2, 2) < 0) {
        return NULL;
    }
    j.in = o.at[0], j.out = o.at[1];
    int before = npa_now(NPA_IN_KERNELS);
    npa_pool_run(transform, &j, lines * j.per_line, NULL);
    npa_close(&o);
    npa_now(before);
    return atomic_load(&j.raised) ? NULL : Py_NewRef((PyObject *)out); /* NumPy tells of what was raised */
}
