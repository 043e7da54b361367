/* small_views.c: parts of plain arrays by slices, and small values assigned to them, without what
 * NumPy does around them. See Note [Small] in small.c. */
#include "small/small.h"
#include "small/ways.h"

#include <numpy/arrayscalars.h>

#include <limits.h>
#include <math.h>
#include <string.h>

/* -------------------------------------------------------------------------- what a key picks */

static bool take_slice(npa_basic_part *p, PyObject *key, npy_intp extent, npy_intp stride)
{
    Py_ssize_t start, step, length = npa_slice_length(key, extent, &start, &step);
    if (length <= 0) {
        return false;
    }
    p->data += start * stride;
    p->shape[p->ndim] = length, p->strides[p->ndim++] = stride * step;
    return true;
}

static bool take_integer(npa_basic_part *p, PyObject *key, npy_intp extent, npy_intp stride)
{
    Py_ssize_t i;
    if (PyLong_CheckExact(key)) {
        i = PyLong_AsSsize_t(key);
        if (i == -1 && PyErr_Occurred()) {
            PyErr_Clear();
            return false;
        }
    } else if (PyArray_IsScalar(key, Long)) {
        i = PyArrayScalar_VAL(key, Long);
    } else {
        return false;
    }
    i += i < 0 ? extent : 0;
    p->data += i * stride;
    return i >= 0 && i < extent;
}

bool npa_find_part(PyArrayObject *a, PyObject *key, npa_basic_part *p)
{
    PyObject *const *items = &key;
    Py_ssize_t n = 1, named = 0;
    if (PyTuple_CheckExact(key)) {
        items = &PyTuple_GET_ITEM(key, 0), n = PyTuple_GET_SIZE(key);
    }
    for (Py_ssize_t k = 0; k < n; k++) {
        named += items[k] != Py_None && items[k] != Py_Ellipsis;
    }
    int ndim = PyArray_NDIM(a), axis = 0;
    if (named > ndim || ndim + n - named > NPA_SMALL_DIMS || PyArray_SIZE(a) == 0) {
        return false;
    }
    p->ndim = 0, p->data = PyArray_DATA(a);
    bool rest = false; /* the axes that nothing names follow the keys, or stand where `...` does */
    for (Py_ssize_t k = 0; k <= n; k++) {
        PyObject *item = k < n ? items[k] : Py_Ellipsis;
        if (item == Py_Ellipsis) {
            for (Py_ssize_t left = rest ? 0 : ndim - named; left > 0; left--, axis++) {
                p->shape[p->ndim] = PyArray_DIM(a, axis),
                p->strides[p->ndim++] = PyArray_STRIDE(a, axis);
            }
            if (k < n && rest) {
                return false; /* twice */
            }
            rest = true;
        } else if (item == Py_None) {
            p->shape[p->ndim] = 1, p->strides[p->ndim++] = 0;
        } else if (PySlice_Check(item)) {
            if (!take_slice(p, item, PyArray_DIM(a, axis), PyArray_STRIDE(a, axis))) {
                return false;
            }
            axis++;
        } else if (!take_integer(p, item, PyArray_DIM(a, axis), PyArray_STRIDE(a, axis))) {
            return false;
        } else {
            axis++;
        }
    }
    return p->ndim > 0;
}

/* ------------------------------------------------------------------------------------ elements */

/* Where an integer per axis leads. NULL: no such key, or no such element. */
static inline char *find_element(PyArrayObject *a, PyObject *key)
{
    npa_basic_part p = {.data = PyArray_DATA(a)};
    PyObject *const *items = &key;
    int n = 1;
    if (PyTuple_CheckExact(key)) {
        items = &PyTuple_GET_ITEM(key, 0), n = (int)PyTuple_GET_SIZE(key);
    }
    if (n != PyArray_NDIM(a) || n == 0) {
        return NULL;
    }
    for (int k = 0; k < n; k++) {
        if (!take_integer(&p, items[k], PyArray_DIM(a, k), PyArray_STRIDE(a, k))) {
            return NULL;
        }
    }
    return p.data;
}

PyObject *npa_small_element(PyObject *o, PyObject *key)
{
    PyArrayObject *a = (PyArrayObject *)o;
    char *at = PyArray_ISALIGNED(a) && npa_small_type(PyArray_DESCR(a)) ? find_element(a, key)
                                                                        : NULL;
    if (at == NULL) {
        return NULL;
    }
    PyObject *made;
#define SCALAR(name, type)                                                                        \
    made = Py##name##ArrType_Type.tp_alloc(&Py##name##ArrType_Type, 0);                           \
    if (made != NULL) {                                                                           \
        PyArrayScalar_ASSIGN(made, name, *(type *)at);                                            \
    }                                                                                             \
    return made
    switch (PyArray_TYPE(a)) {
    case NPY_DOUBLE: SCALAR(Double, double);
    case NPY_FLOAT: SCALAR(Float, float);
    case NPY_LONG: SCALAR(Long, long);
    case NPY_INT: SCALAR(Int, int);
    default: return PyArray_Scalar(at, PyArray_DESCR(a), o);
    }
}

/* A number as a double. False: NumPy's to convert. */
static inline bool as_double(PyObject *o, double *d)
{
    if (PyFloat_CheckExact(o) || PyArray_IsScalar(o, Double)) {
        *d = PyFloat_AS_DOUBLE(o);
    } else if (PyLong_CheckExact(o)) {
        *d = PyLong_AsDouble(o);
        if (*d == -1 && PyErr_Occurred()) {
            PyErr_Clear();
            return false;
        }
    } else if (PyArray_IsScalar(o, Long)) {
        *d = (double)PyArrayScalar_VAL(o, Long);
    } else if (PyArray_IsScalar(o, Int)) {
        *d = PyArrayScalar_VAL(o, Int);
    } else if (PyArray_IsScalar(o, Float)) {
        *d = PyArrayScalar_VAL(o, Float);
    } else if (PyBool_Check(o)) {
        *d = o == Py_True;
    } else {
        return false;
    }
    return true;
}

/* As a single. What overflows or underflows is NumPy's, and what would be rounded twice. */
static inline bool as_single(PyObject *o, double *d)
{
    if (!as_double(o, d)) {
        return false;
    }
    double size = fabs(*d);
    return !isfinite(*d) || size == 0 || (size >= 0x1p-126 && size <= 0x1p53);
}

/* As a whole number of at most so many: Python's and NumPy's cut what is behind the point off. */
static inline bool as_long(PyObject *o, double most, long *i)
{
    double d;
    int overflow;
    if (PyLong_CheckExact(o)) {
        *i = PyLong_AsLongAndOverflow(o, &overflow);
        return !overflow && (most > INT_MAX || *i == (int)*i);
    }
    if (PyArray_IsScalar(o, Long)) {
        *i = PyArrayScalar_VAL(o, Long);
        return most > INT_MAX;
    }
    if (PyArray_IsScalar(o, Float) || !as_double(o, &d) || !(fabs(d) < most)) {
        return false;
    }
    *i = (long)d;
    return true;
}

/* The value of an element of that type: *d if it is a double or a single, else *i. False: NumPy's
 * to convert. */
static inline bool value_of(PyObject *value, int type, double *d, long *i)
{
    switch (type) {
    case NPY_DOUBLE: return as_double(value, d);
    case NPY_FLOAT: return as_single(value, d);
    case NPY_LONG: return as_long(value, 0x1p62, i);
    case NPY_INT: return as_long(value, INT_MAX, i);
    case NPY_BOOL:
        *i = PyArray_IsScalar(value, Bool) ? PyArrayScalar_VAL(value, Bool)
             : PyBool_Check(value) || PyLong_CheckExact(value) ? PyObject_IsTrue(value)
                                                               : -1;
        return *i >= 0;
    default: return false;
    }
}

bool npa_small_put_element(PyObject *o, PyObject *key, PyObject *value)
{
    PyArrayObject *a = (PyArrayObject *)o;
    int type = PyArray_TYPE(a);
    double d = 0;
    long i = 0;
    if ((PyArray_FLAGS(a) & (NPY_ARRAY_WRITEABLE | NPA_WARN_ON_WRITE | NPY_ARRAY_ALIGNED)) !=
            (NPY_ARRAY_WRITEABLE | NPY_ARRAY_ALIGNED) ||
        !npa_small_type(PyArray_DESCR(a)) || !value_of(value, type, &d, &i)) {
        return false;
    }
    char *at = find_element(a, key);
    if (at == NULL) {
        return false;
    }
    switch (type) {
    case NPY_DOUBLE: *(double *)at = d; break;
    case NPY_LONG: *(long *)at = i; break;
    case NPY_INT: *(int *)at = (int)i; break;
    case NPY_FLOAT: *(float *)at = (float)d; break;
    default: *(npy_bool *)at = (npy_bool)i;
    }
    return true;
}

/* ------------------------------------------------------------------------------------- reading */

PyObject *npa_small_get(PyObject *o, PyObject *key)
{
    PyArrayObject *a = (PyArrayObject *)o;
    npa_basic_part p;
    if (Py_IS_TYPE(key, &PyArray_Type)) {
        return npa_small_pick(o, key);
    }
    return !npa_find_part(a, key, &p)
               ? npa_small_pick_places(o, key)
               : npa_part_view(a, &p, npa_small_ours(o));
}

/* ------------------------------------------------------------------------------------- writing */

/* Whether a cast raises no flag, so that nothing is to be told. */
static bool casts_quietly(int from, int to)
{
    bool whole = PyTypeNum_ISINTEGER(from) || from == NPY_BOOL;
    return whole ? PyTypeNum_ISINTEGER(to) || to == NPY_BOOL || to == NPY_FLOAT || to == NPY_DOUBLE
                 : from == NPY_FLOAT && to == NPY_DOUBLE;
}

static void swap(npy_intp *a, npy_intp *b)
{
    npy_intp kept = *a;
    *a = *b, *b = kept;
}

/* The last two axes change places. */
static void turn_rows(npa_space *s)
{
    int last = s->ndim - 1;
    swap(&s->shape[last], &s->shape[last - 1]);
    for (int k = 0; k < 2; k++) {
        swap(&s->of[k].steps[last], &s->of[k].steps[last - 1]);
    }
}

/* Planes in which one operand lies across the rows. */
static void copy_planes(npa_space *s, npy_intp *index, char **args, int size)
{
    int last = --s->ndim, row = last - 1;
    const npy_intp *from = s->of[0].steps, *to = s->of[1].steps;
    do {
        npa_turn(args[1], to[row], to[last], args[0], from[row], from[last], s->shape[row],
                 s->shape[last], size);
    } while (npa_next_row(s, index, args));
}

/* Elements of a type from operand 0 to operand 1, of another, perhaps. */
static void copy(npa_space *s, int size, int from_type, int to_type)
{
    npy_intp index[NPA_SMALL_DIMS] = {0};
    char *args[] = {s->of[0].data, s->of[1].data};
    npa_merge_axes(s);
    int last = s->ndim - 1;
    const npy_intp *in = s->of[0].steps + last, *out = s->of[1].steps + last;
    if (from_type == to_type && last > 0 &&
        (npa_lies_across(in[-1], *in) || npa_lies_across(out[-1], *out))) {
        if (npa_lies_across(out[-1], *out)) { /* what is written is written in order */
            turn_rows(s);
        }
        copy_planes(s, index, args, size);
        return;
    }
    npy_intp n = s->shape[last], from = s->of[0].steps[last], to = s->of[1].steps[last];
    do {
        if (from_type != to_type) {
            npa_cast(from_type, args[0], from, to_type, args[1], to, n);
        } else if (to == size) {
            npa_pack(args[1], args[0], from, n, size);
        } else {
            npa_move(args[1], to, args[0], from, n, size);
        }
    } while (npa_next_row(s, index, args));
}

void npa_small_gather(PyArrayObject *a, char *to)
{
    npa_space s = {.nargs = 2, .points = 1, .ndim = PyArray_NDIM(a)};
    npy_intp size = PyArray_ITEMSIZE(a), step = size;
    s.of[0].data = PyArray_DATA(a), s.of[1].data = to;
    for (int i = s.ndim - 1; i >= 0; step *= s.shape[i--]) {
        s.shape[i] = PyArray_DIM(a, i);
        s.of[0].steps[i] = PyArray_STRIDE(a, i), s.of[1].steps[i] = step;
    }
    int i = s.ndim - 1;
    if (i > 0 && s.shape[i] < s.shape[i - 1]) { /* rows are long */
        turn_rows(&s);
    }
    copy(&s, (int)size, PyArray_TYPE(a), PyArray_TYPE(a));
}

/* Whether no byte of the operand 1 is one of the array's. */
static bool is_apart(const npa_space *s, PyArrayObject *a)
{
    char *low = s->of[1].data, *high = low + PyArray_ITEMSIZE(a), *first, *last;
    for (int i = 0; i < s->ndim; i++) {
        npy_intp span = s->of[1].steps[i] * (s->shape[i] - 1);
        low += span < 0 ? span : 0, high += span > 0 ? span : 0;
    }
    npa_extent(a, &first, &last);
    return last <= low || high <= first;
}

/* Operand 0: the array's elements, broadcast. *same: they are those of operand 1. False: they do
 * not fit. */
static bool take_value(npa_space *s, PyArrayObject *v, bool *same)
{
    int lead = s->ndim - PyArray_NDIM(v);
    s->of[0].data = PyArray_DATA(v);
    *same = lead == 0 && s->of[0].data == s->of[1].data;
    for (int i = lead; lead >= 0 && i < s->ndim; i++) {
        npy_intp extent = PyArray_DIM(v, i - lead);
        if (extent != s->shape[i] && extent != 1) {
            return false;
        }
        s->of[0].steps[i] = extent != 1 ? PyArray_STRIDE(v, i - lead) : 0;
        *same &= extent == s->shape[i] && (extent == 1 || s->of[0].steps[i] == s->of[1].steps[i]);
    }
    return lead >= 0;
}

/* Operand 0: the array's elements, of the type *from, which are written to `a` without a word.
 * *same: they are those of operand 1. */
static bool takes_array(npa_space *s, PyArrayObject *a, PyArrayObject *value, int *from, bool *same)
{
    if (!npa_same_dtype(PyArray_DESCR(value), PyArray_DESCR(a))) {
        *from = PyArray_TYPE(value);
        if (!npa_small_type(PyArray_DESCR(value)) || !casts_quietly(*from, PyArray_TYPE(a))) {
            return false;
        }
    }
    return take_value(s, value, same) && (*same ? *from == PyArray_TYPE(a) : is_apart(s, value));
}

bool npa_puts_itself(PyArrayObject *a, PyObject *key, PyArrayObject *value)
{
    npa_basic_part p;
    if ((PyArray_FLAGS(a) & (NPY_ARRAY_WRITEABLE | NPA_WARN_ON_WRITE)) != NPY_ARRAY_WRITEABLE ||
        !npa_same_dtype(PyArray_DESCR(value), PyArray_DESCR(a)) ||
        !npa_small_type(PyArray_DESCR(a)) || !npa_find_part(a, key, &p) ||
        p.ndim != PyArray_NDIM(value) || p.data != PyArray_DATA(value)) {
        return false;
    }
    size_t bytes = sizeof *p.shape * (size_t)p.ndim;
    return memcmp(p.shape, PyArray_DIMS(value), bytes) == 0 &&
           memcmp(p.strides, PyArray_STRIDES(value), bytes) == 0;
}

bool npa_small_put(PyObject *o, PyObject *key, PyObject *value)
{
    PyArrayObject *a = (PyArrayObject *)o;
    npa_space s = {.nargs = 2, .points = 1};
    npa_basic_part p;
    bool same = false;
    int size = (int)PyArray_ITEMSIZE(a), to = PyArray_TYPE(a), from = to;
    if (Py_IS_TYPE(key, &PyArray_Type)) {
        return npa_small_put_picked(o, key, value) || npa_small_put_places(o, key, value);
    }
    if (!npa_small_type(PyArray_DESCR(a)) || !PyArray_ISALIGNED(a) ||
        (PyArray_FLAGS(a) & (NPY_ARRAY_WRITEABLE | NPA_WARN_ON_WRITE)) != NPY_ARRAY_WRITEABLE) {
        return false;
    }
    if (!npa_find_part(a, key, &p)) {
        return npa_small_put_places(o, key, value);
    }
    s.ndim = p.ndim, s.of[1].data = p.data;
    for (int i = 0; i < p.ndim; i++) {
        s.shape[i] = p.shape[i], s.of[1].steps[i] = p.strides[i];
        s.points *= p.shape[i];
    }
    if (npa_small_is_large((size_t)s.points * (size_t)size)) {
        return false;
    }
    if (!npa_is_plain(value)) {
        s.of[0].data = s.scalars[0];
        if (!npa_take_scalar(value, to, s.scalars[0])) {
            return false;
        }
    } else if (!takes_array(&s, a, (PyArrayObject *)value, &from, &same)) {
        return false;
    } else if (same) { /* x[1:] += y has written it */
        return true;
    }
    copy(&s, size, from, to);
    return true;
}
