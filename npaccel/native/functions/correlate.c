/* correlate.c: np.convolve and np.correlate, whose elements are products of rows each: by the same
 * functions as in NumPy, of the same lengths, but on all threads. */
#include "functions/functions.h"

#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

enum { LEAST = 1 << 16, PART = 1 << 15 }; /* multiplications: worth it; of a task, about */
/* Taps that NumPy adds one by one; elements side by side */
enum { SHORT = 11, BLOCK = 64 };
/* taps: fewer are a copy; beyond, OpenBLAS has threads of its own */
enum { FEWEST = 3, MOST = 10000 };

typedef struct {
    const char *x, *taps;
    npy_intp n, ntaps, length, left, size, part; /* left: elements that miss the first taps */
    PyArray_DotFunc *dot;
    int type;
    char *found;
    PyObject *made;
} job;

#define ONE_BY_ONE(T)                                                                              \
    NPA_EACH_PROCESSOR static void one_by_one_##T(const T *x, const T *taps, npy_intp ntaps,       \
                                                  npy_intp n, T *to)                               \
    {                                                                                              \
        for (npy_intp i = 0; i < n; i += BLOCK) {                                                  \
            T sums[BLOCK] = {0};                                                                   \
            npy_intp few = n - i < BLOCK ? n - i : BLOCK;                                          \
            for (npy_intp j = 0; j < ntaps && few == BLOCK; j++) {                                 \
                for (int k = 0; k < BLOCK; k++) {                                                  \
                    sums[k] += x[i + j + k] * taps[j];                                             \
                }                                                                                  \
            }                                                                                      \
            for (npy_intp j = 0; j < ntaps && few < BLOCK; j++) {                                  \
                for (npy_intp k = 0; k < few; k++) {                                               \
                    sums[k] += x[i + j + k] * taps[j];                                             \
                }                                                                                  \
            }                                                                                      \
            memcpy(to + i, sums, sizeof *to * (size_t)few);                                        \
        }                                                                                          \
    }
ONE_BY_ONE(double)
ONE_BY_ONE(float)

static bool is_short(const job *j)
{
    return j->ntaps <= SHORT && (j->type == NPY_DOUBLE || j->type == NPY_FLOAT);
}

/* Those of [first, end) all of whose taps meet an element. */
static void whole_rows(const job *j, npy_intp first, npy_intp end)
{
    const char *x = j->x + (first - j->left) * j->size;
    char *to = j->found + first * j->size;
    if (is_short(j) && j->type == NPY_DOUBLE) {
        one_by_one_double((const double *)x, (const double *)j->taps, j->ntaps, end - first,
                          (double *)to);
    } else if (is_short(j)) {
        one_by_one_float((const float *)x, (const float *)j->taps, j->ntaps, end - first,
                         (float *)to);
    } else {
        for (npy_intp i = first; i < end; i++, x += j->size, to += j->size) {
            j->dot((void *)x, j->size, (void *)j->taps, j->size, to, j->ntaps, j->made);
        }
    }
}

/* Element i, some of whose taps are before the first element, or behind the last one. */
static void cut_row(const job *j, npy_intp i)
{
    npy_intp at = i - j->left, skipped = at < 0 ? -at : 0, first = at + skipped;
    npy_intp taps = j->ntaps - skipped < j->n - first ? j->ntaps - skipped : j->n - first;
    j->dot((void *)(j->x + first * j->size), j->size, (void *)(j->taps + skipped * j->size),
           j->size, j->found + i * j->size, taps, j->made);
}

static void run(void *context, int64_t task, int worker)
{
    const job *j = context;
    npy_intp i = (npy_intp)task * j->part, end = i + j->part < j->length ? i + j->part : j->length;
    npy_intp whole = j->left + j->n - j->ntaps + 1; /* the first one behind those that are whole */
    (void)worker;
    for (; i < end && i < j->left; i++) {
        cut_row(j, i);
    }
    if (i < end && i < whole) {
        npy_intp last = whole < end ? whole : end;
        whole_rows(j, i, last);
        i = last;
    }
    for (; i < end; i++) {
        cut_row(j, i);
    }
}

/* 0 valid, 1 same, 2 full; -1: another, or written otherwise. */
static int mode_of(PyObject *mode)
{
    static const char *const names[] = {"valid", "same", "full"};
    if (PyLong_CheckExact(mode)) {
        int overflow;
        long number = PyLong_AsLongAndOverflow(mode, &overflow);
        return number >= 0 && number <= 2 ? (int)number : -1;
    }
    for (int k = 0; k < 3 && PyUnicode_CheckExact(mode); k++) {
        if (PyUnicode_CompareWithASCIIString(mode, names[k]) == 0) {
            return k;
        }
    }
    return -1;
}

/* That of both, or doubles where the other one casts to them; NPY_NOTYPE: another. */
static int common_type(PyArrayObject *a, PyArrayObject *b)
{
    int x = PyArray_TYPE(a), y = PyArray_TYPE(b);
    bool doubles = (x == NPY_DOUBLE && PyTypeNum_ISNUMBER(y)) ||
                   (y == NPY_DOUBLE && PyTypeNum_ISNUMBER(x));
    return x == y && npa_type_known(x) ? x : doubles ? NPY_DOUBLE : NPY_NOTYPE;
}

static PyObject *correlated(PyArrayObject *x, PyArrayObject *taps, int mode)
{
    PyArray_Descr *descr = PyArray_DESCR(x);
    job j = {.x = PyArray_BYTES(x),
             .taps = PyArray_BYTES(taps),
             .n = PyArray_SIZE(x),
             .ntaps = PyArray_SIZE(taps),
             .size = PyArray_ITEMSIZE(x),
             .type = PyArray_TYPE(x),
             .dot = PyDataType_GetArrFuncs(descr)->dotfunc};
    j.left = mode == 0 ? 0 : mode == 1 ? j.ntaps / 2 : j.ntaps - 1;
    j.length = mode == 0 ? j.n - j.ntaps + 1 : mode == 1 ? j.n : j.n + j.ntaps - 1;
    j.part = PART / j.ntaps + 1;
    j.made = j.dot != NULL ? npa_new_result(j.type, 1, &j.length, &j.found) : NULL;
    if (j.made != NULL) {
        npa_pool_run(run, &j, (j.length + j.part - 1) / j.part, NULL);
    }
    return j.made;
}

static PyObject *correlate(PyObject *const *args, Py_ssize_t n, PyObject *names, bool conjugates)
{
    int mode = n == 3 && names == NULL ? mode_of(args[2]) : -1;
    PyArrayObject *x = n > 1 ? (PyArrayObject *)args[0] : NULL,
                  *taps = n > 1 ? (PyArrayObject *)args[1] : NULL;
    if (mode < 0 || !PyArray_Check(args[0]) || !PyArray_Check(args[1]) || PyArray_NDIM(x) != 1 ||
        PyArray_NDIM(taps) != 1 || PyArray_SIZE(taps) < FEWEST ||
        PyArray_SIZE(taps) > PyArray_SIZE(x) || PyArray_SIZE(taps) > MOST ||
        (double)PyArray_SIZE(x) * (double)PyArray_SIZE(taps) < LEAST) {
        return NULL;
    }
    int type = common_type(x, taps);
    bool possible = type != NPY_NOTYPE && !(conjugates && PyTypeNum_ISCOMPLEX(type));
#if !NPA_NUMPY_AS_WRITTEN
    possible &= PyArray_SIZE(taps) > SHORT; /* others may be fused in NumPy */
#endif
    x = possible ? npa_line_as(args[0], type) : NULL;
    taps = x != NULL ? npa_line_as(args[1], type) : NULL;
    PyObject *made = taps != NULL ? correlated(x, taps, mode) : NULL;
    Py_XDECREF(x);
    Py_XDECREF(taps);
    return made;
}

PyObject *npa_correlate(void *what, PyObject *self, PyObject *const *args, Py_ssize_t n,
                        PyObject *names)
{
    (void)what, (void)self;
    return correlate(args, n, names, false);
}

PyObject *npa_correlate2(void *what, PyObject *self, PyObject *const *args, Py_ssize_t n,
                         PyObject *names)
{
    (void)what, (void)self;
    return correlate(args, n, names, true);
}
