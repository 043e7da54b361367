/* at.c: ufunc.at(rows, indices, values), where rows are long enough for an inner loop each. */
#include "small.h"

#include <string.h>

/* NumPy goes through all elements by an iterator, one call of the loop each, but where the target is a vector.
 * The same loop over a row does the same operations in the same order for each element. */
typedef struct {
    char *rows;
    npy_intp count, bytes, columns; /* of rows; of one; its elements */
    const char *indices, *values;
    npy_intp index_step, value_step, n;
} job;

/* False: some index is not of a row, which NumPy says before it writes anything. */
static bool all_inside(const job *j)
{
    bool inside = true;
    for (npy_intp i = 0; i < j->n; i++) {
        npy_intp at;
        memcpy(&at, j->indices + i * j->index_step, sizeof at);
        inside &= at >= -j->count && at < j->count;
    }
    return inside;
}

static void run(const npa_way *w, const job *j)
{
    const npy_intp steps[3] = {w->in_size, w->in_size, w->out_size};
    for (npy_intp i = 0; i < j->n; i++) {
        npy_intp at;
        memcpy(&at, j->indices + i * j->index_step, sizeof at);
        char *row = j->rows + (at < 0 ? at + j->count : at) * j->bytes;
        char *args[3] = {row, (char *)j->values + i * j->value_step, row};
        w->loop(args, &j->columns, steps, w->data);
    }
}

static bool usual(PyObject *o)
{
    PyArrayObject *a = (PyArrayObject *)o;
    return npa_is_plain(o) && PyArray_ISALIGNED(a) && PyArray_ISNOTSWAPPED(a) &&
           !(npa_waiting() && npa_is_pending(a));
}

/* Whether the rows of `values` are as those of the target, each without gaps. */
static bool same_rows(PyArrayObject *values, PyArrayObject *target, npy_intp n)
{
    npy_intp step = PyArray_ITEMSIZE(target);
    bool same = PyArray_NDIM(values) == PyArray_NDIM(target) && PyArray_DIM(values, 0) == n;
    for (int i = PyArray_NDIM(target) - 1; i > 0 && same; i--) {
        same = PyArray_DIM(values, i) == PyArray_DIM(target, i) && PyArray_STRIDE(values, i) == step;
        step *= PyArray_DIM(target, i);
    }
    return same;
}

/* Whether a row's loop gives what single elements' do: of two zeros, or two NaNs, others choose as it comes. */
static bool one_by_one(const PyUFuncObject *u, const npa_way *w)
{
    static const char *const names[] = {"add", "subtract", "multiply", "divide"};
    bool known = !PyTypeNum_ISFLOAT(w->type) && !PyTypeNum_ISCOMPLEX(w->type);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        known |= strcmp(u->name, names[i]) == 0;
    }
    return known && w->loop != NULL && w->exact && w->out == w->in;
}

bool npa_at_rows(PyUFuncObject *u, npa_exactness how, PyObject *const *args)
{
    PyArrayObject *target = (PyArrayObject *)args[0], *index = (PyArrayObject *)args[1],
                  *values = (PyArrayObject *)args[2];
    if (u->nin != 2 || u->nout != 1 || !usual(args[0]) || !usual(args[1]) || !usual(args[2]) ||
        PyArray_NDIM(target) < 2 || !PyArray_IS_C_CONTIGUOUS(target) || !PyArray_ISWRITEABLE(target) ||
        PyArray_SIZE(target) == 0 || (PyArray_FLAGS(target) & NPA_WARN_ON_WRITE) ||
        PyArray_NDIM(index) != 1 || PyArray_TYPE(index) != NPY_INTP ||
        !same_rows(values, target, PyArray_DIM(index, 0))) {
        return false;
    }
    const npa_way *w = npa_find_way(u, PyArray_TYPE(target), how);
    if (!one_by_one(u, w) || PyArray_DESCR(target) != w->in || PyArray_DESCR(values) != w->in || !npa_apart(target, values) || !npa_apart(target, index)) {
        return false;
    }
    npy_intp rows = PyArray_DIM(target, 0), columns = PyArray_SIZE(target) / rows;
    job j = {PyArray_BYTES(target), rows, columns * w->in_size, columns, PyArray_BYTES(index),
             PyArray_BYTES(values), PyArray_STRIDE(index, 0), PyArray_STRIDE(values, 0), PyArray_DIM(index, 0)};
    size_t bytes = (size_t)PyArray_NBYTES(target);
    char *before = all_inside(&j) ? malloc(bytes) : NULL;
    if (before == NULL) {
        return false;
    }
    memcpy(before, j.rows, bytes);
    npa_clear_errors();
    run(w, &j);
    bool good = !npa_seen_errors();
    if (!good) {
        memcpy(j.rows, before, bytes); /* NumPy tells them */
    }
    free(before);
    return good;
}
