/* sort.c: many numbers are sorted on all threads: a.sort(), and what order.c asks for. Sorted
 * values are what they are, whoever sorts them, unless different bits compare equal. */
#include "functions/functions.h"
#include "functions/sort.h"

#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

enum {
    DIGIT = 11,
    BUCKETS = 1 << DIGIT,
    SHARED = 1 << 15,
    MOST_CHUNKS = 8,
    TRIED = 1 << 13,
    COUNTS = (64 + DIGIT - 1) / DIGIT * BUCKETS /* of the longest keys: too many for a stack */
};
static const size_t KEPT_BYTES = (size_t)64 << 20;

/* --------------------------------------------------------------------------------- one thread */

/* As unsigned numbers of the same order (sort.h), and back. */
#define KEYS(K, BITS)                                                                              \
    static inline K value_##K(K k, bool real, K sign)                                              \
    {                                                                                              \
        return real && !(k >> (BITS - 1)) ? (K)~k : k ^ sign;                                      \
    }                                                                                              \
    static void to_keys_##K(K *a, npy_intp n, bool real, K sign)                                   \
    {                                                                                              \
        for (npy_intp i = 0; i < n; i++) {                                                         \
            a[i] = npa_key_##K(a[i], real, sign);                                                  \
        }                                                                                          \
    }                                                                                              \
    static void to_values_##K(const K *from, K *to, npy_intp n, bool real, K sign)                 \
    {                                                                                              \
        for (npy_intp i = 0; i < n; i++) {                                                         \
            to[i] = value_##K(from[i], real, sign);                                                \
        }                                                                                          \
    }                                                                                              \
    /* Sorts keys, by their bits from `shift` on; `other` has room for as many. From the lowest    \
     * digit on; passes keep order. */                                                             \
    static inline __attribute__((always_inline)) void radix_##K(                                   \
        K *a, K *other, npy_intp n, int shift, int passes, npy_intp (*counts)[BUCKETS])            \
    {                                                                                              \
        K *from = a, *to = other;                                                                  \
        memset(counts, 0, (size_t)passes * sizeof *counts);                                        \
        for (npy_intp i = 0; i < n; i++) {                                                         \
            for (int p = 0; p < passes; p++) {                                                     \
                counts[p][a[i] >> (shift + p * DIGIT) & (BUCKETS - 1)]++;                          \
            }                                                                                      \
        }                                                                                          \
        for (int p = 0; p < passes; p++) {                                                         \
            npy_intp *at = counts[p], sum = 0;                                                     \
            int low = shift + p * DIGIT;                                                           \
            if (at[from[0] >> low & (BUCKETS - 1)] == n) {                                         \
                continue; /* all have this digit */                                                \
            }                                                                                      \
            for (int d = 0; d < BUCKETS; d++) {                                                    \
                npy_intp count = at[d];                                                            \
                at[d] = sum, sum += count;                                                         \
            }                                                                                      \
            for (npy_intp i = 0; i < n; i++) {                                                     \
                to[at[from[i] >> low & (BUCKETS - 1)]++] = from[i];                                \
            }                                                                                      \
            K *swapped = from;                                                                     \
            from = to, to = swapped;                                                               \
        }                                                                                          \
        if (from != a) {                                                                           \
            memcpy(a, from, sizeof *a * (size_t)n);                                                \
        }                                                                                          \
    }                                                                                              \
    /* How many of the first `wanted` of the merged two are of a; of equal ones a's are first. */  \
    static npy_intp of_first_##K(const K *a, npy_intp na, const K *b, npy_intp nb,                 \
                                 npy_intp wanted, int shift)                                       \
    {                                                                                              \
        npy_intp low = wanted > nb ? wanted - nb : 0, high = wanted < na ? wanted : na;            \
        while (low < high) {                                                                       \
            npy_intp middle = low + (high - low) / 2;                                              \
            if (a[middle] >> shift <= b[wanted - middle - 1] >> shift) {                           \
                low = middle + 1;                                                                  \
            } else {                                                                               \
                high = middle;                                                                     \
            }                                                                                      \
        }                                                                                          \
        return low;                                                                                \
    }                                                                                              \
    static void merge_##K(const K *a, npy_intp na, const K *b, npy_intp nb, K *to, int shift)      \
    {                                                                                              \
        npy_intp i = 0, j = 0;                                                                     \
        while (i < na && j < nb) {                                                                 \
            bool first = a[i] >> shift <= b[j] >> shift;                                           \
            *to++ = first ? a[i] : b[j];                                                           \
            i += first, j += !first;                                                               \
        }                                                                                          \
        memcpy(to, a + i, sizeof *to * (size_t)(na - i));                                          \
        memcpy(to + na - i, b + j, sizeof *to * (size_t)(nb - j));                                 \
    }                                                                                              \
    static void sort_chunk_##K(const job *s, K *from, K *to, npy_intp n,                           \
                               npy_intp (*counts)[BUCKETS])                                        \
    {                                                                                              \
        enum { PASSES = (BITS + DIGIT - 1) / DIGIT };                                              \
        if (s->shift > 0) {                                                                        \
            radix_##K(from, to, n, s->shift, s->passes, counts);                                   \
        } else {                                                                                   \
            to_keys_##K(from, n, s->real, (K)((K)s->is_signed << (BITS - 1)));                     \
            radix_##K(from, to, n, 0, PASSES, counts);                                             \
        }                                                                                          \
    }                                                                                              \
    static void run_##K(const job *s, enum step step, int64_t task)                                \
    {                                                                                              \
        K *from = s->from, *to = s->to;                                                            \
        npy_intp low = s->n * task / s->tasks, high = s->n * (task + 1) / s->tasks;                \
        if (step == CHUNK) {                                                                       \
            sort_chunk_##K(s, from + low, to + low, high - low,                                    \
                           s->counts + task * (COUNTS / BUCKETS));                                 \
        } else if (step == SHOW) {                                                                 \
            to_values_##K(from + low, to + low, high - low, s->real,                               \
                          (K)((K)s->is_signed << (BITS - 1)));                                     \
        } else { /* two neighbours of `width` chunks, of which this is one of the parts */         \
            int64_t pair = task / (2 * s->width) * 2 * s->width;                                   \
            npy_intp begin = s->n * pair / s->tasks, middle = s->n * (pair + s->width) / s->tasks; \
            npy_intp end = s->n * (pair + 2 * s->width) / s->tasks;                                \
            const K *a = from + begin, *b = from + middle;                                         \
            npy_intp first = low - begin, last = high - begin;                                     \
            npy_intp i = of_first_##K(a, middle - begin, b, end - middle, first, s->shift);        \
            npy_intp i_end = of_first_##K(a, middle - begin, b, end - middle, last, s->shift);     \
            merge_##K(a + i, i_end - i, b + (first - i), last - i_end - (first - i), to + low,     \
                      s->shift);                                                                   \
        }                                                                                          \
    }

enum step { CHUNK, MERGE, SHOW };

typedef struct {
    void *from, *to;
    npy_intp (*counts)[BUCKETS]; /* COUNTS for each task */
    npy_intp n;
    int64_t tasks, width;
    bool real, is_signed;
    int bytes;
    int shift, passes; /* of words: the key's first bit, and how many digits it has; or 0 */
    enum step step;
} job;

KEYS(uint64_t, 64)
KEYS(uint32_t, 32)

static void run(void *context, int64_t task, int worker)
{
    const job *s = context;
    (void)worker;
    if (s->bytes == 8) {
        run_uint64_t(s, s->step, task);
    } else {
        run_uint32_t(s, s->step, task);
    }
}

/* ---------------------------------------------------------------------------------- all threads */

static int64_t chunks_for(npy_intp n)
{
    int64_t chunks = 1;
    while (chunks * 2 <= npa_pool_size() && chunks < MOST_CHUNKS && n >= SHARED) {
        chunks *= 2;
    }
    return chunks;
}

/* The sorted keys are at `from` then. */
static void sort_keys(job *s)
{
    s->tasks = chunks_for(s->n), s->width = 1, s->step = CHUNK;
    npa_pool_run(run, s, s->tasks, NULL);
    for (s->step = MERGE; s->width < s->tasks; s->width *= 2) {
        npa_pool_run(run, s, s->tasks, NULL);
        void *swapped = s->from;
        s->from = s->to, s->to = swapped;
    }
}

/* counts: as many as there may be tasks, behind which there is room for as much as `data`. */
static void sort_all(void *data, npy_intp (*counts)[BUCKETS], npy_intp n, int bytes, bool real,
                     bool is_signed)
{
    job s = {.from = data, .to = counts + MOST_CHUNKS * (COUNTS / BUCKETS), .counts = counts,
             .n = n, .real = real, .is_signed = is_signed, .bytes = bytes};
    sort_keys(&s);
    s.step = SHOW, s.to = data;
    npa_pool_run(run, &s, s.tasks, NULL);
}

/* Of single bytes each value is written as often as it was counted. Of equal neighbours each would
 * wait for the one before, so there are several tables. */
static void sort_bytes(uint8_t *a, npy_intp n, bool is_signed)
{
    enum { VALUES = 256, WAYS = 4 };
    npy_intp counts[WAYS][VALUES] = {0}, i = 0;
    for (; i + WAYS <= n; i += WAYS) {
        for (int w = 0; w < WAYS; w++) {
            counts[w][a[i + w]]++;
        }
    }
    for (; i < n; i++) {
        counts[0][a[i]]++;
    }
    for (int k = 0; k < VALUES; k++) {
        int value = is_signed ? (k + VALUES / 2) % VALUES : k;
        npy_intp count = counts[0][value] + counts[1][value] + counts[2][value] + counts[3][value];
        memset(a, value, (size_t)count);
        a += count;
    }
}

/* Whether equal values have equal bits: no zero below 0, and one NaN. */
#define PLAIN(K, MOST, INFINITE, NOT_A_NUMBER)                                                     \
    static bool is_plain_##K(const K *a, npy_intp n)                                               \
    {                                                                                              \
        int good = 1;                                                                              \
        for (npy_intp i = 0; i < n && good; i += 1024) {                                           \
            for (npy_intp k = i, end = n - i < 1024 ? n : i + 1024; k < end; k++) {                \
                good &= (a[k] != (K)(MOST) + 1) &                                                  \
                        (((a[k] & MOST) <= INFINITE) | (a[k] == NOT_A_NUMBER));                    \
            }                                                                                      \
        }                                                                                          \
        return good;                                                                               \
    }
PLAIN(uint64_t, INT64_MAX, (uint64_t)0x7ff << 52, (uint64_t)0xfff << 51)
PLAIN(uint32_t, INT32_MAX, (uint32_t)0xff << 23, (uint32_t)0x1ff << 22)

static bool is_plain(const void *data, npy_intp n, int bytes)
{
    return bytes == 8 ? is_plain_uint64_t(data, n) : is_plain_uint32_t(data, n);
}

static struct {
    void *data; /* of the calls with the GIL, of which there is one at a time */
    size_t size;
} kept;

static void *reserve(size_t bytes)
{
    if (kept.size < bytes) {
        free(kept.data);
        kept.data = malloc(bytes);
        kept.size = kept.data != NULL ? bytes : 0;
    }
    return kept.data;
}

static void give_back(void)
{
    if (kept.size > KEPT_BYTES) {
        free(kept.data);
        kept.data = NULL, kept.size = 0;
    }
}

/* Whether NumPy sorts no faster on this processor, for some of which it has vectors: asked once. */
static bool pays(PyArrayObject *a)
{
    static int known[2]; /* of floats and integers: 1 yes, 2 no */
    int *answer = &known[PyArray_ISINTEGER(a)];
    PyArray_SortFunc *theirs = PyDataType_GetArrFuncs(PyArray_DESCR(a))->sort[NPY_QUICKSORT];
    if (*answer == 0 && theirs != NULL && PyArray_ITEMSIZE(a) == 8) {
        uint64_t *mine = malloc((3 * TRIED + COUNTS) * sizeof *mine), x = 88172645463325252u;
        for (int i = 0; mine != NULL && i < TRIED; i++) {
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            double value = (double)(int64_t)x;
            memcpy(mine + i, &value, 8);
        }
        if (mine == NULL) {
            return false;
        }
        memcpy(mine + TRIED, mine, TRIED * sizeof *mine);
        double begin = npa_seconds();
        to_keys_uint64_t(mine, TRIED, true, (uint64_t)1 << 63);
        radix_uint64_t(mine, mine + 2 * TRIED, TRIED, 0, (64 + DIGIT - 1) / DIGIT,
                       (void *)(mine + 3 * TRIED));
        double middle = npa_seconds();
        theirs(mine + TRIED, TRIED, a);
        *answer = npa_seconds() - middle > middle - begin ? 1 : 2;
        free(mine);
    }
    return *answer == 1 || (*answer == 0 && known[0] + known[1] == 1);
}

int npa_read_sort(int ndim, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const char *const kinds[] = {"quicksort", "heapsort", "mergesort", "stable"};
    enum { AXIS, KIND, ORDER, STABLE, ALL, IN_PLACE = STABLE, FIRST_STABLE = 2 };
    static const char *const words[ALL] = {"axis", "kind", "order", "stable"};
    PyObject *given[ALL] = {NULL, Py_None, Py_None, Py_None};
    if (n > IN_PLACE || !npa_read_call(args, n, names, words, ALL, given) ||
        given[ORDER] != Py_None || (given[KIND] != Py_None && given[STABLE] != Py_None)) {
        return -1;
    }
    long axis = given[AXIS] == NULL ? -1 : PyLong_CheckExact(given[AXIS])
                ? PyLong_AsLong(given[AXIS]) : ndim;
    PyErr_Clear();
    if ((axis != -1 && axis != ndim - 1) ||
        (given[STABLE] != Py_None && !PyBool_Check(given[STABLE]))) {
        return -1;
    }
    int kind = (int)(sizeof kinds / sizeof *kinds) - 1;
    while (kind >= 0 && PyUnicode_CheckExact(given[KIND]) &&
           PyUnicode_CompareWithASCIIString(given[KIND], kinds[kind]) != 0) {
        kind--;
    }
    if (given[KIND] == Py_None) {
        return given[STABLE] == Py_True;
    }
    return PyUnicode_CheckExact(given[KIND]) && kind >= 0 ? kind >= FIRST_STABLE : -1;
}

bool npa_sort_words(uint64_t *words, npy_intp n, uint32_t greatest)
{
    size_t counts = MOST_CHUNKS * COUNTS * sizeof(npy_intp);
    char *room = reserve(counts + (size_t)n * sizeof *words);
    if (room == NULL) {
        return false;
    }
    job s = {.from = words, .to = room + counts, .counts = (void *)room, .n = n, .bytes = 8,
             .shift = 32};
    for (; greatest != 0; greatest >>= DIGIT) {
        s.passes++;
    }
    sort_keys(&s);
    if (s.from != words) {
        memcpy(words, s.from, (size_t)n * sizeof *words);
    }
    give_back();
    return true;
}

PyObject *npa_sort(void *what, PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    PyArrayObject *a = (PyArrayObject *)self;
    int type = PyArray_TYPE(a);
    bool real = type == NPY_DOUBLE || type == NPY_FLOAT, whole = PyTypeNum_ISINTEGER(type);
    int bytes = (int)PyArray_ITEMSIZE(a);
    if (PyArray_NDIM(a) > 1) {
        return npa_sort_parts(what, self, args, n, names);
    }
    if (PyArray_NDIM(a) != 1 || PyArray_SIZE(a) < NPA_LEAST_SORTED ||
        !(PyArray_CheckExact(self) || Py_IS_TYPE(self, npa_array_type)) || !PyArray_ISCARRAY(a) ||
        (PyArray_FLAGS(a) & NPA_WARN_ON_WRITE) || npa_read_sort(1, args, n, names) < 0 ||
        !npa_lies_open(a, true)) {
        return NULL;
    }
    if (bytes == 1 && (whole || type == NPY_BOOL)) {
        sort_bytes(PyArray_DATA(a), PyArray_SIZE(a), type == NPY_BYTE);
        Py_RETURN_NONE;
    }
    if (!(real || whole) || (bytes != 4 && bytes != 8) || !pays(a) ||
        (real && !is_plain(PyArray_DATA(a), PyArray_SIZE(a), bytes))) {
        return NULL;
    }
    npy_intp(*counts)[BUCKETS] =
        reserve(MOST_CHUNKS * COUNTS * sizeof **counts + (size_t)PyArray_NBYTES(a));
    if (counts == NULL) {
        return NULL;
    }
    sort_all(PyArray_DATA(a), counts, PyArray_SIZE(a), bytes, real, !PyTypeNum_ISUNSIGNED(type));
    give_back();
    return Py_NewRef(Py_None);
}
