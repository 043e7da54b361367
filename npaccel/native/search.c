/* search.c: np.interp and searchsorted of many elements, on all threads. Each element's result
 * hangs on itself and the table alone, so it is NumPy's to the bit whoever computes it. */
#include "record.h"

#include <math.h>
#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

enum { LEAST = 1 << 14, CHUNK = 1 << 13 }; /* elements: worth waking somebody for; of a task */

/* An array as NumPy's loops take it, that waits for nothing; NULL: another. */
static PyArrayObject *line_of(PyObject *o, int type)
{
    PyArrayObject *a = (PyArrayObject *)o;
    bool good = (PyArray_CheckExact(o) || Py_IS_TYPE(o, npa_array_type)) && PyArray_TYPE(a) == type &&
                PyArray_IS_C_CONTIGUOUS(a) && PyArray_ISALIGNED(a) && PyArray_ISNOTSWAPPED(a) &&
                PyArray_NDIM(a) > 0 && !npa_waits(a);
    return good ? a : NULL;
}

/* With the GIL, so that nobody records meanwhile, and hides what workers read: they can't wait for it. */
static void on_all(npa_task task, void *job, npy_intp n)
{
    npa_pool_run(task, job, (n + CHUNK - 1) / CHUNK, NULL);
}

static npy_intp end_of(int64_t task, npy_intp n)
{
    npy_intp end = (npy_intp)(task + 1) * CHUNK;
    return end < n ? end : n;
}

/* ------------------------------------------------------------------------------- searchsorted */

/* The order of NumPy's searches: NaN comes last. */
#define LESS_INT(x, y) ((x) < (y))
#define LESS_FLOAT(x, y) (((x) < (y)) | (((y) != (y)) & ((x) == (x))))

enum { TOGETHER = 16 }; /* searches that go side by side: one waits for its table, others go on */

/* How many elements of a sorted table are less than x, or not greater, for each of TOGETHER. */
#define SEARCH(name, T, LESS)                                                                     \
    static bool is_sorted_##name(const T *a, npy_intp n)                                          \
    {                                                                                             \
        bool good = true;                                                                         \
        for (npy_intp i = 1; i < n; i++) {                                                        \
            good &= !(LESS(a[i], a[i - 1]));                                                      \
        }                                                                                         \
        return good;                                                                              \
    }                                                                                             \
    NPA_EACH_PROCESSOR static void left_##name(const T *a, npy_intp n, const T *x, npy_intp *at)  \
    {                                                                                             \
        memset(at, 0, TOGETHER * sizeof *at);                                                     \
        for (; n > 1; n -= n / 2) {                                                               \
            for (int k = 0; k < TOGETHER; k++) {                                                  \
                at[k] += n / 2 & -(npy_intp)(LESS(a[at[k] + n / 2 - 1], x[k]));                   \
            }                                                                                     \
        }                                                                                         \
        for (int k = 0; k < TOGETHER && n == 1; k++) {                                            \
            at[k] += LESS(a[at[k]], x[k]);                                                        \
        }                                                                                         \
    }                                                                                             \
    NPA_EACH_PROCESSOR static void right_##name(const T *a, npy_intp n, const T *x, npy_intp *at) \
    {                                                                                             \
        memset(at, 0, TOGETHER * sizeof *at);                                                     \
        for (; n > 1; n -= n / 2) {                                                               \
            for (int k = 0; k < TOGETHER; k++) {                                                  \
                at[k] += n / 2 & ((npy_intp)(LESS(x[k], a[at[k] + n / 2 - 1])) - 1);              \
            }                                                                                     \
        }                                                                                         \
        for (int k = 0; k < TOGETHER && n == 1; k++) {                                            \
            at[k] += !(LESS(x[k], a[at[k]]));                                                     \
        }                                                                                         \
    }                                                                                             \
    NPA_EACH_PROCESSOR static bool within_##name(const T *a, npy_intp n, npy_intp low, npy_intp high, \
                                                 const T *x, bool right)                          \
    {                                                                                             \
        bool in = true;                                                                           \
        for (int k = 0; k < TOGETHER && low > 0; k++) {                                           \
            in &= right ? !(LESS(x[k], a[low - 1])) : LESS(a[low - 1], x[k]);                     \
        }                                                                                         \
        for (int k = 0; k < TOGETHER && high < n; k++) {                                          \
            in &= right ? LESS(x[k], a[high]) : !(LESS(a[high], x[k]));                           \
        }                                                                                         \
        return in;                                                                                \
    }                                                                                             \
    /* near: where the ones before were found, as are those of what is sorted. */                  \
    static void find_##name(const T *a, npy_intp n, const T *x, bool right, npy_intp *at, npy_intp *near) \
    {                                                                                             \
        npy_intp low = 0, high = n;                                                               \
        for (npy_intp reach = 2; reach <= 32; reach *= 16) {                                      \
            npy_intp first = *near > 0 ? *near - 1 : 0, end = first + reach < n ? first + reach : n; \
            if (within_##name(a, n, first, end, x, right)) {                                      \
                low = first, high = end;                                                          \
                break;                                                                            \
            }                                                                                     \
        }                                                                                         \
        (right ? right_##name : left_##name)(a + low, high - low, x, at);                         \
        for (int k = 0; k < TOGETHER; k++) {                                                      \
            at[k] += low;                                                                         \
        }                                                                                         \
        *near = at[TOGETHER - 1];                                                                 \
    }                                                                                             \
    static void search_##name(void *context, int64_t task, int worker)                            \
    {                                                                                             \
        const search *s = context;                                                                \
        const T *a = s->table, *x = s->values;                                                    \
        npy_intp at[TOGETHER], near = 0;                                                          \
        (void)worker;                                                                             \
        for (npy_intp i = (npy_intp)task * CHUNK, end = end_of(task, s->n); i < end; i += TOGETHER) { \
            npy_intp left = end - i < TOGETHER ? end - i : TOGETHER;                              \
            T few[TOGETHER] = {0};                                                                \
            memcpy(few, x + i, (size_t)left * sizeof *few);                                       \
            find_##name(a, s->length, few, s->right, at, &near);                                  \
            memcpy(s->found + i, at, (size_t)left * sizeof *at);                                  \
        }                                                                                         \
    }

typedef struct {
    const void *table, *values;
    npy_intp length, n, *found;
    bool right;
} search;

SEARCH(double, double, LESS_FLOAT)
SEARCH(float, float, LESS_FLOAT)
SEARCH(long, npy_long, LESS_INT)
SEARCH(int, npy_int, LESS_INT)

#define KIND(TYPE, name, T)                                                                       \
    case TYPE: return is_sorted_##name(s->table, s->length) ? search_##name : NULL
static npa_task search_of(int type, const search *s)
{
    switch (type) {
    KIND(NPY_DOUBLE, double, double);
    KIND(NPY_FLOAT, float, float);
    KIND(NPY_LONG, long, npy_long);
    KIND(NPY_INT, int, npy_int);
    default: return NULL;
    }
}

/* 1: right, 0: left; -1: neither, or more is asked for. */
static int side_of(PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    PyObject *side = n > 1 ? args[1] : NULL, *sorter = n > 2 ? args[2] : Py_None;
    Py_ssize_t named = names != NULL ? PyTuple_GET_SIZE(names) : 0;
    for (Py_ssize_t k = 0; k < named; k++) {
        PyObject *name = PyTuple_GET_ITEM(names, k);
        if (PyUnicode_CompareWithASCIIString(name, "side") == 0) {
            side = args[n + k];
        } else if (PyUnicode_CompareWithASCIIString(name, "sorter") == 0) {
            sorter = args[n + k];
        } else {
            return -1;
        }
    }
    if (n > 3 || sorter != Py_None || (side != NULL && !PyUnicode_CheckExact(side))) {
        return -1;
    }
    bool right = side != NULL && PyUnicode_CompareWithASCIIString(side, "right") == 0;
    bool left = side == NULL || PyUnicode_CompareWithASCIIString(side, "left") == 0;
    return left || right ? right : -1;
}

PyObject *npa_search(void *what, PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)what;
    int type = PyArray_TYPE((PyArrayObject *)self), right = n >= 1 ? side_of(args, n, names) : -1;
    PyArrayObject *table = line_of(self, type), *values = n >= 1 ? line_of(args[0], type) : NULL;
    if (right < 0 || table == NULL || values == NULL || PyArray_NDIM(table) != 1 ||
        PyArray_SIZE(values) < LEAST || PyArray_SIZE(table) > 4 * PyArray_SIZE(values)) {
        return NULL;
    }
    search s = {PyArray_DATA(table), PyArray_DATA(values), PyArray_SIZE(table), PyArray_SIZE(values),
                NULL, right > 0};
    npa_task task = search_of(type, &s);
    char *place;
    PyObject *made = task != NULL ? npa_new_result(NPY_INTP, PyArray_NDIM(values), PyArray_DIMS(values), &place)
                                  : NULL;
    if (made != NULL) {
        s.found = (npy_intp *)place;
        on_all(task, &s, s.n);
    }
    return made;
}

/* ------------------------------------------------------------------------------------- interp */

typedef struct {
    const double *xp, *fp, *x;
    double *slopes; /* NULL where there are more than elements */
    double left, right, *found;
    npy_intp length, n;
    double *places; /* xp, and what is behind it; NULL: there are no buckets */
    int32_t *first; /* of each bucket: the last place that is in none from it on, or 0 */
    double scale;
} interpolation;

static double slope_of(const interpolation *p, npy_intp j)
{
    return (p->fp[j + 1] - p->fp[j]) / (p->xp[j + 1] - p->xp[j]);
}

/* As NumPy has it, term by term. j: the last place whose xp is not greater than x. */
static double between(const interpolation *p, npy_intp j, double x)
{
    if (j == p->length - 1 || p->xp[j] == x) {
        return p->fp[j];
    }
    double slope = p->slopes != NULL ? p->slopes[j] : slope_of(p, j);
    double y = slope * (x - p->xp[j]) + p->fp[j];
    if (isnan(y)) {
        y = slope * (x - p->xp[j + 1]) + p->fp[j + 1];
        y = isnan(y) && p->fp[j] == p->fp[j + 1] ? p->fp[j] : y;
    }
    return y;
}

/* Where all lie between two neighbours, as most do where x is sorted; false: they do not, or some are no
 * numbers. */
static bool all_between(const interpolation *p, npy_intp j, const double *x, double *y)
{
    double from = p->xp[j], to = p->xp[j + 1], start = p->fp[j];
    double slope = p->slopes != NULL ? p->slopes[j] : slope_of(p, j);
    int good = 0;
    for (int k = 0; k < TOGETHER; k++) {
        double found = slope * (x[k] - from) + start;
        y[k] = x[k] == from ? start : found;
        good += (x[k] >= from) & (x[k] < to) & (found == found);
    }
    return good == TOGETHER;
}

/* In buckets of equal width, so that a search begins next to where it ends: whatever rounding does, of two numbers
 * the greater one is in no bucket before the other's. */
static npy_intp bucket_of(const interpolation *p, double x) { return (npy_intp)((x - p->xp[0]) * p->scale); }

static void fill_buckets(interpolation *p, npy_intp buckets)
{
    npy_intp filled = 0;
    for (npy_intp j = 0; j < p->length; j++) {
        for (npy_intp b = bucket_of(p, p->xp[j]); filled <= b; filled++) {
            p->first[filled] = (int32_t)(j > 0 ? j - 1 : 0);
        }
    }
    for (; filled <= buckets + 1; filled++) {
        p->first[filled] = (int32_t)(p->length - 1);
    }
    memcpy(p->places, p->xp, sizeof *p->places * (size_t)p->length);
    p->places[p->length] = p->places[p->length + 1] = INFINITY;
}

static void make_buckets(interpolation *p)
{
    enum { MOST_PLACES = 1 << 20 };
    npy_intp buckets = 2 * p->length;
    p->scale = (double)buckets / (p->xp[p->length - 1] - p->xp[0]);
    if (p->length > MOST_PLACES || p->length > p->n / 4 || !isfinite(p->scale) ||
        !isfinite((p->xp[p->length - 1] - p->xp[0]) * p->scale) || p->scale <= 0) {
        return;
    }
    p->places = malloc(sizeof *p->places * (size_t)(p->length + 2) + sizeof *p->first * (size_t)(buckets + 2));
    if (p->places != NULL) {
        p->first = (int32_t *)(p->places + p->length + 2);
        fill_buckets(p, buckets);
    }
}

/* The last place that is not greater than x, which is one or between two. */
static inline npy_intp place_in(const interpolation *p, npy_intp b, double x)
{
    npy_intp j = p->first[b];
    j += p->places[j + 1] <= x;
    j += p->places[j + 1] <= x;
    if (__builtin_expect(p->places[j + 1] <= x, 0)) {
        npy_intp high = p->first[b + 1] + 1 < p->length ? p->first[b + 1] + 1 : p->length - 1;
        while (j < high) {
            npy_intp middle = j + (high - j + 1) / 2;
            if (p->places[middle] <= x) {
                j = middle;
            } else {
                high = middle - 1;
            }
        }
    }
    return j;
}

/* Of TOGETHER numbers; false: some are outside, or no numbers. */
NPA_EACH_PROCESSOR static bool buckets_of(const interpolation *p, const double *x, int32_t *buckets)
{
    double low = p->xp[0], high = p->xp[p->length - 1], scale = p->scale;
    int in = 0;
    for (int k = 0; k < TOGETHER; k++) {
        bool inside = (x[k] >= low) & (x[k] < high);
        buckets[k] = (int32_t)(((inside ? x[k] : low) - low) * scale);
        in += inside;
    }
    return in == TOGETHER;
}

static void interpolate_one(const interpolation *p, npy_intp k)
{
    double x = p->x[k];
    bool in = x >= p->xp[0] && x <= p->xp[p->length - 1];
    p->found[k] = in            ? between(p, place_in(p, bucket_of(p, x), x), x)
                  : isnan(x)    ? x
                  : x < p->xp[0] ? p->left
                                : p->right;
}

/* Of TOGETHER numbers, each with its place, which is not the last one. */
static void between_places(const interpolation *p, const npy_intp *place, const double *x, double *y)
{
    int numbers = 0;
    for (int k = 0; k < TOGETHER && p->slopes != NULL; k++) {
        double at = p->xp[place[k]], start = p->fp[place[k]], found = p->slopes[place[k]] * (x[k] - at) + start;
        y[k] = x[k] == at ? start : found;
        numbers += found == found;
    }
    for (int k = 0; k < TOGETHER && numbers < TOGETHER; k++) {
        y[k] = between(p, place[k], x[k]);
    }
}

static void interpolate_by_buckets(void *context, int64_t task, int worker)
{
    const interpolation *p = context;
    npy_intp near = -1, place[TOGETHER]; /* near: where the first and the last before were, if that is one place */
    int32_t buckets[TOGETHER];
    npy_intp i = (npy_intp)task * CHUNK, end = end_of(task, p->n);
    (void)worker;
    for (; i + TOGETHER <= end; i += TOGETHER) {
        const double *x = p->x + i;
        if (near >= 0 && all_between(p, near, x, p->found + i)) {
            continue;
        }
        bool all = buckets_of(p, x, buckets);
        for (int k = 0; k < TOGETHER; k++) {
            if (!all) {
                interpolate_one(p, i + k);
            } else {
                place[k] = place_in(p, buckets[k], x[k]);
            }
        }
        if (all) {
            between_places(p, place, x, p->found + i);
        }
        near = all && place[0] == place[TOGETHER - 1] ? place[0] : -1;
    }
    for (; i < end; i++) {
        interpolate_one(p, i);
    }
}

static void interpolate(void *context, int64_t task, int worker)
{
    const interpolation *p = context;
    npy_intp at[TOGETHER], near = 0, last = p->length - 1;
    (void)worker;
    for (npy_intp i = (npy_intp)task * CHUNK, end = end_of(task, p->n); i < end; i += TOGETHER) {
        npy_intp left = end - i < TOGETHER ? end - i : TOGETHER;
        double few[TOGETHER] = {0};
        if (left == TOGETHER && near > 0 && near <= last && all_between(p, near - 1, p->x + i, p->found + i)) {
            continue;
        }
        memcpy(few, p->x + i, (size_t)left * sizeof *few);
        find_double(p->xp, p->length, few, true, at, &near);
        for (npy_intp k = 0; k < left; k++) {
            double x = few[k];
            p->found[i + k] = isnan(x)          ? x
                              : x < p->xp[0]    ? p->left
                              : x > p->xp[last] ? p->right
                                                : between(p, at[k] - 1, x);
        }
    }
}

/* A number that stands for what is outside; false: NumPy's to read. */
static bool read_outside(PyObject *given, double inside, double *to)
{
    bool none = given == NULL || given == Py_None, whole = !none && PyLong_CheckExact(given);
    *to = none ? inside : whole ? PyLong_AsDouble(given) : PyFloat_Check(given) ? PyFloat_AS_DOUBLE(given) : NAN;
    bool failed = PyErr_Occurred() != NULL;
    PyErr_Clear();
    return !failed && (none || whole || PyFloat_Check(given));
}

static bool are_numbers(PyObject *list)
{
    Py_ssize_t k = 0, n = PyList_CheckExact(list) || PyTuple_CheckExact(list) ? Py_SIZE(list) : -1;
    while (k < n && (PyFloat_CheckExact(PySequence_Fast_GET_ITEM(list, k)) ||
                     PyLong_CheckExact(PySequence_Fast_GET_ITEM(list, k)))) {
        k++;
    }
    return k == n;
}

PyArrayObject *npa_line_as(PyObject *o, int type)
{
    PyArrayObject *a = (PyArrayObject *)o;
    if (PyArray_CheckExact(o) || Py_IS_TYPE(o, npa_array_type)) {
        if (PyArray_NDIM(a) == 0 || !npa_type_known(PyArray_TYPE(a)) ||
            !PyArray_CanCastSafely(PyArray_TYPE(a), type) || npa_waits(a)) {
            return NULL;
        }
    } else if (!are_numbers(o)) {
        return NULL;
    }
    PyObject *made = PyArray_FROMANY(o, type, 0, 0, NPY_ARRAY_CARRAY_RO | NPY_ARRAY_ENSUREARRAY);
    if (made == NULL) {
        PyErr_Clear();
    }
    return (PyArrayObject *)made;
}

static PyObject *interpolated(PyArrayObject *x, PyArrayObject *xp, PyArrayObject *fp, PyObject *left, PyObject *right)
{
    interpolation p = {.xp = PyArray_DATA(xp), .fp = PyArray_DATA(fp), .x = PyArray_DATA(x),
                       .length = PyArray_SIZE(xp), .n = PyArray_SIZE(x)};
    double last = p.xp[p.length - 1];
    if (!read_outside(left, p.fp[0], &p.left) || !read_outside(right, p.fp[p.length - 1], &p.right) ||
        isnan(last) || !is_sorted_double(p.xp, p.length)) {
        return NULL;
    }
    if (p.length <= p.n) {
        p.slopes = malloc(sizeof *p.slopes * (size_t)p.length);
        for (npy_intp j = 0; p.slopes != NULL && j < p.length - 1; j++) {
            p.slopes[j] = slope_of(&p, j);
        }
    }
    make_buckets(&p);
    char *place;
    PyObject *made = npa_new_result(NPY_DOUBLE, PyArray_NDIM(x), PyArray_DIMS(x), &place);
    if (made != NULL) {
        p.found = (double *)place;
        on_all(p.places != NULL ? interpolate_by_buckets : interpolate, &p, p.n);
    }
    free(p.slopes);
    free(p.places);
    return made;
}

/* interp(x, xp, fp, left, right) */
PyObject *npa_interp(void *what, PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)what, (void)self;
    PyObject *made = NULL;
    bool common = n >= 3 && n <= 5 && names == NULL && PyArray_Check(args[0]) &&
                  PyArray_SIZE((PyArrayObject *)args[0]) >= LEAST;
    PyArrayObject *x = common ? npa_line_as(args[0], NPY_DOUBLE) : NULL;
    PyArrayObject *xp = x != NULL ? npa_line_as(args[1], NPY_DOUBLE) : NULL;
    PyArrayObject *fp = xp != NULL ? npa_line_as(args[2], NPY_DOUBLE) : NULL;
    if (fp != NULL && PyArray_NDIM(xp) == 1 && PyArray_NDIM(fp) == 1 && PyArray_SIZE(xp) >= 2 &&
        PyArray_SIZE(xp) == PyArray_SIZE(fp) && PyArray_SIZE(xp) <= 4 * PyArray_SIZE(x)) {
        made = interpolated(x, xp, fp, n > 3 ? args[3] : NULL, n > 4 ? args[4] : NULL);
    }
    Py_XDECREF(x);
    Py_XDECREF(xp);
    Py_XDECREF(fp);
    return made;
}
