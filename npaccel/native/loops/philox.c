/* philox.c: random numbers as functions of their place in a stream: ufuncs for requests
 * (ir/drawing.py has the same operations), and the same stream as a bit generator of NumPy's for
 * all else.
 *
 * Philox 4x32-10: J. K. Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (SC'11). */
#include "loops/primitive.h"
#include "loops/loops.h"

#include <math.h>
#include <numpy/random/bitgen.h>
#include <string.h>

#include "drawing_tables.h"
#include "native_docs.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3", "fp-contract=off")
#elif defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

/* ------------------------------------------------------------------------------- the functions */

typedef struct { uint64_t word[2]; } block;

static inline block block_at(uint64_t counter, uint64_t high, uint64_t key)
{
    uint32_t a = (uint32_t)counter, b = (uint32_t)(counter >> 32), d = (uint32_t)high,
             e = (uint32_t)(high >> 32);
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t first = (uint64_t)a * MULTIPLIERS[0], second = (uint64_t)d * MULTIPLIERS[1];
        a = (uint32_t)(second >> 32) ^ k0 ^ b, b = (uint32_t)second;
        d = (uint32_t)(first >> 32) ^ k1 ^ e, e = (uint32_t)first;
        k0 += KEY_STEPS[0], k1 += KEY_STEPS[1];
    }
    return (block){{a | (uint64_t)b << 32, d | (uint64_t)e << 32}};
}

static inline double polynomial(double x, const double *table, int n)
{
    double result = table[n - 1];
    for (int i = n - 2; i >= 0; i--) {
        result = fma(result, x, table[i]);
    }
    return result;
}
#define POLYNOMIAL(x, table) polynomial(x, table, (int)(sizeof table / sizeof *table))

static inline double as_double(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint64_t as_bits(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline double open_unit(uint64_t bits)
{
    uint64_t k = bits >> 11 & (((uint64_t)1 << 52) - 1);
    return as_double(k | 0x3FF0000000000000u) - (1.0 - 0x1p-53);
}

static inline double minus_log(double x)
{
    int64_t bits = (int64_t)as_bits(x), k = (bits - 0x3FE6A09E667F3BCD) >> 52;
    double n = (double)k, f = as_double((uint64_t)(bits - (int64_t)((uint64_t)k << 52))) - 1.0;
    double s = f / (f + 2.0), z = s * s, square = f * f * 0.5;
    double tail = s * fma(z, POLYNOMIAL(z, LOG_F8), square);
    return (square - fma(n, LN2_LOW, tail)) - fma(n, LN2_HIGH, f);
}

static inline double normal_of(uint64_t bits)
{
    double x = 1.0 - open_unit(bits), w = minus_log(fma(-x, x, 1.0)), size;
    if (w > NEAR) {
        double s = sqrt(w);
        size = x *
               (w > FAR ? POLYNOMIAL(s - 5.0, NORMAL_FARTHER) : POLYNOMIAL(s - 3.125, NORMAL_FAR));
    } else {
        size = x * POLYNOMIAL(w - 2.5, NORMAL);
    }
    return as_double(as_bits(size) | (bits & (uint64_t)1 << 63));
}

static inline double exponential_of(uint64_t bits) { return minus_log(open_unit(bits)); }

static inline uint64_t fraction_of(uint64_t bits, uint64_t below)
{
    return (uint64_t)((unsigned __int128)bits * below >> 64);
}

/* ------------------------------------------------------------------------------------- ufuncs */

enum { PHILOX, PHILOX_HALF, FRACTION, UNIT, SINGLE, NORMAL_OF, EXPONENTIAL, FUNCTIONS };
static const char *const names[FUNCTIONS] = {"philox",    "philox_half", "fraction_of",   "unit_of",
                                             "single_of", "normal_of",   "exponential_of"};

/* With code of the processor's kind, where it has some: one element behind the other of the first
 * operand and of the output. */
static bool by_primitive(int which, int nin, npy_intp size, char **p, npy_intp n, const npy_intp *s)
{
    static npa_block_function *found[FUNCTIONS];
    for (int k = 0; k <= nin; k++) {
        if (s[k] != (k == nin ? size : k == 0 ? 8 : 0)) {
            return false;
        }
    }
    if (found[which] == NULL && (found[which] = npa_primitive_of(names[which])) == NULL) {
        return false;
    }
    int64_t words[1 + 2 * NPA_MAX_ARGS] = {n}, range[4] = {0, 1, 0, n};
    for (int k = 0; k <= nin; k++) {
        words[1 + 2 * k] = (int64_t)(intptr_t)p[k], words[2 + 2 * k] = (int64_t)s[k];
    }
    found[which](words, range, NULL, (uint32_t[1]){0});
    return true;
}

static inline uint64_t at(const char *p, npy_intp step, npy_intp i)
{
    uint64_t x;
    memcpy(&x, p + i * step, sizeof x);
    return x;
}

#define LOOP(NAME, WHICH, NIN, T, VALUE)                                                           \
    static void NAME##_loop(char **p, const npy_intp *n, const npy_intp *s, void *data)            \
    {                                                                                              \
        (void)data;                                                                                \
        for (npy_intp i = by_primitive(WHICH, NIN, sizeof(T), p, *n, s) ? *n : 0; i < *n; i++) {   \
            T value = VALUE;                                                                       \
            memcpy(p[NIN] + i * s[NIN], &value, sizeof value);                                     \
        }                                                                                          \
    }
LOOP(unit_of, UNIT, 1, double, (double)(at(p[0], s[0], i) >> 11) * 0x1p-53)
LOOP(single_of, SINGLE, 1, float, (float)(at(p[0], s[0], i) >> 8) * 0x1p-24f)
LOOP(normal_of, NORMAL_OF, 1, double, normal_of(at(p[0], s[0], i)))
LOOP(exponential_of, EXPONENTIAL, 1, double, exponential_of(at(p[0], s[0], i)))
LOOP(fraction_of, FRACTION, 2, uint64_t, fraction_of(at(p[0], s[0], i), at(p[1], s[1], i)))
static inline uint64_t philox(uint64_t place, uint64_t high, uint64_t key)
{
    return block_at(place >> 1, high, key).word[place & 1];
}
static inline uint64_t philox_half(uint64_t place, uint64_t high, uint64_t key)
{
    return philox(place >> 1, high, key) >> 32 * (place & 1) & 0xffffffff;
}
LOOP(philox_half, PHILOX_HALF, 3, uint64_t,
     philox_half(at(p[0], s[0], i), at(p[1], s[1], i), at(p[2], s[2], i)))
LOOP(philox, PHILOX, 3, uint64_t, philox(at(p[0], s[0], i), at(p[1], s[1], i), at(p[2], s[2], i)))

static void *const no_data[] = {NULL};
static const char types[] = {NPY_UINT64, NPY_UINT64, NPY_UINT64, NPY_UINT64, NPY_DOUBLE},
                  to_single[] = {NPY_UINT64, NPY_FLOAT};

static struct {
    const char *doc;
    PyUFuncGenericFunction loop;
    const char *types;
    int nin;
} ufuncs[FUNCTIONS] = {
    {"philox(place, high, key): word of a stream.", philox_loop, types, 3},
    {"philox_half(place, high, key): half of a word.", philox_half_loop, types, 3},
    {"fraction_of(bits, below): bits * below / 2**64.", fraction_of_loop, types, 2},
    {"unit_of(bits): a number of [0, 1).", unit_of_loop, types + 3, 1},
    {"single_of(half): a single of [0, 1).", single_of_loop, to_single, 1},
    {"normal_of(bits): a standard normal number.", normal_of_loop, types + 3, 1},
    {"exponential_of(bits): the same, exponential.", exponential_of_loop, types + 3, 1},
};

/* ------------------------------------------------------------------------------ bit generators */

/* What is behind the address that NumPy's functions are given: memory of Python's object. */
typedef struct {
    uint64_t counter, high, key;
    uint64_t odd;      /* whether the block's first word was given */
    uint64_t has_half; /* whether half of a word is left over, and what */
    uint64_t half;
    uint64_t kept, second; /* whether `second` is the block's second word */
} stream;

static uint64_t next64(void *state)
{
    stream *s = state;
    if (s->odd && s->kept) {
        s->odd = s->kept = 0;
        s->high += ++s->counter == 0;
        return s->second;
    }
    block b = block_at(s->counter, s->high, s->key);
    if (s->odd) {
        s->odd = 0;
        s->high += ++s->counter == 0;
        return b.word[1];
    }
    s->odd = s->kept = 1, s->second = b.word[1];
    return b.word[0];
}

static uint32_t next32(void *state)
{
    stream *s = state;
    if (s->has_half) {
        s->has_half = 0;
        return (uint32_t)s->half;
    }
    uint64_t word = next64(state);
    s->has_half = 1, s->half = word >> 32;
    return (uint32_t)word;
}

static double next_double(void *state) { return (double)(next64(state) >> 11) * 0x1p-53; }

/* state: a writable view of memory that nobody moves. */
static bool get_stream(PyObject *state, stream **s)
{
    Py_buffer view;
    if (PyObject_GetBuffer(state, &view, PyBUF_WRITABLE) < 0) {
        return false;
    }
    bool fits = view.len == sizeof **s;
    *s = view.buf;
    PyBuffer_Release(&view); /* `state` has one of its own */
    if (!fits) {
        PyErr_SetString(PyExc_TypeError, "the state of a stream is eight words");
    }
    return fits;
}

/* philox_install(capsule, state): the bit generator in the capsule draws from it. */
static PyObject *install(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *capsule, *state;
    stream *s;
    if (!PyArg_ParseTuple(args, "OO", &capsule, &state) || !get_stream(state, &s)) {
        return NULL;
    }
    bitgen_t *bits = PyCapsule_GetPointer(capsule, "BitGenerator");
    if (bits == NULL) {
        return NULL;
    }
    *bits = (bitgen_t){.state = s, .next_uint64 = next64, .next_uint32 = next32,
                       .next_double = next_double, .next_raw = next64};
    Py_RETURN_NONE;
}

/* Whether the next n words are drawn: then `place` is that of the first. */
static bool draw(stream *s, npy_intp n, uint64_t *place)
{
    if (s->counter >> 61 != 0) {
        return false;
    }
    uint64_t after = *place = 2 * s->counter + s->odd;
    after += (uint64_t)n;
    s->counter = after >> 1, s->odd = after & 1, s->kept = 0;
    return true;
}

/* philox_take(state, n): (place, high, key) of the next n words, which count as drawn; None: they
 * are not places of one sequence. */
static PyObject *take(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *state;
    Py_ssize_t n;
    uint64_t place;
    stream *s;
    if (!PyArg_ParseTuple(args, "On", &state, &n) || !get_stream(state, &s)) {
        return NULL;
    }
    if (!draw(s, n, &place)) {
        Py_RETURN_NONE;
    }
    return Py_BuildValue("KKK", (unsigned long long)place, (unsigned long long)s->high,
                         (unsigned long long)s->key);
}

/* philox_words(state, n): an array of the next n words. */
static PyObject *words(PyObject *module, PyObject *args)
{
    (void)module;
    enum { SOME = 512 };
    PyObject *state;
    npy_intp n;
    uint64_t place, places[SOME];
    stream *s;
    if (!PyArg_ParseTuple(args, "On", &state, &n) || !get_stream(state, &s)) {
        return NULL;
    }
    PyObject *made = PyArray_SimpleNew(1, &n, NPY_UINT64);
    if (made == NULL) {
        return NULL;
    }
    char *to = PyArray_DATA((PyArrayObject *)made);
    if (!draw(s, n, &place)) {
        for (npy_intp i = 0; i < n; i++) {
            uint64_t word = next64(s);
            memcpy(to + 8 * i, &word, sizeof word);
        }
        return made;
    }
    for (npy_intp done = 0, some; done < n; done += some) {
        some = n - done < SOME ? n - done : SOME;
        for (npy_intp i = 0; i < some; i++) {
            places[i] = place + (uint64_t)(done + i);
        }
        char *p[] = {(char *)places, (char *)&s->high, (char *)&s->key, to + 8 * done};
        philox_loop(p, &some, (const npy_intp[]){8, 0, 0, 8}, NULL);
    }
    return made;
}

static PyMethodDef functions[] = {
    {"philox_install", install, METH_VARARGS, NPA_DOC_philox_install},
    {"philox_take", take, METH_VARARGS, NPA_DOC_philox_take},
    {"philox_words", words, METH_VARARGS, NPA_DOC_philox_words},
    {NULL, NULL, 0, NULL}};

int npa_philox_init(PyObject *module)
{
    for (int i = 0; i < FUNCTIONS; i++) {
        PyObject *u = PyUFunc_FromFuncAndData(&ufuncs[i].loop, no_data, ufuncs[i].types, 1,
                                              ufuncs[i].nin, 1, PyUFunc_None, names[i],
                                              ufuncs[i].doc, 0);
        if (u == NULL || PyModule_AddObject(module, names[i], u) < 0) {
            Py_XDECREF(u);
            return -1;
        }
    }
    return PyModule_AddFunctions(module, functions);
}
