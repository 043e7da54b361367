/* rows_call.c: what kind of loop a generalised ufunc has, and what a call of it is given. */
#include "functions/functions.h"
#include "functions/rows.h"

#include <string.h>

static const struct { const char *name; enum npa_rows_kind kind;
} known[] = {{"fft", NPA_ROWS_TRANSFORM},           {"ifft", NPA_ROWS_TRANSFORM},
             {"rfft_n_even", NPA_ROWS_TRANSFORM},   {"rfft_n_odd", NPA_ROWS_TRANSFORM},
             {"irfft", NPA_ROWS_TRANSFORM},         {"matmul", NPA_ROWS_PRODUCT},
             {"vecdot", NPA_ROWS_VECTORS},          {"matvec", NPA_ROWS_VECTORS},
             {"vecmat", NPA_ROWS_VECTORS},          {"solve", NPA_ROWS_ELIMINATION},
             {"solve1", NPA_ROWS_ELIMINATION},      {"det", NPA_ROWS_ELIMINATION},
             {"slogdet", NPA_ROWS_ELIMINATION},     {"cholesky_lo", NPA_ROWS_ELIMINATION},
             {"cholesky_up", NPA_ROWS_ELIMINATION}, {"inv", NPA_ROWS_INVERSE},
             {"qr_reduced", NPA_ROWS_INVERSE},      {"qr_complete", NPA_ROWS_INVERSE},
             {"eig", NPA_ROWS_EIGENVALUES},         {"eigvals", NPA_ROWS_EIGENVALUES},
             {"eigvalsh_lo", NPA_ROWS_EIGENVALUES}, {"eigvalsh_up", NPA_ROWS_EIGENVALUES},
             {"svd", NPA_ROWS_EIGENVALUES},         {"svd_m", NPA_ROWS_EIGENVALUES},
             {"svd_n", NPA_ROWS_EIGENVALUES},       {"eigh_lo", NPA_ROWS_SPECTRUM},
             {"eigh_up", NPA_ROWS_SPECTRUM},        {"svd_f", NPA_ROWS_SPECTRUM},
             {"svd_s", NPA_ROWS_SPECTRUM},          {"svd_m_f", NPA_ROWS_SPECTRUM},
             {"svd_n_f", NPA_ROWS_SPECTRUM},        {"svd_m_s", NPA_ROWS_SPECTRUM},
             {"svd_n_s", NPA_ROWS_SPECTRUM},        {"lstsq", NPA_ROWS_SPECTRUM},
             {"lstsq_m", NPA_ROWS_SPECTRUM},        {"lstsq_n", NPA_ROWS_SPECTRUM}};

typedef npa_rows_job job;

static enum npa_rows_kind kind_of(const PyUFuncObject *u)
{
    enum npa_rows_kind kind = NPA_ROWS_OTHER;
    bool fits = u->functions != NULL && u->nargs <= NPA_ROWS_MOST &&
                u->core_num_dim_ix <= NPA_ROWS_CORES;
    for (size_t i = 0; fits && i < sizeof known / sizeof *known; i++) {
        kind = strcmp(u->name, known[i].name) == 0 ? known[i].kind : kind;
    }
#if !NPA_NUMPY_AS_WRITTEN
    if (kind == NPA_ROWS_TRANSFORM) {
        /* There compilers fuse operations, in vectors of rows otherwise than in single ones */
        kind = NPA_ROWS_OTHER;
    }
#endif
    return kind;
}

/* The same, found once: redirected ufuncs stay where they are. */
enum npa_rows_kind npa_rows_kind_of(const PyUFuncObject *u)
{
    static struct { const PyUFuncObject *u; enum npa_rows_kind kind; } found[64];
    size_t place = ((uintptr_t)u >> 4) % 64;
    if (found[place].u != u) {
        found[place].kind = kind_of(u), found[place].u = u;
    }
    return found[place].kind;
}

static PyArrayObject *usual(PyObject *o)
{
    PyArrayObject *a = (PyArrayObject *)o;
    bool good = (PyArray_CheckExact(o) || Py_IS_TYPE(o, npa_array_type)) && PyArray_ISALIGNED(a) &&
                npa_is_usual_dtype(PyArray_DESCR(a)) && PyArray_SIZE(a) > 0 &&
                PyArray_NDIM(a) <= NPA_MAX_DIMS;
    return good ? a : NULL;
}

static bool take_operand(job *j, int k, PyObject *o)
{
    if (!PyArray_Check(o) && k < j->u->nin && j->u->core_num_dims[k] == 0 &&
        (PyLong_CheckExact(o) || PyFloat_Check(o))) {
        j->number = PyFloat_AsDouble(o);
        PyErr_Clear();
        j->data[k] = (char *)&j->number;
        return true;
    }
    j->arrays[k] = usual(o), j->given[k] = true;
    return j->arrays[k] != NULL && PyArray_NDIM(j->arrays[k]) >= j->u->core_num_dims[k];
}

static bool is_wider(int loop, int type)
{
    return (loop == NPY_CDOUBLE && type == NPY_DOUBLE) || (loop == NPY_CFLOAT && type == NPY_FLOAT);
}

/* Of the arrays' types; no operand is converted but what a transform takes, from real to
 * complex. */
static bool find_loop(job *j)
{
    const PyUFuncObject *u = j->u;
    for (j->loop = 0; j->loop < u->ntypes; j->loop++) {
        const char *types = u->types + (npy_intp)j->loop * j->n;
        j->widens = j->kind == NPA_ROWS_TRANSFORM && is_wider(types[0], PyArray_TYPE(j->arrays[0]));
        int k = j->widens;
        while (k < j->n && (j->given[k] ? types[k] == PyArray_TYPE(j->arrays[k])
                                        : k >= u->nin || types[k] == NPY_DOUBLE)) {
            k++;
        }
        if (k == j->n) {
            return types[0] != NPY_OBJECT;
        }
    }
    return false;
}

/* "dd->d" is this loop */
static bool says_loop(const job *j, PyObject *signature)
{
    const char *text = PyUnicode_CheckExact(signature) ? PyUnicode_AsUTF8(signature) : NULL;
    const char *types = j->u->types + (npy_intp)j->loop * j->n;
    bool good = text != NULL && strlen(text) == (size_t)j->n + 2;
    for (int k = 0; good && k < j->n; k++) {
        PyArray_Descr *d = PyArray_DescrFromType(types[k]);
        good = d != NULL && text[k < j->u->nin ? k : k + 2] == d->type;
        Py_XDECREF(d);
    }
    PyErr_Clear();
    return good;
}

/* Which axes of an operand are a row's; the others come first. */
static bool set_axes(job *j, int k, PyObject *row)
{
    int ndim = PyArray_NDIM(j->arrays[k]), ncores = j->u->core_num_dims[k], outer = 0;
    unsigned used = 0;
    for (int i = 0; i < ncores; i++) {
        PyObject *o = PyTuple_GET_ITEM(row, i);
        long axis = PyLong_CheckExact(o) ? PyLong_AsLong(o) : -1;
        PyErr_Clear();
        if (axis < 0 || axis >= ndim || (used & 1u << axis)) {
            return false;
        }
        j->axes[k][ndim - ncores + i] = (int)axis, used |= 1u << axis;
    }
    for (int i = 0; i < ndim; i++) {
        if (!(used & 1u << i)) {
            j->axes[k][outer++] = i;
        }
    }
    return true;
}

/* axes=[(0,), (), (0,)], or NULL: the last ones */
static bool read_axes(job *j, PyObject *axes)
{
    for (int k = 0; k < j->n; k++) {
        for (int i = 0; i < NPA_MAX_DIMS; i++) {
            j->axes[k][i] = i;
        }
    }
    if (axes == NULL) {
        return true;
    }
    bool good = PyList_CheckExact(axes) && PyList_GET_SIZE(axes) == j->n;
    for (int k = 0; good && k < j->n; k++) {
        PyObject *row = PyList_GET_ITEM(axes, k);
        good = PyTuple_CheckExact(row) && PyTuple_GET_SIZE(row) == j->u->core_num_dims[k] &&
               (j->given[k] ? set_axes(j, k, row) : k < j->u->nin);
    }
    return good;
}

bool npa_rows_read(job *j, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const char *const words[] = {"signature", "axes", "out"};
    PyObject *given[3] = {NULL}, *out = n == j->n ? args[n - 1] : NULL;
    j->n = j->u->nargs;
    if (!npa_read_call(args + n, 0, names, words, 3, given) || (out != NULL && given[2] != NULL)) {
        return false;
    }
    PyObject *signature = given[0], *axes = given[1];
    out = given[2] != NULL ? given[2] : out;
    out = out != NULL && PyTuple_CheckExact(out) && PyTuple_GET_SIZE(out) == 1
              ? PyTuple_GET_ITEM(out, 0)
              : out;
    bool good = n == j->u->nin || (n == j->n && j->u->nout == 1);
    for (int k = 0; good && k < j->u->nin; k++) {
        good = take_operand(j, k, args[k]);
    }
    if (good && out != NULL && out != Py_None) {
        good = j->u->nout == 1 && take_operand(j, j->n - 1, out) &&
               PyArray_ISWRITEABLE(j->arrays[j->n - 1]) &&
               !(PyArray_FLAGS(j->arrays[j->n - 1]) & NPA_WARN_ON_WRITE);
    }
    return good && find_loop(j) && (signature == NULL || says_loop(j, signature)) &&
           read_axes(j, axes);
}
