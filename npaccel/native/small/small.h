/* small.h: calls on small plain arrays, by NumPy's inner loops, without what it does around them.
 *
 * Knows loops, and memory of arrays that have died. Must not know NumPy's slots, or functions on
 * large arrays. */
#ifndef NPA_SMALL_H
#define NPA_SMALL_H

#include "record/record.h"

enum { NPA_SMALL_DIMS = NPA_SHELL_DIMS };

/* Whether results have the same bits, whoever computes them; of operators it is told. */
/* foreign: not NumPy's */
typedef enum { NPA_INEXACT, NPA_EXACT_IF_REAL, NPA_EXACT, NPA_FOREIGN } npa_exactness;

/* -------------------------------------------------------------------------------------- small.c */

/* u(*args), where no array is large. NULL, perhaps without error: NumPy's to do */
PyObject *npa_small_call(PyUFuncObject *u, PyObject *const *args, Py_ssize_t n, npa_exactness how);
/* The same, of arrays of ours too, which nothing waits for; makes: the result is one */
PyObject *npa_small_call_ours(PyUFuncObject *u, PyObject *const *args, Py_ssize_t n,
                              npa_exactness how, bool makes);
/* small_numbers.c: u(*args) where the first one is a number. NULL, perhaps without error: it is
 * another call. */
PyObject *npa_small_numbers(PyUFuncObject *u, PyObject *const *args, Py_ssize_t n,
                            npa_exactness how);
/* A number as what NumPy makes of it where it takes it for an array. NULL, perhaps without error:
 * it is none that NumPy has an own type for */
PyObject *npa_small_strong(PyObject *o);
/* The operator that NumPy's slot calls this for, after it was tried */
extern PyUFuncObject *npa_small_refused;
/* Perhaps one that ndarray's slots stand for */
void npa_small_operator(PyUFuncObject *u, npa_exactness how);
void npa_small_install(bool on); /* ndarray's slots; restores them */

/* ------------------------------------------------------------------------------- small_memory.c */

void npa_small_memory_init(void); /* there is the class of arrays of ours */

/* -------------------------------------------------------------------------------- small_views.c */

/* a[key]. NULL, perhaps without error: NumPy's to do */
PyObject *npa_small_get(PyObject *a, PyObject *key);
/* Whether a[key] = value changes nothing, as after a[key] += ... */
bool npa_puts_itself(PyArrayObject *a, PyObject *key, PyArrayObject *value);
/* The part of an array that a basic key picks. False: no such key, no such part, or one without
 * elements or axes. */
typedef struct {
    int ndim;
    char *data;
    npy_intp shape[NPA_SMALL_DIMS], strides[NPA_SMALL_DIMS];
} npa_basic_part;
bool npa_find_part(PyArrayObject *a, PyObject *key, npa_basic_part *p);
/* It as an array of ours, or a plain one. NULL, perhaps without error: NumPy's to make */
PyObject *npa_part_view(PyArrayObject *a, const npa_basic_part *p, bool ours);
bool npa_small_put(PyObject *a, PyObject *key, PyObject *value); /* false: NumPy's to do */
/* Of arrays of any size, where one is meant */
PyObject *npa_small_element(PyObject *a, PyObject *key);
bool npa_small_put_element(PyObject *a, PyObject *key, PyObject *value);
/* a[i, j] and a[i, j] = value at few places, an integer array or a list per axis, or of rows */
enum { NPA_MOST_PLACES = 1024 };
PyObject *npa_small_pick_places(PyObject *a, PyObject *key);
bool npa_small_put_places(PyObject *a, PyObject *key, PyObject *value);
/* The same of arrays of any size, where they lie, after what waits for it. NULL, perhaps without
 * error: others' to do; 1 done, 0 others' to do, -1 error. */
PyObject *npa_pick_places(PyArrayObject *a, PyObject *key);
int npa_put_places(PyArrayObject *a, PyObject *key, PyObject *value);

/* ---------------------------------------------------------------------------- small_functions.c */

/* NumPy's functions where no array is large. Results are NULL, perhaps without error, where
 * NumPy must. */
typedef struct npa_small_function npa_small_function;
int npa_small_init(void);
/* Of a function, or "ndarray.method"; or NULL */
const npa_small_function *npa_small_find(PyObject *name);
/* Whether NumPy's code for it reads its array's values once, by a ufunc's reduce */
bool npa_small_folds_once(const npa_small_function *f);
PyObject *npa_small_function_call(const npa_small_function *f, PyObject *const *args, Py_ssize_t n,
                                  PyObject *names);
/* The same where bits do not hang on who computes it, of arrays of ours too, as are results. */
PyObject *npa_small_function_ours(const npa_small_function *f, PyObject *const *args, Py_ssize_t n,
                                  PyObject *names);
/* Whether a result may be moved to an array that is given for it: plain, and in one piece, as
 * NumPy's own results lie. */
bool npa_small_is_target(PyObject *out);
/* A result, which is given up, moved to such an array: a new reference to that. NULL: there is none
 * (NULL), or it is of another shape or type */
PyObject *npa_small_put_result(PyObject *made, PyObject *target);
PyObject *npa_small_reduce(PyObject *ufunc, PyObject *const *args, Py_ssize_t n, PyObject *names);
void npa_small_ufunc(PyUFuncObject *u, npa_exactness how); /* perhaps one that these use */
bool npa_small_axis(PyObject *value, int ndim, int *axis); /* false: an error, or no int */
/* What a list or tuple of numbers is as an array. NULL, perhaps without error: NumPy's to make */
PyObject *npa_small_of_list(PyObject *list);
/* The type that a dtype means which need not be looked up each time; -1: none */
int npa_small_type_named(PyObject *dtype);
/* From so many numbers on sorting is worth more than NumPy's loop: sort.c, order.c */
enum { NPA_LEAST_SORTED = 1 << 12 };

/* ------------------------------------------------------------------------------- small_rolled.c */

/* *sum + shift, an int, modulo a length that is not 0; false: it is none, or too large */
bool npa_add_shift(PyObject *shift, npy_intp length, npy_intp *sum);
/* How far roll(a, shift, axis) moves each axis, at least 0. False: NumPy's to read */
bool npa_read_shifts(PyArrayObject *a, PyObject *shift, PyObject *axis, npy_intp *by);

#endif
