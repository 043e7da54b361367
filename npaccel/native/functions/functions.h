/* functions.h: NumPy's functions on large arrays by loops of our own, at once and on all threads.
 *
 * Knows arrays that are opened. Must not know how NumPy's callables were redirected. */
#ifndef NPA_FUNCTIONS_H
#define NPA_FUNCTIONS_H

#include "small/small.h"

/* ------------------------------------------------------------------------------------- gather.c */

/* a[i, j], by a tuple of many integers for the first axes. NULL, perhaps with an error: NumPy's to
 * do. */
PyObject *npa_gather(PyObject *a, PyObject *key);

/* columns.c: a[whole, i], of a matrix by a line of integers; likewise. */
PyObject *npa_gather_columns(PyArrayObject *a, PyObject *whole, PyObject *i);

/* ------------------------------------------------------------------------------------ scatter.c */

/* target[key] = value, by integers: 1 done, 0 NumPy should do it, -1 error. */
int npa_scatter(PyArrayObject *target, PyObject *key, PyObject *value);
/* ufunc.at of elements; as npa_scatter. */
int npa_at_elements(PyUFuncObject *u, PyObject *const *args);
npa_own npa_put_flat;

/* ----------------------------------------------------------------------------------------- at.c */

/* u.at(*args), of three, where that is the common case. False: NumPy's to do, nothing was
 * written. */
bool npa_at_rows(PyUFuncObject *u, npa_exactness how, PyObject *const *args);
/* u.reduceat(*args), stretches on all threads. NULL, perhaps with an error: NumPy's to do. */
PyObject *npa_reduceat(PyUFuncObject *u, npa_exactness how, PyObject *const *args, Py_ssize_t n,
                       PyObject *names);

/* --------------------------------------------------------------------------------------- rows.c */

/* A generalised ufunc on many rows. NULL, perhaps with an error: NumPy's to do. */
PyObject *npa_rows(PyUFuncObject *u, PyObject *const *args, Py_ssize_t n, PyObject *names);
/* integer_products.c: np.dot(a, b), a.dot(b) of matrices or vectors of integers, which is their
 * matmul */
npa_own npa_dot_integers;
PyObject *npa_rows_forget(PyObject *module, PyObject *nothing); /* how long they took; for tests */

/* --------------------------------------------------------------------------------------- blas.c */

npa_own npa_dot, npa_inner, npa_vdot;
/* a @ b, some of which wait or were seen by nobody. NULL, perhaps without error: NumPy's to do. */
PyObject *npa_matmul_unseen(PyObject *const *args);

/* ------------------------------------------------------------------------------------- search.c */

npa_own npa_interp, npa_search;
/* Numbers that wait for nothing as an array of that type in C order, if NumPy casts them to it by
 * itself: an array's, or a list's. NULL, without an error: they are others. */
PyArrayObject *npa_line_as(PyObject *o, int type);
/* A sorted table of doubles in buckets of equal width, so that a search begins next to where it
 * ends: whatever rounding does, of two numbers the greater one is in no bucket before the
 * other's. */
typedef struct {
    double *places; /* the table, and two infinities; NULL: there are no buckets */
    int32_t *first; /* of each bucket: how many are in those before it */
    npy_intp length;
    double low, high, scale;
} npa_buckets;
/* Of a table of any numbers; free(places) ends it. False: there are none. n: numbers that are
 * looked for. */
bool npa_make_buckets(npa_buckets *t, int type, const void *table, npy_intp length, npy_intp n);
/* How many of the table are less than each, or not greater. NaN: all. */
void npa_find_in_buckets(const npa_buckets *t, const double *x, npy_intp n, bool right,
                         npy_intp *at);

/* --------------------------------------------------------------------------------------- sort.c */

npa_own npa_sort;

/* -------------------------------------------------------------------------------------- order.c */

npa_own npa_argsort, npa_lexsort;

/* -------------------------------------------------------------------------------------- parts.c */

/* what: NumPy's function */
npa_own npa_sort_parts, npa_argsort_parts, npa_partition_parts, npa_argpartition_parts;

/* -------------------------------------------------------------------------------------- draws.c */

npa_own npa_draws;
/* `what` npa_draws is given for "Generator.normal", say; NULL: nothing */
void *npa_draws_method(const char *name);
/* How many parameters stand before the one that says how many. */
Py_ssize_t npa_draws_before_size(const void *what);

/* ------------------------------------------------------------------------------------ shuffle.c */

npa_own npa_shuffle, npa_random_bytes;

/* --------------------------------------------------------------------------------------- bins.c */

npa_own npa_bincount;

/* ---------------------------------------------------------------------------------- histogram.c */

npa_recorder npa_histogram; /* not recorded, but done */

/* ---------------------------------------------------------------------------------- correlate.c */

npa_own npa_correlate, npa_correlate2;

/* -------------------------------------------------------------------------------------- boxes.c */

npa_recorder npa_record_roll, npa_record_repeat, npa_record_tile, npa_record_concatenate;
/* Of what `repeat`, `tile` give; 0: not known */
size_t npa_repeated_bytes(PyObject *const *args, Py_ssize_t n);
/* Whether its axes lie in memory as those of an array in C order do; NumPy chooses other orders
 * itself. */
bool npa_in_c_order(PyArrayObject *a);

/* -------------------------------------------------------------------------------------- where.c */

npa_recorder npa_record_where;

/* --------------------------------------------------------------------------------- empty_like.c */

npa_recorder npa_record_empty_like; /* not recorded, but made */
npa_recorder npa_broadcast; /* likewise */
/* In C order; from the size on that deferring is worth. NULL, perhaps without error: another way */
PyObject *npa_new_of_shape(PyArray_Descr *d, PyObject *shape);

/* ---------------------------------------------------------------------------------------- pad.c */

npa_recorder npa_record_pad;

#endif
