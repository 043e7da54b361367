/* loops.h: loops over elements: casts, moves, primitives on blocks, scans, products, draws.
 *
 * Knows typed data at addresses, and rules: which loop an operation has. Must not know requests,
 * buffers, or the lock. */
#ifndef NPA_LOOPS_H
#define NPA_LOOPS_H

#include "base/base.h"

/* PICK: array[mask], which no plan sees, with the number of the mask's axes in `axes`; see
 * masked.c. */
enum npa_kind { NPA_MAP, NPA_REDUCE, NPA_SCAN, NPA_ARG, NPA_IOTA, NPA_GATHER, NPA_PICK };

enum npa_own { NPA_UFUNC, NPA_COPY, NPA_WHERE, NPA_FILL_RANGE, NPA_ARGPICK, NPA_TAKE };

enum { NPA_MOST_PRIMITIVES = 16, NPA_NO_IDENTITY = 100 };

/* How one combination of function and operand types runs. Immortal once made. */
typedef struct {
    PyObject_HEAD
    PyObject *name;
    uint32_t id;
    uint8_t kind, own, nin, nout;
    bool value_in_key; /* values of scalars are part of keys, of floats those that rewrites use */
    bool may_warn, floating, idempotent; /* floating: over floats or complex numbers */
    bool ordered; /* a sum or product whose last bits depend on the order, see fold.h */
    uint64_t recorded, looped, touched; /* requests; run by loops: as planned, without a plan */
    uint64_t points; /* of the requests that were recorded, together */
    PyUFuncGenericFunction loop;
    void *loop_data;
    int8_t identity;                        /* 0, 1, -1 (all ones), NPA_NO_IDENTITY */
    int loop_type[NPA_MAX_ARGS];            /* NumPy type numbers, inputs then outputs */
    PyArray_Descr *loop_descr[NPA_MAX_ARGS];
    PyArray_Descr *result[NPA_MAX_ARGS];    /* dtypes of new outputs */
    void *argpick;
    bool inexact;    /* that has other bits than NumPy's loop */
    bool forward;    /* that has NumPy's bits only where no operand goes back: complex products */
    bool fast;       /* it has code of the second accuracy class, too */
    bool counts;     /* a sum, or a running one, of integers of 8 bytes; of bools: those that are */
    int nprimitives; /* our own code for blocks, in the order in which it is to be tried */
    const struct npa_primitive *primitives[NPA_MOST_PRIMITIVES];
} npa_rule;

/* -------------------------------------------------------------------------------------- types.c */

bool npa_type_known(int type);
/* Of such a type, and usual: results keep what is noted in a dtype, so others are NumPy's. */
bool npa_dtype_known(const PyArray_Descr *d);
bool npa_array_known(PyArrayObject *a);
/* Bytes of what lies behind the first axes without gaps; 0: there are gaps, or nothing. */
npy_intp npa_bytes_behind(PyArrayObject *a, int axes);
bool npa_shows_once(PyArrayObject *a); /* no two elements share memory, for certain */
int npa_canonical(int type);
int npa_raised(void); /* kinds of floating-point errors since the flags were cleared */
int npa_cast_value(int from, const void *value, int to, void *out); /* 0, or FP kinds */

/* --------------------------------------------------------------------------------------- cast.c */

void npa_cast(int from_type, const char *from, int64_t from_step, int to_type, char *to,
              int64_t to_step, int64_t n); /* steps in bytes */

/* -------------------------------------------------------------------------------------- moves.c */

/* Steps in bytes. */
extern int npa_item_sizes[NPY_NTYPES_LEGACY]; /* bytes, by type number */
int npa_evaluate_init(void);
void npa_move(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n, int size);
void npa_pack(char *to, const char *from, int64_t stride, int64_t n, int size); /* to contiguous */
/* Rows of n elements each. */
void npa_pack_rows(char *to, const char *from, int64_t rows, int64_t row_step, int64_t n,
                   int64_t step, int size);
void npa_unpack(char *to, int64_t stride, const char *from, int64_t n, int size); /* from it */
void npa_unpack_rows(char *to, int64_t rows, int64_t row_step, int64_t step, const char *from,
                     int64_t n, int size);
/* Rows of n elements, line after line of the side of which rows share lines of the cache. */
void npa_turn(char *to, int64_t to_row, int64_t to_step, const char *from, int64_t from_row,
              int64_t from_step, int64_t rows, int64_t n, int size);
enum { NPA_LINE = 64 }; /* bytes of a line of the processor's cache */
/* Whether rows share such lines and a row's elements do not. */
static inline bool npa_lies_across(int64_t row_step, int64_t step)
{
    return row_step != 0 && llabs(row_step) < NPA_LINE && llabs(step) >= NPA_LINE;
}
/* `size` bytes of each of the n places, in bytes from the first element. */
void npa_pick_places_of(char *to, const char *from, const int64_t *places, int64_t n, int64_t size);
/* p: mask, one, other, out. */
void npa_select_line(char **p, int64_t n, const npy_intp *steps, int size);
/* COPY, WHERE */
void npa_own_loop(const npa_rule *rule, char **p, int64_t n, const npy_intp *steps);
void npa_fill_range(int type, const char *start, const char *step, int64_t first, char *to,
                    int64_t to_stride, int64_t n);
void npa_take_line(int size, char **p, const npy_intp *steps, int64_t n);

/* ---------------------------------------------------------------------------------- primitive.c */

PyObject *npa_primitives_py(PyObject *self, PyObject *args);
PyObject *npa_exp_s_py(PyObject *self, PyObject *nothing);
int npa_rule_primitives(npa_rule *rule);
/* That for inputs of which these are still; last: the value of the last one if it is a scalar. */
const struct npa_primitive *npa_find_primitive(const npa_rule *rule, bool fast, unsigned still,
                                               const char *last);

/* -------------------------------------------------------------------------------------- loops.c */

bool npa_is_numpys_ufunc(PyUFuncObject *u); /* another library's may have its name */
/* That for exactly these types, NumPy's or one that gives the same faster; false: there is none */
bool npa_find_loop(PyUFuncObject *u, const int *types, PyUFuncGenericFunction *loop, void **data);
/* Of a loop of NumPy's: one that is a primitive with the same bits where it can be, and at least so
 * many elements are to be computed. It may not tell of underflow. False: there is none. */
enum { NPA_LEAST_DENSE = 16 };
bool npa_find_dense_loop(PyUFuncObject *u, const int *types, PyUFuncGenericFunction *loop,
                         void **data);
/* Whether it is maximum or a ufunc like it. */
bool npa_is_pick(const char *name);

/* -------------------------------------------------------------------------------------- exact.c */

/* Instead of NumPy's loop of doubles that calls the C library for each number, one that has its
 * bits. */
void npa_take_exact_loop(PyUFuncObject *u, const int *types, PyUFuncGenericFunction *loop,
                         void **data);
/* Whether it is one of these, for which that was proved, so bits hang on nothing but an element. n:
 * as many are to be computed. */
bool npa_is_exact_loop(PyUFuncGenericFunction loop, void *data, npy_intp n);
PyObject *npa_exact_loops_py(PyObject *self, PyObject *args);

/* --------------------------------------------------- lanes.c, of this processor or a plain one */

typedef enum {
    NPA_SINES, NPA_COSINES, NPA_HYPOTENUSES, NPA_EXPS, NPA_LOGS, NPA_EXP2S, NPA_LOG2S, NPA_LOG10S,
    NPA_POWERS, NPA_EXPM1S, NPA_LOG1PS, NPA_SINHS, NPA_COSHS, NPA_LOGADDEXPS,
    NPA_TANHS, NPA_LANED
} npa_laned;
enum { NPA_LANES = 8, NPA_LANES_BLOCK = 64 };
/* n: a multiple of NPA_LANES, up to a block. The numbers that are left to the C library, a bit for
 * each; what is stored there means nothing. */
typedef uint64_t npa_lane_function(const double *const *from, double *to, int n);
/* For processors of that level, or the best one here; NULL: there is none. */
npa_lane_function *npa_lanes(npa_laned which, const char *level);
/* Whether there is what it computes by; to be asked before it is first called. Most do by numbers
 * of the C library, or of NumPy's loop, which takes some tenths of a millisecond to find them. */
bool npa_lanes_ready(npa_laned which, PyUFuncGenericFunction numpys);
bool npa_lanes_round(void); /* to nearest, and subnormal numbers are kept, as they are made for */

/* --------------------------------------------------------------------------------------- scan.c */

/* A loop for accumulate by `op` that is faster than `numpys`, or that one */
PyUFuncGenericFunction npa_scan_loop(const char *op, int type, PyUFuncGenericFunction numpys);

/* --------------------------------------------------------------------------------------- sums.c */

/* How integers below 64 bits, and truth values, are added to some of 64, which lie where they are
 * aligned: as for a ufunc's reduce, and for its accumulate. */
typedef struct {
    PyUFuncGenericFunction add, scan;
    int size; /* bytes of what is added */
} npa_wide_sum;
const npa_wide_sum *npa_find_wide_sum(int type); /* NULL: none of these */

/* -------------------------------------------------------------------------------------- masks.c */

/* How many places of a mask are in. */
int64_t npa_count_true(const char *mask, int64_t n);
/* As npa_keep_between, one by one. */
int64_t npa_keep_each(const int64_t *places, int64_t n, int64_t low, int64_t high, int64_t *to,
                      int64_t *which);

/* ------------------------------------------------ compress.c, of this processor or a plain one */

/* Of n places those in [low, high), and which of them they are; where fast, without a branch. What
 * is written has room for NPA_KEPT_ROOM more. */
enum { NPA_KEPT_ROOM = 8 };
bool npa_keeps_fast(void);
int64_t npa_keep_between(const int64_t *places, int64_t n, int64_t low, int64_t high, int64_t *to,
                         int64_t *which);
/* Elements that are in from there to *to, which moves on, or from *from to there, up to `end` or
 * until few places are left. How many places that was. */
int64_t npa_compress(char **to, const char *end, const char *from, const char *mask, int64_t n,
                     size_t size);
int64_t npa_expand(char *to, const char **from, const char *end, const char *mask, int64_t n,
                   size_t size);

/* -------------------------------------------------------------------------------------- index.c */

typedef struct {
    int type, size, ndim; /* canonical; bytes of an element */
    npy_intp extent;
    npy_intp lengths[2 * NPA_MAX_DIMS]; /* shape, then strides */
} npa_indices;
/* false: not integers */
bool npa_indices_of(PyArrayObject *index, npy_intp extent, npa_indices *of);
/* Where the indices lie: 0 in [0, extent), 1 some of them below but none below -extent, 2
 * elsewhere, -1 not integers. Nothing may be pending on them. */
int npa_bounds_of(const npa_indices *of, const char *first);
int npa_index_bounds(PyArrayObject *index, npy_intp extent);

/* ----------------------------------------------------------------------------------- products.c */

/* Matrices whose extents are no more than that. extents: rows, terms, columns; else as a ufunc's
 * loop. */
enum { NPA_SMALL_MATRIX = 6 };
/* Proved with matmul's own loop when it is first asked. */
bool npa_small_product(PyUFuncObject *matmul, int type, const npy_intp *extents);
/* Whether npa_multiply_small takes NumPy's loop for none that lie so. */
bool npa_small_product_is_ours(int type, const npy_intp *extents, const npy_intp *core);
void npa_multiply_small(int type, char *const *args, npy_intp n, const npy_intp *extents,
                        const npy_intp *steps, const npy_intp *core);

/* ---------------------------------------------------------------------------------- by_vector.c */

enum { NPA_SHORT_VECTOR = 4 };
typedef struct {
    PyUFuncGenericFunction loop; /* NumPy's */
    void *data;
} npa_ufunc_loop;
/* Whether one of the factors is a short vector, and the other one no longer than that. */
bool npa_is_by_vector(const npy_intp *extents);
/* Whether it is known how BLAS adds for matrices and vectors that lie so. */
bool npa_by_vector_known(int type, npa_ufunc_loop of, const npy_intp *extents,
                         const npy_intp *core);
/* False: it is not known, or not all products are finite. */
bool npa_multiply_by_vector(int type, npa_ufunc_loop of, char *const *args, npy_intp n,
                            const npy_intp *extents, const npy_intp *steps, const npy_intp *core);

/* ------------------------------------------------------------------------------- determinants.c */

/* Of m x m doubles: whether it is known how LAPACK factors them; of: NumPy's loop of `det`. */
bool npa_small_determinant(npa_ufunc_loop of, npy_intp m);
/* `n` of them, as that loop has them; core: a row's and a column's step. */
void npa_determine_small(npa_ufunc_loop of, char *const *args, npy_intp n, npy_intp m,
                         const npy_intp *steps, const npy_intp *core);

/* ------------------------------------------------------------------------------------- solves.c */

/* inv, solve1, and solve with one column and with more: NumPy's loop, its operands' extents (m, and
 * columns if it has them), and how many they are. */
enum npa_solve_way { NPA_SOLVE_INVERSE, NPA_SOLVE_VECTOR, NPA_SOLVE_COLUMN, NPA_SOLVE_COLUMNS };
typedef struct {
    npa_ufunc_loop of;
    enum npa_solve_way way;
    npy_intp cores[2];
} npa_solve;
/* Of matrices of doubles: whether it is known how LAPACK does it. */
bool npa_solve_known(const npa_solve *s);
/* `n` of them, as that loop has them. */
void npa_solve_small(const npa_solve *s, char *const *args, npy_intp n, const npy_intp *steps,
                     const npy_intp *core);

/* ----------------------------------------------------------------------------------- integers.c */

/* As npa_multiply_small, of integers of so many bytes and of any extents. */
void npa_multiply_integers(int size, char *const *args, npy_intp n, const npy_intp *extents,
                           const npy_intp *steps, const npy_intp *core);

/* ------------------------------------------------------------------------------------- philox.c */

int npa_philox_init(PyObject *module);

#endif
