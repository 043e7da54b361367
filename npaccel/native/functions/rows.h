/* rows.h: a call of a generalised ufunc, as rows_call.c reads it and rows.c runs it. */
#ifndef NPA_FUNCTIONS_ROWS_H
#define NPA_FUNCTIONS_ROWS_H

#include "functions/functions.h"

#include <stdatomic.h>

enum { NPA_ROWS_MOST = 7, NPA_ROWS_CORES = 4, NPA_ROWS_STEPS = 2 * NPA_ROWS_MOST };
enum npa_rows_kind {
    NPA_ROWS_OTHER,
    NPA_ROWS_TRANSFORM,
    NPA_ROWS_PRODUCT,
    NPA_ROWS_VECTORS,
    NPA_ROWS_ELIMINATION,
    NPA_ROWS_INVERSE,
    NPA_ROWS_EIGENVALUES,
    NPA_ROWS_SPECTRUM
};

typedef struct {
    PyUFuncObject *u;
    enum npa_rows_kind kind;
    int loop, n, ndim, ncores, ncore_steps;
    PyArrayObject *arrays[NPA_ROWS_MOST]; /* the results' are made last */
    bool given[NPA_ROWS_MOST];            /* results that are arguments */
    double number; /* an operand that is none */
    char *data[NPA_ROWS_MOST];
    int axes[NPA_ROWS_MOST][NPA_MAX_DIMS]; /* of each operand: its outer ones, then a row's */
    npy_intp dims[NPA_MAX_DIMS], steps[NPA_ROWS_MOST][NPA_MAX_DIMS]; /* of the outer space */
    npy_intp cores[NPA_ROWS_CORES], core_steps[NPA_ROWS_STEPS];
    npy_intp rows, each;
    bool small;  /* products.c's, determinants.c's, or solves.c's */
    bool whole;  /* of integers, whose matrices are divided, see integers.c */
    bool widens; /* the first operand is real, and the loop's is complex */
    atomic_int raised;
} npa_rows_job;

/* Found once: redirected ufuncs stay where they are. */
enum npa_rows_kind npa_rows_kind_of(const PyUFuncObject *u);
/* The arguments of a call of j->u. False: NumPy's to look at. */
bool npa_rows_read(npa_rows_job *j, PyObject *const *args, Py_ssize_t n, PyObject *names);

/* rows_small.c: whether they are matrices that loops of ours multiply, or factor; and these, for
 * neighbours. */
bool npa_rows_are_small(const npa_rows_job *j, int type);
void npa_rows_run_small(const npa_rows_job *j, char **args, npy_intp count, const npy_intp *steps);
/* rows.c: j->u's own loop */
npa_ufunc_loop npa_rows_loop(const npa_rows_job *j);
void npa_rows_call_loop(const npa_rows_job *j, char **args, const npy_intp *dims,
                        const npy_intp *steps);
/* rows.c: whether one thread does rows of a kind, which the key stands for, or all do. */
npa_choice *npa_rows_choice(uint64_t key);
extern const npa_choice_rules npa_rows_rules;
/* rows_packed.c: rows of a transform, as for a ufunc's loop, if they are better copied to where
 * they lie one element behind the other. False: they are not. */
bool npa_rows_packed(npa_rows_job *j, char *const *args, const npy_intp *dims,
                     const npy_intp *steps);
/* Whether that is so for a transform's operand, where it lies. */
bool npa_rows_share_places(const npa_rows_job *j);

/* integer_products.c: whether one of two factors is a vector of integers; their product, which is
 * that of matrices. NULL, perhaps without error: NumPy's */
bool npa_is_of_integers(PyObject *o, int most);
bool npa_has_vector(PyObject *const *args);
bool npa_has_short_vector(PyObject *const *args); /* of floats, one of the factors */
PyObject *npa_multiply_vector(PyUFuncObject *matmul, PyObject *const *args);

#endif
