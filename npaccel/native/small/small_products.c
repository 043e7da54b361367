/* small_products.c: products of small vectors and matrices, by the functions that NumPy calls for
 * them. */
#include "small/small.h"
#include "small/ways.h"
#include <string.h>

/* Whether it is a vector of more than one element, which NumPy takes for a number. */
static bool is_vector(PyArrayObject *a)
{
    npy_intp item = PyArray_ITEMSIZE(a);
    return PyArray_NDIM(a) == 1 && PyArray_DIM(a, 0) > 1 && npa_small_type(PyArray_DESCR(a)) &&
           PyArray_ISALIGNED(a) && PyArray_STRIDE(a, 0) != 0 &&
           PyArray_STRIDE(a, 0) % item == 0 && !(npa_waiting() && npa_is_pending(a));
}

/* The product of two vectors of one type, by the function that NumPy calls for it, perhaps
 * BLAS's. */
bool npa_multiply_vectors(PyArrayObject *a, PyArrayObject *b, void *to)
{
    if (!is_vector(a) || !is_vector(b) || PyArray_DIM(a, 0) != PyArray_DIM(b, 0) ||
        !npa_same_dtype(PyArray_DESCR(a), PyArray_DESCR(b))) {
        return false;
    }
    if (PyArray_ISINTEGER(a)) {
        const npy_intp extents[3] = {1, PyArray_DIM(a, 0), 1}, steps[3] = {0};
        const npy_intp core[6] = {0, PyArray_STRIDE(a, 0), PyArray_STRIDE(b, 0)};
        char *args[3] = {PyArray_DATA(a), PyArray_DATA(b), to};
        npa_multiply_integers((int)PyArray_ITEMSIZE(a), args, 1, extents, steps, core);
        return true;
    }
    PyArray_DotFunc *dot = PyDataType_GetArrFuncs(PyArray_DESCR(a))->dotfunc;
    if (dot == NULL) {
        return false;
    }
    npa_clear_errors();
    dot(PyArray_DATA(a), PyArray_STRIDE(a, 0), PyArray_DATA(b), PyArray_STRIDE(b, 0), to,
        PyArray_DIM(a, 0), NULL);
    return !npa_seen_errors();
}

/* ------------------------------------------------------------------------------------- matrices */

typedef npa_product product;
enum { COUNT, ROWS, TERMS, COLUMNS }; /* of extents */

PyUFuncObject *npa_matmul;

static bool can_multiply(PyArrayObject *a)
{
    return npa_small_type(PyArray_DESCR(a)) && PyArray_ISALIGNED(a) && PyArray_NDIM(a) >= 1 &&
           PyArray_NDIM(a) <= 3 && PyArray_SIZE(a) > 0;
}

static bool is_here(PyArrayObject *a)
{
    return !npa_small_is_large((size_t)PyArray_NBYTES(a)) && !(npa_waiting() && npa_is_pending(a));
}

/* A vector is one row where it comes first, and one column where it comes last. */
static bool find_operand(product *p, int k, PyArrayObject *a)
{
    int ndim = PyArray_NDIM(a), rows = k == 0 ? ROWS : TERMS;
    npy_intp extents[2], *steps = p->steps + 3 + 2 * k, count = 1;
    for (int i = 0; i < 2; i++) {
        bool missing = ndim == 1 && i == k;
        int axis = ndim == 1 ? 0 : ndim - 2 + i;
        extents[i] = missing ? 1 : PyArray_DIM(a, axis);
        steps[i] = extents[i] != 1 ? PyArray_STRIDE(a, axis) : 0;
    }
    if (ndim == 3) {
        count = PyArray_DIM(a, 0);
        p->steps[k] = count != 1 ? PyArray_STRIDE(a, 0) : 0;
    }
    bool fits = (k == 0 || p->extents[TERMS] == extents[0]) &&
                (p->extents[COUNT] == 1 || count == 1 || p->extents[COUNT] == count);
    p->extents[COUNT] = count != 1 ? count : p->extents[COUNT];
    p->extents[rows] = extents[0], p->extents[rows + 1] = extents[1];
    p->args[k] = PyArray_DATA(a);
    return fits;
}

/* The result's shape: without the axis that a vector lacks. */
static void find_shape(product *p, const PyArrayObject *a, const PyArrayObject *b)
{
    if (PyArray_NDIM(a) == 3 || PyArray_NDIM(b) == 3) {
        p->shape[p->ndim++] = p->extents[COUNT];
    }
    if (PyArray_NDIM(a) > 1) {
        p->shape[p->ndim++] = p->extents[ROWS];
    }
    if (PyArray_NDIM(b) > 1) {
        p->shape[p->ndim++] = p->extents[COLUMNS];
    }
}

bool npa_find_product(product *p, PyArrayObject *a, PyArrayObject *b)
{
    *p = (product){.extents = {1}};
    if (npa_matmul == NULL || !npa_same_dtype(PyArray_DESCR(a), PyArray_DESCR(b)) ||
        !can_multiply(a) || !can_multiply(b) || !find_operand(p, 0, a) || !find_operand(p, 1, b)) {
        return false;
    }
    find_shape(p, a, b);
    return true;
}

/* Products of numbers that take as long as handing over the lock, or waking threads */
enum { WORTH = 1 << 15 };

npy_intp npa_product_work(const product *p)
{
    return p->extents[COUNT] * p->extents[ROWS] * p->extents[TERMS] * p->extents[COLUMNS];
}

void npa_run_product(product *p, const npa_way *w, PyArray_Descr *descr, char *to)
{
    int type = descr->type_num;
    npy_intp size = PyDataType_ELSIZE(descr);
    p->args[2] = to;
    p->steps[2] = p->extents[COUNT] != 1 ? p->extents[ROWS] * p->extents[COLUMNS] * size : 0;
    p->steps[7] = p->extents[ROWS] != 1 ? p->extents[COLUMNS] * size : 0;
    p->steps[8] = p->extents[COLUMNS] != 1 ? size : 0;
    npa_clear_errors();
    if (npa_small_product(npa_matmul, type, p->extents + 1)) {
        npa_multiply_small(type, p->args, p->extents[COUNT], p->extents + 1, p->steps,
                           p->steps + 3);
    } else if (PyTypeNum_ISINTEGER(type)) {
        npa_multiply_integers((int)size, p->args, p->extents[COUNT], p->extents + 1, p->steps,
                              p->steps + 3);
    } else {
        w->loop(p->args, p->extents, p->steps, w->data);
    }
}

static PyObject *multiply_matrices(PyArrayObject *a, PyArrayObject *b)
{
    product p;
    if (!is_here(a) || !is_here(b) || !npa_find_product(&p, a, b) ||
        (p.extents[COUNT] > 1 && npa_product_work(&p) > WORTH)) {
        return NULL; /* many are multiplied on all threads, see rows.c */
    }
    /* Another thread may have its place for another way */
    const npa_way way = *npa_find_way(npa_matmul, PyArray_TYPE(a), NPA_INEXACT);
    size_t bytes =
        (size_t)(p.extents[COUNT] * p.extents[ROWS] * p.extents[COLUMNS] * PyArray_ITEMSIZE(a));
    PyArrayObject *made = way.loop != NULL && p.ndim > 0 && !npa_small_is_large(bytes)
                              ? npa_small_new(PyArray_DESCR(a), p.ndim, p.shape)
                              : NULL;
    if (made == NULL) {
        return NULL;
    }
    bool alone = npa_product_work(&p) <= WORTH || npa_alone();
    PyThreadState *mine = alone ? NULL : PyEval_SaveThread();
    npa_run_product(&p, &way, PyArray_DESCR(a), PyArray_DATA(made));
    if (mine != NULL) {
        PyEval_RestoreThread(mine);
    }
    if (npa_seen_errors()) {
        Py_CLEAR(made);
    }
    return (PyObject *)made;
}

PyObject *npa_small_matmul(PyObject *a, PyObject *b)
{
    double number[2]; /* of the widest type */
    if (!npa_is_plain(a) || !npa_is_plain(b) || npa_here != NULL) {
        return NULL;
    }
    PyArrayObject *x = (PyArrayObject *)a, *y = (PyArrayObject *)b;
    if (PyArray_NDIM(x) != 1 || PyArray_NDIM(y) != 1) {
        return multiply_matrices(x, y);
    }
    bool real = PyArray_TYPE(x) == NPY_DOUBLE || PyArray_TYPE(x) == NPY_FLOAT;
    return (real || PyArray_ISINTEGER(x)) && !npa_small_is_large((size_t)PyArray_NBYTES(x)) &&
                   npa_multiply_vectors(x, y, number)
               ? PyArray_Scalar(number, PyArray_DESCR(x), NULL) : NULL;
}

void npa_small_product_ufunc(PyUFuncObject *u)
{
    npa_matmul = strcmp(u->name, "matmul") == 0 ? u : npa_matmul;
}
