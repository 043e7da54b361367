/* parts.c: NumPy's methods that sort or partition each row by itself, on parts of the rows at a
 * time.
 *
 * NumPy exports no function that partitions a row, and what it gives hangs on its own steps among
 * equals. So its method itself is called on views, by threads that live as long as the call: to
 * Python they are threads like any other, and NumPy gives the interpreter lock up while it works on
 * a part. */
#define _GNU_SOURCE
#include "functions/functions.h"
#include "functions/rows.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_THREADS = 64, MOST_KTH = 64, PART = 1 << 13, NS_PER_THREAD = 500000 };
static const double CONTENDED_S = 2e-3;

typedef struct {
    _PyCFunctionFastWithKeywords method;
    PyArrayObject *array, *result; /* result NULL: it works in place */
    PyObject *const *args;
    Py_ssize_t n;
    PyObject *names;
    int axis; /* along which it is cut */
    _Atomic npy_intp next, each;
    npy_intp most; /* rows of a part */
    atomic_int failed;
} job;

/* --------------------------------------------------------------------------------- threads */

static PyArrayObject *part_of(PyArrayObject *a, int axis, npy_intp from, npy_intp count)
{
    npy_intp dims[NPA_MAX_DIMS];
    for (int i = 0; i < PyArray_NDIM(a); i++) {
        dims[i] = i == axis ? count : PyArray_DIM(a, i);
    }
    return (PyArrayObject *)npa_view_over(a, &PyArray_Type, PyArray_DESCR(a), PyArray_NDIM(a), dims,
                                          PyArray_STRIDES(a),
                                          PyArray_BYTES(a) + from * PyArray_STRIDE(a, axis),
                                          PyArray_FLAGS(a) & NPY_ARRAY_WRITEABLE);
}

static bool do_part(job *j, npy_intp from, npy_intp count)
{
    PyArrayObject *part = part_of(j->array, j->axis, from, count), *to = NULL;
    PyObject *made = part != NULL ? j->method((PyObject *)part, j->args, j->n, j->names) : NULL;
    bool good = made != NULL;
    if (good && j->result != NULL) {
        to = part_of(j->result, j->axis, from, count);
        good = to != NULL && PyArray_Check(made) &&
               PyArray_CopyInto(to, (PyArrayObject *)made) == 0;
    }
    Py_XDECREF(part), Py_XDECREF(made), Py_XDECREF(to);
    return good;
}

/* With the GIL. */
static void do_parts(job *j)
{
    npy_intp rows = PyArray_DIM(j->array, j->axis), each, from;
    while (!atomic_load(&j->failed) &&
           (each = atomic_load(&j->each), from = atomic_fetch_add(&j->next, each)) < rows) {
        if (!do_part(j, from, rows - from < each ? rows - from : each)) {
            PyErr_Clear(); /* NumPy does the whole, and tells */
            atomic_store(&j->failed, 1);
        }
    }
}

static void *help(void *context)
{
    job *j = context;
    double begin = npa_seconds();
    PyGILState_STATE state = PyGILState_Ensure();
    if (npa_seconds() - begin > CONTENDED_S) {
        atomic_store(&j->each, j->most); /* other threads run Python: rather seldom than soon */
    }
    do_parts(j);
    PyGILState_Release(state);
    return NULL;
}

static void run(job *j, int helpers)
{
    pthread_t threads[MOST_THREADS];
    int started = 0;
    while (started < helpers && npa_thread_start(&threads[started], help, j, 0) == 0) {
        started++;
    }
    do_parts(j);
    Py_BEGIN_ALLOW_THREADS
    for (int i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
    }
    Py_END_ALLOW_THREADS
}

/* ------------------------------------------------------------------------- reading the call */

static bool is_whole(PyObject *o) { return PyLong_CheckExact(o); }

static bool are_whole(PyObject *o)
{
    if (PyArray_CheckExact(o)) {
        PyArrayObject *a = (PyArrayObject *)o;
        return PyArray_ISINTEGER(a) && PyArray_NDIM(a) < 2 && PyArray_SIZE(a) <= MOST_KTH;
    }
    bool good = npa_is_listed(o) && Py_SIZE(o) <= MOST_KTH;
    for (Py_ssize_t i = 0; good && i < Py_SIZE(o); i++) {
        good = is_whole(PySequence_Fast_GET_ITEM(o, i));
    }
    return good;
}

/* The axis along which it works; -1: not a usual call. first: what comes before it. */
static int read_axis(PyArrayObject *a, PyObject *const *args, Py_ssize_t n, PyObject *names,
                     int first)
{
    PyObject *axis = n > first ? args[first] : NULL;
    Py_ssize_t all = n + (names != NULL ? PyTuple_GET_SIZE(names) : 0);
    for (Py_ssize_t i = 0; i < all; i++) {
        PyObject *name = i >= n ? PyTuple_GET_ITEM(names, i - n) : NULL;
        if (name != NULL && PyUnicode_CompareWithASCIIString(name, "axis") == 0) {
            if (axis != NULL) { /* NumPy's error */
                return -1;
            }
            axis = args[i];
        } else if (!is_whole(args[i]) && args[i] != Py_None && !PyUnicode_CheckExact(args[i]) &&
                   !PyBool_Check(args[i]) && !are_whole(args[i])) {
            return -1;
        }
    }
    long at = axis == NULL ? -1 : is_whole(axis) ? PyLong_AsLong(axis) : PyArray_NDIM(a);
    at += at < 0 ? PyArray_NDIM(a) : 0;
    PyErr_Clear();
    return at >= 0 && at < PyArray_NDIM(a) ? (int)at : -1;
}

/* Whether each element lies at a place of its own, as far as strides show at once. */
static bool is_apart(PyArrayObject *a)
{
    npy_intp covered = PyArray_ITEMSIZE(a);
    unsigned used = 0;
    for (int k = 0; k < PyArray_NDIM(a); k++) {
        int next = -1;
        for (int i = 0; i < PyArray_NDIM(a); i++) {
            if (!(used & 1u << i) &&
                (next < 0 || llabs(PyArray_STRIDE(a, i)) < llabs(PyArray_STRIDE(a, next)))) {
                next = i;
            }
        }
        used |= 1u << next;
        if (PyArray_DIM(a, next) > 1) {
            if (llabs(PyArray_STRIDE(a, next)) < covered) {
                return false;
            }
            covered = llabs(PyArray_STRIDE(a, next)) * PyArray_DIM(a, next);
        }
    }
    return true;
}

/* The first other axis that is long enough, or the longest. */
static int axis_to_cut(PyArrayObject *a, int along, int threads)
{
    int best = along == 0 ? 1 : 0;
    for (int i = 0; i < PyArray_NDIM(a) && PyArray_DIM(a, best) < 4 * threads; i++) {
        best = i != along && PyArray_DIM(a, i) > PyArray_DIM(a, best) ? i : best;
    }
    return best;
}

/* What may be cut at all, by this program. */
static bool is_usual(PyArrayObject *a, bool writes)
{
    int type = PyArray_TYPE(a), ndim = PyArray_NDIM(a);
    bool mine = PyArray_CheckExact((PyObject *)a) || Py_IS_TYPE(a, npa_array_type);
    bool known = PyTypeNum_ISNUMBER(type) || PyTypeNum_ISBOOL(type) || PyTypeNum_ISDATETIME(type);
    bool open = !writes ||
                (PyArray_ISWRITEABLE(a) && !(PyArray_FLAGS(a) & NPA_WARN_ON_WRITE) && is_apart(a));
    return mine && known && open && ndim >= 2 && ndim <= NPA_MAX_DIMS && npa_here == NULL &&
           PyInterpreterState_Get() == PyInterpreterState_Main();
}

/* NULL: error set. NumPy is to write it. */
static PyObject *shown_result(PyArrayObject *a)
{
    char *place;
    PyObject *made = npa_new_result(NPY_INTP, PyArray_NDIM(a), PyArray_DIMS(a), &place);
    if (made != NULL && npa_touch((PyArrayObject *)made, true) < 0) {
        Py_CLEAR(made);
    }
    return made;
}

/* NumPy warns of truth values as places: once, not of each part. */
static bool has_truth(PyObject *places)
{
    bool many = npa_is_listed(places);
    for (Py_ssize_t i = 0; many && i < PySequence_Fast_GET_SIZE(places); i++) {
        if (PyBool_Check(PySequence_Fast_GET_ITEM(places, i))) {
            return true;
        }
    }
    return PyBool_Check(places) || PyArray_IsScalar(places, Bool) ||
           (PyArray_Check(places) && PyArray_ISBOOL((PyArrayObject *)places));
}

/* Where processors have other work to do, all threads take longer than NumPy, for what is put
 * together. */
static npa_choice *find_choice(void *method, PyArrayObject *a, int along, int cut)
{
    struct {
        uintptr_t method;
        npy_intp type, along, cut, size, length;
    } of = {(uintptr_t)method, PyArray_TYPE(a), along, cut,
            63 - __builtin_clzll((unsigned long long)PyArray_SIZE(a)),
            63 - __builtin_clzll((unsigned long long)PyArray_DIM(a, along))};
    return npa_rows_choice(npa_hash((char *)&of, sizeof of));
}

/* seconds: of all elements, of which there are about as many in all calls of a kind; 0: not
 * measured */
static void note_time(npa_choice *c, enum npa_way way, PyArrayObject *a, double seconds)
{
    enum { ELEMENTS = 1024 };
    double ns = 1e9 * ELEMENTS * seconds / (double)PyArray_SIZE(a);
    if (npa_choice_took(c, &npa_rows_rules, way, (uint64_t)ns, seconds > 0)) {
        npa_choice_decide(c, &npa_rows_rules, true);
    }
}

/* By NumPy, at a turn of a trial. */
static PyObject *by_method(const char *name, const job *j)
{
    double begin = npa_seconds();
    PyObject *result = j->method((PyObject *)j->array, j->args, j->n, j->names),
             *text = result != NULL ? PyUnicode_InternFromString(name) : NULL;
    if (result != NULL &&
        (text == NULL || npa_note_fallback(text, "sorting", npa_seconds() - begin) < 0)) {
        PyErr_Clear(); /* it is only not counted */
    }
    Py_XDECREF(text);
    return result;
}

static PyObject *by_all(job *j, bool makes, int threads)
{
    PyObject *result = makes ? shown_result(j->array) : Py_NewRef(Py_None);
    npy_intp rows = PyArray_DIM(j->array, j->axis),
             each = (npy_intp)(PART / (PyArray_SIZE(j->array) / rows)) + 1;
    j->most = (rows + threads - 1) / threads;
    atomic_store(&j->each, each < j->most ? each : j->most);
    if (result != NULL) {
        j->result = makes ? (PyArrayObject *)result : NULL;
        npa_pool_count_job();
        run(j, threads - 1);
    }
    if (atomic_load(&j->failed)) {
        Py_CLEAR(result);
    }
    return result;
}

/* Times of NumPy's for an element, where it has vectors; along: the first argument may be the axis,
 * else it says which elements. */
typedef struct {
    const char *name;
    double ns;
    bool makes, along;
} method;

static PyObject *by_turns(const method *m, job *j, npa_choice *c, int threads)
{
    enum npa_way way = npa_choice_way(c, &npa_rows_rules);
    if (way == NPA_WAY_USUAL && !c->on_trial) {
        note_time(c, way, j->array, 0);
        return NULL;
    }
    if (npa_touch(j->array, !m->makes) < 0) {
        return NULL;
    }
    double begin = npa_seconds();
    PyObject *result = way == NPA_WAY_USUAL ? by_method(m->name, j)
                                            : by_all(j, m->makes, threads);
    note_time(c, way, j->array, result != NULL ? npa_seconds() - begin : 0);
    return result;
}

static PyObject *on_parts(const method *m, void *f, PyObject *self, PyObject *const *args,
                          Py_ssize_t n, PyObject *names)
{
    PyArrayObject *a = (PyArrayObject *)self;
    int size = npa_pool_size(), kth = !m->along,
        wanted = (int)fmin(m->ns * (double)PyArray_SIZE(a) / NS_PER_THREAD, MOST_THREADS);
    int threads = wanted < size ? wanted : size;
    if (threads < 2 || f == NULL || n < kth || !is_usual(a, !m->makes) ||
        (kth > 0 && has_truth(args[0]))) {
        return NULL;
    }
    int axis = read_axis(a, args, n, names, kth),
        cut = axis >= 0 ? axis_to_cut(a, axis, threads) : 0;
    if (axis < 0 || PyArray_DIM(a, axis) < 2 || PyArray_DIM(a, cut) < 2) {
        return NULL;
    }
    job j = {.method = (_PyCFunctionFastWithKeywords)(uintptr_t)f, .array = a, .args = args,
             .n = n, .names = names, .axis = cut};
    return by_turns(m, &j, find_choice(f, a, axis, cut), threads);
}

PyObject *npa_partition_parts(void *what, PyObject *self, PyObject *const *args, Py_ssize_t n,
                              PyObject *names)
{
    static const method m = {"ndarray.partition", 4, false, false};
    return on_parts(&m, what, self, args, n, names);
}

PyObject *npa_argpartition_parts(void *what, PyObject *self, PyObject *const *args, Py_ssize_t n,
                                 PyObject *names)
{
    static const method m = {"ndarray.argpartition", 4, true, false};
    return on_parts(&m, what, self, args, n, names);
}

PyObject *npa_argsort_parts(void *what, PyObject *self, PyObject *const *args, Py_ssize_t n,
                            PyObject *names)
{
    static const method m = {"ndarray.argsort", 15, true, true};
    return on_parts(&m, what, self, args, n, names);
}

PyObject *npa_sort_parts(void *what, PyObject *self, PyObject *const *args, Py_ssize_t n,
                         PyObject *names)
{
    static const method m = {"ndarray.sort", 10, false, true};
    return on_parts(&m, what, self, args, n, names);
}
