/* small_made.c: small arrays that are made, copied, cast and shaped. */
#include "small/small.h"
#include "small/functions.h"
#include "small/ways.h"

#include <math.h>
#include <string.h>

enum { MOST_OF_RANGE = 1 << 30 };

static size_t size_of(int type) { return (size_t)PyDataType_ELSIZE(npa_small_dtype(type)); }

/* One like an array, of the type that a call may name. `words`: what of a call is known, the type's
 * place as it is; given: what it says of these. */
static PyArrayObject *alike(PyObject *const *args, Py_ssize_t n, PyObject *names,
                            const char *const *words, int place, PyObject **given)
{
    if (!npa_read_call(args, n, names, words, place + 1, given) || given[0] == NULL ||
        !npa_small_usual(given[0])) {
        return NULL;
    }
    PyArrayObject *a = (PyArrayObject *)given[0];
    bool own = given[place] == NULL || given[place] == Py_None;
    int type = own ? PyArray_TYPE(a) : npa_small_type_named(given[place]);
    if (type < 0 || npa_small_is_large((size_t)PyArray_SIZE(a) * size_of(type))) {
        return NULL;
    }
    return npa_small_new(own ? PyArray_DESCR(a) : npa_small_dtype(type), PyArray_NDIM(a),
                         PyArray_DIMS(a));
}

static const char *const as_a[] = {"a", "dtype"}, *const as_prototype[] = {"prototype", "dtype"},
                         *const as_full[] = {"a", "fill_value", "dtype"};

PyObject *npa_small_zeros(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)f;
    PyObject *given[2] = {NULL};
    PyArrayObject *made = alike(args, n, names, as_a, 1, given);
    if (made != NULL) {
        memset(PyArray_DATA(made), 0, (size_t)PyArray_NBYTES(made));
    }
    return (PyObject *)made;
}

/* n times what is there first. */
static void repeat(char *data, size_t size, size_t n)
{
    size_t done = 1;
    while (done < n) {
        size_t more = done < n - done ? done : n - done;
        memcpy(data + done * size, data, more * size);
        done += more;
    }
}

static void fill(PyArrayObject *a, const char *one)
{
    size_t size = (size_t)PyArray_ITEMSIZE(a);
    memcpy(PyArray_DATA(a), one, size);
    repeat(PyArray_DATA(a), size, (size_t)PyArray_SIZE(a));
}

/* 0 or 1, of which NumPy makes truth values; what is too large for it is an error. */
static bool is_unit(PyObject *o)
{
    int overflow = 0;
    long value = PyLong_CheckExact(o) ? PyLong_AsLongAndOverflow(o, &overflow) : -1;
    return !overflow && (value == 0 || value == 1);
}

/* `made`, which is given up where a number is not one of its type, full of that. */
static PyObject *filled(PyArrayObject *made, PyObject *value)
{
    char one[16];
    bool unit = made != NULL && PyArray_TYPE(made) == NPY_BOOL && is_unit(value);
    if (unit) {
        one[0] = PyObject_IsTrue(value) > 0;
    }
    if (made != NULL && !unit && !npa_take_scalar(value, PyArray_TYPE(made), one)) {
        Py_CLEAR(made);
    }
    if (made != NULL) {
        fill(made, one);
    }
    return (PyObject *)made;
}

PyObject *npa_small_ones(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)f;
    PyObject *given[2] = {NULL}, *one = PyLong_FromLong(1);
    PyObject *made = one != NULL ? filled(alike(args, n, names, as_a, 1, given), one) : NULL;
    Py_XDECREF(one);
    return made;
}

PyObject *npa_small_full(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)f;
    PyObject *given[3] = {NULL};
    PyArrayObject *made = alike(args, n, names, as_full, 2, given);
    if (made != NULL && given[1] == NULL) {
        Py_CLEAR(made);
    }
    return filled(made, given[1]);
}

/* copy(), flatten(): in C order; array(a): in the order that it has, of which only C's is taken */
PyObject *npa_small_copy(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    if (n != 1 || !npa_small_names_nothing(args + 1, names, "")) {
        return NULL;
    }
    PyArrayObject *a = (PyArrayObject *)args[0];
    npy_intp size = PyArray_SIZE(a);
    bool usual = npa_small_usual(args[0]);
    if (!usual && (f->what == ALIKE || PyArray_NDIM(a) == 0 || size == 0 || !PyArray_ISALIGNED(a) ||
                   PyArray_NDIM(a) > NPA_SMALL_DIMS || !npa_small_type(PyArray_DESCR(a)) ||
                   npa_waits(a))) {
        return NULL;
    }
    PyArrayObject *made = f->what == FLAT ? npa_small_new(PyArray_DESCR(a), 1, &size)
                                          : npa_small_alike(a);
    if (made != NULL && usual) {
        memcpy(PyArray_DATA(made), PyArray_DATA(a), (size_t)PyArray_NBYTES(a));
    } else if (made != NULL) {
        npa_small_gather(a, PyArray_DATA(made));
    }
    return (PyObject *)made;
}

/* Whether a name begins as those of numbers do, of which NumPy does not warn. */
static bool begins_as_a_number(PyObject *name)
{
    static const char letters[] = "?bcdfhilqpsuBDFHILPQ";
    Py_ssize_t order = PyUnicode_GET_LENGTH(name) > 1 && PyUnicode_READ_CHAR(name, 0) == '<';
    Py_UCS4 first = PyUnicode_GET_LENGTH(name) > 0 ? PyUnicode_READ_CHAR(name, order) : 0;
    return first > 0 && first < 128 && strchr(letters, (int)first) != NULL;
}

PyObject *npa_small_uninitialized(const function *f, PyObject *const *args, Py_ssize_t n,
                                  PyObject *names)
{
    (void)f;
    PyObject *given[2] = {NULL};
    return (PyObject *)alike(args, n, names, as_prototype, 1, given);
}

/* The type that a name means; -1: none of a usual number. Names as they stand in a program are one
 * object each, so they are looked up once. */
static int type_of_name(PyObject *o)
{
    enum { NAMES = 16 };
    static struct { PyObject *name; int type; } known[NAMES];
    size_t k = ((uintptr_t)o >> 4) % NAMES;
    if (!PyUnicode_CHECK_INTERNED(o) || !begins_as_a_number(o)) {
        return -1;
    }
    if (known[k].name != o) {
        PyArray_Descr *d = NULL;
        bool found = PyArray_DescrConverter(o, &d) && npa_small_type(d);
        PyErr_Clear();
        Py_XSETREF(known[k].name, Py_NewRef(o));
        known[k].type = found ? d->type_num : -1;
        Py_XDECREF(d);
    }
    return known[k].type;
}

/* The type that a dtype means which need not be looked up each time; -1: none. */
int npa_small_type_named(PyObject *o)
{
    static const int types[] = {NPY_DOUBLE, NPY_FLOAT, NPY_LONG,   NPY_INT,
                                NPY_UBYTE,  NPY_BOOL,  NPY_CDOUBLE};
    if (PyUnicode_CheckExact(o)) {
        return type_of_name(o);
    }
    if (o == (PyObject *)&PyFloat_Type) {
        return NPY_DOUBLE;
    }
    if (o == (PyObject *)&PyLong_Type) {
        return NPY_INTP;
    }
    if (o == (PyObject *)&PyBool_Type) {
        return NPY_BOOL;
    }
    if (o == (PyObject *)&PyComplex_Type) {
        return NPY_CDOUBLE;
    }
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        PyArray_Descr *d = npa_small_dtype(types[i]);
        if (o == (PyObject *)d || o == (PyObject *)d->typeobj) {
            return types[i];
        }
    }
    return -1;
}

static const char *const as_cast[] = {"", "dtype", "copy"};

/* a.astype(type), a.astype(type, copy=...), of real numbers: what can't be converted is told by
 * NumPy */
PyObject *npa_small_cast(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)f;
    PyArrayObject *a = (PyArrayObject *)args[0], *made;
    PyObject *given[3] = {NULL, NULL, Py_True};
    bool known = n <= 2 && npa_read_call(args, n, names, as_cast, 3, given) && given[1] != NULL &&
                 PyBool_Check(given[2]);
    int from = PyArray_TYPE(a), to = known ? npa_small_type_named(given[1]) : -1;
    if (from == to && given[2] == Py_False && npa_small_type(PyArray_DESCR(a))) {
        return Py_NewRef(args[0]);
    }
    if (to < 0 || !npa_small_usual(args[0]) || PyTypeNum_ISCOMPLEX(from) || to == NPY_CDOUBLE ||
        sizeof(long) != sizeof(npy_intp)) {
        return NULL;
    }
    if (from == to) {
        return npa_small_copy(f, args, 1, NULL);
    }
    PyArray_Descr *descr = PyArray_DescrFromType(to);
    made = npa_small_new(descr, PyArray_NDIM(a), PyArray_DIMS(a));
    if (made != NULL) {
        npa_clear_errors();
        npa_cast(from, PyArray_DATA(a), PyArray_ITEMSIZE(a), to, PyArray_DATA(made),
                 PyDataType_ELSIZE(descr), PyArray_SIZE(a));
        if (npa_seen_errors()) {
            Py_CLEAR(made);
        }
    }
    Py_DECREF(descr);
    return (PyObject *)made;
}

/* Extents: integers, or one tuple or list of such; the one that is -1 is what is left of `size`
 * elements, of which none is 0 (0: as many as they say). */
static int read_shape(PyObject *const *args, Py_ssize_t n, npy_intp size, npy_intp *shape)
{
    npy_intp points = 1;
    int open = -1;
    if (n == 1 && npa_is_listed(args[0])) {
        n = Py_SIZE(args[0]), args = PySequence_Fast_ITEMS(args[0]);
    }
    if (n < 1 || n > NPA_SMALL_DIMS) {
        return -1;
    }
    for (int k = 0; k < (int)n; k++) {
        int overflow = 1;
        long long extent =
            PyLong_CheckExact(args[k]) ? PyLong_AsLongLongAndOverflow(args[k], &overflow) : 0;
        if (extent == -1 && !overflow && open < 0 && size > 0) {
            open = k;
            extent = 1;
        }
        if (overflow || extent < (size > 0) || extent > MOST_OF_RANGE ||
            __builtin_mul_overflow(points, (npy_intp)extent, &points)) {
            return -1;
        }
        shape[k] = (npy_intp)extent;
    }
    if (open >= 0) {
        shape[open] = size / points;
        points *= shape[open];
    }
    return size == 0 || points == size ? (int)n : -1;
}

/* a.reshape(...) */
PyObject *npa_small_reshape(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)f;
    PyArrayObject *a = (PyArrayObject *)args[0];
    npa_basic_part p = {.data = PyArray_DATA(a)};
    bool number = PyArray_NDIM(a) == 0 && PyArray_ISALIGNED(a) && !npa_waits(a) &&
                  npa_small_type(PyArray_DESCR(a));
    p.ndim = npa_small_names_nothing(args + n, names, "copy") &&
                     (number || npa_small_usual(args[0]))
                 ? read_shape(args + 1, n - 1, PyArray_SIZE(a), p.shape)
                 : -1;
    npy_intp step = PyArray_ITEMSIZE(a);
    for (int i = p.ndim - 1; i >= 0; i--) {
        p.strides[i] = step;
        step *= p.shape[i];
    }
    size_t bytes = (size_t)(p.ndim > 0 ? p.ndim : 0) * sizeof(npy_intp);
    if (p.ndim == PyArray_NDIM(a) && memcmp(p.shape, PyArray_DIMS(a), bytes) == 0 &&
        memcmp(p.strides, PyArray_STRIDES(a), bytes) != 0) {
        /* Of axes of one element: NumPy keeps what they are, if no extent was left open */
        return NULL;
    }
    return p.ndim > 0 ? npa_part_view(a, &p, npa_small_ours(args[0])) : NULL;
}

/* a.ravel() */
PyObject *npa_small_ravel(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)f;
    PyArrayObject *a = (PyArrayObject *)args[0];
    if (n != 1 || !npa_small_names_nothing(args + 1, names, "") || !npa_small_usual(args[0])) {
        return NULL;
    }
    npa_basic_part p = {1, PyArray_DATA(a), {PyArray_SIZE(a)}, {PyArray_ITEMSIZE(a)}};
    return npa_part_view(a, &p, npa_small_ours(args[0]));
}

int npa_small_type_of_new(PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const char *const words[] = {"", "dtype", "order", "device"};
    PyObject *given[4] = {NULL};
    if (n > 3 || !npa_read_call(args, n, names, words, 4, given) ||
        (given[2] != NULL && !npa_is_text(given[2], "C")) ||
        (given[3] != NULL && given[3] != Py_None)) {
        return -1;
    }
    bool open = given[1] == NULL || given[1] == Py_None;
    return open ? NPY_DOUBLE : npa_small_type_named(given[1]);
}

/* zeros(shape), empty(shape) */
PyObject *npa_small_made(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    npy_intp shape[NPA_SMALL_DIMS], points = 1;
    int type = npa_small_type_of_new(args, n, names);
    int ndim = type >= 0 ? read_shape(args, 1, 0, shape) : -1;
    for (int i = 0; i < ndim; i++) {
        points *= shape[i];
    }
    if (ndim < 1 || npa_small_is_large((size_t)points * size_of(type))) {
        return NULL;
    }
    PyArrayObject *made = npa_small_new(npa_small_dtype(type), ndim, shape);
    if (made != NULL && f->what == ZEROS) {
        memset(PyArray_DATA(made), 0, (size_t)PyArray_NBYTES(made));
    }
    return (PyObject *)made;
}

/* copyto(array, another one like it), copyto(array, number), which `ones` and `full` end with: they
 * say that any cast is right, which none is that this does; array.fill(number). */
PyObject *npa_small_filled(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    PyArrayObject *a = (PyArrayObject *)args[0], *from = NULL;
    char one[16];
    if (n != 2 || !npa_small_usual(args[0]) ||
        (names != NULL && (PyTuple_GET_SIZE(names) != 1 ||
                           PyTuple_GET_ITEM(names, 0) != npa_small_words[CASTING] ||
                           !npa_is_text(args[2], "unsafe"))) ||
        (PyArray_FLAGS(a) & (NPY_ARRAY_WRITEABLE | NPA_WARN_ON_WRITE)) != NPY_ARRAY_WRITEABLE) {
        return NULL;
    }
    if (f->what == ASSIGNED && npa_small_usual(args[1]) && names == NULL) {
        from = (PyArrayObject *)args[1];
        if (!PyArray_SAMESHAPE(from, a) || !npa_same_dtype(PyArray_DESCR(from), PyArray_DESCR(a))) {
            return NULL;
        }
        memmove(PyArray_DATA(a), PyArray_DATA(from), (size_t)PyArray_NBYTES(a));
        Py_RETURN_NONE;
    }
    if (npa_is_plain(args[1])) {
        from = (PyArrayObject *)args[1];
        if (PyArray_NDIM(from) != 0 || PyArray_DESCR(from) != PyArray_DESCR(a) ||
            (npa_waiting() && npa_is_pending(from))) {
            return NULL;
        }
        memcpy(one, PyArray_DATA(from), (size_t)PyArray_ITEMSIZE(a));
    } else if (PyArray_TYPE(a) == NPY_BOOL && names != NULL && is_unit(args[1])) {
        one[0] = PyObject_IsTrue(args[1]) > 0;
    } else if (!npa_take_scalar(args[1], PyArray_TYPE(a), one)) {
        return NULL;
    }
    fill(a, one);
    Py_RETURN_NONE;
}

/* arange of which some are doubles: as many as NumPy counts, the second one the sum that it has,
 * the others as far apart as the first two are. */
static PyObject *range_of_doubles(PyObject *const *args, Py_ssize_t n)
{
    double of[3] = {0, 0, 1};
    for (Py_ssize_t k = 0; k < n; k++) {
        double *to = &of[n == 1 ? 1 : k];
        _Alignas(double) char one[16];
        if (!npa_take_scalar(args[k], NPY_DOUBLE, one)) {
            return NULL;
        }
        memcpy(to, one, sizeof *to);
        if (!(fabs(*to) <= MOST_OF_RANGE)) {
            return NULL;
        }
    }
    double points = ceil((of[1] - of[0]) / of[2]), second = of[0] + of[2];
    if (!(points >= 1) || !(points <= MOST_OF_RANGE) ||
        npa_small_is_large((size_t)points * sizeof(double))) {
        return NULL;
    }
    npy_intp shape = (npy_intp)points;
    PyArrayObject *made = npa_small_new(npa_small_dtype(NPY_DOUBLE), 1, &shape);
    double *to = made != NULL ? PyArray_DATA(made) : NULL, by = second - of[0];
    for (npy_intp k = 0; made != NULL && k < shape; k++) {
        to[k] = k == 1 ? second : of[0] + (double)k * by;
    }
    return (PyObject *)made;
}

/* Of whole numbers, or of what has a double in it, unless the call names it. -1: another one */
static int type_of_range(PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const char *const words[] = {"", "", "", "dtype", "device"};
    PyObject *given[5] = {NULL};
    bool whole = true, any = false;
    if (n > 3 || sizeof(long) != sizeof(npy_intp) ||
        !npa_read_call(args, n, names, words, 5, given) ||
        (given[4] != NULL && given[4] != Py_None)) {
        return -1;
    }
    for (Py_ssize_t k = 0; k < n; k++) {
        whole &= PyLong_CheckExact(args[k]);
        any |= PyFloat_Check(args[k]);
    }
    if (given[3] != NULL && given[3] != Py_None) {
        int named = npa_small_type_named(given[3]);
        return whole || named == NPY_DOUBLE ? named : -1;
    }
    return whole ? NPY_LONG : any ? NPY_DOUBLE : -1;
}

/* arange of whole numbers, or of doubles */
PyObject *npa_small_range(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)f;
    int64_t of[3] = {0, 0, 1};
    int type = type_of_range(args, n, names);
    if (type != NPY_LONG && type != NPY_INT) {
        return type == NPY_DOUBLE ? range_of_doubles(args, n) : NULL;
    }
    for (Py_ssize_t k = 0; k < n; k++) {
        int overflow = 1;
        int64_t *to = &of[n == 1 ? 1 : k];
        *to = PyLong_CheckExact(args[k]) ? PyLong_AsLongLongAndOverflow(args[k], &overflow) : 0;
        if (overflow || *to <= -MOST_OF_RANGE || *to >= MOST_OF_RANGE) {
            return NULL;
        }
    }
    int64_t way = of[2] > 0 ? 1 : -1,
            points = of[2] == 0 ? 0 : (of[1] - of[0] + of[2] - way) / of[2];
    npy_intp shape = (npy_intp)points;
    if (points < 1 || npa_small_is_large((size_t)points * sizeof(int64_t))) {
        return NULL;
    }
    int32_t narrow[3] = {(int32_t)of[0], 0, (int32_t)of[2]}; /* within MOST_OF_RANGE */
    PyArrayObject *made = npa_small_new(npa_small_dtype(type), 1, &shape);
    const char *from = type == NPY_INT ? (char *)&narrow[0] : (char *)&of[0],
               *step = type == NPY_INT ? (char *)&narrow[2] : (char *)&of[2];
    if (made != NULL) {
        npa_fill_range(type, from, step, 0, PyArray_DATA(made), PyArray_ITEMSIZE(made), points);
    }
    return (PyObject *)made;
}
