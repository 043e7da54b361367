/* bins.c: np.bincount, and what np.histogram (histogram.c) counts. Counts are exact, so all threads
 * count, each in tables of its own; weights are added in NumPy's order, by one. */
#include "functions/functions.h"
#include "functions/bins.h"

#include <math.h>
#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

/* elements: of a task; widened at a time; bins of a task */
enum { PIECE = 1 << 15, BLOCK = 1 << 10, CHUNK = 1 << 15 };
enum { FEW = 1 << 11, TABLES = NPA_BIN_TABLES, WAYS = NPA_BIN_WAYS };

typedef npa_binning job;

static int64_t pieces_of(const job *j) { return (j->n + PIECE - 1) / PIECE; }

/* --------------------------------------------------------------------------------- any integers */

/* As npy_intp, in `room` or where they are; and the highest of them. */
#define INTEGERS(name, T, READ)                                                                    \
    NPA_EACH_PROCESSOR static void widen_##name(const T *x, npy_intp n, npy_intp *to)              \
    {                                                                                              \
        for (npy_intp i = 0; i < n; i++) {                                                         \
            to[i] = READ(x[i]);                                                                    \
        }                                                                                          \
    }                                                                                              \
    NPA_EACH_PROCESSOR static npy_intp highest_##name(const T *x, npy_intp n)                      \
    {                                                                                              \
        T high = 0, any = 0;                                                                       \
        for (npy_intp i = 0; i < n; i++) {                                                         \
            T value = READ(x[i]);                                                                  \
            high = value > high ? value : high;                                                    \
            any |= value;                                                                          \
        }                                                                                          \
        return (npy_intp)any < 0 ? -1 : (npy_intp)high;                                            \
    }

#define SAME(x) (x)
#define TRUTH(x) ((x) != 0)
#define EACH_TYPE(DO)                                                                             \
    DO(NPY_BOOL, truth, npy_ubyte, TRUTH) DO(NPY_BYTE, byte, npy_byte, SAME)                       \
    DO(NPY_UBYTE, ubyte, npy_ubyte, SAME) DO(NPY_SHORT, short, npy_short, SAME)                   \
    DO(NPY_USHORT, ushort, npy_ushort, SAME) DO(NPY_INT, int, npy_int, SAME)                      \
    DO(NPY_UINT, uint, npy_uint, SAME) DO(NPY_LONG, long, npy_long, SAME)                         \
    DO(NPY_LONGLONG, longlong, npy_longlong, SAME)
#define DEFINE(TYPE, name, T, READ) INTEGERS(name, T, READ)
EACH_TYPE(DEFINE)

static bool is_known(int type)
{
#define KNOWN(TYPE, name, T, READ) case TYPE: return sizeof(T) <= sizeof(npy_intp);
    switch (type) {
    EACH_TYPE(KNOWN)
    default: return false;
    }
}

static const npy_intp *widened(const job *j, npy_intp first, npy_intp n, npy_intp *room)
{
#define WIDEN(TYPE, name, T, READ)                                                                \
    case TYPE:                                                                                    \
        if (sizeof(T) == sizeof(npy_intp)) {                                                      \
            return (const npy_intp *)j->x + first;                                                \
        }                                                                                         \
        widen_##name((const T *)j->x + first, n, room);                                           \
        return room;
    switch (j->type) {
    EACH_TYPE(WIDEN)
    default: return room;
    }
}

static void find_highest(void *context, int64_t piece, int worker)
{
    job *j = context;
    npy_intp first = piece * PIECE, n = j->n - first < PIECE ? j->n - first : PIECE, high = 0;
    (void)worker;
#define HIGHEST(TYPE, name, T, READ)                                                               \
    case TYPE:                                                                                     \
        high = highest_##name((const T *)j->x + first, n);                                         \
        break;
    switch (j->type) {
    EACH_TYPE(HIGHEST)
    default: break;
    }
    npy_intp was = atomic_load(&j->highest);
    while (was >= 0 && (high < 0 || high > was) &&
           !atomic_compare_exchange_weak(&j->highest, &was, high)) {}
}

/* -------------------------------------------------------------------------------------- numbers */

/* As NumPy has it, step by step: a guess, which the edges put right. What is outside is in the one
 * behind the last. */
NPA_EACH_PROCESSOR static void guess(const double *x, npy_intp n, const job *j, npy_intp *to)
{
    double first = j->edges[0], last = j->edges[j->shown], width = last - first,
           bins = (double)j->shown;
    /* int32_t: which most processors make of doubles as vectors */
    int32_t outside = (int32_t)j->shown;
    for (npy_intp i = 0; i < n; i++) {
        bool in = (x[i] >= first) & (x[i] <= last);
        double inside = in ? x[i] : first;
        int32_t at = (int32_t)((inside - first) / width * bins);
        at -= at == outside;
        to[i] = in ? at : outside;
    }
}

NPA_EACH_PROCESSOR
static void put_right(const double *x, npy_intp n, const double *edges, npy_intp outside,
                      npy_intp *to)
{
    for (npy_intp i = 0; i < n; i++) {
        npy_intp at = to[i];
        at -= (x[i] < edges[at]) & (at != outside);
        at += (x[i] >= edges[at + 1]) & (at < outside - 1);
        to[i] = at;
    }
}

/* As many edges are not greater, less one, but the last bin has its right edge. */
static void find_bins(const double *x, npy_intp n, const job *j, npy_intp *to)
{
    double first = j->uneven->low, last = j->uneven->high;
    npa_find_in_buckets(j->uneven, x, n, true, to);
    for (npy_intp i = 0; i < n; i++) {
        bool in = (x[i] >= first) & (x[i] <= last);
        to[i] = !in ? j->shown : x[i] < last ? to[i] - 1 : j->shown - 1;
    }
}

/* At most BLOCK of them, as doubles: in `wide`, or where they are. */
static const double *as_doubles(const job *j, npy_intp first, npy_intp n, double *wide)
{
    if (j->type == NPY_DOUBLE) {
        return (const double *)j->x + first;
    }
    int size = npa_item_sizes[j->type];
    npa_cast(j->type, j->x + first * size, size, NPY_DOUBLE, (char *)wide, sizeof *wide, n);
    return wide;
}

static const npy_intp *binned(const job *j, npy_intp first, npy_intp n, npy_intp *room)
{
    double wide[BLOCK];
    const double *x = as_doubles(j, first, n, wide);
    if (j->uneven != NULL) {
        find_bins(x, n, j, room);
        return room;
    }
    guess(x, n, j, room);
    put_right(x, n, j->edges, j->shown, room);
    return room;
}

/* NaN where one is. */
NPA_EACH_PROCESSOR static void limits_of(const double *x, npy_intp n, double *low, double *high)
{
    double least = INFINITY, most = -INFINITY;
    int numbers = 1;
    for (npy_intp i = 0; i < n; i++) {
        least = x[i] < least ? x[i] : least;
        most = x[i] > most ? x[i] : most;
        numbers &= x[i] == x[i];
    }
    *low = numbers ? least : NAN, *high = numbers ? most : NAN;
}

/* Of `bins` parts of x each. */
static void find_limits(void *context, int64_t part, int worker)
{
    const job *j = context;
    double *found = (double *)j->found + 2 * part, wide[BLOCK], low, high;
    npy_intp first = j->n * part / j->bins, end = j->n * (part + 1) / j->bins;
    (void)worker;
    found[0] = INFINITY, found[1] = -INFINITY;
    for (npy_intp n; first < end; first += n) {
        n = end - first < BLOCK ? end - first : BLOCK;
        limits_of(as_doubles(j, first, n, wide), n, &low, &high);
        found[0] = low < found[0] || isnan(low) ? low : found[0];
        found[1] = high > found[1] || isnan(high) ? high : found[1];
    }
}

/* False: not all are finite, or not all are doubles. */
bool npa_bins_limits(job *j)
{
    enum { PARTS = 64 };
    double found[2 * PARTS];
    j->found = found, j->bins = PARTS, j->low = INFINITY, j->high = -INFINITY;
    npa_pool_run(find_limits, j, PARTS, NULL);
    for (int part = 0; part < PARTS; part++) {
        double low = found[2 * part], high = found[2 * part + 1];
        j->low = low < j->low || isnan(low) ? low : j->low;
        j->high = high > j->high || isnan(high) ? high : j->high;
        if (isnan(low)) {
            return false;
        }
    }
    double most = fabs(j->low) > fabs(j->high) ? fabs(j->low) : fabs(j->high);
    return isfinite(most) && (j->type == NPY_DOUBLE || most <= 9007199254740992.0);
}

/* --------------------------------------------------------------------------------------- counts */

/* Of equal neighbours each would wait for what the one before stored, so there are several tables:
 * ten bins take 0.55 to 0.65 of the time. */
static void count_block(const npy_intp *x, npy_intp n, uint32_t *table, npy_intp next)
{
    npy_intp i = 0;
    for (; i + WAYS <= n; i += WAYS) {
        table[x[i]]++;
        table[next + x[i + 1]]++;
        table[2 * next + x[i + 2]]++;
        table[3 * next + x[i + 3]]++;
    }
    for (; i < n; i++) {
        table[x[i]]++;
    }
}

static void count(void *context, int64_t piece, int worker)
{
    job *j = context;
    int own = 0;
    npy_intp room[BLOCK],
        end = (npy_intp)(piece + 1) * PIECE < j->n ? (npy_intp)(piece + 1) * PIECE : j->n;
    (void)worker;
    while (atomic_exchange(&j->busy[own], 1)) { /* there are as many as threads, at least */
        own = (own + 1) % j->ntables;
    }
    uint32_t *table = j->tables + own * j->ways * j->bins;
    if (!j->used[own]) {
        memset(table, 0, sizeof *table * (size_t)(j->ways * j->bins));
        j->used[own] = true;
    }
    for (npy_intp i = (npy_intp)piece * PIECE; i < end; i += BLOCK) {
        npy_intp n = end - i < BLOCK ? end - i : BLOCK;
        const npy_intp *x = j->edges != NULL || j->uneven != NULL ? binned(j, i, n, room)
                                                                  : widened(j, i, n, room);
        count_block(x, n, table, j->ways > 1 ? j->bins : 0);
    }
    atomic_store(&j->busy[own], 0);
}

NPA_EACH_PROCESSOR static void add_up(const uint32_t *table, npy_intp n, npy_intp *to)
{
    for (npy_intp i = 0; i < n; i++) {
        to[i] += table[i];
    }
}

static void sum_tables(void *context, int64_t task, int worker)
{
    const job *j = context;
    npy_intp *found = j->found, first = task * CHUNK,
             n = j->shown - first < CHUNK ? j->shown - first : CHUNK;
    (void)worker;
    memset(found + first, 0, sizeof *found * (size_t)n);
    for (int k = 0; k < j->ntables * j->ways; k++) {
        if (j->used[k / j->ways]) {
            add_up(j->tables + k * j->bins + first, n, found + first);
        }
    }
}

/* Where there are few elements for each bin, tables cost more than they are worth. */
bool npa_bins_count(job *j)
{
    int threads = npa_pool_size();
    bool shared = threads <= TABLES && pieces_of(j) > 1 && j->bins * threads <= j->n / 2;
    j->ntables = shared ? threads : 1;
    j->ways = j->bins <= FEW && j->bins * WAYS * 2 <= j->n ? WAYS : 1;
    j->tables = malloc(sizeof *j->tables * (size_t)j->ntables * (size_t)j->ways * (size_t)j->bins);
    if (j->tables == NULL) {
        return false;
    }
    for (int64_t piece = 0; piece < pieces_of(j) && !shared; piece++) {
        count(j, piece, 0);
    }
    if (shared) {
        npa_pool_run(count, j, pieces_of(j), NULL);
    }
    npa_pool_run(sum_tables, j, (j->shown + CHUNK - 1) / CHUNK, NULL);
    free(j->tables);
    return true;
}

/* -------------------------------------------------------------------------------------- weights */

/* By one thread. Two with half of the bins each, which both go through all elements, took as long
 * for a million of them, and 0.8 of the time for five. */
static void add(const job *j)
{
    npy_intp room[BLOCK];
    double *to = j->found;
    memset(to, 0, sizeof *to * (size_t)j->bins);
    for (npy_intp i = 0; i < j->n; i += BLOCK) {
        npy_intp n = j->n - i < BLOCK ? j->n - i : BLOCK;
        const npy_intp *x = widened(j, i, n, room);
        for (npy_intp k = 0; k < n; k++) {
            to[x[k]] += j->weights[i + k];
        }
    }
}

/* np.histogram's come by some thousand: each of these is added up by itself, then the sums, one
 * after the other. */
enum { SUMMED = 1 << 16, MOST_SUMS = 1 << 20 };

static void add_part(void *context, int64_t part, int worker)
{
    const job *j = context;
    npy_intp room[BLOCK], begin = (npy_intp)part * SUMMED,
                          end = begin + SUMMED < j->n ? begin + SUMMED : j->n;
    double *to = j->sums + part * j->bins;
    (void)worker;
    memset(to, 0, sizeof *to * (size_t)j->bins);
    for (npy_intp i = begin; i < end; i += BLOCK) {
        npy_intp n = end - i < BLOCK ? end - i : BLOCK;
        const npy_intp *x = binned(j, i, n, room);
        for (npy_intp k = 0; k < n; k++) {
            to[x[k]] += j->weights[i + k];
        }
    }
}

/* False: out of memory, or too much of it; or some sum is not finite, which NumPy may have to
 * tell. */
bool npa_bins_add_parts(job *j)
{
    npy_intp parts = (j->n + SUMMED - 1) / SUMMED;
    double *found = j->found;
    j->sums = parts * j->bins <= MOST_SUMS ? malloc(sizeof *j->sums * (size_t)(parts * j->bins))
                                           : NULL;
    if (j->sums == NULL) {
        return false;
    }
    npa_pool_run(add_part, j, parts, NULL);
    memset(found, 0, sizeof *found * (size_t)j->shown);
    bool finite = true;
    for (npy_intp part = 0; part < parts; part++) {
        for (npy_intp k = 0; k < j->shown; k++) {
            found[k] += j->sums[part * j->bins + k];
            finite &= isfinite(found[k]) != 0;
        }
    }
    free(j->sums);
    return finite;
}

/* ---------------------------------------------------------------------------------------- calls */

static PyArrayObject *vector_of(PyObject *o, int type)
{
    return PyArray_Check(o) && PyArray_NDIM((PyArrayObject *)o) == 1 ? npa_line_as(o, type) : NULL;
}

/* bincount(x, weights=None, minlength=0): the last two; false: NumPy's to look at. */
static bool read_rest(PyObject *const *args, Py_ssize_t n, PyObject *names, PyObject **weights,
                      npy_intp *least)
{
    static const char *const words[] = {"x", "weights", "minlength"};
    PyObject *given[3] = {NULL, Py_None, NULL};
    if (!npa_read_call(args, n, names, words, 3, given)) {
        return false;
    }
    PyObject *length = given[2];
    *weights = given[1], *least = 0;
    if (length != NULL && (PyLong_CheckExact(length) || PyArray_IsScalar(length, Integer))) {
        *least = PyNumber_AsSsize_t(length, PyExc_OverflowError);
        PyErr_Clear();
        length = NULL;
    }
    return length == NULL && *least >= 0;
}

static PyObject *computed(job *j)
{
    char *place;
    PyObject *made =
        npa_new_result(j->weights != NULL ? NPY_DOUBLE : NPY_INTP, 1, &j->bins, &place);
    if (made == NULL) {
        return NULL;
    }
    j->found = place;
    if (j->weights == NULL) {
        if (!npa_bins_count(j)) {
            Py_CLEAR(made);
        }
        return made;
    }
    add(j);
    return made;
}

/* Elements and bins, and nobody's errors. */
static PyObject *bincount(PyArrayObject *x, PyArrayObject *weights, npy_intp least)
{
    job j = {.x = PyArray_BYTES(x), .type = PyArray_TYPE(x), .n = PyArray_SIZE(x),
             .weights = weights != NULL ? PyArray_DATA(weights) : NULL};
    npa_pool_run(find_highest, &j, pieces_of(&j), NULL);
    npy_intp highest = j.highest;
    if (highest < 0 || highest >= j.n || least > j.n) {
        return NULL;
    }
    j.bins = j.shown = highest < least ? least : highest + 1;
    return computed(&j);
}

PyObject *npa_bincount(void *what, PyObject *self, PyObject *const *args, Py_ssize_t n,
                       PyObject *names)
{
    (void)what, (void)self;
    PyObject *weighed, *made = NULL;
    npy_intp least;
    PyArrayObject *given = n > 0 ? (PyArrayObject *)args[0] : NULL;
    if (given == NULL || !PyArray_Check(args[0]) || PyArray_SIZE(given) < NPA_BINS_LEAST ||
        PyArray_SIZE(given) > INT32_MAX || !is_known(PyArray_TYPE(given)) ||
        !read_rest(args, n, names, &weighed, &least)) {
        return NULL;
    }
    PyArrayObject *x = vector_of(args[0], PyArray_TYPE(given));
    PyArrayObject *weights = x != NULL && weighed != Py_None ? vector_of(weighed, NPY_DOUBLE)
                                                             : NULL;
    if (x != NULL &&
        (weighed == Py_None || (weights != NULL && PyArray_SIZE(weights) == PyArray_SIZE(x)))) {
        made = bincount(x, weights, least);
    }
    Py_XDECREF(weights);
    Py_XDECREF(x);
    return made;
}
