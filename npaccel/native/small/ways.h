/* ways.h: how a ufunc runs on small arrays; for this room, and for those above that run NumPy's
 * loops likewise. See Note [Small] in small.c. */
#ifndef NPA_WAYS_H
#define NPA_WAYS_H

#include "small/small.h"

enum { NPA_SMALL_IN = 3 };

/* How a ufunc runs where all its inputs have one type. */
typedef struct {
    PyUFuncObject *ufunc;
    int type;
    PyUFuncGenericFunction loop; /* NULL: NumPy finds it */
    void *data;
    /* Where underflow is asked for, of which `loop` may not tell; NULL: it does */
    PyUFuncGenericFunction numpys;
    void *numpys_data;
    PyArray_Descr *in, *out; /* NumPy's own, which live as long as it does */
    npy_intp in_size, out_size;
    bool exact;              /* its bits hang on nothing but an element */
    bool chooses;            /* but for which of two equal ones, of -0 and 0 */
} npa_way;

/* Where an operand lies, along the axes of the result. */
typedef struct {
    char *data;
    npy_intp steps[NPA_SMALL_DIMS];
} npa_lay;

typedef struct {
    int ndim, nargs; /* axes to go through, operands */
    npy_intp shape[NPA_SMALL_DIMS];
    npy_intp points;
    int nout; /* axes of the result */
    const npy_intp *dims;
    npy_intp full[NPA_SMALL_DIMS];
    npa_lay of[NPA_SMALL_IN + 1];
    _Alignas(16) char scalars[NPA_SMALL_IN][16];
} npa_space;

/* small.c */
bool npa_is_number(int type); /* one whose loops are taken */
const npa_way *npa_find_way(PyUFuncObject *u, int type, npa_exactness how);
bool npa_find_steps(npa_space *s, int k, PyArrayObject *a);
void npa_merge_axes(npa_space *s);
PyArray_Descr *npa_small_dtype(int type);  /* NumPy's own object, borrowed */
bool npa_small_type(PyArray_Descr *descr); /* whether it is of a number, and as NumPy's own */
/* A scalar's value in that type, if it fits */
bool npa_take_scalar(PyObject *o, int type, void *to);
void npa_clear_errors(void); /* the processor's flags */
int npa_flags_raised(void);  /* those that NumPy tells of */
/* Whether there were errors since that NumPy might tell; perhaps with an exception. The flags are
 * cleared. */
bool npa_seen_errors(void);
/* Of the processor's flags what NumPy tells of that ufunc, by the errstate. 0 or -1 */
int npa_tell_errors(PyUFuncObject *u, int flags);
bool npa_run_quietly(const npa_way *w, const npa_space *s); /* false: there were errors */
/* The processor's flags since they were cleared. Without the GIL */
int npa_run_flags(const npa_way *w, const npa_space *s);
/* u(*args); NULL, perhaps without error: NumPy's to do. *mixed: inputs have not one type. flags:
 * scalars may have another type than the arrays; arrays of ours are taken, too. */
enum { NPA_CASTS = 1, NPA_TAKES_OURS = 2 };
PyObject *npa_small_attempt(PyUFuncObject *u, PyObject *const *args, Py_ssize_t n,
                            npa_exactness how, int flags, bool *mixed);

/* small_mixed.c: the same, with the arrays that have another type than the loop converted first, as
 * NumPy does by parts. */
PyObject *npa_small_mixed(PyUFuncObject *u, PyObject *const *args, Py_ssize_t n,
                          npa_exactness how);

/* small.c: not NULL: arrays of that class are taken as plain ones are, and results are of it. NULL
 * wherever code of others may run. */
extern PyTypeObject *npa_small_class;

static inline bool npa_small_is_large(size_t bytes)
{
    return npa_is_large(bytes) || (npa_small_class != NULL && bytes >= NPA_SMALL_MOST);
}

/* Bytes that a single call goes through at once, whatever is small: some milliseconds. */
enum { NPA_SMALL_AT_ONCE = 16 << 20 };

/* The same of what may be somewhat larger where a trial leaves it to NumPy. */
static inline bool npa_small_exceeds(size_t bytes)
{
    return npa_small_is_large(bytes) &&
           !(npa_passed && npa_small_class == NULL && bytes <= NPA_SMALL_AT_ONCE);
}

/* The GIL is given up, where others may want it, for what takes longer than that does. NULL: it is
 * kept. */
static inline PyThreadState *npa_small_let_go(npy_intp elements)
{
    enum { WORTH = 500 };
    if (elements <= WORTH || npa_alone()) {
        return NULL;
    }
    npa_small_class = NULL;
    return PyEval_SaveThread();
}

static inline bool npa_small_ours(PyObject *o)
{
    return npa_small_class != NULL && Py_IS_TYPE(o, npa_small_class);
}

static inline bool npa_is_plain(PyObject *o)
{
    return Py_IS_TYPE(o, &PyArray_Type) || npa_small_ours(o);
}

/* Whether it is not pending, and as NumPy's loops take it. */
static inline bool npa_is_simple(PyArrayObject *a, const npa_way *w)
{
    return npa_same_dtype(PyArray_DESCR(a), w->in) && PyArray_ISALIGNED(a) &&
           !(npa_q.nrequests > 0 && npa_is_pending(a));
}

/* On to the next point of all axes but the last. False: there is none. */
static inline bool npa_next_row(const npa_space *s, npy_intp *index, char **args)
{
    for (int i = s->ndim - 2; i >= 0; i--) {
        bool over = ++index[i] == s->shape[i];
        npy_intp by = over ? 1 - s->shape[i] : 1;
        for (int k = 0; k < s->nargs; k++) {
            args[k] += by * s->of[k].steps[i];
        }
        if (!over) {
            return true;
        }
        index[i] = 0;
    }
    return false;
}

/* small_folds.c */
typedef enum {
    NPA_SUM,
    NPA_PROD,
    NPA_MAX,
    NPA_MIN,
    NPA_ANY,
    NPA_ALL,
    NPA_FMAX,
    NPA_FMIN,
    NPA_MEAN,
    NPA_VAR,
    NPA_STD
} npa_small_op;
/* Of one that folds; *out_place: where `out` may be in place, the array's place being 0 */
npa_small_op npa_small_fold_of(const npa_small_function *f, Py_ssize_t *out_place);
/* How an array is folded. axes: a bit for each of the array's; ddof: of var and std */
typedef struct {
    npa_small_op op;
    uint32_t axes;
    long ddof;
    bool keepdims;
} npa_small_how;
/* NULL, perhaps without error: NumPy's to do */
PyObject *npa_small_fold(PyArrayObject *a, const npa_small_how *how);
/* Roots of n doubles, or singles, in place. */
void npa_small_roots(int type, void *data, npy_intp n);
bool npa_small_folds(PyArrayObject *a, npa_small_op op);
/* small_decided.c: any(), all(), max() or min() of truth values in one piece: however many there
 * are, it may take no time, for the answer may be known soon. NULL without error: it is no such
 * call, or many were looked at in vain, which NumPy does while others go on. */
PyObject *npa_small_decided(PyArrayObject *a, const npa_small_how *how);
/* small_scattered.c: a copy in one piece, if that is what NumPy folds all of it by. NULL, perhaps
 * without error: it is not known to be. */
PyArrayObject *npa_small_gathered(PyArrayObject *a, PyObject *add);
void npa_small_fold_ufunc(PyUFuncObject *u, npa_exactness how); /* perhaps one that folds */
/* What the elements up to each are folded to, by what has such a loop; likewise */
PyObject *npa_small_scan(npa_small_op op, PyArrayObject *a);
int npa_small_type_named(PyObject *dtype); /* its number; -1: it is NumPy's to look up */
PyObject *npa_as_count(PyObject *integer); /* of the type of np.count_nonzero */
PyObject *npa_small_folder(npa_small_op op); /* its ufunc, or that of its sum; borrowed */
int npa_small_op_of(PyObject *ufunc); /* what its reduce does; -1: nothing of these */

/* small_products.c: a @ b. NULL, perhaps without error: NumPy's to do. */
PyObject *npa_small_matmul(PyObject *a, PyObject *b);
/* The product of two vectors of one type, by the function that NumPy calls for it, perhaps
 * BLAS's. */
bool npa_multiply_vectors(PyArrayObject *a, PyArrayObject *b, void *to);
/* What NumPy's loop of matmul is handed: how many products, rows, terms, columns; of each operand a
 * step from one product to the next, and two within. NumPy has steps of 0 along axes of one
 * element. */
typedef struct {
    npy_intp extents[4], steps[9];
    char *args[3];
    npy_intp shape[3]; /* the result's */
    int ndim;
} npa_product;
/* Of arrays of one type whose shapes fit, of up to three dimensions. */
bool npa_find_product(npa_product *p, PyArrayObject *a, PyArrayObject *b);
npy_intp npa_product_work(const npa_product *p); /* multiplications */
/* Into C order at `to`, with or without the GIL; then npa_seen_errors says whether it warns. */
void npa_run_product(npa_product *p, const npa_way *w, PyArray_Descr *descr, char *to);
void npa_small_product_ufunc(PyUFuncObject *u); /* perhaps matmul */
extern PyUFuncObject *npa_matmul;               /* NULL: not redirected */

/* small_memory.c */
void npa_small_memory(bool on); /* what dies is kept; or no longer, and is given back */
/* An array, C-ordered, without content. */
PyArrayObject *npa_small_new(PyArray_Descr *descr, int ndim, const npy_intp *shape);

/* small_views.c: the elements, one after the other in C order */
void npa_small_gather(PyArrayObject *a, char *to);

/* small_picks.c: a[key] and a[key] = value by a mask or integers; key: a plain array */
PyObject *npa_small_pick(PyObject *a, PyObject *key);
bool npa_small_put_picked(PyObject *a, PyObject *key, PyObject *value);

#endif
