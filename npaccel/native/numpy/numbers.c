/* numbers.c: folds of all of an array to one number, where the array waits or nobody has looked at
 * it: neither is shown. To show a result, and to hide it when it is read or written next, takes
 * longer than NumPy's loop does on some hundred thousand numbers. */
#include "numpy/numpy.h"
#include "numpy/redirect.h"
#include "small/ways.h"

#include <string.h>

PyObject *npa_number_of(PyArrayObject *recorded)
{
    npa_opened o;
    double number[2];
    if (npa_open(&o, &recorded, 1, 0) < 0) {
        return NULL;
    }
    memcpy(number, o.at[0], (size_t)PyArray_ITEMSIZE(recorded));
    npa_close(&o);
    return PyArray_Scalar(number, PyArray_DESCR(recorded), NULL);
}

/* --------------------------------------------------------------------- where they lie, by NumPy */

/* Whether it is computed, and nobody has looked at it. */
static bool is_unseen(PyArrayObject *a)
{
    npa_buffer *b = npa_buffer_of(a);
    return b != NULL && !npa_waits(a) && npa_range_is_hidden(b->range);
}

/* Whether NumPy folds it by one call of a loop, which can be given another address. */
static bool lies_simply(PyArrayObject *a)
{
    npa_value value = {.array = a};
    return npa_here == NULL && npa_placeholders == 0 && !npa_check_mode && !npa_copies_exist() &&
           PyArray_IS_C_CONTIGUOUS(a) && PyArray_NDIM(a) > 0 && PyArray_SIZE(a) > 0 &&
           PyArray_ISALIGNED(a) && npa_dtype_known(PyArray_DESCR(a)) &&
           !npa_section_block_wants(&value, 1);
}

PyObject *npa_hidden_extreme(PyObject *ufunc, PyArrayObject *a)
{
    bool extreme = ufunc == npa_small_folder(NPA_MAX) || ufunc == npa_small_folder(NPA_MIN);
    int size = (int)PyArray_ITEMSIZE(a);
    npy_intp count = PyArray_SIZE(a) - 1, steps[3] = {0, size, 0};
    const npa_way *w = extreme && is_unseen(a) && lies_simply(a)
                           ? npa_find_way((PyUFuncObject *)ufunc, PyArray_TYPE(a), NPA_EXACT)
                           : NULL;
    double number[2];
    npa_opened o;
    if (w == NULL || w->loop == NULL || w->in != w->out || npa_open(&o, &a, 1, 0) < 0) {
        return NULL;
    }
    char *args[3] = {(char *)number, o.at[0] + size, (char *)number};
    PyThreadState *mine = PyEval_SaveThread();
    memcpy(number, o.at[0], (size_t)size);
    npa_clear_errors();
    w->loop(args, &count, steps, w->data);
    bool told = npa_seen_errors();
    npa_close(&o); /* nobody waits for the GIL with the lock */
    PyEval_RestoreThread(mine);
    return told ? NULL : PyArray_Scalar(number, PyArray_DESCR(a), NULL);
}

/* Where the largest or the smallest of all is. What waits is run first, unless it is so large that
 * to read it twice takes longer than a kernel that does both. */
static PyObject *find_place(PyArray_ArgFunc *find, PyArrayObject *a)
{
    enum { LARGEST = 32 << 20, LARGEST_THAT_WAITS = 1 << 20 };
    npy_intp found = -1;
    npa_opened o;
    bool waits = npa_waits(a);
    if (find == NULL || !(waits || is_unseen(a)) || !lies_simply(a) ||
        PyArray_NBYTES(a) > (waits ? LARGEST_THAT_WAITS : LARGEST) ||
        npa_open(&o, &a, 1, 0) < 0) {
        return NULL;
    }
    PyThreadState *mine = PyEval_SaveThread();
    find(o.at[0], PyArray_SIZE(a), &found, a);
    npa_close(&o); /* nobody waits for the GIL with the lock */
    PyEval_RestoreThread(mine);
    return PyArray_Scalar(&found, npa_small_dtype(NPY_INTP), NULL);
}

/* The same of a method that is told nothing but None. */
static PyObject *find_of_all(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names,
                             bool largest)
{
    static const char *const known[] = {"axis", "out"};
    PyObject *given[] = {Py_None, Py_None};
    PyArrayObject *a = (PyArrayObject *)self;
    if (!ours(self) || npa_suspended || !npa_dtype_known(PyArray_DESCR(a)) ||
        !npa_read_call(args, n, names, known, 2, given) || given[0] != Py_None ||
        given[1] != Py_None) {
        return NULL;
    }
    PyArray_ArrFuncs *functions = PyDataType_GetArrFuncs(PyArray_DESCR(a));
    return find_place(largest ? functions->argmax : functions->argmin, a);
}

PyObject *npa_argmax_behind(void *what, PyObject *self, PyObject *const *args, Py_ssize_t n,
                            PyObject *names)
{
    (void)what;
    return find_of_all(self, args, n, names, true);
}

PyObject *npa_argmin_behind(void *what, PyObject *self, PyObject *const *args, Py_ssize_t n,
                            PyObject *names)
{
    (void)what;
    return find_of_all(self, args, n, names, false);
}

/* -------------------------------------------------------------------------------------- methods */

/* What a fold is told, by its place or by name: where to fold, and whether to keep the axes; false:
 * something else is said, too. */
static bool read_plain(PyObject *const *args, Py_ssize_t n, PyObject *names, PyObject **axis,
                       PyObject **keep)
{
    static const char *const known[] = {"a", "axis", "keepdims"};
    PyObject *given[] = {NULL, Py_None, Py_False};
    bool plain = (n == 1 || n == 2) && npa_read_call(args, n, names, known, 3, given);
    *axis = given[1], *keep = given[2];
    return plain;
}

PyObject *npa_record_count(void *what, PyObject *self, PyObject *const *args, Py_ssize_t n,
                           PyObject *names)
{
    (void)what, (void)self;
    if (n != 1 || names != NULL || !ours(args[0]) || npa_suspended ||
        !PyArray_ISBOOL((PyArrayObject *)args[0]) || !npa_waits((PyArrayObject *)args[0])) {
        return NULL;
    }
    PyObject *integer = (PyObject *)npa_small_dtype(NPY_INTP), *total = NULL;
    PyObject *given[] = {args[0], Py_None, integer, Py_None, Py_False};
    PyObject *add = npa_small_folder(NPA_SUM);
    int status = add != NULL ? npa_reduce(add, given, 5, NULL, &total) : -1;
    PyObject *count = status > 0 ? npa_as_count(total) : NULL;
    if (status > 0) {
        Py_DECREF(total);
    }
    return count;
}

/* Whether the mean is the sum over a number. */
static bool is_quotient(PyArrayObject *a, PyObject *axis, PyObject *keep)
{
    return axis == Py_None && keep == Py_False && PyArray_TYPE(a) == NPY_DOUBLE &&
           PyArray_SIZE(a) > 0 && !npa_asks_underflow();
}

int npa_fold_recorded(const npa_small_function *f, PyObject *const *args, Py_ssize_t n,
                      PyObject *names, PyObject **result)
{
    Py_ssize_t out_place;
    PyObject *axis, *keep;
    if (!npa_small_folds_once(f) || n < 1 || !ours(args[0]) || npa_suspended ||
        !npa_waits((PyArrayObject *)args[0]) || !read_plain(args, n, names, &axis, &keep)) {
        return 0;
    }
    PyArrayObject *a = (PyArrayObject *)args[0];
    npa_small_op op = npa_small_fold_of(f, &out_place);
    bool truth = op == NPA_ANY || op == NPA_ALL, mean = op == NPA_MEAN;
    PyObject *dtype = truth ? (PyObject *)&PyBool_Type : Py_None;
    PyObject *given[] = {args[0], axis, dtype, Py_None, keep};
    if (mean && !is_quotient(a, axis, keep)) {
        return 0;
    }
    npy_intp size = PyArray_SIZE(a); /* its memory may go with this, its last use */
    PyObject *ufunc = npa_small_folder(op);
    int status = ufunc != NULL ? npa_reduce(ufunc, given, 5, NULL, result) : -1;
    if (status > 0 && mean) {
        *result = npa_mean_of(*result, size);
        status = *result != NULL ? 1 : -1;
    }
    return status;
}
