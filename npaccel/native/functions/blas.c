/* blas.c: products of vectors and matrices, some of which wait or were seen by nobody, where they
 * lie: by the functions that NumPy calls for them, BLAS's mostly. To show the factors, and to hide
 * them when they are written next, takes as long as many such products do. */
#include "functions/functions.h"
#include "small/ways.h"

/* Multiplications. Others wait for the lock meanwhile, and a larger product takes much longer than
 * showing what it reads. */
enum { MOST = 1 << 27 };

static bool is_factor(PyObject *o, int most)
{
    PyArrayObject *a = (PyArrayObject *)o;
    return (PyArray_CheckExact(o) || Py_IS_TYPE(o, npa_array_type)) && PyArray_ISNUMBER(a) &&
           !PyArray_ISINTEGER(a) && npa_dtype_known(PyArray_DESCR(a)) &&
           PyArray_TYPE(a) != NPY_HALF && PyArray_ISALIGNED(a) &&
           PyArray_NDIM(a) >= 1 && PyArray_NDIM(a) <= most && PyArray_SIZE(a) > 0;
}

/* Whether NumPy would have to be shown it. */
static bool is_unseen(PyArrayObject *a)
{
    npa_buffer *b = npa_buffer_of(a);
    return b != NULL && (b->pending || npa_range_is_hidden(b->range));
}

static bool are_factors(PyObject *const *args, int most)
{
    PyArrayObject *a = (PyArrayObject *)args[0], *b = (PyArrayObject *)args[1];
    return npa_here == NULL && npa_guard_on && is_factor(args[0], most) &&
           is_factor(args[1], most) && PyArray_TYPE(a) == PyArray_TYPE(b) &&
           (is_unseen(a) || is_unseen(b));
}

static void note(const char *name, double start)
{
    PyObject *text = PyUnicode_InternFromString(name);
    if (text == NULL || npa_note_fallback(text, "matrix product", npa_seconds() - start) < 0) {
        PyErr_Clear(); /* it is only not counted */
    }
    Py_XDECREF(text);
}

/* ------------------------------------------------------------------------------------- vectors */

/* NumPy copies for BLAS what goes back, and may have a loop of its own for other steps. */
static bool lies_forward(PyArrayObject *a)
{
    npy_intp step = PyArray_STRIDE(a, 0);
    return step > 0 && step % PyArray_ITEMSIZE(a) == 0;
}

/* all: of all elements, in C order */
static PyObject *multiply_vectors(const char *name, PyObject *const *args, bool all)
{
    PyArrayObject *of[2] = {(PyArrayObject *)args[0], (PyArrayObject *)args[1]};
    PyArray_DotFunc *dot = PyDataType_GetArrFuncs(PyArray_DESCR(of[0]))->dotfunc;
    npy_intp n = PyArray_SIZE(of[0]), steps[2];
    double number[2];
    npa_opened o;
    for (int k = 0; k < 2; k++) {
        if (dot == NULL || PyArray_SIZE(of[k]) != n || n < 2 || n > MOST ||
            (all ? !PyArray_IS_C_CONTIGUOUS(of[k]) : !lies_forward(of[k]))) {
            return NULL;
        }
        steps[k] = all ? PyArray_ITEMSIZE(of[k]) : PyArray_STRIDE(of[k], 0);
    }
    double start = 0;
    int before = npa_now(NPA_IN_NUMPY);
    bool good = npa_open(&o, of, 2, 0) == 0;
    if (good) {
        start = npa_seconds();
        PyThreadState *mine = PyEval_SaveThread();
        dot(o.at[0], steps[0], o.at[1], steps[1], number, n, NULL);
        npa_close(&o); /* nobody waits for the GIL with the lock */
        PyEval_RestoreThread(mine);
    }
    npa_now(before);
    if (good) {
        note(name, start);
    }
    return good ? PyArray_Scalar(number, PyArray_DESCR(of[0]), NULL) : NULL;
}

/* ------------------------------------------------------------------------------------ matrices */

/* Into `to`. False: with an exception, or NumPy does it again. */
static bool run_matmul(const char *name, npa_product *p, const npa_way *w, PyArrayObject *const *of,
                       char *to)
{
    npa_opened o;
    int before = npa_now(NPA_IN_NUMPY);
    bool good = npa_open(&o, of, 2, 0) == 0;
    if (good) {
        double start = npa_seconds();
        p->args[0] = o.at[0], p->args[1] = o.at[1];
        PyThreadState *mine = PyEval_SaveThread();
        npa_run_product(p, w, PyArray_DESCR(of[0]), to);
        npa_close(&o); /* nobody waits for the GIL with the lock */
        PyEval_RestoreThread(mine);
        good = !npa_seen_errors();
        if (good) {
            note(name, start);
        }
    }
    npa_now(before);
    return good;
}

static PyObject *run_product(const char *name, npa_product *p, PyArrayObject *const *of)
{
    const npa_way way = *npa_find_way(npa_matmul, PyArray_TYPE(of[0]), NPA_INEXACT);
    PyArray_Descr *descr = PyArray_DESCR(of[0]);
    double number[2];
    if (way.loop == NULL) {
        return NULL;
    }
    if (p->ndim == 0) {
        return run_matmul(name, p, &way, of, (char *)number) ? PyArray_Scalar(number, descr, NULL)
                                                            : NULL;
    }
    char *place;
    PyObject *made = npa_new_result(descr->type_num, p->ndim, p->shape, &place);
    if (made != NULL && !run_matmul(name, p, &way, of, place)) {
        Py_CLEAR(made);
    }
    return made;
}

static PyObject *multiply_matrices(const char *name, PyArrayObject *const *of)
{
    npa_product p;
    return !npa_asks_underflow() && npa_find_product(&p, of[0], of[1]) &&
                   npa_product_work(&p) <= MOST ? run_product(name, &p, of) : NULL;
}

PyObject *npa_matmul_unseen(PyObject *const *args)
{
    PyArrayObject *of[2] = {(PyArrayObject *)args[0], (PyArrayObject *)args[1]};
    return are_factors(args, 2) ? multiply_matrices("matmul", of) : NULL;
}

/* Whether np.dot copies nothing for BLAS, nor takes an axis of one element for none. */
static bool is_one_piece(PyArrayObject *a)
{
    bool good = PyArray_ISONESEGMENT(a);
    for (int i = 0; i < PyArray_NDIM(a); i++) {
        good = good && PyArray_DIM(a, i) > 1;
    }
    return good;
}

/* ----------------------------------------------------------------------- np.dot, inner and vdot */

/* np.dot of matrices, and of a matrix and a vector: it calls BLAS as matmul does. */
static PyObject *multiply_pieces(const char *name, PyObject *const *pair)
{
    PyArrayObject *of[2] = {(PyArrayObject *)pair[0], (PyArrayObject *)pair[1]};
    return are_factors(pair, 2) && PyArray_NDIM(of[0]) + PyArray_NDIM(of[1]) > 2 &&
                   is_one_piece(of[0]) && is_one_piece(of[1])
               ? multiply_matrices(name, of) : NULL;
}

/* The two factors; self: of a method, the first. False: there are others, or more. */
static bool read_factors(PyObject **pair, PyObject *self, PyObject *const *args, Py_ssize_t n,
                         PyObject *names)
{
    bool method = self != NULL && PyArray_Check(self);
    bool two = names == NULL && n == 2 - method;
    if (two) {
        pair[0] = method ? self : args[0], pair[1] = args[n - 1];
    }
    return two;
}

/* What there is for integers, for two vectors, or for two matrices. */
PyObject *npa_dot(void *what, PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    PyObject *pair[2], *made = NULL;
    if (read_factors(pair, self, args, n, names)) {
        made = are_factors(pair, 1) ? multiply_vectors("dot", pair, false)
                                    : multiply_pieces("dot", pair);
    }
    return made != NULL || PyErr_Occurred() ? made : npa_dot_integers(what, self, args, n, names);
}

/* np.inner(a, b) of matrices is np.dot(a, b.T). */
PyObject *npa_inner(void *what, PyObject *self, PyObject *const *args, Py_ssize_t n,
                    PyObject *names)
{
    PyObject *pair[2], *made = NULL;
    (void)what;
    if (!read_factors(pair, self, args, n, names) || !are_factors(pair, 2)) {
        return NULL;
    }
    if (are_factors(pair, 1)) {
        return multiply_vectors("inner", pair, false);
    }
    pair[1] = PyArray_Transpose((PyArrayObject *)pair[1], NULL);
    made = pair[1] != NULL ? multiply_pieces("inner", pair) : NULL;
    Py_XDECREF(pair[1]);
    return made;
}

/* Of all elements; that of complex ones has a function that NumPy shows nobody. */
PyObject *npa_vdot(void *what, PyObject *self, PyObject *const *args, Py_ssize_t n,
                   PyObject *names)
{
    PyObject *pair[2];
    (void)what;
    return read_factors(pair, self, args, n, names) && are_factors(pair, NPA_MAX_DIMS) &&
                   !PyArray_ISCOMPLEX((PyArrayObject *)pair[0])
               ? multiply_vectors("vdot", pair, true) : NULL;
}
