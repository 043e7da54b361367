/* loops.c: which inner loop of a ufunc runs; one of our own where that gives the same faster. See
 * Note [Loops] at the end. */
#include "loops/primitive.h"
#include "loops/loops.h"

#include <fenv.h>
#include <string.h>

/* Integers modulo one number. NumPy's loop divides each by itself; its loop for floor_divide
 * multiplies many at a time by what stands for the divisor. */
typedef struct {
    PyUFuncGenericFunction remainder, divide; /* NumPy's */
    void *remainder_data, *divide_data;
} division;

enum { BLOCK = 512 };

#define REMAINDER(T, U)                                                                            \
    NPA_EACH_PROCESSOR static void masked_##T(const char *x, npy_intp step, char *out,             \
                                              npy_intp out_step, npy_intp n, T d)                  \
    {                                                                                              \
        if (step == sizeof(T) && out_step == sizeof(T)) {                                          \
            step = out_step = sizeof(T); /* a loop of its own */                                   \
            for (npy_intp i = 0; i < n; i++) {                                                     \
                T v;                                                                               \
                memcpy(&v, x + i * (npy_intp)sizeof v, sizeof v);                                  \
                v &= d - 1;                                                                        \
                memcpy(out + i * (npy_intp)sizeof v, &v, sizeof v);                                \
            }                                                                                      \
            return;                                                                                \
        }                                                                                          \
        for (npy_intp i = 0; i < n; i++) {                                                         \
            T v;                                                                                   \
            memcpy(&v, x + i * step, sizeof v);                                                    \
            v &= d - 1;                                                                            \
            memcpy(out + i * out_step, &v, sizeof v);                                              \
        }                                                                                          \
    }                                                                                              \
    NPA_EACH_PROCESSOR static void left_##T(T *x, const T *quotient, npy_intp n, T d)              \
    {                                                                                              \
        for (npy_intp i = 0; i < n; i++) {                                                         \
            x[i] = (T)((U)x[i] - (U)quotient[i] * (U)d);                                           \
        }                                                                                          \
    }                                                                                              \
    static void remainder_##T(char **args, const npy_intp *count, const npy_intp *steps,           \
                              void *data)                                                          \
    {                                                                                              \
        const division *by = data;                                                                 \
        T d, x[BLOCK] __attribute__((aligned(64))), quotient[BLOCK] __attribute__((aligned(64)));  \
        npy_intp n = *count;                                                                       \
        memcpy(&d, args[1], sizeof d);                                                             \
        if (steps[1] != 0 || n < 4 || d == 0 || d == (T)-1) {                                      \
            by->remainder(args, count, steps, by->remainder_data);                                 \
            return;                                                                                \
        }                                                                                          \
        if (d > 0 && (d & (d - 1)) == 0) {                                                         \
            masked_##T(args[0], steps[0], args[2], steps[2], n, d);                                \
            return;                                                                                \
        }                                                                                          \
        for (npy_intp at = 0; at < n; at += BLOCK) {                                               \
            npy_intp m = n - at < BLOCK ? n - at : BLOCK;                                          \
            char *p[3] = {(char *)x, (char *)&d, (char *)quotient};                                \
            const npy_intp one[3] = {sizeof(T), 0, sizeof(T)};                                     \
            npa_pack((char *)x, args[0] + at * steps[0], steps[0], m, sizeof(T));                  \
            by->divide(p, &m, one, by->divide_data);                                               \
            left_##T(x, quotient, m, d);                                                           \
            npa_unpack(args[2] + at * steps[2], steps[2], (const char *)x, m, sizeof(T));          \
        }                                                                                          \
    }
REMAINDER(int32_t, uint32_t)
REMAINDER(int64_t, uint64_t)
REMAINDER(uint32_t, uint32_t)
REMAINDER(uint64_t, uint64_t)

static const struct { int type; PyUFuncGenericFunction loop; } remainders[] = {
    {NPY_INT, remainder_int32_t}, {NPY_LONG, remainder_int64_t}, {NPY_UINT, remainder_uint32_t},
    {NPY_ULONG, remainder_uint64_t}};
static division divisions[sizeof remainders / sizeof *remainders];

static bool find(PyUFuncObject *u, const int *types, PyUFuncGenericFunction *loop, void **data)
{
    for (int i = 0; i < u->ntypes && u->functions != NULL; i++) {
        const char *row = u->types + (size_t)i * (size_t)u->nargs;
        int k = 0;
        while (k < u->nargs && npa_canonical(row[k]) == npa_canonical(types[k])) {
            k++;
        }
        if (k == u->nargs && u->functions[i] != NULL) {
            *loop = u->functions[i], *data = u->data != NULL ? (void *)u->data[i] : NULL;
            return true;
        }
    }
    return false;
}

static bool find_remainder(int which, PyUFuncGenericFunction *loop, void **data)
{
    division *by = &divisions[which];
    if (by->divide == NULL) {
        int type = remainders[which].type, types[] = {type, type, type};
        PyObject *module = PyImport_ImportModule("numpy");
        PyObject *u = module != NULL ? PyObject_GetAttrString(module, "floor_divide") : NULL;
        bool found = u != NULL && Py_IS_TYPE(u, &PyUFunc_Type) &&
                     find((PyUFuncObject *)u, types, &by->divide, &by->divide_data);
        PyErr_Clear();
        Py_XDECREF(module), Py_XDECREF(u);
        if (!found) {
            return false;
        }
        by->remainder = *loop, by->remainder_data = *data;
    }
    *loop = remainders[which].loop, *data = by;
    return true;
}

/* ----------------------------------------------------------------------- results that lie apart */

/* NumPy's loop of one input, whose results have that size. */
typedef struct {
    PyUFuncGenericFunction numpys;
    void *data;
    npy_intp size;
} unary;
enum { UNARIES = 64, WIDEST = 8 };
static unary unaries[UNARIES];

/* NumPy's vector loops (2.4) of conditions of floats, such as isnan, write to wrong places where
 * results don't lie one behind the other; negative reads some of what lies apart from wrong ones,
 * too, which NumPy's own iterator hardly ever asks for, but ours does. */
static void run_apart(char **args, const npy_intp *count, const npy_intp *steps, void *data)
{
    const unary *u = data;
    _Alignas(WIDEST) char found[BLOCK * WIDEST];
    if (steps[1] == u->size) {
        u->numpys(args, count, steps, u->data);
        return;
    }
    for (npy_intp at = 0; at < *count; at += BLOCK) {
        npy_intp m = *count - at < BLOCK ? *count - at : BLOCK;
        char *p[2] = {args[0] + at * steps[0], found};
        const npy_intp one[2] = {steps[0], u->size};
        u->numpys(p, &m, one, u->data);
        npa_unpack(args[1] + at * steps[1], steps[1], found, m, (int)u->size);
    }
}

static bool is_amiss_apart(const PyUFuncObject *u, const int *types)
{
    bool real = types[0] == NPY_FLOAT || types[0] == NPY_DOUBLE;
    bool negative = strcmp(u->name, "negative") == 0 && u->obj == NULL && types[1] == types[0];
    return u->nargs == 2 && ((real && types[1] == NPY_BOOL) ||
                             (negative && (real || PyTypeNum_ISSIGNED(types[0])) &&
                              npa_item_sizes[types[1]] <= WIDEST));
}

/* False: there are too many. */
static bool find_unary(int type, PyUFuncGenericFunction *loop, void **data)
{
    int i = 0;
    while (i < UNARIES && unaries[i].numpys != NULL &&
           (unaries[i].numpys != *loop || unaries[i].data != *data)) {
        i++;
    }
    if (i == UNARIES) {
        return false;
    }
    unaries[i] = (unary){.numpys = *loop, .data = *data, .size = npa_item_sizes[type]};
    *loop = run_apart, *data = &unaries[i];
    return true;
}

bool npa_is_numpys_ufunc(PyUFuncObject *u)
{
    PyObject *module = PyImport_ImportModule("numpy");
    PyObject *named = module != NULL ? PyObject_GetAttrString(module, u->name) : NULL;
    PyErr_Clear();
    Py_XDECREF(module), Py_XDECREF(named);
    return named == (PyObject *)u;
}

bool npa_find_loop(PyUFuncObject *u, const int *types, PyUFuncGenericFunction *loop, void **data)
{
    if (!find(u, types, loop, data)) {
        return false;
    }
    if (is_amiss_apart(u, types)) {
        return find_unary(types[1], loop, data);
    }
    bool remainder = strcmp(u->name, "remainder") == 0 && u->obj == NULL;
    for (int i = 0; remainder && i < (int)(sizeof remainders / sizeof *remainders); i++) {
        if (remainders[i].type == npa_canonical(types[0])) {
            find_remainder(i, loop, data);
        }
    }
    npa_take_exact_loop(u, types, loop, data);
    return true;
}

/* ----------------------------------------------------------------------------------- primitives */

/* A loop that is a primitive where elements lie one behind the other, or an input is one element
 * for all. */
enum { NIN = 2, DENSE_LOOPS = 128 };
typedef struct {
    PyUFuncGenericFunction numpys; /* for all else */
    void *data;
    int nin;
    npy_intp size[NIN + 1];
    const npa_primitive *of[1 << NIN]; /* by which inputs are one element (bit k: number k) */
} dense;
static dense dense_loops[DENSE_LOOPS];
static int ndense;

/* A primitive returns what it warns of; what the processor raises meanwhile means nothing. */
static void run_primitive(const dense *d, const npa_primitive *p, char **args,
                          const npy_intp *steps, npy_intp n)
{
    npa_flags before = npa_flags_keep();
    unsigned told = npa_run_primitive(p, args, steps, d->nin + 1, n);
    unsigned raised = (told & 1 ? FE_DIVBYZERO : 0) | (told & 2 ? FE_OVERFLOW : 0) |
                      (told & 4 ? FE_UNDERFLOW : 0) | (told & 8 ? FE_INVALID : 0);
    npa_flags_restore(before, (int)raised);
}

static void run_dense(char **args, const npy_intp *count, const npy_intp *steps, void *data)
{
    const dense *d = data;
    unsigned still = 0;
    bool fits = *count >= NPA_LEAST_DENSE;
    for (int k = 0; k <= d->nin; k++) {
        still |= k < d->nin && steps[k] == 0 ? 1u << k : 0;
        fits &= steps[k] == d->size[k] || (still >> k & 1);
    }
    if (fits && d->of[still] != NULL) {
        run_primitive(d, d->of[still], args, steps, *count);
    } else {
        d->numpys(args, count, steps, d->data);
    }
}

/* Of these NumPy's loops are as fast, and which of two zeros, or NaNs, stays hangs on its place. */
bool npa_is_pick(const char *name)
{
    return strcmp(name, "maximum") == 0 || strcmp(name, "minimum") == 0 ||
           strcmp(name, "fmax") == 0 || strcmp(name, "fmin") == 0;
}

bool npa_find_dense_loop(PyUFuncObject *u, const int *types, PyUFuncGenericFunction *loop,
                         void **data)
{
    int i = 0;
    while (i < ndense && (dense_loops[i].numpys != *loop || dense_loops[i].data != *data)) {
        i++;
    }
    if (i == ndense) {
        dense made = {.numpys = *loop, .data = *data, .nin = u->nin};
        if (u->nin > NIN || u->nout != 1 || ndense == DENSE_LOOPS ||
            npa_is_pick(u->name) || !npa_is_numpys_ufunc(u) ||
            !npa_exact_primitives(u->name, types, u->nin, made.of)) {
            return false;
        }
        for (int k = 0; k <= u->nin; k++) {
            made.size[k] = npa_item_sizes[npa_canonical(types[k])];
        }
        if (strcmp(u->name, "floor_divide") == 0 && PyTypeNum_ISINTEGER(types[0])) {
            made.of[2] = NULL; /* by one number: NumPy multiplies by its inverse */
        }
        dense_loops[ndense++] = made;
    }
    *loop = run_dense, *data = &dense_loops[i];
    return true;
}

/* Note [Loops]
 *
 * NumPy compiles some inner loops for no more than the processors that it must run on: `sqrt`,
 * `sign`, `copysign`, `logical_and` of floats take one or two elements at a time, `remainder` and
 * `floor_divide` call the C library for each. Block tier and kernels have primitives with the same
 * bits and warnings, so small calls take these, too. Sums and products are not among them: in the
 * first cache they would take a tenth less of such a call's time, elsewhere nothing. */
