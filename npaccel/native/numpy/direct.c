/* direct.c: calls whose arrays are all small and evaluated, or that do little with a large one.
 * NumPy runs them at once on exact views, with no Python of ours in between: it costs little, and
 * warnings name the caller's line. */
#include "numpy/numpy.h"
#include "numpy/aside.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 32 };

/* Arguments that were replaced by exact views, so that a result which is one can be given back. */
typedef struct {
    PyObject *given[MOST], *made[MOST];
    int n;
    bool apart; /* the call shows none of them in its result, nor writes any: a copy will do */
} swaps;

/* Whether its class has a say in what functions do, as ndarray and what is made of it have not. */
static bool has_a_say(PyObject *o)
{
    static PyObject *name;
    if (PyFloat_CheckExact(o) || PyLong_CheckExact(o) || o == Py_None || PyArray_Check(o) ||
        (name == NULL && (name = PyUnicode_InternFromString("__array_function__")) == NULL)) {
        return false;
    }
    return _PyType_Lookup(Py_TYPE(o), name) != NULL;
}

static int settle(PyObject *o, bool inside, bool write, bool any, PyObject **out, swaps *s);

static int settle_items(PyObject *o, bool write, bool any, PyObject **out, swaps *s)
{
    Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
    int before = s->n;
    PyObject *list = PyList_New(n);
    for (Py_ssize_t k = 0; list != NULL && k < n; k++) {
        PyObject *item;
        int status = settle(PySequence_Fast_GET_ITEM(o, k), true, write, any, &item, s);
        if (status <= 0) {
            Py_DECREF(list);
            return status;
        }
        PyList_SET_ITEM(list, k, item);
    }
    if (list != NULL && s->n == before) {
        Py_SETREF(list, Py_NewRef(o));
    } else if (list != NULL && PyTuple_CheckExact(o)) {
        Py_SETREF(list, PyList_AsTuple(list));
    }
    *out = list;
    return list != NULL ? 1 : -1;
}

/* `o` as NumPy may have it. 1: a new reference in *out; 0: large (unless `any` size will do), too
 * deep to look, or of a class that would be asked again; -1: error. */
static int settle(PyObject *o, bool inside, bool write, bool any, PyObject **out, swaps *s)
{
    if (Py_IS_TYPE(o, npa_array_type)) {
        PyArrayObject *a = (PyArrayObject *)o;
        npa_value value = {.array = a};
        if ((!any && npa_wants(&value, 1)) || s->n == MOST ||
            (!write && !s->apart && npa_is_far(a)) ||
            ((write || !s->apart) && npa_may_fetch(a, write))) {
            return 0;
        }
        PyObject *part = write ? NULL : npa_fetched(a);
        *out = part != NULL ? part : npa_touch(a, write) < 0 ? NULL : npa_exact_view(a);
        s->given[s->n] = o, s->made[s->n++] = *out;
        return *out != NULL ? 1 : -1;
    }
    if (PyArray_CheckExact(o)) {
        npa_value value = {.array = (PyArrayObject *)o};
        if (!any && npa_wants(&value, 1)) {
            return 0;
        }
        *out = npa_touch((PyArrayObject *)o, write) < 0 ? NULL : Py_NewRef(o);
        return *out != NULL ? 1 : -1;
    }
    if (npa_is_listed(o)) {
        if (Py_SIZE(o) > MOST || (inside && Py_SIZE(o) > 0)) {
            return 0;
        }
        return settle_items(o, write, any, out, s);
    }
    if ((PyDict_CheckExact(o) && PyDict_GET_SIZE(o) > 0) || has_a_say(o)) {
        return 0;
    }
    *out = Py_NewRef(o);
    return 1;
}

static PyObject *given_back(PyObject *result, const swaps *s)
{
    for (int i = 0; result != NULL && i < s->n; i++) {
        if (result == s->made[i]) {
            Py_SETREF(result, Py_NewRef(s->given[i]));
            return result;
        }
    }
    if (result != NULL && PyTuple_CheckExact(result) && Py_REFCNT(result) == 1) {
        for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(result); k++) {
            PyObject *item = PyTuple_GET_ITEM(result, k);
            for (int i = 0; i < s->n; i++) {
                if (item == s->made[i]) {
                    PyTuple_SET_ITEM(result, k, Py_NewRef(s->given[i]));
                    Py_DECREF(item);
                    break;
                }
            }
        }
    }
    return result;
}

size_t npa_any_bytes(PyObject *const *args, Py_ssize_t n)
{
    size_t most = 0;
    for (Py_ssize_t k = 0; k < n; k++) {
        size_t bytes = PyArray_Check(args[k]) ? (size_t)PyArray_NBYTES((PyArrayObject *)args[k])
                                              : 0;
        most = bytes > most ? bytes : most;
    }
    return most;
}

static bool is_out(PyObject *name)
{
    return PyUnicode_CompareWithASCIIString(name, "out") == 0;
}

static bool has_out(PyObject *names)
{
    bool found = false;
    for (Py_ssize_t i = 0; names != NULL && i < PyTuple_GET_SIZE(names); i++) {
        found |= is_out(PyTuple_GET_ITEM(names, i));
    }
    return found;
}

/* Call function(args..., names...). 1: done, *result is new; 0: not for here; -1: error set. The
 * first `written` arguments, and `out`, are touched for writing. The size of the first `any` does
 * not matter while nothing is pending; NPA_ANY_SIZE: of none, as was found before. apart: the
 * result shows no memory of the arguments. */
int npa_direct_call(PyObject *function, PyObject *const *args, Py_ssize_t n, PyObject *names,
                    Py_ssize_t written, Py_ssize_t any, bool apart, PyObject **result)
{
    PyObject *made[MOST];
    Py_ssize_t all = n + (names != NULL ? PyTuple_GET_SIZE(names) : 0), k = 0;
    swaps s = {.n = 0, .apart = apart && written == 0 && !has_out(names)};
    int status = all <= MOST;
    if (any != NPA_ANY_SIZE &&
        (npa_waiting() || npa_here != NULL || npa_threshold_here() == 0)) {
        any = 0;
    }
    for (; status > 0 && k < all; k++) {
        bool out = k >= n && is_out(PyTuple_GET_ITEM(names, k - n));
        status = settle(args[k], false, out || k < written, k < any, &made[k], &s);
    }
    if (status > 0) {
        /* Of what Python's code calls each call is looked at. */
        bool due = npa_suspended == 0 && PyCFunction_Check(function) && npa_look_due();
        npa_stretch stretch = due ? npa_stretch_begin() : (npa_stretch){0};
        *result = given_back(PyObject_Vectorcall(function, made, (size_t)n, names), &s);
        if (due) {
            npa_stretch_end(&stretch, NPA_SMALL, npa_any_bytes(made, all));
        }
        status = *result != NULL ? 1 : -1;
    } else if (k > 0) {
        k--; /* the one that failed made nothing */
    }
    for (Py_ssize_t i = 0; i < k; i++) {
        Py_DECREF(made[i]);
    }
    return status;
}

/* -------------------------------------------------------------- methods and array functions */

/* What of a call its work grows with. PICKED: as in take. FOLDED: argmin and argmax. STEPS: many
 * small ones, see at_once.c. VIEWED: nothing, of an array in C order. */
enum work { ALL, ARGUMENTS, PICKED, FOLDED, STEPS, OURS, VIEWED };

/* A method: NumPy's `original` called directly where that is possible, else ours, `slow`. Without
 * `original` it is `__array_function__(self, function, types, args, kwargs)`, or with OURS any. */
typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *original, *slow;
    const npa_small_function *small; /* `original` on small arrays; or NULL */
    npa_own *own;                    /* on what need not be shown for it; or NULL */
    int work, writes, moves; /* moves: the result has the same bits, whoever computes it */
} direct_method;

/* Whether NumPy is to do at once what would be recorded; see autotune.c. */
static bool passes(const direct_method *m, PyObject *self)
{
    return m->moves && npa_autotune_on && npa_in_block() && PyArray_Check(self) &&
           npa_autotune_passes_call(((PyMethodDescrObject *)m->original)->d_method,
                                    (size_t)PyArray_NBYTES((PyArrayObject *)self),
                                    !npa_waits((PyArrayObject *)self));
}

/* *args and **kwargs one after the other: how many, or -1 for an error; *names: of the latter, a
 * new reference. */
static Py_ssize_t flatten(PyObject *given, PyObject *kwargs, PyObject **flat, PyObject **names)
{
    Py_ssize_t n = PyTuple_GET_SIZE(given), position = 0, k = n;
    memcpy(flat, &PyTuple_GET_ITEM(given, 0), (size_t)n * sizeof *flat);
    if (PyDict_GET_SIZE(kwargs) == 0) {
        return n;
    }
    PyObject *key, *value;
    *names = PyTuple_New(PyDict_GET_SIZE(kwargs));
    while (*names != NULL && PyDict_Next(kwargs, &position, &key, &value)) {
        PyTuple_SET_ITEM(*names, k - n, Py_NewRef(key));
        flat[k++] = value;
    }
    return *names != NULL ? k : -1;
}

/* function(array, ...), of an array of ours that need not be shown for it: by NumPy. As
 * npa_direct_call. */
static int make_like(PyObject *function, PyObject *const *flat, Py_ssize_t n, Py_ssize_t k,
                     PyObject *names, PyObject **result)
{
    PyObject *given[MOST];
    memcpy(given, flat, sizeof *given * (size_t)k);
    for (Py_ssize_t i = 1; i < k; i++) {
        if (PyArray_Check(given[i])) {
            return 0;
        }
    }
    if (!Py_IS_TYPE(given[0], npa_array_type) ||
        (given[0] = npa_exact_view((PyArrayObject *)given[0])) == NULL) {
        return PyErr_Occurred() ? -1 : 0;
    }
    npa_suspended++, npa_passed++;
    *result = npa_adopted(PyObject_Vectorcall(function, given, (size_t)n, names));
    npa_suspended--, npa_passed--;
    Py_DECREF(given[0]);
    return *result != NULL ? 1 : -1;
}

/* Recorded, or done at once. As npa_direct_call. */
static int record_function(PyObject *function, PyObject *const *flat, Py_ssize_t n, Py_ssize_t k,
                           PyObject *names, PyObject **result)
{
    const npa_small_function *small = npa_stands_aside() ? npa_aside_find(function) : NULL;
    int aside = npa_aside_function(small, flat, n, names, result);
    if (aside != 0 || small != NULL) { /* its parts have ways of their own */
        return aside;
    }
    const npa_small_function *fold = npa_aside_find(function);
    *result = fold != NULL && n > 0 ? npa_fold_ours(fold, function, flat, n, names) : NULL;
    if (*result != NULL || PyErr_Occurred()) {
        return *result != NULL ? 1 : -1;
    }
    npa_recorder *record = npa_suspended == 0 ? npa_recorder_of(function, flat, k) : NULL;
    bool passed = record != NULL && npa_whole_passes(function, flat, n, k);
    int made = passed && npa_whole_looks_alone(function)
                   ? make_like(function, flat, n, k, names, result) : 0;
    if (made != 0) {
        return made;
    }
    *result = record != NULL && !passed ? record(flat, n, names) : NULL;
    if (*result != NULL || PyErr_Occurred()) {
        return *result != NULL ? 1 : -1;
    }
    size_t most = npa_most_whole(function, names);
    bool whole = passed || (most > 0 && npa_at_once(flat, k, most));
    npa_suspended += whole, npa_whole += whole, npa_passed += passed;
    int status = npa_direct_call(function, flat, n, names, whole ? n : 0, whole ? NPA_ANY_SIZE : 0,
                                 false, result);
    npa_suspended -= whole, npa_whole -= whole, npa_passed -= passed;
    *result = whole && status > 0 ? npa_adopted(*result) : *result;
    return status > 0 && *result == NULL ? -1 : status;
}

/* function(*args, **kwargs), where all arrays in it are small. As npa_direct_call. */
static int call_function(PyObject *const *args, PyObject **result)
{
    PyObject *given = args[3], *kwargs = args[4], *flat[MOST], *names = NULL;
    if (!PyTuple_CheckExact(given) || !PyDict_CheckExact(kwargs) ||
        PyTuple_GET_SIZE(given) + PyDict_GET_SIZE(kwargs) > MOST) {
        return 0;
    }
    Py_ssize_t n = PyTuple_GET_SIZE(given), all = flatten(given, kwargs, flat, &names);
    int status = all < 0 ? -1 : record_function(args[1], flat, n, all, names, result);
    Py_XDECREF(names);
    return status;
}

/* Functions whose own Python code runs on our arrays, and what it calls is recorded; the value: in
 * blocks only; None: and in no section. */
static PyObject *composites;

PyObject *npa_composites_py(PyObject *module, PyObject *dict)
{
    (void)module;
    Py_XSETREF(composites, Py_NewRef(dict));
    Py_RETURN_NONE;
}

/* Whether the function is such a one, and no class but ndarray and ours has a say. Empty arrays are
 * where that code warns by its own line, and there is nothing to win. */
static bool is_composite(PyObject *const *args)
{
    PyObject *where = composites != NULL ? PyDict_GetItemWithError(composites, args[1]) : NULL;
    bool good = where != NULL && (where == Py_False || npa_in_block()) &&
                !(where == Py_None && npa_in_section()) &&
                PyTuple_CheckExact(args[2]) && PyTuple_CheckExact(args[3]);
    for (Py_ssize_t k = 0; good && k < PyTuple_GET_SIZE(args[2]); k++) {
        PyObject *type = PyTuple_GET_ITEM(args[2], k);
        good = type == (PyObject *)&PyArray_Type || type == (PyObject *)npa_array_type;
    }
    for (Py_ssize_t k = 0; good && k < PyTuple_GET_SIZE(args[3]); k++) {
        PyObject *o = PyTuple_GET_ITEM(args[3], k);
        good = !PyArray_Check(o) || PyArray_SIZE((PyArrayObject *)o) > 0;
    }
    return good;
}

/* That code, its caller's frame the user's. */
static PyObject *compose(PyObject *const *args)
{
    static PyObject *numpys;
    if (numpys == NULL && (numpys = PyObject_GetAttrString((PyObject *)&PyArray_Type,
                                                           "__array_function__")) == NULL) {
        return NULL;
    }
    return PyObject_Vectorcall(numpys, args, 5, NULL);
}

static const char *name_of(PyObject *method)
{
    bool known = Py_IS_TYPE(method, &PyMethodDescr_Type);
    return known ? ((PyMethodDescrObject *)method)->d_method->ml_name : "";
}

/* Whether reshape or ravel gives a view: of an array in C order, in that order. */
static bool is_view(PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    bool ordered = names != NULL && PyTuple_GET_SIZE(names) == 1 &&
                   PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "order") == 0 &&
                   npa_is_text(args[n], "C");
    bool told = n > 1 && PyUnicode_Check(args[1]); /* ravel */
    return (names == NULL || ordered) && !told && PyArray_Check(args[0]) &&
           PyArray_IS_C_CONTIGUOUS((PyArrayObject *)args[0]);
}

/* The method's own way, if it has one. As npa_direct_call. */
static int by_own(const direct_method *m, PyObject *const *args, Py_ssize_t n, PyObject *names,
                  PyObject **result)
{
    *result = m->own != NULL ? m->own(NULL, args[0], args + 1, n - 1, names) : NULL;
    return *result != NULL ? 1 : PyErr_Occurred() ? -1 : 0;
}

/* A method whose original may do. As npa_direct_call. */
static int call_method(const direct_method *m, PyObject *const *args, Py_ssize_t n,
                       PyObject *names, PyObject **result)
{
    Py_ssize_t all = n + (names != NULL ? PyTuple_GET_SIZE(names) : 0), any = 0;
    int status = npa_aside_function(m->small, args, n, names, result);
    if (status == 0 && !m->moves) {
        status = by_own(m, args, n, names, result);
    }
    if (status != 0) {
        return status;
    }
    if (npa_small_folds_once(m->small)) {
        *result = npa_fold_ours(m->small, m->original, args, n, names);
        if (*result != NULL || PyErr_Occurred()) {
            return *result != NULL ? 1 : -1;
        }
    }
    if (m->work == VIEWED && is_view(args, n, names)) {
        *result = PyObject_Vectorcall(m->original, args, (size_t)n, names);
        return *result != NULL ? 1 : -1;
    }
    bool steps = m->work == STEPS &&
                 npa_at_once(args, all, npa_most_summed(NPA_WHOLE_BYTES, names));
    bool numpys = steps || passes(m, args[0]);
    if (m->moves && !numpys && (status = by_own(m, args, n, names, result)) != 0) {
        return status;
    }
    if (numpys || (m->work == FOLDED &&
                   npa_folds_at_once(name_of(m->original), args, n, names, 2, false))) {
        any = NPA_ANY_SIZE;
    } else if (m->work == ARGUMENTS ||
               (m->work == PICKED && PyArray_Check(args[0]) &&
                npa_takes_few((PyArrayObject *)args[0], args + 1, n - 1, names))) {
        any = 1;
    }
    bool parts = m->small != NULL && npa_stands_aside(); /* which have ways of their own */
    npa_suspended += numpys, npa_whole += steps;
    status = parts ? 0 : npa_direct_call(m->original, args, n, names, m->writes, any, false,
                                         result);
    npa_suspended -= numpys, npa_whole -= steps;
    return status;
}

static PyObject *direct_call(PyObject *self, PyObject *const *args, size_t nargs, PyObject *names)
{
    direct_method *m = (direct_method *)self;
    Py_ssize_t n = PyVectorcall_NARGS(nargs);
    PyObject *result;
    bool function = m->original == Py_None && m->work != OURS && n == 5 && names == NULL;
    int status = m->original != Py_None && n > 0 ? call_method(m, args, n, names, &result)
                 : function                      ? call_function(args, &result)
                                                 : 0;
    if (status != 0) {
        return status > 0 ? result : NULL;
    }
    bool composite = function && is_composite(args);
    if (PyErr_Occurred()) {
        return NULL;
    }
    int before = npa_now(NPA_RECORDING);
    PyArrayObject *used = npa_small_folds_once(m->small)
                              ? npa_begin_last_use(args, n, names, self) : npa_last_use;
    status = npa_fold_recorded(m->small, args, n, names, &result);
    if (status == 0) {
        result = composite ? compose(args) : PyObject_Vectorcall(m->slow, args, (size_t)n, names);
    }
    npa_last_use = used;
    npa_now(before);
    return npa_without(status < 0 ? NULL : result, m->work == OURS);
}

static PyObject *direct_get(PyObject *self, PyObject *object, PyObject *type)
{
    (void)type;
    return object == NULL || object == Py_None ? Py_NewRef(self) : PyMethod_New(self, object);
}

static void direct_free(PyObject *self)
{
    direct_method *m = (direct_method *)self;
    Py_DECREF(m->original), Py_DECREF(m->slow);
    PyObject_Free(self);
}

static PyObject *direct_attribute(PyObject *self, void *name)
{
    return PyObject_GetAttrString(((direct_method *)self)->slow, name);
}

static PyGetSetDef direct_getset[] = {
    {"__name__", direct_attribute, NULL, NULL, "__name__"},
    {"__qualname__", direct_attribute, NULL, NULL, "__qualname__"},
    {"__doc__", direct_attribute, NULL, NULL, "__doc__"},
    {"__module__", direct_attribute, NULL, NULL, "__module__"},
    {NULL}};
PyTypeObject npa_direct_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "npaccel._native.direct",
    .tp_basicsize = sizeof(direct_method),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_vectorcall_offset = offsetof(direct_method, call),
    .tp_call = PyVectorcall_Call,
    .tp_descr_get = direct_get,
    .tp_dealloc = direct_free,
    .tp_getset = direct_getset,
};

/* direct(original, slow, work, writes, moves) -> method */
PyObject *npa_direct_new(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *original, *slow;
    int work = ALL, writes = 0, moves = 0;
    char name[64];
    if (!PyArg_ParseTuple(args, "OO|ipp", &original, &slow, &work, &writes, &moves)) {
        return NULL;
    }
    direct_method *m = PyObject_New(direct_method, &npa_direct_type);
    if (m != NULL) {
        m->call = direct_call;
        m->original = Py_NewRef(original), m->slow = Py_NewRef(slow);
        m->work = work, m->writes = writes, m->moves = moves;
        m->small = npa_aside_find_method(original);
        snprintf(name, sizeof name, "ndarray.%s", name_of(original));
        m->own = npa_own_of_unseen(name);
    }
    if (PyErr_Occurred()) {
        Py_CLEAR(m);
    }
    return (PyObject *)m;
}
