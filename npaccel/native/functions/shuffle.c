/* shuffle.c: methods of NumPy's generators that shuffle many elements, as NumPy does. */
#include "functions/functions.h"
#include "functions/draws.h"
#include "small/ways.h"

#include <string.h>

static void fall(void *state, bool old, uint32_t most, uint32_t *to, int64_t n)
{
    if (!old) {
        npa_pcg_state *s = state;
        npa_pcg pcg = {s->words[0], s->words[1], s->has_half != 0, s->half};
        npa_stream_fall(&pcg, most, to, n);
        s->words[0] = pcg.state, s->has_half = pcg.has_half, s->half = pcg.half;
        return;
    }
    npa_twister_state *s = state;
    npa_twister t = {.pos = s->pos};
    memcpy(t.key, s->key, sizeof t.key);
    npa_twister_fall(&t, most, to, n);
    memcpy(s->key, t.key, sizeof t.key);
    s->pos = t.pos;
}

enum { LEAST_SHUFFLED = 128, SOME = 1 << 11, AHEAD = 16 };

#define EXCHANGE(T)                                                                               \
    for (int k = 0; k < n; k++) {                                                                 \
        T *a = (T *)x, *from = a + last - k, *to = a + with[k], was = *from;                      \
        __builtin_prefetch(a + with[k + AHEAD < n ? k + AHEAD : k], 1);                           \
        *from = *to, *to = was;                                                                   \
    }

static void exchange_rows(char *x, npy_intp bytes, int64_t last, const uint32_t *with, int n)
{
    char room[256];
    for (int k = 0; k < n; k++) {
        char *from = x + (last - k) * bytes, *to = x + with[k] * bytes;
        for (npy_intp at = 0; at < bytes && from != to; at += (npy_intp)sizeof room) {
            size_t some = bytes - at < (npy_intp)sizeof room ? (size_t)(bytes - at) : sizeof room;
            memcpy(room, from + at, some);
            memcpy(from + at, to + at, some);
            memcpy(to + at, room, some);
        }
    }
}

/* Elements or rows `last`, `last` - 1, ..., n of them, each with another one. */
static void exchange(char *x, npy_intp bytes, int64_t last, const uint32_t *with, int n)
{
    switch (bytes) {
    case 1: EXCHANGE(uint8_t) break;
    case 2: EXCHANGE(uint16_t) break;
    case 4: EXCHANGE(uint32_t) break;
    case 8: EXCHANGE(uint64_t) break;
    case 16: EXCHANGE(npy_cdouble) break;
    default: exchange_rows(x, bytes, last, with, n);
    }
}

/* False: by NumPy, perhaps with an error. */
static bool shuffle(PyObject *self, PyArrayObject *x)
{
    bool old = (PyObject *)Py_TYPE(self) == npa_rng.old;
    PyObject *source =
        PyObject_GetAttr(self, old ? npa_rng.old_bit_generator : npa_rng.bit_generator);
    void *state = source != NULL ? npa_source_state(source, old ? npa_rng.twister : npa_rng.pcg64)
                                 : NULL;
    npa_opened o;
    bool good = state != NULL && npa_open(&o, &x, 1, 1) == 0;
    /* After the memory is open: another thread may have run meanwhile */
    if (good && npa_source_taken(source)) {
        npa_close(&o);
        good = false;
    }
    if (good) {
        npy_intp rows = PyArray_DIM(x, 0), bytes = PyArray_NBYTES(x) / rows;
        uint32_t with[SOME];
        for (int64_t last = rows - 1; last > 0; last -= SOME) {
            int n = last < SOME ? (int)last : SOME;
            fall(state, old, (uint32_t)last, with, n);
            exchange(o.at[0], bytes, last, with, n);
        }
        npa_close(&o);
    }
    Py_XDECREF(source);
    return good;
}

static bool prove_shuffle(bool old)
{
    PyObject *theirs = npa_new_generator(old),
             *ours = theirs != NULL ? npa_new_generator(old) : NULL, *done = NULL, *x = NULL,
             *y = NULL, *a = ours != NULL ? PyArray_Arange(0, NPA_TRIED, 1, NPY_LONG) : NULL,
             *b = a != NULL ? PyArray_Arange(0, NPA_TRIED, 1, NPY_LONG) : NULL;
    npa_draws_in_proof = true;
    done = b != NULL ? PyObject_CallMethod(theirs, "shuffle", "O", a) : NULL;
    npa_draws_in_proof = false;
    x = done != NULL && shuffle(ours, (PyArrayObject *)b) ? npa_state_shown(theirs) : NULL;
    y = x != NULL ? npa_state_shown(ours) : NULL;
    bool good = y != NULL && npa_same_bytes(a, b) && PyObject_RichCompareBool(x, y, Py_EQ) == 1;
    Py_XDECREF(theirs), Py_XDECREF(ours), Py_XDECREF(done), Py_XDECREF(x), Py_XDECREF(y),
        Py_XDECREF(a), Py_XDECREF(b);
    PyErr_Clear();
    return good;
}

static bool may_shuffle(PyObject *self, PyArrayObject *x)
{
    static int proved[2];
    if (PyArray_NDIM(x) == 0 || PyArray_DIM(x, 0) < LEAST_SHUFFLED ||
        PyArray_DIM(x, 0) > INT32_MAX || PyArray_NBYTES(x) == 0 || !PyArray_ISCARRAY(x) ||
        (PyArray_FLAGS(x) & NPA_WARN_ON_WRITE) || !npa_small_type(PyArray_DESCR(x)) ||
        !npa_draws_ready()) {
        return false;
    }
    bool old = (PyObject *)Py_TYPE(self) == npa_rng.old;
    if (!old && (PyObject *)Py_TYPE(self) != npa_rng.generator) {
        return false;
    }
    if (proved[old] == NPA_UNKNOWN) {
        proved[old] = prove_shuffle(old) ? NPA_GOOD : NPA_BAD;
    }
    return proved[old] == NPA_GOOD;
}

/* NumPy's method, nothing of which is looked at; NULL, without error: it is called otherwise. */
static PyObject *unseen(void *method, PyObject *self, PyObject *const *args, Py_ssize_t n,
                        PyObject *names)
{
    if (method == NULL) {
        return NULL;
    }
    npa_suspended++;
    PyObject *result = ((_PyCFunctionFastWithKeywords)(void (*)(void))method)(self, args, n, names);
    npa_suspended--;
    return result;
}

/* shuffle(x): elements, or rows, of one array. What is left to NumPy assigns row by row. */
PyObject *npa_shuffle(void *what, PyObject *self, PyObject *const *args, Py_ssize_t n,
                      PyObject *names)
{
    if (npa_draws_in_proof || n < 1 || !PyArray_CheckExact(args[0])) {
        return NULL;
    }
    PyArrayObject *x = (PyArrayObject *)args[0];
    if (n == 1 && names == NULL && may_shuffle(self, x) && shuffle(self, x)) {
        return Py_NewRef(Py_None);
    }
    return PyErr_Occurred() ? NULL : unseen(what, self, args, n, names);
}

/* bytes(length): NumPy's, by integers that it converts and copies. */
PyObject *npa_random_bytes(void *what, PyObject *self, PyObject *const *args, Py_ssize_t n,
                           PyObject *names)
{
    return unseen(what, self, args, n, names);
}
