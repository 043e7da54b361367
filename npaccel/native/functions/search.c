/* search.c: np.interp and searchsorted of many elements, on all threads. Each element's result
 * hangs on itself and the table alone, so it is NumPy's to the bit whoever computes it. */
#include "functions/functions.h"

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
    bool good = (PyArray_CheckExact(o) || Py_IS_TYPE(o, npa_array_type)) &&
                PyArray_TYPE(a) == type && PyArray_IS_C_CONTIGUOUS(a) && PyArray_ISALIGNED(a) &&
                PyArray_ISNOTSWAPPED(a) && PyArray_NDIM(a) > 0 && npa_lies_open(a, false);
    return good ? a : NULL;
}

/* With the GIL, so that nobody records meanwhile, and hides what workers read: they can't wait for
 * it. */
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

typedef struct {
    const void *table, *values;
    npy_intp length, n, *found;
    bool right;
    int type; /* of the values */
    const npa_buckets *buckets;
} search;

/* How many elements of a sorted table are less than x, or not greater, for each of TOGETHER. */
#define SEARCH(name, T, LESS)                                                                      \
    static bool is_sorted_##name(const T *a, npy_intp n)                                           \
    {                                                                                              \
        bool good = true;                                                                          \
        for (npy_intp i = 1; i < n; i++) {                                                         \
            good &= !(LESS(a[i], a[i - 1]));                                                       \
        }                                                                                          \
        return good;                                                                               \
    }                                                                                              \
    NPA_EACH_PROCESSOR static void left_##name(const T *a, npy_intp n, const T *x, npy_intp *at)   \
    {                                                                                              \
        memset(at, 0, TOGETHER * sizeof *at);                                                      \
        for (; n > 1; n -= n / 2) {                                                                \
            for (int k = 0; k < TOGETHER; k++) {                                                   \
                at[k] += n / 2 & -(npy_intp)(LESS(a[at[k] + n / 2 - 1], x[k]));                    \
            }                                                                                      \
        }                                                                                          \
        for (int k = 0; k < TOGETHER && n == 1; k++) {                                             \
            at[k] += LESS(a[at[k]], x[k]);                                                         \
        }                                                                                          \
    }                                                                                              \
    NPA_EACH_PROCESSOR static void right_##name(const T *a, npy_intp n, const T *x, npy_intp *at)  \
    {                                                                                              \
        memset(at, 0, TOGETHER * sizeof *at);                                                      \
        for (; n > 1; n -= n / 2) {                                                                \
            for (int k = 0; k < TOGETHER; k++) {                                                   \
                at[k] += n / 2 & ((npy_intp)(LESS(x[k], a[at[k] + n / 2 - 1])) - 1);               \
            }                                                                                      \
        }                                                                                          \
        for (int k = 0; k < TOGETHER && n == 1; k++) {                                             \
            at[k] += !(LESS(x[k], a[at[k]]));                                                      \
        }                                                                                          \
    }                                                                                              \
    NPA_EACH_PROCESSOR static bool within_##name(const T *a, npy_intp n, npy_intp low,             \
                                                 npy_intp high, const T *x, bool right)            \
    {                                                                                              \
        bool in = true;                                                                            \
        for (int k = 0; k < TOGETHER && low > 0; k++) {                                            \
            in &= right ? !(LESS(x[k], a[low - 1])) : LESS(a[low - 1], x[k]);                      \
        }                                                                                          \
        for (int k = 0; k < TOGETHER && high < n; k++) {                                           \
            in &= right ? LESS(x[k], a[high]) : !(LESS(a[high], x[k]));                            \
        }                                                                                          \
        return in;                                                                                 \
    }                                                                                              \
    /* near: where the ones before were found, as are those of what is sorted. */                  \
    static void find_##name(const T *a, npy_intp n, const T *x, bool right, npy_intp *at,          \
                            npy_intp *near)                                                        \
    {                                                                                              \
        npy_intp low = 0, high = n;                                                                \
        for (npy_intp reach = 2; reach <= 32; reach *= 16) {                                       \
            npy_intp first = *near > 0 ? *near - 1 : 0;                                            \
            npy_intp end = first + reach < n ? first + reach : n;                                  \
            if (within_##name(a, n, first, end, x, right)) {                                       \
                low = first, high = end;                                                           \
                break;                                                                             \
            }                                                                                      \
        }                                                                                          \
        (right ? right_##name : left_##name)(a + low, high - low, x, at);                          \
        for (int k = 0; k < TOGETHER; k++) {                                                       \
            at[k] += low;                                                                          \
        }                                                                                          \
        *near = at[TOGETHER - 1];                                                                  \
    }                                                                                              \
    static void search_##name(void *context, int64_t task, int worker)                             \
    {                                                                                              \
        const search *s = context;                                                                 \
        const T *a = s->table, *x = s->values;                                                     \
        npy_intp at[TOGETHER], near = 0;                                                           \
        (void)worker;                                                                              \
        npy_intp end = end_of(task, s->n);                                                         \
        for (npy_intp i = (npy_intp)task * CHUNK; i < end; i += TOGETHER) {                        \
            npy_intp left = end - i < TOGETHER ? end - i : TOGETHER;                               \
            T few[TOGETHER] = {0};                                                                 \
            memcpy(few, x + i, (size_t)left * sizeof *few);                                        \
            find_##name(a, s->length, few, s->right, at, &near);                                   \
            memcpy(s->found + i, at, (size_t)left * sizeof *at);                                   \
        }                                                                                          \
    }

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

/* ------------------------------------------------------------------------------------- buckets */

enum { BLOCK = 512 };

static npy_intp bucket_of(const npa_buckets *t, double x)
{
    double in = x >= t->low ? x : t->low;
    return (npy_intp)(((in <= t->high ? in : t->high) - t->low) * t->scale);
}

static void fill_buckets(npa_buckets *t, npy_intp count)
{
    npy_intp filled = 0;
    for (npy_intp j = 0; j < t->length; j++) {
        for (npy_intp b = bucket_of(t, t->places[j]); filled <= b; filled++) {
            t->first[filled] = (int32_t)j;
        }
    }
    for (; filled < count; filled++) {
        t->first[filled] = (int32_t)t->length;
    }
    t->places[t->length] = t->places[t->length + 1] = INFINITY;
}

bool npa_make_buckets(npa_buckets *t, int type, const void *table, npy_intp length, npy_intp n)
{
    enum { MOST_PLACES = 1 << 20, CACHED = 1 << 14 };
    npy_intp wanted = (length < CACHED ? 4 : 2) * length, count = wanted + 2, room = length + 2;
    t->places = length > MOST_PLACES || length > n / 4 || length < 2
                    ? NULL
                    : malloc(sizeof *t->places * (size_t)room + sizeof *t->first * (size_t)count);
    if (t->places == NULL) {
        return false;
    }
    t->first = (int32_t *)(t->places + room), t->length = length;
    npa_cast(type, table, npa_item_sizes[type], NPY_DOUBLE, (char *)t->places, sizeof *t->places,
             length);
    t->low = t->places[0], t->high = t->places[length - 1];
    t->scale = (double)wanted / (t->high - t->low);
    if (!is_sorted_double(t->places, length) || !isfinite(t->scale) || !(t->scale > 0) ||
        !isfinite((t->high - t->low) * t->scale)) {
        free(t->places);
        t->places = NULL;
        return false;
    }
    fill_buckets(t, count);
    return true;
}

/* Two steps from where its bucket begins; how many are not there yet. */
static inline __attribute__((always_inline)) npy_intp step(const npa_buckets *t,
                                                           const double *restrict x, npy_intp n,
                                                           bool right, npy_intp *restrict at)
{
    const double *places = t->places, low = t->low, high = t->high, scale = t->scale;
    const int32_t *first = t->first;
    npy_intp left = 0;
    for (npy_intp i = 0; i < n; i++) {
        double in = x[i] >= low ? x[i] : low;
        in = in <= high ? in : high;
        at[i] = first[(int32_t)((in - low) * scale)];
    }
    for (int round = 0; round < 2; round++) {
        for (npy_intp i = 0; i < n; i++) {
            at[i] += right ? places[at[i]] <= x[i] : places[at[i]] < x[i];
            at[i] = at[i] < t->length ? at[i] : t->length;
        }
    }
    for (npy_intp i = 0; i < n; i++) {
        left += right ? places[at[i]] <= x[i] : places[at[i]] < x[i];
        at[i] = x[i] == x[i] ? at[i] : t->length;
    }
    return left;
}

NPA_EACH_PROCESSOR
static npy_intp step_left(const npa_buckets *t, const double *x, npy_intp n, npy_intp *at)
{
    return step(t, x, n, false, at);
}

NPA_EACH_PROCESSOR
static npy_intp step_right(const npa_buckets *t, const double *x, npy_intp n, npy_intp *at)
{
    return step(t, x, n, true, at);
}

void npa_find_in_buckets(const npa_buckets *t, const double *x, npy_intp n, bool right,
                         npy_intp *at)
{
    npy_intp left = right ? step_right(t, x, n, at) : step_left(t, x, n, at);
    for (npy_intp i = 0; i < n && left > 0; i++) {
        if (!(right ? t->places[at[i]] <= x[i] : t->places[at[i]] < x[i])) {
            continue;
        }
        for (npy_intp end = t->first[bucket_of(t, x[i]) + 1]; at[i] < end;) {
            npy_intp middle = at[i] + (end - at[i]) / 2;
            if (right ? t->places[middle] <= x[i] : t->places[middle] < x[i]) {
                at[i] = middle + 1;
            } else {
                end = middle;
            }
        }
    }
}

static void search_buckets(void *context, int64_t task, int worker)
{
    const search *s = context;
    double room[BLOCK];
    bool ready = s->type == NPY_DOUBLE;
    (void)worker;
    for (npy_intp i = (npy_intp)task * CHUNK, end = end_of(task, s->n); i < end; i += BLOCK) {
        npy_intp n = end - i < BLOCK ? end - i : BLOCK, size = npa_item_sizes[s->type];
        const char *from = (const char *)s->values + i * size;
        if (!ready) {
            npa_cast(s->type, from, size, NPY_DOUBLE, (char *)room, sizeof *room, n);
        }
        npa_find_in_buckets(s->buckets, ready ? (const double *)from : room, n, s->right,
                            s->found + i);
    }
}

/* ------------------------------------------------------------------------------- its arguments */

/* 1: right, 0: left; -1: neither, or more is asked for. */
static int side_of(PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    PyObject *side = n > 1 ? args[1] : NULL, *sorter = n > 2 ? args[2] : Py_None;
    Py_ssize_t named = names != NULL ? PyTuple_GET_SIZE(names) : 0;
    for (Py_ssize_t k = 0; k < named; k++) {
        PyObject *name = PyTuple_GET_ITEM(names, k);
        if (PyUnicode_CompareWithASCIIString(name, "side") == 0 && n < 2) {
            side = args[n + k];
        } else if (PyUnicode_CompareWithASCIIString(name, "sorter") == 0 && n < 3) {
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

/* Whether NumPy compares numbers of these types as doubles, or might. */
static bool as_doubles(PyArrayObject *table, PyArrayObject *values)
{
    PyArray_Descr *common = PyArray_PromoteTypes(PyArray_DESCR(table), PyArray_DESCR(values));
    int type = common != NULL ? common->type_num : NPY_OBJECT;
    PyErr_Clear();
    Py_XDECREF(common);
    return type == NPY_DOUBLE || type == NPY_FLOAT ||
           (PyTypeNum_ISINTEGER(type) && npa_item_sizes[type] <= 4);
}

PyObject *npa_search(void *what, PyObject *self, PyObject *const *args, Py_ssize_t n,
                     PyObject *names)
{
    (void)what;
    int right = n >= 1 ? side_of(args, n, names) : -1, type = PyArray_TYPE((PyArrayObject *)self);
    PyArrayObject *table = line_of(self, type),
                  *values = right >= 0 && PyArray_Check(args[0])
                                ? line_of(args[0], PyArray_TYPE((PyArrayObject *)args[0])) : NULL;
    if (table == NULL || values == NULL || PyArray_NDIM(table) != 1 || !npa_type_known(type) ||
        !npa_type_known(PyArray_TYPE(values)) || PyArray_SIZE(values) < LEAST ||
        PyArray_SIZE(table) > 4 * PyArray_SIZE(values)) {
        return NULL;
    }
    npa_buckets t = {0};
    search s = {PyArray_DATA(table),
                PyArray_DATA(values),
                PyArray_SIZE(table),
                PyArray_SIZE(values),
                NULL,
                right > 0,
                npa_canonical(PyArray_TYPE(values)),
                &t};
    npa_task task = as_doubles(table, values) &&
                            npa_make_buckets(&t, npa_canonical(type), s.table, s.length, s.n)
                        ? search_buckets
                    : PyArray_TYPE(values) == type ? search_of(type, &s)
                                                   : NULL;
    char *place;
    PyObject *made =
        task != NULL ? npa_new_result(NPY_INTP, PyArray_NDIM(values), PyArray_DIMS(values), &place)
                     : NULL;
    if (made != NULL) {
        s.found = (npy_intp *)place;
        on_all(task, &s, s.n);
    }
    free(t.places);
    return made;
}

/* ------------------------------------------------------------------------------------- interp */

typedef struct {
    const double *xp, *fp, *x;
    double *slopes; /* NULL where there are more than elements */
    double left, right, *found;
    npy_intp length, n;
    npa_buckets buckets;
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

/* Where all lie between two neighbours, as most do where x is sorted; false: they do not, or some
 * are no numbers. */
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

/* Of TOGETHER numbers between the ends, by slopes; false: there are none, or some are outside, or
 * no numbers. */
NPA_EACH_PROCESSOR
static bool between_places(const interpolation *p, const npy_intp *at, const double *x, double *y)
{
    const double *xp = p->xp - 1, *fp = p->fp - 1, *slopes = p->slopes - 1;
    double low = p->xp[0], high = p->xp[p->length - 1], found_all[TOGETHER];
    int inside = 0;
    for (int k = 0; k < TOGETHER; k++) {
        inside += (x[k] >= low) & (x[k] < high);
    }
    if (p->slopes == NULL || inside < TOGETHER) {
        return false;
    }
    for (int k = 0; k < TOGETHER; k++) {
        double from = xp[at[k]], start = fp[at[k]], found = slopes[at[k]] * (x[k] - from) + start;
        y[k] = x[k] == from ? start : found;
        found_all[k] = found;
    }
    int numbers = 0;
    for (int k = 0; k < TOGETHER; k++) {
        numbers += found_all[k] == found_all[k];
    }
    return numbers == TOGETHER;
}

/* n numbers, and how many places are less than each, or equal. */
static void interpolate_some(const interpolation *p, const double *x, const npy_intp *at,
                             npy_intp n, double *y)
{
    double low = p->xp[0], high = p->xp[p->length - 1];
    if (n == TOGETHER && between_places(p, at, x, y)) {
        return;
    }
    for (npy_intp k = 0; k < n; k++) {
        y[k] = isnan(x[k])   ? x[k]
               : x[k] < low  ? p->left
               : x[k] > high ? p->right
                             : between(p, at[k] - 1, x[k]);
    }
}

static void interpolate(void *context, int64_t task, int worker)
{
    const interpolation *p = context;
    /* at: of elements first to until */
    npy_intp at[BLOCK], first = 0, until = 0, near = 0, last = p->length - 1;
    (void)worker;
    for (npy_intp i = (npy_intp)task * CHUNK, end = end_of(task, p->n); i < end; i += TOGETHER) {
        const double *x = p->x + i;
        npy_intp left = end - i, n = left < TOGETHER ? left : TOGETHER;
        if (n == TOGETHER && near > 0 && near <= last &&
            all_between(p, near - 1, x, p->found + i)) {
            continue;
        }
        if (i >= until && p->buckets.places != NULL) {
            first = i, until = i + (left < BLOCK ? left : BLOCK);
            npa_find_in_buckets(&p->buckets, x, until - first, true, at);
        } else if (i >= until) {
            double few[TOGETHER] = {0};
            first = i, until = i + n;
            memcpy(few, x, (size_t)n * sizeof *few);
            find_double(p->xp, p->length, few, true, at, &near);
        }
        const npy_intp *here = at + (i - first);
        near = here[0] == here[n - 1] ? here[0] : p->buckets.places != NULL ? 0 : near;
        interpolate_some(p, x, here, n, p->found + i);
    }
}

/* A number that stands for what is outside; false: NumPy's to read. */
static bool read_outside(PyObject *given, double inside, double *to)
{
    bool none = given == NULL || given == Py_None, whole = !none && PyLong_CheckExact(given);
    *to = none                   ? inside
          : whole                ? PyLong_AsDouble(given)
          : PyFloat_Check(given) ? PyFloat_AS_DOUBLE(given)
                                 : NAN;
    bool failed = PyErr_Occurred() != NULL;
    PyErr_Clear();
    return !failed && (none || whole || PyFloat_Check(given));
}

static bool are_numbers(PyObject *list)
{
    Py_ssize_t k = 0, n = npa_is_listed(list) ? Py_SIZE(list) : -1;
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
            !PyArray_CanCastSafely(PyArray_TYPE(a), type) || !npa_lies_open(a, false)) {
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

static PyObject *interpolated(PyArrayObject *x, PyArrayObject *xp, PyArrayObject *fp,
                              PyObject *left, PyObject *right)
{
    interpolation p = {.xp = PyArray_DATA(xp), .fp = PyArray_DATA(fp), .x = PyArray_DATA(x),
                       .length = PyArray_SIZE(xp), .n = PyArray_SIZE(x)};
    double last = p.xp[p.length - 1];
    if (!read_outside(left, p.fp[0], &p.left) ||
        !read_outside(right, p.fp[p.length - 1], &p.right) || isnan(last) ||
        !is_sorted_double(p.xp, p.length)) {
        return NULL;
    }
    if (p.length <= p.n) {
        p.slopes = malloc(sizeof *p.slopes * (size_t)p.length);
        for (npy_intp j = 0; p.slopes != NULL && j < p.length - 1; j++) {
            p.slopes[j] = slope_of(&p, j);
        }
    }
    npa_make_buckets(&p.buckets, NPY_DOUBLE, p.xp, p.length, p.n);
    char *place;
    PyObject *made = npa_new_result(NPY_DOUBLE, PyArray_NDIM(x), PyArray_DIMS(x), &place);
    if (made != NULL) {
        p.found = (double *)place;
        on_all(interpolate, &p, p.n);
    }
    free(p.slopes);
    free(p.buckets.places);
    return made;
}

/* interp(x, xp, fp, left, right) */
PyObject *npa_interp(void *what, PyObject *self, PyObject *const *args, Py_ssize_t n,
                     PyObject *names)
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
