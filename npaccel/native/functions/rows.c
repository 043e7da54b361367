/* rows.c: NumPy's own loops of generalised ufuncs (transforms, linalg, products of many small
 * matrices), on all threads. What a loop gives for one row, which may be a matrix, hangs on that
 * row alone. */
#include "functions/functions.h"
#include "functions/rows.h"
#include "loops/factors.h"

#include <fenv.h>
#include <string.h>

enum { LEAST_BYTES = 1 << 15, LEAST_OF_SOLVERS = 1 << 11, LEAST_SMALL = 16 };
enum { TOGETHER = 16 }; /* rows that NumPy's vectors may share */
static const double LEAST_NS = 60e3, TASK_NS = 15e3;
/* From there on, to show the operands costs little beside the rows; multiplications */
static const double MOST_HOME_NS = 1e6, MOST_HOME = 1 << 24;

/* How long a row takes: `fixed` ns, and `each` for every element of its operands, times an extent
 * of what is not linear. most: from there on BLAS may have threads of its own, which our threads
 * would wait for in turns. */
static const struct { double fixed, each; npy_intp most;
} costs[] = {[NPA_ROWS_TRANSFORM] = {0, 4, 0},        [NPA_ROWS_PRODUCT] = {25, 0.3, 1 << 18},
             [NPA_ROWS_VECTORS] = {15, 0.5, 1 << 13}, [NPA_ROWS_ELIMINATION] = {80, 0.1, 40},
             [NPA_ROWS_INVERSE] = {300, 0.3, 40},     [NPA_ROWS_EIGENVALUES] = {500, 1, 40},
             [NPA_ROWS_SPECTRUM] = {900, 1, 25}};
typedef npa_rows_job job;

/* --------------------------------------------------------------------------------- workers */

static npy_intp *core_of(job *j, int k, int i)
{
    return &j->cores[j->u->core_dim_ixs[j->u->core_offsets[k] + i]];
}

npa_ufunc_loop npa_rows_loop(const job *j)
{
    return (npa_ufunc_loop){j->u->functions[j->loop],
                            j->u->data != NULL ? j->u->data[j->loop] : NULL};
}

void npa_rows_call_loop(const job *j, char **args, const npy_intp *dims, const npy_intp *steps)
{
    npa_ufunc_loop of = npa_rows_loop(j);
    of.loop(args, dims, steps, of.data);
}

static void place_row(const job *j, npy_intp row, char **args)
{
    for (int k = 0; k < j->n; k++) {
        npy_intp left = row;
        args[k] = j->data[k];
        for (int i = j->ndim - 1; i >= 0; left /= j->dims[i], i--) {
            args[k] += left % j->dims[i] * j->steps[k][i];
        }
    }
}

/* Neighbours along the last of the outer axes are one call of NumPy's loop. */
static void run_line(job *j, npy_intp row, npy_intp count)
{
    char *args[NPA_ROWS_MOST];
    npy_intp dims[1 + NPA_ROWS_CORES] = {count}, steps[NPA_ROWS_MOST + NPA_ROWS_STEPS] = {0};
    place_row(j, row, args);
    for (int k = 0; k < j->n; k++) {
        steps[k] = j->steps[k][j->ndim - 1];
    }
    memcpy(dims + 1, j->cores, sizeof *dims * (size_t)j->ncores);
    memcpy(steps + j->n, j->core_steps, sizeof *steps * (size_t)j->ncore_steps);
    if (j->small) {
        npa_rows_run_small(j, args, count, steps);
    } else if (j->kind != NPA_ROWS_TRANSFORM || !npa_rows_packed(j, args, dims, steps)) {
        npa_rows_call_loop(j, args, dims, steps);
    }
}

/* So many rows of a matrix of integers. */
static void run_part(void *context, int64_t task, int worker)
{
    job *j = context;
    npy_intp parts = (j->cores[0] + j->each - 1) / j->each, row = task / parts;
    npy_intp first = task % parts * j->each, left = j->cores[0] - first;
    npy_intp extents[] = {left < j->each ? left : j->each, j->cores[1], j->cores[2]};
    const npy_intp steps[3] = {0};
    char *args[NPA_ROWS_MOST];
    int type = j->u->types[(npy_intp)j->loop * j->n];
    (void)worker;
    place_row(j, row, args);
    args[0] += first * j->core_steps[0], args[2] += first * j->core_steps[4];
    npa_multiply_integers(npa_item_sizes[type], args, 1, extents, steps, j->core_steps);
}

static void run(void *context, int64_t task, int worker)
{
    job *j = context;
    npy_intp row = task * j->each, end = j->rows - row < j->each ? j->rows : row + j->each;
    npy_intp line = j->dims[j->ndim - 1];
    (void)worker;
    feclearexcept(FE_ALL_EXCEPT);
    while (row < end) {
        npy_intp count = line - row % line < end - row ? line - row % line : end - row;
        run_line(j, row, count);
        row += count;
    }
    if (fetestexcept(FE_DIVBYZERO | FE_OVERFLOW | FE_INVALID)) {
        atomic_store(&j->raised, 1);
    }
}

/* ------------------------------------------------------------------------------ its space */

static bool is_solver(const job *j)
{
    return j->kind >= NPA_ROWS_ELIMINATION; /* or what comes after it */
}

static bool measure_row(job *j)
{
    const PyUFuncObject *u = j->u;
    j->ncores = u->core_num_dim_ix;
    for (int k = 0; k < j->n; k++) {
        int first = j->given[k] ? PyArray_NDIM(j->arrays[k]) - u->core_num_dims[k] : 0;
        for (int i = 0; j->given[k] && i < u->core_num_dims[k]; i++) {
            npy_intp *core = core_of(j, k, i),
                     extent = PyArray_DIM(j->arrays[k], j->axes[k][first + i]);
            if (*core != 0 && *core != extent) {
                return false;
            }
            *core = extent;
        }
    }
    for (int i = 0; i < j->ncores; i++) {
        if (u->core_dim_sizes[i] >= 0 && j->cores[i] != u->core_dim_sizes[i]) {
            return false;
        }
        if (j->cores[i] == 0 && !is_solver(j)) {
            return false;
        }
        /* The lesser extent of a matrix, as many as it has singular values */
        if (j->cores[i] == 0) {
            j->cores[i] = j->cores[0] < j->cores[1] ? j->cores[0] : j->cores[1];
        }
    }
    return true;
}

/* Whether some of it lies in our memory: NumPy would have to be shown it, and the call to go by way
 * of Python. */
static bool any_home(const job *j)
{
    bool any = false;
    for (int k = 0; k < j->n; k++) {
        any |= j->given[k] && npa_buffer_of(j->arrays[k]) != NULL;
    }
    return any;
}

/* The space that the operands broadcast to, and that of a given result. */
static bool measure_space(job *j)
{
    for (int k = 0; k < j->u->nin; k++) {
        int outer = j->given[k] ? PyArray_NDIM(j->arrays[k]) - j->u->core_num_dims[k] : 0;
        j->ndim = outer > j->ndim ? outer : j->ndim;
    }
    for (int i = 0; i < j->ndim; i++) {
        j->dims[i] = 1;
    }
    j->rows = 1;
    for (int k = 0; k < j->n; k++) {
        int outer = j->given[k] ? PyArray_NDIM(j->arrays[k]) - j->u->core_num_dims[k] : 0;
        int shift = j->ndim - outer;
        for (int i = 0; j->given[k] && i < outer; i++) {
            npy_intp extent = PyArray_DIM(j->arrays[k], j->axes[k][i]), *all = &j->dims[i + shift];
            if (extent != *all && (k >= j->u->nin || (extent != 1 && *all != 1))) {
                return false;
            }
            *all = extent != 1 ? extent : *all;
        }
        if (k >= j->u->nin && j->given[k] && shift != 0) {
            return false;
        }
    }
    for (int i = 0; i < j->ndim; i++) {
        j->rows *= j->dims[i];
    }
    bool columns = j->small && j->kind == NPA_ROWS_ELIMINATION;
    return j->rows > 1 || j->kind == NPA_ROWS_TRANSFORM || j->whole || columns || any_home(j);
}

/* Whether BLAS computes a row, and with threads of its own. */
static bool has_threads(const job *j)
{
    npy_intp all = 1, longest = 0, most = costs[j->kind].most;
    int type = j->u->types[(npy_intp)j->loop * j->n];
    for (int i = 0; i < j->ncores; i++) {
        all *= j->cores[i];
        longest = j->cores[i] > longest ? j->cores[i] : longest;
    }
    if (is_solver(j)) {
        return longest > most;
    }
    bool is_complex = type == NPY_CFLOAT || type == NPY_CDOUBLE;
    return j->kind != NPA_ROWS_TRANSFORM &&
           (type == NPY_FLOAT || type == NPY_DOUBLE || is_complex) &&
           all > (is_complex ? most / 4 : most);
}

/* ns, of all rows */
static double cost(job *j)
{
    double elements = 0;
    for (int k = 0; k < j->n; k++) {
        double size = 1;
        for (int i = 0; i < j->u->core_num_dims[k]; i++) {
            size *= (double)*core_of(j, k, i);
        }
        elements += size;
    }
    if (j->whole) { /* a term of 32 bits, with vectors of 64 bytes (Zen 5) */
        return (double)j->rows * 0.05 * (double)j->cores[0] * (double)j->cores[1] *
               (double)j->cores[2];
    }
    double times = is_solver(j)         ? (double)j->cores[0]
                   : j->kind == NPA_ROWS_PRODUCT ? (double)j->cores[1]
                                        : 1;
    return (double)j->rows * (costs[j->kind].fixed + costs[j->kind].each * elements * times);
}

/* Whether that is little beside what it takes to show the operands. ns: the cost, which of matrices
 * that BLAS multiplies is much less. */
static bool is_short(const job *j, double ns)
{
    return j->kind != NPA_ROWS_PRODUCT
               ? ns < MOST_HOME_NS
               : (double)j->rows * (double)j->cores[0] * (double)j->cores[1] *
                         (double)j->cores[2] < MOST_HOME;
}

/* Whether NumPy would make its results in the order of the axes, as ours are. */
static bool in_order(const job *j)
{
    for (int k = 0; k < j->u->nin; k++) {
        npy_intp before = NPY_MAX_INTP;
        for (int i = 0; i < j->ndim; i++) {
            npy_intp step = j->steps[k][i];
            if (j->dims[i] > 1 && step != 0) {
                if (step < 0 || step > before) {
                    return false;
                }
                before = step;
            }
        }
    }
    return true;
}

static void set_steps(job *j, int k)
{
    PyArrayObject *a = j->arrays[k];
    int outer = PyArray_NDIM(a) - j->u->core_num_dims[k], shift = j->ndim - outer;
    for (int i = 0; i < outer; i++) {
        int axis = j->axes[k][i];
        j->steps[k][i + shift] = PyArray_DIM(a, axis) > 1 ? PyArray_STRIDE(a, axis) : 0;
    }
}

static bool make_results(job *j)
{
    bool good = true;
    for (int k = j->u->nin; good && k < j->n; k++) {
        npy_intp dims[2 * NPA_MAX_DIMS];
        int ndim = j->ndim;
        if (j->given[k]) {
            continue;
        }
        memcpy(dims, j->dims, sizeof *dims * (size_t)ndim);
        for (int i = 0; i < j->u->core_num_dims[k]; i++) {
            dims[ndim++] = *core_of(j, k, i);
        }
        if (ndim == 0) {
            return false; /* a scalar */
        }
        PyObject *made =
            npa_new_result(j->u->types[(npy_intp)j->loop * j->n + k], ndim, dims, &j->data[k]);
        j->arrays[k] = (PyArrayObject *)made;
        good = made != NULL;
    }
    for (int k = j->u->nin; good && k < j->n; k++) {
        set_steps(j, k);
    }
    return good;
}

/* Neighbouring axes that all operands step through as through one are one. */
static void join_axes(job *j)
{
    int last = 0;
    j->dims[0] = j->ndim > 0 ? j->dims[0] : 1;
    for (int i = 1; i < j->ndim; i++) {
        bool one = true;
        for (int k = 0; k < j->n; k++) {
            one &= j->steps[k][last] == j->steps[k][i] * j->dims[i];
        }
        last += !one;
        j->dims[last] = one ? j->dims[last] * j->dims[i] : j->dims[i];
        for (int k = 0; k < j->n; k++) {
            j->steps[k][last] = j->steps[k][i];
        }
    }
    j->ndim = last + 1;
}
static void set_core_steps(job *j)
{
    for (int k = 0; k < j->n; k++) {
        int ncores = j->u->core_num_dims[k],
            first = j->arrays[k] != NULL ? PyArray_NDIM(j->arrays[k]) - ncores : 0;
        for (int i = 0; i < ncores; i++) {
            bool own = j->given[k];
            int axis = own ? j->axes[k][first + i] : first + i;
            j->core_steps[j->ncore_steps++] = PyArray_STRIDE(j->arrays[k], axis);
        }
    }
}

/* ----------------------------------------------------------------------------- all threads */

/* Rows of one kind, which one thread does or all do. Where they are short, all may lose: BLAS asks
 * for its buffers under a lock. One thread's turns in a trial are ours, to be measured; else they
 * are NumPy's. */
typedef struct {
    uint64_t key;
    npa_choice choice;
} record;
enum { RECORDS = 256 };
const npa_choice_rules npa_rows_rules = {0, 1, 64, {4096, 4096}};

static record records[RECORDS];

PyObject *npa_rows_forget(PyObject *module, PyObject *nothing)
{
    (void)module, (void)nothing;
    memset(records, 0, sizeof records);
    Py_RETURN_NONE;
}

npa_choice *npa_rows_choice(uint64_t key)
{
    record *r = &records[key % RECORDS];
    if (r->key != key) {
        *r = (record){.key = key};
        npa_choice_decide(&r->choice, &npa_rows_rules, true);
    }
    return &r->choice;
}

static npa_choice *find_choice(const job *j)
{
    struct {
        uintptr_t u;
        npy_intp loop, size, cores[NPA_ROWS_CORES], steps[NPA_ROWS_STEPS];
    } of = {(uintptr_t)j->u, j->loop, 63 - __builtin_clzll((unsigned long long)j->rows), {0}, {0}};
    memcpy(of.cores, j->cores, sizeof of.cores);
    for (int k = 0, at = 0; k < j->u->nin; k++) {
        for (int i = 0, n = j->u->core_num_dims[k]; j->given[k] && i < n; i++) {
            of.steps[at++] =
                PyArray_STRIDE(j->arrays[k], j->axes[k][PyArray_NDIM(j->arrays[k]) - n + i]);
        }
    }
    return npa_rows_choice(npa_hash((char *)&of, sizeof of));
}

enum choice { NUMPY, ONE, ALL };

/* ns: of a row; 0: not measured. The number of rows is about the same in all calls of a kind. */
static void note_time(npa_choice *c, enum choice how, double ns)
{
    enum { PARTS = 1024 };
    enum npa_way way = how == ALL ? NPA_WAY_OTHER : NPA_WAY_USUAL;
    if (npa_choice_took(c, &npa_rows_rules, way, (uint64_t)(PARTS * ns), ns > 0)) {
        npa_choice_decide(c, &npa_rows_rules, true);
    }
}

static enum choice choose(npa_choice *c)
{
    if (npa_choice_way(c, &npa_rows_rules) == NPA_WAY_OTHER) {
        return ALL;
    }
    bool trial = c->on_trial;
    if (!trial) { /* by NumPy; how long that takes is not asked */
        note_time(c, ONE, 0);
    }
    return trial ? ONE : NUMPY;
}

/* Where the operands lie, and a result that is one of them. */
static bool open_all(job *j, npa_opened *o)
{
    PyArrayObject *arrays[NPA_ROWS_MOST] = {NULL};
    int n = 0, places[NPA_ROWS_MOST];
    unsigned written = 0;
    for (int k = 0; k < j->n; k++) {
        if (j->given[k]) {
            written |= (unsigned)(k >= j->u->nin) << n;
            arrays[n] = j->arrays[k], places[n++] = k;
        }
    }
    bool good = n <= NPA_MOST_OPENED && npa_open(o, arrays, n, written) == 0;
    for (int i = 0; good && i < n; i++) {
        j->data[places[i]] = o->at[i];
    }
    return good;
}

/* Whether it is one call of a loop of NumPy's, as NumPy would do it. */
static bool is_numpys(const job *j, enum choice how)
{
    return how == ONE && j->rows == 1 && !j->whole && !j->small && j->kind != NPA_ROWS_TRANSFORM;
}

static void note(const job *j, double seconds)
{
    const char *reason = j->kind == NPA_ROWS_PRODUCT ? "matrix product" : "generalised ufunc";
    if (npa_note_fallback((PyObject *)j->u, reason, seconds) < 0) {
        PyErr_Clear(); /* it is only not counted */
    }
}

static bool run_rows(job *j, npa_choice *c, enum choice how, double ns)
{
    npa_opened o;
    join_axes(j);
    set_core_steps(j);
    if (!open_all(j, &o)) {
        return false;
    }
    npy_intp each = how == ALL ? (npy_intp)(TASK_NS * (double)j->rows / ns) + 1 : j->rows;
    j->each = j->kind == NPA_ROWS_TRANSFORM ? (each + TOGETHER - 1) / TOGETHER * TOGETHER : each;
    bool numpys = is_numpys(j, how);
    int before = npa_now(numpys ? NPA_IN_NUMPY : NPA_IN_KERNELS);
    double begin = npa_seconds();
    if (j->whole) {
        npy_intp all = how == ALL ? (npy_intp)(TASK_NS * (double)(j->rows * j->cores[0]) / ns)
                                  : j->cores[0];
        j->each = all + 4 - all % 4;
        npa_pool_run(run_part, j, j->rows * ((j->cores[0] + j->each - 1) / j->each), NULL);
    } else {
        npa_pool_run(run, j, (j->rows + j->each - 1) / j->each, NULL);
    }
    if (c != NULL) {
        note_time(c, how, 1e9 * (npa_seconds() - begin) / (double)j->rows);
    }
    npa_close(&o);
    npa_now(before);
    if (numpys && !atomic_load(&j->raised)) {
        note(j, npa_seconds() - begin);
    }
    if (atomic_load(&j->raised) && c == NULL) {
        return false;
    }
    /* NumPy does it again, and tells of it; so it may be next time */
    if (atomic_load(&j->raised)) {
        *c = (npa_choice){.left = npa_rows_rules.kept};
        return false;
    }
    return true;
}

static PyObject *results(job *j, bool good)
{
    int nout = j->u->nout, first = j->u->nin;
    PyObject *all = good ? PyTuple_New(nout) : NULL, *one;
    for (int k = first; k < j->n; k++) {
        PyObject *result = (PyObject *)j->arrays[k];
        if (j->given[k]) {
            Py_INCREF(result);
        }
        if (all != NULL) {
            PyTuple_SET_ITEM(all, k - first, result);
        } else {
            Py_XDECREF(result);
        }
    }
    if (all == NULL || nout > 1) {
        return all;
    }
    one = Py_XNewRef(PyTuple_GET_ITEM(all, 0));
    Py_DECREF(all);
    return one;
}

/* Whether an operand is that many small matrices. */
static bool is_stack(PyObject *o)
{
    PyArrayObject *a = (PyArrayObject *)o;
    int n = PyArray_Check(o) ? PyArray_NDIM(a) : 0;
    return n > 2 && PyArray_DIM(a, n - 1) <= NPA_SMALL_MATRIX &&
           PyArray_DIM(a, n - 2) <= NPA_SMALL_MATRIX &&
           PyArray_SIZE(a) >= LEAST_SMALL * PyArray_DIM(a, n - 1) * PyArray_DIM(a, n - 2);
}

/* Whether an operand has so many rows that a look at the call may pay. */
static bool has_rows(const PyUFuncObject *u, enum npa_rows_kind kind, PyObject *const *args,
                     Py_ssize_t n)
{
    npy_intp least = kind >= NPA_ROWS_ELIMINATION ? LEAST_OF_SOLVERS : LEAST_BYTES;
    if (kind == NPA_ROWS_PRODUCT && n >= 2 &&
        (is_stack(args[0]) || is_stack(args[1]) ||
         (npa_is_of_integers(args[0], NPA_MAX_DIMS) &&
          npa_is_of_integers(args[1], NPA_MAX_DIMS)))) {
        return true;
    }
    for (int k = 0; k < u->nin && k < n; k++) {
        PyArrayObject *a = (PyArrayObject *)args[k];
        int outer = PyArray_Check(args[k]) ? PyArray_NDIM(a) - u->core_num_dims[k] : -1;
        bool columns = kind == NPA_ROWS_ELIMINATION && k == 1 && outer == 0 && /* of few rows */
                       PyArray_DIM(a, 0) <= NPA_MOST_FACTORED;
        bool one = kind == NPA_ROWS_TRANSFORM || columns ||
                   (outer == 0 && npa_buffer_of(a) != NULL);
        if (outer >= !one && PyArray_NBYTES(a) >= least) {
            return true;
        }
    }
    return false;
}

static PyObject *run_by_rows(PyUFuncObject *u, enum npa_rows_kind kind, PyObject *const *args,
                             Py_ssize_t n, PyObject *names)
{
    if (kind == NPA_ROWS_OTHER || !has_rows(u, kind, args, n) || npa_here != NULL) {
        return NULL;
    }
    job j = {.u = u, .n = u->nargs, .kind = kind};
    if (npa_asks_underflow() || !npa_rows_read(&j, args, n, names) || !measure_row(&j)) {
        return NULL;
    }
    int type = u->types[(npy_intp)j.loop * j.n];
    j.whole = kind == NPA_ROWS_PRODUCT && PyTypeNum_ISINTEGER(type);
    j.small = npa_rows_are_small(&j, type);
    if (!measure_space(&j)) {
        return NULL;
    }
    double ns = cost(&j);
    bool own = j.small || j.whole; /* else a loop of NumPy's */
    bool alone = npa_pool_size() < 2 || ns < LEAST_NS || (j.rows == 1 && !j.whole);
    npa_choice *c = !own && !alone && !has_threads(&j) ? find_choice(&j) : NULL;
    enum choice how = c != NULL ? choose(c) : !own ? NUMPY : alone ? ONE : ALL;
    if (how == NUMPY && ((is_short(&j, ns) && any_home(&j)) ||
                         (kind == NPA_ROWS_TRANSFORM && npa_rows_share_places(&j)))) {
        how = ONE;
    }
    if (how == NUMPY) {
        return NULL;
    }
    PyArrayObject *out = j.given[j.n - 1] ? j.arrays[j.n - 1] : NULL;
    bool good = true;
    for (int k = 0; good && k < u->nin; k++) {
        if (j.given[k]) {
            set_steps(&j, k);
            good = out == NULL || npa_apart(j.arrays[k], out);
        }
    }
    good = good && (out != NULL || in_order(&j)) && make_results(&j);
    return results(&j, good && run_rows(&j, c, how, ns));
}

PyObject *npa_rows(PyUFuncObject *u, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    enum npa_rows_kind kind = npa_rows_kind_of(u);
    bool product = kind == NPA_ROWS_PRODUCT && n == 2 && names == NULL;
    bool by_vector = product && (is_stack(args[0]) || is_stack(args[1])) &&
                     npa_has_short_vector(args);
    if (by_vector || (product && npa_has_vector(args))) {
        return npa_multiply_vector(u, args);
    }
    PyObject *made = product ? npa_matmul_unseen(args) : NULL;
    return made != NULL || PyErr_Occurred() ? made : run_by_rows(u, kind, args, n, names);
}
