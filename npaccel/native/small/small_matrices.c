/* small_matrices.c: solve, inv and det of one small matrix of doubles, by NumPy's inner loops,
 * which call LAPACK, without the Python around them. What they find singular NumPy does again, and
 * tells. */
#include "small/small.h"
#include "small/functions.h"
#include "small/ways.h"

#include <string.h>

enum { MOST_ROWS = 64, NAMES = 16 };

const PyUFuncObject *npa_numpys_gufunc(const char *module, const char *name)
{
    static struct { const char *name; PyObject *ufunc; } found[NAMES];
    size_t i = 0;
    while (i < NAMES - 1 && found[i].name != NULL && strcmp(found[i].name, name) != 0) {
        i++;
    }
    if (found[i].name == NULL) {
        PyObject *text = PyUnicode_FromString(module);
        PyObject *loaded = text != NULL ? PyImport_GetModule(text) : NULL;
        PyObject *o = loaded != NULL ? PyObject_GetAttrString(loaded, name) : NULL;
        PyErr_Clear();
        Py_XDECREF(text), Py_XDECREF(loaded);
        bool good = o != NULL && PyObject_TypeCheck(o, &PyUFunc_Type) &&
                    ((PyUFuncObject *)o)->functions != NULL && ((PyUFuncObject *)o)->core_enabled;
        found[i].name = name, found[i].ufunc = good ? o : NULL;
    }
    return (PyUFuncObject *)found[i].ufunc;
}

int npa_gufunc_loop(const PyUFuncObject *u, const char *types)
{
    int loop = 0;
    while (loop < u->ntypes && memcmp(u->types + u->nargs * loop, types, (size_t)u->nargs) != 0) {
        loop++;
    }
    return loop < u->ntypes ? loop : -1;
}

/* Whether it is so many rows of doubles, in C order. */
static bool is_usual(PyObject *o, int ndim, npy_intp rows)
{
    PyArrayObject *a = (PyArrayObject *)o;
    return npa_small_usual(o) && PyArray_NDIM(a) == ndim && PyArray_TYPE(a) == NPY_DOUBLE &&
           PyArray_DIM(a, 0) == rows;
}

/* One call of the loop. steps: of the core dimensions. False: NumPy has something to tell */
static bool run(const char *name, int nargs, char **args, const npy_intp *dims, npy_intp *steps)
{
    static const char doubles[3] = {NPY_DOUBLE, NPY_DOUBLE, NPY_DOUBLE};
    const PyUFuncObject *u = npa_numpys_gufunc("numpy.linalg._umath_linalg", name);
    int loop = u != NULL && u->nargs == nargs ? npa_gufunc_loop(u, doubles) : -1;
    if (loop < 0) {
        return false;
    }
    npa_clear_errors();
    u->functions[loop](args, dims, steps, u->data != NULL ? u->data[loop] : NULL);
    return !npa_seen_errors() && !PyErr_Occurred();
}

/* solve(a, b) */
PyObject *npa_small_solve(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)f;
    PyArrayObject *a = (PyArrayObject *)args[0], *b = n == 2 ? (PyArrayObject *)args[1] : NULL;
    npy_intp rows = PyArray_NDIM(a) == 2 ? PyArray_DIM(a, 0) : 0;
    if (b == NULL || names != NULL || rows > MOST_ROWS || !is_usual(args[0], 2, rows) ||
        PyArray_DIM(a, 1) != rows || !npa_is_plain(args[1])) {
        return NULL;
    }
    bool several = PyArray_NDIM(b) == 2;
    if (!is_usual(args[1], 1 + several, rows) || (several && PyArray_DIM(b, 1) > MOST_ROWS)) {
        return NULL;
    }
    PyArrayObject *made = npa_small_alike(b);
    if (made == NULL) {
        return NULL;
    }
    npy_intp item = sizeof(double), row = several ? PyArray_STRIDE(b, 0) : item;
    char *data[3] = {PyArray_DATA(a), PyArray_DATA(b), PyArray_DATA(made)};
    npy_intp dims[3] = {1, rows, several ? PyArray_DIM(b, 1) : 0};
    npy_intp of_one[] = {0, 0, 0, PyArray_STRIDE(a, 0), item, row, row};
    npy_intp of_several[] = {0, 0, 0, PyArray_STRIDE(a, 0), item, row, item, row, item};
    if (!run(several ? "solve" : "solve1", 3, data, dims, several ? of_several : of_one)) {
        Py_CLEAR(made);
    }
    return (PyObject *)made;
}

/* inv(a), det(a) */
PyObject *npa_small_matrix(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    PyArrayObject *a = (PyArrayObject *)args[0];
    npy_intp rows = PyArray_NDIM(a) == 2 ? PyArray_DIM(a, 0) : 0;
    if (n != 1 || names != NULL || rows > MOST_ROWS || !is_usual(args[0], 2, rows) ||
        PyArray_DIM(a, 1) != rows) {
        return NULL;
    }
    double number;
    PyArrayObject *made = f->what == INVERSE ? npa_small_alike(a) : NULL;
    npy_intp dims[2] = {1, rows}, row = PyArray_STRIDE(a, 0), item = sizeof number;
    npy_intp steps[] = {0, 0, row, item, row, item};
    char *data[2] = {PyArray_DATA(a), made != NULL ? PyArray_DATA(made) : (char *)&number};
    if ((f->what == INVERSE && made == NULL) ||
        !run(f->what == INVERSE ? "inv" : "det", 2, data, dims, steps)) {
        Py_CLEAR(made);
        return NULL;
    }
    return made != NULL ? (PyObject *)made : PyArray_Scalar(&number, PyArray_DESCR(a), NULL);
}
