/* order.c: what order many numbers have, equal ones as they stand: stable argsort, and lexsort.
 * There is one such order, whoever finds it. */
#include "functions/functions.h"
#include "functions/sort.h"

#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

/* Numbers that mostly rise, or fall, NumPy merges faster than digits are counted (200,000 doubles
 * in order take 0.3 ms, in ten runs 0.5; digits of random ones 7 to 11): there are fewer than RUNS
 * of the others in some stretches. */
enum { STRETCHES = 64, STRETCH = 64, RUNS = 16 };

/* ---------------------------------------------------------------------------------------- keys */

typedef struct {
    const char *data;
    npy_intp step, n;
    const npy_intp *places; /* the elements in this order */
    void *keys;             /* room for n of 8 bytes */
    int bytes;              /* of a key */
    uint64_t greatest;
    npy_intp falls, rises; /* neighbours of which the second is less, or greater */
} keyed;

/* Counts falls and rises in some stretches of elements as they stand; a NaN is both. */
#define LOOK(T)                                                                                    \
    static inline T at_##T(const keyed *s, npy_intp i)                                             \
    {                                                                                              \
        return *(const T *)(const void *)(s->data + i * s->step);                                  \
    }                                                                                              \
    static void look_##T(keyed *s)                                                                 \
    {                                                                                              \
        for (npy_intp k = 0; k < STRETCHES; k++) {                                                 \
            npy_intp begin = (s->n - STRETCH - 1) / STRETCHES * k;                                 \
            for (npy_intp i = begin; i < begin + STRETCH; i++) {                                   \
                s->falls += !(at_##T(s, i) <= at_##T(s, i + 1));                                   \
                s->rises += !(at_##T(s, i) >= at_##T(s, i + 1));                                   \
            }                                                                                      \
        }                                                                                          \
    }

/* Floats: as they compare, with one zero, and all NaNs alike at the end. */
#define FLOATS(T, K, BITS, NOT_A_NUMBER)                                                           \
    LOOK(T)                                                                                        \
    static void key_##T(keyed *s)                                                                  \
    {                                                                                              \
        K *keys = s->keys, last = 0;                                                               \
        for (npy_intp i = 0; i < s->n; i++) {                                                      \
            T x = at_##T(s, s->places[i]) + (T)0;                                                  \
            K bits = NOT_A_NUMBER;                                                                 \
            if (x == x) {                                                                          \
                memcpy(&bits, &x, sizeof bits);                                                    \
            }                                                                                      \
            K key = npa_key_##K(bits, true, (K)1 << (BITS - 1));                                   \
            s->falls += key < last;                                                                \
            keys[i] = last = key;                                                                  \
        }                                                                                          \
        s->bytes = BITS / 8, s->greatest = (K)-1;                                                  \
    }
FLOATS(double, uint64_t, 64, (uint64_t)0x7ff8 << 48)
FLOATS(float, uint32_t, 32, (uint32_t)0x7fc0 << 16)

/* Whole numbers: how far they are from the least one. */
#define WHOLE(T)                                                                                   \
    LOOK(T)                                                                                        \
    static void key_##T(keyed *s)                                                                  \
    {                                                                                              \
        T low = at_##T(s, 0), high = low;                                                          \
        for (npy_intp i = 0; i < s->n; i++) {                                                      \
            T x = at_##T(s, i);                                                                    \
            low = x < low ? x : low, high = x > high ? x : high;                                   \
        }                                                                                          \
        T last = low;                                                                              \
        s->greatest = (uint64_t)high - (uint64_t)low;                                              \
        s->bytes = s->greatest > UINT32_MAX ? 8 : 4;                                               \
        for (npy_intp i = 0; i < s->n; i++) {                                                      \
            T x = at_##T(s, s->places[i]);                                                         \
            uint64_t key = (uint64_t)x - (uint64_t)low;                                            \
            s->falls += x < last, last = x;                                                        \
            if (s->bytes == 8) {                                                                   \
                ((uint64_t *)s->keys)[i] = key;                                                    \
            } else {                                                                               \
                ((uint32_t *)s->keys)[i] = (uint32_t)key;                                          \
            }                                                                                      \
        }                                                                                          \
    }
WHOLE(int8_t)
WHOLE(int16_t)
WHOLE(int32_t)
WHOLE(int64_t)
WHOLE(uint8_t)
WHOLE(uint16_t)
WHOLE(uint32_t)
WHOLE(uint64_t)

typedef struct { void (*look)(keyed *s), (*make)(keyed *s); } maker;
#define OF(T) {look_##T, key_##T}

/* NULL: of no such numbers. */
static const maker *maker_of(PyArrayObject *a)
{
    static const maker floats[] = {OF(double), OF(float)};
    static const maker whole[2][4] = {{OF(int8_t), OF(int16_t), OF(int32_t), OF(int64_t)},
                                      {OF(uint8_t), OF(uint16_t), OF(uint32_t), OF(uint64_t)}};
    int type = PyArray_TYPE(a), size = 0;
    bool mine = PyArray_CheckExact((PyObject *)a) || Py_IS_TYPE(a, npa_array_type);
    if (!mine || !PyArray_ISALIGNED(a) || !PyArray_ISNOTSWAPPED(a)) {
        return NULL;
    }
    while (size < 3 && 1 << size != PyArray_ITEMSIZE(a)) {
        size++;
    }
    return type == NPY_DOUBLE || type == NPY_FLOAT ? &floats[type == NPY_FLOAT]
           : PyTypeNum_ISINTEGER(type) ? &whole[PyTypeNum_ISUNSIGNED(type)][size]
           : type == NPY_BOOL          ? &whole[1][0]
                                       : NULL;
}

/* --------------------------------------------------------------------------------------- order */

/* The places 0, 1, ... as a new array. NULL: error set */
static PyArrayObject *first_order(npy_intp n)
{
    char *data;
    PyObject *made = npa_new_result(NPY_INTP, 1, &n, &data);
    if (made != NULL && npa_touch((PyArrayObject *)made, true) < 0) {
        Py_CLEAR(made);
    }
    npy_intp *places = made != NULL ? PyArray_DATA((PyArrayObject *)made) : NULL;
    for (npy_intp i = 0; made != NULL && i < n; i++) {
        places[i] = i;
    }
    return (PyArrayObject *)made;
}

static inline uint32_t lower(uint64_t word) { return (uint32_t)word; }

/* Sorts words of a key and its number among `keys`, by the lower half of long keys first. */
static bool sort_words(const keyed *of, uint64_t *words)
{
    const uint64_t *longs = of->keys;
    const uint32_t *shorts = of->keys;
    bool two = of->bytes == 8;
    for (npy_intp i = 0; i < of->n; i++) {
        words[i] = (uint64_t)(two ? lower(longs[i]) : shorts[i]) << 32 | (uint64_t)i;
    }
    if (!npa_sort_words(words, of->n, two ? UINT32_MAX : (uint32_t)of->greatest)) {
        return false;
    }
    for (npy_intp k = 0; two && k < of->n; k++) {
        words[k] = (longs[lower(words[k])] & ~(uint64_t)UINT32_MAX) | lower(words[k]);
    }
    return !two || npa_sort_words(words, of->n, (uint32_t)(of->greatest >> 32));
}

/* Order `places` by elements; equal ones keep their order. False: no memory. */
static bool put_in_order(keyed *of, const maker *maker, npy_intp *places, uint64_t *room)
{
    uint64_t *words = room + of->n;
    of->places = places, of->keys = room, of->falls = 0;
    maker->make(of);
    if (of->falls > 0) {
        if (!sort_words(of, words)) {
            return false;
        }
        for (npy_intp k = 0; k < of->n; k++) {
            words[k] = (uint64_t)places[lower(words[k])];
        }
        memcpy(places, words, (size_t)of->n * sizeof *places);
    }
    return true;
}

/* By several keys, the last one first. NULL, perhaps with an error: NumPy's to do. */
static PyObject *ordered(keyed *of, const maker *const *makers, Py_ssize_t count)
{
    makers[0]->look(of);
    if (of->falls < RUNS || of->rises < RUNS || of->n > UINT32_MAX) {
        return NULL;
    }
    uint64_t *room = PyMem_RawMalloc(2 * (size_t)of->n * sizeof *room);
    PyArrayObject *made = room != NULL ? first_order(of->n) : NULL;
    for (Py_ssize_t k = 0; made != NULL && k < count; k++) {
        if (!put_in_order(&of[k], makers[k], PyArray_DATA(made), room)) {
            Py_CLEAR(made);
        }
    }
    PyMem_RawFree(room);
    return (PyObject *)made;
}

/* a.argsort() that keeps the order of equal elements; of rows, or in NumPy's order, as parts.c has
 * it. */
PyObject *npa_argsort(void *what, PyObject *self, PyObject *const *args, Py_ssize_t n,
                      PyObject *names)
{
    PyArrayObject *a = (PyArrayObject *)self;
    if (PyArray_NDIM(a) != 1) {
        return npa_argsort_parts(what, self, args, n, names);
    }
    const maker *make = maker_of(a);
    if (make == NULL || PyArray_SIZE(a) < NPA_LEAST_SORTED ||
        npa_read_sort(1, args, n, names) != 1 || !npa_lies_open(a, false)) {
        return NULL;
    }
    keyed of = {.data = PyArray_BYTES(a), .step = PyArray_STRIDE(a, 0), .n = PyArray_SIZE(a)};
    return ordered(&of, &make, 1);
}

/* lexsort(keys): a tuple or list of vectors, or the rows of a matrix */
PyObject *npa_lexsort(void *what, PyObject *self, PyObject *const *args, Py_ssize_t n,
                      PyObject *names)
{
    enum { MOST = 16 };
    keyed of[MOST];
    const maker *makers[MOST];
    PyObject *keys = n == 1 && names == NULL ? args[0] : NULL;
    bool rows = keys != NULL && PyArray_Check(keys) && PyArray_NDIM((PyArrayObject *)keys) == 2;
    bool listed = keys != NULL && npa_is_listed(keys);
    Py_ssize_t count = rows ? PyArray_DIM((PyArrayObject *)keys, 0) : listed ? Py_SIZE(keys) : 0;
    (void)what, (void)self;
    if (count < 1 || count > MOST) {
        return NULL;
    }
    for (Py_ssize_t k = 0; k < count; k++) {
        PyObject *one = rows ? keys : PySequence_Fast_GET_ITEM(keys, k);
        PyArrayObject *a = (PyArrayObject *)one;
        int ndim = PyArray_Check(one) ? PyArray_NDIM(a) : 0;
        makers[k] = ndim == 1 + rows && npa_lies_open(a, false) ? maker_of(a) : NULL;
        if (makers[k] == NULL || PyArray_DIM(a, ndim - 1) < NPA_LEAST_SORTED) {
            return NULL;
        }
        of[k] = (keyed){.data = PyArray_BYTES(a) + (rows ? k * PyArray_STRIDE(a, 0) : 0),
                        .step = PyArray_STRIDE(a, ndim - 1),
                        .n = PyArray_DIM(a, ndim - 1)};
        if (of[k].n != of[0].n) {
            return NULL;
        }
    }
    return ordered(of, makers, count);
}
