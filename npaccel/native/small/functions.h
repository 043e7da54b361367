/* functions.h: one of NumPy's functions, as it is done on small arrays. See small_functions.c. */
#ifndef NPA_SMALL_FUNCTIONS_H
#define NPA_SMALL_FUNCTIONS_H

#include "small/small.h"

struct npa_small_function {
    const char *name;
    PyObject *(*run)(const npa_small_function *f, PyObject *const *args, Py_ssize_t n,
                     PyObject *names);
    int what;
    /* Of a fold: what may follow the array, how much of it in place; whether it is one of NumPy's
     * Python functions, to which np._NoValue is nothing. */
    const int8_t *words;
    int in_place;
    bool python;
    bool exact; /* whoever computes it, in whatever order: the same bits */
};
typedef npa_small_function function;
enum { END, AXIS, DTYPE, OUT, KEEPDIMS, INITIAL, WHERE, DDOF, CASTING, ORDER, WORDS };
enum { CLIP, LOWER, UPPER, DIFFERENCE, UNEQUAL, PRODUCT, EQUAL, UFUNCS };
enum { EMPTY, ZEROS };
enum { CONCATENATE, STACK, VSTACK, HSTACK };
enum { COPIED, FLAT, ALIKE };
enum { ASSIGNED, SCALAR };
enum { DOT, VDOT, INNER };
enum { INVERSE, DETERMINANT };
enum { EACH_NEAR, ALL_NEAR };
enum { PERCENTILE, QUANTILE };
enum { LOWER_PART, UPPER_PART };
enum { FFT, IFFT, RFFT, IRFFT };

/* ---------------------------------------------------------------------------- small_functions.c */

extern PyObject *npa_small_words[WORDS];
/* Whether results are made of it as they are of a plain array in C order. */
bool npa_small_usual(PyObject *o);
/* Whether what a call names asks for nothing: C order, and None for `other`. */
bool npa_small_names_nothing(PyObject *const *named, PyObject *names, const char *other);
bool npa_small_doubles(PyObject *o); /* usual ones */
PyArrayObject *npa_small_alike(PyArrayObject *a);

/* --------------------------------------------------------------------------------- small_made.c */

PyObject *npa_small_zeros(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names);
PyObject *npa_small_ones(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names);
PyObject *npa_small_full(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names);
PyObject *npa_small_uninitialized(const function *f, PyObject *const *args, Py_ssize_t n,
                                  PyObject *names);
PyObject *npa_small_copy(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names);
/* a.astype(type), of real numbers: what can't be converted is told by NumPy */
PyObject *npa_small_cast(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names);
/* a.reshape(...) */
PyObject *npa_small_reshape(const function *f, PyObject *const *args, Py_ssize_t n,
                            PyObject *names);
/* a.ravel() */
PyObject *npa_small_ravel(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names);
/* The type that `zeros` or `empty` is told behind a shape; -1: one that is NumPy's to look up, or
 * another order. */
int npa_small_type_of_new(PyObject *const *args, Py_ssize_t n, PyObject *names);
/* zeros(shape), empty(shape) */
PyObject *npa_small_made(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names);
PyObject *npa_small_filled(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names);
PyObject *npa_small_range(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names);

/* -------------------------------------------------------------------------------- small_pairs.c */

/* where(mask, x, y) with arrays of one shape and type, and numbers */
PyObject *npa_small_where(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names);
/* clip(a, low, high), either of which may be None */
PyObject *npa_small_clip(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names);
/* small_numbers.c */
PyObject *npa_small_round(const function *f, PyObject *const *args, Py_ssize_t n,
                          PyObject *names);
/* a[1:] - a[:-1] along an axis, the last one if none is given */
PyObject *npa_small_diff(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names);
/* outer(a, b) of vectors */
PyObject *npa_small_outer(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names);
/* array_equal(a, b) of arrays of one type and shape */
PyObject *npa_small_equal(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names);
/* dot(a, b); inner(a, b) of vectors; vdot(a, b) of real ones in C order */
PyObject *npa_small_dot(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names);
/* norm(a), norm(a, axis) of floats */
PyObject *npa_small_norm(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names);
PyObject *npa_small_join(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names);

/* ------------------------------------------------------------------------------- small_rolled.c */

/* roll(a, shift, axis); without an axis a view of a new row, as NumPy's is */
PyObject *npa_small_roll(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names);

/* ------------------------------------------------------------------------------- small_sorted.c */

PyObject *npa_small_sort(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names);
PyObject *npa_small_argsort(const function *f, PyObject *const *args, Py_ssize_t n,
                            PyObject *names);
PyObject *npa_small_search(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names);
PyObject *npa_small_nonzero(const function *f, PyObject *const *args, Py_ssize_t n,
                            PyObject *names);
PyObject *npa_small_repeat(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names);

/* ----------------------------------------------------------------------------- small_composed.c */

PyObject *npa_small_cross(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names);
/* isclose, allclose */
PyObject *npa_small_near(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names);
PyObject *npa_small_append(const function *f, PyObject *const *args, Py_ssize_t n,
                           PyObject *names);
PyObject *npa_small_gradient(const function *f, PyObject *const *args, Py_ssize_t n,
                             PyObject *names);

/* ----------------------------------------------------------------------------- small_matrices.c */

/* A generalised ufunc of a module that is loaded; `name` lives for ever. NULL: there is none */
const PyUFuncObject *npa_numpys_gufunc(const char *module, const char *name);
/* The number of its loop for these types, one for each operand; -1: none */
int npa_gufunc_loop(const PyUFuncObject *u, const char *types);
PyObject *npa_small_solve(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names);
/* inv(a), det(a) */
PyObject *npa_small_matrix(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names);

/* -------------------------------------------------------------------------------- small_lists.c */

/* array(a), array(list) */
PyObject *npa_small_array(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names);
/* asarray(list) */
PyObject *npa_small_listed(const function *f, PyObject *const *args, Py_ssize_t n,
                           PyObject *names);

/* ------------------------------------------------------------------------------- small_counts.c */

PyObject *npa_small_count(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names);
PyObject *npa_small_bincount(const function *f, PyObject *const *args, Py_ssize_t n,
                             PyObject *names);

/* --------------------------------------------------------------------------- small_transforms.c */

/* fft(a, n=None, axis=-1) and the like */
PyObject *npa_small_transform(const function *f, PyObject *const *args, Py_ssize_t n,
                              PyObject *names);

/* -------------------------------------------------------------------------------- small_picks.c */

/* take(indices, axis=None, out=None, mode="raise") of a line, or along the first axis */
PyObject *npa_small_take(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names);

/* ---------------------------------------------------------------------------- small_quantiles.c */

PyObject *npa_small_median(const function *f, PyObject *const *args, Py_ssize_t n,
                           PyObject *names);
PyObject *npa_small_quantile(const function *f, PyObject *const *args, Py_ssize_t n,
                             PyObject *names);
PyObject *npa_small_partition(const function *f, PyObject *const *args, Py_ssize_t n,
                              PyObject *names);
PyObject *npa_small_convolve(const function *f, PyObject *const *args, Py_ssize_t n,
                             PyObject *names);

/* ---------------------------------------------------------------------------- small_triangles.c */

PyObject *npa_small_diag(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names);
PyObject *npa_small_triangle(const function *f, PyObject *const *args, Py_ssize_t n,
                             PyObject *names);

#endif
