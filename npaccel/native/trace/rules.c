/* rules.c: which rule a combination of operands has; what surrounds a request: errstate, filters,
 * line. */
#include "trace/trace.h"

#include <string.h>

PyObject *npa_copy_name;

/* --------------------------------------------------------------------------------- rules */

typedef struct {
    PyObject *ufunc;
    uint64_t signature;
    npa_rule *rule; /* NULL: never recorded */
} rule_slot;
static rule_slot *rule_table;
static size_t rule_cap, rule_count;
static PyObject *rules_by_id;

static size_t rule_hash(PyObject *ufunc, uint64_t signature)
{
    uint64_t h = ((uint64_t)(uintptr_t)ufunc >> 4) ^ (signature * 0x9E3779B97F4A7C15u);
    return (size_t)(h ^ (h >> 29));
}

static rule_slot *rule_find_slot(PyObject *ufunc, uint64_t signature)
{
    size_t i = rule_hash(ufunc, signature) & (rule_cap - 1);
    while (rule_table[i].ufunc != NULL &&
           (rule_table[i].ufunc != ufunc || rule_table[i].signature != signature)) {
        i = (i + 1) & (rule_cap - 1);
    }
    return &rule_table[i];
}

static int rule_grow(void)
{
    rule_slot *old = rule_table;
    size_t n = rule_cap;
    rule_slot *fresh = calloc(n ? 2 * n : 256, sizeof *fresh);
    if (fresh == NULL) {
        return -1;
    }
    rule_table = fresh, rule_cap = n ? 2 * n : 256;
    for (size_t i = 0; i < n; i++) {
        if (old[i].ufunc != NULL) {
            *rule_find_slot(old[i].ufunc, old[i].signature) = old[i];
        }
    }
    free(old);
    return 0;
}

static PyObject *type_object(int type)
{
    switch (type) {
    case NPA_WEAK_INT: return Py_NewRef((PyObject *)&PyLong_Type);
    case NPA_WEAK_FLOAT: return Py_NewRef((PyObject *)&PyFloat_Type);
    case NPA_WEAK_COMPLEX: return Py_NewRef((PyObject *)&PyComplex_Type);
    default: return (PyObject *)PyArray_DescrFromType(type);
    }
}

static bool is_made(PyObject *ufunc)
{
    /* of frompyfunc: the table would keep the function alive */
    return Py_IS_TYPE(ufunc, &PyUFunc_Type) && ((PyUFuncObject *)ufunc)->obj != NULL;
}

/* Whether it is known what the rule of such a call is; NULL: it is never recorded. */
static bool is_known(PyObject *ufunc, uint64_t signature, npa_rule **rule)
{
    rule_slot *slot = rule_cap != 0 ? rule_find_slot(ufunc, signature) : NULL;
    if (slot == NULL || slot->ufunc == NULL) {
        return false;
    }
    *rule = slot->rule;
    return true;
}

/* Keep what the hook answered, a new reference or NULL with an error. */
static npa_rule *remember(PyObject *ufunc, uint64_t signature, PyObject *rule)
{
    if (rule == NULL) {
        return NULL;
    }
    if (rule != Py_None && !Py_IS_TYPE(rule, &npa_rule_type)) {
        PyErr_SetString(PyExc_TypeError, "the rule hook must return a Rule or None");
        Py_DECREF(rule);
        return NULL;
    }
    if (2 * (rule_count + 1) > rule_cap && rule_grow() < 0) {
        Py_DECREF(rule);
        PyErr_NoMemory();
        return NULL;
    }
    rule_slot *slot = rule_find_slot(ufunc, signature);
    slot->ufunc = Py_NewRef(ufunc), slot->signature = signature;
    slot->rule = rule == Py_None ? NULL : (npa_rule *)Py_NewRef(rule);
    rule_count++;
    Py_DECREF(rule);
    return slot->rule;
}

enum { FOLD = 16 }; /* in a signature, with the number of operands */

/* The rule for these operand types; NULL with or without error set. */
npa_rule *npa_find_rule(PyObject *ufunc, const int *types, int n, PyArrayObject *out)
{
    uint64_t signature = (uint64_t)n;
    npa_rule *known;
    for (int k = 0; k < n; k++) {
        signature |= (uint64_t)(uint8_t)types[k] << (8 + 8 * k);
    }
    signature |= (uint64_t)(uint8_t)(out != NULL ? PyArray_TYPE(out) : 255) << 56;
    if (is_known(ufunc, signature, &known)) {
        return known;
    }
    PyObject *kinds = is_made(ufunc) ? NULL : PyTuple_New(n);
    if (kinds == NULL) {
        return NULL;
    }
    for (int k = 0; k < n; k++) {
        PyTuple_SET_ITEM(kinds, k, type_object(types[k]));
    }
    bool held = npa_hold_signals();
    PyObject *rule = PyObject_CallFunction(npa_hook_rule, "OOO", ufunc, kinds,
                                           out != NULL ? (PyObject *)PyArray_DESCR(out) : Py_None);
    npa_release_signals(held);
    Py_DECREF(kinds);
    return remember(ufunc, signature, rule);
}

/* That of ufunc.reduce over elements of a type; asked: the dtype's type and 1, or 0. As above. */
npa_rule *npa_find_fold_rule(PyObject *ufunc, int type, int asked)
{
    uint64_t signature = FOLD | (uint64_t)(uint8_t)type << 8 | (uint64_t)(uint8_t)asked << 16;
    npa_rule *known;
    if (is_known(ufunc, signature, &known)) {
        return known;
    }
    if (is_made(ufunc)) {
        return NULL;
    }
    PyObject *dtype = asked > 0 ? type_object(asked - 1) : Py_NewRef(Py_None);
    bool held = npa_hold_signals();
    PyObject *rule = PyObject_CallFunction(npa_hook_fold, "ONN", ufunc, type_object(type), dtype);
    npa_release_signals(held);
    return remember(ufunc, signature, rule);
}

/* An id that is the same in every process that has this rule, unless another one has taken it: a
 * plan stored under a key lists its rules, so it is enough that this is rare. */
int npa_number_rule(npa_rule *r)
{
    uint64_t hash = 0xcbf29ce484222325u;
    const unsigned char *name = (const unsigned char *)PyUnicode_AsUTF8(r->name);
    for (; name != NULL && *name; name++) {
        hash = (hash ^ *name) * 0x100000001b3u;
    }
    hash = (hash ^ (r->kind | r->nin << 8 | r->nout << 16)) * 0x100000001b3u;
    for (int k = 0; k < r->nin + r->nout; k++) {
        hash = (hash ^ (uint64_t)r->loop_type[k]) * 0x100000001b3u;
        hash = (hash ^ (uint64_t)(k < r->nin ? 0 : r->result[k - r->nin]->type_num)) *
               0x100000001b3u;
    }
    r->id = (uint32_t)(hash >> 32 ^ hash);
    for (;; r->id++) {
        PyObject *id = PyLong_FromUnsignedLong(r->id);
        int taken = id == NULL ? -1 : PyDict_Contains(rules_by_id, id);
        int status = taken == 0 ? PyDict_SetItem(rules_by_id, id, (PyObject *)r) : taken;
        Py_XDECREF(id);
        if (taken <= 0) {
            return status;
        }
    }
}

PyObject *npa_rules_known(PyObject *self, PyObject *nothing)
{
    (void)self, (void)nothing;
    return Py_NewRef(rules_by_id);
}

/* ---------------------------------------------------------------- what surrounds a request */

PyObject *npa_errstate_var;
static PyObject *extobj_seen, *geterr, *warnings_dict, *filters_name;
static int errstate_seen;
static bool underflow_seen; /* whether it does more than ignore that */

/* NumPy's error state as it is now, without assuming the capsule's layout: ask geterr() when the
 * capsule is another one. That is Python, and Ctrl-C may come in it. */
int npa_errstate(void)
{
    enum { OF_UNDERFLOW = 2 };
    PyObject *now;
    if (PyContextVar_Get(npa_errstate_var, NULL, &now) < 0) {
        return -2;
    }
    if (now == NULL) {
        return -1;
    }
    if (now == extobj_seen) {
        Py_DECREF(now);
        return errstate_seen;
    }
    PyObject *modes = PyObject_CallNoArgs(geterr);
    if (modes == NULL || !PyDict_Check(modes)) {
        Py_XDECREF(modes), Py_DECREF(now);
        return PyErr_Occurred() ? -2 : -1;
    }
    static const char *kinds[] = {"divide", "over", "under", "invalid"};
    int state = 0;
    for (int i = 0; i < 4; i++) {
        PyObject *mode = PyDict_GetItemString(modes, kinds[i]);
        bool ignored = mode != NULL && PyUnicode_CompareWithASCIIString(mode, "ignore") == 0;
        bool warned = mode != NULL && PyUnicode_CompareWithASCIIString(mode, "warn") == 0;
        state = state < 0 || !(ignored || warned) ? -1 : state | (int)warned << (2 * i);
        underflow_seen = i == OF_UNDERFLOW ? !ignored : underflow_seen;
    }
    Py_DECREF(modes);
    Py_XSETREF(extobj_seen, now);
    errstate_seen = state;
    return state;
}

bool npa_boundscheck = true, npa_fast;
__thread signed char npa_boundscheck_here = -1;

bool npa_boundscheck_now(void)
{
    return npa_boundscheck_here >= 0 ? npa_boundscheck_here > 0 : npa_boundscheck;
}

int npa_checked_errstate(void)
{
    int state = npa_errstate();
    return state < 0 ? state : state | !npa_boundscheck_now() << 16 | npa_fast << 17;
}

/* What is told of integers is a division by 0, and what can't be represented. */
static bool of_integers(const npa_rule *rule)
{
    for (int k = 0; k < rule->nin; k++) {
        if (!PyTypeNum_ISINTEGER(rule->loop_type[k]) && !PyTypeNum_ISBOOL(rule->loop_type[k])) {
            return false;
        }
    }
    return rule->may_warn;
}

const char npa_raising[] = "errors raise, print or call (np.errstate)";
const char npa_underflow_asked[] = "underflow is asked for (np.errstate)";

bool npa_asks_underflow(void)
{
    return npa_here == NULL && !npa_match_inside() && npa_errstate() != 0 && underflow_seen;
}

/* Kernels tell no underflow. What can't underflow is no exception: beside operations that NumPy
 * does at once, recording it would only take longer. A section is recorded as a whole, and run by
 * NumPy's loops. */
int npa_errstate_of(const npa_rule *rule)
{
    int state = npa_errstate();
    if (state >= -1 && !npa_boundscheck_now() && of_integers(rule)) {
        return 0;
    }
    if (state == -1) {
        npa_pass_because(rule->may_warn ? npa_raising : NULL);
        return rule->may_warn ? -1 : 0;
    }
    if (state > 0 && rule->floating && npa_asks_underflow()) {
        npa_pass_because(npa_underflow_asked);
        return -1;
    }
    return state >= 0 && npa_fast && rule->fast ? state | NPA_FAST : state;
}

static PyObject *filters_seen, *filters_first;
static Py_ssize_t filters_size = -1;
static bool filters_error, filters_ignore;

static bool is_text(PyObject *o, const char *text)
{
    return PyUnicode_Check(o) && PyUnicode_CompareWithASCIIString(o, text) == 0;
}

bool npa_warnings_ignored(void) { return filters_ignore; }

/* Whether RuntimeWarning is an error by now; looks closer only when the filter list changed. */
int npa_warnings_are_errors(void)
{
    PyObject *list = PyDict_GetItemWithError(warnings_dict, filters_name);
    if (list == NULL || !PyList_Check(list)) {
        return PyErr_Occurred() ? -1 : 1;
    }
    Py_ssize_t n = PyList_GET_SIZE(list);
    PyObject *first = n > 0 ? PyList_GET_ITEM(list, 0) : NULL;
    if (list == filters_seen && n == filters_size && first == filters_first) {
        return filters_error;
    }
    Py_INCREF(list), Py_XINCREF(first); /* the hook is Python: they may be replaced meanwhile */
    PyObject *answer = PyObject_CallNoArgs(npa_hook_filters);
    int error = answer != NULL ? is_text(answer, "error") : -1;
    bool ignore = answer != NULL && is_text(answer, "ignore");
    Py_XDECREF(answer);
    if (error < 0) {
        Py_DECREF(list), Py_XDECREF(first);
        return -1;
    }
    Py_XSETREF(filters_seen, list);
    Py_XSETREF(filters_first, first);
    filters_size = n;
    filters_error = error, filters_ignore = ignore;
    return error;
}

int npa_rules_init(void)
{
    rules_by_id = PyDict_New();
    if (rules_by_id == NULL) {
        return -1;
    }
    PyObject *umath = PyImport_ImportModule("numpy._core.umath");
    PyObject *numpy = PyImport_ImportModule("numpy"), *warnings = PyImport_ImportModule("warnings");
    if (umath != NULL && numpy != NULL && warnings != NULL) {
        npa_errstate_var = PyObject_GetAttrString(umath, "_extobj_contextvar");
        geterr = PyObject_GetAttrString(numpy, "geterr");
        warnings_dict = Py_NewRef(PyModule_GetDict(warnings));
        filters_name = PyUnicode_InternFromString("filters");
        npa_copy_name = PyUnicode_InternFromString("copy");
    }
    Py_XDECREF(umath), Py_XDECREF(numpy), Py_XDECREF(warnings);
    return npa_errstate_var && geterr && filters_name && npa_copy_name ? 0 : -1;
}
