/* callables.c: calls of redirected C functions and methods. */
#include "numpy/numpy.h"
#include "numpy/redirect.h"

#include <string.h>

typedef struct {
    const target *t;
    PyObject *self;
    PyObject *const *args; /* those that are named after those in place */
    Py_ssize_t n, all;
    PyObject *names;
    PyObject *tuple, *dict; /* of a call that was not written as a vector */
} call;

bool npa_did_own; /* the latest call */

/* Whether it is of so little that NumPy has done it before we have asked for more. */
static bool is_tiny(const call *c)
{
    enum { FEW = 1 << 7, TINY = FEW * NPA_ITEM };
    bool mine = false;
    Py_ssize_t lone = c->t->lone < c->n ? c->t->lone : c->n;
    if (lone >= 0) { /* it makes what it is told to */
        return npa_most_asked(c->args, lone, c->all) < FEW;
    }
    for (Py_ssize_t k = 0; k < c->all; k++) {
        PyObject *o = c->args[k];
        if (npa_is_listed(o) && Py_SIZE(o) > FEW) {
            return false;
        }
    }
    size_t most = npa_most_bytes(c->args, c->all, &mine),
           own = c->self != NULL ? npa_most_bytes(&c->self, 1, &mine) : 0;
    return !mine && most < TINY && own < TINY && most + own > 0;
}

static PyObject *done_by(npa_own *own, const call *c)
{
    npa_did_own = false;
    if (is_tiny(c)) {
        return NULL;
    }
    int before = npa_now(NPA_IN_KERNELS);
    PyObject *result = own(c->t->what, c->self, c->args, c->n, c->names);
    npa_did_own = result != NULL, npa_now(before);
    return result;
}

static PyObject *by_original(const call *c)
{
    void (*f)(void) = (void (*)(void))c->t->original;
    switch (c->t->kind) {
    case METH_VARARGS | METH_KEYWORDS:
        return ((PyCFunctionWithKeywords)f)(c->self, c->tuple, c->dict);
    case METH_FASTCALL | METH_KEYWORDS:
        return ((_PyCFunctionFastWithKeywords)f)(c->self, c->args, c->n, c->names);
    case METH_FASTCALL: return ((_PyCFunctionFast)f)(c->self, c->args, c->n);
    default: return ((PyCFunction)f)(c->self, c->tuple); /* VARARGS, O, NOARGS */
    }
}

static PyObject *in_numpy(const call *c)
{
    PyObject *result = NULL;
    npa_did_own = false;
    if (c->t->own != NULL && (result = done_by(c->t->own, c)) == NULL && PyErr_Occurred()) {
        return NULL;
    }
    return result != NULL ? result : by_original(c);
}

static PyObject *counted(const call *c, PyObject *reason)
{
    const target *t = c->t;
    PyObject *result = t->unseen ? done_by(t->own, c) : NULL;
    if (result != NULL || PyErr_Occurred()) {
        return result;
    }
    if ((t->method && PyArray_Check(c->self) && npa_waiting() &&
         npa_touch((PyArrayObject *)c->self, t->writes) < 0) ||
        npa_settle_all(c->args, c->n, t->writes, true) < 0) {
        return NULL;
    }
    double start = npa_seconds();
    int before = npa_now(NPA_IN_NUMPY);
    result = t->unseen ? by_original(c) : in_numpy(c);
    npa_now(before);
    if (reason != NULL && PyUnicode_GetLength(reason) > 0 && !npa_did_own) {
        npa_count_fallback(t->name, reason, npa_seconds() - start);
    }
    result = t->adopts > 1 ? npa_itself(result) : result;
    return t->adopts ? npa_adopted(result) : result;
}

/* The taker's arguments: as the call's, after the array or ufunc whose method it is. */
static int ask_target(const call *c, PyObject **result, PyObject **reason)
{
    PyObject *shifted[NPA_NESTED];
    if (c->all + 1 >= NPA_NESTED) {
        *reason = PyUnicode_FromString("");
        return 0;
    }
    shifted[0] = c->self;
    memcpy(shifted + c->t->method, c->args, sizeof *c->args * (size_t)c->all);
    return npa_ask(c->t->taker, shifted, (size_t)(c->n + c->t->method), c->names, result, reason);
}

static PyObject *looked_at(const call *c);

static PyObject *take_it(const call *c)
{
    PyObject *result, *reason = NULL;
    const char *why = NULL;
    npa_pass_because(NULL);
    if (c->t->method && PyObject_TypeCheck(c->self, &PyUFunc_Type) && c->n > 0 &&
        !npa_only_plain(c->args, 1)) {
        return in_numpy(c); /* other classes, and ours, have their say there */
    }
    if (c->t->action == REDUCED) {
        int status = npa_fold_call(c->self, c->args, c->n, c->names, &result);
        if (status != 0) {
            return status > 1 ? looked_at(c) : status > 0 ? result : NULL;
        }
        why = npa_passing_reason();
    } else if (c->t->action != RESULT && npa_asks_underflow()) {
        why = npa_underflow_asked; /* what it makes is for operations that are NumPy's */
    }
    if (why != NULL && (reason = PyUnicode_InternFromString(why)) == NULL) {
        return NULL;
    }
    result = why == NULL && c->t->record != NULL
                 ? c->t->record(c->t->what, c->self, c->args, c->n, c->names) : NULL;
    if (result != NULL || PyErr_Occurred() || (why == NULL && ask_target(c, &result, &reason))) {
        return result;
    }
    result = counted(c, reason);
    Py_DECREF(reason);
    return result;
}

static PyObject *take(const call *c)
{
    int before = npa_now(NPA_RECORDING);
    PyArrayObject *used = c->t->action != REDUCED
                              ? npa_last_use : npa_begin_last_use(c->args, c->n, c->names, c->self);
    PyObject *result = c->t->taker != NULL ? take_it(c) : counted(c, c->t->reason);
    npa_last_use = used;
    npa_now(before);
    return result;
}

/* Something small, which may still have made something large. */
static PyObject *not_taken(const call *c)
{
    bool alone = c->t->action == RESULT && c->t->taker == NULL;
    npa_suspended += alone;
    PyObject *result = looked_at(c);
    npa_suspended -= alone;
    if (result == NULL || !c->t->adopts || npa_suspended || !plain(result)) {
        return result;
    }
    PyObject *base = c->t->adopts > 1 ? PyArray_BASE((PyArrayObject *)result) : NULL;
    if (base != NULL && ours(base) && npa_in_block()) {
        return npa_itself(result);
    }
    return large(result) && npa_in_block() ? npa_adopted(result) : result;
}

/* NumPy's Python code, which may call what is redirected; not where that costs more. */
static PyObject *in_steps(const call *c)
{
    size_t most = npa_most_summed(NPA_WHOLE_BYTES, c->names);
    bool whole = !npa_suspended && npa_any_wide(&c->self, 1) && npa_in_block() &&
                 npa_at_once(&c->self, 1, most) && npa_at_once(c->args, c->all, most);
    npa_suspended += whole, npa_whole += whole;
    PyObject *result = in_numpy(c);
    npa_suspended -= whole, npa_whole -= whole;
    return whole ? npa_adopted(result) : result;
}

/* As ufunc_passes. */
static bool target_passes(const call *c)
{
    const target *t = c->t;
    bool fills = t->writes && c->n > 0 && ours(c->args[0]); /* in the round that made it */
    if (!npa_autotune_on || t->taker == NULL || fills) {
        return false;
    }
    bool mine = c->self != NULL && ours(c->self);
    size_t bytes = npa_most_bytes(c->args, c->all, &mine);
    size_t own = c->self != NULL && plain(c->self)
               ? (size_t)PyArray_NBYTES((PyArrayObject *)c->self) : 0;
    size_t made = c->n == 0 ? 0 : t->action == SHAPE ? npa_bytes_of_shape(c->args[0], NPA_ITEM)
                  : t->action == RANGE ? npa_bytes_of_range(c->args, c->n, NPA_ITEM) : 0;
    bytes = own > bytes ? own : bytes;
    bytes = made > bytes ? made : bytes;
    return t->moves && npa_autotune_passes_call(t->definition, bytes, !mine);
}

PyObject *npa_do_small(const npa_small_function *f, PyObject *ufunc, PyObject *const *args,
                       Py_ssize_t n, PyObject *names)
{
    npa_small_look look = npa_small_look_begin();
    PyObject *result = f != NULL ? npa_small_function_call(f, args, n, names)
                                 : npa_small_reduce(ufunc, args, n, names);
    bool mine = false, done = result != NULL;
    npa_small_look_end(&look, done, look.due && done ? npa_most_bytes(args, 1, &mine) : 0);
    return result;
}

static PyObject *small_method(const call *c)
{
    PyObject *shifted[NPA_NESTED];
    if (!c->t->method) {
        return npa_do_small(c->t->small, NULL, c->args, c->n, c->names);
    }
    if (c->all + 1 >= NPA_NESTED) {
        return NULL;
    }
    shifted[0] = c->self;
    for (Py_ssize_t k = 0; k < c->all; k++) {
        shifted[k + 1] = c->args[k];
    }
    return npa_do_small(c->t->small, NULL, shifted, c->n + 1, c->names);
}

/* What makes a number, as a single draw, or an array of a few: nothing in NumPy's code for it is to
 * be looked at. */
static bool is_lone(const call *c)
{
    bool lone = c->n <= c->t->lone;
    if (c->t->action == CONVERTED && !npa_is_large(NPA_NESTED * NPA_NESTED * NPA_ITEM)) {
        return c->names == NULL && c->n == 1 && npa_few_numbers(c->args[0], 2);
    }
    for (Py_ssize_t k = 0; lone && k < c->n; k++) {
        lone = PyFloat_CheckExact(c->args[k]) || PyLong_CheckExact(c->args[k]);
    }
    for (Py_ssize_t k = c->n; lone && k < c->all; k++) {
        lone = c->args[k] == Py_None; /* as random() asks random_sample for */
    }
    return lone;
}

static PyObject *attempt_small(const call *c)
{
    const target *t = c->t;
    PyObject *result = t->small != NULL ? small_method(c)
                       : t->action == REDUCED
                             ? npa_do_small(NULL, c->self, c->args, c->n, c->names) : NULL;
    bool perhaps = result == NULL && (t->lone >= 0 || t->action == CONVERTED);
    return perhaps && !PyErr_Occurred() && is_lone(c) ? by_original(c) : result;
}

static PyObject *by_numpy(const call *c)
{
    PyObject *result = npa_passed ? attempt_small(c) : NULL;
    return result != NULL || PyErr_Occurred() ? result : in_numpy(c);
}

/* in_numpy, which is looked at where it is due. */
static PyObject *looked_at(const call *c)
{
    bool due = npa_suspended == 0 && npa_look_due(), mine = false;
    if (!due) {
        npa_look_inside++;
        PyObject *result = by_numpy(c);
        npa_look_inside--;
        return result;
    }
    size_t bytes = npa_most_bytes(c->args, c->n, &mine),
           own = npa_most_bytes(&c->self, c->self != NULL, &mine);
    npa_stretch s = npa_stretch_begin();
    npa_look_inside++;
    PyObject *result = by_numpy(c);
    npa_look_inside--;
    npa_stretch_end(&s, NPA_SMALL, bytes > own ? bytes : own);
    return result;
}

static PyObject *taken_or_passed(const call *c)
{
    if (!target_passes(c)) {
        return take(c);
    }
    npa_passed++;
    PyObject *result = looked_at(c);
    npa_passed--;
    return c->t->adopts > 1 ? npa_itself(result) : result;
}

/* A call that is not taken. NULL, perhaps without error: it may be. */
static PyObject *left(const call *c)
{
    const target *t = c->t;
    PyObject *result = attempt_small(c);
    bool tried = t->small != NULL || t->action == REDUCED || t->lone >= 0;
    if (result != NULL || (tried && PyErr_Occurred())) {
        return result;
    }
    if (t->action == SMALL) {
        return in_numpy(c);
    }
    if (t->action == STEPS) {
        return in_steps(c);
    }
    if (t->action == REDUCED && npa_whole > 0 && PyObject_TypeCheck(c->self, &PyUFunc_Type)) {
        int status = npa_fold_in_whole(c->self, c->args, c->n, c->names, &result);
        if (status != 0) {
            return status > 0 ? result : NULL;
        }
    }
    bool idle = npa_suspended || !npa_worth(t, c->self, c->args, c->n, c->all) ||
                npa_idle(t, c->self, c->args, c->n, c->names) || !npa_in_block();
    return idle ? not_taken(c) : NULL;
}

static PyObject *run(const call *c)
{
    bool may_be = c->t->action == CAST || c->t->action == CONVERTED;
    PyObject *same = may_be ? npa_given_back(c->t, c->self, c->args, c->n, c->names) : NULL;
    if (same != NULL) {
        return same;
    }
    npa_coarse += !c->t->waits;
    PyObject *result = left(c);
    npa_coarse -= !c->t->waits;
    return result != NULL || PyErr_Occurred() ? result : taken_or_passed(c);
}

static PyObject *fast(const target *t, PyObject *self, PyObject *const *args, Py_ssize_t n,
                      PyObject *names)
{
    Py_ssize_t all = n + (names != NULL ? PyTuple_GET_SIZE(names) : 0);
    call c = {.t = t, .self = self, .args = args, .n = n, .all = all, .names = names};
    return run(&c);
}

/* Whether these are a dict's keys, in its order. */
static bool are_keys(PyObject *names, PyObject *dict)
{
    PyObject *key;
    Py_ssize_t position = 0, k = 0, n = names != NULL ? PyTuple_GET_SIZE(names) : 0;
    while (k < n && PyDict_Next(dict, &position, &key, NULL) &&
           key == PyTuple_GET_ITEM(names, k)) {
        k++;
    }
    return k == n && n == PyDict_GET_SIZE(dict);
}

/* Its keys, as of the latest like it; a new reference. NULL: an error */
static PyObject *names_of(PyObject *dict)
{
    enum { KNOWN = 64 };
    static PyObject *known[KNOWN];
    PyObject *first = NULL;
    Py_ssize_t position = 0;
    PyDict_Next(dict, &position, &first, NULL);
    PyObject **place = &known[((uintptr_t)first >> 4) % KNOWN];
    if (!are_keys(*place, dict)) {
        PyObject *names = PySequence_Tuple(dict);
        if (names == NULL) {
            return NULL;
        }
        Py_XSETREF(*place, names);
    }
    return Py_NewRef(*place);
}

/* With arguments that are named, as a vector's are. False: NumPy's to do; perhaps an error */
static bool unpack(call *c, PyObject **given)
{
    PyObject *key, *value;
    Py_ssize_t position = 0, all = c->n;
    if (c->n + PyDict_GET_SIZE(c->dict) > NPA_NESTED) {
        return false;
    }
    memcpy(given, c->args, sizeof *given * (size_t)c->n);
    while (PyDict_Next(c->dict, &position, &key, &value)) {
        if (!PyUnicode_Check(key)) {
            return false;
        }
        given[all++] = value;
    }
    c->args = given, c->all = all, c->names = names_of(c->dict);
    return c->names != NULL;
}

static PyObject *packed(const target *t, PyObject *self, PyObject *args, PyObject *dict)
{
    call c = {.t = t, .self = self, .tuple = args, .dict = dict};
    PyObject *given[NPA_NESTED], *result = NULL;
    if (t->kind == METH_O) {
        c.args = &c.tuple, c.n = c.all = 1;
    } else if (t->kind != METH_NOARGS) {
        c.args = &PyTuple_GET_ITEM(args, 0), c.n = c.all = PyTuple_GET_SIZE(args);
    }
    if (dict == NULL || PyDict_GET_SIZE(dict) == 0) {
        return run(&c);
    }
    if (unpack(&c, given)) {
        result = run(&c);
    } else if (!PyErr_Occurred()) {
        result = by_original(&c);
    }
    Py_XDECREF(c.names);
    return result;
}

/* A stub is told the object but not which function it stands for: one of each kind per target. */
#define STUB(i)                                                                                    \
    static PyObject *fast_##i(PyObject *s, PyObject *const *a, Py_ssize_t n, PyObject *names)      \
    {                                                                                              \
        return fast(&npa_targets[0x##i], s, a, n, names);                                          \
    }                                                                                              \
    static PyObject *bare_##i(PyObject *s, PyObject *const *a, Py_ssize_t n)                       \
    {                                                                                              \
        return fast(&npa_targets[0x##i], s, a, n, NULL);                                           \
    }                                                                                              \
    static PyObject *packed_##i(PyObject *s, PyObject *a, PyObject *d)                             \
    {                                                                                              \
        return packed(&npa_targets[0x##i], s, a, d);                                               \
    }                                                                                              \
    static PyObject *one_##i(PyObject *s, PyObject *a)                                             \
    {                                                                                              \
        return packed(&npa_targets[0x##i], s, a, NULL);                                            \
    }
#define STUBS(h)                                                                                 \
    STUB(h##0) STUB(h##1) STUB(h##2) STUB(h##3) STUB(h##4) STUB(h##5) STUB(h##6) STUB(h##7)      \
    STUB(h##8) STUB(h##9) STUB(h##a) STUB(h##b) STUB(h##c) STUB(h##d) STUB(h##e) STUB(h##f)
STUBS(0) STUBS(1) STUBS(2) STUBS(3) STUBS(4) STUBS(5) STUBS(6) STUBS(7)
STUBS(8) STUBS(9) STUBS(a) STUBS(b) STUBS(c) STUBS(d) STUBS(e) STUBS(f)
#define ANY(f) ((PyCFunction)(void (*)(void))(f))
#define ROW(i) {ANY(fast_##i), ANY(bare_##i), ANY(packed_##i), ANY(one_##i)},
#define ROWS(h)                                                                                  \
    ROW(h##0) ROW(h##1) ROW(h##2) ROW(h##3) ROW(h##4) ROW(h##5) ROW(h##6) ROW(h##7)              \
    ROW(h##8) ROW(h##9) ROW(h##a) ROW(h##b) ROW(h##c) ROW(h##d) ROW(h##e) ROW(h##f)
const PyCFunction npa_stubs[NPA_MOST_TARGETS][4] = {
    ROWS(0) ROWS(1) ROWS(2) ROWS(3) ROWS(4) ROWS(5) ROWS(6) ROWS(7)
    ROWS(8) ROWS(9) ROWS(a) ROWS(b) ROWS(c) ROWS(d) ROWS(e) ROWS(f)};
