/* callables.c: calls of redirected functions and methods, some of which NumPy writes in Python. */
#include "numpy/numpy.h"
#include "numpy/redirect.h"

#include <string.h>

typedef struct {
    const target *t;
    PyObject *self;
    PyObject *const *args;
    Py_ssize_t n;
    PyObject *names;        /* of a fastcall */
    PyObject *tuple, *dict; /* of the other kind */
} call;

bool npa_did_own; /* the latest call */

static PyObject *asked(npa_own *own, const call *c)
{
    Py_ssize_t n = c->n, position = 0;
    if (c->dict == NULL || PyDict_GET_SIZE(c->dict) == 0) {
        return own(c->t->what, c->self, c->args, n, c->names);
    }
    PyObject *given[NPA_NESTED], *key, *value, *result = NULL, *names = PySequence_Tuple(c->dict);
    if (names != NULL && n + PyDict_GET_SIZE(c->dict) <= NPA_NESTED) {
        memcpy(given, c->args, sizeof *given * (size_t)n);
        for (Py_ssize_t k = n; PyDict_Next(c->dict, &position, &key, &value); k++) {
            given[k] = value;
        }
        result = own(c->t->what, c->self, given, n, names);
    }
    Py_XDECREF(names);
    return result;
}

static PyObject *done_by(npa_own *own, const call *c)
{
    int before = npa_now(NPA_IN_KERNELS);
    PyObject *result = own != NULL ? asked(own, c) : NULL;
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
    PyObject *result = done_by(c->t->own, c);
    return result != NULL || PyErr_Occurred() ? result : by_original(c);
}

static PyObject *counted(const call *c, PyObject *reason)
{
    const target *t = c->t;
    PyObject *result = done_by(t->unseen ? t->own : NULL, c);
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
    Py_ssize_t all = c->n + (c->names != NULL ? PyTuple_GET_SIZE(c->names) : 0);
    PyObject *shifted[NPA_NESTED];
    if (c->dict != NULL && PyDict_GET_SIZE(c->dict) > 0) {
        PyObject *tuple = PyTuple_New(c->n + c->t->method);
        for (Py_ssize_t k = 0; tuple != NULL && k < c->n + c->t->method; k++) {
            PyObject *o = k < c->t->method ? c->self : c->args[k - c->t->method];
            PyTuple_SET_ITEM(tuple, k, Py_NewRef(o));
        }
        npa_suspended++;
        *result = tuple != NULL ? npa_without_us(PyObject_Call(c->t->taker, tuple, c->dict)) : NULL;
        npa_suspended--;
        Py_XDECREF(tuple);
        *reason = *result;
        return *result == NULL || !PyUnicode_CheckExact(*result);
    }
    if (all + 1 >= NPA_NESTED) {
        *reason = PyUnicode_FromString("");
        return 0;
    }
    shifted[0] = c->self;
    memcpy(shifted + c->t->method, c->args, sizeof *c->args * (size_t)all);
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
    if (c->t->action == REDUCED && c->dict == NULL) {
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
    result = why == NULL && c->t->record != NULL ? asked(c->t->record, c) : NULL;
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
static PyObject *in_steps(const call *c, Py_ssize_t all)
{
    size_t most = npa_most_summed(NPA_WHOLE_BYTES, c->names);
    bool whole = !npa_suspended && npa_any_wide(&c->self, 1) && npa_in_block() &&
                 npa_at_once(&c->self, 1, most) && npa_at_once(c->args, all, most);
    npa_suspended += whole, npa_whole += whole;
    PyObject *result = in_numpy(c);
    npa_suspended -= whole, npa_whole -= whole;
    return whole ? npa_adopted(result) : result;
}

/* As ufunc_passes. */
static bool target_passes(const call *c, Py_ssize_t all)
{
    const target *t = c->t;
    bool fills = t->writes && c->n > 0 && ours(c->args[0]); /* in the round that made it */
    if (!npa_autotune_on || t->taker == NULL || fills) {
        return false;
    }
    bool mine = c->self != NULL && ours(c->self);
    size_t bytes = npa_most_bytes(c->args, all, &mine);
    size_t own = c->self != NULL && plain(c->self)
               ? (size_t)PyArray_NBYTES((PyArrayObject *)c->self) : 0;
    size_t made = c->n == 0 ? 0 : t->action == SHAPE ? npa_bytes_of_shape(c->args[0], NPA_ITEM)
                  : t->action == RANGE ? npa_bytes_of_range(c->args, c->n, NPA_ITEM) : 0;
    PyObject *value;
    Py_ssize_t position = 0;
    while (c->dict != NULL && PyDict_Next(c->dict, &position, NULL, &value)) {
        mine |= ours(value);
    }
    bytes = own > bytes ? own : bytes;
    bytes = made > bytes ? made : bytes;
    return t->moves && npa_autotune_passes_call(t->definition, bytes, !mine);
}

/* On small arrays, without NumPy's code around its loops, which is looked at where that is due.
 * NULL, perhaps without error: it is to be done otherwise. */
static PyObject *do_small(const npa_small_function *f, PyObject *ufunc, PyObject *const *args,
                          Py_ssize_t n, PyObject *names)
{
    npa_small_look look = npa_small_look_begin();
    PyObject *result = f != NULL ? npa_small_function_call(f, args, n, names)
                                 : npa_small_reduce(ufunc, args, n, names);
    bool mine = false, done = result != NULL;
    npa_small_look_end(&look, done, look.due && done ? npa_most_bytes(args, 1, &mine) : 0);
    return result;
}

static PyObject *small_method(const target *t, PyObject *self, PyObject *const *args, Py_ssize_t n,
                              PyObject *names)
{
    PyObject *shifted[NPA_NESTED] = {self};
    Py_ssize_t all = n + (names != NULL ? PyTuple_GET_SIZE(names) : 0);
    if (!t->method) {
        return do_small(t->small, NULL, args, n, names);
    }
    if (all + 1 >= NPA_NESTED) {
        return NULL;
    }
    for (Py_ssize_t k = 0; k < all; k++) {
        shifted[k + 1] = args[k];
    }
    return do_small(t->small, NULL, shifted, n + 1, names);
}

/* What makes a number, as a single draw, or an array of a few: nothing in NumPy's code for it is to
 * be looked at. */
static bool is_lone(const call *c)
{
    Py_ssize_t named = c->names != NULL ? PyTuple_GET_SIZE(c->names) : 0;
    bool lone = c->n <= c->t->lone;
    if (c->t->action == CONVERTED && !npa_is_large(NPA_NESTED * NPA_NESTED * NPA_ITEM)) {
        return c->names == NULL && c->n == 1 && npa_few_numbers(c->args[0], 2);
    }
    for (Py_ssize_t k = 0; lone && k < c->n; k++) {
        lone = PyFloat_CheckExact(c->args[k]) || PyLong_CheckExact(c->args[k]);
    }
    for (Py_ssize_t k = 0; lone && k < named; k++) {
        lone = c->args[c->n + k] == Py_None; /* as random() asks random_sample for */
    }
    return lone;
}

/* small_method, of a call whose arguments are given one by one. */
static PyObject *attempt_small(const call *c)
{
    if (c->dict != NULL && PyDict_GET_SIZE(c->dict) > 0) {
        return NULL;
    }
    PyObject *result = c->t->small != NULL ? small_method(c->t, c->self, c->args, c->n, c->names)
                       : c->t->action == REDUCED && c->tuple == NULL
                             ? do_small(NULL, c->self, c->args, c->n, c->names) : NULL;
    return result == NULL && !PyErr_Occurred() && is_lone(c) ? by_original(c) : result;
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

static PyObject *taken_or_passed(const call *c, Py_ssize_t all)
{
    if (!target_passes(c, all)) {
        return take(c);
    }
    npa_passed++;
    PyObject *result = looked_at(c);
    npa_passed--;
    return c->t->adopts > 1 ? npa_itself(result) : result;
}

/* A call that is not taken. NULL, perhaps without error: it may be. */
static PyObject *left(const call *c, Py_ssize_t all)
{
    const target *t = c->t;
    PyObject *result = attempt_small(c);
    if (result != NULL || PyErr_Occurred()) {
        return result;
    }
    if (t->action == SMALL) {
        return in_numpy(c);
    }
    if (t->action == STEPS) {
        return in_steps(c, all);
    }
    if (t->action == REDUCED && npa_whole > 0 && PyObject_TypeCheck(c->self, &PyUFunc_Type)) {
        int status = npa_fold_in_whole(c->self, c->args, c->n, c->names, &result);
        if (status != 0) {
            return status > 0 ? result : NULL;
        }
    }
    bool idle = npa_suspended || !npa_worth(t, c->self, c->args, c->n, all, false) ||
                npa_idle(t, c->self, c->args, c->n, c->names) || !npa_in_block();
    return idle ? not_taken(c) : NULL;
}

static PyObject *fast(const target *t, PyObject *self, PyObject *const *args, Py_ssize_t n,
                      PyObject *names)
{
    PyObject *same = npa_given_back(t, self, args, n, names);
    if (same != NULL) {
        return same;
    }
    call c = {.t = t, .self = self, .args = args, .n = n, .names = names};
    Py_ssize_t all = n + (names != NULL ? PyTuple_GET_SIZE(names) : 0);
    npa_coarse += !t->waits;
    PyObject *result = left(&c, all);
    npa_coarse -= !t->waits;
    return result != NULL || PyErr_Occurred() ? result : taken_or_passed(&c, all);
}

/* As left. */
static PyObject *left_packed(const call *c)
{
    const target *t = c->t;
    bool keywords = c->dict != NULL && PyDict_GET_SIZE(c->dict) > 0;
    PyObject *result = attempt_small(c);
    if (result != NULL || PyErr_Occurred()) {
        return result;
    }
    if (t->action == SMALL) {
        return in_numpy(c);
    }
    bool idle = npa_suspended ||
                (!npa_worth(t, c->self, c->args, c->n, c->n, keywords) &&
                 !(t->action == ARGUMENTS && keywords && npa_any_large_named(c->dict))) ||
                !npa_in_block();
    return idle ? not_taken(c) : NULL;
}

static PyObject *packed(const target *t, PyObject *self, PyObject *args, PyObject *dict)
{
    call c = {.t = t, .self = self, .tuple = args, .dict = dict};
    if (t->kind == METH_O) {
        c.args = &c.tuple, c.n = 1;
    } else if (t->kind != METH_NOARGS) {
        c.args = &PyTuple_GET_ITEM(args, 0), c.n = PyTuple_GET_SIZE(args);
    }
    npa_coarse += !t->waits;
    PyObject *result = left_packed(&c);
    npa_coarse -= !t->waits;
    return result != NULL || PyErr_Occurred() ? result : taken_or_passed(&c, c.n);
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

/* Where a function's index is, or is to be. */
uint8_t *npa_whole_place(PyObject *function)
{
    size_t i = (uintptr_t)function >> 4;
    for (;; i++) {
        uint8_t *place = &npa_whole_places[i % (4 * NPA_MOST_WHOLE)];
        if (*place == 0 || npa_wholes[*place - 1].function == function) {
            return place;
        }
    }
}

static size_t most_of(const whole *w, PyObject *names)
{
    return w->sums ? npa_most_summed(w->most, names) : w->most;
}

size_t npa_most_whole(PyObject *function, PyObject *names)
{
    uint8_t *place = npa_whole_place(function);
    const whole *w = *place != 0 ? &npa_wholes[*place - 1] : NULL;
    return w == NULL ? 0 : most_of(w, names);
}

static bool records(const whole *w, PyObject *const *args, Py_ssize_t all)
{
    return w->record != NULL &&
           !(w->idle && w->most > 0 && npa_at_once(args, all, most_of(w, NULL)));
}

npa_recorder *npa_recorder_of(PyObject *function, PyObject *const *args, Py_ssize_t all)
{
    uint8_t *place = npa_whole_place(function);
    const whole *w = *place != 0 ? &npa_wholes[*place - 1] : NULL;
    return w != NULL && records(w, args, all) ? w->record : NULL;
}

/* Whether none is an array of ours, nor lies in our memory, nor might hold one. */
static bool only_plain_arrays(PyObject *const *args, Py_ssize_t n)
{
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject *o = args[k];
        if (plain(o) ? npa_is_home(PyArray_DATA((PyArrayObject *)o))
                     : !(o == Py_None || PyBool_Check(o) || PyLong_CheckExact(o) ||
                         PyFloat_CheckExact(o))) {
            return false;
        }
    }
    return true;
}

/* Where nothing waits for its arrays, and they are not larger than that. As npa_direct_call. */
static int run_whole(const whole *w, size_t most, PyObject *const *args, Py_ssize_t n,
                     PyObject *names, PyObject **result)
{
    Py_ssize_t all = n + (names != NULL ? PyTuple_GET_SIZE(names) : 0);
    if (!npa_at_once(args, all, most)) {
        return 0;
    }
    int status = 1;
    npa_suspended++, npa_whole++;
    if (quiet() && only_plain_arrays(args, all)) {
        *result = PyObject_Vectorcall(w->function, args, (size_t)n, names); /* as a whole */
        status = *result != NULL ? 1 : -1;
    } else {
        status = npa_direct_call(w->function, args, n, names, n, NPA_ANY_SIZE, false, result);
    }
    npa_suspended--, npa_whole--;
    *result = status > 0 ? npa_adopted_each(*result) : NULL;
    return status;
}

/* As ufunc_passes. made: the bytes of a result that is larger than what it is of. */
static bool passes(const whole *w, size_t made, PyObject *const *args, Py_ssize_t all)
{
    bool mine = false;
    size_t bytes = npa_autotune_on && w->waits ? npa_most_bytes(args, all, &mine) : 0;
    bytes = made > bytes ? made : bytes;
    if (w->like && mine && bytes < npa_ours_here()) {
        return true;
    }
    return bytes > 0 && npa_autotune_on && w->waits && npa_autotune_passes_call(w, bytes, true);
}

bool npa_whole_passes(PyObject *function, PyObject *const *args, Py_ssize_t n, Py_ssize_t all)
{
    const whole *w = &npa_wholes[*npa_whole_place(function) - 1];
    return npa_in_block() && passes(w, w->repeats ? npa_repeated_bytes(args, n) : 0, args, all);
}

bool npa_whole_looks_alone(PyObject *function)
{
    return npa_wholes[*npa_whole_place(function) - 1].like;
}

/* The call is recorded, or its recorder makes the result, or it is NumPy's in a round that is.
 * False: none of these. */
static bool record_whole(const whole *w, size_t made, PyObject *const *args, Py_ssize_t n,
                         PyObject *names, PyObject **result)
{
    Py_ssize_t all = n + (names != NULL ? PyTuple_GET_SIZE(names) : 0);
    if (passes(w, made, args, all)) {
        npa_passed++;
        *result = w->small != NULL ? do_small(w->small, NULL, args, n, names) : NULL;
        bool done = *result != NULL || PyErr_Occurred() ||
                    run_whole(w, SIZE_MAX, args, n, names, result) != 0;
        npa_passed--;
        if (done) {
            return true;
        }
    }
    int before = npa_now(NPA_RECORDING);
    *result = w->record(args, n, names);
    npa_now(before);
    return *result != NULL || PyErr_Occurred();
}

/* NumPy's function, on arrays that are evaluated first. */
static PyObject *call_whole(const whole *w, PyObject *self, PyObject *const *args, size_t nargs,
                            PyObject *names)
{
    Py_ssize_t all = PyVectorcall_NARGS(nargs) + (names != NULL ? PyTuple_GET_SIZE(names) : 0);
    for (Py_ssize_t k = 0; k < all; k++) {
        if (ours(args[k])) { /* as outside a block, and back here with what is evaluated */
            return w->original(self, args, nargs, names);
        }
    }
    if (npa_settle_all(args, all, false, true) < 0) {
        return NULL;
    }
    double start = npa_seconds();
    int before = npa_now(NPA_IN_NUMPY);
    npa_suspended++;
    PyObject *result = w->original(self, args, nargs, names);
    npa_suspended--;
    npa_now(before);
    npa_count_fallback(w->name, w->reason, npa_seconds() - start);
    return npa_adopted_each(result);
}

/* What looks at an array's values once, to fold them. */
static PyObject *fold_whole(const whole *w, PyObject *self, PyObject *const *args, size_t nargs,
                            PyObject *names)
{
    Py_ssize_t n = PyVectorcall_NARGS(nargs);
    PyArrayObject *before = npa_begin_last_use(args, n, names, self);
    PyObject *result = NULL;
    int status = npa_fold_recorded(w->small, args, n, names, &result);
    result = status == 0 ? w->original(self, args, nargs, names) : result;
    npa_last_use = before;
    return result;
}

static PyObject *whole_call(const whole *w, PyObject *self, PyObject *const *args, size_t nargs,
                            PyObject *names)
{
    Py_ssize_t n = PyVectorcall_NARGS(nargs);
    Py_ssize_t all = n + (names != NULL ? PyTuple_GET_SIZE(names) : 0);
    PyObject *result = w->small == NULL ? NULL : do_small(w->small, NULL, args, n, names);
    if (result == NULL && !PyErr_Occurred() && w->small != NULL && n > 0 && ours(args[0])) {
        result = npa_fold_ours(w->small, self, args, n, names);
    }
    if (result != NULL || PyErr_Occurred()) {
        return result;
    }
    size_t made = w->repeats && npa_suspended == 0 ? npa_repeated_bytes(args, n) : 0;
    bool enough = (made > 0 && made >= npa_threshold_here()) || npa_any_large(args, all, true);
    /* What it makes on the way of narrow numbers may be large, and is read at once. */
    bool wide = !enough && npa_any_wide(args, all);
    if (w->small_only || npa_suspended || !(enough || wide) || !npa_in_block()) {
        return n > 0 && enough && npa_small_folds_once(w->small)
                   ? fold_whole(w, self, args, nargs, names)
                   : w->original(self, args, nargs, names);
    }
    if (records(w, args, all) && (enough || !w->waits) &&
        record_whole(w, made, args, n, names, &result)) {
        return result;
    }
    if (w->most > 0) {
        bool done = run_whole(w, most_of(w, names), args, n, names, &result) != 0;
        return done ? result : w->original(self, args, nargs, names);
    }
    return call_whole(w, self, args, nargs, names);
}

PyObject *npa_whole_stub(PyObject *self, PyObject *const *args, size_t nargs, PyObject *names)
{
    const whole *w = &npa_wholes[*npa_whole_place(self) - 1];
    npa_coarse += !w->waits;
    PyObject *result = whole_call(w, self, args, nargs, names);
    npa_coarse -= !w->waits;
    return result;
}
