/* draws.c: methods of NumPy's Generator, with PCG64, and RandomState, with MT19937, that draw many
 * numbers, as NumPy does. shuffle.c shuffles with the same generators. */
#include "functions/functions.h"
#include "functions/draws.h"
#include "small/ways.h"

#include <math.h>
#include <numpy/random/bitgen.h>
#include <string.h>

enum { MOST_SLOTS = 5, FEW = 128, MOST_RANGE = 1 << 28 };

typedef struct { /* part of a RandomState, behind a bitgen_t */
    bitgen_t *bits;
    int has_gauss;
    double gauss;
} gauss_state;

/* allowed: what a parameter may be here, '.': any number; '+': a positive one; '1': one between 0
 * and 1; 'n': a positive whole number; NULL: there are none. */
typedef struct {
    const char *name, *function, *allowed;
    enum npa_drawing kind;
    int then;
    bool whole;
    /* The parameters, "size", and others; "*": all arguments are the size */
    const char *slots[MOST_SLOTS + 1];
    double defaults[2];
    enum npa_proved proved[2]; /* second: of NPA_FEW */
    void (*draws)(void);
} method;

static method methods[] = {
    {"random", .kind = NPA_UNIFORM, .slots = {"size", "dtype", "out"}},
    {"standard_normal", .kind = NPA_NORMAL, .slots = {"size", "dtype", "out"}},
    {"standard_exponential", .kind = NPA_EXPONENTIAL, .slots = {"size", "dtype", "method", "out"}},
    {"uniform", .allowed = "..", .kind = NPA_UNIFORM, .then = NPA_MOVED,
     .slots = {"low", "high", "size"}, .defaults = {0, 1}},
    {"normal", .allowed = ".+", .kind = NPA_NORMAL, .then = NPA_MOVED,
     .slots = {"loc", "scale", "size"}, .defaults = {0, 1}},
    {"exponential", .allowed = "+", .kind = NPA_EXPONENTIAL, .then = NPA_SCALED,
     .slots = {"scale", "size"}, .defaults = {1}},
    {"integers", .kind = NPA_BELOW, .whole = true,
     .slots = {"low", "high", "size", "dtype", "endpoint"}},
    {"lognormal", .allowed = ".+", .kind = NPA_NORMAL, .then = NPA_EXPED,
     .slots = {"mean", "sigma", "size"}, .defaults = {0, 1}},
    {"poisson", .allowed = "+", .kind = NPA_FEW, .whole = true, .slots = {"lam", "size"},
     .defaults = {1}, .function = "random_poisson"},
    {"binomial", .allowed = "n1", .kind = NPA_BY_NUMPY, .whole = true, .slots = {"n", "p", "size"},
     .defaults = {NAN, NAN}, .function = "random_binomial"},
};

static method old_methods[] = {
    {"rand", .kind = NPA_UNIFORM, .slots = {"*"}},
    {"random_sample", .kind = NPA_UNIFORM, .slots = {"size"}},
    {"random", .kind = NPA_UNIFORM, .slots = {"size"}},
    {"uniform", .allowed = "..", .kind = NPA_UNIFORM, .then = NPA_MOVED,
     .slots = {"low", "high", "size"}, .defaults = {0, 1}},
    {"randn", .kind = NPA_NORMAL, .slots = {"*"}},
    {"standard_normal", .kind = NPA_NORMAL, .slots = {"size"}},
    {"normal", .allowed = ".+", .kind = NPA_NORMAL, .then = NPA_MOVED,
     .slots = {"loc", "scale", "size"}, .defaults = {0, 1}},
    {"randint", .kind = NPA_BELOW, .whole = true, .slots = {"low", "high", "size", "dtype"}},
};

struct npa_rng npa_rng;

/* ------------------------------------------------------------------------------------ arguments */

/* A call's arguments by the method's slots, NULL where not given. False: a wrong call, or one too
 * long. */
static bool read_slots(const method *m, PyObject *const *args, Py_ssize_t n, PyObject *names,
                       PyObject **slots)
{
    int nslots = 0;
    if (m->slots[0][0] == '*') {
        return names == NULL && n > 0;
    }
    while (nslots < MOST_SLOTS && m->slots[nslots] != NULL) {
        nslots++;
    }
    return npa_read_call(args, n, names, m->slots, nslots, slots);
}

static PyObject *slot_of(const method *m, PyObject *const *slots, const char *name)
{
    for (int i = 0; i < MOST_SLOTS && m->slots[i] != NULL; i++) {
        if (strcmp(m->slots[i], name) == 0) {
            return slots[i];
        }
    }
    return NULL;
}

/* How many numbers these dimensions ask for; -1: they are others. */
static npy_intp read_dims(PyObject *const *items, Py_ssize_t ndim, npy_intp *dims)
{
    npy_intp n = 1;
    if (ndim < 1 || ndim > NPA_MAX_DIMS) {
        return -1;
    }
    for (int i = 0; i < ndim; i++) {
        PyObject *item = items[i];
        dims[i] = PyLong_CheckExact(item) ? PyLong_AsSsize_t(item) : -1;
        if (dims[i] < 1 || dims[i] > PY_SSIZE_T_MAX / 16 / n) {
            PyErr_Clear();
            return -1;
        }
        n *= dims[i];
    }
    return n;
}

/* What a tuple or number asks for, or all of the arguments. */
static npy_intp read_size(const method *m, PyObject *const *slots, PyObject *const *args,
                          Py_ssize_t n, int *ndim, npy_intp *dims)
{
    PyObject *size = slot_of(m, slots, "size");
    bool all = m->slots[0][0] == '*', tuple = size != NULL && PyTuple_CheckExact(size);
    Py_ssize_t count = all ? n : tuple ? PyTuple_GET_SIZE(size) : size != NULL;
    *ndim = (int)count;
    return read_dims(all ? args : tuple ? PySequence_Fast_ITEMS(size) : &size, count, dims);
}

static bool read_number(PyObject *o, double otherwise, char allowed, double *to)
{
    bool known = o == NULL || PyFloat_Check(o) || PyLong_CheckExact(o);
    *to = o == NULL ? otherwise : known ? PyFloat_AsDouble(o) : NAN;
    if (PyErr_Occurred()) {
        PyErr_Clear();
        return false;
    }
    bool good = known && isfinite(*to) && fabs(*to) < 1e15;
    switch (allowed) {
    case '+': return good && *to > 0;
    case '1': return good && *to > 0 && *to < 1;
    case 'n':
        return good && *to >= 1 && *to < 1e9 && *to == floor(*to) && o != NULL &&
               PyLong_CheckExact(o);
    default: return good;
    }
}

static bool read_integer(PyObject *o, int64_t *to)
{
    if (!PyLong_CheckExact(o) && !PyArray_IsScalar(o, LongLong) && !PyArray_IsScalar(o, Long)) {
        return false;
    }
    PyObject *number = PyNumber_Index(o);
    *to = number != NULL ? PyLong_AsLongLong(number) : 0;
    Py_XDECREF(number);
    bool good = !PyErr_Occurred();
    PyErr_Clear();
    return good;
}

/* integers(low, high=None, size=None, dtype=np.int64, endpoint=False) */
static bool read_range(PyObject *const *slots, npa_distribution *d)
{
    int64_t low = 0, high = 0;
    /* RandomState has no slot 4 */
    bool two = slots[1] != NULL && slots[1] != Py_None, closed = slots[4] == Py_True;
    if (slots[0] == NULL || !read_integer(slots[0], two ? &low : &high) ||
        (two && !read_integer(slots[1], &high)) ||
        (slots[4] != NULL && slots[4] != Py_True && slots[4] != Py_False) || high < low ||
        (!closed && high == low)) {
        return false;
    }
    uint64_t range = (uint64_t)high - (uint64_t)low - !closed;
    d->offset = low, d->range = (uint32_t)range;
    return range > 0 && range < MOST_RANGE; /* others draw again too often, or take 64 bits */
}

static bool read_parameters(const method *m, PyObject *const *slots, npa_distribution *d)
{
    PyObject *dtype = slot_of(m, slots, "dtype"), *out = slot_of(m, slots, "out");
    PyTypeObject *usual = m->whole ? &PyLongArrType_Type : &PyDoubleArrType_Type;
    bool named = dtype == (PyObject *)usual || (m->whole && dtype == (PyObject *)&PyLong_Type);
    if ((dtype != NULL && !named) || (out != NULL && out != Py_None) ||
        slot_of(m, slots, "method") != NULL) {
        return false;
    }
    for (int i = 0; m->allowed != NULL && m->allowed[i] != 0; i++) {
        if (!read_number(slots[i], m->defaults[i], m->allowed[i], &d->params[i])) {
            return false;
        }
    }
    d->kind = m->kind, d->then = m->then, d->whole = m->whole;
    d->binomial = strcmp(m->name, "binomial") == 0;
    d->shift = d->params[0], d->scale = d->then == NPA_SCALED ? d->params[0] : d->params[1];
    if (m->kind == NPA_UNIFORM) {
        d->scale = d->params[1] - d->params[0];
        if (d->then == NPA_MOVED && !(d->scale > 0)) {
            return false;
        }
    }
    if (m->kind == NPA_FEW) {
        d->kind = d->params[0] < 10 ? NPA_FEW : NPA_BY_NUMPY, d->limit = exp(-d->params[0]);
    }
    return m->kind != NPA_BELOW || read_range(slots, d);
}

/* ----------------------------------------------------------------------------------- generators */

/* Where the state of a generator's source is; NULL, without error: it is of another class. */
void *npa_source_state(PyObject *source, PyObject *type)
{
    PyObject *capsule =
        (PyObject *)Py_TYPE(source) == type ? PyObject_GetAttr(source, npa_rng.capsule) : NULL;
    bitgen_t *bits = capsule != NULL ? PyCapsule_GetPointer(capsule, "BitGenerator") : NULL;
    Py_XDECREF(capsule);
    PyErr_Clear();
    return bits != NULL ? bits->state : NULL;
}

/* Whether another thread draws from it, without the GIL. */
bool npa_source_taken(PyObject *source)
{
    PyObject *lock = PyObject_GetAttr(source, npa_rng.lock);
    PyObject *taken = lock != NULL ? PyObject_CallMethodOneArg(lock, npa_rng.acquire, Py_False)
                                   : NULL;
    PyObject *done = taken == Py_True ? PyObject_CallMethodNoArgs(lock, npa_rng.release) : NULL;
    bool free = done != NULL; /* and stays so while the GIL is held */
    Py_XDECREF(lock), Py_XDECREF(taken), Py_XDECREF(done);
    PyErr_Clear();
    return !free;
}

static void draw_new(npa_pcg_state *s, const npa_distribution *d, npa_drawn *to, npy_intp n)
{
    npa_pcg pcg = {s->words[0], s->words[1], s->has_half != 0, s->half};
    npa_stream_draw(d, &pcg, to, n);
    s->words[0] = pcg.state, s->has_half = pcg.has_half, s->half = pcg.half;
}

/* What a RandomState keeps of normal numbers: it begins with the address of the bitgen_t before
 * it. */
static gauss_state *gauss_of(PyObject *old)
{
    char *begin = (char *)old, *end = begin + Py_TYPE(old)->tp_basicsize - sizeof(gauss_state);
    for (char *at = begin + sizeof(PyObject) + sizeof(bitgen_t); at <= end; at += sizeof(void *)) {
        if (((gauss_state *)at)->bits == (bitgen_t *)(at - sizeof(bitgen_t))) {
            return (gauss_state *)at;
        }
    }
    return NULL;
}

static bool draw_old(PyObject *self, npa_twister_state *s, const npa_distribution *d, npa_drawn *to,
                     npy_intp n)
{
    gauss_state *g = gauss_of(self);
    npa_twister t = {.pos = s->pos,
                     .has_gauss = g != NULL ? &g->has_gauss : NULL,
                     .gauss = g != NULL ? &g->gauss : NULL};
    memcpy(t.key, s->key, sizeof t.key);
    if (g == NULL || !npa_twister_draw(d, &t, to, n)) {
        return false;
    }
    memcpy(s->key, t.key, sizeof t.key);
    s->pos = t.pos;
    return true;
}

PyObject *npa_new_generator(bool old)
{
    PyObject *source = PyObject_CallFunction(old ? npa_rng.twister : npa_rng.pcg64, "i", 20261123);
    PyObject *made =
        source != NULL ? PyObject_CallOneArg(old ? npa_rng.old : npa_rng.generator, source) : NULL;
    Py_XDECREF(source);
    return made;
}

/* What Python shows of its state: something to compare. */
PyObject *npa_state_shown(PyObject *generator)
{
    if ((PyObject *)Py_TYPE(generator) != npa_rng.old) {
        PyObject *source = PyObject_GetAttr(generator, npa_rng.bit_generator);
        PyObject *shown = source != NULL ? PyObject_GetAttrString(source, "state") : NULL;
        Py_XDECREF(source);
        return shown;
    }
    PyObject *state = PyObject_CallMethod(generator, "get_state", NULL);
    PyObject *text = state != NULL && PyTuple_Check(state) && PyTuple_GET_SIZE(state) == 5
                   ? PyObject_CallMethod(PyTuple_GET_ITEM(state, 1), "tobytes", NULL) : NULL;
    PyObject *shown = text != NULL
                          ? PyTuple_Pack(4, text, PyTuple_GET_ITEM(state, 2),
                                         PyTuple_GET_ITEM(state, 3), PyTuple_GET_ITEM(state, 4))
                          : NULL;
    Py_XDECREF(state), Py_XDECREF(text);
    return shown;
}

static PyObject *draw(PyObject *self, const npa_distribution *d, int ndim, npy_intp *dims)
{
    bool old = (PyObject *)Py_TYPE(self) == npa_rng.old;
    PyObject *source =
                 PyObject_GetAttr(self, old ? npa_rng.old_bit_generator : npa_rng.bit_generator),
             *made = NULL;
    void *state = source != NULL ? npa_source_state(source, old ? npa_rng.twister : npa_rng.pcg64)
                                 : NULL;
    char *place = NULL;
    if (state != NULL) { /* first, for another thread may run meanwhile */
        made = npa_new_result(d->whole ? NPY_INT64 : NPY_DOUBLE, ndim, dims, &place);
    }
    if (made != NULL && npa_source_taken(source)) {
        Py_CLEAR(made);
    }
    if (made != NULL) {
        int before = npa_now(NPA_IN_KERNELS);
        npa_drawn *to = (npa_drawn *)place;
        npy_intp n = PyArray_SIZE((PyArrayObject *)made);
        if (!old) {
            draw_new(state, d, to, n);
        } else if (!draw_old(self, state, d, to, n)) {
            Py_CLEAR(made);
        }
        npa_now(before);
    }
    Py_XDECREF(source);
    return made;
}

/* --------------------------------------------------------------------------------------- proofs */

/* NumPy's functions, and its tables. */
static bool begin(void)
{
    PyObject *random = PyImport_ImportModule("numpy.random");
    PyObject *module = random != NULL ? PyImport_ImportModule("numpy.random._generator") : NULL;
    PyObject *file = module != NULL ? PyObject_GetAttrString(module, "__file__") : NULL;
    const char *path = file != NULL ? PyUnicode_AsUTF8(file) : NULL;
    void *library = path != NULL ? npa_loaded(path) : NULL;
    void (*normal)(void) = NULL, (*exponential)(void) = NULL;
    if (library != NULL) {
        normal = npa_loaded_function(library, "random_standard_normal");
        exponential = npa_loaded_function(library, "random_standard_exponential");
        npa_rng.pcg64 = PyObject_GetAttrString(random, "PCG64");
        npa_rng.generator = PyObject_GetAttrString(random, "Generator");
        npa_rng.twister = PyObject_GetAttrString(random, "MT19937");
        npa_rng.old = PyObject_GetAttrString(random, "RandomState");
    }
    for (size_t i = 0; library != NULL && i < sizeof methods / sizeof *methods; i++) {
        method *m = &methods[i];
        m->draws = m->function != NULL ? npa_loaded_function(library, m->function) : normal;
        m->proved[0] = m->proved[1] = m->draws == NULL ? NPA_BAD : NPA_UNKNOWN;
    }
    Py_XDECREF(random), Py_XDECREF(module), Py_XDECREF(file);
    PyErr_Clear();
    npa_rng.bit_generator = PyUnicode_InternFromString("bit_generator");
    npa_rng.old_bit_generator = PyUnicode_InternFromString("_bit_generator");
    npa_rng.capsule = PyUnicode_InternFromString("capsule");
    npa_rng.lock = PyUnicode_InternFromString("lock");
    npa_rng.acquire = PyUnicode_InternFromString("acquire");
    npa_rng.release = PyUnicode_InternFromString("release");
    return normal != NULL && exponential != NULL && npa_rng.pcg64 != NULL &&
           npa_rng.generator != NULL && npa_rng.twister != NULL && npa_rng.old != NULL &&
           npa_rng.release != NULL && npa_stream_learn(normal, exponential);
}

bool npa_same_bytes(PyObject *a, PyObject *b)
{
    PyArrayObject *x = (PyArrayObject *)a, *y = (PyArrayObject *)b;
    return PyArray_Check(a) && PyArray_Check(b) && PyArray_NBYTES(x) == PyArray_NBYTES(y) &&
           PyArray_TYPE(x) == PyArray_TYPE(y) &&
           memcmp(PyArray_DATA(x), PyArray_DATA(y), (size_t)PyArray_NBYTES(x)) == 0;
}

bool npa_draws_in_proof;

/* Whether a call of this kind draws here what NumPy draws, and leaves the generator as NumPy does:
 * of this NumPy, on this machine. */
static bool prove(const method *m, bool old, const npa_distribution *d, PyObject *const *slots)
{
    PyObject *theirs = npa_new_generator(old),
             *ours = theirs != NULL ? npa_new_generator(old) : NULL;
    PyObject *f = ours != NULL ? PyObject_GetAttrString(theirs, m->name) : NULL, *arguments = NULL,
             *words = PyDict_New(), *size = PyLong_FromLong(NPA_TRIED), *a = NULL, *b = NULL,
             *x = NULL, *y = NULL;
    npy_intp dims[1] = {NPA_TRIED};
    bool all = m->slots[0][0] == '*', good = f != NULL && words != NULL && size != NULL;
    arguments = !good ? NULL : all ? PyTuple_Pack(1, size) : PyTuple_New(0);
    good = arguments != NULL;
    for (int i = 0; good && !all && i < MOST_SLOTS && m->slots[i] != NULL; i++) {
        PyObject *value = strcmp(m->slots[i], "size") == 0 ? size : slots[i];
        good = value == NULL || PyDict_SetItemString(words, m->slots[i], value) == 0;
    }
    npa_draws_in_proof = true;
    a = good ? PyObject_Call(f, arguments, words) : NULL;
    npa_draws_in_proof = false;
    b = a != NULL ? draw(ours, d, 1, dims) : NULL;
    x = b != NULL ? npa_state_shown(theirs) : NULL;
    y = x != NULL ? npa_state_shown(ours) : NULL;
    good = y != NULL && npa_same_bytes(a, b) && PyObject_RichCompareBool(x, y, Py_EQ) == 1;
    Py_XDECREF(theirs), Py_XDECREF(ours), Py_XDECREF(f), Py_XDECREF(arguments), Py_XDECREF(words);
    Py_XDECREF(size), Py_XDECREF(a), Py_XDECREF(b), Py_XDECREF(x), Py_XDECREF(y);
    PyErr_Clear();
    return good;
}

void *npa_draws_method(const char *name)
{
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        if (strncmp(name, "Generator.", 10) == 0 && strcmp(name + 10, methods[i].name) == 0) {
            return &methods[i];
        }
    }
    for (size_t i = 0; i < sizeof old_methods / sizeof *old_methods; i++) {
        if (strncmp(name, "RandomState.", 12) == 0 && strcmp(name + 12, old_methods[i].name) == 0) {
            return &old_methods[i];
        }
    }
    return NULL;
}

Py_ssize_t npa_draws_before_size(const void *what)
{
    const method *m = what;
    Py_ssize_t k = 0;
    while (m->slots[0][0] != '*' && strcmp(m->slots[k], "size") != 0) {
        k++;
    }
    return k;
}

static bool is_old(const method *m)
{
    return m >= old_methods && m < old_methods + sizeof old_methods / sizeof *old_methods;
}

static bool pays(const method *m, enum npa_drawing kind, npy_intp n)
{
    return is_old(m) ? n >= (kind == NPA_NORMAL ? FEW : 1) : npa_stream_pays(kind, n);
}

bool npa_draws_ready(void)
{
    if (npa_rng.is == NPA_NOT_YET) {
        npa_rng.is = begin() ? NPA_READY : NPA_OTHER;
    }
    return npa_rng.is == NPA_READY;
}

PyObject *npa_draws(void *what, PyObject *self, PyObject *const *args, Py_ssize_t n,
                    PyObject *names)
{
    method *m = what;
    PyObject *slots[MOST_SLOTS] = {NULL};
    npa_distribution d = {0};
    int ndim;
    npy_intp dims[NPA_MAX_DIMS], size;
    if (npa_draws_in_proof || npa_rng.is == NPA_OTHER || !read_slots(m, args, n, names, slots) ||
        (size = read_size(m, slots, args, n, &ndim, dims)) < 0 || !pays(m, m->kind, size) ||
        !read_parameters(m, slots, &d) || !pays(m, d.kind, size)) {
        return NULL;
    }
    if (!npa_draws_ready() ||
        (PyObject *)Py_TYPE(self) != (is_old(m) ? npa_rng.old : npa_rng.generator)) {
        return NULL;
    }
    d.function = m->draws;
    int way = d.kind == NPA_FEW;
    if (m->proved[way] == NPA_UNKNOWN) {
        m->proved[way] = prove(m, is_old(m), &d, slots) ? NPA_GOOD : NPA_BAD;
    }
    return m->proved[way] == NPA_GOOD ? draw(self, &d, ndim, dims) : NULL;
}
