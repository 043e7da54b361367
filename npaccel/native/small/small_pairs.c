/* small_pairs.c: functions of several small arrays, or of parts of one. */
#include "small/small.h"
#include "small/functions.h"
#include "small/ways.h"

#include <math.h>
#include <string.h>

/* The type of where's result: that of the arrays, or, without any, of Python's numbers. -1:
 * NumPy's */
static int chosen_type(PyObject *const *values, PyArrayObject *mask)
{
    int type = -1, numbers = -1;
    for (int k = 0; k < 2; k++) {
        PyArrayObject *a = (PyArrayObject *)values[k];
        if (npa_is_plain(values[k])) {
            if (!npa_small_usual(values[k]) || PyArray_NDIM(a) != PyArray_NDIM(mask) ||
                !PyArray_CompareLists(PyArray_DIMS(a), PyArray_DIMS(mask), PyArray_NDIM(a)) ||
                (type >= 0 && type != PyArray_TYPE(a))) {
                return -1;
            }
            type = PyArray_TYPE(a);
        } else if (PyFloat_CheckExact(values[k])) {
            numbers = NPY_DOUBLE;
        } else if (PyLong_CheckExact(values[k])) {
            numbers = numbers < 0 ? NPY_INTP : numbers;
        } else {
            return -1;
        }
    }
    return type >= 0 ? type : numbers;
}

/* where(mask, x, y) with arrays of one shape and type, and numbers; where(mask) */
PyObject *npa_small_where(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    if (n == 1 && npa_small_class == NULL) {
        return npa_small_nonzero(f, args, n, names);
    }
    PyArrayObject *mask = (PyArrayObject *)args[0];
    if (n != 3 || names != NULL || !npa_small_usual(args[0]) || PyArray_TYPE(mask) != NPY_BOOL) {
        return NULL;
    }
    int type = chosen_type(args + 1, mask), size = type < 0 ? 0 : npa_item_sizes[type];
    npy_intp count = PyArray_SIZE(mask), steps[4] = {1, 0, 0, size};
    char numbers[2][16] __attribute__((aligned(16))), *places[4] = {PyArray_DATA(mask)};
    /* A plain result may be large. */
    bool any = npa_small_class == NULL && !npa_passed;
    if (type < 0 || npa_small_exceeds((size_t)(any ? count : count * size))) {
        return NULL;
    }
    for (int k = 0; k < 2; k++) {
        bool array = npa_is_plain(args[k + 1]);
        if (!array && !npa_take_scalar(args[k + 1], type, numbers[k])) {
            return NULL;
        }
        places[k + 1] = array ? PyArray_DATA((PyArrayObject *)args[k + 1]) : numbers[k];
        steps[k + 1] = array ? size : 0;
    }
    PyArray_Descr *descr = PyArray_DescrFromType(type);
    PyArrayObject *made = npa_small_new(descr, PyArray_NDIM(mask), PyArray_DIMS(mask));
    Py_DECREF(descr);
    if (made != NULL) {
        places[3] = PyArray_DATA(made);
        PyThreadState *mine = npa_small_let_go(count);
        npa_select_line(places, count, steps, size);
        if (mine != NULL) {
            PyEval_RestoreThread(mine);
        }
    }
    return (PyObject *)made;
}

static const char *const ufunc_names[UFUNCS] = {"clip",      "maximum",  "minimum", "subtract",
                                                "not_equal", "multiply", "equal"};
static PyUFuncObject *ufuncs[UFUNCS];
static npa_exactness exact[UFUNCS];

void npa_small_ufunc(PyUFuncObject *u, npa_exactness how)
{
    for (int i = 0; i < UFUNCS; i++) {
        if (strcmp(ufunc_names[i], u->name) == 0) {
            ufuncs[i] = u, exact[i] = how;
        }
    }
    npa_small_fold_ufunc(u, how);
    npa_small_product_ufunc(u);
}

/* clip(a, low, high), either of which may be None */
PyObject *npa_small_clip(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)f;
    if (n != 3 || names != NULL || (args[1] == Py_None && args[2] == Py_None)) {
        return NULL;
    }
    int which = args[1] == Py_None ? UPPER : args[2] == Py_None ? LOWER : CLIP;
    PyObject *given[3] = {args[0], which == UPPER ? args[2] : args[1], args[2]}, *result;
    int count = which == CLIP ? 3 : 2;
    if (ufuncs[which] == NULL) {
        return NULL;
    }
    if (PyArray_Check(args[0])) {
        return npa_small_call(ufuncs[which], given, count, exact[which]);
    }
    given[0] = npa_small_strong(args[0]);
    result = given[0] != NULL ? npa_small_numbers(ufuncs[which], given, count, exact[which]) : NULL;
    Py_XDECREF(given[0]);
    return result;
}

/* a[1:] - a[:-1] along an axis, the last one if none is given */
PyObject *npa_small_diff(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)f;
    PyArrayObject *a = (PyArrayObject *)args[0];
    npa_space s = {.nargs = 3, .ndim = PyArray_NDIM(a)};
    int axis = s.ndim - 1;
    static const char *const words[] = {"a", "axis"};
    PyObject *given[2] = {NULL};
    if (n != 1 || !npa_small_usual(args[0]) || !npa_read_call(args, n, names, words, 2, given) ||
        (given[1] != NULL && !npa_small_axis(given[1], s.ndim, &axis))) {
        return NULL;
    }
    int which = PyArray_TYPE(a) == NPY_BOOL ? UNEQUAL : DIFFERENCE;
    const npa_way *w =
        ufuncs[which] != NULL ? npa_find_way(ufuncs[which], PyArray_TYPE(a), exact[which]) : NULL;
    if (w == NULL || w->loop == NULL || !npa_is_simple(a, w) || PyArray_DIM(a, axis) < 2) {
        return NULL;
    }
    npa_find_steps(&s, 1, a);
    memcpy(s.shape, PyArray_DIMS(a), sizeof *s.shape * (size_t)s.ndim);
    s.shape[axis]--;
    s.of[0] = s.of[1];
    s.of[0].data += PyArray_STRIDE(a, axis);
    PyArrayObject *made = npa_small_new(w->out, s.ndim, s.shape);
    if (made != NULL) {
        npa_find_steps(&s, 2, made);
        npa_merge_axes(&s);
        if ((!w->exact && s.ndim > 1) || !npa_run_quietly(w, &s)) {
            Py_CLEAR(made);
        }
    }
    return (PyObject *)made;
}

/* outer(a, b) of vectors */
PyObject *npa_small_outer(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)f;
    if (n != 2 || names != NULL || !npa_small_usual(args[0]) || !npa_small_usual(args[1]) ||
        ufuncs[PRODUCT] == NULL) {
        return NULL;
    }
    PyArrayObject *a = (PyArrayObject *)args[0], *b = (PyArrayObject *)args[1];
    const npa_way *w = npa_find_way(ufuncs[PRODUCT], PyArray_TYPE(a), exact[PRODUCT]);
    if (PyArray_NDIM(a) != 1 || PyArray_NDIM(b) != 1 || w->loop == NULL || !w->exact ||
        !npa_is_simple(a, w) || !npa_is_simple(b, w)) {
        return NULL;
    }
    npa_space s = {.ndim = 2, .nargs = 3, .shape = {PyArray_SIZE(a), PyArray_SIZE(b)}};
    if (npa_small_is_large((size_t)(s.shape[0] * s.shape[1] * w->out_size))) {
        return NULL;
    }
    PyArrayObject *made = npa_small_new(w->out, 2, s.shape);
    if (made != NULL) {
        s.of[0] = (npa_lay){PyArray_DATA(a), {w->in_size, 0}};
        s.of[1] = (npa_lay){PyArray_DATA(b), {0, w->in_size}};
        s.of[2] = (npa_lay){PyArray_DATA(made), {s.shape[1] * w->out_size, w->out_size}};
        if (!npa_run_quietly(w, &s)) {
            Py_CLEAR(made);
        }
    }
    return (PyObject *)made;
}

/* array_equal(a, b) of arrays of one type and shape */
PyObject *npa_small_equal(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)f;
    if (n != 2 || names != NULL || !npa_small_usual(args[0]) || !npa_small_usual(args[1]) ||
        ufuncs[EQUAL] == NULL ||
        !PyArray_SAMESHAPE((PyArrayObject *)args[0], (PyArrayObject *)args[1])) {
        return NULL;
    }
    PyArrayObject *same = (PyArrayObject *)npa_small_call(ufuncs[EQUAL], args, 2, exact[EQUAL]);
    if (same == NULL) {
        return NULL;
    }
    bool all = memchr(PyArray_DATA(same), 0, (size_t)PyArray_SIZE(same)) == NULL;
    Py_DECREF(same);
    return PyBool_FromLong(all);
}

/* A matrix, and one or a vector: what dot calls; or, of integers, our loop. */
static PyObject *dot_of_matrix(PyArrayObject *a, PyArrayObject *b)
{
    int ndim = PyArray_NDIM(b);
    bool known = (ndim == 1 || ndim == 2) && npa_small_type(PyArray_DESCR(a)) &&
                 npa_same_dtype(PyArray_DESCR(a), PyArray_DESCR(b)) &&
                 PyArray_DIM(b, 0) == PyArray_DIM(a, 1) && PyArray_SIZE(a) > 0 &&
                 PyArray_SIZE(b) > 0 && !npa_small_is_large((size_t)PyArray_NBYTES(b));
    if (!known || (npa_waiting() && (npa_is_pending(a) || npa_is_pending(b)))) {
        return NULL;
    }
    bool same = PyArray_ISINTEGER(a) && PyArray_IS_C_CONTIGUOUS(a) && PyArray_IS_C_CONTIGUOUS(b);
    PyObject *made = same ? npa_small_matmul((PyObject *)a, (PyObject *)b) : NULL;
    return made != NULL || PyErr_Occurred()
               ? made
               : PyArray_Return((PyArrayObject *)PyArray_MatrixProduct2((PyObject *)a,
                                                                        (PyObject *)b, NULL));
}

/* dot(a, b) */
PyObject *npa_small_dot(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    char product[16];
    PyArrayObject *of[2] = {NULL}; /* for BLAS NumPy copies what goes back */
    bool good = n == 2 && names == NULL && npa_is_plain(args[1]);
    if (good && f->what == DOT && PyArray_NDIM((PyArrayObject *)args[0]) == 2) {
        return dot_of_matrix((PyArrayObject *)args[0], (PyArrayObject *)args[1]);
    }
    for (int k = 0; good && k < 2; k++) {
        PyArrayObject *a = (PyArrayObject *)args[k];
        if (f->what == VDOT && (PyArray_ISCOMPLEX(a) || !PyArray_IS_C_CONTIGUOUS(a))) {
            break;
        }
        bool back = PyArray_NDIM(a) == 1 && PyArray_STRIDE(a, 0) < 0;
        of[k] = (PyArrayObject *)(back ? PyArray_NewCopy(a, NPY_CORDER) : Py_NewRef(args[k]));
        good = of[k] != NULL;
    }
    PyObject *result = good && of[1] != NULL && npa_multiply_vectors(of[0], of[1], product)
                           ? PyArray_Scalar(product, PyArray_DESCR(of[0]), NULL) : NULL;
    Py_XDECREF(of[0]), Py_XDECREF(of[1]);
    return result;
}

/* norm(a) of floats in C order: the root of their product with themselves */
static PyObject *norm_of_all(PyArrayObject *a)
{
    double d;
    float s;
    bool doubles = PyArray_TYPE(a) == NPY_DOUBLE;
    void *product = doubles ? (void *)&d : (void *)&s;
    npa_basic_part row = {1, PyArray_DATA(a), {PyArray_SIZE(a)}, {PyArray_ITEMSIZE(a)}};
    PyArrayObject *v = (PyArrayObject *)(PyArray_NDIM(a) == 1 ? Py_NewRef(a)
                                                              : npa_part_view(a, &row, false));
    bool done = v != NULL && npa_multiply_vectors(v, v, product);
    Py_XDECREF(v);
    if (!done) {
        return NULL;
    }
    if (doubles) {
        d = sqrt(d);
    } else {
        s = sqrtf(s);
    }
    return PyArray_Scalar(product, PyArray_DESCR(a), NULL);
}

/* norm(a, axis=...): the roots of sums of squares, which have no errors of their own */
static PyObject *norms_along(PyArrayObject *a, int axis, bool keepdims)
{
    const npa_small_how how = {.op = NPA_SUM, .axes = 1u << axis, .keepdims = keepdims};
    const npa_way *w = npa_find_way(ufuncs[PRODUCT], PyArray_TYPE(a), exact[PRODUCT]);
    PyArrayObject *squares = w != NULL && w->loop != NULL ? npa_small_alike(a) : NULL;
    if (squares == NULL) {
        return NULL;
    }
    npy_intp item = PyArray_ITEMSIZE(a);
    npa_lay of = {PyArray_DATA(a), {item}}, to = {PyArray_DATA(squares), {item}};
    npa_space s = {1, 3, {PyArray_SIZE(a)}, .points = PyArray_SIZE(a), .of = {of, of, to}};
    PyObject *sums = npa_run_quietly(w, &s) ? npa_small_fold(squares, &how) : NULL;
    Py_DECREF(squares);
    if (sums == NULL) {
        return NULL;
    }
    npa_small_roots(PyArray_TYPE(a), PyArray_DATA((PyArrayObject *)sums),
                    PyArray_SIZE((PyArrayObject *)sums));
    return sums;
}

/* norm(a), norm(a, axis=..., keepdims=...) of floats, the usual one */
PyObject *npa_small_norm(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)f;
    static const char *const known[] = {"x", "ord", "axis", "keepdims"};
    PyObject *given[4] = {NULL, Py_None, Py_None, Py_False};
    PyArrayObject *a = (PyArrayObject *)args[0];
    int type = PyArray_TYPE(a), axis;
    if (!npa_read_call(args, n, names, known, 4, given) || given[1] != Py_None ||
        (type != NPY_DOUBLE && type != NPY_FLOAT) || !npa_small_usual(args[0])) {
        return NULL;
    }
    if (given[2] == Py_None) {
        return given[3] == Py_False ? norm_of_all(a) : NULL;
    }
    bool known_axis = PyArray_NDIM(a) > 1 && npa_small_axis(given[2], PyArray_NDIM(a), &axis);
    return known_axis && PyBool_Check(given[3]) && ufuncs[PRODUCT] != NULL
               ? norms_along(a, axis, given[3] == Py_True) : NULL;
}

/* The items of a list or tuple of usual arrays that have one type, and one shape but for that
 * axis. */
static Py_ssize_t items_of(PyObject *given, int varies, PyArrayObject *const **items)
{
    Py_ssize_t n = npa_is_listed(given) ? Py_SIZE(given) : 0;
    PyArrayObject *const *of = n > 0 ? (PyArrayObject *const *)(void *)PySequence_Fast_ITEMS(given)
                                     : NULL;
    for (Py_ssize_t k = 0; k < n; k++) {
        if (!npa_small_usual((PyObject *)of[k]) ||
            !npa_same_dtype(PyArray_DESCR(of[k]), PyArray_DESCR(of[0])) ||
            PyArray_NDIM(of[k]) != PyArray_NDIM(of[0])) {
            return 0;
        }
        for (int i = 0; i < PyArray_NDIM(of[0]); i++) {
            if (i != varies && PyArray_DIM(of[k], i) != PyArray_DIM(of[0], i)) {
                return 0;
            }
        }
    }
    *items = of;
    return n;
}

/* One after the other along an axis; stacked: along a new one before it. */
static PyObject *joined(PyArrayObject *const *items, Py_ssize_t n, int axis, bool stacked)
{
    npy_intp shape[NPA_SMALL_DIMS + 1], outer = 1;
    int ndim = PyArray_NDIM(items[0]), k = 0;
    size_t bytes = 0;
    for (int i = 0; i < ndim; i++) {
        if (i == axis && stacked) {
            shape[k++] = n;
        }
        shape[k++] = PyArray_DIM(items[0], i);
        outer *= i < axis ? PyArray_DIM(items[0], i) : 1;
    }
    if (stacked && axis == ndim) {
        shape[k++] = n;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        bytes += (size_t)PyArray_NBYTES(items[i]);
        shape[axis] += stacked || i == 0 ? 0 : PyArray_DIM(items[i], axis);
    }
    PyArrayObject *made = !npa_small_is_large(bytes) && k <= NPA_SMALL_DIMS
                        ? npa_small_new(PyArray_DESCR(items[0]), k, shape) : NULL;
    npy_intp row = outer > 0 ? (npy_intp)bytes / outer : 0;
    char *to = made != NULL ? PyArray_DATA(made) : NULL;
    for (Py_ssize_t i = 0; made != NULL && outer > 0 && i < n; i++) {
        npy_intp size = PyArray_ITEMSIZE(items[i]), part = PyArray_NBYTES(items[i]) / outer;
        const char *from = PyArray_DATA(items[i]);
        if (part == size) {
            npa_move(to, row, from, size, outer, (int)size);
        }
        for (npy_intp o = 0; part != size && o < outer; o++) {
            memcpy(to + o * row, from + o * part, (size_t)part);
        }
        to += part;
    }
    return (PyObject *)made;
}

/* Whether NumPy makes an array of it first. */
static bool is_to_convert(const function *f, PyObject *o)
{
    return npa_is_listed(o) ||
           (f->what == HSTACK && (PyFloat_CheckExact(o) || PyLong_CheckExact(o)));
}

/* The same of a list whose items are lists, as arrays. NULL, perhaps without error: none is, or
 * NumPy's to do */
static PyObject *join_converted(const function *f, PyObject *const *args, Py_ssize_t n,
                                PyObject *names)
{
    PyObject *const *items = PySequence_Fast_ITEMS(args[0]), *given[2] = {NULL};
    bool any = false, good = true;
    Py_ssize_t count = Py_SIZE(args[0]);
    for (Py_ssize_t k = 0; k < count; k++) {
        any |= is_to_convert(f, items[k]);
    }
    PyObject *made = NULL, *list = any ? PyList_New(count) : NULL;
    for (Py_ssize_t k = 0; list != NULL && good && k < count; k++) {
        PyObject *one = NULL, *item = items[k];
        if (is_to_convert(f, item) && !npa_is_listed(item)) {
            one = PyTuple_Pack(1, item);
            item = one;
        }
        item = item == NULL        ? NULL
               : npa_is_listed(item) ? npa_small_of_list(item)
                                   : Py_NewRef(item);
        Py_XDECREF(one);
        good = item != NULL && PyArray_Check(item);
        PyList_SET_ITEM(list, k, item);
    }
    given[0] = list, given[1] = n > 1 || names != NULL ? args[1] : NULL;
    if (list != NULL && good) {
        made = npa_small_join(f, given, n, names);
    }
    Py_XDECREF(list);
    return made;
}

PyObject *npa_small_join(const function *f, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const char *const words[] = {"", "axis"};
    int most = 1 + (f->what <= STACK); /* those have an axis */
    PyObject *given[2] = {NULL};
    if (!npa_read_call(args, n, names, words, most, given)) {
        return NULL;
    }
    if (npa_is_listed(args[0]) && npa_small_class == NULL) {
        PyObject *made = join_converted(f, args, n, names);
        if (made != NULL || PyErr_Occurred()) {
            return made;
        }
    }
    PyObject *axis = given[1];
    if (!npa_is_listed(args[0]) || Py_SIZE(args[0]) == 0 ||
        !npa_is_plain(PySequence_Fast_ITEMS(args[0])[0])) {
        return NULL;
    }
    int ndim = PyArray_NDIM((PyArrayObject *)PySequence_Fast_ITEMS(args[0])[0]), along = 0;
    bool stacked = f->what == STACK || (f->what == VSTACK && ndim == 1);
    if (axis != NULL && !npa_small_axis(axis, ndim + stacked, &along)) {
        return NULL;
    }
    along = f->what == HSTACK && ndim > 1 ? 1 : along;
    PyArrayObject *const *items;
    Py_ssize_t count = along < ndim + stacked ? items_of(args[0], stacked ? -1 : along, &items) : 0;
    return count > 0 ? joined(items, count, along, stacked) : NULL;
}
