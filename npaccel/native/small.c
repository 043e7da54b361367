/* small.c: element-wise operations on small plain arrays, by NumPy's inner loops, without what its ufuncs
 * do around them. See Note [Small] at the end. */
#include "record.h"

#include <fenv.h>
#include <string.h>

enum { MOST_DIMS = 8, WAYS = 1024, MOST_IN = 3 };

/* How a ufunc runs where all its inputs have one type. */
typedef struct {
    PyUFuncObject *ufunc;
    int type;
    PyUFuncGenericFunction loop; /* NULL: NumPy finds it */
    void *data;
    PyArray_Descr *in, *out; /* NumPy's own, which live as long as it does */
    npy_intp in_size, out_size;
    bool exact;              /* its bits hang on nothing but an element */
} way;
static way ways[WAYS];

static bool is_number(int type)
{
    return type == NPY_BOOL || (type >= NPY_BYTE && type <= NPY_ULONG) || type == NPY_FLOAT ||
           type == NPY_DOUBLE || type == NPY_CFLOAT || type == NPY_CDOUBLE;
}

/* The loop that NumPy takes where the types of all inputs are this one, if there is one for it. */
static void find_loop(way *w, PyUFuncObject *u, int type, npa_exactness how)
{
    *w = (way){.ufunc = u, .type = type};
    for (int i = 0; i < u->ntypes && is_number(type) && u->functions != NULL; i++) {
        const char *types = u->types + (size_t)i * (size_t)u->nargs;
        int k = 0;
        while (k < u->nin && types[k] == type) {
            k++;
        }
        if (k == u->nin && is_number(types[k]) && u->functions[i] != NULL) {
            w->loop = u->functions[i], w->data = u->data != NULL ? (void *)u->data[i] : NULL;
            w->in = PyArray_DescrFromType(type), w->out = PyArray_DescrFromType(types[k]);
            w->in_size = PyDataType_ELSIZE(w->in), w->out_size = PyDataType_ELSIZE(w->out);
            w->exact = how == NPA_EXACT || (how == NPA_EXACT_IF_REAL && !PyTypeNum_ISCOMPLEX(type));
            return;
        }
    }
}

static const way *find_way(PyUFuncObject *u, int type, npa_exactness how)
{
    size_t h = ((uintptr_t)u >> 4) * 31 + (size_t)type;
    way *w = &ways[(h ^ h >> 10) % WAYS];
    if (w->ufunc != u || w->type != type) {
        find_loop(w, u, type, how);
    }
    return w;
}

/* Where an operand lies, along the axes of the result. */
typedef struct {
    char *data;
    npy_intp steps[MOST_DIMS];
} lay;

typedef struct {
    int ndim, nargs;
    npy_intp shape[MOST_DIMS];
    npy_intp points;
    lay of[MOST_IN + 1];
    _Alignas(16) char scalars[MOST_IN][16];
} space;

/* The axes that operands broadcast to. False: NumPy's to do, or to complain about. */
static bool find_shape(space *s, PyArrayObject *const *arrays, int n)
{
    s->ndim = 0, s->points = 1;
    for (int k = 0; k < n; k++) {
        s->ndim = arrays[k] != NULL && PyArray_NDIM(arrays[k]) > s->ndim ? PyArray_NDIM(arrays[k])
                                                                         : s->ndim;
    }
    if (s->ndim == 0 || s->ndim > MOST_DIMS) {
        return false;
    }
    for (int i = 0; i < s->ndim; i++) {
        s->shape[i] = 1;
    }
    for (int k = 0; k < n; k++) {
        PyArrayObject *a = arrays[k];
        int lead = a != NULL ? s->ndim - PyArray_NDIM(a) : s->ndim;
        for (int i = lead; i < s->ndim; i++) {
            npy_intp extent = PyArray_DIM(a, i - lead);
            if (extent != 1 && s->shape[i] != 1 && extent != s->shape[i]) {
                return false;
            }
            s->shape[i] = extent != 1 ? extent : s->shape[i];
        }
    }
    for (int i = 0; i < s->ndim; i++) {
        if (__builtin_mul_overflow(s->points, s->shape[i], &s->points)) {
            return false;
        }
    }
    return s->points > 0;
}

/* Along each axis the operand's step. False: it does not lie in C order, so that of the result is NumPy's
 * to choose. */
static bool find_steps(space *s, int k, PyArrayObject *a)
{
    int lead = s->ndim - PyArray_NDIM(a);
    npy_intp before = NPY_MAX_INTP;
    s->of[k].data = PyArray_DATA(a);
    for (int i = 0; i < s->ndim; i++) {
        bool moves = i >= lead && PyArray_DIM(a, i - lead) != 1;
        npy_intp step = moves ? PyArray_STRIDE(a, i - lead) : 0;
        s->of[k].steps[i] = step;
        if (moves) {
            if (step < 0 || step > before) {
                return false;
            }
            before = step;
        }
    }
    return true;
}

/* Neighbouring axes become one where all operands allow it. */
static void merge(space *s)
{
    int out = 0;
    for (int i = 1; i < s->ndim; i++) {
        bool one = true;
        for (int k = 0; k < s->nargs && one; k++) {
            one = s->of[k].steps[out] == s->of[k].steps[i] * s->shape[i];
        }
        if (s->shape[out] == 1 || s->shape[i] == 1 || one) {
            for (int k = 0; k < s->nargs; k++) {
                npy_intp *steps = s->of[k].steps;
                steps[out] = s->shape[i] == 1 ? steps[out] : steps[i];
            }
            s->shape[out] *= s->shape[i];
        } else {
            out++;
            s->shape[out] = s->shape[i];
            for (int k = 0; k < s->nargs; k++) {
                s->of[k].steps[out] = s->of[k].steps[i];
            }
        }
    }
    s->ndim = out + 1;
}

static void run(const way *w, const space *s)
{
    char *args[MOST_IN + 1];
    npy_intp steps[MOST_IN + 1], index[MOST_DIMS] = {0}, n;
    int last = s->ndim - 1;
    for (int k = 0; k < s->nargs; k++) {
        args[k] = s->of[k].data, steps[k] = s->of[k].steps[last];
    }
    for (;;) {
        char *p[MOST_IN + 1];
        memcpy(p, args, sizeof p);
        n = s->shape[last];
        w->loop(p, &n, steps, w->data);
        int i = last - 1;
        for (; i >= 0; i--) {
            bool over = ++index[i] == s->shape[i];
            npy_intp by = over ? 1 - s->shape[i] : 1;
            for (int k = 0; k < s->nargs; k++) {
                args[k] += by * s->of[k].steps[i];
            }
            if (!over) {
                break;
            }
            index[i] = 0;
        }
        if (i < 0) {
            return;
        }
    }
}

enum { KINDS = FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW | FE_INVALID };

/* As NumPy calls a loop: with the processor's flags, and without the GIL where others may want it. 0 or -1 */
static int call(const way *w, const space *s)
{
    enum { WORTH = 500 };
    bool alone = s->points <= WORTH ||
                 PyThreadState_Next(PyInterpreterState_ThreadHead(PyInterpreterState_Get())) == NULL;
    if (fetestexcept(KINDS)) {
        feclearexcept(FE_ALL_EXCEPT);
    }
    PyThreadState *mine = alone ? NULL : PyEval_SaveThread();
    run(w, s);
    int flags = fetestexcept(KINDS);
    if (mine != NULL) {
        PyEval_RestoreThread(mine);
    }
    if (PyErr_Occurred()) {
        return -1;
    }
    if (flags == 0) {
        return 0;
    }
    feclearexcept(FE_ALL_EXCEPT);
    return PyUFunc_GiveFloatingpointErrors(
        w->ufunc->name, (flags & FE_DIVBYZERO ? NPY_FPE_DIVIDEBYZERO : 0) |
                        (flags & FE_OVERFLOW ? NPY_FPE_OVERFLOW : 0) |
                        (flags & FE_UNDERFLOW ? NPY_FPE_UNDERFLOW : 0) |
                        (flags & FE_INVALID ? NPY_FPE_INVALID : 0)) < 0 ? -1 : 0;
}

static inline bool is_array(PyObject *o) { return Py_IS_TYPE(o, &PyArray_Type); }
static PyArrayObject *new_array(PyArray_Descr *descr, int ndim, const npy_intp *shape);

/* A scalar's value in that type. */
static bool take_scalar(PyObject *o, const way *w, char *to)
{
    if (PyFloat_CheckExact(o) && w->type == NPY_DOUBLE) {
        double d = PyFloat_AS_DOUBLE(o);
        memcpy(to, &d, sizeof d);
        return true;
    }
    npa_value v;
    if (!npa_classify(o, &v) || v.array != NULL || w->type == NPY_BOOL ||
        (v.type < NPA_WEAK_INT && v.type != w->type)) {
        return false;
    }
    return npa_scalar_value(&v, w->type, to) > 0;
}

static bool apart(PyArrayObject *a, PyArrayObject *b)
{
    char *low[2], *high[2];
    npa_extent(a, &low[0], &high[0]), npa_extent(b, &low[1], &high[1]);
    return high[0] <= low[1] || high[1] <= low[0];
}

/* Whether it is neither large nor pending, and as NumPy's loops take it. */
static inline bool is_simple(PyArrayObject *a, const way *w)
{
    return PyArray_DESCR(a) == w->in && PyArray_ISALIGNED(a) &&
           !(npa_q.nrequests > 0 && npa_is_pending(a));
}

/* Whether no two elements share a place. It lies in C order. */
static bool is_spread(PyArrayObject *a)
{
    npy_intp reach = PyArray_ITEMSIZE(a);
    for (int i = PyArray_NDIM(a) - 1; i >= 0; i--) {
        if (PyArray_DIM(a, i) != 1) {
            if (PyArray_STRIDE(a, i) < reach) {
                return false;
            }
            reach += PyArray_STRIDE(a, i) * (PyArray_DIM(a, i) - 1);
        }
    }
    return true;
}

/* Whether the result may be written over the first input. */
static bool in_place(const way *w, const space *s, PyObject *const *args, PyArrayObject *const *arrays,
                     int nin)
{
    PyArrayObject *out = arrays[0];
    if (out == NULL || args[nin] != args[0] || w->out != w->in || PyArray_NDIM(out) != s->ndim ||
        (PyArray_FLAGS(out) & (NPY_ARRAY_WRITEABLE | NPA_WARN_ON_WRITE)) != NPY_ARRAY_WRITEABLE ||
        !PyArray_CompareLists(PyArray_DIMS(out), s->shape, s->ndim) || !is_spread(out)) {
        return false;
    }
    for (int k = 1; k < nin; k++) {
        if (arrays[k] != NULL && arrays[k] != out && !apart(arrays[k], out)) {
            return false;
        }
    }
    return true;
}

PyObject *npa_small_call(PyUFuncObject *u, PyObject *const *args, Py_ssize_t n, npa_exactness how)
{
    space s;
    PyArrayObject *arrays[MOST_IN] = {NULL}, *out;
    const way *w = NULL;
    int nin = u->nin;
    if (u->nout != 1 || nin > MOST_IN || u->core_enabled || (n != nin && n != nin + 1) ||
        npa_here != NULL) {
        return NULL;
    }
    for (int k = 0; k < nin; k++) {
        if (is_array(args[k])) {
            arrays[k] = (PyArrayObject *)args[k];
            w = w != NULL ? w : find_way(u, PyArray_TYPE(arrays[k]), how);
            if (w->loop == NULL || !is_simple(arrays[k], w)) {
                return NULL;
            }
        }
    }
    if (w == NULL || !find_shape(&s, arrays, nin)) {
        return NULL;
    }
    const way own = *w; /* another thread may have its place for another way */
    w = &own;
    s.nargs = nin + 1;
    size_t widest = (size_t)(w->in_size > w->out_size ? w->in_size : w->out_size);
    if ((size_t)s.points * widest >= npa_least || (n > nin && !in_place(w, &s, args, arrays, nin))) {
        return NULL;
    }
    for (int k = 0; k < nin; k++) {
        if (arrays[k] == NULL) {
            if (!take_scalar(args[k], w, s.scalars[k])) {
                return NULL;
            }
            s.of[k].data = s.scalars[k];
            memset(s.of[k].steps, 0, sizeof *s.of[k].steps * (size_t)s.ndim);
        } else if (!find_steps(&s, k, arrays[k])) {
            return NULL;
        }
    }
    out = n > nin ? (PyArrayObject *)Py_NewRef(arrays[0]) : new_array(w->out, s.ndim, s.shape);
    if (out == NULL) {
        return NULL;
    }
    find_steps(&s, nin, out);
    merge(&s);
    if (!w->exact && s.ndim > 1) {
        Py_DECREF(out);
        return NULL;
    }
    bool due = npa_suspended == 0 && npa_look_due();
    npa_stretch stretch = due ? npa_stretch_begin() : (npa_stretch){0};
    if (call(w, &s) < 0) {
        Py_CLEAR(out);
    }
    if (due) {
        npa_stretch_end(&stretch, NPA_SMALL, (size_t)s.points * widest);
    }
    return (PyObject *)out;
}

/* ------------------------------------------------------------------------- memory used again */

enum { SHELVES = 64, PLACES = 8, MOST_KEPT = 4 << 20 };
static PyArrayObject *kept[SHELVES][PLACES]; /* dead arrays with their memory, the latest last */
static uint8_t nkept[SHELVES];
static size_t kept_bytes;
static destructor numpy_dealloc;
enum { TYPES = NPY_CDOUBLE + 1 };
static PyArray_Descr *numpys_own[TYPES]; /* by type, of numbers */

static inline size_t shelf_of(size_t bytes, int ndim)
{
    size_t h = (bytes >> 3) * 0x9E3779B1u + (size_t)ndim * 0x85EBCA6Bu;
    return (h ^ h >> 15) % SHELVES;
}

static PyArrayObject *take_kept(PyArray_Descr *descr, int ndim, const npy_intp *shape, size_t bytes)
{
    size_t shelf = shelf_of(bytes, ndim);
    for (int i = nkept[shelf] - 1; i >= 0; i--) {
        PyArrayObject *a = kept[shelf][i];
        if (PyArray_NDIM(a) != ndim || (size_t)PyArray_NBYTES(a) != bytes) {
            continue;
        }
        kept[shelf][i] = kept[shelf][--nkept[shelf]];
        kept_bytes -= bytes;
        PyArrayObject_fields *f = (PyArrayObject_fields *)a;
        npy_intp step = PyDataType_ELSIZE(descr);
        int long_axes = 0;
        for (int k = ndim - 1; k >= 0; k--) {
            f->dimensions[k] = shape[k], f->strides[k] = step;
            step *= shape[k];
            long_axes += shape[k] != 1;
        }
        f->flags = NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED | NPY_ARRAY_WRITEABLE | NPY_ARRAY_OWNDATA |
                   (long_axes <= 1 ? NPY_ARRAY_F_CONTIGUOUS : 0);
        f->descr = descr;
        Py_INCREF(descr);
        _Py_NewReference((PyObject *)a);
        return a;
    }
    return NULL;
}

static PyArrayObject *new_array(PyArray_Descr *descr, int ndim, const npy_intp *shape)
{
    size_t bytes = (size_t)PyDataType_ELSIZE(descr);
    for (int i = 0; i < ndim; i++) {
        bytes *= (size_t)shape[i];
    }
    PyObject *handler = PyDataMem_GetHandler();
    PyArrayObject *a = handler == PyDataMem_DefaultHandler ? take_kept(descr, ndim, shape, bytes) : NULL;
    Py_XDECREF(handler);
    if (a == NULL) {
        Py_INCREF(descr);
        a = (PyArrayObject *)PyArray_NewFromDescr(&PyArray_Type, descr, ndim, shape, NULL, NULL, 0, NULL);
    }
    return a;
}

/* Whether it is the dtype that NumPy has of a number, which lives as long as it does. */
static inline bool is_numpys(PyArray_Descr *d)
{
    return d->type_num >= 0 && d->type_num < TYPES && d == numpys_own[d->type_num];
}

/* An array has died: kept with its memory for the next one of its size, if nothing else is known of it. */
static void dealloc(PyObject *o)
{
    PyArrayObject *a = (PyArrayObject *)o;
    PyArrayObject_fields *f = (PyArrayObject_fields *)o;
    bool whole = is_array(o) && f->nd > 0 && PyArray_CHKFLAGS(a, NPY_ARRAY_OWNDATA | NPY_ARRAY_C_CONTIGUOUS) &&
                 is_numpys(f->descr);
    size_t bytes = whole ? (size_t)PyArray_NBYTES(a) : 0;
    if (bytes == 0 || bytes >= npa_threshold || bytes > MOST_KEPT - kept_bytes || f->base != NULL ||
        f->weakreflist != NULL || f->_buffer_info != NULL || f->mem_handler != PyDataMem_DefaultHandler) {
        numpy_dealloc(o);
        return;
    }
    size_t shelf = shelf_of(bytes, f->nd);
    if (nkept[shelf] == PLACES) {
        numpy_dealloc(o);
        return;
    }
    Py_DECREF(f->descr);
    kept[shelf][nkept[shelf]++] = a;
    kept_bytes += bytes;
}

/* What is kept is given back. */
static void end_kept(void)
{
    for (int shelf = 0; shelf < SHELVES; shelf++) {
        while (nkept[shelf] > 0) {
            PyArrayObject *a = kept[shelf][--nkept[shelf]];
            Py_INCREF(PyArray_DESCR(a));
            numpy_dealloc((PyObject *)a);
        }
    }
    kept_bytes = 0;
}

/* ------------------------------------------------------------------------- operators of ndarray */

/* An operator's ufunc, and whether its results have the same bits, whoever computes them. */
typedef struct {
    const char *name;
    PyUFuncObject *ufunc;
    npa_exactness exact;
} operator;
enum { ADD, SUBTRACT, MULTIPLY, TRUE_DIVIDE, FLOOR_DIVIDE, REMAINDER, AND, OR, XOR, NEGATIVE, ABSOLUTE,
       INVERT, SQUARE, LESS, LESS_EQUAL, EQUAL, NOT_EQUAL, GREATER, GREATER_EQUAL, OPERATORS };
static operator operators[OPERATORS] = {
    [ADD] = {.name = "add"}, [SUBTRACT] = {.name = "subtract"}, [MULTIPLY] = {.name = "multiply"},
    [TRUE_DIVIDE] = {.name = "divide"}, [FLOOR_DIVIDE] = {.name = "floor_divide"},
    [REMAINDER] = {.name = "remainder"}, [AND] = {.name = "bitwise_and"}, [OR] = {.name = "bitwise_or"},
    [XOR] = {.name = "bitwise_xor"}, [NEGATIVE] = {.name = "negative"}, [ABSOLUTE] = {.name = "absolute"},
    [INVERT] = {.name = "invert"}, [SQUARE] = {.name = "square"}, [LESS] = {.name = "less"},
    [LESS_EQUAL] = {.name = "less_equal"}, [EQUAL] = {.name = "equal"}, [NOT_EQUAL] = {.name = "not_equal"},
    [GREATER] = {.name = "greater"}, [GREATER_EQUAL] = {.name = "greater_equal"}};

static inline PyObject *try_operator(int which, PyObject *const *args, Py_ssize_t n)
{
    const operator *o = &operators[which];
    return o->ufunc != NULL ? npa_small_call(o->ufunc, args, n, o->exact) : NULL;
}

#define BINARY(slot, which)                                                                       \
    static PyObject *small_##slot(PyObject *a, PyObject *b)                                       \
    {                                                                                             \
        PyObject *args[] = {a, b}, *result = try_operator(which, args, 2);                        \
        return result != NULL || PyErr_Occurred() ? result : npa_numpy.number.nb_##slot(a, b);    \
    }                                                                                             \
    static PyObject *small_inplace_##slot(PyObject *a, PyObject *b)                               \
    {                                                                                             \
        PyObject *args[] = {a, b, a}, *result = try_operator(which, args, 3);                     \
        return result != NULL || PyErr_Occurred() ? result                                        \
                                                  : npa_numpy.number.nb_inplace_##slot(a, b);     \
    }
#define UNARY(slot, which)                                                                        \
    static PyObject *small_##slot(PyObject *a)                                                    \
    {                                                                                             \
        PyObject *result = try_operator(which, &a, 1);                                            \
        return result != NULL || PyErr_Occurred() ? result : npa_numpy.number.nb_##slot(a);       \
    }
#define BINARIES(X)                                                                               \
    X(add, ADD) X(subtract, SUBTRACT) X(multiply, MULTIPLY) X(true_divide, TRUE_DIVIDE)           \
    X(floor_divide, FLOOR_DIVIDE) X(remainder, REMAINDER) X(and, AND) X(or, OR) X(xor, XOR)
#define UNARIES(X) X(negative, NEGATIVE) X(absolute, ABSOLUTE) X(invert, INVERT)
BINARIES(BINARY)
UNARIES(UNARY)

/* x ** 2 is what NumPy has a ufunc of its own for. */
static PyObject *small_power(PyObject *a, PyObject *b, PyObject *modulo)
{
    int over = 0;
    bool two = PyLong_CheckExact(b) && PyLong_AsLongAndOverflow(b, &over) == 2;
    if (two && modulo == Py_None && is_array(a) &&
        (PyArray_ISFLOAT((PyArrayObject *)a) || PyArray_ISCOMPLEX((PyArrayObject *)a))) {
        PyObject *result = try_operator(SQUARE, &a, 1);
        if (result != NULL || PyErr_Occurred()) {
            return result;
        }
    }
    return npa_numpy.number.nb_power(a, b, modulo);
}

static PyObject *small_compare(PyObject *a, PyObject *b, int how)
{
    static const int which[] = {[Py_LT] = LESS, [Py_LE] = LESS_EQUAL, [Py_EQ] = EQUAL,
                                [Py_NE] = NOT_EQUAL, [Py_GT] = GREATER, [Py_GE] = GREATER_EQUAL};
    PyObject *args[] = {a, b}, *result = try_operator(which[how], args, 2);
    return result != NULL || PyErr_Occurred() ? result : npa_numpy.compare(a, b, how);
}

void npa_small_operator(PyUFuncObject *u, npa_exactness how)
{
    for (int i = 0; i < OPERATORS; i++) {
        if (strcmp(operators[i].name, u->name) == 0) {
            operators[i].ufunc = u, operators[i].exact = how;
        }
    }
}

void npa_small_install(bool on)
{
    PyNumberMethods *n = PyArray_Type.tp_as_number;
    const PyNumberMethods *numpys = &npa_numpy.number;
#define SET(slot, which) n->nb_##slot = on ? small_##slot : numpys->nb_##slot;
#define SET_BOTH(slot, which) SET(slot, which) SET(inplace_##slot, which)
    BINARIES(SET_BOTH)
    UNARIES(SET)
    SET(power, SQUARE)
    PyArray_Type.tp_richcompare = on ? small_compare : npa_numpy.compare;
    if (numpy_dealloc == NULL) {
        numpy_dealloc = PyArray_Type.tp_dealloc;
        for (int type = 0; type < TYPES; type++) {
            numpys_own[type] = is_number(type) ? PyArray_DescrFromType(type) : NULL;
        }
    }
    PyArray_Type.tp_dealloc = on ? dealloc : numpy_dealloc;
    if (!on) {
        end_kept();
    }
}

/* Note [Small]
 *
 * Of the 0.5 microseconds that NumPy takes for `a + b` on ten doubles, a few nanoseconds are its inner
 * loop's: the rest finds the loop, asks operands' classes, broadcasts, makes the result, looks at errstate.
 * What follows does the same for the common case alone, and calls the same loop on the same elements, so
 * results have NumPy's bits, and are plain arrays: inputs of one native type and numbers that fit it, which
 * lie in C order. All else is NumPy's: other types, orders, overlaps, errors, arrays without elements.
 * Nothing waits, nothing is recorded.
 *
 * Where a loop's bits may hang on how elements are handed to it (`exp`, `power`), only what NumPy hands it
 * in one piece is done here.
 *
 * An array that dies leaves its memory, and itself, to the next result of its size: that is warm, and
 * saves a third of the time. Four megabytes are kept at most, and none when the last block is left. */
