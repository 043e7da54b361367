/* small_scattered.c: folds of all of a part of an array whose axes cannot be joined, as a window of
 * an image: NumPy's iterator copies it together first, where that is proved. Done here it takes a
 * third of the time. */
#include "small/small.h"
#include "small/ways.h"

enum { MOST_PROVED = 90 * 91 }; /* elements; NumPy's buffer has 8192 */

/* Whether the axes lie one in the other in C order, with gaps. */
static bool has_gaps(PyArrayObject *a)
{
    npy_intp before = NPY_MAX_INTP;
    for (int i = 0; i < PyArray_NDIM(a); i++) {
        npy_intp step = PyArray_STRIDE(a, i);
        if (PyArray_DIM(a, i) > 1) {
            if (step <= 0 || step >= before) {
                return false;
            }
            before = step;
        }
    }
    return !PyArray_IS_C_CONTIGUOUS(a);
}

static PyArrayObject *together(PyArrayObject *a)
{
    PyArrayObject *made = npa_small_new(PyArray_DESCR(a), PyArray_NDIM(a), PyArray_DIMS(a));
    if (made != NULL) {
        npa_small_gather(a, PyArray_DATA(made));
    }
    return made;
}

/* So many rows and columns of numbers whose sum hangs on the order, within a larger matrix. */
static PyArrayObject *window(npy_intp rows, npy_intp columns)
{
    npy_intp whole[2] = {rows + 2, columns + 3}, shape[2] = {rows, columns};
    PyArrayObject *a = (PyArrayObject *)PyArray_SimpleNew(2, whole, NPY_DOUBLE);
    if (a == NULL) {
        return NULL;
    }
    double *v = PyArray_DATA(a);
    for (npy_intp k = 0; k < whole[0] * whole[1]; k++) {
        v[k] = (k % 3 ? 1.0 : -1e3) / (double)(1 + k * 37 % 1009);
    }
    PyObject *part = npa_view_over(a, &PyArray_Type, PyArray_DESCR(a), 2, shape, PyArray_STRIDES(a),
                                   PyArray_BYTES(a) + PyArray_STRIDE(a, 0) + 16, PyArray_FLAGS(a));
    Py_DECREF(a);
    return (PyArrayObject *)part;
}

static double sum_by_rows(PyArrayObject *a)
{
    const npa_small_how by_row = {.op = NPA_SUM, .axes = 2};
    PyObject *sums = npa_small_fold(a, &by_row);
    double sum = 0;
    for (npy_intp i = 0; sums != NULL && i < PyArray_DIM(a, 0); i++) {
        sum += ((double *)PyArray_DATA((PyArrayObject *)sums))[i];
    }
    Py_XDECREF(sums);
    return sum;
}

/* Whether NumPy's sum of a window is that of its copy, and not that of its rows' sums. */
static bool is_proof(PyObject *add, PyArrayObject *a)
{
    const npa_small_how whole = {.op = NPA_SUM, .axes = 3};
    PyArrayObject *copy = together(a);
    PyObject *ours = copy != NULL ? npa_small_fold(copy, &whole) : NULL;
    npa_suspended++;
    PyObject *numpys = PyObject_CallMethod(add, "reduce", "OO", a, Py_None);
    npa_suspended--;
    bool proof = ours != NULL && numpys != NULL && PyFloat_Check(ours) && PyFloat_Check(numpys) &&
                 PyFloat_AS_DOUBLE(ours) == PyFloat_AS_DOUBLE(numpys) &&
                 PyFloat_AS_DOUBLE(ours) != sum_by_rows(a);
    PyErr_Clear();
    Py_XDECREF(copy), Py_XDECREF(ours), Py_XDECREF(numpys);
    return proof;
}

static bool prove(PyObject *add)
{
    static const npy_intp sizes[][2] = {{7, 9}, {12, 12}, {40, 30}, {90, 91}};
    bool proved = add != NULL;
    for (size_t i = 0; proved && i < sizeof sizes / sizeof *sizes; i++) {
        PyArrayObject *a = window(sizes[i][0], sizes[i][1]);
        proved = a != NULL && is_proof(add, a);
        Py_XDECREF(a);
    }
    PyErr_Clear();
    return proved;
}

PyArrayObject *npa_small_gathered(PyArrayObject *a, PyObject *add)
{
    static int proved = -1; /* once a process, where nothing that it takes is large */
    if (!npa_small_type(PyArray_DESCR(a)) || !PyArray_ISALIGNED(a) || !has_gaps(a)) {
        return NULL;
    }
    if (proved < 0 && npa_small_is_large(MOST_PROVED * sizeof(npy_cdouble))) {
        return NULL;
    }
    if (proved < 0) {
        proved = 0; /* what is asked meanwhile is NumPy's */
        proved = prove(add);
    }
    return proved ? together(a) : NULL;
}
