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
           !PyArray_ISINTEGER(a) && npa_type_known(PyArray_TYPE(a)) &&
           PyArray_TYPE(a) != NPY_HALF && PyArray_ISALIGNED(a) && PyArray_ISNOTSWAPPED(a) &&
           PyArray_NDIM(a) >= 1 && PyArray_NDIM(a) <= most && PyArray_SIZE(a) > 0;
}

/* Whether NumPy would have to be shown it. */
static bool is_unseen(PyArrayObject *a)
{
    npa_buffer *b = npa_buffer_of(a);
    return b != NULL &&
           (b->pending || (b->range->work != NULL && b->range->work != b->range->home));
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

/* np.dot, np.inner and the methods: what there is for integers, or two vectors. np.vdot: of all
 * elements; that of complex ones has a function that NumPy shows nobody. */
static PyObject *vectors_of(const char *name, PyObject *self, PyObject *const *args, Py_ssize_t n,
                            PyObject *names, bool all)
{
    bool method = self != NULL && PyArray_Check(self);
    if (names != NULL || n != 2 - method) {
        return NULL;
    }
    PyObject *pair[2] = {method ? self : args[0], args[n - 1]};
    return are_factors(pair, all ? NPA_MAX_DIMS : 1) &&
                   !(all && PyArray_ISCOMPLEX((PyArrayObject *)pair[0]))
               ? multiply_vectors(name, pair, all) : NULL;
}

PyObject *npa_dot(void *what, PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    PyObject *made = vectors_of("dot", self, args, n, names, false);
    return made != NULL || PyErr_Occurred() ? made : npa_dot_integers(what, self, args, n, names);
}

PyObject *npa_inner(void *what, PyObject *self, PyObject *const *args, Py_ssize_t n,
                    PyObject *names)
{
    (void)what;
    return vectors_of("inner", self, args, n, names, false);
}

PyObject *npa_vdot(void *what, PyObject *self, PyObject *const *args, Py_ssize_t n,
                   PyObject *names)
{
    (void)what;
    return vectors_of("vdot", self, args, n, names, true);
}

/* ------------------------------------------------------------------------------------ matrices */

/* Into `to`. False: with an exception, or NumPy does it again. */
static bool run_matmul(npa_product *p, const npa_way *w, PyArrayObject *const *of, char *to)
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
            note("matmul", start);
        }
    }
    npa_now(before);
    return good;
}

static PyObject *multiply_matrices(npa_product *p, PyArrayObject *const *of)
{
    const npa_way way = *npa_find_way(npa_matmul, PyArray_TYPE(of[0]), NPA_INEXACT);
    PyArray_Descr *descr = PyArray_DESCR(of[0]);
    double number[2];
    if (way.loop == NULL) {
        return NULL;
    }
    if (p->ndim == 0) {
        return run_matmul(p, &way, of, (char *)number) ? PyArray_Scalar(number, descr, NULL) : NULL;
    }
    char *place;
    PyObject *made = npa_new_result(descr->type_num, p->ndim, p->shape, &place);
    if (made != NULL && !run_matmul(p, &way, of, place)) {
        Py_CLEAR(made);
    }
    return made;
}

PyObject *npa_matmul_unseen(PyObject *const *args)
{
    PyArrayObject *of[2] = {(PyArrayObject *)args[0], (PyArrayObject *)args[1]};
    npa_product p;
    return are_factors(args, 2) && !npa_asks_underflow() && npa_find_product(&p, of[0], of[1]) &&
                   npa_product_work(&p) <= MOST ? multiply_matrices(&p, of) : NULL;
}
