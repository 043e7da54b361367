/* numpy.h: how calls come: the slots of Array and ndarray, subscripts, redirected callables, and
 * the module that Python sees.
 *
 * Knows all rooms below. None knows it. */
#ifndef NPA_NUMPY_H
#define NPA_NUMPY_H

#include "functions/functions.h"

/* -------------------------------------------------------------------------------------- hooks.c */

void npa_hooks_fill(void); /* before anything else */

/* -------------------------------------------------------------------------------------- array.c */

void npa_operator_is_exact(PyObject *ufunc, npa_exactness how);
PyObject *npa_array_base(void); /* the type that Array is a subclass of; new */
PyObject *npa_array_metatype(void); /* the type of Array; new */
void npa_restore_sequence(PyTypeObject *type);
PyObject *npa_settled(PyObject *o); /* as ndarray's own slots take it: evaluated, exact; new */

/* -------------------------------------------------------------------------------- array_ufunc.c */

PyObject *npa_ufunc_call(PyObject *ufunc, const npa_value *values, PyArrayObject **out,
                         int *status);

/* ----------------------------------------------------------------------------------- elements.c */

/* Whether nothing is to be seen to before an element is read, or written, and its memory shows
 * it. */
bool npa_is_shown(PyArrayObject *a, bool write);
/* The key with integers in place of arrays of integers without dimensions, which is what NumPy
 * takes them for; a new reference. NULL, perhaps without error: it is not basic otherwise, or has
 * none. */
PyObject *npa_basic_key(PyObject *key);
/* a[key] for such a key; NULL likewise */
PyObject *npa_get_by_scalars(PyArrayObject *a, PyObject *key);
/* Elements that nobody has looked at, and that stay so: a[key], new, and a[key] = value, 1: done,
 * -1: error. NULL or 0, perhaps without error: it is not for here. */
PyObject *npa_hidden_element(PyArrayObject *a, PyObject *key);
int npa_put_hidden(PyArrayObject *a, PyObject *key, PyObject *value);
npa_own npa_item_behind, npa_list_behind; /* ndarray.item and .tolist, of hidden arrays of ours */
PyObject *npa_element_view(PyObject *a, PyObject *key); /* a[key + (...,)], without dimensions */
bool npa_key_wants(PyObject *key);
/* npa_wants, of what functions and arrays as subscripts take */
bool npa_wants_coarsely(const npa_value *values, int n);

/* ------------------------------------------------------------------------------------- assign.c */

int npa_assign(PyObject *a, PyObject *key, PyObject *value);
/* target[...] = value, recorded: 1 done, 0 NumPy should do it, -1 error. */
int npa_assign_all(PyArrayObject *target, PyObject *value);

/* ------------------------------------------------------------------------------------- filled.c */

npa_own npa_fill_array, npa_copy_to;          /* recorded */
npa_own npa_make_empty, npa_make_zeros; /* in memory of ours */
npa_own npa_record_cast; /* recorders.c: ndarray.astype, of a type's usual name */
/* Whether a function that a recorder was found for looks at its array's shape alone */
bool npa_whole_looks_alone(PyObject *function);
npa_recorder npa_record_zeros_like, npa_record_ones_like, npa_record_full_like;

/* --------------------------------------------------------------------------------------- away.c */

int npa_put_back(PyArrayObject *a, PyArrayObject *part); /* what was written to that; 0 or -1 */
int npa_put_part(PyObject *a, PyObject *key, bool element, PyObject *value);
/* a[key], one element, from there. NULL without error: it is not there, or not worth it. */
PyObject *npa_fetched_element(PyObject *a, PyObject *key);
PyObject *npa_put_back_py(PyObject *module, PyObject *args);
PyObject *npa_rebased_py(PyObject *module, PyObject *args);

/* ------------------------------------------------------------------------------------ numbers.c */

/* NumPy's scalar of a recorded array without dimensions that nobody else has: run, and read behind
 * its address. */
PyObject *npa_number_of(PyArrayObject *recorded);
/* The largest or smallest of all elements of an array that nobody has looked at, as its ufunc's
 * fold. NULL, perhaps without error: something else */
PyObject *npa_hidden_extreme(PyObject *ufunc, PyArrayObject *a);
npa_own npa_record_count; /* count_nonzero of truth values that wait */
npa_own npa_argmax_behind, npa_argmin_behind; /* ndarray.argmax and .argmin, of all */
/* f(args...), a fold of an array that waits, without NumPy's Python code around the ufunc's. As
 * npa_reduce. */
int npa_fold_recorded(const npa_small_function *f, PyObject *const *args, Py_ssize_t n,
                      PyObject *names, PyObject **result);

/* -------------------------------------------------------------------------------------- folds.c */

/* 1: done, *result is new; 2: NumPy is to do it at once; 0: not for here; -1: error set. */
int npa_fold_call(PyObject *ufunc, PyObject *const *args, Py_ssize_t n, PyObject *names,
                  PyObject **result);
/* The same; what NumPy is to do is done. */
int npa_reduce(PyObject *ufunc, PyObject *const *args, Py_ssize_t n, PyObject *names,
               PyObject **result);
/* npa_hidden_extreme, if that is what the call asks for. As npa_fold_call */
int npa_fold_hidden(PyObject *ufunc, PyObject *const *args, Py_ssize_t n, PyObject *names,
                    PyObject **result);
PyObject *npa_mean_of(PyObject *sum, npy_intp n); /* of doubles; takes the sum */
/* f(args...), a fold of an array of ours that nothing waits for: at once; `numpys`: NumPy's own.
 * NULL, perhaps without error: others' to do */
PyObject *npa_fold_ours(const npa_small_function *f, PyObject *numpys, PyObject *const *args,
                        Py_ssize_t n, PyObject *names);
/* In a function that NumPy runs as one: a sum or product whose last bits would be ours, were it
 * recorded. */
int npa_fold_in_whole(PyObject *ufunc, PyObject *const *args, Py_ssize_t n, PyObject *names,
                      PyObject **result);
/* What a dtype asks for: 0: it is not named; > 0: a type's number and 1; < 0: NumPy judges. */
int npa_type_asked(PyObject *dtype);
/* Whether a call waits for nothing: no section looks on, and floating-point errors can be told
 * later; -1: error set. */
int npa_may_wait(void);
/* ufunc_names.c: ufunc(*args, **names), recorded. As npa_fold_call */
int npa_out_call(PyObject *ufunc, PyObject *const *args, Py_ssize_t n, PyObject *names,
                 PyObject **result);
int npa_folds_init(void);
enum { NPA_WHOLE_BYTES = 512 << 10 }; /* of std and var, many small steps; see _STEPS */

/* -------------------------------------------------------------------------------- temporaries.c */

/* The array that dies with the call at hand, which needs its values once; or NULL. */
extern NPA_PER_THREAD PyArrayObject *npa_last_use;
/* It is the first of a call's arguments, if that is one: what it was before, to be put back.
 * called: the function, the method, or the ufunc whose method it is. */
PyArrayObject *npa_begin_last_use(PyObject *const *args, Py_ssize_t n, PyObject *names,
                                  PyObject *called);
/* What needs it is recorded: if it is this one, it dies now. */
void npa_end_last_use(PyArrayObject *a);

/* What an operator of NumPy's may write its result over; FIRST_INEXACT: only over floats. */
typedef enum { NPA_NEITHER, NPA_FIRST, NPA_FIRST_INEXACT, NPA_EITHER } npa_overwriting;
/* That operand, where they lie in unlike memory orders; NULL: none, or it makes no difference. */
PyArrayObject *npa_written_over(PyObject *a, PyObject *b, npa_overwriting how);
/* Whether NumPy's product is b * a: it writes over `b`, which shows in complex products' bits. */
bool npa_takes_second_first(PyObject *a, PyObject *b);

/* ------------------------------------------------------------------------------------- direct.c */

/* The bytes of the largest array, of whatever class. */
size_t npa_any_bytes(PyObject *const *args, Py_ssize_t n);
extern PyTypeObject npa_direct_type;
#define NPA_ANY_SIZE PY_SSIZE_T_MAX
int npa_direct_call(PyObject *function, PyObject *const *args, Py_ssize_t n, PyObject *names,
                    Py_ssize_t written, Py_ssize_t any, bool apart, PyObject **result);
PyObject *npa_direct_new(PyObject *module, PyObject *args);
PyObject *npa_composites_py(PyObject *module, PyObject *dict);

/* ----------------------------------------------------------------------------------- redirect.c */

int npa_redirect_init(PyObject *module);
void npa_redirect_install(void);
void npa_redirect_restore(void);
/* Of a ufunc's results, once a block was prepared for; NPA_INEXACT: not known */
npa_exactness npa_exactness_of(const PyUFuncObject *u);

/* --------------------------------------------------------------------------------- subscripts.c */

/* A section is there, or is over, that looks at plain arrays' subscripts */
void npa_redirect_look(bool begin);

/* -------------------------------------------------------------------------------------- worth.c */

/* Whether a.astype(...) gives back `a`: of its own dtype, and not to be copied. */
bool npa_comes_back(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
/* Whether the bits are the same, whoever computes them */
bool npa_is_exact(npa_exactness how, const npa_value *values, int n);
/* Or the operands are of a size at which the bits are NumPy's: Note [Whose bits] */
bool npa_has_numpys_bits(npa_exactness how, const npa_value *values, int n);

/* ---------------------------------------------------------------------------------- callables.c */

/* Bytes up to which it runs as one; 0: not known */
size_t npa_most_whole(PyObject *function, PyObject *names);
/* Or NULL */
npa_recorder *npa_recorder_of(PyObject *function, PyObject *const *args, Py_ssize_t all);
/* Of one that has a recorder: whether NumPy is to do at once what would be recorded; see
 * autotune.c. The first n arguments of all have no names. */
bool npa_whole_passes(PyObject *function, PyObject *const *args, Py_ssize_t n, Py_ssize_t all);

/* --------------------------------------------------------------------------------------- own.c */

/* How a function or method is done on arrays that need not be shown for it; or NULL */
npa_own *npa_own_of_unseen(const char *name);

/* -------------------------------------------------------------------------------------- prove.c */

PyObject *npa_prove(PyObject *module, PyObject *ufunc);

/* ------------------------------------------------------------------------------------ exports.c */

int npa_exports_init(void);

/* ---------------------------------------------------------------------------------- intercept.c */

int npa_intercept_init(void);
PyObject *npa_settle_calls(PyObject *module, PyObject *type);
void npa_serve_calls(void);
void npa_leave_calls(void);
PyObject *npa_system_calls(PyObject *self, PyObject *nothing);

#endif
