/* redirect.h: NumPy's callables as they are redirected; for the files that do so. See redirect.c.
 *
 * redirect.c    installs and restores       worth.c       whether a call is taken
 * ufuncs.c      ufuncs                      callables.c   functions and methods
 * wholes.c      NumPy's Python functions    subscripts.c  subscripts of plain arrays
 * views.c       views of arrays of ours */
#ifndef NPA_REDIRECT_H
#define NPA_REDIRECT_H

#include "numpy/numpy.h"

/* What is looked at to see whether a call has an array worth taking. */
enum action {
    ARGUMENTS,  /* the arguments, and the items of lists and tuples among them */
    SELF,       /* the array whose method it is */
    SHAPE,      /* how many elements the first argument asks for */
    RANGE,      /* how many elements a range has */
    RESULT,     /* nothing: only the result is ours */
    STRIDED,    /* the array whose method it is, unless it lies in C order */
    CONVERTED,  /* the arguments, unless the first comes back as it is: asarray(a) */
    /* The array whose method it is, unless it comes back: a.astype(a.dtype, copy=False) */
    CAST,
    PICKED,     /* the array whose method it is, unless few elements are picked: take */
    OTHERS,     /* the arguments but for the array that is worked on, unless something is pending */
    REDUCED,    /* the arguments, unless a full reduction is done at once: ufunc.reduce */
    PICKED_ONE, /* the array whose method it is, likewise: argmin, argmax */
    STEPS,      /* the array whose method it is, unless all of it is NumPy's: var, std */
    COUNTED,    /* the arguments, unless truth values are counted at once: count_nonzero */
    SMALL,      /* nothing: only what is small is done here, the rest is NumPy's Python code */
    ACTIONS
};

typedef struct {
    PyMethodDef *definition;
    PyCFunction original, stub;
    enum action action;
    int kind;               /* its calling convention, METH_... */
    bool method, writes, copies, on_array; /* copies: unless it is told not to */
    bool moves;             /* its result has the same bits, whoever computes it */
    bool waits;             /* and is worth recording as soon as an operator's is */
    npa_own *own;           /* how it is done here; NULL: by NumPy */
    npa_own *record;        /* how it is recorded without Python; NULL: by the taker alone */
    bool unseen;            /* by that, what it reads need not be shown */
    void *what;             /* for that */
    Py_ssize_t lone;        /* so many numbers, at most, ask for one number; -1: nothing does */
    int adopts;             /* 2: also shows whole plain views of ours as what they are views of */
    PyObject *taker;        /* NULL: NumPy runs it */
    const npa_small_function *small; /* how it is done on small arrays; NULL: by NumPy */
    PyObject *name, *reason;
} target;

/* A function that NumPy writes in Python. most: bytes of arrays up to which it runs as one; 0:
 * always, and is counted. */
typedef struct {
    PyObject *function, *name, *reason;
    vectorcallfunc *slot, original;
    size_t most;
    const npa_small_function *small; /* how it is done on small arrays; NULL: by NumPy */
    bool small_only;                 /* otherwise it is as if it were not redirected */
    npa_recorder *record;            /* how it is recorded; NULL: by what its code calls */
    /* What it records waits: a trial may have the call done at once */
    bool waits;
    bool repeats;                    /* its result may be many times as large as its argument */
    /* Floats, in whose order last bits hang: ours from the threshold on */
    bool sums;
    /* On arrays that nothing waits for, up to `most`, NumPy does it at once */
    bool idle;
    PyObject *code; /* views.c: NumPy's Python, of what makes views; else NULL */
    bool like; /* it looks at its array's shape alone: NumPy does it at once below the threshold */
} whole;

enum { NPA_MOST_TARGETS = 256, NPA_MOST_UFUNCS = 512, NPA_MOST_WHOLE = 160, NPA_NESTED = 32 };
enum { NPA_ITEM = 8 }; /* bytes of an element whose type is not named */
extern target npa_targets[NPA_MOST_TARGETS];
extern PyUFuncObject *npa_ufuncs[NPA_MOST_UFUNCS];
extern npa_exactness npa_ufunc_exact[NPA_MOST_UFUNCS];
extern int npa_nufuncs;
extern whole npa_wholes[NPA_MOST_WHOLE];
/* 1 + the index of a function, by its address */
extern uint8_t npa_whole_places[4 * NPA_MOST_WHOLE];
extern vectorcallfunc npa_numpys_ufunc_call; /* the one that they all have */
extern PyObject *npa_ufunc_taker;
extern bool npa_installed;

static inline bool plain(PyObject *o) { return Py_IS_TYPE(o, &PyArray_Type); }
static inline bool ours(PyObject *o) { return Py_IS_TYPE(o, npa_array_type); }

static inline bool large(PyObject *o)
{
    PyArrayObject *a = (PyArrayObject *)o;
    size_t bytes = (size_t)PyArray_ITEMSIZE(a);
    int ndim = PyArray_NDIM(a);
    for (int i = 0; i < ndim; i++) {
        bytes *= (size_t)PyArray_DIM(a, i);
    }
    return ndim > 0 && (npa_is_large(bytes) || (npa_waiting() && npa_is_pending(a)) ||
                        (npa_is_home(PyArray_DATA(a)) && npa_is_hidden(a)));
}

/* Whether nothing is to be seen to before NumPy reads or writes a plain array. */
static inline bool quiet(void)
{
    return !npa_waiting() && npa_placeholders == 0 && !npa_warnings_found();
}

/* -------------------------------------------------------------------------------------- worth.c */

/* Whether these, or items of lists among them, are worth taking: a large array, or two small ones
 * that broadcast to a large one (npa_wants has the last word). */
bool npa_any_large(PyObject *const *args, Py_ssize_t n, bool nested);
/* Whether one would be large as an array of doubles. */
bool npa_any_wide(PyObject *const *args, Py_ssize_t n);
/* At most `shape` elements' bytes; SIZE_MAX: unknown. */
size_t npa_bytes_of_shape(PyObject *shape, size_t item);
size_t npa_bytes_of_range(PyObject *const *args, Py_ssize_t n, size_t item);
bool npa_worth(const target *t, PyObject *self, PyObject *const *args, Py_ssize_t n,
               Py_ssize_t all);
/* A number, a list of a few, or of a few such lists. depth: of lists, at most. */
bool npa_few_numbers(PyObject *o, int depth);
/* How many numbers a function makes at most that makes something of numbers, as one that draws:
 * each of these may say how many, but for the first `skipped`, or hold so many. INFINITY:
 * unknown */
double npa_most_asked(PyObject *const *args, Py_ssize_t skipped, Py_ssize_t all);
/* The array that NumPy would give back as it is, in a call that is written as usual; else NULL. */
PyObject *npa_given_back(const target *t, PyObject *self, PyObject *const *args, Py_ssize_t n,
                         PyObject *names);
/* Whether there is nothing to do for us in a call on large arrays. */
bool npa_idle(const target *t, PyObject *self, PyObject *const *args, Py_ssize_t n,
              PyObject *names);
/* The bytes of the largest array; 0: there is none. *mine: whether any is ours. */
size_t npa_most_bytes(PyObject *const *args, Py_ssize_t n, bool *mine);
/* np.array(a, copy=False) and the like give an ndarray itself but a view of any subclass's, so of
 * ours, also where an object's __array__ gave it: that view is replaced by the array itself. */
PyObject *npa_itself(PyObject *result);
/* What is pending is computed by kernels, and what is hidden is shown, before NumPy reads it. */
int npa_settle_all(PyObject *const *args, Py_ssize_t n, bool write, bool nested);

/* ------------------------------------------------------------------------------------- ufuncs.c */

/* Operands that are nobody else's: plain arrays, scalars, lists. */
bool npa_only_plain(PyObject *const *args, Py_ssize_t n);
/* Call `taker`; 1: *result is its (NULL: an error); 0: *reason, new, says why NumPy must. */
int npa_ask(PyObject *taker, PyObject *const *args, size_t n, PyObject *names, PyObject **result,
            PyObject **reason);
PyObject *npa_ufunc_stub(PyObject *self, PyObject *const *args, size_t nargs, PyObject *names);
PyObject *npa_exact_ufunc_stub(PyObject *self, PyObject *const *args, size_t nargs,
                               PyObject *names);
PyObject *npa_foreign_ufunc_stub(PyObject *self, PyObject *const *args, size_t nargs,
                                 PyObject *names);
PyObject *npa_real_ufunc_stub(PyObject *self, PyObject *const *args, size_t nargs, PyObject *names);

/* ---------------------------------------------------------------------------------- callables.c */

extern bool npa_did_own; /* the latest call was done here */
extern const PyCFunction npa_stubs[NPA_MOST_TARGETS][4]; /* by calling convention */
void npa_find_own(target *t); /* own.c */
/* `f`, or the ufunc's reduce, on small arrays without NumPy's code around its loops, which is
 * looked at where that is due. NULL, perhaps without error: it is to be done otherwise. */
PyObject *npa_do_small(const npa_small_function *f, PyObject *ufunc, PyObject *const *args,
                       Py_ssize_t n, PyObject *names);

/* ------------------------------------------------------------------------------------- wholes.c */

/* Where a function's index is, or is to be. */
uint8_t *npa_whole_place(PyObject *function);
PyObject *npa_whole_stub(PyObject *self, PyObject *const *args, size_t nargs, PyObject *names);

/* ------------------------------------------------------------------------------- views.c */

PyObject *npa_view_stub(PyObject *self, PyObject *const *args, size_t nargs, PyObject *names);

/* --------------------------------------------------------------------------------- subscripts.c */

void npa_set_subscripts(void); /* of plain arrays, as npa_installed says */

#endif
